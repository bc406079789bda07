"""Packages that are not there, and those that are and cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import need


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            None,
            r"a rule needs wordcount_x, which is not installed: pip install 'lm-factuality\[generate\]'",
        ),
        (
            "import no_such_part_x",
            r"needs wordcount_x, which cannot be imported \(No module named 'no_such_part_x'\): pip install",
        ),
        (
            "from json import no_such_name",
            "needs wordcount_x, which cannot be imported .*no_such_name.*--force-reinstall wordcount_x",
        ),
    ],
)
def test_what_is_wrong_with_a_package_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, message: str
) -> None:
    if source is not None:
        (tmp_path / "wordcount_x.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=message):
        need("wordcount_x", "a rule", "generate")
