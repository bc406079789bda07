from pathlib import Path

import pytest

from lm_factuality.ground.errors import ConfigError
from tests.conftest import run_command


def test_no_results_there(tmp_path: Path) -> None:
    from lm_factuality.ground.errors import DataError

    with pytest.raises(DataError, match="no results_"):
        run_command(
            "export",
            "hub",
            str(tmp_path),
            "--out",
            str(tmp_path / "out"),
        )


def test_a_sources_name_needs_its_address(tmp_path: Path) -> None:
    results = tmp_path / "results_2026-01-01T00-00-00.0.json"
    results.write_text('{"results": {}, "configs": {}}')
    with pytest.raises(ConfigError, match="--source-url"):
        run_command(
            "export", "hub", str(results), "--source-name", "Report", "--out", str(tmp_path / "out")
        )
