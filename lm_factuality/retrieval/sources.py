"""Where passages come from: files (TSV as DPR published Wikipedia and JSONL, gzipped or not,
Parquet) and what the datasets library reads, as a stream that can be taken up again in the middle.

Passages are kept with how far the sources have come in the same transaction, so neither is ever
ahead of the other."""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property, partial
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

_BATCH = 10_000  # passages a transaction ...
_BATCH_CHARACTERS = 32 << 20  # ... or fewer, if they are long
HUB = "hub:"
_DEFAULT_SPLIT = "train"


class FileReader:
    """A file in the form that ``read`` knows."""

    def __init__(self, name: str, read: tables.Reader) -> None:
        self.name, self._read = name, read

    @cached_property
    def record(self) -> SourceRecord:
        """What the source is; its bytes are read for it."""
        path = Path(self.name)
        return SourceRecord(self.name, path.stat().st_size, sha256_of(path))

    def rows(self, skipped: int) -> Iterator[tables.Record]:
        """The rows after so many; raises DataError where they cannot be read on."""
        for each in islice(self._read(Path(self.name)), skipped, None):
            if isinstance(each, str):
                raise DataError(each)
            yield each


class DatasetReader:
    """``hub:NAME[:CONFIG[:SPLIT]]``, or a folder (also as NAME): what ``save_to_disk`` wrote, or
    data files that ``load_dataset`` reads. The split is ``train`` if none is named. A dataset of
    the Hub is read at one commit, which the manifest names."""

    def __init__(self, name: str) -> None:
        self.name = name
        dataset, _, rest = (
            name.removeprefix(HUB).partition(":") if name.startswith(HUB) else (name, "", "")
        )
        config, _, split = rest.partition(":")
        self._folder = Path(dataset) if Path(dataset).is_dir() else None
        self._commit = None if self._folder else commit_of(dataset, name)
        source = self._folder or dataset
        self._rows = stream(
            source,
            config or None,
            split or _DEFAULT_SPLIT,
            self._commit,
            name,
            f"{HUB}{dataset}::SPLIT",
        )

    @cached_property
    def record(self) -> SourceRecord:
        if self._folder is None:
            return SourceRecord(self.name, revision=self._commit)
        digest, size = hashlib.sha256(), 0
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            digest.update(
                f"{path.relative_to(self._folder).as_posix()}\0{sha256_of(path)}\0".encode()
            )
            size += path.stat().st_size
        return SourceRecord(self.name, size, digest.hexdigest())

    def rows(self, skipped: int) -> Iterator[tables.Record]:
        for number, values in enumerate(self._rows.skip(skipped), skipped + 1):
            yield tables.Record(f"{self.name}, row {number}", values)


Reader = FileReader | DatasetReader


def open_reader(source: str, names: Fields) -> Reader:
    """The reader for a dataset of the Hub, a folder, or a file by its ending. Raises DataError: no
    such file or ending."""
    path = Path(source)
    if source.startswith(HUB) or path.is_dir():
        return DatasetReader(source)
    tsv: tables.Reader = partial(tables.csv_rows, delimiter="\t")
    of_passage: tables.Reader = partial(
        tables.parquet_rows,
        needed=(names.text,),
        optional=(names.id or "id", names.title or "title"),
    )
    known = {
        ".tsv": tsv,
        ".tsv.gz": tsv,
        ".jsonl": tables.jsonl_rows,
        ".jsonl.gz": tables.jsonl_rows,
        ".parquet": of_passage,
    }
    read = next(
        (each for ending, each in known.items() if path.name.lower().endswith(ending)), None
    )
    if read is None:
        raise DataError(
            f"{source}: ends in {path.suffix!r}, expected one of {', '.join(known)}, a folder of"
            f" the datasets library, or {HUB}NAME[:CONFIG[:SPLIT]] for a dataset of the Hub"
        )
    if not path.is_file():
        raise DataError(f"{source}: no such file; give the file with the passages")
    return FileReader(source, read)


class Store(Protocol):
    """What passages are read into: it keeps them and the state of the build together, or
    neither."""

    def __len__(self) -> int: ...
    def add(self, passages: Sequence[Passage], state: Mapping[str, Any]) -> None: ...


