"""The word lists that lie beside the code: lines of words or of columns, ``#`` starts a comment."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"


@cache
def rows(path: Path) -> tuple[tuple[str, ...], ...]:
    """The rows of a list as tuples of columns."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(
        tuple(cell.strip() for cell in line.split("\t"))
        for line in lines
        if line.strip() and not line.startswith("#")
    )


def entries(path: Path) -> frozenset[str]:
    """The first column of a list, for look-ups."""
    return frozenset(row[0] for row in rows(path))


def word_lists(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """The words of each list in the folder's ``words.tsv``, by the list's name."""
    return {name: tuple(words.split(" ")) for name, words in rows(folder / "words.tsv")}


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
