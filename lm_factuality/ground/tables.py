"""Reads and writes tables: CSV, JSONL and Parquet files, every value as written.

No types are guessed, and no "NA" becomes nothing. CSV and JSONL are read by hand, line by line:
pyarrow stops at the first line that is not sound and guesses types.
"""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json, whole_file, write_lines, write_text
from lm_factuality.ground.records import every_line, not_utf8

_BATCH = 256  # rows of a Parquet file in memory
_EXPECTED = "fetch or write the file again"


@dataclass(frozen=True)
class TableRow:
    """A row of a table."""

    location: str
    """Where it stands: ``file:line``, or ``file, row 3`` where lines do not exist."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows of a file, and what is broken about it."""

    records: tuple[TableRow, ...]
    problems: tuple[str, ...] = ()
    """Sentences, each of which names the line."""


Reader = Callable[[Path], Iterator[TableRow | str]]
"""Yields the rows of a file, one in memory at a time.

In place of a row that cannot be read it yields a sentence that says why.
"""


def read_table(path: Path, otherwise: Reader | None = None) -> Table:
    """Read all rows of a file.

    Args:
        path: The file, whose ending tells its format.
        otherwise: Reads files with other endings.

    Raises:
        DataError: The file is missing or of no known format.
    """
    reader = FORMATS.get(path.suffix.lower(), otherwise)
    if reader is None:
        raise DataError(f"{path}: ends in {path.suffix!r}, expected one of {', '.join(FORMATS)}")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    records = []
    problems = []
    for row in reader(path):
        if isinstance(row, TableRow):
            records.append(row)
        else:
            problems.append(row)
    if not records and not problems:
        problems.append(f"{path}: no rows; expected at least one")
    return Table(tuple(records), tuple(problems))


def csv_rows(path: Path, delimiter: str = ",") -> Iterator[TableRow | str]:
    """Yield the rows of a CSV file with a header, gzipped or not. An empty line is no row.

    Quoted cells may hold line breaks, unless tabs delimit them: most writers of TSV quote nothing,
    and a quote that ends nowhere would take the next rows with it.

    Args:
        path: The file.
        delimiter: What stands between cells.
    """
    csv.field_size_limit(sys.maxsize)
    lines = (line for _, line in every_line(path, _EXPECTED, newline=""))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    between = "tabs" if delimiter == "\t" else "commas"
    header: list[str] = []
    end = 0  # the last line of the rows so far
    try:
        for cells in reader:
            start, end = end + 1, reader.line_num
            problem = not_utf8("".join(cells))
            is_header = not header
            if is_header:
                header = cells
                counts = Counter(filter(None, cells))
                repeated = sorted(name for name, count in counts.items() if count > 1)
                if repeated:
                    problem = f"columns named more than once: {', '.join(repeated)}"
            elif len(cells) != len(header):
                problem = (
                    f"{len(cells)} cells, expected {len(header)} as in the header, with {between}"
                    " between them"
                )
            elif delimiter == "\t" and end > start:
                problem = (
                    "a cell with a double quote that ends on another line; expected quotes in pairs"
                )
            if problem and cells:
                yield f"{path}:{start}: {problem}"
            elif cells and not is_header:
                yield TableRow(f"{path}:{start}", dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        yield (
            f"{path}:{end + 1}: not valid CSV: {error}; expected cells with {between} or quotes to"
            " be in double quotes"
        )
    except DataError as error:
        yield str(error)


def jsonl_rows(path: Path) -> Iterator[TableRow | str]:
    """Yield the objects of a file with one in each line, which may be gzipped.

    Empty lines are passed over.
    """
    try:
        for number, line in every_line(path, _EXPECTED):
            if line.isspace():
                continue
            where = f"{path}:{number}"
            problem = not_utf8(line)
            try:
                values = parse_json(line, is_shared=False)
            except ValueError as error:
                problem = problem or f"not valid JSON: {error}; expected an object per line"
            if problem:
                yield f"{where}: {problem}"
            elif isinstance(values, dict):
                yield TableRow(where, values)
            else:
                kind = type(values).__name__
                yield f"{where}: found a JSON {kind}, expected an object per line"
    except DataError as error:
        yield str(error)


def parquet_rows(
    path: Path, needed: Sequence[str] = (), optional: Sequence[str] = ()
) -> Iterator[TableRow | str]:
    """Yield the rows of a Parquet file.

    Args:
        path: The file.
        needed: Columns. If the file has all of them, only these are read.
        optional: Columns that are read beside those.
    """
    import pyarrow.lib
    import pyarrow.parquet

    row = 0
    try:
        with pyarrow.parquet.ParquetFile(path, memory_map=True) as table:
            names = list(dict.fromkeys(table.schema_arrow.names))
            if needed and set(needed) <= set(names):
                names = [name for name in names if name in (*needed, *optional)]
            for batch in table.iter_batches(_BATCH, columns=names):
                for values in batch.to_pylist():
                    row += 1
                    yield TableRow(f"{path}, row {row}", values)
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:
        after = f" after row {row}" if row else ""
        yield f"{path}: not a readable Parquet file{after}: {error}; write or fetch the file again"


def write_table(path: Path, records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Write a table in the format of its path's ending.

    Args:
        path: The file.
        records: The rows. In CSV lists and mappings are written as JSON.
        names: The columns to write. In JSONL records keep their own.

    Raises:
        DataError: The folder cannot be written, or Parquet cannot hold the values.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        import pyarrow
        import pyarrow.parquet

        columns = {name: [record.get(name) for record in records] for name in names}
        errors = (OSError, pyarrow.lib.ArrowException)
        with whole_file(path, errors, "try .jsonl, or another place") as part:
            pyarrow.parquet.write_table(pyarrow.table(columns), part)
    elif ending == ".jsonl":
        lines = (json.dumps(record, ensure_ascii=False, default=str) for record in records)
        write_lines(path, lines)
    else:
        content = io.StringIO(newline="")
        writer = csv.writer(content, lineterminator="\n")
        writer.writerow(names)
        for record in records:
            writer.writerow([_csv_cell(record.get(name)) for name in names])
        write_text(path, content.getvalue())


def _csv_cell(value: Any) -> Any:
    is_plain = not isinstance(value, list | dict | bool)
    return value if is_plain else json.dumps(value, ensure_ascii=False)


FORMATS: Mapping[str, Reader] = {".csv": csv_rows, ".jsonl": jsonl_rows, ".parquet": parquet_rows}
