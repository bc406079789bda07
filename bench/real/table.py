"""The table of the run: on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from bench.real.record import Line
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_json, write_text

_EXCUSED = yaml.safe_load((Path(__file__).parent / "reasons.yaml").read_text(encoding="utf-8"))
TABLE = "<!-- The table below is made by a command. -->"
_COLUMNS = ("step", "what", "#rows", "score [95% interval]", "#unscored", "main reason", "#seconds")


@dataclass(frozen=True)
class Outcome:
    """A step that was done (``problem`` is empty), failed, or was skipped."""

    step: str
    lines: tuple[Line, ...]
    seconds: float
    problem: str = ""
    is_skipped: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether the step failed, or left something unscored through a fault of the suite."""
        return (bool(self.problem) and not self.is_skipped) or any(map(is_ours, self.lines))


def is_ours(line: Line) -> bool:
    """Whether the main reason for what is unscored is none of those that ``reasons.yaml``
    excuses."""
    return line.unscored > 0 and not any(re.search(reason, line.reason) for reason in _EXCUSED)


def cells(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """The rows of the table; the seconds of a step stand on its first line."""
    rows: list[tuple[str, ...]] = []
    for each in outcomes:
        if each.problem:
            rows.append(
                (
                    each.step,
                    "skipped" if each.is_skipped else "failed",
                    "",
                    each.problem,
                    "",
                    "",
                    f"{each.seconds:.0f}",
                )
            )
        for number, line in enumerate(each.lines):
            first = (each.step, f"{each.seconds:.0f}") if number == 0 else ("", "")
            rows.append(
                (
                    first[0],
                    line.what,
                    str(line.rows),
                    line.score,
                    str(line.unscored),
                    line.reason,
                    first[1],
                )
            )
    return rows


def to_markdown(outcomes: Sequence[Outcome]) -> str:
    """The same for a page of the documentation."""
    heads = [column.lstrip("#") for column in _COLUMNS]
    rule = ["---:" if column.startswith("#") else "---" for column in _COLUMNS]
    rows = [[cell.replace("|", "\\|") for cell in row] for row in cells(outcomes)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, rule, *rows))


def put_on_page(page: Path, table: str) -> None:
    """Puts ``table`` in place of the one that stands below the line ``TABLE`` of ``page``.

    Raises:
        DataError: there is no such line.
    """
    before, mark, after = page.read_text(encoding="utf-8").partition(f"{TABLE}\n\n")
    if not mark:
        raise DataError(f"{page}: has no line {TABLE!r}, below which a table belongs")
    rest = after.partition("\n\n")[2]
    write_text(page, f"{before}{mark}{table}\n{rest}")


def show(outcomes: Sequence[Outcome], model: str, out: Path) -> None:
    """Prints the table, and writes ``table.md`` and ``table.json`` to ``out``."""
    seconds = sum(each.seconds for each in outcomes)
    print_table(
        f"{model}: {len(outcomes)} steps, {seconds / 60:.1f} minutes", _COLUMNS, cells(outcomes)
    )
    write_text(out / "table.md", to_markdown(outcomes))
    write_json(out / "table.json", [asdict(each) for each in outcomes])
