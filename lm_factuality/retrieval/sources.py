"""Where passages come from: files, and what the datasets library reads.

`build` opens sources and copies their passages into a store, together with the position that was
reached, so that an interrupted build can go on.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout
from tqdm import tqdm

from lm_factuality.ground import tables
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream
from lm_factuality.retrieval.passages import Fields, Passage, SourceRecord, split_words, to_passage

# A transaction has so many passages, or so many characters if passages are long.
_BATCH = 10_000
_BATCH_CHARACTERS = 32 << 20
_HUB = "hub:"


@dataclass(frozen=True)
class Source:
    """A source that was opened."""

    record: SourceRecord
    read: Callable[[int], Iterator[tables.Record]]
    """Reads the rows after the first so many. It raises DataError at a row that is none."""

    def passages(self, fields: Fields, num_skipped: int = 0) -> Iterator[Passage]:
        """Read the passages after the first ``num_skipped``."""
        for number, row in enumerate(self.read(num_skipped), num_skipped + 1):
            yield to_passage(row.values, fields, number, row.location)


def open_sources(names: str | Path | Sequence[str | Path], fields: Fields) -> list[Source]:
    """Open files, folders, or datasets of the Hub. Their bytes are summed up.

    Args:
        names: A ``.tsv`` or ``.jsonl`` file (also ``.gz``), ``.parquet``, a folder
            that the datasets library reads, or ``hub:NAME[:CONFIG[:SPLIT]]``.

    Raises:
        ConfigError: There is no source.
        DataError: A source does not exist or has another form.
    """
    names = [names] if isinstance(names, str | Path) else names
    if not names:
        raise ConfigError("no source; give at least one file with passages")
    return [_open_source(str(name), fields) for name in names]


def _open_source(name: str, fields: Fields) -> Source:
    path = Path(name)
    if name.startswith(_HUB) or path.is_dir():
        return _open_dataset(name)
    read_tsv = partial(tables.csv_rows, delimiter="\t")
    optional = (fields.id or "id", fields.title or "title")
    readers: dict[str, tables.Reader] = {
        ".tsv": read_tsv,
        ".tsv.gz": read_tsv,
        ".jsonl": tables.jsonl_rows,
        ".jsonl.gz": tables.jsonl_rows,
        ".parquet": partial(tables.parquet_rows, needed=(fields.text,), optional=optional),
    }
    endings = [ending for ending in readers if path.name.lower().endswith(ending)]
    if not endings:
        raise DataError(
            f"{name}: ends in {path.suffix!r}, expected one of {', '.join(readers)}, a folder of"
            f" the datasets library, or {_HUB}NAME[:CONFIG[:SPLIT]] for a dataset of the Hub"
        )
    if not path.is_file():
        raise DataError(f"{name}: no such file; give the file with the passages")
    reader = readers[endings[0]]

    def read(num_skipped: int) -> Iterator[tables.Record]:
        for row in islice(reader(path), num_skipped, None):
            if isinstance(row, str):
                raise DataError(row)
            yield row

    return Source(SourceRecord(name, path.stat().st_size, sha256_of(path)), read)


def _open_dataset(name: str) -> Source:
    """Open a folder, or a dataset of the Hub at its newest commit, which the manifest names."""
    dataset = name
    options = ""
    if name.startswith(_HUB):
        dataset, _, options = name.removeprefix(_HUB).partition(":")
    config, _, split = options.partition(":")
    folder = Path(dataset)
    form = f"{_HUB}{dataset}::SPLIT"
    if folder.is_dir():
        record = _record_of_folder(name, folder)
        rows = stream(folder, config or None, split or "train", None, name, form)
    else:
        record = SourceRecord(name, revision=commit_of(dataset, name))
        rows = stream(dataset, config or None, split or "train", record.revision, name, form)

    def read(num_skipped: int) -> Iterator[tables.Record]:
        for number, values in enumerate(rows.skip(num_skipped), num_skipped + 1):
            yield tables.Record(f"{name}, row {number}", values)

    return Source(record, read)


def _record_of_folder(name: str, folder: Path) -> SourceRecord:
    digest = hashlib.sha256()
    size = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256_of(path)}\0".encode())
        size += path.stat().st_size
    return SourceRecord(name, size, digest.hexdigest())


class Store(Protocol):
    """What passages are copied into. It keeps them and a position together, or neither."""

    def __len__(self) -> int: ...
    def add(self, passages: Sequence[Passage], state: Mapping[str, Any]) -> None: ...


def copy_passages(
    sources: Sequence[Source],
    store: Store,
    state: Mapping[str, Any],
    fields: Fields,
    words: int | None = None,
) -> None:
    """Copy the passages after a position into a store.

    Args:
        state: The position, with what else the store keeps: ``source`` is the number of the next
            source, and ``row`` the number of its rows that were read.
        words: Texts are split into passages of so many words.

    Raises:
        DataError: A row is no passage, or there is no passage at all.
    """
    first_source = state["source"]
    batch: list[Passage] = []
    num_characters = 0
    with tqdm(initial=len(store), unit=" passages", desc="read") as bar:
        for number, source in enumerate(sources[first_source:], first_source):
            num_skipped = state["row"] if number == first_source else 0
            passages = source.passages(fields, num_skipped)
            for row, passage in enumerate(passages, num_skipped + 1):
                batch += [passage] if words is None else split_words(passage, words)
                num_characters += len(passage.text) + len(passage.title)
                # A batch never ends in the middle of a row that was split.
                if len(batch) >= _BATCH or num_characters >= _BATCH_CHARACTERS:
                    store.add(batch, {**state, "source": number, "row": row})
                    bar.update(len(batch))
                    batch = []
                    num_characters = 0
        store.add(batch, {**state, "source": len(sources), "row": 0})
        bar.update(len(batch))
    if not len(store):
        names = ", ".join(source.record.path for source in sources)
        raise DataError(f"{names}: no passages; expected at least one")


def start_or_resume(
    state: Mapping[str, Any] | None,
    plan: Mapping[str, Any],
    sources: Sequence[Source],
    unfinished: Path,
) -> dict[str, Any]:
    """Return where a build begins.

    Args:
        state: What the store keeps of an interrupted build, if there was one.
        plan: What decides on the result.
        unfinished: Where the interrupted build is.

    Raises:
        DataError: The interrupted build had another plan or other sources.
    """
    plan = {**plan, "sources": [asdict(source.record) for source in sources]}
    if state is None:
        return {"plan": plan, "source": 0, "row": 0}
    for key in {**plan, **state["plan"]}:
        before = state["plan"].get(key)
        if before != plan.get(key):
            raise DataError(
                f"{unfinished} holds an unfinished build with {key} {before!r}, but now it is"
                f" {plan.get(key)!r}; start it again as it was, or delete {unfinished} to start"
                " over"
            )
    return dict(state)


@contextmanager
def writing(out: Path, unfinished: Path) -> Iterator[None]:
    """Keep other builds out of ``unfinished``, which becomes ``out``.

    Raises:
        DataError: Another build is writing there, or writing fails.
    """
    lock = Path(f"{unfinished}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        # A place that cannot be written is another error than a lock that is held.
        lock.touch()
        with FileLock(lock, timeout=0):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
    except Timeout as error:
        raise DataError(
            f"{unfinished}: another build is writing into it; wait for it to end"
        ) from error
    except (OSError, sqlite3.Error) as error:
        advice = f"make room, or delete {unfinished} to start over, or choose another place"
        raise DataError(f"{out}: cannot be written: {error}; {advice}") from error
