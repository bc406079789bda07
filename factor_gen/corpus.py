"""The corpus: its files or its dataset, and the documents in them, as the first stage's examples.

:mod:`factor_gen.pipeline` reads it once and keeps the documents in shards.
"""

import glob
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from factor_gen.language import ENGLISH
from factor_gen.recipe import columns_of, document_text, left_out
from factor_gen.records import Example, Sentence, whole
from factor_gen.settings import BuildSettings, CorpusSettings
from factor_gen.stages import READ
from factor_gen.text.layout import unwrap
from factor_gen.text.sentences import plain, sentences
from lm_factuality.ground.errors import DataError, did_you_mean, short
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream
from lm_factuality.ground.tables import FORMATS, TableRow

CLEANING = 4
"""Raised when texts are unwrapped in another way, or are kept in another form."""
TEXTS = (".txt", ".text", ".md", ".rst", "")
"""The endings of files that are a document each."""


def find_files(settings: BuildSettings) -> dict[str, Path]:
    """Return the files of the corpus, sorted by path; none of a dataset of the Hub.

    ``corpus.path`` names one file, a folder (its ``*.txt``), or a pattern with ``*``. A folder that
    ``corpus.dataset`` names holds files of any kind.

    Returns:
        The path of each file by its id, which is its path from the folder that the pattern starts
        in.

    Raises:
        DataError: ``corpus.path`` names no file.
    """
    path = settings.corpus.path
    if path is None:
        folder = _dataset_folder(settings)
        return {} if folder is None else _matches(folder / "**")
    pattern = settings.folder / Path(path).expanduser()
    if pattern.is_dir():
        pattern /= "*.txt"
    files = _matches(pattern)
    if not files:
        raise DataError(
            f"corpus.path {path!r}: no file fits {pattern}; paths start from the folder of the"
            f" YAML, {settings.folder}; name files, such as my_texts/*.jsonl"
        )
    return files


def _matches(pattern: Path) -> dict[str, Path]:
    """Return the files that a pattern fits, by their paths from the folder that it starts in."""
    # a folder or file that is there is meant as it is written, even with a * in its name
    root = next((parent for parent in pattern.parents if parent.is_dir()), pattern.parent)
    matches = [pattern.name]
    if not pattern.is_file():
        wild = str(pattern.relative_to(root))
        # pathlib's glob finds hidden files too
        matches = glob.glob(wild, root_dir=root, recursive=True)  # noqa: PTH207
    files = {}
    for path in sorted(root / match for match in matches):
        if path.is_file():
            files[whole(path.relative_to(root).as_posix())] = path
    return files


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
        The dataset with its revision in the YAML and its commit; or the files, each with its id,
        bytes and SHA-256.

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
    for name, path in tqdm(find_files(settings).items(), desc="corpus", unit=" files", delay=2):
        try:
            size = path.stat().st_size
            files.append({"name": name, "bytes": size, "sha256": sha256_of(path)})
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read: {error}; let yourself read it, or leave it out of"
                " corpus.path"
            ) from error
    return {"files": files}


def read_documents(
    settings: BuildSettings, commit: str | None, filtered: Counter[str]
) -> Iterator[Example]:
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
    if corpus.path is None:
        rows = _dataset_rows(corpus, _dataset_folder(settings), commit or corpus.revision)
        return islice(_documents(rows, corpus, "", filtered), corpus.documents)
    files = find_files(settings)
    documents = chain.from_iterable(
        _read_file(doc_id, path, corpus, "" if len(files) == 1 else f"{doc_id}:", filtered)
        for doc_id, path in files.items()
    )
    return islice(documents, corpus.documents)


def _dataset_rows(
    corpus: CorpusSettings, folder: Path | None, commit: str | None
) -> Iterator[TableRow]:
    place = f"corpus.dataset {corpus.dataset!r}"
    form = "corpus: {dataset: NAME, split: NAME}"
    # the datasets library takes several splits only where it does not stream
    for split in corpus.split.split("+"):
        source = folder or corpus.dataset or ""
        rows = stream(source, corpus.config, split.strip(), commit, place, form)
        for number, values in enumerate(rows, start=1):
            yield TableRow(f"{corpus.dataset}[{split.strip()}], row {number}", values)


def _read_file(
    name: str, path: Path, corpus: CorpusSettings, numbered: str, filtered: Counter[str]
) -> Iterator[Example]:
    """Yield the documents of a file.

    Args:
        name: The id of the file, and of its document if it is a text.
        path: Where it lies.
        corpus: The settings of the corpus.
        numbered: What stands before the number of a row without an id.
        filtered: Counts the rows that are left out, by reason.
    """
    if path.suffix.lower() in TEXTS:
        try:
            text = path.read_bytes().decode("utf-8-sig")  # line breaks stay as they are
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read: {error}; expected a text in UTF-8") from error
        yield Example(name, text)
        return
    reader = FORMATS.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if reader is None:
        endings = ", ".join([*FORMATS, ".csv.gz", ".jsonl.gz", *TEXTS[:-1]])
        raise DataError(
            f"{path}: expected a file that ends in {endings}; convert it, or name others with a"
            " pattern such as corpus: my_texts/*.txt"
        )
    yield from _documents(reader(path), corpus, numbered, filtered)


def _documents(
    rows: Iterator[TableRow | str], corpus: CorpusSettings, numbered: str, filtered: Counter[str]
) -> Iterator[Example]:
    """Yield the document in each row; a null text is an empty one."""
    needed = columns_of(corpus.text, corpus.where, corpus.id)
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
        text = document_text(row, corpus.text)
        doc_id = _id(row, corpus, f"{numbered}{number}")
        yield Example(doc_id, whole(text))


def _id(row: TableRow, corpus: CorpusSettings, number: str) -> str:
    """Return the id of a row, or its number if the table has none."""
    key = corpus.id or "id"
    value = row.values.get(key)
    if corpus.id is None and value in (None, ""):
        return number
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise DataError(
            f"{row.location}: {key!r} is {short(value)}, expected a text or a whole number; name"
            " another column: corpus: {id: NAME}"
        )
    return whole(str(value))


def distinct(
    documents: Iterable[Example], unwrapped: bool = False, language: str = ENGLISH
) -> Iterator[Example]:
    """Yield the documents with their sentences.

    A document whose id or text came before is unused.

    Args:
        documents: Each with its whole text as its prefix.
        unwrapped: Whether lines that were broken at a width are joined.
        language: Of the texts, by which sentences are split.
    """
    ids: set[str] = set()
    # hashes of 64 bits take less memory: two of a billion texts share one by a chance of 1 in 37
    texts: set[int] = set()
    sentences_before: set[int] = set()
    for document in documents:
        if document.doc_id in ids:
            yield document.drop(READ, "the id of another document")
            continue
        ids.add(document.doc_id)
        text_hash = hash(document.prefix)
        if document.prefix.strip() and text_hash in texts:
            yield document.drop(READ, "the text of another document")
            continue
        texts.add(text_hash)
        text = unwrap(document.prefix) if unwrapped else document.prefix
        parts = []
        for start, end in sentences(text, language):
            is_repeated = hash(plain(text[start:end])) in sentences_before
            parts.append(Sentence(start, end, is_repeated))
        sentences_before.update(hash(plain(text[start:end])) for start, end, _ in parts)
        yield replace(document, prefix=text, sentences=tuple(parts))
