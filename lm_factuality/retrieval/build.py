"""Making an index, which opens where it is needed, or a knowledge source.

An index is made in ``OUT.partial``. If its build is interrupted after all passages were read, the
same command goes on with them, and with the vectors that are there.
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
from lm_factuality.retrieval import bm25
from lm_factuality.retrieval import index as manifests
from lm_factuality.retrieval.bm25 import BM25Index, BM25Parameters
from lm_factuality.retrieval.dense import VECTORS, DenseIndex, DenseParameters
from lm_factuality.retrieval.index import Index, Manifest, check_files, read_manifest
from lm_factuality.retrieval.knowledge import Knowledge, write_pages
from lm_factuality.retrieval.passages import Fields, PassageStore
from lm_factuality.retrieval.sources import PassageSource, open_sources, read_batches

# An index of fewer bytes is compared with its sums when it is opened. That takes about 0.2 s.
_CHECKED_AT_OPENING = 64 << 20


def open_index(path: str | Path) -> Index:
    """Open the index in a folder. The sums of a small index are compared with its manifest.

    Raises:
        DataError: It is not as it was built.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    size = sum(file.size for file in manifest.files)
    check_files(folder, manifest, sums=size < _CHECKED_AT_OPENING)
    return DenseIndex(folder, manifest) if manifest.kind == "dense" else BM25Index(folder, manifest)


def build_index(
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    parameters: BM25Parameters | DenseParameters | None = None,
    *,
    words: int | None = None,
    fields: Fields | None = None,
    overwrite: bool = False,
) -> Index:
    """Build an index of passages and open it.

    Args:
        sources: See `open_sources`.
        out: The folder that the index is made in.
        parameters: They say which kind of index it is. The default is BM25.
        words: Texts are split into passages of so many words.

    Raises:
        ConfigError: ``out`` exists and ``overwrite`` is not set, or an argument makes no sense.
        DataError: A source cannot be read, or another build is writing into ``OUT.partial``.
    """
    folder = Path(out)
    if words is not None and words < 1:
        raise ConfigError(f"words is {words}, expected at least 1 word a passage")
    is_index = (folder / manifests.NAME).is_file()
    if folder.exists() and not (overwrite and is_index):
        raise ConfigError(
            f"{folder} exists; give another folder, or --overwrite if it is an index to be replaced"
        )
    fields = fields or Fields()
    opened = open_sources(sources, fields)
    parameters = parameters or BM25Parameters()
    if isinstance(parameters, DenseParameters):
        # A model that is missing is told before anything is read for it.
        parameters.load()
    unfinished = folder.with_name(folder.name + manifests.PARTIAL)
    advice = f"make room, or delete {unfinished} to start over, or choose another place"
    with locked_folder(unfinished, "another build is writing into it; wait for it to end", advice):
        try:
            _write_index(opened, fields, words, parameters, unfinished)
            if folder.exists():
                shutil.rmtree(folder)
            unfinished.rename(folder)
            (folder / ".lock").unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{folder}: cannot be written: {error}; {advice}") from error
    return open_index(folder)


def _write_index(
    sources: Sequence[PassageSource],
    fields: Fields,
    words: int | None,
    parameters: BM25Parameters | DenseParameters,
    folder: Path,
) -> None:
    """Make an index in a folder, or go on with the same one that is there."""
    recorded = {**parameters.recorded(), "words": words, "fields": asdict(fields)}
    records = [asdict(source.record) for source in sources]
    plan = [manifests.FORMAT, __version__, parameters.kind, recorded, records]
    store = PassageStore(folder, write=True)
    if store.get_state("read") != plan:
        store.clear()
        shutil.rmtree(folder / bm25.FOLDER, ignore_errors=True)
        (folder / VECTORS).unlink(missing_ok=True)
        try:
            for batch in read_batches(sources, fields, words):
                store.add(batch)
        except DataError:
            shutil.rmtree(folder)
            raise
        store.set_state("read", plan)
    content = parameters.write(folder, store)
    store.finish()
    manifest = Manifest(
        kind=parameters.kind,
        parameters=recorded,
        sources=tuple(source.record for source in sources),
        num_passages=len(store),
        content=content,
        files=manifests.list_files(folder),
        suite_version=__version__,
    )
    manifests.write_manifest(folder, manifest)


def build_knowledge(
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    fields: Fields | None = None,
    overwrite: bool = False,
) -> Knowledge:
    """Write the pages of sources to a SQLite file and open it.

    A row is a page, or a passage of one. Rows of the same title are joined in their order.

    Args:
        sources: See `open_sources`.
        out: The file.

    Raises:
        ConfigError: ``out`` is a source, or it exists and ``overwrite`` is not set.
        DataError: A source cannot be read, or a row has no title.
    """
    path = Path(out)
    for source in [sources] if isinstance(sources, str | Path) else sources:
        if path.exists() and Path(source).exists() and path.samefile(source):
            raise ConfigError(
                f"{path} is the source {source} itself, which would be lost; give another name"
            )
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; give another name, or --overwrite to replace it")
    fields = fields or Fields()
    opened = open_sources(sources, fields)
    records = tuple(source.record for source in opened)
    with (
        whole_file(path, (OSError, sqlite3.Error)) as part,
        closing(sqlite3.connect(part)) as connection,
    ):
        write_pages(connection, read_batches(opened, fields), records)
    return Knowledge(path)
