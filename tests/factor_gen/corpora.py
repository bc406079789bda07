"""Small corpora for the tests, and builds of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

TOWN = (
    "The town of number {0} lies on a slow river.\nIt was founded by two sailors from the north in the year {1}. "
    "Every autumn its {2} houses are painted white by the people who live in them."
)


def town(number: int) -> str:
    """A document with two sentences that may be selected."""
    return TOWN.format(number, 1000 + number, 200 + 7 * number)


def write_corpus(folder: Path, documents: int = 8, **keys: object) -> Path:
    """Writes documents d0, d1, ... as JSONL and a build of them; returns the YAML."""
    import yaml

    rows = [{"id": f"d{number}", "text": town(number)} for number in range(documents)]
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    content = {
        "corpus": "corpus.jsonl",
        "generate": "rules",
        "filter": "none",
        "choose": {"contradictions": 3},
        **keys,
    }
    path = folder / "corpus.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def contents(out: Path) -> Mapping[str, bytes]:
    """Every file below ``out`` by its path from there."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }
