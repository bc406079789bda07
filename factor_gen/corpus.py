"""The corpus of a build: its files or its dataset, and the documents in them.

:mod:`factor_gen.pipeline` reads the corpus once and keeps the documents in shards.
"""

import glob
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from factor_gen.language import ENGLISH
from factor_gen.recipe import document_text, reason_to_leave_out, required_columns
from factor_gen.records import Example, Sentence
from factor_gen.settings import BuildSettings, CorpusSettings
from factor_gen.stages import READ
from factor_gen.text.layout import unwrap
from factor_gen.text.sentences import comparable_text, sentence_spans
from lm_factuality.documents import ENDINGS as DOCUMENT_ENDINGS
from lm_factuality.documents import Document, list_files
from lm_factuality.documents import read_documents as read_files
from lm_factuality.ground.errors import DataError, did_you_mean, short
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream_rows
from lm_factuality.ground.records import read_text
from lm_factuality.ground.replies import replace_surrogates
from lm_factuality.ground.tables import FORMATS as TABLE_FORMATS
from lm_factuality.ground.tables import TableRow

# The version of how documents are cleaned and kept. Raise it if either changes.
CLEANING = 7

# A file with one of these endings is one document.
TEXT_ENDINGS = (".txt", ".text", "")


def find_corpus_files(settings: BuildSettings) -> dict[str, Path]:
    """Return the files of the corpus by id, sorted by path.

    - ``path: texts/a.txt`` is one file, with the id ``a.txt``.
    - ``path: texts`` is a folder. All files in it belong to the corpus, except hidden ones. An id
      is the path from the folder, such as ``2024/a.txt``.
    - ``path: texts/*/a.txt`` is a pattern. An id is the path from ``texts``, such as
      ``2024/a.txt``.
    - ``dataset: texts`` may be a folder too. Otherwise it is a dataset of the Hub, without files.

    Raises:
        DataError: No file matches ``corpus.path``.
    """
    path = settings.corpus.path
    if path is None:
        folder = _dataset_folder(settings)
        # In a pattern, "**" stands for all files in a folder.
        return {} if folder is None else _matching_files(folder / "**")

    pattern = settings.folder / Path(path).expanduser()
    files = _files_in_folder(pattern) if pattern.is_dir() else _matching_files(pattern)
    if not files:
        raise DataError(
            f"corpus.path {path!r}: no file fits {pattern}; paths start from the folder of the"
            f" YAML, {settings.folder}; name files, such as my_texts/*.jsonl"
        )
    return files


def _dataset_folder(settings: BuildSettings) -> Path | None:
    """Return the folder that ``corpus.dataset`` names, or None if it names no local folder."""
    dataset = settings.corpus.dataset
    if not dataset:
        return None
    folder = settings.folder / Path(dataset).expanduser()
    return folder if folder.is_dir() else None


def _files_in_folder(folder: Path) -> dict[str, Path]:
    """Return the files in a folder and the folders in it by id, sorted by path."""
    # For a folder that cannot be listed, there is an error in the list, which reading reports.
    paths = [path for path in list_files(folder) if isinstance(path, Path)]
    return _files_by_id(paths, folder)


def _matching_files(pattern: Path) -> dict[str, Path]:
    """Return the files that match a pattern by id, sorted by path.

    Args:
        pattern: An absolute path, whose parts may hold ``*`` and ``**``.

    Example:
        ``/data/*/a.txt`` may give ``{"news/a.txt": Path("/data/news/a.txt")}``.
    """
    folder = _existing_folder_of(pattern)
    # The pattern may be the name of one file. Even "*.txt" is a possible name.
    if pattern.is_file():
        return _files_by_id([pattern], folder)
    # Unlike pathlib's glob, glob.glob leaves hidden files out.
    matches = glob.glob(  # noqa: PTH207
        str(pattern.relative_to(folder)), root_dir=folder, recursive=True
    )
    return _files_by_id(sorted(folder / match for match in matches), folder)


def _existing_folder_of(pattern: Path) -> Path:
    """Return the longest beginning of a pattern that is a folder.

    Example:
        ``/data`` for ``/data/*/a.txt``, unless ``/data`` has a folder with the name ``*``.
    """
    for folder in pattern.parents:
        if folder.is_dir():
            return folder
    return pattern.parent


