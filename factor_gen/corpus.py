"""The corpus: its files or its dataset, and the documents in them, as the first stage's examples.

:mod:`factor_gen.pipeline` reads it once and keeps the documents in shards.
"""

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from mmap import mmap
from pathlib import Path
from struct import unpack
from typing import Any

from tqdm import tqdm

from factor_gen.language import ENGLISH
from factor_gen.recipe import columns_of, is_template, left_out, render
from factor_gen.records import Document, Example, whole
from factor_gen.settings import BuildSettings, CorpusSettings
from factor_gen.stages import READ
from factor_gen.text.layout import unwrap
from factor_gen.text.sentences import plain, sentences
from lm_factuality.ground.errors import DataError, did_you_mean
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream
from lm_factuality.ground.tables import Reader, Record, csv_rows, jsonl_rows, parquet_rows

CLEANING = 2
"""Raised when texts are unwrapped in another way, or other sentences count as repeated."""
TEXTS = (".txt", ".text", ".md", ".rst", "")
"""The endings of files that are a document each."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class CorpusFile:
    """A file of the corpus."""

    path: Path
    name: str
    """Its path from the YAML's folder."""
    id: str
    """Its path from where the wildcard stands, which distinguishes it from the other files."""


def find_files(settings: BuildSettings) -> list[CorpusFile]:
    """Return the files that ``corpus.path`` names, sorted by path.

    It names one file, a folder (its ``*.txt``), or a pattern with ``*``.

    Raises:
        DataError: There are none.
    """
    given = settings.corpus.path or ""
    pattern = settings.folder / Path(given).expanduser()
    start = f"paths start from the folder of the YAML, {settings.folder}"
    if pattern.is_dir():
        root = pattern
        paths = sorted(pattern.glob("*.txt"))
        problem = (
            f"the folder {pattern} holds no *.txt; name the files: {given.rstrip('/')}/*.jsonl"
        )
    elif pattern.is_file() or not glob.has_magic(given):
        root = pattern.parent
        paths = [pattern] if pattern.is_file() else []
        problem = f"no such file or folder: {pattern}; {start}"
    else:
        root, wild = _split_pattern(pattern)
        # pathlib's glob finds hidden files too
        matches = glob.glob(wild, root_dir=root, recursive=True)  # noqa: PTH207
        paths = sorted(root / path for path in matches if (root / path).is_file())
        problem = f"no file fits {pattern}; {start}"
    if not paths:
        raise DataError(f"corpus.path {given!r}: {problem}")
    base = root if Path(given).expanduser().is_absolute() else settings.folder
    files = []
    for path in paths:
        name = Path(os.path.relpath(path, base)).as_posix()
        files.append(CorpusFile(path, whole(name), whole(path.relative_to(root).as_posix())))
    return files


def _split_pattern(pattern: Path) -> tuple[Path, str]:
    """Return the folder before the first part with a wildcard, and the rest.

    A folder that is there is meant as it is written.
    """
    root = Path(pattern.anchor)
    parts = pattern.relative_to(root).parts
    for place, part in enumerate(parts):
        if glob.has_magic(part) and not (root / part).is_dir():
            return root, str(Path(*parts[place:]))
        root /= part
    return root.parent, parts[-1]


def is_text(folder: Path, given: str) -> bool:
    """Whether ``corpus.path``, seen from ``folder``, names text files, each one document."""
    path = folder / Path(given).expanduser()
    return path.suffix.lower() in TEXTS[:-1] or path.is_dir()


def _dataset_folder(settings: BuildSettings) -> Path | None:
    """Return the folder that ``corpus.dataset`` is; None if it is a dataset of the Hub."""
    folder = settings.folder / Path(settings.corpus.dataset or "").expanduser()
    return folder if settings.corpus.dataset and folder.is_dir() else None


def corpus_files(settings: BuildSettings) -> list[tuple[Path, str]]:
    """Return the files that the corpus is read from, with their names seen from the YAML.

    Raises:
        DataError: There are no such files.
    """
    if settings.corpus.dataset is None:
        return [(file.path, file.name) for file in find_files(settings)]
    folder = _dataset_folder(settings)
    if folder is None:
        return []
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [(path, whole(path.relative_to(folder).as_posix())) for path in paths]


