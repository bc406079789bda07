"""Optional packages that are missing, or that are there and cannot be imported."""

from __future__ import annotations

import pytest

from lm_factuality.ground import packages
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import need


def need_counter() -> None:
    """Import the package ``wordcount_x``, which belongs to the extra ``generate``."""
    need("wordcount_x", "a rule", "generate")


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    with pytest.raises(
        ConfigError,
        match=r"a rule needs wordcount_x, .*No module named 'wordcount_x'\): pip install",
    ):
        need_counter()


def test_a_missing_extra_is_one_line_with_all_its_missing_packages(monkeypatch):
    declared = [
        "wordcount_x>=1; extra == 'generate'",
        "lm-factuality[small]; extra == 'generate'",
        "sentence_x; extra == 'small'",
        "pytest; extra == 'generate'",
        "another_x; extra == 'ray'",
        "base_x",
    ]
    monkeypatch.setattr(packages, "requires", lambda name: declared)

    with pytest.raises(ConfigError) as raised:
        need_counter()

    assert str(raised.value).endswith(
        "pip install 'lm-factuality[generate]', which installs sentence_x, wordcount_x"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(
            "import no_such_part_x",
            r"wordcount_x, .*\(No module named 'no_such_part_x'\): pip",
            id="a package that it needs is missing",
        ),
        pytest.param(
            "from json import no_such_name",
            r"no_such_name.*: pip install 'lm-factuality\[generate\]'",
            id="a package that it needs is of another version",
        ),
    ],
)
def test_a_package_that_cannot_be_imported_is_named_with_the_cause(
    tmp_path, monkeypatch, source, message
):
    (tmp_path / "wordcount_x.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(ConfigError, match=message):
        need_counter()
