"""Passages, the columns that they are read from, and the SQLite file of an index's passages.

`sources` makes passages from rows, `build` fills a `PassageStore`, and `index` reads from it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lm_factuality.documents import Document, UnreadDocument
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.ground.files import Json

# The file of passages in the folder of an index.
PASSAGES = "passages.sqlite"
# A manifest names at most this many documents that could not be read.
_MOST_EXAMPLES = 20
_TABLES = """
CREATE TABLE IF NOT EXISTS passages(number INTEGER PRIMARY KEY, id TEXT, title TEXT, text TEXT);
CREATE TABLE IF NOT EXISTS state(name TEXT PRIMARY KEY, content TEXT);
"""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that a search can return."""

    id: str
    """The id in the source, which need not be unique."""

    title: str
    """The title of the page or document, or an empty string."""

    text: str
    """The text itself."""

    @property
    def contents(self) -> str:
        """The text that an index searches: the title, a line break, and the text.

        Pyserini's indexes of Wikipedia join them in the same way.
        """
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class PassageColumns:
    """The columns of a source, or the keys of its JSON objects, that hold a passage."""

    id: str | None = None
    """The column of the id. None means ``id`` if there is one, or else the number of the row."""

    title: str | None = None
    """The column of the title. None means ``title`` if there is one, or else no title."""

    text: str = "text"
    """The column of the text."""

    @property
    def are_defaults(self) -> bool:
        """Whether the user named no other columns, so that a source may also have no columns."""
        return self == PassageColumns()


@dataclass(frozen=True)
class SourceRecord:
    """The description of a source at the time when it was read, for manifests."""

    path: str
    """The file, folder or dataset as the user named it."""

    size: int | None = None
    """The number of bytes. None for a dataset of the Hub."""

    sha256: str | None = None
    """The SHA-256 of the bytes. None for a dataset of the Hub."""

    revision: str | None = None
    """The commit of a dataset of the Hub."""

    @property
    def version(self) -> str:
        """The commit of a dataset, or the size and SHA-256 of a file or folder."""
        if self.revision:
            return f"revision {self.revision}"
        return f"{self.size:,} bytes, SHA-256 {self.sha256}"


@dataclass(frozen=True)
class ReadingRecord:
    """How many documents were read from files and folders, for manifests."""

    read: int
    """The number of documents that were read."""

    unread: int
    """The number of files and rows that could not be read."""

    examples: tuple[UnreadDocument, ...] = ()
    """The first of those that could not be read, 20 at most, with their reasons."""


class ReadingLog:
    """Counts the documents that are read while a build iterates over its sources."""

    def __init__(self) -> None:
        """Begin with no documents."""
        self._num_read = 0
        self._num_unread = 0
        self._examples: list[UnreadDocument] = []

    def passages(self, documents: Iterable[Document | UnreadDocument]) -> Iterator[Passage]:
        """Yield a passage for each document, and count those that could not be read."""
        for document in documents:
            if isinstance(document, Document):
                self._num_read += 1
                yield Passage(document.id, document.title, document.text)
                continue
            self._num_unread += 1
            # A table with millions of bad rows must not fill the memory.
            if len(self._examples) < _MOST_EXAMPLES:
                self._examples.append(document)

    def record(self) -> ReadingRecord | None:
        """Return the counts so far, or None if no source held documents."""
        if not self._num_read and not self._num_unread:
            return None
        return ReadingRecord(self._num_read, self._num_unread, tuple(self._examples))


def parse_columns(option: str) -> PassageColumns:
    """Parse the option ``--fields``, which names the columns of a source.

    Example:
        ``id=page,text=body`` gives ``PassageColumns(id="page", text="body")``.

    Args:
        option: Pairs ``KEY=COLUMN`` with the keys ``id``, ``title`` and ``text``, in any order.

    Raises:
        ConfigError: A key is unknown or has no column.
    """
    # The keys are the fields of a passage: id, title and text.
    keys = [field.name for field in fields(PassageColumns)]
    columns: dict[str, str] = {}
    for pair in option.split(","):
        key, _, column = pair.strip().partition("=")
        if key not in keys:
            raise ConfigError(
                f"--fields: unknown key {key!r}, expected"
                f" {', '.join(keys)}{did_you_mean(key, keys)}"
            )
        if not column:
            raise ConfigError(f"--fields: {key} names no column, expected {key}=NAME")
        columns[key] = column
    return PassageColumns(**columns)


def to_passage(
    row: Mapping[str, Any], columns: PassageColumns, row_number: int, location: str
) -> Passage:
    """Make a passage from the values of a row.

    Example:
        The row ``{"id": 7, "title": "Harbour", "text": "It froze."}`` becomes
        ``Passage("7", "Harbour", "It froze.")``.

    Args:
        row: The values of the row, by the name of the column.
        columns: The columns that hold the id, the title and the text.
        row_number: The number of the row, from 1. It becomes the id if the row has none.
        location: The file and line of the row, for error messages.

    Raises:
        DataError: A column is missing, the text is empty, or a value is not valid text.
    """
    text = _read_column(row, "text", columns.text, location)
    if not text.strip():
        raise DataError(f"{location}: {columns.text!r} is empty, expected a text")
    # A passage needs a text, but no title.
    title = _read_column(row, "title", columns.title, location)
    passage_id = _read_column(row, "id", columns.id, location) or str(row_number)

    try:
        # JSON can hold half of a surrogate pair, such as "\ud83d", which no database can store.
        # Encoding refuses it, and the bytes themselves are not needed.
        f"{passage_id}{title}{text}".encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{location}: holds half of a surrogate pair, expected text; write the file as UTF-8"
        ) from error
    return Passage(passage_id, title, text)


