"""Pages by title in one SQLite file, the format in which FActScore keeps Wikipedia.

`Knowledge` opens a file of ours or of FActScore. `build` fills a new one by `write_pages`.
"""

import datetime
import hashlib
import json
import re
import sqlite3
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lm_factuality import __version__
from lm_factuality.documents import Document, UnreadDocument
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import to_model
from lm_factuality.retrieval.passages import Passage, ReadingLog, ReadingRecord, SourceRecord

# FActScore's separator of the passages of a page.
SEPARATOR = "####SPECIAL####SEPARATOR####"
# The number of words of a passage. FActScore takes 256 tokens of RoBERTa.
MAX_WORDS = 256

# The identity of a file without a manifest depends on this many bytes at either end.
_NUM_END_BYTES = 1 << 20
_REBUILD = "copy the file again, or build it: lm-factuality knowledge build SOURCE --out FILE"
# RoBERTa's tags of sentences, which FActScore leaves in its pages.
_SENTENCE_TAG = re.compile("</?s>")
# Typographic quotes and hyphens, with the plain ones that replace them.
_PLAIN_PUNCTUATION = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "\u2011": "-"}
)
_ADD_PAGE = (
    "INSERT INTO documents(title, text) VALUES (?, ?) ON CONFLICT(title)"
    " DO UPDATE SET text = text || ? || excluded.text"
)


@dataclass(frozen=True)
class KnowledgeManifest:
    """The description of a knowledge file, kept in the file itself."""

    sources: tuple[SourceRecord, ...]
    """The sources of the pages."""

    rows: int
    """The number of rows that were read."""

    pages: int
    """The number of pages, which is the number of distinct titles."""

    built: str
    """The time of the build in UTC, such as ``2025-06-01T12:00:00+00:00``."""

    suite_version: str
    """The version of lm-factuality that built the file."""

    format: Literal[1] = 1
    """The version of the format."""

    documents: ReadingRecord | None = None
    """How many documents were read. None if no source holds documents."""

    def to_json(self) -> str:
        """Return the manifest as JSON, which the file keeps."""
        content = asdict(self)
        # The identities of files that earlier versions made depend on the keys that those had.
        if self.documents is None:
            del content["documents"]
        return json.dumps(content, ensure_ascii=False)


