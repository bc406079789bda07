"""Pages by title in one SQLite file, as FActScore keeps Wikipedia.

`Knowledge` opens a file of ours or FActScore's own. `build` fills a new one through `PageStore`.
"""

import datetime
import hashlib
import json
import re
import sqlite3
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import to_model
from lm_factuality.retrieval.passages import Passage, SourceRecord

# FActScore's separator of passages.
SEPARATOR = "####SPECIAL####SEPARATOR####"
# Words of a passage. FActScore has as many tokens of RoBERTa.
WORDS = 256

_FORMAT = 1
# The identity of a file without a manifest depends on so many bytes at either end.
_NUM_END_BYTES = 1 << 20
_AGAIN = "copy the file again, or build it: lm-factuality knowledge build SOURCE --out FILE"
# RoBERTa's marks, which FActScore leaves in its pages.
_MARKS = re.compile("</?s>")
_PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "\u2011": "-"}
)
_NEW = """BEGIN;
DROP TABLE IF EXISTS documents;
DROP TABLE IF EXISTS lm_factuality_manifest;
DROP TABLE IF EXISTS lm_factuality_build;
CREATE TABLE documents(title PRIMARY KEY, text);
CREATE TABLE lm_factuality_build(content);
INSERT INTO lm_factuality_build VALUES (NULL);
COMMIT;"""
_APPEND = (
    "INSERT INTO documents(title, text) VALUES (?, ?) ON CONFLICT(title)"
    " DO UPDATE SET text = text || ? || excluded.text"
)


@dataclass(frozen=True)
class KnowledgeManifest:
    """What a file was made of."""

    sources: tuple[SourceRecord, ...]
    rows: int
    pages: int
    built: str
    """The time in UTC."""

    suite_version: str
    format: int = _FORMAT

    def to_json(self) -> str:
        """Return the text that the file keeps."""
        return json.dumps(asdict(self), ensure_ascii=False)


