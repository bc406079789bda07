"""Pages by title in one SQLite file, as FActScore keeps Wikipedia.

`Knowledge` opens a file of ours or FActScore's own. `build` fills a new one by `write_pages`.
"""

import datetime
import hashlib
import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lm_factuality import __version__
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import to_model
from lm_factuality.retrieval.passages import Passage, SourceRecord

# FActScore's separator of passages.
SEPARATOR = "####SPECIAL####SEPARATOR####"
# Words of a passage. FActScore has as many tokens of RoBERTa.
WORDS = 256

# The identity of a file without a manifest depends on so many bytes at either end.
_NUM_END_BYTES = 1 << 20
_AGAIN = "copy the file again, or build it: lm-factuality knowledge build SOURCE --out FILE"
# RoBERTa's marks, which FActScore leaves in its pages.
_MARKS = re.compile("</?s>")
_PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "\u2011": "-"}
)
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
    format: Literal[1] = 1

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
        has_manifest = "lm_factuality_manifest" in tables
        self.manifest = self._read_manifest() if has_manifest else None

    def passages(self, title: str) -> list[str] | None:
        """Return the passages of a page, looked up by the `spellings` of its title.

        Returns:
            None if there is no such page.

        Raises:
            DataError: The file is damaged, or the page is no text.
        """
        for spelling in spellings(title):
            rows = self._query("SELECT text FROM documents WHERE title = ?", spelling)
            if not rows:
                continue
            text = rows[0][0]
            if not isinstance(text, str):
                raise DataError(
                    f"{self.path}: the page {spelling!r} is a {type(text).__name__}, expected text;"
                    f" {_AGAIN}"
                )
            return split_page(text)
        return None

    def __len__(self) -> int:
        """Return the number of pages. In files without a manifest they are counted."""
        if self.manifest is not None:
            return self.manifest.pages
        return int(self._query("SELECT count(*) FROM documents")[0][0])

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

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _read_manifest(self) -> KnowledgeManifest:
        rows = self._query("SELECT content FROM lm_factuality_manifest")
        try:
            return to_model(KnowledgeManifest, parse_json(rows[0][0]))
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


def write_pages(
    connection: sqlite3.Connection,
    batches: Iterable[Sequence[Passage]],
    sources: tuple[SourceRecord, ...],
) -> None:
    """Fill a new file with pages. Passages of the same title are joined in their order.

    Raises:
        DataError: A passage has no title.
    """
    # The file is thrown away if it does not become whole.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("CREATE TABLE documents(title PRIMARY KEY, text)")
    num_rows = 0
    for passages in batches:
        # Rows of one title are joined, so that a long page is not rewritten for each of them.
        pages: dict[str, list[str]] = {}
        for passage in passages:
            title = passage.title.strip()
            if not title:
                names = ", ".join(source.path for source in sources)
                raise DataError(
                    f"{names}: the row with the id {passage.id!r} has no title, by which a page is"
                    " found; name the column: --fields title=NAME"
                )
            pages.setdefault(title, []).append(passage.text)
        texts = [(title, SEPARATOR.join(parts), SEPARATOR) for title, parts in pages.items()]
        connection.executemany(_APPEND, texts)
        num_rows += len(passages)
    (num_pages,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    manifest = KnowledgeManifest(sources, num_rows, num_pages, now, __version__)
    connection.execute("CREATE TABLE lm_factuality_manifest(content)")
    connection.execute("INSERT INTO lm_factuality_manifest VALUES (?)", (manifest.to_json(),))
    connection.commit()
