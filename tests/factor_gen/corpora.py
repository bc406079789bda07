"""Small corpora for tests, and the YAML of builds from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_TOWN = """\
The town of number {number} lies on a slow river.
It was founded by two sailors from the north in the year {year}. \
Every autumn its {houses} houses are painted white by the people who live in them."""


def town(number: int) -> str:
    """Return a document about a town.

    Its second and third sentence can be selected. Its first is too short and has nothing before it.

    Args:
        number: The number of the town, on which the numbers in the text depend.
    """
    return _TOWN.format(number=number, year=1000 + number, houses=200 + 7 * number)


def write_corpus(folder: Path, documents: int = 8, **settings: Any) -> Path:
    """Write a corpus of towns, ``corpus.jsonl``, and the YAML of a build from it.

    Args:
        folder: The folder of both files.
        documents: The number of documents. Their ids are d0, d1 and so on.
        settings: Top-level keys of the YAML, such as ``shard``. By default, rules make
            contradictions and nothing filters them.

    Returns:
        The path of the YAML, ``corpus.yaml``.
    """
    rows = [{"id": f"d{number}", "text": town(number)} for number in range(documents)]
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")

    content = {
        "corpus": "corpus.jsonl",
        "generate": "rules",
        "filter": "none",
        "choose": {"contradictions": 3},
        **settings,
    }
    path = folder / "corpus.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def contents(out: Path) -> Mapping[str, bytes]:
    """Return the bytes of every file below a folder, by its path from there."""
    bytes_by_path = {}
    for path in sorted(out.rglob("*")):
        if path.is_file():
            bytes_by_path[path.relative_to(out).as_posix()] = path.read_bytes()
    return bytes_by_path
