"""Reads the state of a command's folder, without what differs between two equal runs.

`bench.attack.kill` compares the state after a command was stopped and run again with the state that
an undisturbed command leaves.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from lm_factuality.retrieval.build import open_index

State = dict[str, Any]
"""The content of each file, by its path in the folder."""

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d[:-]\d\d[:-]\d\d(\.\d+)?(\+00:00|Z)?)?")
# Keys of JSON files that differ in every run: times, durations, the machine, and whether an answer
# came from the judge or from the store.
_KEYS_OF_ONE_RUN = frozenset(
    {
        "date",
        "start_time",
        "end_time",
        "total_evaluation_time_seconds",
        "pretty_env_info",
        "judge_usage",
        "fetched_at",
        "usage",
        "from_cache",
        "this_run",
    }
)
# Tables of databases that say which process is at work.
_TABLES_OF_ONE_RUN = ("owners", "leases")


def read_state(folder: Path) -> State:
    """Read the files below a folder."""
    state = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != ".lock":
            name = path.relative_to(folder).as_posix()
            state[_TIMESTAMP.sub("DATE", name)] = _read_file(path)
    return state


def read_state_of_index(folder: Path, index_name: str) -> State:
    """Read the files below a folder with an index of passages.

    The files of an index have random names, and their number depends on where the build was
    stopped. So the state has what the index finds in their place.

    Args:
        folder: The folder.
        index_name: The name of the index's folder in it. The index may be missing.
    """
    state = {}
    for name, content in read_state(folder).items():
        if not name.startswith(f"{index_name}/"):
            state[name] = content
    index_folder = folder / index_name
    if index_folder.is_dir():
        index = open_index(index_folder)
        queries = ["the river", "a town on a slow river", "number 7"]
        state["hits"] = repr(index.retrieve(queries, 20))
        manifest = json.loads((index_folder / "manifest.json").read_text())
        state["index"] = _without_keys(manifest, {"files", "built"})
    return state


def _read_file(path: Path) -> Any:
    """Read a file as text without times if it is a text or a database, and else as bytes."""
    content = path.read_bytes()
    if content.startswith(b"SQLite format 3\0"):
        return _read_database(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    if path.suffix == ".json":
        # A file that was written in part is not JSON, and is compared as it is.
        with suppress(ValueError):
            text = json.dumps(_without_keys(json.loads(text), _KEYS_OF_ONE_RUN))
    return _TIMESTAMP.sub("DATE", text)


def _read_database(path: Path) -> str:
    """Read the rows of all tables of a SQLite database as text."""
    rows_by_table = {}
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        for (table,) in tables:
            if table not in _TABLES_OF_ONE_RUN:
                # Answers also have the time at which they came.
                columns = "key, answer" if table == "answers" else "*"
                query = f"SELECT {columns} FROM {table} ORDER BY 1"
                rows_by_table[table] = database.execute(query).fetchall()
    return _TIMESTAMP.sub("DATE", repr(rows_by_table))


def _without_keys(value: Any, keys: Collection[str]) -> Any:
    """Return a JSON value without some keys of the objects in it."""
    if isinstance(value, dict):
        return {name: _without_keys(part, keys) for name, part in value.items() if name not in keys}
    if isinstance(value, list):
        return [_without_keys(part, keys) for part in value]
    return value
