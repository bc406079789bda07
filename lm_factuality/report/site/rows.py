"""One row of a task as the sample browser and the paired comparison see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Counts = tuple[float, ...]


@dataclass(frozen=True)
class SampleRow:
    """``key`` is the same for the same row of every model; ``cluster`` is what rows are drawn by. ``doc`` holds the texts that
    all models share, ``detail`` what this model made of them. ``outcome`` is ``right``, ``wrong``, ``unscored`` or ``none``,
    ``margin`` by how much (higher is better), ``facets`` error types or the domain. ``parts`` are the row's part in each score
    that is compared; a row without a score has none."""

    key: str
    cluster: str
    title: str
    doc: Mapping[str, Any]
    outcome: str
    margin: float | None
    facets: Sequence[str]
    detail: Mapping[str, Any]
    parts: Mapping[str, Counts] = field(default_factory=dict)


def snippet(text: str, most: int = 90) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