def _files_by_id(paths: Iterable[Path], folder: Path) -> dict[str, Path]:
    """Return the files among some paths. The id of a file is its path within a folder."""
    files = {}
    for path in paths:
        if path.is_file():
            files[replace_surrogates(path.relative_to(folder).as_posix())] = path
    return files


def describe_corpus(
    settings: BuildSettings, earlier_description: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what identifies the texts of the corpus: the hashes of its files, or a commit.

    If the description changes, the shards of an earlier build cannot be used again.

    Args:
        settings: The settings of the build.
        earlier_description: The description when the build began, or an empty one. If it has the
            same dataset of the Hub, it is returned again, so that a resumed build reads the commit
            that it began with, even if there is a newer one.

    Returns:
        A JSON object. For files it has their ids, sizes and hashes, such as ``{"files": [{"name":
        "a.txt", "bytes": 12, "sha256": "9f86d0..."}]}``. For a dataset of the Hub it is ``{
        "dataset": "wikitext", "revision": None, "commit": "b08601e..."}``.

    Raises:
        DataError: The files or the dataset do not exist, or a file cannot be read.
    """
    corpus = settings.corpus
    if corpus.dataset is None or _dataset_folder(settings) is not None:
        files = find_corpus_files(settings).items()
        progress = tqdm(files, desc="corpus", unit=" files", delay=2)
        return {"files": [_describe_file(file_id, path) for file_id, path in progress]}

    dataset = {"dataset": corpus.dataset, "revision": corpus.revision}
    is_same_dataset = dataset.items() <= earlier_description.items()
    if is_same_dataset:
        return dict(earlier_description)
    error_start = f"corpus.dataset, no folder in {settings.folder}"
    return {**dataset, "commit": commit_of(corpus.dataset, error_start, corpus.revision)}


def _describe_file(file_id: str, path: Path) -> dict[str, Any]:
    """Return the id, the size in bytes and the SHA-256 of a file.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        return {"name": file_id, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error}; allow yourself to read it, or leave it out of"
            " corpus.path"
        ) from error