class Knowledge:
    """Pages by title. Files that FActScore made have no manifest."""

    def __init__(self, path: str | Path) -> None:
        """Open a file for reading.

        Raises:
            DataError: It is no SQLite file with ``documents(title, text)``, or is unfinished.
        """
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError(
                f"{self.path}: no such file; make it with: lm-factuality knowledge build SOURCE"
                f" --out {self.path}"
            )
        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        columns = [row[1] for row in self._query("PRAGMA table_info(documents)")]
        names = self._query("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = [name for (name,) in names]
        if not {"title", "text"} <= set(columns):
            raise DataError(
                f"{self.path}: found the tables {', '.join(tables) or 'none'} and in documents the"
                f" columns {', '.join(columns) or 'none'}, expected a table documents with the"
                f" columns title and text, as FActScore has it; {_AGAIN}"
            )
        if "lm_factuality_build" in tables:
            raise DataError(f"{self.path}: a build that was not finished; give its command again")
        has_manifest = "lm_factuality_manifest" in tables
        self.manifest = self._read_manifest() if has_manifest else None

    def passages(self, title: str) -> list[str] | None:
        """Return the passages of a page, looked up by the `spellings` of its title.

        Returns:
            None if there is no such page.

        Raises:
            DataError: The file is damaged.
        """
        for spelling in spellings(title):
            rows = self._query("SELECT text FROM documents WHERE title = ?", spelling)
            if rows:
                text = rows[0][0]
                if not isinstance(text, str):
                    raise DataError(
                        f"{self.path}: the page {spelling!r} is a {type(text).__name__}, expected"
                        f" text; {_AGAIN}"
                    )
                return split_page(text)
        return None

    def __len__(self) -> int:
        """Return the number of pages. In files without a manifest they are counted."""
        return self._count_pages() if self.manifest is None else self.manifest.pages

    @cached_property
    def identity(self) -> str:
        """16 hexadecimal digits that differ between files.

        They are of the manifest, or else of the file's size, beginning and end.
        """
        if self.manifest is not None:
            return hashlib.sha256(self.manifest.to_json().encode()).hexdigest()[:16]
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            digest = hashlib.sha256(b"%d\0" % size + file.read(_NUM_END_BYTES))
            file.seek(max(0, size - _NUM_END_BYTES))
            digest.update(file.read())
        return digest.hexdigest()[:16]

    def check(self) -> None:
        """Read the whole file.

        Raises:
            DataError: It is damaged, or has not as many pages as its manifest says.
        """
        ((answer,),) = self._query("PRAGMA integrity_check(1)")
        if answer != "ok":
            raise DataError(f"{self.path}: damaged: {answer}; {_AGAIN}")
        if self.manifest is not None and self._count_pages() != self.manifest.pages:
            raise DataError(
                f"{self.path}: {self._count_pages()} pages, expected {self.manifest.pages} as its"
                f" manifest says; {_AGAIN}"
            )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _count_pages(self) -> int:
        return int(self._query("SELECT count(*) FROM documents")[0][0])

    def _read_manifest(self) -> KnowledgeManifest:
        rows = self._query("SELECT content FROM lm_factuality_manifest")
        try:
            values: dict[str, Any] = parse_json(rows[0][0])
            if values["format"] != _FORMAT:
                raise ValueError(
                    f"format {values['format']!r}, but this version of the suite reads {_FORMAT}"
                )
            return to_model(KnowledgeManifest, values)
        except (ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"{self.path}: its manifest cannot be read: {error}; {_AGAIN}"
            ) from error

    def _query(self, query: str, *values: str) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be read: {error}; {_AGAIN}") from error


def split_page(text: str) -> list[str]:
    """Return the passages of a page in their order, none of them empty.

    They are what stands between separators. A longer one than `WORDS` words, or a page without
    separators, is cut after so many words, and its line breaks become spaces.
    """
    if SEPARATOR not in text:
        return _cut(_MARKS.sub(" ", text).split())
    passages: list[str] = []
    for part in text.split(SEPARATOR):
        passage = _MARKS.sub(" ", part).strip()
        words = passage.split()
        if len(words) > WORDS:
            passages += _cut(words)
        elif passage:
            passages.append(passage)
    return passages


def _cut(words: list[str]) -> list[str]:
    return [" ".join(words[start : start + WORDS]) for start in range(0, len(words), WORDS)]


def spellings(title: str) -> list[str]:
    """Return a title and what it may be called elsewhere, most similar first.

    Variants are without surrounding and doubled spaces, with spaces for underscores, with composed
    (NFC) or decomposed (NFD) accents, with plain quotes and dashes for typographic ones, and with a
    capital first letter. Case and brackets are otherwise part of a title.
    """
    spaced = " ".join(title.replace("_", " ").split())
    plain = spaced.translate(_PLAIN)
    variants = [title, title.strip()]
    for text in (spaced, plain, spaced[:1].upper() + spaced[1:], plain[:1].upper() + plain[1:]):
        variants += [unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    return [text for text in dict.fromkeys(variants) if text or not title]


class PageStore:
    """The pages of a build that is under way. Its length is the number of rows that were read."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Begin a build, or go on with the one in the file.

        Raises:
            DataError: The file is no unfinished build.
        """
        self.path = path
        self._connection = connection
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        try:
            tables = {name for (name,) in connection.execute(query)}
            if not tables or "lm_factuality_manifest" in tables:
                # New, or complete but not yet renamed: it starts over.
                connection.executescript(_NEW)
            (content,) = connection.execute("SELECT content FROM lm_factuality_build").fetchone()
        except (sqlite3.Error, TypeError) as error:
            raise DataError(
                f"{path}: not an unfinished build: {error}; delete it to start over"
            ) from error
        self.state: dict[str, Any] | None = None if content is None else json.loads(content)
        self._num_rows = int(self.state["rows"]) if self.state else 0

    def __len__(self) -> int:
        return self._num_rows

    def add(self, passages: Sequence[Passage], state: Mapping[str, Any]) -> None:
        """Append passages to their pages and keep the state with them: both are on disk or neither.

        Raises:
            DataError: A passage has no title.
        """
        # Rows of one title are joined, so that a long page is not rewritten for each of them.
        pages: dict[str, list[str]] = {}
        for passage in passages:
            title = passage.title.strip()
            if not title:
                names = ", ".join(source["path"] for source in state["plan"]["sources"])
                raise DataError(
                    f"{names}: the row with the id {passage.id!r} has no title, by which a page is"
                    " found; name the column: --fields title=NAME"
                )
            pages.setdefault(title, []).append(passage.text)
        num_rows = self._num_rows + len(passages)
        content = json.dumps({**state, "rows": num_rows})
        with self._connection:
            texts = [(title, SEPARATOR.join(parts), SEPARATOR) for title, parts in pages.items()]
            self._connection.executemany(_APPEND, texts)
            self._connection.execute("UPDATE lm_factuality_build SET content = ?", (content,))
        self._num_rows = num_rows

    def finish(self, sources: tuple[SourceRecord, ...]) -> None:
        """Write the manifest in the place of the state."""
        (num_pages,) = self._connection.execute("SELECT count(*) FROM documents").fetchone()
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        manifest = KnowledgeManifest(sources, len(self), num_pages, now, __version__)
        with self._connection:
            # sqlite3 begins no transaction of its own before it makes a table.
            self._connection.execute("BEGIN")
            self._connection.execute("CREATE TABLE lm_factuality_manifest(content)")
            self._connection.execute(
                "INSERT INTO lm_factuality_manifest VALUES (?)", (manifest.to_json(),)
            )
            self._connection.execute("DROP TABLE lm_factuality_build")
