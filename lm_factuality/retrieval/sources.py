"""The sources of passages: documents, tables, folders, and datasets of the Hub.

`build` opens sources and copies their passages into an index or a knowledge file.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tqdm.auto import tqdm

from lm_factuality.documents import ENDINGS, list_files, read_documents
from lm_factuality.documents.markdown import split_front_matter
from lm_factuality.ground import tables
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream_rows
from lm_factuality.retrieval.passages import (
    Passage,
    PassageColumns,
    ReadingLog,
    SourceRecord,
    split_passage,
    to_passage,
)

# A batch, which is written in one transaction, ends after this many passages ...
_BATCH_PASSAGES = 10_000
# ... or after this many characters, so that a batch of long pages fits into memory.
_BATCH_CHARACTERS = 32 << 20
_HUB = "hub:"
# The files that save_to_disk writes beside the data of a dataset.
_DATASET_FILES = ("dataset_dict.json", "state.json", "dataset_infos.json")
_COLUMN_FILES = (".parquet", ".arrow")
_TABLE_FILES = (*_COLUMN_FILES, ".csv", ".tsv", ".json", ".jsonl", ".gz")
# The keys with which the front matter of a card describes a dataset.
_CARD_KEYS = ("configs", "dataset_info")


@dataclass(frozen=True)
class PassageSource:
    """A file, a folder or a dataset of the Hub that was opened to read passages from it."""

    record: SourceRecord
    """The description of the source, for manifests."""

    passages: Iterator[Passage]
    """The passage of each row. The source is read while they are iterated over, and only once."""


def open_sources(
    names: str | Path | Sequence[str | Path],
    columns: PassageColumns,
    log: ReadingLog,
) -> list[PassageSource]:
    """Open the files, folders or datasets that hold passages, and compute their SHA-256.

    Args:
        names: One or more sources: tables of passages (``.tsv``, ``.jsonl`` or ``.parquet``), other
            files and folders of documents, folders for which `holds_dataset` is true, and
            ``hub:NAME[:CONFIG[:SPLIT]]`` for datasets of the Hub.
        columns: The columns to read. Documents have none.
        log: Counts the documents while their passages are iterated over.

    Raises:
        ConfigError: No source was named.
        DataError: A source does not exist or has an unknown format.
    """
    # A string is a sequence too, of characters.
    if isinstance(names, str | Path):
        names = [names]
    if not names:
        raise ConfigError("no source; give at least one file with passages")
    return [_open_source(str(name), columns, log) for name in names]


def _open_source(name: str, columns: PassageColumns, log: ReadingLog) -> PassageSource:
    """Open one source, whose name tells its format.

    Args:
        name: The name of a file, a folder or a dataset, as `open_sources` takes it.
        columns: The columns to read.
        log: Counts the documents.

    Raises:
        ConfigError: The user named columns, but the source holds documents, which have none.
        DataError: The source does not exist or has an unknown format.
    """
    path = Path(name)
    is_folder = path.is_dir()
    if name.startswith(_HUB) or (is_folder and holds_dataset(path)):
        return _open_dataset(name, columns)
    read_rows = None if is_folder else _find_reader(path, columns)
    if read_rows is not None:
        return _open_table(name, path, read_rows, columns)
    if is_folder or path.name.lower().endswith(ENDINGS):
        if not columns.are_defaults:
            raise ConfigError(
                f"{name}: --fields names columns, but this is read as documents, which have none;"
                " leave --fields out, or name the tables in the folder"
            )
        return _open_documents(name, path, log)
    endings = [*_readers_by_ending(columns), *ENDINGS]
    raise DataError(
        f"{name}: ends in {path.suffix!r}, expected one of {', '.join(endings)}, a folder, or"
        f" {_HUB}NAME[:CONFIG[:SPLIT]] for a dataset of the Hub"
    )


def _open_table(
    name: str, path: Path, read_rows: tables.Reader, columns: PassageColumns
) -> PassageSource:
    """Open a file that has a passage in each row.

    Args:
        name: The file as the user named it.
        path: The same as a path.
        read_rows: The function that reads the rows of files in this format.
        columns: The columns that hold the id, the title and the text of a passage.

    Raises:
        DataError: The file does not exist.
    """
    if not path.is_file():
        raise DataError(f"{name}: no such file; give the file with the passages")
    record = _record_of_files(name, path, [path])
    return PassageSource(record, _passages(read_rows(path), columns))


def holds_dataset(folder: Path) -> bool:
    """Tell whether a folder holds a dataset, which the library ``datasets`` reads by its columns.

    It does if one of these is true. Hidden files do not count. Any other folder holds documents.

    - ``save_to_disk`` of that library wrote the folder.
    - Its ``README.md`` is a dataset card, whose front matter has ``configs`` or ``dataset_info``.
    - All its files are Parquet or Arrow files.
    - All its files are tables, and one of them is named after a split: ``train.jsonl``.
    """
    card = folder / "README.md"
    has_dataset_file = any((folder / name).is_file() for name in _DATASET_FILES)
    if has_dataset_file or _is_dataset_card(card):
        return True

    names = [path.name.lower() for path in _files_in(folder) if path != card]
    if not names or not all(name.endswith(_TABLE_FILES) for name in names):
        return False
    if all(name.endswith(_COLUMN_FILES) for name in names):
        return True
    return any(name.startswith(("train.", "train-")) for name in names)


def _files_in(path: Path) -> list[Path]:
    """Return the file, or all files in a folder that are not hidden, sorted by path."""
    return [file for file in list_files(path) if isinstance(file, Path) and file.is_file()]


def _is_dataset_card(path: Path) -> bool:
    """Tell whether a file is there, and its front matter describes a dataset."""
    if not path.is_file():
        return False
    markdown = split_front_matter(path.read_text(encoding="utf-8", errors="replace"))
    return any(key in markdown.front_matter for key in _CARD_KEYS)


def _open_documents(name: str, path: Path, log: ReadingLog) -> PassageSource:
    """Open a file or folder of documents, each of which becomes a passage.

    Args:
        name: The file or folder as the user named it.
        path: The same as a path.
        log: Counts the documents.

    Raises:
        DataError: The file does not exist, or the folder has no files.
    """
    documents = read_documents([path])
    files = _files_in(path)
    if not files:
        raise DataError(f"{name}: there are no files in this folder; name one with documents")
    return PassageSource(_record_of_files(name, path, files), log.passages(documents))


def _find_reader(path: Path, columns: PassageColumns) -> tables.Reader | None:
    """Return the function that reads the rows of a table of passages. None for another file."""
    if _is_csv_of_passages(path, columns):
        return tables.csv_rows
    # The ending ".jsonl.gz" is not the path's suffix, which is ".gz".
    file_name = path.name.lower()
    for ending, read_rows in _readers_by_ending(columns).items():
        if file_name.endswith(ending):
            return read_rows
    return None


def _is_csv_of_passages(path: Path, columns: PassageColumns) -> bool:
    """Tell whether a path is a CSV file with a passage in each row.

    It is one if the user has named columns of passages, or if it has the column of texts. In any
    other CSV file, each row is a document.
    """
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    # If the file lacks the named columns, reading it is an error that says so.
    if not columns.are_defaults:
        return True
    first_row = next(tables.csv_rows(path), None)
    return isinstance(first_row, tables.TableRow) and columns.text in first_row.values


def _readers_by_ending(columns: PassageColumns) -> dict[str, tables.Reader]:
    """Return the function that reads the rows of a file, for each ending of a file's name."""
    read_tsv = partial(tables.csv_rows, delimiter="\t")
    # A Parquet file is read by column, so its reader must know which columns are needed.
    optional_columns = (columns.id or "id", columns.title or "title")
    read_parquet = partial(tables.parquet_rows, required=(columns.text,), optional=optional_columns)
    return {
        ".tsv": read_tsv,
        ".tsv.gz": read_tsv,
        ".jsonl": tables.jsonl_rows,
        ".jsonl.gz": tables.jsonl_rows,
        ".parquet": read_parquet,
    }


