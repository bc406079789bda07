"""Making an index or a knowledge source in ``OUT.partial``, so that an interrupted build goes on
where it ended; opening indexes.

Passages are read first; then they are indexed, if it is an index."""

import datetime
import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval import index as manifests
from lm_factuality.retrieval.bm25 import BM25Index, BM25Parameters
from lm_factuality.retrieval.dense import DenseIndex, DenseParameters
from lm_factuality.retrieval.index import (
    FORMAT,
    PARTIAL,
    Index,
    Manifest,
    check_files,
    read_manifest,
)
from lm_factuality.retrieval.knowledge import (
    MANIFEST,
    SEPARATOR,
    STATE,
    TABLE,
    Knowledge,
    KnowledgeManifest,
)
from lm_factuality.retrieval.passages import Fields, Passage, PassageStore
from lm_factuality.retrieval.sources import Sources, writing

_LOCK = "lock"
_NEW = f"""BEGIN;
DROP TABLE IF EXISTS {TABLE};
DROP TABLE IF EXISTS {MANIFEST};
DROP TABLE IF EXISTS {STATE};
CREATE TABLE {TABLE}(title PRIMARY KEY, text);
CREATE TABLE {STATE}(content);
INSERT INTO {STATE} VALUES (NULL);
COMMIT;"""  # noqa: S608
_APPEND = (
    f"INSERT INTO {TABLE}(title, text) VALUES (?, ?) "  # noqa: S608
    f"ON CONFLICT(title) DO UPDATE SET text = text || '{SEPARATOR}' || excluded.text"
)


def open_index(path: str | Path) -> Index:
    """The index in the folder ``path``; sums are compared if it is under 64 MB, else sizes. Raises
    DataError: it is not whole."""
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
    """Builds an index of the passages of ``sources`` in the folder ``out`` and opens it.
    ``parameters`` says which kind (BM25 if None); ``words`` splits texts into passages of so many
    words. A build that was interrupted goes on when it is started again with the same arguments.
    Raises ConfigError: ``out`` exists and ``overwrite`` is not set, or an argument makes no sense;
    DataError: a source cannot be read, or ``OUT.partial`` is of something else."""
    folder, names = Path(out), fields or Fields()
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
    partial = folder.with_name(folder.name + PARTIAL)
    opened, kind = Sources(sources, names), parameters or BM25Parameters()
    if isinstance(kind, DenseParameters):
        kind.load()  # before anything is read for it
    with writing(folder, partial, partial / _LOCK):
        _build(opened, names, words, kind, partial)
        (partial / _LOCK).unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    return open_index(folder)


def _build(
    sources: Sources,
    names: Fields,
    words: int | None,
    parameters: BM25Parameters | DenseParameters,
    partial: Path,
) -> None:
    recorded = {**parameters.recorded(), "words": words, "fields": asdict(names)}
    plan = {
        "format": FORMAT,
        "suite": __version__,
        "kind": parameters.kind,
        **recorded,
        "sources": sources.names,
    }
    store = _take_up(partial, plan, sources)
    try:
        sources.read_into(store, plan, words)
    finally:
        if not len(store):
            store.close()
            shutil.rmtree(partial)  # nothing in it is worth going on with
    content = parameters.write(partial, store)
    store.finish()
    files = manifests.list_files(partial, _LOCK)
    manifest = Manifest(
        parameters.kind, recorded, sources.records, len(store), content, files, __version__
    )
    manifests.write_manifest(partial, manifest)


def _take_up(partial: Path, plan: Mapping[str, Any], sources: Sources) -> PassageStore:
    """The passages that the build in ``partial`` has read, with ``sources`` put where it stood;
    none if it is a new one."""
    store = PassageStore(partial, write=True)
    state = store.kept("read")
    if (
        state is None
    ):  # a build that ended before its first passages or after its last step; it starts over
        store.close()
        for left in partial.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name != _LOCK:
                left.unlink()
        return PassageStore(partial, write=True)
    sources.take_up(state, plan, partial)
    return store


