"""One file of a corpus, and how its rows are numbered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CorpusFile:
    """A file of the corpus. ``name`` is its path from the YAML's folder, ``id`` what distinguishes it from the others, which
    is the path from where the wildcard stands."""

    path: Path
    name: str
    id: str
    is_only: bool = True  # rows of an only file are numbered 1, 2, ...; those of several FILE:1, FILE:2, ...

    def number(self, row: int) -> str:
        """The id of a row that has none."""
        return str(row) if self.is_only else f"{self.id}:{row}"
