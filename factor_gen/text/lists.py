"""Reads the word lists in the folders ``data`` beside the code.

A list is a text file with one entry on each line and tabs between columns. A line that starts with
``#`` is a comment. All modules that look words up call this one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"


@cache
def read_rows(path: Path) -> tuple[tuple[str, ...], ...]:
    """Read a list with one entry on each line, and tabs between the columns of an entry.

    Empty lines, and lines that start with ``#``, are left out.

    Returns:
        The columns of each line: ``Paris<tab>capital`` becomes ``("Paris", "capital")``.
    """
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            rows.append(tuple(map(str.strip, line.split("\t"))))
    return tuple(rows)


def read_first_column(path: Path) -> frozenset[str]:
    """Read the first column of a list, such as all words of a list with one column."""
    return frozenset(row[0] for row in read_rows(path))


def read_word_lists(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Read ``words.tsv`` of a folder, which holds one short word list on each line.

    Returns:
        The words by the name of their list, such as ``{"not": ("not", "n't")}``.
    """
    return {name: tuple(words.split(" ")) for name, words in read_rows(folder / "words.tsv")}


def hash_lists(folders: Sequence[Path]) -> str:
    """Hash the names and contents of all lists and tables in some folders.

    The hash changes if an edit of a list may change the result of a tagger or rule.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix in (".tsv", ".txt", ".yaml"):
                # The null bytes keep the name and the content apart.
                digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


LISTS = read_word_lists(DATA)
"""The word lists of this package, in the order of the file."""
WORDS: Mapping[str, frozenset[str]] = {name: frozenset(words) for name, words in LISTS.items()}
"""The same lists as sets."""
