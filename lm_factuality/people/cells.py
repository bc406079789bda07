"""Cells of tables: what was measured, and what was published of the same, in one form that is printed and written as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_factuality.benchmarks.declaration import Table
from lm_factuality.ground.agreement import Measure
from lm_factuality.ground.packaged import load_yaml
from lm_factuality.ground.plots import new_figure, save_figure
from lm_factuality.ground.settings import Number

Figures = dict[str, dict[str, dict[str, Number]]]
"""Published values as they are printed, by table, column and row (cells with `` | `` between them), as in
``configs/reproduce/people_figures.yaml``."""


@dataclass(frozen=True)
class Cell:
    """A measure in a ``column`` and a ``row`` of a ``table``, printed ``times`` as large with ``digits`` decimals."""

    table: str
    row: tuple[str, ...]
    column: str
    measure: Measure
    times: int = 100
    digits: int = 1

    @property
    def shown(self) -> str:
        """With its interval; ``-`` where it is not defined."""
        ends = self.measure.value, self.measure.low, self.measure.high
        value, low, high = (None if each is None else f"{self.times * each + 0.0:.{self.digits}f}" for each in ends)
        return "-" if value is None else value if low is None else f"{value} ({low} - {high})"


def count(table: str, row: tuple[str, ...], column: str, number: int) -> Cell:
    """A cell that counts."""
    return Cell(table, row, column, Measure(number, None, None, number), 1, 0)


def draw(cells: Sequence[Cell], columns: Sequence[str], what: str, path: Path) -> None:
    """Draws the cells of some columns, each with its interval; raises as ``save_figure``."""
    known = [(cell, cell.measure.value) for cell in reversed(cells) if cell.column in columns and cell.measure.value is not None]
    figure = new_figure(8, 1 + 0.3 * len(known))
    axes = figure.subplots()
    for place, (cell, value) in enumerate(known):
        ends = [value if end is None else end for end in (cell.measure.low, cell.measure.high)]
        axes.plot([cell.times * end for end in ends], [place, place], color="gray")
        axes.plot([cell.times * value], [place], "o", color="C0")
    axes.set_yticks(range(len(known)), [", ".join((*cell.row, *([cell.column] if columns[1:] else []))) for cell, _ in known])
    axes.set(xlabel=f"{what}, with 95% intervals")
    axes.grid(axis="x", alpha=0.3)
    save_figure(figure, path)


def tables_of(cells: Sequence[Cell], figures: Figures) -> Iterator[Table]:
    """The tables of ``tables.yaml`` that have cells, with a column for each column of these. Published figures are added that
    share a row or a column with them."""
    for name, about in load_yaml(__package__, "tables.yaml").items():
        found = {(cell.row, cell.column): cell.shown for cell in cells if cell.table == name}
        rows, columns = dict.fromkeys(row for row, _ in found), dict.fromkeys(column for _, column in found)
        for column, values in figures.get(name, {}).items() if found else ():
            published = {(*row.split(" | "),): f"{value:g}" for row, value in values.items()}
            if column in columns or not rows.keys().isdisjoint(published):
                found |= {(row, column): value for row, value in published.items()}
                columns[column] = None
                rows |= dict.fromkeys(published)
        lines = [(*row, *(found.get((row, column), "") for column in columns)) for row in rows]
        if found:
            yield Table(about["title"], (*about["rows"], *(f"#{column}" for column in columns)), lines, (about["note"], ""))