class CorpusReader:
    """Reads the documents of a corpus, and counts the rows that ``corpus.where`` leaves out."""

    def __init__(self, settings: BuildSettings, commit: str | None = None) -> None:
        """Create a reader, which reads nothing yet.

        Args:
            settings: The settings of the build.
            commit: The commit at which a dataset of the Hub is read. None: the revision that the
                YAML names, or the newest commit.
        """
        self._settings = settings
        self._commit = commit or settings.corpus.revision
        self.num_left_out: Counter[str] = Counter()
        """How many of the rows read so far fail a condition of ``corpus.where``, by reason."""

    def read(self) -> Iterator[Example]:
        """Return an iterator over the first ``corpus.documents`` documents of the corpus.

        They come in the order of the files and their rows. Each has its whole text as its prefix.
        Nothing is read before the iterator is used.

        Raises:
            DataError: A file is missing or cannot be read, or a row is no document. The message
                names the row by its file and line.
        """
        return islice(self._read_all(), self._settings.corpus.documents)

    def _read_all(self) -> Iterator[Example]:
        """Return an iterator over all documents of the corpus."""
        corpus = self._settings.corpus
        if corpus.path is None:
            folder = _dataset_folder(self._settings)
            return self._read_rows(_dataset_rows(corpus, folder, self._commit))

        files = find_corpus_files(self._settings)
        folder = self._settings.folder / Path(corpus.path).expanduser()
        if folder.is_dir():
            return _read_any_format(folder, folder)

        # An iterator opens its file when the first document is asked for.
        readers = []
        for file_id, path in files.items():
            # The rows of every file are numbered from 1: with the file, their ids are unique.
            id_prefix = f"{file_id}:" if len(files) > 1 else ""
            readers.append(self._read_file(file_id, path, id_prefix))
        return chain.from_iterable(readers)

    def _read_file(self, file_id: str, path: Path, id_prefix: str) -> Iterator[Example]:
        """Yield the documents of a file: the file itself, or the rows of a table.

        Args:
            file_id: The id of the file. A text file is one document, which has this id.
            path: The path of the file.
            id_prefix: The beginning of the ids of rows, as in `_read_rows`.

        Raises:
            DataError: The file cannot be read, is not UTF-8, or has an unknown ending.
        """
        if path.suffix.lower() in TEXT_ENDINGS:
            # The line breaks stay as they are.
            yield Example(file_id, read_text(path, "expected a text in UTF-8"))
            return

        # A table may be compressed: "a.csv.gz" is read as "a.csv".
        ending = Path(path.name.lower().removesuffix(".gz")).suffix
        if ending in TABLE_FORMATS:
            yield from self._read_rows(_table_rows(path, ending), id_prefix)
            return
        if not path.name.lower().endswith(DOCUMENT_ENDINGS):
            raise _unknown_ending_error(path)
        for document in _read_any_format(path, path.parent):
            # The id begins with the name of the file, as in "a.xlsx:3". Files of one name may be in
            # several folders, so the id of the file, such as "2024/a.xlsx", replaces the name.
            rest_of_id = document.doc_id.removeprefix(path.name)
            yield replace(document, doc_id=file_id + rest_of_id)

    def _read_rows(self, rows: Iterable[TableRow], id_prefix: str = "") -> Iterator[Example]:
        """Yield the document in each row that meets the conditions of ``corpus.where``.

        Args:
            rows: The rows of a table.
            id_prefix: The beginning of the ids of rows that have only a number, such as ``a.csv:``.

        Raises:
            DataError: A row cannot be read, lacks a column, or holds no text or no id.
        """
        corpus = self._settings.corpus
        columns = required_columns(corpus.text, corpus.where, corpus.id)
        for number, row in enumerate(rows, start=1):
            _check_columns(row, columns)

            # A row that is left out may lack the text or the id.
            reason = reason_to_leave_out(corpus.where, row.values)
            if reason:
                self.num_left_out[reason] += 1
                continue
            text = document_text(row, corpus.text)
            doc_id = _document_id(row, corpus.id, default=f"{id_prefix}{number}")
            yield Example(doc_id, replace_surrogates(text))


def _read_any_format(source: Path, folder: Path) -> Iterator[Example]:
    """Yield the documents in a file or a folder with files of any format.

    A file or a row that cannot be read gives an unused document with the reason. Its id is its path
    from ``folder``.
    """
    for document in read_files([source]):
        if isinstance(document, Document):
            yield Example(document.id, document.text)
        else:
            path = Path(document.path).relative_to(folder).as_posix()
            example = Example(replace_surrogates(path))
            yield example.drop(READ, f"cannot be read: {document.reason}")


def _table_rows(path: Path, ending: str) -> Iterator[TableRow]:
    """Yield the rows of a table in one of the `TABLE_FORMATS`.

    Raises:
        DataError: A row cannot be read.
    """
    for row in TABLE_FORMATS[ending](path):
        # The reader of the table yields a message in the place of a row that it cannot read.
        if isinstance(row, str):
            raise DataError(row)
        yield row


def _dataset_rows(
    corpus: CorpusSettings, folder: Path | None, commit: str | None
) -> Iterator[TableRow]:
    """Yield the rows of the dataset, split by split.

    Args:
        corpus: The settings of the corpus, with the names of the dataset and its splits.
        folder: The folder of the dataset, or None if it is on the Hub.
        commit: The commit to read on the Hub. None: the newest one.

    Example:
        The second row of the split ``test`` of ``wikitext`` is called ``wikitext[test], row 2``.
    """
    source = folder or corpus.dataset or ""
    # The datasets library streams one split at a time: "validation+test" is read as two.
    for split in map(str.strip, corpus.split.split("+")):
        rows = stream_rows(
            source,
            config=corpus.config,
            split=split,
            commit=commit,
            where=f"corpus.dataset {corpus.dataset!r}",
            example="corpus: {dataset: NAME, split: NAME}",
        )
        for number, values in enumerate(rows, start=1):
            yield TableRow(f"{corpus.dataset}[{split}], row {number}", values)


