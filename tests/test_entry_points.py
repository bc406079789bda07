"""What installed packages tell lm_eval: models, and tasks as its pull request 4015 proposes, from a
checkout and from a wheel."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from lm_factuality.harness.run import register_models
from tests.conftest import REPOSITORY, TASKS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POINTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]


def test_run_registers_the_models():
    from lm_eval.api.registry import model_registry

    register_models()
    for name, target in POINTS["lm_eval.models"].items():
        assert model_registry.get(name).__name__ == target.split(":")[1]


def test_tasks_of_a_checkout_are_found_without_importing_them():
    (value,) = POINTS["lm_eval.tasks"].values()
    spec = importlib.util.find_spec(value)
    assert spec is not None
    assert [Path(each).resolve() for each in spec.submodule_search_locations or ()] == [
        TASKS.resolve()
    ]


def test_the_suites_folder_is_named_first_and_once(tmp_path):
    from lm_factuality.harness.tasks import with_suite

    assert with_suite([str(tmp_path), str(TASKS)]) == [str(TASKS.resolve()), str(tmp_path)]