def corpus_record(settings: BuildSettings, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the corpus is now, as JSON has it.

    Args:
        settings: The settings of the build.
        before: The record when the build began, or an empty one. It spares files of the same size
            and time another hash. A build goes on with the commit that it began with, though the
            dataset may have a newer one.

    Returns:
        The dataset with its revision in the YAML and its commit; or the files, each with its name
        seen from the YAML, bytes, SHA-256 and time.

    Raises:
        DataError: There are no such files or dataset, or a file cannot be read.
    """
    corpus = settings.corpus
    if corpus.dataset is not None and _dataset_folder(settings) is None:
        record = {"dataset": corpus.dataset, "revision": corpus.revision}
        if record.items() <= before.items():
            return dict(before)
        return {**record, "commit": current_commit(settings)}
    known = {}
    for file in before.get("files", ()):
        known[file["name"], file["bytes"], file["mtime_ns"]] = file["sha256"]
    files = []
    paths = tqdm(corpus_files(settings), desc="corpus", unit=" files", delay=2, leave=False)
    for path, name in paths:
        try:
            stat = path.stat()
            sha256 = known.get((name, stat.st_size, stat.st_mtime_ns)) or sha256_of(path)
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read: {error}; let yourself read it, or leave it out of"
                " corpus.path"
            ) from error
        file = {"name": name, "bytes": stat.st_size, "sha256": sha256}
        files.append({**file, "mtime_ns": stat.st_mtime_ns})
    return {"files": files}


def describe_corpus(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a record decides the documents, for the manifest."""
    if "commit" in record:
        return {"dataset": record["dataset"], "commit": record["commit"]}
    keys = ("name", "bytes", "sha256")
    return {"files": [{key: file[key] for key in keys} for file in record["files"]]}


def current_commit(settings: BuildSettings) -> str:
    """Return the commit that the dataset's revision, or its newest one, is at now.

    Raises:
        DataError: The Hub does not answer, or has no such dataset.
    """
    corpus = settings.corpus
    if corpus.revision is not None and _COMMIT.fullmatch(corpus.revision):
        return corpus.revision
    place = f"corpus.dataset, no folder in {settings.folder}"
    return commit_of(corpus.dataset or "", place, corpus.revision)


def read_documents(
    settings: BuildSettings, commit: str | None = None, filtered: Counter[str] | None = None
) -> Iterator[Document]:
    """Yield the first ``corpus.documents`` documents, in the order of the files.

    Args:
        settings: The settings of the build.
        commit: What a dataset of the Hub is read at; None asks for the current one.
        filtered: Counts the rows that ``corpus.where`` leaves out, by reason.

    Raises:
        DataError: Files are not there or cannot be read, or a row is no document; the text names
            the row by its file and line.
    """
    corpus = settings.corpus
    counts = Counter[str]() if filtered is None else filtered
    if corpus.dataset is None:
        files = find_files(settings)
        documents = chain.from_iterable(
            _read_file(file, corpus, counts, is_only=len(files) == 1) for file in files
        )
        return islice(documents, corpus.documents)
    folder = _dataset_folder(settings)
    if folder is None:
        commit = commit or current_commit(settings)
    rows = _dataset_rows(corpus, folder, commit)
    return islice(_documents(rows, corpus, str, counts), corpus.documents)


def _dataset_rows(
    corpus: CorpusSettings, folder: Path | None, commit: str | None
) -> Iterator[Record]:
    place = f"corpus.dataset {corpus.dataset!r}"
    form = "corpus: {dataset: NAME, split: NAME}"
    # the datasets library takes several splits only where it does not stream
    for split in map(str.strip, corpus.split.split("+")):
        source = folder or corpus.dataset or ""
        rows = stream(source, corpus.config, split, commit, place, form)
        for number, values in enumerate(rows, start=1):
            yield Record(f"{corpus.dataset}[{split}], row {number}", values)


def _read_file(
    file: CorpusFile, corpus: CorpusSettings, filtered: Counter[str], *, is_only: bool
) -> Iterator[Document]:
    """Yield the documents of a file.

    Rows without an id are numbered 1, 2, ... in an only file, else FILE:1, FILE:2, ...
    """
    needed = columns_of(corpus.text, corpus.where) + ([corpus.id] if corpus.id else [])
    readers: Mapping[str, Reader] = {
        ".jsonl": jsonl_rows,
        ".jsonl.gz": jsonl_rows,
        ".ndjson": jsonl_rows,
        ".csv": partial(csv_rows, repeated_columns=True),
        ".parquet": partial(parquet_rows, needed=needed, optional=["id"]),
    }
    name = file.path.name.lower()
    if file.path.suffix.lower() in TEXTS:
        yield _text_document(file)
        return
    reader = next((readers[ending] for ending in readers if name.endswith(ending)), None)
    if reader is None:
        raise DataError(
            f"{file.path}: ends in {file.path.suffix.lower()!r}, expected"
            f" {', '.join([*readers, *filter(None, TEXTS)])}; convert it, or name others with a"
            " pattern such as corpus: my_texts/*.txt"
        )
    if name.endswith(".csv") and file.path.stat().st_size == 0:
        raise DataError(f"{file.path}: empty; expected a header and one document per row")
    number = str if is_only else (lambda row: f"{file.id}:{row}")
    yield from _documents(reader(file.path), corpus, number, filtered)


def _text_document(file: CorpusFile) -> Document:
    """Return the document that a text file is; line breaks stay as they are."""
    try:
        content = file.path.read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise DataError(f"{file.path}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{file.path}:{line}: byte 0x{content[error.start]:02x} at offset {error.start} is not"
            " UTF-8; save the file as UTF-8"
        ) from error
    return Document(file.id, text.removeprefix("\ufeff"), str(file.path))


def _documents(
    rows: Iterator[Record | str],
    corpus: CorpusSettings,
    number: Callable[[int], str],
    filtered: Counter[str],
) -> Iterator[Document]:
    """Yield the document in each row; a null text is an empty one."""
    needed = columns_of(corpus.text, corpus.where)
    for place, row in enumerate(rows, start=1):
        if isinstance(row, str):
            raise DataError(row)
        for column in needed:
            if column not in row.values:
                part = "text" if column == corpus.text else "where"
                raise _no_column(part, column, row)
        reason = left_out(corpus.where, row.values)
        if reason:
            filtered[reason] += 1
            continue
        text = _text(row, corpus.text)
        doc_id = _id(row, corpus, number(place))
        yield Document(doc_id, whole(text or ""), row.location)


def _text(row: Record, source: str) -> str | None:
    """Return the text in the column ``source``, or what the template ``source`` makes of a row."""
    if is_template(source):
        try:
            return render(source, row.values)
        except ValueError as error:
            raise DataError(
                f"{row.location}: the template of corpus.text {error}; change corpus.text or"
                " the row"
            ) from error
    text = row.values[source]
    if text is not None and not isinstance(text, str):
        raise DataError(
            f"{row.location}: {source!r} is a {type(text).__name__}, expected the text of a"
            " document"
        )
    return text


def _id(row: Record, corpus: CorpusSettings, number: str) -> str:
    """Return the id of a row, or its number if the table has none."""
    key = corpus.id or "id"
    if corpus.id is not None and key not in row.values:
        raise _no_column("id", key, row)
    value = row.values.get(key)
    if isinstance(value, str) and value.strip():
        return whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if corpus.id is None and value in (None, ""):
        return number
    kinds = {str: "empty", type(None): "null"}
    kind = kinds.get(type(value), f"a {type(value).__name__}")
    raise DataError(
        f"{row.location}: {key!r} is {kind}, expected a text or a whole number; name another"
        " column: corpus: {id: NAME}"
    )


def _no_column(part: str, name: str, row: Record) -> DataError:
    names = [str(column) for column in row.values]
    columns = ", ".join(map(repr, names)) or "none"
    advice = f"name the one with the {part}: corpus: {{{part}: NAME}}"
    if part == "where":
        advice = "corpus.text or corpus.where asks for it: name another there"
    return DataError(
        f"{row.location}: no column {name!r}{did_you_mean(name, names)}; found {columns}; {advice}"
    )


def distinct(
    documents: Iterable[Document], unwrapped: bool = False, language: str = ENGLISH
) -> Iterator[Example]:
    """Yield an example for each document, its ``prefix`` the whole text.

    A document whose id or text came before is unused. ``repeated`` says where sentences begin that
    a document before has as well.

    Args:
        documents: The documents.
        unwrapped: Whether lines that were broken at a width are joined.
        language: Of the texts, by which sentences are split.
    """
    ids = _Seen()
    texts = _Seen()
    known_sentences = _Seen()
    for document in documents:
        text = unwrap(document.text) if unwrapped else document.text
        example = Example(document.id, prefix=text)
        if not ids.add([document.id])[0]:
            yield example.drop(READ, "the id of another document")
        elif document.text.strip() and not texts.add([document.text])[0]:
            yield example.drop(READ, "the text of another document")
        else:
            spans = sentences(text, language)
            are_new = known_sentences.add([plain(text[start:end]) for start, end in spans])
            repeated = [
                start for (start, _), is_new in zip(spans, are_new, strict=True) if not is_new
            ]
            yield replace(example, repeated=tuple(repeated))


class _Seen:
    """A set of texts in 64 MB however many they are (a Bloom filter).

    A text that is new counts as seen with a chance of one in 50 million after 10 million texts, one
    in 4,000 after 30 million, and one in 8 after 100 million; never the other way.
    """

    _BITS = 29
    _PROBES = 8

    def __init__(self) -> None:
        # zeros, in memory where they are touched
        self._bits = mmap(-1, 1 << (self._BITS - 3))

    def add(self, texts: Sequence[str]) -> list[bool]:
        """Add ``texts``; return of each whether no earlier call had it."""
        places_of_text = [self._places(text) for text in texts]
        are_new = [
            any(not self._bits[place >> 3] >> (place & 7) & 1 for place in places)
            for places in places_of_text
        ]
        for place in chain.from_iterable(places_of_text):
            self._bits[place >> 3] |= 1 << (place & 7)
        return are_new

    def _places(self, text: str) -> list[int]:
        digest = blake2b(text.encode("utf-8"), digest_size=4 * self._PROBES).digest()
        return [probe >> (32 - self._BITS) for probe in unpack(f"<{self._PROBES}I", digest)]
