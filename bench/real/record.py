"""What a step of the run is, and what it leaves in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """A line of the table: ``rows`` were run; ``score`` is shown with its interval; of the rows (or
    other items) ``unscored`` have no score, most of them for ``reason``."""

    what: str
    rows: int
    score: str
    unscored: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Place:
    """Where a step runs: the checkpoint, the folder of the whole run, that of the step, the
    published files that are ``missing`` with the reason, how many rows it takes, and the folder
    with the commands of an environment with vLLM."""

    model: Path
    out: Path
    name: str
    rows: int
    missing: Mapping[str, str]
    vllm: Path

    @property
    def folder(self) -> Path:
        return self.out / self.name

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def data(self) -> Path:
        return self.out / "data"


@dataclass(frozen=True)
class Step:
    """A step of so many ``rows``: ``command`` gives its words, ``read`` what it leaves in its
    folder (default: the results of lm_eval). ``after`` are steps whose files it reads. A command
    that fails with the words ``excused`` has done its work."""

    name: str
    rows: int
    command: Callable[[Place], Sequence[str]]
    about: str
    read: Callable[[Place], list[Line]] | None = None
    after: Sequence[str] = ()
    excused: str = ""


class Skipped(Exception):
    """A step cannot run here; the text says why, and what to do."""


def most_common(reasons: Iterable[str]) -> str:
    """The main reason with its count; empty where there is none."""
    found = Counter(reasons).most_common(1)
    return f"{found[0][0]} ({found[0][1]})" if found else ""


def last_words(log: Path) -> str:
    """The last line of a log that has one, from its end."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 600))
        words = file.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(words) if line.strip()), "")
