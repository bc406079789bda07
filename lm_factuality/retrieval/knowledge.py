"""Pages by title in one SQLite file, as FActScore keeps Wikipedia: opening one of ours or
FActScore's own, and its passages."""

import hashlib
import json
import re
import sqlite3
import unicodedata
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import to_model
from lm_factuality.retrieval.passages import SourceRecord

TABLE, MANIFEST = "documents", "lm_factuality_manifest"
STATE = "lm_factuality_build"  # how far an unfinished build has come
FORMAT = 1
_MAGIC = b"SQLite format 3\0"
_ENDS = 1 << 20  # bytes at either end of a file that its identity depends on
_AGAIN = "copy the file again, or build it: lm-factuality knowledge build SOURCE --out FILE"
SEPARATOR = "####SPECIAL####SEPARATOR####"  # FActScore's
WORDS = 256  # of a passage; FActScore has as many tokens of RoBERTa
_MARKS = re.compile("</?s>")  # RoBERTa's, which FActScore leaves in its pages
_PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "\u2011": "-"}
)


@dataclass(frozen=True)
class KnowledgeManifest:
    """What a file was made of: its sources, rows read, pages made of them, when (UTC), by which
    version of the suite."""

    sources: tuple[SourceRecord, ...]
    rows: int
    pages: int
    built: str
    suite_version: str
    format: int = FORMAT

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


class Knowledge:
    """Pages by title, looked up as it is, then as ``spellings`` has it. Files that FActScore made
    have no manifest."""

    def __init__(self, path: str | Path) -> None:
        """Opens ``path`` for reading. Raises DataError: no SQLite file with ``documents(title,
        text)``, or unfinished."""
        self.path = Path(path)
        _check_magic(self.path)
        self._connection = sqlite3.connect(
            f"{self.path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
        columns = [row[1] for row in self._rows(f"PRAGMA table_info({TABLE})")]
        tables = [
            row[0] for row in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        if not {"title", "text"} <= set(columns):
            found = (
                f"columns {', '.join(columns)}"
                if columns
                else f"the tables {', '.join(tables) or 'none'}"
            )
            expected = f"a table {TABLE} with the columns title and text, as FActScore has it"
            raise DataError(f"{self.path}: found {found}, expected {expected}; {_AGAIN}")
        if STATE in tables:
            raise DataError(f"{self.path}: a build that was not finished; give its command again")
        self.manifest = self._read_manifest() if MANIFEST in tables else None

    def passages(self, title: str) -> list[str] | None:
        """The passages of the page called ``title``, in their order; None without one. Raises
        DataError: the file is damaged."""
        for spelling in spellings(title):
            for (text,) in self._rows(f"SELECT text FROM {TABLE} WHERE title = ?", spelling):  # noqa: S608
                if not isinstance(text, str):
                    raise DataError(
                        f"{self.path}: the page {spelling!r} is a {type(text).__name__}, expected"
                        f" text; {_AGAIN}"
                    )
                return split_page(text)
        return None

    def __len__(self) -> int:
        """The number of pages; counted in files without a manifest."""
        return self._count() if self.manifest is None else self.manifest.pages

    @cached_property
    def identity(self) -> str:
        """16 hexadecimal digits that differ between files: of the manifest, or else of the file's
        size, beginning and end."""
        if self.manifest is not None:
            return hashlib.sha256(self.manifest.to_json().encode()).hexdigest()[:16]
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            digest = hashlib.sha256(b"%d\0" % size + file.read(_ENDS))
            file.seek(max(0, size - _ENDS))
            digest.update(file.read())
        return digest.hexdigest()[:16]

    def check(self) -> None:
        """Reads the whole file. Raises DataError: it is damaged, or has not as many pages as its
        manifest says."""
        ((answer,),) = self._rows("PRAGMA integrity_check(1)")
        if answer != "ok":
            raise DataError(f"{self.path}: damaged: {answer}; {_AGAIN}")
        if self.manifest is not None and (count := self._count()) != self.manifest.pages:
            raise DataError(
                f"{self.path}: {count} pages, expected {self.manifest.pages} as its manifest says;"
                f" {_AGAIN}"
            )

    def close(self) -> None:
        self._connection.close()

    def _count(self) -> int:
        return int(self._rows(f"SELECT count(*) FROM {TABLE}")[0][0])  # noqa: S608

    def _read_manifest(self) -> KnowledgeManifest:
        rows = self._rows(f"SELECT content FROM {MANIFEST}")  # noqa: S608
        try:
            if not rows:
                raise ValueError("it is empty")
            values: dict[str, Any] = parse_json(rows[0][0])
            if values["format"] != FORMAT:
                raise ValueError(
                    f"format {values['format']!r}, but this version of the suite reads {FORMAT}"
                )
            return to_model(KnowledgeManifest, values)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self.path}: its manifest cannot be read: {error}; {_AGAIN}"
            ) from error

    def _rows(self, query: str, *values: str) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be read: {error}; {_AGAIN}") from error


def _check_magic(path: Path) -> None:
    if path.is_dir():
        raise DataError(
            f"{path}: is a folder, expected a knowledge source: a SQLite file; an index is not a"
            " knowledge source"
        )
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except FileNotFoundError as error:
        raise DataError(
            f"{path}: no such file; make it with: lm-factuality knowledge build SOURCE --out {path}"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    if start != _MAGIC:
        raise DataError(f"{path}: not a SQLite file (it starts with {start[:16]!r}); {_AGAIN}")


def split_page(text: str) -> list[str]:
    """The passages of a page in their order, none of them empty: what stands between separators;
    where that has more than ``WORDS`` words (by white space), or there are no separators, cut after
    so many, line breaks becoming spaces."""
    if SEPARATOR not in text:
        return _cut(_MARKS.sub(" ", text).split())
    found: list[str] = []
    for part in text.split(SEPARATOR):
        passage = _MARKS.sub(" ", part).strip()
        words = passage.split()
        found += _cut(words) if len(words) > WORDS else [passage] if passage else []
    return found


def _cut(words: list[str]) -> list[str]:
    return [" ".join(words[start : start + WORDS]) for start in range(0, len(words), WORDS)]


def spellings(title: str) -> list[str]:
    """``title`` itself first, then what it may be called elsewhere, most alike first: without
    surrounding and doubled spaces, underscores as spaces, composed (NFC) and decomposed (NFD)
    accents, typographic quotes and dashes as plain ones, the first letter a capital. Each once;
    case and brackets are otherwise part of a title."""
    spaced = " ".join(title.replace("_", " ").split())
    plain = spaced.translate(_PLAIN)
    found = [title, title.strip()]
    for text in (spaced, plain, spaced[:1].upper() + spaced[1:], plain[:1].upper() + plain[1:]):
        found += [unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    return [text for text in dict.fromkeys(found) if text or not title]
