"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    """Prints rows under ``title``; numbers (columns whose name starts with ``#``) are set flush right."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    for column in columns:
        table.add_column(column.lstrip("#"), justify="right" if column.startswith("#") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    console.print(table)
    for note in notes:
        console.print(note, style="dim", soft_wrap=True)
