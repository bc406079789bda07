"""The word lists that lie beside the code: lines of words or of columns, ``#`` starts a comment."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from lm_factuality.ground.errors import DataError

DATA = Path(__file__).parent / "data"


@cache
def rows(path: Path, columns: int = 1) -> tuple[tuple[str, ...], ...]:
    """The rows of a list as tuples of columns. Raises DataError: a row has fewer than ``columns``
    columns; names file and line."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = tuple(cell.strip() for cell in line.split("\t"))
        if len(cells) < columns:
            raise DataError(
                f"{path}:{number}: {len(cells)} columns, expected {columns} or more with a tab"
                " between them"
            )
        found.append(cells)
    return tuple(found)


def entries(path: Path) -> frozenset[str]:
    """The first column of a list, for look-ups."""
    return frozenset(row[0] for row in rows(path))


def word_lists(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """The words of each list in the folder's ``words.tsv``, by the list's name."""
    return {
        name: tuple(words.split(" "))
        for name, words in (row[:2] for row in rows(folder / "words.tsv", 2))
    }


def fingerprint(folders: Sequence[Path]) -> str:
    """A hash of all lists and tables in the folders, by name and content."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix in (".tsv", ".txt", ".yaml"):
                digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


LISTS = word_lists(DATA)
WORDS: Mapping[str, frozenset[str]] = {name: frozenset(words) for name, words in LISTS.items()}
"""The lists of :mod:`factor_gen.text` for look-ups."""
