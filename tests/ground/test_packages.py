"""Optional packages that are missing, or that are there and cannot be imported."""

from __future__ import annotations

import pytest

from lm_factuality.ground import packages
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import need


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    """A user sees what needs the package and can copy the command."""
    message = r"a rule needs wordcount_x, .*No module named 'wordcount_x'\): pip install"

    with pytest.raises(ConfigError, match=message):
        need("wordcount_x", feature="a rule", extra="generate")


def test_all_missing_packages_of_an_extra_are_listed(monkeypatch):
    """The user can then install all of them at once."""
    declared = [
        "wordcount_x>=1; extra == 'generate'",
        "lm-factuality[small]; extra == 'generate'",
        "sentence_x; extra == 'small'",
        "pytest; extra == 'generate'",  # which is installed
        "another_x; extra == 'ray'",
        "base_x",
    ]
    monkeypatch.setattr(packages, "requires", lambda name: declared)

    with pytest.raises(ConfigError) as raised:
        need("wordcount_x", feature="a rule", extra="generate")

    command = "pip install 'lm-factuality[generate]', which installs sentence_x, wordcount_x"
    assert str(raised.value).endswith(command)


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
def test_broken_package_is_named_with_the_cause(tmp_path, monkeypatch, source, message):
    """Without the cause, a user would install the package again, which does not help."""
    (tmp_path / "wordcount_x.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(ConfigError, match=message):
        need("wordcount_x", feature="a rule", extra="generate")
