"""The project as somebody finds it who has just cloned it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.conftest import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    found = {
        re.split(r"[<>=\[;!~ ]", requirement)[0].lower().replace("_", "-")
        for requirement in requirements
    }
    return found - {"lm-factuality"}


def test_every_dependency_is_pinned():
    pinned = names(
        [
            line
            for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
            if "==" in line
        ]
    )
    extras = PROJECT["optional-dependencies"]
    wanted = names(PROJECT["dependencies"]) | names(extras["dev"]) | names(extras["api"])
    assert wanted <= pinned


def test_pins_lie_within_the_ranges():
    from packaging.requirements import Requirement

    pins: dict[str, list[str]] = {}
    for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if "==" in line:
            name, version = line.split(";")[0].split("==")
            pins.setdefault(name.lower().replace("_", "-"), []).append(version.strip())
    for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]:
        requirement = Requirement(text)
        for version in pins.get(requirement.name.lower(), []):
            assert requirement.specifier.contains(version), text


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "tasks").rglob("*.yaml")), ids=lambda path: path.name
)
def test_task_yamls_hold_data_only(path):
    text = path.read_text(encoding="utf-8").replace("!function ", "")
    assert isinstance(yaml.safe_load(text), dict)


def test_no_checkpoint_or_data_needs_pickle():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert not [
        path for path in tracked if path.endswith((".bin", ".pt", ".pth", ".pkl", ".pickle"))
    ]