class Sources:
    """Several sources, one after the other."""

    def __init__(self, sources: str | Path | Sequence[str | Path], names: Fields) -> None:
        given = [sources] if isinstance(sources, str | Path) else sources
        if not given:
            raise ConfigError("no source; give at least one file with passages")
        self._names = names
        self._readers = [open_reader(str(source), names) for source in given]
        self.names = [reader.name for reader in self._readers]
        self._current = self._row = 0

    def read(self) -> Iterator[Passage]:
        """All passages that have not been read yet; raises DataError at a row that is none."""
        while self._current < len(self._readers):
            reader = self._readers[self._current]
            _ = (
                reader.record
            )  # summed up before it is read, so that a build that is taken up can tell a change
            for row in reader.rows(self._row):
                self._row += 1
                yield to_passage(row.values, self._names, self._row, row.location)
            self._current, self._row = self._current + 1, 0

    def read_into(self, store: Store, plan: Mapping[str, Any], words: int | None) -> None:
        """Adds what is left to ``store``, split by ``words`` if given. Raises DataError: a row is
        no passage, or none is."""
        with tqdm(initial=len(store), unit=" passages", desc="read") as bar:
            for passages in self._batches(words):
                store.add(passages, {"plan": plan, "sources": self.state()})
                bar.update(len(passages))
        if not len(store):
            raise DataError(f"{', '.join(self.names)}: no passages; expected at least one")

    def _batches(self, words: int | None) -> Iterator[list[Passage]]:
        """Passages in lists of about ``_BATCH``; a list never ends in the middle of a row that was
        split."""
        passages: list[Passage] = []
        characters = 0
        for passage in self.read():
            passages.extend([passage] if words is None else split_words(passage, words))
            characters += len(passage.text) + len(passage.title)
            if len(passages) >= _BATCH or characters >= _BATCH_CHARACTERS:
                yield passages
                passages, characters = [], 0
        yield passages  # perhaps none, so that it is kept that the sources ended

    def state(self) -> dict[str, Any]:
        """Where reading stands, for JSON."""
        records = [asdict(reader.record) for reader in self._readers[: self._current + 1]]
        return {"records": records, "finished": self._current, "row": self._row}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes to where ``state`` was taken. Raises DataError: a source is no longer what it
        was."""
        for reader, record in zip(self._readers, state["records"], strict=False):
            if (before := SourceRecord(**record)) != reader.record:
                old, new = (
                    str(each.sha256 or each.revision)[:12] for each in (before, reader.record)
                )
                raise DataError(
                    f"{reader.name}: not what was read before (SHA-256 or commit {old}, now {new})"
                )
        self._current, self._row = state["finished"], state["row"]

    def take_up(self, kept: Mapping[str, Any], plan: Mapping[str, Any], partial: Path) -> None:
        """Goes to where the build in ``partial`` stood, by what it ``kept``. Raises DataError: it
        is one of something else."""
        unfinished, cure = (
            f"{partial} holds an unfinished build",
            f"start it again as it was, or delete {partial} to start over",
        )
        for key in {**plan, **kept["plan"]}:
            if (before := kept["plan"].get(key)) != (now := plan.get(key)):
                raise DataError(
                    f"{unfinished} with {key} {before!r}, but now it is {now!r}; {cure}"
                )
        try:
            self.resume(kept["sources"])
        except DataError as error:
            raise DataError(f"{unfinished} of other data: {error}; {cure}") from error

    @property
    def records(self) -> tuple[SourceRecord, ...]:
        """What the sources read to their end were."""
        return tuple(reader.record for reader in self._readers[: self._current])


@contextmanager
def writing(out: Path, partial: Path, lock: Path) -> Iterator[None]:
    """Alone in writing ``partial``, which becomes ``out``; ``lock`` goes. Raises DataError: it is
    held, or writing fails."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()  # a place that cannot be written is another error than a lock that is held
        with FileLock(lock, timeout=0):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
    except Timeout as error:
        raise DataError(
            f"{partial}: another build is writing into it; wait for it to end"
        ) from error
    except (OSError, sqlite3.Error) as error:
        advice = f"make room, or delete {partial} to start over, or " if partial.exists() else ""
        raise DataError(
            f"{out}: cannot be written: {error}; {advice}choose another place"
        ) from error
