"""What a terminal shows: tables and the cells in them."""

import math
import os
from collections.abc import Mapping, Sequence

from lm_factuality.ground.errors import printable

_WIDEST = 1000  # characters a line in a file may have
_NARROWEST = 16  # characters to which a terminal folds a column of text


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> None:
    """Print a table. A terminal folds wide columns, but not the first; in a file lines are long.

    Args:
        title: Stands above the table.
        columns: Their names. A ``#`` before a name marks numbers, which are set flush right.
            Columns without a cell in any row are left out.
        rows: Cells, which may have several lines.
        notes: Lines beneath the table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    # Names may come from strangers' files.
    cells = [["\n".join(map(printable, cell.split("\n"))) for cell in row] for row in rows]
    kept = [index for index in range(len(columns)) if not cells or any(row[index] for row in cells)]
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    for index in kept:
        name = columns[index].lstrip("#")
        is_number = columns[index] != name
        is_fixed = is_number or index == 0
        lines = "\n".join([name, *(row[index] for row in cells)]).split("\n")
        longest = max(map(len, lines))
        table.add_column(
            name,
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_fixed,
            min_width=longest if is_fixed else min(longest, _NARROWEST),
        )
    for row in cells:
        table.add_row(*(row[index] for index in kept))
    console = Console(markup=False, highlight=False)
    needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table)
    console.width = max(console.width, needed.minimum if console.is_terminal else needed.maximum)
    console.print(table)
    for note in notes:
        console.print(printable(note), style="dim", soft_wrap=True)


def shown(value: float | None, form: str = ".1%") -> str:
    """Return a number for a table, ``-`` where there is none or it is not defined."""
    return "-" if value is None or math.isnan(value) else format(value, form)


def percent(value: float | None) -> str:
    """Return a share in per cent without the sign, ``-`` where it is not defined."""
    return "-" if value is None else f"{100 * value:.1f}"


def interval(ends: Sequence[float | None] | None, form: str = ".1%") -> str:
    """Return an interval for a table, ``-`` where it is not defined."""
    texts = [shown(end, form) for end in ends or ()]
    return "-" if not texts or "-" in texts else " - ".join(texts)


def counted(counts: Mapping[str, int]) -> str:
    """Return counts such as ``true 3, false 1``."""
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def plural(count: int, word: str) -> str:
    """Return a count such as ``1 model`` or ``2,000 models``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def is_first_process() -> bool:
    """Tell whether this process, of several that share a run, writes its results."""
    return int(os.environ.get("RANK", "0")) == 0
