"""What a terminal shows: tables, and lines of a log that come once."""

import logging
import math
import os
from collections.abc import Mapping, Sequence

from lm_factuality.ground.errors import printable

_WIDEST = 1000  # characters a line in a file may have
_NARROWEST = 16  # characters to which a terminal folds a column of text
_told: set[str] = set()


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> None:
    """Prints rows under ``title``; numbers (columns whose name starts with ``#``) are set flush
    right. Columns without a cell in any row are left out. A terminal folds wide columns, not the
    first, as far as they can be read; in a file lines are long."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    rows = [
        ["\n".join(map(printable, cell.split("\n"))) for cell in row] for row in rows
    ]  # names from strangers' files
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    kept = [index for index in range(len(columns)) if not rows or any(row[index] for row in rows)]
    narrowest = 0
    for index in kept:
        number = columns[index].startswith("#")
        name = columns[index].lstrip("#")
        fixed = number or index == 0
        longest = max(
            (
                len(line)
                for cell in (name, *(row[index] for row in rows))
                for line in cell.split("\n")
            ),
            default=0,
        )
        least = longest if fixed else min(longest, _NARROWEST)
        narrowest += least + len(" | ")
        table.add_column(
            name,
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=fixed,
            min_width=least,
        )
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    console = Console(markup=False, highlight=False)
    natural = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    console.width = max(console.width, narrowest if console.is_terminal else natural)
    console.print(table)
    for note in map(printable, notes):
        console.print(note, style="dim", soft_wrap=True)


def shown(value: float | None, form: str = ".1%") -> str:
    """A number of a table; ``-`` where there is none, or it is not defined."""
    return "-" if value is None or math.isnan(value) else format(value, form)


def percent(value: float | None) -> str:
    """A share in per cent, without the sign; ``-`` where it is not defined."""
    return "-" if value is None else f"{100 * value:.1f}"


def interval(ends: Sequence[float | None] | None, form: str = ".1%") -> str:
    return (
        " - ".join(shown(end, form) for end in ends)
        if ends and not any(shown(end) == "-" for end in ends)
        else "-"
    )


def counted(counts: Mapping[str, int]) -> str:
    """``name number, name number``."""
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def plural(count: int, word: str) -> str:
    """``1 model``, ``2,000 models``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def is_first_process() -> bool:
    """Whether this is the process, of several that share a run, which writes its results."""
    return int(os.environ.get("RANK", "0")) == 0


def tell_once(logger: logging.Logger, text: str, level: int = logging.WARNING) -> None:
    """Logs ``text`` once, however often it is said, and of several processes in the first alone."""
    if text not in _told and is_first_process() and logger.isEnabledFor(level):
        _told.add(text)
        logger.log(level, "%s", text)
