"""What the modules of ``bench.real`` share: a step, what it runs with, and its lines of the table.

A step is one command of ``make real``. `bench.real.steps` lists all of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LONGEST_LAST_LINE = 600  # bytes


@dataclass(frozen=True)
class Line:
    """A line of the table. Files with results have its fields as keys."""

    what: str
    """The task, or what the step worked on, such as "12 documents"."""

    rows: int
    """The number of rows that were run."""

    score: str
    """The score with its interval, as the table shows it."""

    unscored: int = 0
    """The number of rows, or other items, without a score."""

    reason: str = ""
    """The reason why most of these have no score, with its count."""


@dataclass(frozen=True)
class StepContext:
    """What a step runs with."""

    model: Path
    """The folder of the model's checkpoint."""

    out: Path
    """The folder of the whole run."""

    name: str
    """The name of the step."""

    rows: int
    """How many rows the step takes."""

    missing: Mapping[str, str]
    """The published data that cannot be had: the reason by the name of the source."""

    vllm: Path
    """The folder with the commands of an environment with vLLM."""

    @property
    def folder(self) -> Path:
        """The folder of the step."""
        return self.out / self.name

    @property
    def log(self) -> Path:
        """The file with everything that the step prints."""
        return self.folder / "log.txt"

    @property
    def data(self) -> Path:
        """The folder with the published data, which all steps share."""
        return self.out / "data"


MakeCommand = Callable[[StepContext], list[str]]
"""Returns the command of a step. It raises `CannotRunError` if the step cannot run here."""


@dataclass(frozen=True)
class Step:
    """A command of the run."""

    name: str
    """Its name, by which users choose it."""

    about: str
    """What it does, as the help of the command says it."""

    rows: int
    """How many rows it takes, unless the user asks for another number."""

    command: MakeCommand
    """Returns its words."""

    read: Callable[[StepContext], list[Line]] | None = None
    """Reads what it leaves in its folder. If it is None, the step leaves results of lm_eval."""

    after: Sequence[str] = ()
    """The names of earlier steps whose files it reads."""

    excused: str = ""
    """Words in the last line of its log that make a failure a result: the step did its work."""


class CannotRunError(Exception):
    """A step cannot run on this machine. The text says why, and what to do."""


def most_common(reasons: Iterable[str]) -> str:
    """Return the most common reason with its count, as in "cut off (2)", or "" if there is none."""
    counts = Counter(reasons).most_common(1)
    if not counts:
        return ""
    reason, count = counts[0]
    return f"{reason} ({count})"


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank, or "" if there is none.

    Args:
        log: The log. A carriage return, which progress bars print, also ends a line there.
    """
    with log.open("rb") as file:
        # The whole log can be long, and the line is read twice a second.
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LONGEST_LAST_LINE))
        end_of_log = file.read().decode("utf-8", "replace")
    for line in reversed(end_of_log.replace("\r", "\n").split("\n")):
        if line.strip():
            return line.strip()
    return ""
