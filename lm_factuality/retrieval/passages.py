"""A passage, how the values of a row become one, and the SQLite file that an index keeps them
in."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean

PASSAGES = "passages.sqlite"
_TABLES = (
    (
        "CREATE TABLE IF NOT EXISTS passages(number INTEGER PRIMARY KEY, id TEXT, title TEXT, text"
        " TEXT)"
    ),
    # how far an unfinished build has come
    "CREATE TABLE IF NOT EXISTS state(name TEXT PRIMARY KEY, content TEXT)",
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be retrieved: its id in the source, its title (may be empty), its
    text."""

    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        """What an index sees of it: title, line break, text, as in Pyserini's Wikipedia indexes."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class Fields:
    """The columns or keys of a source that hold a passage's parts. ``None`` stands for ``id`` and
    ``title`` where a source has them; a row without an id gets its number, from 1, and one without
    a title none. A name that is given must be there."""

    id: str | None = None
    title: str | None = None
    text: str = "text"


@dataclass(frozen=True)
class SourceRecord:
    """What a source was when it was read: path, size in bytes and SHA-256; of a dataset of the Hub
    its commit (``revision``)."""

    path: str
    size: int | None = None
    sha256: str | None = None
    revision: str | None = None

    @property
    def version(self) -> str:
        return (
            f"revision {self.revision}"
            if self.revision
            else f"{self.size:,} bytes, SHA-256 {self.sha256}"
        )


def parse_fields(argument: str) -> Fields:
    """``id=..,title=..,text=..``, in any order and number. Raises ConfigError: another key, or no
    value."""
    known = [field.name for field in fields(Fields)]
    values: dict[str, str] = {}
    for part in argument.split(","):
        key, _, value = part.strip().partition("=")
        if key not in known:
            raise ConfigError(
                f"--fields: unknown key {key!r}, expected"
                f" {', '.join(known)}{did_you_mean(key, known)}"
            )
        if not value:
            raise ConfigError(f"--fields: {key} names no column, expected {key}=NAME")
        values[key] = value
    return Fields(**values)


def to_passage(values: Mapping[str, Any], names: Fields, row: int, place: str) -> Passage:
    """The passage in ``values``, the ``row``-th row, from 1. Raises DataError, which begins with
    ``place``: it is none."""
    text = values.get(names.text)
    if not isinstance(text, str) or not text.strip():
        if names.text not in values:
            raise DataError(
                f"{place}: no column {names.text!r}; found {_listed(values)}; name the one with the"
                " text: --fields text=NAME"
            )
        raise DataError(
            f"{place}: {names.text!r} is {_shown(text)}, expected a text that is not empty"
        )
    identity = _part(values, "id", names.id, place)
    title = _part(values, "title", names.title, place)
    passage = Passage(str(row) if identity is None else identity, title or "", text)
    try:
        f"{passage.id}{passage.title}{text}".encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place}: holds half of a surrogate pair, expected text; write the file as UTF-8"
        ) from error
    return passage


def split_words(passage: Passage, words: int) -> Iterator[Passage]:
    """Passages of so many ``words`` by white space, as DPR's, with ids ``ID#0``, ``ID#1``, ...;
    line breaks become spaces."""
    tokens = passage.text.split()
    for number, start in enumerate(range(0, len(tokens), words)):
        yield Passage(
            f"{passage.id}#{number}", passage.title, " ".join(tokens[start : start + words])
        )


def _part(values: Mapping[str, Any], part: str, name: str | None, place: str) -> str | None:
    value = values.get(name or part)
    if isinstance(value, str):
        return value
    if name is not None and name not in values:
        raise DataError(
            f"{place}: no column {name!r}; found {_listed(values)}; correct --fields {part}={name}"
        )
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise DataError(
        f"{place}: {name or part!r} is {_shown(value)}, expected a text or a whole number"
    )


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(map(str, values)) or "none"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return "empty"
    return "null" if value is None else f"a {type(value).__name__}"


class PassageStore:
    """Passages by number, 0 to ``len(store) - 1``; ``write`` opens, or begins, one that is still
    being filled."""

    def __init__(self, folder: Path, write: bool = False) -> None:
        uri = f"{(folder / PASSAGES).resolve().as_uri()}?{'mode=rwc' if write else 'mode=ro&immutable=1'}"  # noqa: E501
        try:
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            for table in _TABLES if write else ():
                self._connection.execute(table)
            (self._size,) = self._connection.execute("SELECT count(*) FROM passages").fetchone()
        except sqlite3.Error as error:
            raise DataError(
                f"{folder / PASSAGES}: the passages cannot be read: {error}; build the index again"
            ) from error

    def __len__(self) -> int:
        return int(self._size)

    def __getitem__(self, number: int) -> Passage:
        """The passage with this number; IndexError if there is none."""
        found = self._connection.execute(
            "SELECT id, title, text FROM passages WHERE number = ?", (number,)
        ).fetchone()
        if found is None:
            raise IndexError(f"passage {number} of {len(self)}")
        return Passage(*found)

    def __iter__(self) -> Iterator[Passage]:
        return self.since(0)

    def since(self, number: int) -> Iterator[Passage]:
        """The passages from ``number`` on, in their order."""
        rows = self._connection.execute(
            "SELECT id, title, text FROM passages WHERE number >= ? ORDER BY number", (number,)
        )
        return (Passage(*row) for row in rows)

    def sha256(self) -> str:
        """A sum of all passages, the same wherever they were stored."""
        digest = hashlib.sha256()
        for passage in self:
            digest.update(f"{passage.id}\0{passage.title}\0{passage.text}\0".encode())
        return digest.hexdigest()

    def add(self, passages: Sequence[Passage], state: Mapping[str, Any]) -> None:
        """Appends ``passages`` and keeps ``state`` with them: either both are on disk or
        neither."""
        rows = [
            (number, each.id, each.title, each.text)
            for number, each in enumerate(passages, len(self))
        ]
        with self._connection:
            self._connection.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", rows)
            self.keep("read", state)
        self._size += len(rows)

    def keep(self, name: str, content: Any) -> None:
        """Keeps a part of the build's state."""
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO state VALUES (?, ?)", (name, json.dumps(content))
            )

    def kept(self, name: str) -> Any:
        """What was kept last under ``name``; None if nothing was."""
        found = self._connection.execute(
            "SELECT content FROM state WHERE name = ?", (name,)
        ).fetchone()
        return None if found is None else json.loads(found[0])

    def finish(self) -> None:
        """Drops the state and closes the file."""
        self._connection.execute("DROP TABLE state")
        self.close()

    def close(self) -> None:
        self._connection.close()
