"""Where passages come from: files and datasets, read as a stream that can be taken up again in the middle.

Passages are kept with how far the sources have come in the same transaction, so neither is ever ahead of the other.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout
from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval.passages import Fields, Passage, SourceRecord, split_words, to_passage
from lm_factuality.retrieval.reading import open_reader

_BATCH = 10_000  # passages a transaction ...
_BATCH_CHARACTERS = 32 << 20  # ... or fewer, if they are long


class Store(Protocol):
    """What passages are read into: it keeps them and the state of the build together, or neither."""

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
        self._current = self._row = 0

    @property
    def names(self) -> list[str]:
        """The sources as they were given."""
        return [reader.name for reader in self._readers]

    def read(self) -> Iterator[Passage]:
        """All passages that have not been read yet; raises DataError at a row that is none."""
        while self._current < len(self._readers):
            reader = self._readers[self._current]
            _ = reader.record  # summed up before it is read, so that a build that is taken up can tell a change
            for row in reader.rows(self._row):
                self._row += 1
                yield to_passage(row.values, self._names, self._row, row.location)
            self._current, self._row = self._current + 1, 0

    def read_into(self, store: Store, plan: Mapping[str, Any], words: int | None, progress: bool) -> None:
        """Adds what is left of the sources to ``store``, split into passages of so many ``words`` if they are given.

        Raises:
            DataError: a row is no passage, or there was none at all.
        """
        with tqdm(initial=len(store), unit=" passages", desc="read", disable=not progress) as bar:
            for passages in self._batches(words):
                store.add(passages, {"plan": plan, "sources": self.state()})
                bar.update(len(passages))
        if not len(store):
            raise DataError(f"{', '.join(self.names)}: no passages; expected at least one")

    def _batches(self, words: int | None) -> Iterator[list[Passage]]:
        """Passages in lists of about ``_BATCH``; a list never ends in the middle of a row that was split."""
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
        """Goes to where ``state`` was taken.

        Raises:
            DataError: a source is no longer what it was.
        """
        for reader, record in zip(self._readers, state["records"], strict=False):
            if (before := SourceRecord(**record)) != reader.record:
                old, new = (str(each.sha256 or each.revision)[:12] for each in (before, reader.record))
                raise DataError(f"{reader.name}: not what was read before (SHA-256 or commit {old}, now {new})")
        self._current, self._row = state["finished"], state["row"]

    def take_up(self, kept: Mapping[str, Any], plan: Mapping[str, Any], partial: Path) -> None:
        """Goes to where the unfinished build in ``partial`` stood, which has ``kept`` its plan and how far it came.

        Raises:
            DataError: it is a build of something else, or a source is no longer what it was.
        """
        unfinished, cure = f"{partial} holds an unfinished build", f"start it again as it was, or delete {partial} to start over"
        for key in {**plan, **kept["plan"]}:
            if (before := kept["plan"].get(key)) != (now := plan.get(key)):
                raise DataError(f"{unfinished} with {key} {before!r}, but now it is {now!r}; {cure}")
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
    """Alone in writing ``partial``, which becomes ``out``; ``lock`` is gone afterwards.

    Raises:
        DataError: another process is writing it, or it cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()  # a place that cannot be written is another error than a lock that is held
        with FileLock(lock, timeout=0):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
    except Timeout as error:
        raise DataError(f"{partial}: another build is writing into it; wait for it to end") from error
    except (OSError, sqlite3.Error) as error:
        advice = f"make room, or delete {partial} to start over, or " if partial.exists() else ""
        raise DataError(f"{out}: cannot be written: {error}; {advice}choose another place") from error
