"""The corpus: its files or its dataset, and the documents in them, as the first stage's examples.

:mod:`factor_gen.pipeline` reads it once and keeps the documents in shards.
"""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from lm_factuality.ground.errors import DataError, did_you_mean, short
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream
from lm_factuality.ground.tables import Reader, TableRow, csv_rows, jsonl_rows, parquet_rows

CLEANING = 2
"""Raised when texts are unwrapped in another way, or other sentences count as repeated."""
TEXTS = (".txt", ".text", ".md", ".rst", "")
"""The endings of files that are a document each."""


@dataclass(frozen=True)
class CorpusFile:
    """A file of the corpus."""

    path: Path
    name: str
    """Its path from the YAML's folder."""
    id: str
    """Its path from where the wildcard stands, which distinguishes it from the other files."""


def find_files(settings: BuildSettings) -> list[CorpusFile]:
    """Return the files of the corpus, sorted by path; none of a dataset of the Hub.

    ``corpus.path`` names one file, a folder (its ``*.txt``), or a pattern with ``*``. A folder that
    ``corpus.dataset`` names holds files of any kind.

    Raises:
        DataError: ``corpus.path`` names no file.
    """
    root = _dataset_folder(settings)
    base = root
    wild = "**"
    if settings.corpus.path is not None:
        pattern = Path(settings.corpus.path).expanduser()
        if (settings.folder / pattern).is_dir():
            pattern /= "*.txt"
        root = settings.folder
        parts = list(pattern.parts)
        # a folder that is there is meant as it is written
        while len(parts) > 1 and not (glob.has_magic(parts[0]) and not (root / parts[0]).is_dir()):
            root /= parts.pop(0)
        base = root if pattern.is_absolute() else settings.folder
        wild = str(Path(*parts))
    if root is None or base is None:
        return []
    matches = [wild]
    if not (root / wild).is_file():
        # pathlib's glob finds hidden files too
        matches = glob.glob(wild, root_dir=root, recursive=True)  # noqa: PTH207
    files = []
    for path in sorted(root / match for match in matches if (root / match).is_file()):
        name = Path(os.path.relpath(path, base)).as_posix()
        files.append(CorpusFile(path, whole(name), whole(path.relative_to(root).as_posix())))
    if not files and settings.corpus.path is not None:
        raise DataError(
            f"corpus.path {settings.corpus.path!r}: no file fits {root / wild}; paths start from"
            f" the folder of the YAML, {settings.folder}; name files, such as my_texts/*.jsonl"
        )
    return files


def is_text(folder: Path, given: str) -> bool:
    """Whether ``corpus.path``, seen from ``folder``, names text files, each one document."""
    path = folder / Path(given).expanduser()
    return path.suffix.lower() in TEXTS[:-1] or path.is_dir()


def _dataset_folder(settings: BuildSettings) -> Path | None:
    """Return the folder that ``corpus.dataset`` is; None if it is a dataset of the Hub."""
    folder = settings.folder / Path(settings.corpus.dataset or "").expanduser()
    return folder if settings.corpus.dataset and folder.is_dir() else None