class Knowledge:
    """A SQLite file of pages by title, such as Wikipedia's.

    Attributes:
        path: The file.
        manifest: The description of the file. None for files that FActScore made.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a file for reading.

        Args:
            path: A file that ``lm-factuality knowledge build`` or FActScore made.

        Raises:
            DataError: The file does not exist, or is not a SQLite database with a table
                ``documents(title, text)``.
        """
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError(
                f"{self.path}: no such file; make it with: lm-factuality knowledge build SOURCE"
                f" --out {self.path}"
            )
        # Read-only mode never changes the file, which may be FActScore's.
        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)

        columns = self._query_column("SELECT name FROM pragma_table_info('documents')")
        tables = self._query_column("SELECT name FROM sqlite_master WHERE type = 'table'")
        # A table that does not exist has no columns here.
        if not {"title", "text"} <= set(columns):
            raise DataError(
                f"{self.path}: found the tables {', '.join(tables) or 'none'} and in documents the"
                f" columns {', '.join(columns) or 'none'}, expected a table documents with the"
                f" columns title and text, as FActScore has it; {_REBUILD}"
            )
        # Files that FActScore made have no manifest.
        has_manifest = "lm_factuality_manifest" in tables
        self.manifest = self._read_manifest() if has_manifest else None

    def passages(self, title: str) -> list[str] | None:
        """Return the passages of the page with a title.

        Args:
            title: The title in any of its `spellings`, such as ``Ada_Lovelace``.

        Returns:
            The passages in order, or None if there is no page with this title.

        Raises:
            DataError: The file is damaged, or the page is not text.
        """
        for spelling in spellings(title):
            texts = self._query_column("SELECT text FROM documents WHERE title = ?", spelling)
            if not texts:
                continue
            # Titles are unique, so there is one text. But SQLite also stores numbers and bytes in a
            # column of texts, and a file of another program may have such pages.
            text = texts[0]
            if not isinstance(text, str):
                raise DataError(
                    f"{self.path}: the page {spelling!r} is a {type(text).__name__}, expected text;"
                    f" {_REBUILD}"
                )
            return split_page(text)
        return None

    def iterate_pages(self) -> Iterator[Document | UnreadDocument]:
        """Yield all pages as documents, whose ids are the titles.

        FActScore's separators become empty lines. A page that is not text cannot be read.

        Raises:
            DataError: The file is damaged.
        """
        try:
            for title, text in self._connection.execute("SELECT title, text FROM documents"):
                if isinstance(title, str) and isinstance(text, str):
                    plain_text = _SENTENCE_TAG.sub(" ", text.replace(SEPARATOR, "\n\n"))
                    yield Document(title, title, plain_text)
                else:
                    reason = f"the page {title!r} is a {type(text).__name__}, expected text"
                    yield UnreadDocument(str(self.path), reason)
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be read: {error}; {_REBUILD}") from error

    def __len__(self) -> int:
        """Return the number of pages, which is counted if the file has no manifest."""
        if self.manifest is not None:
            return self.manifest.pages
        return int(self._query_column("SELECT count(*) FROM documents")[0])

    @cached_property
    def identity(self) -> str:
        """16 hexadecimal digits that identify the file in caches and results files.

        They are the start of the manifest's SHA-256. A file without a manifest may have many
        gigabytes, so only its size and its first and last mebibyte are hashed.
        """
        if self.manifest is not None:
            return hashlib.sha256(self.manifest.to_json().encode()).hexdigest()[:16]

        num_bytes = self.path.stat().st_size
        with self.path.open("rb") as file:
            digest = hashlib.sha256(f"{num_bytes}\0".encode())
            digest.update(file.read(_NUM_END_BYTES))
            # The start and the end overlap if the file is small.
            file.seek(max(0, num_bytes - _NUM_END_BYTES))
            digest.update(file.read())
        return digest.hexdigest()[:16]

    def _read_manifest(self) -> KnowledgeManifest:
        """Read the manifest that `write_pages` has put into the file.

        Raises:
            DataError: The manifest is damaged.
        """
        contents = self._query_column("SELECT content FROM lm_factuality_manifest")
        try:
            return to_model(KnowledgeManifest, parse_json(contents[0]))
        except (ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"{self.path}: its manifest cannot be read: {error}; {_REBUILD}"
            ) from error

    def _query_column(self, query: str, *values: str) -> list[Any]:
        """Run an SQL query that selects one column, and return the values of all rows.

        Raises:
            DataError: The file is damaged.
        """
        try:
            return [value for (value,) in self._connection.execute(query, values)]
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be read: {error}; {_REBUILD}") from error


def split_page(text: str) -> list[str]:
    """Split the text of a page into its passages.

    Example:
        ``<s>He rowed.</s>####SPECIAL####SEPARATOR####<s>She swam.</s>`` becomes ``He rowed.`` and
        ``She swam.``

    Args:
        text: The text, in which FActScore's separator stands between passages.

    Returns:
        The passages in order, without empty ones. A passage of more than `MAX_WORDS` words, and a
        page without separators, are cut into passages of this many words.
    """
    if SEPARATOR not in text:
        # Most sources hold whole pages, without separators.
        return _cut(_SENTENCE_TAG.sub(" ", text).split())

    passages: list[str] = []
    for part in text.split(SEPARATOR):
        passage = _SENTENCE_TAG.sub(" ", part).strip()
        words = passage.split()
        if len(words) > MAX_WORDS:
            passages.extend(_cut(words))
        elif passage:
            # A short passage keeps its line breaks.
            passages.append(passage)
    return passages


