"""The texts of the passages on disk, by number: an Arrow IPC file, mapped, of which only what is asked for is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.ipc
import pyarrow.lib

from lm_factuality.errors import DataError
from lm_factuality.retrieval.passages import Passage

NAME = "passages.arrow"
_COLUMNS = ("id", "title", "text")
_SCHEMA = pyarrow.schema([(name, pyarrow.string()) for name in _COLUMNS])


def write_batch(path: Path, passages: Sequence[Passage]) -> None:
    """Writes ``passages`` as the one batch of a file; all of them together must be under 2 GB."""
    columns = [[getattr(passage, name) for passage in passages] for name in _COLUMNS]
    arrays = [pyarrow.array(column, pyarrow.string()) for column in columns]
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, _SCHEMA) as writer:
        writer.write_batch(pyarrow.record_batch(arrays, schema=_SCHEMA))


def join_batches(parts: Iterable[Path], path: Path) -> None:
    """Copies the batches of ``parts`` into one file, one batch in memory at a time."""
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, _SCHEMA) as writer:
        for part in parts:
            with pyarrow.OSFile(str(part), "rb") as source:
                reader = pyarrow.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    writer.write_batch(reader.get_batch(number))


class PassageStore:
    """Passages by number, 0 to ``len(store) - 1``."""

    def __init__(self, path: Path) -> None:
        try:
            self._reader = pyarrow.ipc.open_file(pyarrow.memory_map(str(path), "r"))
            self._batches: list[Any] = [self._reader.get_batch(i) for i in range(self._reader.num_record_batches)]
        except (pyarrow.lib.ArrowException, OSError) as error:
            raise DataError(f"{path}: not a readable Arrow file: {error}; build the index again") from error
        if not self._reader.schema.equals(_SCHEMA):
            raise DataError(
                f"{path}: columns {self._reader.schema.names}, expected {list(_COLUMNS)}; build the index again"
            )
        sizes = [batch.num_rows for batch in self._batches]
        self._starts = numpy.concatenate([[0], numpy.cumsum(sizes, dtype=numpy.int64)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, number: int) -> Passage:
        """The passage with this number; IndexError if there is none."""
        if not 0 <= number < len(self):
            raise IndexError(f"passage {number} of {len(self)}")
        batch = int(numpy.searchsorted(self._starts, number, side="right")) - 1
        row = number - int(self._starts[batch])
        columns = self._batches[batch].columns
        return Passage(*(column[row].as_py() for column in columns))

    def __iter__(self) -> Iterator[Passage]:
        return map(self.__getitem__, range(len(self)))