def corpus_record(settings: BuildSettings, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the corpus is now, as JSON has it.

    Args:
        settings: The settings of the build.
        before: The record when the build began, or an empty one. A build goes on with the commit
            that it began with, though the dataset may have a newer one.

    Returns:
        The dataset with its revision in the YAML and its commit; or the files, each with its name
        seen from the YAML, bytes and SHA-256.

    Raises:
        DataError: There are no such files or dataset, or a file cannot be read.
    """
    corpus = settings.corpus
    if corpus.dataset is not None and _dataset_folder(settings) is None:
        record = {"dataset": corpus.dataset, "revision": corpus.revision}
        if record.items() <= before.items():
            return dict(before)
        place = f"corpus.dataset, no folder in {settings.folder}"
        return {**record, "commit": commit_of(corpus.dataset, place, corpus.revision)}
    files = []
    for file in tqdm(find_files(settings), desc="corpus", unit=" files", delay=2, leave=False):
        try:
            size = file.path.stat().st_size
            files.append({"name": file.name, "bytes": size, "sha256": sha256_of(file.path)})
        except OSError as error:
            raise DataError(
                f"{file.path}: cannot be read: {error}; let yourself read it, or leave it out of"
                " corpus.path"
            ) from error
    return {"files": files}


def read_documents(
    settings: BuildSettings, commit: str | None = None, filtered: Counter[str] | None = None
) -> Iterator[Document]:
    """Yield the first ``corpus.documents`` documents, in the order of the files.

    Args:
        settings: The settings of the build.
        commit: What a dataset of the Hub is read at; None: the YAML's, or the newest.
        filtered: Counts the rows that ``corpus.where`` leaves out, by reason.

    Raises:
        DataError: Files are not there or cannot be read, or a row is no document; the text names
            the row by its file and line.
    """
    corpus = settings.corpus
    counts = Counter[str]() if filtered is None else filtered
    if corpus.path is None:
        rows = _dataset_rows(corpus, _dataset_folder(settings), commit or corpus.revision)
        documents = _documents(rows, corpus, "", counts)
    else:
        files = find_files(settings)
        documents = chain.from_iterable(
            _read_file(file, corpus, "" if len(files) == 1 else f"{file.id}:", counts)
            for file in files
        )
    return islice(documents, corpus.documents)


def _dataset_rows(
    corpus: CorpusSettings, folder: Path | None, commit: str | None
) -> Iterator[TableRow]:
    place = f"corpus.dataset {corpus.dataset!r}"
    form = "corpus: {dataset: NAME, split: NAME}"
    # the datasets library takes several splits only where it does not stream
    for split in map(str.strip, corpus.split.split("+")):
        source = folder or corpus.dataset or ""
        rows = stream(source, corpus.config, split, commit, place, form)
        for number, values in enumerate(rows, start=1):
            yield TableRow(f"{corpus.dataset}[{split}], row {number}", values)


def _read_file(
    file: CorpusFile, corpus: CorpusSettings, numbered: str, filtered: Counter[str]
) -> Iterator[Document]:
    """Yield the documents of a file.

    Args:
        file: The file.
        corpus: The settings of the corpus.
        numbered: What stands before the number of a row without an id.
        filtered: Counts the rows that are left out, by reason.
    """
    if file.path.suffix.lower() in TEXTS:
        yield _text_document(file)
        return
    needed = _columns_of(corpus)
    readers: Mapping[str, Reader] = {
        ".jsonl": jsonl_rows,
        ".jsonl.gz": jsonl_rows,
        ".ndjson": jsonl_rows,
        ".csv": csv_rows,
        ".parquet": partial(parquet_rows, needed=needed, optional=["id"]),
    }
    for ending, reader in readers.items():
        if file.path.name.lower().endswith(ending):
            yield from _documents(reader(file.path), corpus, numbered, filtered)
            return
    raise DataError(
        f"{file.path}: expected a file that ends in {', '.join([*readers, *TEXTS[:-1]])}; convert"
        " it, or name others with a pattern such as corpus: my_texts/*.txt"
    )


def _text_document(file: CorpusFile) -> Document:
    """Return the document that a text file is; line breaks stay as they are."""
    try:
        text = file.path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{file.path}: cannot be read: {error}; expected a text in UTF-8"
        ) from error
    return Document(file.id, text, str(file.path))


def _columns_of(corpus: CorpusSettings) -> list[str]:
    return columns_of(corpus.text, corpus.where) + ([corpus.id] if corpus.id else [])


def _documents(
    rows: Iterator[TableRow | str], corpus: CorpusSettings, numbered: str, filtered: Counter[str]
) -> Iterator[Document]:
    """Yield the document in each row; a null text is an empty one."""
    needed = _columns_of(corpus)
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str):
            raise DataError(row)
        for column in needed:
            if column not in row.values:
                names = [str(name) for name in row.values]
                raise DataError(
                    f"{row.location}: no column {column!r}{did_you_mean(column, names)}; found"
                    f" {', '.join(map(repr, names)) or 'none'}; name another in corpus.text,"
                    " corpus.id or corpus.where, which ask for it: corpus: {text: NAME}"
                )
        reason = left_out(corpus.where, row.values)
        if reason:
            filtered[reason] += 1
            continue
        text = _text(row, corpus.text)
        doc_id = _id(row, corpus, f"{numbered}{number}")
        yield Document(doc_id, whole(text or ""), row.location)


def _text(row: TableRow, source: str) -> str | None:
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


def _id(row: TableRow, corpus: CorpusSettings, number: str) -> str:
    """Return the id of a row, or its number if the table has none."""
    key = corpus.id or "id"
    value = row.values.get(key)
    if corpus.id is None and value in (None, ""):
        return number
    if isinstance(value, str) and value.strip():
        return whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise DataError(
        f"{row.location}: {key!r} is {short(value)}, expected a text or a whole number; name"
        " another column: corpus: {id: NAME}"
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
