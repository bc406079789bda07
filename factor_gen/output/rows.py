"""The rows of the benchmark as CSV and as Parquet: the authors' columns, and for each contradiction
how it came about."""

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pyarrow
import pyarrow.parquet

from factor_gen.choose import Chosen
from factor_gen.records import last_words, whole

Cell: TypeAlias = str | float | None

PREFIX = "full_prefix"  # all text before the completion; the task reads this one
CUT_PREFIX = (  # as the published files spell it; the authors' script reads this one
    "turncated_prefixes"
)
# words are at least as many tokens, and the authors' models see 1,024 tokens (section 4.2)
CUT_WORDS = 1024
NUMBERS = ("nli", "fluency")


def columns(contradictions: int) -> dict[str, type]:
    """The name of each column, in order, with the type of its cells."""
    names = [f"contradiction_{index}" for index in range(contradictions)]
    found: dict[str, type] = dict.fromkeys(
        ("doc_id", PREFIX, CUT_PREFIX, "completion", *names), str
    )
    for suffix in ("type", "edit", "generator", *NUMBERS):
        found |= dict.fromkeys(
            (f"{name}_{suffix}" for name in names), float if suffix in NUMBERS else str
        )
    return found


def make_row(chosen: Chosen, contradictions: int) -> dict[str, Cell]:
    """The cells of a row by column; a filter that was off leaves nothing in its cells. Raises
    ValueError: the row has not ``contradictions`` contradictions."""
    if len(chosen.contradictions) != contradictions:
        raise ValueError(
            f"document {chosen.example.doc_id!r}: {len(chosen.contradictions)} contradictions"
            f" chosen, expected {contradictions}"
        )
    example = chosen.example
    prefix = whole(example.prefix)
    row: dict[str, Cell] = {
        "doc_id": whole(example.doc_id),
        PREFIX: prefix,
        CUT_PREFIX: last_words(prefix, CUT_WORDS),
        "completion": whole(example.completion),
    }
    for index, candidate in enumerate(chosen.contradictions):
        name = f"contradiction_{index}"
        row |= {
            name: whole(candidate.text),
            f"{name}_type": candidate.type,
            f"{name}_edit": whole(candidate.edit),
        }
        row |= {f"{name}_generator": candidate.generator}
        row |= {f"{name}_nli": candidate.contradiction, f"{name}_fluency": candidate.fluency}
    return {name: row[name] for name in columns(contradictions)}


_GROUP_ROWS, _GROUP_CHARACTERS = (
    1000,
    16 << 20,
)  # a row group of Parquet is held in memory until it has as many

Write: TypeAlias = Callable[[Mapping[str, Cell]], None]


@contextmanager
def csv_writer(path: Path, columns: Mapping[str, type]) -> Iterator[Write]:
    """Writes CSV in UTF-8 with commas. All text stands in quotes, so that lone carriage returns
    survive; numbers do not, and a missing value is ``""``."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(columns)
        yield lambda row: writer.writerow(row.values())


@contextmanager
def parquet_writer(path: Path, columns: Mapping[str, type]) -> Iterator[Write]:
    """Writes Parquet with text and double columns, compressed with zstd."""
    kinds = {str: pyarrow.string(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    rows: list[Mapping[str, Cell]] = []
    characters = 0

    def flush() -> None:
        nonlocal characters
        if rows:
            file.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
        rows.clear()
        characters = 0

    def write(row: Mapping[str, Cell]) -> None:
        nonlocal characters
        rows.append(row)
        characters += sum(len(cell) for cell in row.values() if isinstance(cell, str))
        if len(rows) >= _GROUP_ROWS or characters >= _GROUP_CHARACTERS:
            flush()

    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as file:
        yield write
        flush()
