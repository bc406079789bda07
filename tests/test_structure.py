"""The house: which package may import which, and that nothing outside a benchmark's folder names
it."""

from __future__ import annotations

import ast
import hashlib
import importlib
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from judges.typed import Reply, json_schema_of
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


# The schema of each reply, which servers are sent and which is part of the key of each answer in a
# store: the first 16 hexadecimal digits of its SHA-256. Pydantic takes the docstring of a reply as
# its description, so a new docstring (or a new name of a reply within another) changes it.
SCHEMAS = {
    "Kind": "c32bd035e4fd4f6a",
    "YesOrNo": "efa50b272653950a",
    "Contradiction": "65f5b8e6133336ec",
    "Contradictions": "02f65bd27704cf15",
    "Edit": "49661f34e841f1de",
    "SupportReply": "60ebe20205e806cc",
    "FactsReply": "f53b9a6f1f9dfb15",
    "GroupsReply": "abe6344746c29929",
    "FactReply": "5e03d86074c38c4e",
    "FactsOfPage": "cce4b22f20e1bf65",
    "NumberedFact": "407e9c57a24def37",
    "MarkReply": "35ca564444776dee",
    "ClaimsReply": "a96d3a71f2fa68db",
    "SegmentClaims": "b37ee30cb7a67fa1",
    "CutReply": "70ded95d8772cde9",
    "MarksReply": "2a93d04ea3a3b28f",
    "WrongSegment": "762bf940ed7d71af",
    "Grading": "e728288a42bbd17d",
}


def test_the_schemas_of_replies_stay_what_they_were():
    for path in PATHS:
        if "judges.typed" in (REPOSITORY / path).read_text(encoding="utf-8"):
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
    replies = list(Reply.__subclasses__())
    hashes = {}
    for reply in replies:
        replies += reply.__subclasses__()
        package = reply.__module__.split(".")[0]
        is_sent = not reply.__subclasses__() and package in (
            "lm_factuality",
            "judges",
            "factor_gen",
        )
        if is_sent:
            schema = json_schema_of(reply)
            hashes[reply.__name__] = hashlib.sha256(schema.encode()).hexdigest()[:16]
    changed = {name for name, digest in hashes.items() if digest not in SCHEMAS.values()}
    assert not changed, f"restore the docstrings of {changed}: they are part of stored keys"
