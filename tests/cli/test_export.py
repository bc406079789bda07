import argparse
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.cli.results import export, export_options
from lm_factuality.ground.errors import ConfigError


@pytest.fixture
def parse() -> Any:
    parser = argparse.ArgumentParser()
    export_options(parser)
    return parser.parse_args


def test_no_results_there(parse: Any, tmp_path: Path) -> None:
    from lm_factuality.ground.errors import DataError

    parsed = parse(["every-eval-ever", str(tmp_path), "--organization", "A Lab", "--out", str(tmp_path / "out")])
    with pytest.raises(DataError, match="no results_"):
        export(parsed)


def test_a_sources_name_needs_its_address(parse: Any, tmp_path: Path) -> None:
    results = tmp_path / "results_2026-01-01T00-00-00.0.json"
    results.write_text('{"results": {}, "configs": {}}')
    parsed = parse(["hub", str(results), "--source-name", "Report", "--out", str(tmp_path / "out")])
    with pytest.raises(ConfigError, match="--source-url"):
        export(parsed)
