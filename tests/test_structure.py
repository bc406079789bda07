"""The house: which package may import which, and that nothing outside a benchmark's folder names
it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from lm_factuality.benchmarks import all_benchmarks
from tests.conftest import REPOSITORY

# From the ground up: a room may import from those before it. Rooms of one line are at the same
# height and know nothing of each other.
FLOORS = (
    ("lm_factuality.ground",),
    ("lm_factuality.scores",),
    ("judges", "lm_factuality.retrieval"),
    ("lm_factuality.harness",),
    ("lm_factuality.benchmarks",),
    ("lm_factuality.models",),
    ("lm_factuality.results",),
    ("lm_factuality.people",),
    ("lm_factuality.report",),
    ("lm_factuality.leaderboard",),
    ("lm_factuality.sample",),
    ("factor_gen",),
    ("bench.suite", "lm_factuality.cli"),
)
HEIGHTS = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
PATHS = [
    path
    for path in subprocess.run(
        ["git", "ls-files", "*.py"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if path.split("/")[0] in ("lm_factuality", "judges", "factor_gen")
    and (REPOSITORY / path).is_file()
]


def room_of(module: str) -> str | None:
    """The room that a module is in; None for what stands in none (the packages themselves)."""
    return next((room for room in HEIGHTS if module == room or module.startswith(f"{room}.")), None)


def imports(path: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", PATHS)
def test_arrows_point_down(path):
    here = room_of(path.removesuffix(".py").replace("/", "."))
    if here is None:
        return
    up = [
        module
        for module in imports(path)
        if (there := room_of(module)) is not None
        and there != here
        and HEIGHTS[there] >= HEIGHTS[here]
    ]
    assert not up, f"{path} imports {', '.join(up)}, which stands above it or beside it"


def test_modules_do_not_import_each_other_in_a_circle():
    modules = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in PATHS
    }
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for module, path in modules.items():
        for node in ast.walk(ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))):
            # Imports within functions run when everything is imported already.
            if isinstance(node, ast.ImportFrom) and node.module and node.col_offset == 0:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[module] |= (names & modules.keys()) or ({node.module} & modules.keys())
    TopologicalSorter(graph).prepare()  # raises CycleError


def named_benchmarks(path: str) -> set[str]:
    """The benchmarks that a module's string constants name."""
    kinds = {benchmark.kind for benchmark in all_benchmarks()}
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in kinds
    }


@pytest.mark.parametrize(
    "path", [path for path in PATHS if path.split("/")[:2] != ["lm_factuality", "benchmarks"]]
)
def test_no_benchmark_is_named_outside_its_folder(path):
    """Commands about one benchmark take its name from its folder (``AmbigBio.name``)."""
    assert not named_benchmarks(path)
