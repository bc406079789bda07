"""What installed packages tell lm_eval: models, and tasks as its pull request 4015 proposes, from a
checkout and from a wheel."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lm_factuality.harness.run import register_models
from tests.conftest import REPOSITORY, TASKS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

POINTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
]

# As the proposal reads an entry point: the module before a colon; of a package, the first folder
# where Python would look for its modules, found without importing it; of a module, the folder it
# lies in. YAMLs below it are tasks.
LOOK_UP = """
import importlib.metadata, importlib.util, pathlib, sys
value, = [each.value for each in importlib.metadata.entry_points(group="lm_eval.tasks") if each.name == "lm-factuality"]
spec = importlib.util.find_spec(value.split(":")[0])
folder = pathlib.Path(list(spec.submodule_search_locations)[0]).resolve()

from lm_eval.tasks import TaskManager
manager = TaskManager(include_path=str(folder), include_defaults=False)
assert folder.is_relative_to(pathlib.Path(sys.argv[1]).resolve()), folder
print(folder, *manager.all_tasks, sep="\\n")
for each in importlib.metadata.entry_points(group="lm_eval.models"):
    if each.dist.name == "lm-factuality":
        assert each.load().__name__
"""


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


@pytest.fixture
def finds_plugins(monkeypatch):
    """An lm_eval that indexes the tasks of installed packages before those of
    ``--include_path``."""
    from lm_eval.tasks import _index

    build = _index.TaskIndex.build
    monkeypatch.setattr(
        _index.TaskIndex,
        "build",
        staticmethod(lambda paths, **options: build([TASKS, *paths], **options)),
    )


def test_a_folder_that_lm_eval_finds_by_itself_is_not_named_again(finds_plugins, tmp_path, caplog):
    from lm_factuality.harness.tasks import suite_tasks, with_suite

    assert with_suite([str(tmp_path), str(TASKS)]) == [str(tmp_path)]
    assert "sample_factor" in suite_tasks().all_tasks
    assert "overrides" not in caplog.text


def test_a_folder_that_lm_eval_does_not_know_is_named_first(tmp_path):
    from lm_factuality.harness.tasks import with_suite

    assert with_suite([str(tmp_path), str(TASKS)]) == [str(TASKS.resolve()), str(tmp_path)]


@pytest.mark.slow
def test_a_wheel_brings_tasks_and_models(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    target = tmp_path / "site"
    wheel = [*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(REPOSITORY)]
    subprocess.run(wheel, check=True, capture_output=True, timeout=300)
    (built,) = tmp_path.glob("*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(target), str(built)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP, str(target)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    folder, *names = done.stdout.splitlines()
    assert Path(folder) == (target / "lm_factuality" / "_suite" / "tasks").resolve()
    assert {"sample_factor", "news_factor", "felm_gen", "ambigbio"} <= set(names)