def _cut(words: Sequence[str]) -> list[str]:
    """Join words into passages of `MAX_WORDS` words. The last one may be shorter."""
    starts = range(0, len(words), MAX_WORDS)
    return [" ".join(words[start : start + MAX_WORDS]) for start in starts]


def spellings(title: str) -> list[str]:
    """Return the spellings under which a page may be stored, the most similar to its title first.

    Example:
        ``émile_Røst`` may be stored as ``émile Røst`` or ``Émile Røst``. Other letters keep their
        case, and brackets stay.

    Returns:
        The title and its distinct variants: without surplus spaces, with spaces for underscores,
        with plain quotes and hyphens for typographic ones, with a capital first letter, and with
        composed (NFC) or decomposed (NFD) accents. Empty ones are left out if the title is not.
    """
    # Each spelling is made from those before it: ``émile_Røst`` becomes ``émile Røst``, then the
    # same with plain punctuation, then both with a capital letter.
    spaced = " ".join(title.replace("_", " ").split())
    plain = spaced.translate(_PLAIN_PUNCTUATION)
    capitalised = [text[:1].upper() + text[1:] for text in (spaced, plain)]

    # Most files have the title as it is, so the first look-up is usually enough.
    variants = [title, title.strip()]
    for variant in (spaced, plain, *capitalised):
        variants.append(unicodedata.normalize("NFC", variant))
        variants.append(unicodedata.normalize("NFD", variant))

    # A dictionary keeps the order, which a set would not.
    distinct = dict.fromkeys(variants)
    return [variant for variant in distinct if variant or not title]


def write_pages(
    connection: sqlite3.Connection,
    batches: Iterable[Sequence[Passage]],
    sources: tuple[SourceRecord, ...],
    log: ReadingLog,
) -> None:
    """Fill a new SQLite file with pages and a manifest.

    The passages of one title become one page, in which FActScore's separator stands between them.

    Args:
        connection: The connection to the empty file, which is changed and committed.
        batches: The passages in batches that fit into memory.
        sources: The descriptions of the sources, for the manifest.
        log: Counts the documents in the sources while the batches are read.

    Raises:
        DataError: A passage has no title.
    """
    # No journal is needed, because the caller deletes the file if an error occurs.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("CREATE TABLE documents(title PRIMARY KEY, text)")
    num_rows = 0
    for passages in batches:
        pages = _join_by_title(passages, sources)
        # The statement appends to a page that is in the file already, and puts the separator, its
        # third value, before the new text. A new page gets no separator.
        rows = [(title, text, SEPARATOR) for title, text in pages.items()]
        connection.executemany(_ADD_PAGE, rows)
        num_rows += len(passages)

    # A page may have passages in several batches, so pages are counted in the file.
    (num_pages,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    manifest = KnowledgeManifest(
        sources, num_rows, num_pages, now, __version__, documents=log.record()
    )
    connection.execute("CREATE TABLE lm_factuality_manifest(content)")
    connection.execute("INSERT INTO lm_factuality_manifest VALUES (?)", (manifest.to_json(),))
    connection.commit()


def _join_by_title(passages: Sequence[Passage], sources: Sequence[SourceRecord]) -> dict[str, str]:
    """Join the texts of the passages that have the same title, and return them by title.

    SQLite rewrites a page for each text that is appended to it, so joining first saves time.

    Args:
        passages: The passages in the order of the source.
        sources: The sources of the passages, for the error message.

    Raises:
        DataError: A passage has no title.
    """
    texts_by_title: defaultdict[str, list[str]] = defaultdict(list)
    for passage in passages:
        title = passage.title.strip()
        if not title:
            names = ", ".join(source.path for source in sources)
            raise DataError(
                f"{names}: the row with the id {passage.id!r} has no title, by which a page is"
                " found; name the column: --fields title=NAME"
            )
        texts_by_title[title].append(passage.text)
    return {title: SEPARATOR.join(texts) for title, texts in texts_by_title.items()}