def _open_dataset(name: str, columns: PassageColumns) -> PassageSource:
    """Open a dataset of the Hub at its newest commit, or a folder that holds a dataset.

    Args:
        name: ``hub:DATASET[:CONFIG[:SPLIT]]`` or a folder.
        columns: The columns that hold the id, the title and the text of a passage.

    Raises:
        DataError: The dataset does not exist or cannot be read.
    """
    dataset, config, split = _parse_dataset_name(name)
    folder = Path(dataset)
    is_folder = folder.is_dir()
    if is_folder:
        all_files = sorted(file for file in folder.rglob("*") if file.is_file())
        record = _record_of_files(name, folder, all_files)
    else:
        # The manifest names the commit, so that the index can be built again later.
        record = SourceRecord(name, revision=commit_of(dataset, name))

    dataset_rows = stream_rows(
        # A path stands for a folder, and a text for the name of a dataset of the Hub.
        folder if is_folder else dataset,
        config or None,
        split,
        record.revision,
        # An error names the source, and says how to name another split.
        where=name,
        example=f"{_HUB}{dataset}::SPLIT",
    )
    rows = (
        tables.TableRow(f"{name}, row {number}", values)
        for number, values in enumerate(dataset_rows, start=1)
    )
    return PassageSource(record, _passages(rows, columns))


