"""Making an index or a knowledge source in ``OUT.partial``, and opening indexes.

An interrupted build goes on where it ended when the same command is given again. Passages are read
first. Then an index of them is made.
"""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError
from lm_factuality.retrieval import index as manifests
from lm_factuality.retrieval.bm25 import BM25Index, BM25Parameters
from lm_factuality.retrieval.dense import DenseIndex, DenseParameters
from lm_factuality.retrieval.index import Index, Manifest, check_files, read_manifest
from lm_factuality.retrieval.knowledge import Knowledge, PageStore
from lm_factuality.retrieval.passages import Fields, PassageStore
from lm_factuality.retrieval.sources import (
    Source,
    copy_passages,
    open_sources,
    start_or_resume,
    writing,
)


def open_index(path: str | Path) -> Index:
    """Open the index in a folder.

    Raises:
        DataError: It is not as it was built.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    check_files(folder, manifest)
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
        DataError: A source cannot be read, or ``OUT.partial`` is of another build.
    """
    folder = Path(out)
    if words is not None and words < 1:
        raise ConfigError(f"words is {words}, expected at least 1 word a passage")
    if folder.exists() and not overwrite:
        raise ConfigError(
            f"{folder} exists; give another folder, or --overwrite to replace the index in it"
        )
    if folder.exists() and not (folder / manifests.NAME).is_file():
        raise ConfigError(
            f"{folder} exists and is not an index, so it is not replaced; give another folder"
        )
    fields = fields or Fields()
    opened = open_sources(sources, fields)
    parameters = parameters or BM25Parameters()
    if isinstance(parameters, DenseParameters):
        # A model that is missing is told before anything is read for it.
        parameters.load()
    unfinished = folder.with_name(folder.name + manifests.PARTIAL)
    with writing(folder, unfinished):
        _build_index(opened, fields, words, parameters, unfinished)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    return open_index(folder)


def _build_index(
    sources: Sequence[Source],
    fields: Fields,
    words: int | None,
    parameters: BM25Parameters | DenseParameters,
    folder: Path,
) -> None:
    recorded = {**parameters.recorded(), "words": words, "fields": asdict(fields)}
    versions = {"format": manifests.FORMAT, "suite": __version__, "kind": parameters.kind}
    store = PassageStore(folder, write=True)
    if store.kept("read") is None:
        # A build that ended before its first passages or after its last step starts over.
        store.close()
        shutil.rmtree(folder)
        store = PassageStore(folder, write=True)
    state = start_or_resume(store.kept("read"), {**versions, **recorded}, sources, folder)
    try:
        copy_passages(sources, store, state, fields, words)
    finally:
        if not len(store):
            store.close()
            shutil.rmtree(folder)
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
        DataError: A source cannot be read, a row has no title, or ``OUT.partial`` is of another
            build.
    """
    path = Path(out)
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder, expected the name of a file")
    for source in [sources] if isinstance(sources, str | Path) else sources:
        if path.exists() and Path(source).exists() and path.samefile(source):
            raise ConfigError(
                f"{path}: is the source {source} itself, which would be lost; give another name"
            )
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; give another name, or --overwrite to replace it")
    fields = fields or Fields()
    unfinished = Path(f"{path}{manifests.PARTIAL}")
    opened = open_sources(sources, fields)
    with writing(path, unfinished):
        with closing(sqlite3.connect(unfinished)) as connection:
            _build_pages(opened, fields, PageStore(connection, unfinished))
        unfinished.replace(path)
    return Knowledge(path)


def _build_pages(sources: Sequence[Source], fields: Fields, store: PageStore) -> None:
    plan = {"suite": __version__, "fields": asdict(fields)}
    state = start_or_resume(store.state, plan, sources, store.path)
    try:
        copy_passages(sources, store, state, fields)
    finally:
        if not len(store):
            store.path.unlink()
    store.finish(tuple(source.record for source in sources))