def _unknown_ending_error(path: Path) -> DataError:
    """Return the error for a file whose format cannot be told by its name."""
    # A dict keeps the first of equal endings.
    endings = dict.fromkeys((*TEXT_ENDINGS, *TABLE_FORMATS, ".csv.gz", *DOCUMENT_ENDINGS))
    # Files without an ending are read too, but an empty ending cannot be shown.
    del endings[""]
    return DataError(
        f"{path}: expected a file that ends in {', '.join(endings)}; convert it, or name others"
        " with a pattern such as corpus: my_texts/*.txt"
    )


def _check_columns(row: TableRow, columns: Iterable[str]) -> None:
    """Check that a row has all columns that the settings of the corpus require.

    Raises:
        DataError: The row lacks a column. The message names it and similar columns.
    """
    for column in columns:
        if column not in row.values:
            names = [str(name) for name in row.values]
            raise DataError(
                f"{row.location}: no column {column!r}{did_you_mean(column, names)}; found"
                f" {', '.join(map(repr, names)) or 'none'}; name another in corpus.text,"
                " corpus.id or corpus.where, which ask for it: corpus: {text: NAME}"
            )


def _document_id(row: TableRow, id_column: str | None, default: str) -> str:
    """Return the id of the document in a row, as a text that can be written as UTF-8.

    Args:
        row: A row of the corpus.
        id_column: The column of the ids that the YAML names. None: ``id``.
        default: The id if the YAML names no column, and the row has nothing under ``id``.

    Raises:
        DataError: The value in the column is neither a text nor a whole number, or it is blank.
    """
    column = id_column or "id"
    value = row.values.get(column)
    # Only a column that the user named must have an id in every row.
    if id_column is None and value in (None, ""):
        return default

    # In Python, True is a whole number as well.
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    if not is_id or not str(value).strip():
        raise DataError(
            f"{row.location}: {column!r} is {short(value)}, expected a text or a whole number; name"
            " another column: corpus: {id: NAME}"
        )
    return replace_surrogates(str(value))


def split_into_sentences(
    documents: Iterable[Example], should_unwrap: bool = False, language: str = ENGLISH
) -> Iterator[Example]:
    """Yield documents with their sentences, and drop those that repeat an earlier document.

    Args:
        documents: Documents with their whole text as their prefix.
        should_unwrap: Whether to join the lines of paragraphs that were broken at a width.
        language: The language of the texts as an ISO 639-1 code.

    Yields:
        Every document in order, with ``sentences`` set. A document whose id or text occurred
        before is marked as unused. One that is unused already passes unchanged.
    """
    ids = set()
    # Hashes take less memory than texts. Two different texts of a large corpus hardly ever have the
    # same hash of 64 bits: among a billion texts, the probability is 3%.
    text_hashes = set()
    sentence_hashes: set[int] = set()
    for document in documents:
        # A file that could not be read has no text.
        if document.unused:
            yield document
            continue
        if document.doc_id in ids:
            yield document.drop(READ, "the id of another document")
            continue
        ids.add(document.doc_id)

        text = document.prefix
        text_hash = hash(text)
        # Empty texts repeat each other. The stage "select" drops them, with a reason of its own.
        if text.strip() and text_hash in text_hashes:
            yield document.drop(READ, "the text of another document")
            continue
        text_hashes.add(text_hash)

        if should_unwrap:
            text = unwrap(text)
        sentences = _find_sentences(text, language, sentence_hashes)
        yield replace(document, prefix=text, sentences=sentences)


def _find_sentences(text: str, language: str, earlier_hashes: set[int]) -> tuple[Sentence, ...]:
    """Find the sentences of a document, and mark those that an earlier document has.

    Args:
        text: The whole text of the document.
        language: Its language as an ISO 639-1 code.
        earlier_hashes: The hashes of all sentences of earlier documents. The function adds those
            of this document.
    """
    sentences = []
    hashes = set()
    for start, end in sentence_spans(text, language):
        # Sentences that differ only in case, spaces and end marks count as the same.
        sentence_hash = hash(comparable_text(text[start:end]))
        sentences.append(Sentence(start, end, is_repeated=sentence_hash in earlier_hashes))
        hashes.add(sentence_hash)

    # Added last, because a sentence that occurs twice in one document is not a repeated one.
    earlier_hashes.update(hashes)
    return tuple(sentences)
