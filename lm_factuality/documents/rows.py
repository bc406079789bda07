"""Documents in the rows of tables and in the objects of JSON files.

`reader` calls `read_rows`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lm_factuality.documents.document import (
    Document,
    UnreadableError,
    UnreadDocument,
    read_text,
    row_text,
)
from lm_factuality.ground import tables
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.replies import storable

# The columns that may hold the title of a row, the best one first.
_TITLE_COLUMNS = ("title", "name", "id")
# A row that has only these columns is a passage, whose text needs no header.
_PASSAGE_COLUMNS = frozenset({"text", "id", "title", "name"})


def read_rows(path: Path, ending: str, document_id: str) -> Iterator[Document | UnreadDocument]:
    """Yield a document for each row of a table or each object of a JSON file.

    Example:
        The row ``Rope,3`` under the header ``name,price`` becomes a document with the title
        ``Rope`` and the lines ``name: Rope`` and ``price: 3``.

    Args:
        path: The file.
        ending: The ending of its name, one of `ROW_READERS`.
        document_id: The id of the file, to which each row adds its number.

    Yields:
        The documents. In place of a row that cannot be read stands an `UnreadDocument`.
    """
    number = 0
    for number, row in enumerate(_rows_of_file(path, ending), start=1):
        # In place of a row that it cannot read, a reader yields a sentence that says why.
        if isinstance(row, str):
            yield _split_problem(path, row)
            continue
        document = _document_of_row(row.values, f"{document_id}#{number}", storable(path.stem))
        if document.text:
            yield document
        else:
            # Tables from spreadsheets often end in such rows.
            yield UnreadDocument(row.location, "the row is empty")
    if number == 0:
        yield UnreadDocument(str(path), "there are no rows in it")


def _split_problem(path: Path, problem: str) -> UnreadDocument:
    """Split the sentence about a bad row into the place of the row and the reason.

    Example:
        ``prices.csv:3: 2 cells, expected 3`` has the place ``prices.csv:3`` and the reason
        ``2 cells, expected 3``.
    """
    # The path may contain a colon and a space itself, so only the text after it is split.
    place_in_file, separator, reason = problem.removeprefix(str(path)).partition(": ")
    if not separator:
        return UnreadDocument(str(path), problem)
    if reason.startswith(tables.NOT_CSV):
        reason += "; the rows after it were not read"
    return UnreadDocument(f"{path}{place_in_file}", reason)


def _document_of_row(values: Mapping[str, Any], document_id: str, file_title: str) -> Document:
    """Make a document of a row. If all cells are empty, the text of the document is empty.

    Args:
        values: The cells of the row, by column.
        document_id: The id of the document.
        file_title: The title of the file, for a row that has no title.
    """
    cells = {str(column): _cell_text(value) for column, value in values.items()}
    # Columns are compared without regard to case and surrounding spaces, but shown as they are.
    cells_by_name = {column.strip().lower(): cell for column, cell in cells.items()}
    # A row of a text and its title is one passage. Other rows list their cells, each with its
    # column.
    is_passage = "text" in cells_by_name and cells_by_name.keys() <= _PASSAGE_COLUMNS
    text = cells_by_name["text"].strip() if is_passage else row_text(cells)
    title = _title_of_row(cells_by_name) or file_title
    return Document(document_id, storable(title), storable(text))


def _title_of_row(cells_by_name: Mapping[str, str]) -> str:
    """Return the first cell that can be a title, on one line. Empty if there is none."""
    for name in _TITLE_COLUMNS:
        title = " ".join(cells_by_name.get(name, "").split())
        if title:
            return title
    return ""


def _cell_text(value: object) -> str:
    """Return the value of a cell as a text: JSON for lists, objects and booleans.

    Example:
        True becomes ``true``, 3.5 becomes ``3.5``, and None an empty string. Binary data become a
        note such as ``(2,048 bytes)``.
    """
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"({len(value):,} bytes)"
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _json_rows(path: Path) -> Iterator[tables.TableRow | str]:
    """Yield a row for each object of a JSON file.

    The file holds one object, a list of objects, or an object whose only value is such a list:
    ``{"data": [...]}``.

    Yields:
        The rows. If the file cannot be read, the only item is a sentence that says why.
    """
    try:
        content = parse_json(read_text(path), refuse_repeated_keys=False)
    except UnreadableError as error:
        yield f"{path}: {error}"
        return
    except ValueError as error:
        yield f"{path}: not valid JSON: {error}"
        return

    if isinstance(content, dict) and len(content) == 1:
        (only_value,) = content.values()
        if isinstance(only_value, list):
            content = only_value
    members = content if isinstance(content, list) else [content]
    for number, member in enumerate(members, start=1):
        # A list may also hold plain texts. `row_text` writes a column without a name as its value.
        values = member if isinstance(member, dict) else {"": member}
        yield tables.TableRow(f"{path}, row {number}", values)


def _rows_of_file(path: Path, ending: str) -> Iterator[tables.TableRow | str]:
    """Yield the rows of a file, or a sentence that says why the file cannot be opened."""
    try:
        yield from tables.bounded_rows(path, ROW_READERS[ending](path))
    except OSError as error:
        yield f"{path}: it cannot be opened: {error.strerror or error}"


ROW_READERS: Mapping[str, tables.Reader] = {
    **tables.SPREADSHEET_FORMATS,
    **{f"{ending}.gz": reader for ending, reader in tables.SPREADSHEET_FORMATS.items()},
    ".json": _json_rows,
    ".parquet": tables.parquet_rows,
}
"""The function that reads the rows of a file, for each ending of a file's name."""
