"""Reading and writing of tables: CSV, JSONL and Parquet files, every value as written.

Loaders of data sets call `read_table`. It guesses no types, and keeps a cell such as ``NA``. It
reads CSV and JSONL line by line, since pyarrow stops at the first bad line and guesses types.
"""

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json, whole_file, write_lines, write_text
from lm_factuality.ground.records import every_line, unpacked_limit, utf8_problem

if TYPE_CHECKING:
    import pyarrow.parquet

# A cell of a Parquet file that is packed to nothing may have megabytes.
_BATCH = 64  # rows that are unpacked at a time
_BATCH_MEMORY = 512 << 20  # bytes that they may take
_OBJECT_MEMORY = 56  # bytes of any object of Python
_ROW_MEMORY = 300  # bytes of a row without its cells
_EXPECTED = "fetch or write the file again"
# The problem of the row at which a reader stops, since nobody can tell where the next one begins.
NOT_CSV = "not valid CSV"
# The signs between cells. Of two that are equally frequent in a header, the first one counts.
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_LINE_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
# The beginning of a text or of a line in it, if a spreadsheet may compute what follows. The last
# signs are full-width and small forms of the four before.
_FORMULA = re.compile(
    rf"(\A|[{_LINE_BREAKS}])(?=[^\S{_LINE_BREAKS}]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212])"
    r"|\A(?=[\t\r])"
)


@dataclass(frozen=True)
class TableRow:
    """A row of a table."""

    location: str
    """The place of the row: ``file:line``, or ``file, row 3`` in a file without lines."""

    values: Mapping[str, Any]
    """The cells, by the name of the column."""


@dataclass(frozen=True)
class Table:
    """The rows of a file, and the problems of the rows that cannot be read."""

    records: tuple[TableRow, ...]
    problems: tuple[str, ...] = ()
    """Sentences, each of which names the line of a problem."""


Reader = Callable[[Path], Iterator[TableRow | str]]
"""A function that yields the rows of a file, one in memory at a time.

In place of a row that cannot be read it yields a sentence that says why.
"""


def read_table(path: Path) -> Table:
    """Read all rows of a CSV, JSONL or Parquet file.

    Args:
        path: The file, whose ending tells its format.

    Returns:
        The rows that can be read, and the problems of the others. No rows are a problem too.

    Raises:
        DataError: The file is missing, or its ending names no known format.
    """
    reader = FORMATS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: ends in {path.suffix!r}, expected one of {', '.join(FORMATS)}")
    if not path.is_file():
        raise DataError(f"{path}: no such file")

    records = []
    problems = []
    for row in bounded_rows(path, reader(path)):
        if isinstance(row, TableRow):
            records.append(row)
        else:
            problems.append(row)

    if not records and not problems:
        problems.append(f"{path}: no rows; expected at least one")
    return Table(tuple(records), tuple(problems))


def bounded_rows(path: Path, rows: Iterable[TableRow | str]) -> Iterator[TableRow | str]:
    """Yield the rows of a file, but stop if they take far more memory than its size explains.

    Args:
        path: The file. Its rows may take as many bytes as `unpacked_limit` says.
        rows: The rows of the file, with a sentence in place of each row that cannot be read.

    Yields:
        The rows and sentences, and at last a sentence if the limit is exceeded.
    """
    limit = unpacked_limit(path)
    memory = 0
    for row in rows:
        memory += _ROW_MEMORY
        if isinstance(row, TableRow):
            memory += _memory_of(row.values)
        if memory > limit:
            yield f"{path}: its rows take more than {limit:,} bytes once unpacked; split the file"
            return
        yield row


def _memory_of(value: object) -> int:
    """Return about how many bytes a value takes, with all that is in it."""
    if isinstance(value, str | bytes):
        return _OBJECT_MEMORY + len(value)
    if isinstance(value, Mapping):
        return _OBJECT_MEMORY + sum(map(_memory_of, value.values()))
    if isinstance(value, list):
        return _OBJECT_MEMORY + sum(map(_memory_of, value))
    return _OBJECT_MEMORY