def _passages(rows: Iterable[tables.TableRow | str], columns: PassageColumns) -> Iterator[Passage]:
    """Yield the passage of each row. A text in place of a row says why it cannot be read.

    Raises:
        DataError: A row cannot be read or holds no passage.
    """
    for number, row in enumerate(rows, start=1):
        # The reader of a file describes a bad row, but leaves the decision to its caller.
        if isinstance(row, str):
            raise DataError(row)
        yield to_passage(row.values, columns, number, row.location)


class _DatasetName(NamedTuple):
    """The parts of the name of a dataset."""

    dataset: str
    """The name on the Hub, or the folder."""

    config: str
    """The configuration. Empty for the default one."""

    split: str
    """The split, such as ``train``."""


def _parse_dataset_name(name: str) -> _DatasetName:
    """Split the name of a dataset, ``hub:DATASET[:CONFIG[:SPLIT]]`` or a folder, into its parts.

    Example:
        ``hub:wikimedia/wikipedia:20231101.en`` is the split ``train``, which is the default, of the
        configuration ``20231101.en`` of the dataset ``wikimedia/wikipedia``.
    """
    if not name.startswith(_HUB):
        # A folder has no options, and its name may contain a colon.
        return _DatasetName(name, config="", split="train")
    dataset, _, options = name.removeprefix(_HUB).partition(":")
    config, _, split = options.partition(":")
    return _DatasetName(dataset, config, split or "train")


def _record_of_files(name: str, path: Path, files: Sequence[Path]) -> SourceRecord:
    """Describe a file or a folder by the total size and the SHA-256 of its files.

    Args:
        name: The file or folder as the user named it.
        path: The file or folder.
        files: The files in the folder, sorted by path, or the file itself.

    Returns:
        The record. The SHA-256 of a folder depends on the names and the contents of all files.
    """
    if path.is_file():
        return SourceRecord(name, path.stat().st_size, sha256_of(path))

    digest = hashlib.sha256()
    size = 0
    # Sorted paths give the same SHA-256 on every file system.
    for file in files:
        relative = os.fsencode(file.relative_to(path).as_posix())
        digest.update(b"%s\0%s\0" % (relative, sha256_of(file).encode()))
        size += file.stat().st_size
    return SourceRecord(name, size, digest.hexdigest())


def read_batches(
    sources: Sequence[PassageSource], max_words: int | None, log: ReadingLog
) -> Iterator[list[Passage]]:
    """Read the passages of sources in batches that fit into memory, and show the progress.

    Args:
        sources: The sources in the order in which they are read.
        max_words: The number of words into which texts are split. None leaves them whole.
        log: The log of the documents in the sources, for the error.

    Yields:
        Lists of passages, none of them empty.

    Raises:
        DataError: A row holds no passage, or there are no passages at all.
    """
    num_passages = 0
    batch: list[Passage] = []
    num_characters = 0
    with tqdm(desc="read", unit=" passages") as progress:
        for passage in chain.from_iterable(source.passages for source in sources):
            pieces = [passage] if max_words is None else list(split_passage(passage, max_words))
            # All pieces of a passage are in the same batch, so a batch may be a little too long.
            batch += pieces
            num_passages += len(pieces)
            progress.update(len(pieces))

            # Pages can be very long, so the number of passages alone would not limit the memory.
            num_characters += len(passage.text) + len(passage.title)
            if len(batch) >= _BATCH_PASSAGES or num_characters >= _BATCH_CHARACTERS:
                yield batch
                batch = []
                num_characters = 0
    # The last batch is not full.
    if batch:
        yield batch
    if num_passages == 0:
        raise _no_passages(sources, log)


def _no_passages(sources: Sequence[PassageSource], log: ReadingLog) -> DataError:
    """Return the error that sources hold no passages, with a line for each document not read."""
    names = ", ".join(source.record.path for source in sources)
    reading = log.record()
    if reading is None:
        return DataError(f"{names}: no passages; expected at least one")
    lines = [f"{names}: none of {reading.unread:,} files can be read"]
    lines += [f"{unread.path}: {unread.reason}" for unread in reading.examples]
    return DataError("\n".join(lines))
