"""Releases of lm_eval that lack what the suite relies on: a sentence instead of an AttributeError,
or a run that does without."""

from __future__ import annotations

import re

import pytest

from lm_factuality.ground.errors import ConfigError
from lm_factuality.harness import internals
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "development.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["lm_eval.api.model:LM.gone", "lm_eval.gone:f", "lm_eval._cli:Gone.method"]
)
def test_a_missing_part_is_named_with_what_to_install(name):
    with pytest.raises(ConfigError, match=r"lm_eval \d+\.\d+\.\d+ has no lm_eval\.\w+") as raised:
        internals.internal(name)
    assert name.replace(":", ".") in str(raised.value)
    assert f"pip install '{internals.SUPPORTED}'" in str(raised.value)


def test_the_supported_releases_are_those_of_the_project():
    assert f'"{internals.SUPPORTED}"' in (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")


NAMES = {
    name
    for path in (REPOSITORY / "lm_factuality").rglob("*.py")
    for name in re.findall(
        r'(?:internal)\(f?"(lm_eval[\w.:{}]+)"', path.read_text(encoding="utf-8")
    )
}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_page_lists_what_is_looked_up(name):
    assert name.replace(":", ".").split(".{")[0] in PAGE


def test_every_private_module_is_looked_up_by_name():
    paths = [*(REPOSITORY / "lm_factuality").rglob("*.py"), *(REPOSITORY / "judges").rglob("*.py")]
    private = re.compile(r"^\s*(?:from|import) lm_eval(?:\.\w+)*\._\w+", re.MULTILINE)
    assert [path for path in paths if private.search(path.read_text(encoding="utf-8"))] == []