def csv_rows(path: Path, delimiter: str = ",") -> Iterator[TableRow | str]:
    """Yield the rows of a CSV file with a header, gzipped or not. Empty lines are skipped.

    Quoted cells may hold line breaks, unless tabs delimit them: most writers of TSV quote nothing,
    and a quote without an end would swallow the next rows.

    Args:
        path: The file.
        delimiter: The character between cells, a comma, a semicolon or a tab.

    Yields:
        A row, or a sentence that says why a row cannot be read. Reading stops at invalid CSV.
    """
    # By default the module refuses cells of more than 131,072 characters, such as long documents.
    csv.field_size_limit(sys.maxsize)
    lines = (line for _, line in every_line(path, _EXPECTED, newline=""))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] = []
    first_line = 1  # of the row; a row with line breaks in its cells has several lines
    try:
        for cells in reader:
            location = f"{path}:{first_line}"
            has_line_break = reader.line_num > first_line
            first_line = reader.line_num + 1
            if not cells:
                # The line is empty.
                continue
            is_header = not header
            if is_header:
                header = cells
                problem = _repeated_columns(header) or utf8_problem("".join(header))
            else:
                problem = _problem_of_row(cells, len(header), delimiter, has_line_break)
            if problem:
                yield f"{location}: {problem}"
            elif not is_header:
                yield TableRow(location, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        yield (
            f"{path}:{first_line}: {NOT_CSV}: {error}; expected cells with"
            f" {_DELIMITERS[delimiter]} or quotes to be in double quotes"
        )
    except DataError as error:
        # `every_line` cannot read on, for example because a gzipped file is damaged.
        yield str(error)


def _problem_of_row(
    cells: Sequence[str], num_columns: int, delimiter: str, has_line_break: bool
) -> str:
    """Say why a row of a CSV file cannot be used, or return an empty string.

    Args:
        cells: The cells of the row.
        num_columns: The number of cells in the header.
        delimiter: The character between cells.
        has_line_break: Whether a cell has a line break in it.
    """
    if len(cells) != num_columns:
        return (
            f"{len(cells)} cells, expected {num_columns} as in the header, with"
            f" {_DELIMITERS[delimiter]} between them"
        )
    if delimiter == "\t" and has_line_break:
        return "a cell with a double quote that ends on another line; expected quotes in pairs"
    return utf8_problem("".join(cells))


def separated_rows(path: Path) -> Iterator[TableRow | str]:
    """Yield the rows of a CSV file as `csv_rows` does, with the delimiter that its header has most.

    Spreadsheets write semicolons where the comma is the decimal point.

    Yields:
        A row, or a sentence that says why a row cannot be read.
    """
    lines = every_line(path, _EXPECTED)
    try:
        # An empty file has no line 1.
        _, header = next(lines, (1, ""))
    except DataError as error:
        yield str(error)
        return
    most_frequent = max(_DELIMITERS, key=header.count)
    yield from csv_rows(path, delimiter=most_frequent)


def _repeated_columns(header: Sequence[str]) -> str:
    """Say which columns a header names more than once, or return an empty string.

    Columns without a name are ignored.
    """
    counts = Counter(name for name in header if name)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    return f"columns named more than once: {', '.join(repeated)}" if repeated else ""


def jsonl_rows(path: Path) -> Iterator[TableRow | str]:
    """Yield the rows of a JSONL file, gzipped or not: a JSON object per line.

    Args:
        path: The file. Its blank lines are skipped.

    Yields:
        A row, or a sentence that says why a line is not a row.
    """
    try:
        for number, line in every_line(path, _EXPECTED):
            if line.isspace():
                continue
            yield _jsonl_row(f"{path}:{number}", line)
    except DataError as error:
        yield str(error)


def _jsonl_row(location: str, line: str) -> TableRow | str:
    """Parse a line of a JSONL file.

    Args:
        location: The file and the number of the line, such as ``rows.jsonl:3``.
        line: The line.

    Returns:
        The row, or a sentence that says why the line is not a row.
    """
    # Bad bytes come first, because they are often the reason why the JSON is invalid.
    problem = utf8_problem(line)
    if problem:
        return f"{location}: {problem}"
    try:
        values = parse_json(line, refuse_repeated_keys=False)
    except ValueError as error:
        return f"{location}: not valid JSON: {error}; expected an object per line"
    if not isinstance(values, dict):
        kind = type(values).__name__
        return f"{location}: found a JSON {kind}, expected an object per line"
    return TableRow(location, values)


def parquet_rows(
    path: Path, required: Sequence[str] = (), optional: Sequence[str] = ()
) -> Iterator[TableRow | str]:
    """Yield the rows of a Parquet file.

    Args:
        path: The file.
        required: The columns to read; empty for all columns. If the file lacks one of them, all its
            columns are read, so that the caller can say which ones it has.
        optional: Columns to read as well if the file has them.

    Yields:
        A row, or at the end a sentence that says why the rest cannot be read.
    """
    import pyarrow.lib
    import pyarrow.parquet

    row_number = 0
    try:
        with pyarrow.parquet.ParquetFile(path, memory_map=True) as table:
            size = 0
            for number in range(table.num_row_groups):
                size += table.metadata.row_group(number).total_byte_size
            limit = unpacked_limit(path)
            if size > limit:
                yield f"{path}: unpacks to {size:,} bytes, expected at most {limit:,}; split it"
                return

            # A file may have several columns of one name.
            columns = list(dict.fromkeys(table.schema_arrow.names))
            if required and set(required) <= set(columns):
                columns = [name for name in columns if name in (*required, *optional)]
            for values in _unpacked_rows(table, columns):
                row_number += 1
                yield TableRow(f"{path}, row {row_number}", values)
    except MemoryError:
        yield (
            f"{path}: {_BATCH} rows after row {row_number} take more than {_BATCH_MEMORY:,} bytes"
            " once unpacked; split their cells"
        )
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:
        progress = f" after row {row_number}" if row_number else ""
        yield (
            f"{path}: not a readable Parquet file{progress}: {error}; write or fetch the file again"
        )


def _unpacked_rows(
    table: "pyarrow.parquet.ParquetFile", columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of an open Parquet file, of which a few are in memory at a time.

    Raises:
        MemoryError: A few rows take much more memory than the file states.
    """
    # Each thread of pyarrow would need address space, which `_limited_memory` limits.
    batches = table.iter_batches(_BATCH, columns=columns, use_threads=False)
    while True:
        # The sizes that the file states may be wrong, and a few bytes may unpack to many.
        with _limited_memory(_BATCH_MEMORY):
            batch = next(batches, None)
            if batch is None:
                return
            rows = batch.to_pylist()
        yield from rows


@contextmanager
def _limited_memory(max_further_bytes: int) -> Iterator[None]:
    """On Linux, raise MemoryError within the block if the process takes too much more memory.

    Args:
        max_further_bytes: The number of bytes that the process may take in the block.
    """
    if sys.platform != "linux":
        yield
        return

    import resource

    # The first number in this file is the address space of the process, in pages.
    num_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = num_pages * resource.getpagesize() + max_further_bytes
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # A user may have set a lower limit.
    is_lower = soft != resource.RLIM_INFINITY and soft < limit
    resource.setrlimit(resource.RLIMIT_AS, (soft if is_lower else limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def write_table(path: Path, records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Write a table as Parquet, JSONL or CSV, as the ending of its path says.

    Args:
        path: The file. An ending other than ``.parquet`` and ``.jsonl`` stands for CSV.
        records: The rows. In CSV, lists, mappings and booleans are written as JSON.
        names: The columns to write, in order. JSONL needs no columns, so it ignores them and writes
            each whole record.

    Raises:
        DataError: The folder cannot be written, or Parquet cannot hold the values.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        _write_parquet(path, records, names)
        return

    if ending == ".jsonl":
        lines = (json.dumps(record, ensure_ascii=False, default=str) for record in records)
        write_lines(path, lines)
        return

    rows = ([_csv_cell(record.get(name)) for name in names] for record in records)
    write_text(path, csv_text(names, rows))


def csv_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a CSV file for people, whose texts no spreadsheet takes for formulas.

    All texts are in quotes. Before Python 3.13, the module `csv` writes no quotes around a text
    with a carriage return, at which spreadsheets begin a row.

    Example:
        The cell ``=1+1`` is written as ``"'=1+1"``.

    Args:
        names: The header.
        rows: The cells of each row. An apostrophe is put before each line of a text that begins
            like a formula.
    """
    content = io.StringIO(newline="")
    writer = csv.writer(content, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(names)
    for row in rows:
        writer.writerow(
            [_FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell for cell in row]
        )
    return content.getvalue()


def _write_parquet(path: Path, records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Write a Parquet file with the named columns of the records.

    Args:
        path: The file, which appears only when it is complete.
        records: The rows. A column that a row lacks is null there.
        names: The columns, in order.

    Raises:
        DataError: The folder cannot be written, or a column has values of several types.
    """
    import pyarrow
    import pyarrow.parquet

    columns = {name: [record.get(name) for record in records] for name in names}
    errors = (OSError, pyarrow.lib.ArrowException)
    with whole_file(path, errors, "try .jsonl, or another place") as temporary_path:
        pyarrow.parquet.write_table(pyarrow.table(columns), temporary_path)


def _csv_cell(value: object) -> object:
    """Return a value for a CSV cell; lists, mappings and booleans as JSON, such as ``true``."""
    needs_json = isinstance(value, list | dict | bool)
    return json.dumps(value, ensure_ascii=False) if needs_json else value


FORMATS: Mapping[str, Reader] = {".csv": csv_rows, ".jsonl": jsonl_rows, ".parquet": parquet_rows}

SPREADSHEET_FORMATS: Mapping[str, Reader] = {
    ".csv": separated_rows,
    ".tsv": partial(csv_rows, delimiter="\t"),
    ".jsonl": jsonl_rows,
}
"""The readers of texts that spreadsheets and people write, whose delimiter need not be a comma."""