def _read_column(row: Mapping[str, Any], field: str, column: str | None, location: str) -> str:
    """Return the value of a row for one field of a passage.

    Args:
        row: The values of the row, by the name of the column.
        field: The field of the passage: ``id``, ``title`` or ``text``.
        column: The column that must hold the field. None means a column that is called like the
            field and may be missing.
        location: The file and line of the row, for error messages.

    Returns:
        The value as text, or an empty string if the row has none.

    Raises:
        DataError: The row lacks the column, or the value is neither a text nor a whole number.
    """
    # Only a column that nobody named may be missing. That of the text always has a name.
    if column is not None and column not in row:
        raise DataError(
            f"{location}: no column {column!r}; found {', '.join(map(str, row)) or 'none'};"
            f" name the one with the {field}: --fields {field}=NAME"
        )

    name = column or field
    value = row.get(name)
    if value is None:
        return ""
    # Ids are often whole numbers.
    if not isinstance(value, str | int):
        raise DataError(
            f"{location}: {name!r} is a {type(value).__name__}, expected a text or a whole number"
        )
    return str(value)


def split_passage(passage: Passage, max_words: int) -> Iterator[Passage]:
    """Split a passage into passages of ``max_words`` words, as DPR splits Wikipedia's pages.

    The last one may be shorter. Words are joined by single spaces.

    Example:
        With 2 words per passage, ``Passage("a", "T", "one two three")`` becomes
        ``Passage("a#0", "T", "one two")`` and ``Passage("a#1", "T", "three")``.
    """
    # Tabs and line breaks separate words too.
    words = passage.text.split()
    for number, start in enumerate(range(0, len(words), max_words)):
        text = " ".join(words[start : start + max_words])
        yield Passage(f"{passage.id}#{number}", passage.title, text)


class PassageStore:
    """The passages of an index in a SQLite file, numbered from 0.

    While the index is being built, the file also holds the state of the build: JSON values that
    say how far it has come, so that an interrupted build can be resumed.
    """

    def __init__(self, folder: Path, writable: bool = False) -> None:
        """Open the file of passages in the folder of an index.

        Args:
            folder: The folder of the index.
            writable: Whether the index is being built. The folder and file are then created if
                necessary. By default the file must exist and is only read.

        Raises:
            DataError: The file is missing or is not a SQLite file with passages.
        """
        path = folder / PASSAGES
        if writable:
            folder.mkdir(parents=True, exist_ok=True)
        # SQLite takes no locks on an immutable file, so the folder may be read-only.
        mode = "rwc" if writable else "ro&immutable=1"
        uri = f"{path.resolve().as_uri()}?mode={mode}"
        try:
            # Threads may share an index, so the connection is not bound to one thread.
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            if writable:
                self._connection.executescript(_TABLES)
            # Counting takes long for many passages, so it is done once. The row has one column.
            (self._size,) = self._connection.execute("SELECT count(*) FROM passages").fetchone()
        except sqlite3.Error as error:
            raise DataError(
                f"{path}: the passages cannot be read: {error}; build the index again"
            ) from error

    def __len__(self) -> int:
        """Return the number of passages."""
        return int(self._size)

    def __getitem__(self, number: int) -> Passage:
        """Return the passage with a number, from 0.

        Raises:
            IndexError: There is no such passage.
        """
        query = "SELECT id, title, text FROM passages WHERE number = ?"
        row = self._connection.execute(query, (number,)).fetchone()
        if row is None:
            # Python's loops end at this error, as they do for a list.
            raise IndexError(f"passage {number} of {len(self)}")
        return Passage(*row)

    def iterate_from(self, first_number: int) -> Iterator[Passage]:
        """Yield the passages in order, starting with the one that has the given number."""
        query = "SELECT id, title, text FROM passages WHERE number >= ? ORDER BY number"
        for row in self._connection.execute(query, (first_number,)):
            yield Passage(*row)

    def sha256(self) -> str:
        """Return the SHA-256 of all ids, titles and texts, in hexadecimal digits.

        Unlike the SHA-256 of the file, it does not depend on SQLite's version and settings.
        """
        digest = hashlib.sha256()
        for passage in self.iterate_from(0):
            # The zero bytes keep "ab" and "c" apart from "a" and "bc".
            digest.update(f"{passage.id}\0{passage.title}\0{passage.text}\0".encode())
        return digest.hexdigest()

    def add(self, passages: Sequence[Passage]) -> None:
        """Append passages in one transaction. Their numbers continue those of earlier passages."""
        rows = [
            (number, passage.id, passage.title, passage.text)
            for number, passage in enumerate(passages, start=len(self))
        ]
        # After a crash the file has either all of these passages or none.
        with self._connection:
            self._connection.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", rows)
        self._size += len(rows)

    def clear(self) -> None:
        """Delete all passages and the state of the build."""
        self._connection.executescript("DELETE FROM passages; DELETE FROM state;")
        self._size = 0

    def set_state(self, name: str, value: Json) -> None:
        """Store a JSON value under a name in the state of the build."""
        row = (name, json.dumps(value))
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", row)

    def get_state(self, name: str) -> Json:
        """Return the value that `set_state` last stored under a name, or None."""
        query = "SELECT content FROM state WHERE name = ?"
        row = self._connection.execute(query, (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def finish(self) -> None:
        """End the build: delete its state, which a finished index does not need, and close."""
        self._connection.execute("DROP TABLE state")
        self._connection.close()
