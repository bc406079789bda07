"""Packages that are not there, and those that are and cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import need


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, r"a rule needs wordcount_x, .*No module named 'wordcount_x'\): pip install"),
        ("import no_such_part_x", r"wordcount_x, .*\(No module named 'no_such_part_x'\): pip"),
        (
            "from json import no_such_name",
            r"no_such_name.*: pip install 'lm-factuality\[generate\]'",
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
