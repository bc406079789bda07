"""Shows the table of the run on the terminal, as Markdown, and as JSON.

`bench.real.__main__` calls it after the last step. `bench.real.known` puts its own table on a page.
"""

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

TABLE_MARK = "<!-- The table below is made by a command. -->"
"""The line of a page below which a table stands."""

_EXCUSED_REASONS = yaml.safe_load(
    (Path(__file__).parent / "reasons.yaml").read_text(encoding="utf-8")
)
# A "#" marks a column of numbers.
_COLUMNS = ("step", "what", "#rows", "score [95% interval]", "#unscored", "main reason", "#seconds")


@dataclass(frozen=True)
class Outcome:
    """What became of a step. ``table.json`` has its fields as keys."""

    step: str
    """The name of the step."""

    lines: tuple[Line, ...]
    """Its lines of the table. There are none if it failed or was skipped."""

    seconds: float
    """Its duration."""

    problem: str = ""
    """Why it failed or was skipped. Empty if it was done."""

    is_skipped: bool = False
    """Whether it was skipped."""

    @property
    def is_wrong(self) -> bool:
        """Whether the step failed, or left something unscored through a fault of the suite."""
        has_failed = bool(self.problem) and not self.is_skipped
        return has_failed or any(has_unexpected_reason(line) for line in self.lines)


def has_unexpected_reason(line: Line) -> bool:
    """Return whether the main reason of unscored items is none that ``reasons.yaml`` excuses."""
    if not line.unscored:
        return False
    return not any(re.search(pattern, line.reason) for pattern in _EXCUSED_REASONS)


def print_and_save(outcomes: Sequence[Outcome], model: str, out: Path) -> None:
    """Print the table, and write it to files.

    Args:
        outcomes: The outcome of each step.
        model: The name of the model.
        out: The folder for ``table.md`` and ``table.json``.
    """
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    title = f"{model}: {len(outcomes)} steps, {minutes:.1f} minutes"
    print_table(title, _COLUMNS, _make_rows(outcomes))
    write_text(out / "table.md", to_markdown(outcomes))
    write_json(out / "table.json", [asdict(outcome) for outcome in outcomes])


def to_markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the table in Markdown."""
    return markdown_table(_COLUMNS, _make_rows(outcomes))


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the lines of a table in Markdown.

    Args:
        columns: The names of the columns. ``#`` before a name marks a column of numbers.
        rows: The cells of each row.
    """
    heads = [column.lstrip("#") for column in columns]
    rules = ["---:" if column.startswith("#") else "---" for column in columns]
    lines = [heads, rules]
    for row in rows:
        # A bar within a cell would end the cell.
        lines.append([cell.replace("|", "\\|") for cell in row])
    return markdown_lines(lines)


def markdown_lines(rows: Sequence[Sequence[str]]) -> str:
    """Return the lines of a table in Markdown, from the cells of each row."""
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _make_rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Return the cells of each row of the table, in the order of the columns."""
    rows: list[tuple[str, ...]] = []
    for outcome in outcomes:
        # A step's name and seconds stand on its first row only.
        step = outcome.step
        seconds = f"{outcome.seconds:.0f}"
        if outcome.problem:
            kind = "skipped" if outcome.is_skipped else "failed"
            rows.append((step, kind, "", outcome.problem, "", "", seconds))
        for line in outcome.lines:
            rows.append(
                (
                    step,
                    line.what,
                    str(line.rows),
                    line.score,
                    str(line.unscored),
                    line.reason,
                    seconds,
                )
            )
            step = ""
            seconds = ""
    return rows


def put_on_page(page: Path, table: str, table_mark: str = TABLE_MARK) -> None:
    """Put a table on a page in place of the one that stands below a mark.

    Args:
        page: The page, in Markdown.
        table: The table's lines, in Markdown.
        table_mark: The line of the page below which the table stands.

    Raises:
        DataError: The page has no such line.
    """
    before, mark, after = page.read_text(encoding="utf-8").partition(f"{table_mark}\n\n")
    if not mark:
        raise DataError(f"{page}: has no line {table_mark!r}, below which a table belongs")
    # The old table ends at the first blank line.
    _, _, rest = after.partition("\n\n")
    write_text(page, f"{before}{mark}{table}\n{rest}")
