"""Printing of tables to the terminal, and formatting of their cells.

The commands of both programs call it.
"""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_factuality.ground.errors import printable

if TYPE_CHECKING:
    from rich.table import Table

_WIDEST = 1000  # characters of a line in a file
_NARROWEST_TEXT = 16  # characters to which a terminal may fold a column of text


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> None:
    """Print a table to stdout. A terminal folds wide columns; a file gets long lines.

    Args:
        title: The line above the table.
        columns: The names of the columns. ``#`` before a name marks a column of numbers, which is
            flush right. The first column and numbers are not folded.
        rows: The cells of each row, which may have several lines. A column whose cells are all
            empty is left out.
        notes: Lines under the table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    cells = [[_printable_lines(cell) for cell in row] for row in rows]
    # A table without rows keeps all columns, to show what it would hold.
    filled_columns = []
    for index in range(len(columns)):
        if not cells or any(row[index] for row in cells):
            filled_columns.append(index)

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    for index in filled_columns:
        column_cells = [row[index] for row in cells]
        _add_column(table, columns[index], column_cells, is_first=index == 0)
    for row in cells:
        table.add_row(*(row[index] for index in filled_columns))

    console = Console(markup=False, highlight=False)
    widths = Measurement.get(console, console.options.update(max_width=_WIDEST), table)
    # In the narrowest table, texts are folded. A file gets the widest one.
    needed_width = widths.minimum if console.is_terminal else widths.maximum
    # A table wider than the terminal is better than one with cut numbers.
    console.width = max(console.width, needed_width)
    console.print(table)
    for note in notes:
        console.print(printable(note), style="dim", soft_wrap=True)


def _add_column(table: "Table", column: str, cells: Sequence[str], is_first: bool) -> None:
    """Add a column to a table, with the width that its cells need.

    Args:
        table: The table, which gets the column but not its cells.
        column: The name of the column, with ``#`` before it if the column holds numbers.
        cells: The texts in the column, which may have several lines.
        is_first: Whether it is the first column. That one and numbers are not folded.
    """
    # "#Accuracy" is a column of numbers with the name "Accuracy".
    name = column.lstrip("#")
    is_number = column != name
    no_wrap = is_number or is_first
    lines = "\n".join([name, *cells]).split("\n")
    longest = max(len(line) for line in lines)
    table.add_column(
        name,
        justify="right" if is_number else "left",
        overflow="fold",
        no_wrap=no_wrap,
        # A column of short texts, such as "yes", needs even less than the narrowest.
        min_width=longest if no_wrap else min(longest, _NARROWEST_TEXT),
    )


def _printable_lines(cell: str) -> str:
    """Make each line of a cell safe to print, since names may come from untrusted files."""
    return "\n".join(printable(line) for line in cell.split("\n"))


def format_number(value: float | None, format_spec: str = ".1%") -> str:
    """Format a number for a table.

    Args:
        value: The number.
        format_spec: A format specification of Python. The default turns 0.25 into ``25.0%``.

    Returns:
        The text, or ``-`` for None and NaN.
    """
    return "-" if value is None or math.isnan(value) else format(value, format_spec)


def format_percent(value: float | None) -> str:
    """Format a share in percent without the sign: 0.25 becomes ``25.0``, and None ``-``."""
    return "-" if value is None else f"{100 * value:.1f}"


def format_interval(bounds: Sequence[float | None] | None, format_spec: str = ".1%") -> str:
    """Format an interval for a table, such as ``20.1% - 29.9%``.

    Args:
        bounds: The lower and the upper bound.
        format_spec: A format specification of Python for both bounds.

    Returns:
        The text, or ``-`` if there is no interval or a bound is None or NaN.
    """
    texts = [format_number(bound, format_spec) for bound in bounds or ()]
    return "-" if not texts or "-" in texts else " - ".join(texts)


def plural(count: int, word: str) -> str:
    """Format a count with its noun, such as ``1 model`` or ``2,000 models``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def is_first_process() -> bool:
    """Tell whether this process is the one of a distributed run that writes the results.

    Launchers such as torchrun number the processes from 0 in the variable ``RANK``.
    """
    return int(os.environ.get("RANK", "0")) == 0
