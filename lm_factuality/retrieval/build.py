"""Building and opening of indexes and of knowledge files.

The commands ``index build`` and ``knowledge build`` call it, and everything that searches an index
opens it by `open_index`.
"""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import locked_folder, whole_file
from lm_factuality.ground.records import to_model
from lm_factuality.retrieval.bm25 import TANTIVY, BM25Index, BM25Parameters
from lm_factuality.retrieval.dense import VECTORS, DenseIndex, DenseParameters, load_encoder
from lm_factuality.retrieval.index import (
    FORMAT,
    MANIFEST,
    Index,
    Manifest,
    check_files,
    list_files,
    read_manifest,
    write_manifest,
)
from lm_factuality.retrieval.knowledge import Knowledge, write_pages
from lm_factuality.retrieval.passages import PassageColumns, PassageStore, ReadingLog, ReadingRecord
from lm_factuality.retrieval.sources import (
    PassageSource,
    open_sources,
    read_batches,
)

# Checksums of an index with fewer bytes are compared when it is opened, which takes about 0.2 s.
_MAX_BYTES_CHECKED_AT_OPENING = 64 << 20


def open_index(path: str | Path) -> Index:
    """Open the index in a folder, after a check that its files are as they were built.

    Raises:
        DataError: The folder holds no index, or a file of the index is missing or differs. The
            contents of the files are compared only if the index is small.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    num_bytes = sum(file.size for file in manifest.files)
    check_files(folder, manifest, compare_checksums=num_bytes < _MAX_BYTES_CHECKED_AT_OPENING)
    if manifest.kind == "dense":
        return DenseIndex(folder, manifest)
    return BM25Index(folder, manifest)


def build_index(
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    parameters: BM25Parameters | DenseParameters | None = None,
    *,
    max_words: int | None = None,
    columns: PassageColumns | None = None,
    overwrite: bool = False,
) -> Index:
    """Build an index of the passages in files or datasets, and open it.

    The index is built in the folder ``OUT.partial``, which is renamed when it is complete. If the
    build is interrupted after it has read all passages, the same call resumes it.

    Args:
        sources: The files or datasets, as `open_sources` takes them.
        out: The folder of the new index.
        parameters: The kind of the index and its settings. The default is a BM25 index.
        max_words: The number of words into which texts are split. None leaves them whole.
        columns: The columns that hold a passage. The default is ``id``, ``title`` and ``text``.
        overwrite: Whether to replace an index that is already in the folder.

    Raises:
        ConfigError: The folder exists and may not be replaced, or ``max_words`` is below 1.
        DataError: A source cannot be read, the folder cannot be written, or another build is
            writing into it.
    """
    folder = Path(out)
    if max_words is not None and max_words < 1:
        raise ConfigError(f"words is {max_words}, expected at least 1 word per passage")
    is_index = (folder / MANIFEST).is_file()
    if folder.exists() and not (overwrite and is_index):
        raise ConfigError(
            f"{folder} exists; give another folder, or --overwrite if it is an index to be replaced"
        )

    columns = columns or PassageColumns()
    parameters = parameters or BM25Parameters()
    log = ReadingLog()
    passage_sources = open_sources(sources, columns, log)
    if isinstance(parameters, DenseParameters):
        # A missing model is an error before hours of reading, not after.
        load_encoder(parameters.model)

    unfinished = folder.with_name(f"{folder.name}.partial")
    # The ends of two errors: the folder is locked, or it cannot be written.
    busy = "another build is writing into it; wait until it has ended"
    advice = f"free disk space, delete {unfinished} to start over, or choose another folder"
    with locked_folder(unfinished, busy, advice):
        try:
            _write_index(passage_sources, columns, max_words, parameters, unfinished, log)
            # An earlier index stays usable until the new one is complete. A folder that is not
            # empty cannot be replaced by renaming, so the earlier one is deleted first.
            if folder.exists():
                shutil.rmtree(folder)
            unfinished.rename(folder)
            # The lock file was moved along with the folder.
            (folder / ".lock").unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{folder}: cannot be written: {error}; {advice}") from error
    return open_index(folder)


def _write_index(
    sources: Sequence[PassageSource],
    columns: PassageColumns,
    max_words: int | None,
    parameters: BM25Parameters | DenseParameters,
    folder: Path,
    log: ReadingLog,
) -> None:
    """Write an index into a folder, or resume the interrupted build of the same index there.

    Args:
        sources: The opened sources of the passages.
        columns: The columns that hold a passage.
        max_words: The number of words into which texts are split. None leaves them whole.
        parameters: The kind of the index and its settings.
        folder: The folder to write to, which is created if necessary.
        log: Counts the documents in the sources while they are read.

    Raises:
        DataError: A source cannot be read. The folder is then deleted.
    """
    manifest_parameters = {
        **parameters.for_manifest(),
        "words": max_words,
        "fields": asdict(columns),
    }
    source_records = tuple(source.record for source in sources)
    # Everything that decides which passages the index has and how it is written.
    build_inputs = [
        FORMAT,
        __version__,
        parameters.kind,
        manifest_parameters,
        [asdict(record) for record in source_records],
    ]
    store = PassageStore(folder, writable=True)
    # The store keeps the inputs once it has all passages. An interrupted build of the same inputs
    # therefore need not be read again.
    if store.get_state("read") != build_inputs:
        _read_passages(sources, max_words, store, folder, log)
        store.set_state("read", build_inputs)
    content_hash = parameters.write(folder, store)
    reading_record = store.get_state("documents")
    store.finish()

    # The manifest comes last, so that only a complete index has one.
    manifest = Manifest(
        kind=parameters.kind,
        parameters=manifest_parameters,
        sources=source_records,
        num_passages=len(store),
        content=content_hash,
        files=list_files(folder),
        suite_version=__version__,
        documents=None if reading_record is None else to_model(ReadingRecord, reading_record),
    )
    write_manifest(folder, manifest)


def _read_passages(
    sources: Sequence[PassageSource],
    max_words: int | None,
    store: PassageStore,
    folder: Path,
    log: ReadingLog,
) -> None:
    """Read all passages into a store, after deleting what another build has left in the folder.

    The store gets the numbers of documents that were read, too.

    Args:
        sources: The opened sources of the passages.
        max_words: The number of words into which texts are split. None leaves them whole.
        store: The store in the folder.
        folder: The folder of the unfinished index.
        log: Counts the documents in the sources.

    Raises:
        DataError: A source cannot be read. The folder is then deleted.
    """
    # Passages and vectors of different builds must not be mixed.
    store.clear()
    shutil.rmtree(folder / TANTIVY, ignore_errors=True)
    (folder / VECTORS).unlink(missing_ok=True)
    try:
        for batch in read_batches(sources, max_words, log):
            store.add(batch)
    except DataError:
        # Nothing can be resumed, since the same build would fail again.
        shutil.rmtree(folder)
        raise
    reading_record = log.record()
    store.set_state("documents", None if reading_record is None else asdict(reading_record))


def build_knowledge(
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    columns: PassageColumns | None = None,
    overwrite: bool = False,
) -> Knowledge:
    """Write the pages of files or datasets to a SQLite file, by title, and open it.

    A row is a page or a passage of a page. The rows with the same title become one page.

    Args:
        sources: The files or datasets, as `open_sources` takes them.
        out: The file to write.
        columns: The columns that hold a passage. The default is ``id``, ``title`` and ``text``.
        overwrite: Whether to replace a file that exists.

    Raises:
        ConfigError: The file is one of the sources, or exists and may not be replaced.
        DataError: A source cannot be read, or a row has no title.
    """
    path = Path(out)
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; give another name, or --overwrite to replace it")
    log = ReadingLog()
    passage_sources = open_sources(sources, columns or PassageColumns(), log)
    records = tuple(source.record for source in passage_sources)
    for record in records:
        # Only files that exist can be compared, and the name of a dataset of the Hub is no file.
        # The comparison follows symbolic links, since a link to the source is the source too.
        if path.exists() and Path(record.path).exists() and path.samefile(record.path):
            raise ConfigError(
                f"{path} is the source {record.path} itself, which would be lost; give another name"
            )

    with (
        whole_file(path, (OSError, sqlite3.Error)) as temporary_path,
        closing(sqlite3.connect(temporary_path)) as connection,
    ):
        write_pages(
            connection, read_batches(passage_sources, max_words=None, log=log), records, log
        )
    return Knowledge(path)
