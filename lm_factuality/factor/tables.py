"""Tables from CSV, JSONL and Parquet files, every value as written: no guessed types, no "NA" turned into nothing."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.lib
import pyarrow.parquet

from lm_factuality.errors import DataError


@dataclass(frozen=True)
class Record:
    """A row of a table: where it stands (``file:line``, or ``file, row`` where lines do not exist) and its values."""

    location: str
    values: Mapping[str, Any]


def read_table(path: Path) -> list[Record]:
    """All rows of ``path``, whose ending names its format.

    Raises:
        DataError: the file is missing, empty, not UTF-8, of no known format, or broken; the text names the line.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: ends in {path.suffix!r}, expected one of {', '.join(_READERS)}")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    records = reader(path)
    if not records:
        raise DataError(f"{path}: no rows; expected at least one")
    return records


def _text(path: Path) -> str:
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from error


def _read_csv(path: Path) -> list[Record]:
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    records: list[Record] = []
    header: list[str] = []
    start = 1
    try:
        for cells in reader:
            if not header:
                header = cells
                repeated = sorted({name for name in header if name and header.count(name) > 1})
                if repeated:
                    raise DataError(f"{path}:1: columns named more than once: {', '.join(repeated)}")
            elif len(cells) != len(header):
                if cells:  # an empty line is no row
                    raise DataError(f"{path}:{start}: {len(cells)} cells, expected {len(header)} as in the header")
            else:
                records.append(Record(f"{path}:{start}", dict(zip(header, cells, strict=True))))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: not valid CSV: {error}") from error
    return records


def _read_jsonl(path: Path) -> list[Record]:
    records = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number}: not valid JSON: {error.msg} at column {error.colno}") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}:{number}: found a JSON {type(values).__name__}, expected an object per line")
        records.append(Record(f"{path}:{number}", values))
    return records


def _read_parquet(path: Path) -> list[Record]:
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file: {error}") from error
    return [Record(f"{path}, row {number}", values) for number, values in enumerate(rows, start=1)]


_READERS: Mapping[str, Callable[[Path], list[Record]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
