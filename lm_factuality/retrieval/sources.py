"""The sources of passages: files, folders, and datasets of the Hub.

`build` opens sources and copies their passages into an index or a knowledge file.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from lm_factuality.ground import tables
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream_rows
from lm_factuality.retrieval.passages import (
    Passage,
    PassageColumns,
    SourceRecord,
    split_passage,
    to_passage,
)

# A batch, which is written in one transaction, ends after this many passages ...
_BATCH_PASSAGES = 10_000
# ... or after this many characters, so that a batch of long pages fits into memory.
_BATCH_CHARACTERS = 32 << 20
_HUB = "hub:"


@dataclass(frozen=True)
class PassageSource:
    """A file, a folder or a dataset of the Hub that was opened to read passages from it."""

    record: SourceRecord
    """The description of the source, for manifests."""

    passages: Iterator[Passage]
    """The passage of each row. The source is read while they are iterated over, and only once."""


def open_sources(
    names: str | Path | Sequence[str | Path], columns: PassageColumns
) -> list[PassageSource]:
    """Open the files, folders or datasets that hold passages, and compute their SHA-256.

    Args:
        names: One or more sources. Each is a ``.tsv`` or ``.jsonl`` file (also ``.gz``), a
            ``.parquet`` file, a folder that the datasets library can read, or
            ``hub:NAME[:CONFIG[:SPLIT]]`` for a dataset of the Hub.
        columns: The columns to read. Other columns of a Parquet file are skipped.

    Raises:
        ConfigError: No source was named.
        DataError: A source does not exist or has an unknown format.
    """
    # A string is a sequence too, of characters.
    if isinstance(names, str | Path):
        names = [names]
    if not names:
        raise ConfigError("no source; give at least one file with passages")
    return [_open_source(str(name), columns) for name in names]


def _open_source(name: str, columns: PassageColumns) -> PassageSource:
    """Open one source, whose name tells its format.

    Args:
        name: The name of a file, a folder or a dataset, as `open_sources` takes it.
        columns: The columns to read.

    Raises:
        DataError: The source does not exist or has an unknown format.
    """
    path = Path(name)
    if name.startswith(_HUB) or path.is_dir():
        return _open_dataset(name, columns)

    # The first ending that the name has decides. An unknown ending is refused after the loop.
    readers = _readers_by_ending(columns)
    for ending, read_rows in readers.items():
        # The ending ".jsonl.gz" is not the path's suffix, which is ".gz".
        if not path.name.lower().endswith(ending):
            continue
        if not path.is_file():
            raise DataError(f"{name}: no such file; give the file with the passages")
        record = SourceRecord(name, path.stat().st_size, sha256_of(path))
        return PassageSource(record, _passages(read_rows(path), columns))

    raise DataError(
        f"{name}: ends in {path.suffix!r}, expected one of {', '.join(readers)}, a folder of"
        f" the datasets library, or {_HUB}NAME[:CONFIG[:SPLIT]] for a dataset of the Hub"
    )


def _readers_by_ending(columns: PassageColumns) -> Mapping[str, tables.Reader]:
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

    Example:
        ``hub:wikimedia/wikipedia:20231101.en:train`` is the split ``train`` of the configuration
        ``20231101.en`` of the dataset ``wikimedia/wikipedia``.

    Args:
        name: ``hub:DATASET[:CONFIG[:SPLIT]]`` or a folder. The default split is ``train``.
        columns: The columns that hold the id, the title and the text of a passage.

    Raises:
        DataError: The dataset does not exist or cannot be read.
    """
    dataset = name
    options = ""
    # A folder has no options, and its name may contain a colon.
    if name.startswith(_HUB):
        dataset, _, options = name.removeprefix(_HUB).partition(":")
    config, _, split = options.partition(":")

    # `stream_rows` tells a folder from a dataset of the Hub by the type.
    source: str | Path = dataset
    if Path(dataset).is_dir():
        source = Path(dataset)
        record = _record_of_folder(name, source)
    else:
        # The manifest names the commit, so that the index can be built again later.
        record = SourceRecord(name, revision=commit_of(dataset, name))

    # An error says how to name another split: hub:DATASET::SPLIT.
    example = f"{_HUB}{dataset}::SPLIT"
    dataset_rows = stream_rows(
        source, config or None, split or "train", record.revision, where=name, example=example
    )
    rows = (
        tables.TableRow(f"{name}, row {number}", values)
        for number, values in enumerate(dataset_rows, start=1)
    )
    return PassageSource(record, _passages(rows, columns))


def _passages(rows: Iterable[tables.TableRow | str], columns: PassageColumns) -> Iterator[Passage]:
    """Yield the passage of each row.

    Args:
        rows: The rows. In place of a row that cannot be read stands a sentence that says why.
        columns: The columns that hold the id, the title and the text of a passage.

    Raises:
        DataError: A row cannot be read or holds no passage.
    """
    for number, row in enumerate(rows, start=1):
        # The reader of a file describes a bad row, but leaves the decision to its caller.
        if isinstance(row, str):
            raise DataError(row)
        yield to_passage(row.values, columns, number, row.location)


def _record_of_folder(name: str, folder: Path) -> SourceRecord:
    """Describe a folder by the total size and the SHA-256 of its files.

    Args:
        name: The folder as the user named it.
        folder: The path of the folder.

    Returns:
        The record, whose SHA-256 depends on the names and the contents of all files.
    """
    digest = hashlib.sha256()
    size = 0
    # Sorted paths give the same SHA-256 on every file system.
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256_of(path)}\0".encode())
        size += path.stat().st_size
    return SourceRecord(name, size, digest.hexdigest())


def read_batches(
    sources: Sequence[PassageSource], max_words: int | None = None
) -> Iterator[list[Passage]]:
    """Read the passages of sources in batches that fit into memory, and show the progress.

    Args:
        sources: The sources in the order in which they are read.
        max_words: The number of words into which texts are split. None leaves them whole.

    Yields:
        Lists of passages, none of them empty.

    Raises:
        DataError: A row holds no passage, or there are no passages at all.
    """
    batch: list[Passage] = []
    num_characters = 0
    with tqdm(unit=" passages", desc="read") as progress:
        for passage in chain.from_iterable(source.passages for source in sources):
            # A passage without a limit of words is its only piece.
            pieces = [passage] if max_words is None else list(split_passage(passage, max_words))
            batch.extend(pieces)
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
        # The progress bar has counted the passages of all batches.
        if not progress.n:
            names = ", ".join(source.record.path for source in sources)
            raise DataError(f"{names}: no passages; expected at least one")
