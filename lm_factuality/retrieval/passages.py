"""A passage, how the values of a row become one, and the SQLite file of an index's passages.

`sources` makes passages of rows, `build` fills a `PassageStore`, and `index` reads from it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean

PASSAGES = "passages.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS passages(number INTEGER PRIMARY KEY, id TEXT, title TEXT, text TEXT);
CREATE TABLE IF NOT EXISTS state(name TEXT PRIMARY KEY, content TEXT);
"""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be retrieved."""

    id: str
    """Its id in the source."""

    title: str
    """It may be empty."""

    text: str

    @property
    def contents(self) -> str:
        """What an index sees of it, as in Pyserini's Wikipedia indexes: title, line break, text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class Fields:
    """The columns or keys of a source that hold a passage's parts.

    None stands for ``id`` and ``title`` where a source has them. A row without an id gets its
    number, from 1, and one without a title none. A name that was given must be there.
    """

    id: str | None = None
    title: str | None = None
    text: str = "text"


@dataclass(frozen=True)
class SourceRecord:
    """What a source was when it was read."""

    path: str
    size: int | None = None
    """In bytes."""

    sha256: str | None = None
    revision: str | None = None
    """The commit of a dataset of the Hub."""

    @property
    def version(self) -> str:
        """The commit, or size and sum."""
        if self.revision:
            return f"revision {self.revision}"
        return f"{self.size:,} bytes, SHA-256 {self.sha256}"


def parse_fields(argument: str) -> Fields:
    """Read ``id=..,title=..,text=..``, in any order and number.

    Raises:
        ConfigError: A key is unknown or has no value.
    """
    names = [field.name for field in fields(Fields)]
    values: dict[str, str] = {}
    for part in argument.split(","):
        key, _, value = part.strip().partition("=")
        if key not in names:
            raise ConfigError(
                f"--fields: unknown key {key!r}, expected"
                f" {', '.join(names)}{did_you_mean(key, names)}"
            )
        if not value:
            raise ConfigError(f"--fields: {key} names no column, expected {key}=NAME")
        values[key] = value
    return Fields(**values)


def to_passage(values: Mapping[str, Any], names: Fields, row: int, place: str) -> Passage:
    """Make a passage of a row's values.

    Args:
        row: The number of the row, from 1.
        place: Where the row is, for errors.

    Raises:
        DataError: The row is no passage.
    """
    text = _read_part(values, "text", names.text, place)
    if not text.strip():
        raise DataError(f"{place}: {names.text!r} is empty, expected a text")
    title = _read_part(values, "title", names.title, place)
    identity = _read_part(values, "id", names.id, place) or str(row)
    try:
        f"{identity}{title}{text}".encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place}: holds half of a surrogate pair, expected text; write the file as UTF-8"
        ) from error
    return Passage(identity, title, text)


def _read_part(values: Mapping[str, Any], part: str, name: str | None, place: str) -> str:
    """Return a part of a passage, which is empty where a row has none."""
    if name is not None and name not in values:
        raise DataError(
            f"{place}: no column {name!r}; found {', '.join(map(str, values)) or 'none'};"
            f" name the one with the {part}: --fields {part}=NAME"
        )
    value = values.get(name or part)
    if value is None:
        return ""
    if not isinstance(value, str | int):
        raise DataError(
            f"{place}: {name or part!r} is a {type(value).__name__}, expected a text or a whole"
            " number"
        )
    return str(value)


def split_words(passage: Passage, words: int) -> Iterator[Passage]:
    """Split a passage into passages of so many words, as DPR's, with ids ``ID#0``, ``ID#1``, ...

    Line breaks become spaces.
    """
    tokens = passage.text.split()
    for number, start in enumerate(range(0, len(tokens), words)):
        text = " ".join(tokens[start : start + words])
        yield Passage(f"{passage.id}#{number}", passage.title, text)


class PassageStore:
    """Passages by number, from 0, and the state of their build."""

    def __init__(self, folder: Path, write: bool = False) -> None:
        """Open the passages of an index, or with ``write`` those of a build.

        Raises:
            DataError: They cannot be read.
        """
        path = folder / PASSAGES
        if write:
            folder.mkdir(parents=True, exist_ok=True)
        mode = "mode=rwc" if write else "mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?{mode}", uri=True, check_same_thread=False
            )
            if write:
                self._connection.executescript(_TABLES)
            (self._size,) = self._connection.execute("SELECT count(*) FROM passages").fetchone()
        except sqlite3.Error as error:
            raise DataError(
                f"{path}: the passages cannot be read: {error}; build the index again"
            ) from error

    def __len__(self) -> int:
        """Return the number of passages."""
        return int(self._size)

    def __getitem__(self, number: int) -> Passage:
        """Return a passage by its number."""
        query = "SELECT id, title, text FROM passages WHERE number = ?"
        row = self._connection.execute(query, (number,)).fetchone()
        if row is None:
            raise IndexError(f"passage {number} of {len(self)}")
        return Passage(*row)

    def iterate_from(self, number: int) -> Iterator[Passage]:
        """Yield the passages in order, starting with the one of the given number."""
        query = "SELECT id, title, text FROM passages WHERE number >= ? ORDER BY number"
        for row in self._connection.execute(query, (number,)):
            yield Passage(*row)

    def sha256(self) -> str:
        """Return a sum of all passages, the same wherever they were stored."""
        digest = hashlib.sha256()
        for passage in self.iterate_from(0):
            digest.update(f"{passage.id}\0{passage.title}\0{passage.text}\0".encode())
        return digest.hexdigest()

    def add(self, passages: Sequence[Passage]) -> None:
        """Append passages."""
        rows = [
            (number, passage.id, passage.title, passage.text)
            for number, passage in enumerate(passages, len(self))
        ]
        with self._connection:
            self._connection.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", rows)
        self._size += len(rows)

    def clear(self) -> None:
        """Drop all passages and the state."""
        self._connection.executescript("DELETE FROM passages; DELETE FROM state;")
        self._size = 0

    def set_state(self, name: str, content: object) -> None:
        """Store a JSON value of the build's state under a name, in place of an earlier one."""
        row = (name, json.dumps(content))
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", row)

    def get_state(self, name: str) -> Any:
        """Return the value that `set_state` last stored under a name, or None."""
        query = "SELECT content FROM state WHERE name = ?"
        row = self._connection.execute(query, (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def finish(self) -> None:
        """Drop the state and close the file."""
        self._connection.execute("DROP TABLE state")
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
