"""Rows of files: TSV as DPR published Wikipedia and JSONL (gzipped or not), Parquet, and what the datasets library reads."""

import hashlib
from collections.abc import Iterator
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from lm_factuality.ground import tables
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.hub import commit_of, stream
from lm_factuality.retrieval.passages import Fields, SourceRecord

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
    """``hub:NAME[:CONFIG[:SPLIT]]`` (NAME may be a folder), or a folder; the split is ``train`` if none is named.

    A folder is what ``save_to_disk`` wrote, or data files that ``load_dataset`` can read. A dataset of the Hub is read
    at one commit, which the index's manifest names.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        dataset, _, rest = name.removeprefix(HUB).partition(":") if name.startswith(HUB) else (name, "", "")
        config, _, split = rest.partition(":")
        self._folder = Path(dataset) if Path(dataset).is_dir() else None
        self._commit = None if self._folder else commit_of(dataset, name)
        source = self._folder or dataset
        self._rows = stream(source, config or None, split or _DEFAULT_SPLIT, self._commit, name, f"{HUB}{dataset}::SPLIT")

    @cached_property
    def record(self) -> SourceRecord:
        if self._folder is None:
            return SourceRecord(self.name, revision=self._commit)
        digest, size = hashlib.sha256(), 0
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(self._folder).as_posix()}\0{sha256_of(path)}\0".encode())
            size += path.stat().st_size
        return SourceRecord(self.name, size, digest.hexdigest())

    def rows(self, skipped: int) -> Iterator[tables.Record]:
        for number, values in enumerate(self._rows.skip(skipped), skipped + 1):
            yield tables.Record(f"{self.name}, row {number}", values)


Reader = FileReader | DatasetReader


def open_reader(source: str, names: Fields) -> Reader:
    """The reader for ``source``: ``hub:NAME[:CONFIG[:SPLIT]]``, a folder of the datasets library, or a file by its ending.

    Raises:
        DataError: there is no such file, or no reader for its ending.
    """
    path = Path(source)
    if source.startswith(HUB) or path.is_dir():
        return DatasetReader(source)
    tsv = partial(tables.csv_rows, delimiter="\t")
    of_passage = partial(tables.parquet_rows, needed=(names.text,), optional=(names.id or "id", names.title or "title"))
    known: dict[str, tables.Reader] = {
        ".tsv": tsv,
        ".tsv.gz": tsv,
        ".jsonl": tables.jsonl_rows,
        ".jsonl.gz": tables.jsonl_rows,
        ".parquet": of_passage,
    }
    read = next((each for ending, each in known.items() if path.name.lower().endswith(ending)), None)
    if read is None:
        raise DataError(
            f"{source}: ends in {path.suffix!r}, expected one of {', '.join(known)}, a folder of the datasets library, "
            f"or {HUB}NAME[:CONFIG[:SPLIT]] for a dataset of the Hub"
        )
    if not path.is_file():
        raise DataError(f"{source}: no such file; give the file with the passages")
    return FileReader(source, read)