def build_knowledge(
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    fields: Fields | None = None,
    overwrite: bool = False,
) -> Knowledge:
    """Writes the pages of ``sources`` to the SQLite file ``out`` and opens it. A row is a page, or
    a passage of one: rows of the same title are joined in their order by FActScore's separator. A
    build that was interrupted goes on when it is started again. Raises ConfigError: ``out`` exists
    without ``overwrite``, or is a source; DataError: a source cannot be read, a row has no title,
    or ``OUT.partial`` is of something else."""
    given = [sources] if isinstance(sources, str | Path) else sources
    path, names = Path(out), fields or Fields()
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder, expected the name of a file")
    if path.exists():
        if source := next(
            (each for each in given if Path(each).exists() and path.samefile(each)), None
        ):
            raise ConfigError(
                f"{path}: is the source {source} itself, which would be lost; give another name"
            )
        if not overwrite:
            raise ConfigError(f"{path} exists; give another name, or --overwrite to replace it")
    partial = Path(f"{path}.partial")
    with writing(path, partial, Path(f"{path}.lock")):
        _build_pages(Sources(sources, names), names, partial)
        partial.replace(path)
    return Knowledge(path)


def _build_pages(sources: Sources, names: Fields, partial: Path) -> None:
    plan = {"suite": __version__, "fields": asdict(names), "sources": sources.names}
    with closing(sqlite3.connect(partial)) as connection:
        store = _Rows(connection, partial)
        if store.kept is not None:
            sources.take_up(store.kept, plan, partial)
        try:
            sources.read_into(store, plan, None)
        finally:
            if not len(store):
                connection.close()  # nothing in it is worth going on with
                partial.unlink()
        (pages,) = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()  # noqa: S608
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        manifest = KnowledgeManifest(sources.records, len(store), pages, now, __version__)
        with connection:
            connection.execute("BEGIN")  # sqlite3 begins none before it makes a table
            connection.execute(f"CREATE TABLE {MANIFEST}(content)")
            connection.execute(f"INSERT INTO {MANIFEST} VALUES (?)", (manifest.to_json(),))  # noqa: S608
            connection.execute(f"DROP TABLE {STATE}")


class _Rows:
    """The pages of a build; its length is the number of rows they were made of, ``kept`` the state
    it was left in, if any."""

    def __init__(self, connection: sqlite3.Connection, partial: Path) -> None:
        self._connection = connection
        try:
            tables = {
                name
                for (name,) in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table'"
                )
            }
            if MANIFEST in tables or not tables:  # complete, but not yet renamed; or new
                connection.executescript(_NEW)
            (content,) = connection.execute(f"SELECT content FROM {STATE}").fetchone()  # noqa: S608
        except (sqlite3.Error, TypeError) as error:
            raise DataError(
                f"{partial}: not an unfinished build: {error}; delete it to start over"
            ) from error
        self.kept: dict[str, Any] | None = None if content is None else json.loads(content)
        self._size = self.kept["rows"] if self.kept else 0

    def __len__(self) -> int:
        return int(self._size)

    def add(self, passages: Sequence[Passage], state: Mapping[str, Any]) -> None:
        """Appends ``passages`` to their pages and keeps ``state`` with them: either both are on
        disk or neither."""
        if nameless := next((each for each in passages if not each.title.strip()), None):
            raise DataError(
                f"{', '.join(state['plan']['sources'])}: the row with the id {nameless.id!r} has no"
                " title, by which a page is found; name the column: --fields title=NAME"
            )
        pages: dict[
            str, list[str]
        ] = {}  # rows of one title joined, so that a page in many passages is not rewritten for each  # noqa: E501
        for passage in passages:
            pages.setdefault(passage.title.strip(), []).append(passage.text)
        rows = self._size + len(passages)
        with self._connection:
            self._connection.executemany(
                _APPEND, [(title, SEPARATOR.join(texts)) for title, texts in pages.items()]
            )
            self._connection.execute(
                f"UPDATE {STATE} SET content = ?",  # noqa: S608
                (json.dumps({**state, "rows": rows}),),
            )
        self._size = rows
