"""Where passages come from: files, and what the datasets library reads.

`build` opens sources and copies their passages into an index or a knowledge file.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from lm_factuality.ground import tables
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream_rows
from lm_factuality.retrieval.passages import Fields, Passage, SourceRecord, split_words, to_passage

# A transaction has so many passages, or so many characters if passages are long.
_BATCH = 10_000
_BATCH_CHARACTERS = 32 << 20
_HUB = "hub:"


@dataclass(frozen=True)
class PassageSource:
    """A source that was opened."""

    record: SourceRecord
    rows: Iterable[tables.TableRow | str]
    """Its rows, and in place of a row that cannot be read a sentence that says why."""

    def passages(self, fields: Fields) -> Iterator[Passage]:
        """Read the passages.

        Raises:
            DataError: A row is no passage.
        """
        for number, row in enumerate(self.rows, start=1):
            if isinstance(row, str):
                raise DataError(row)
            yield to_passage(row.values, fields, number, row.location)


def open_sources(names: str | Path | Sequence[str | Path], fields: Fields) -> list[PassageSource]:
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


def _open_source(name: str, fields: Fields) -> PassageSource:
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
    rows = readers[endings[0]](path)
    return PassageSource(SourceRecord(name, path.stat().st_size, sha256_of(path)), rows)


def _open_dataset(name: str) -> PassageSource:
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
        rows = stream_rows(folder, config or None, split or "train", None, name, form)
    else:
        record = SourceRecord(name, revision=commit_of(dataset, name))
        rows = stream_rows(dataset, config or None, split or "train", record.revision, name, form)

    numbered = enumerate(rows, start=1)
    return PassageSource(
        record, (tables.TableRow(f"{name}, row {number}", values) for number, values in numbered)
    )


def _record_of_folder(name: str, folder: Path) -> SourceRecord:
    digest = hashlib.sha256()
    size = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256_of(path)}\0".encode())
        size += path.stat().st_size
    return SourceRecord(name, size, digest.hexdigest())


def read_batches(
    sources: Sequence[PassageSource], fields: Fields, words: int | None = None
) -> Iterator[list[Passage]]:
    """Read the passages of sources in batches that fit into memory.

    Args:
        words: Texts are split into passages of so many words.

    Raises:
        DataError: A row is no passage, or there is no passage at all.
    """
    batch: list[Passage] = []
    num_characters = 0
    rows = chain.from_iterable(source.passages(fields) for source in sources)
    with tqdm(unit=" passages", desc="read") as bar:
        for passage in rows:
            batch += [passage] if words is None else split_words(passage, words)
            num_characters += len(passage.text) + len(passage.title)
            if len(batch) >= _BATCH or num_characters >= _BATCH_CHARACTERS:
                yield batch
                bar.update(len(batch))
                batch = []
                num_characters = 0
        if batch:
            yield batch
            bar.update(len(batch))
        if not bar.n:
            names = ", ".join(source.record.path for source in sources)
            raise DataError(f"{names}: no passages; expected at least one")
