"""A row of samples as the report shows it and as two models are compared by it."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_factuality.harness.outputs import number_of
from lm_factuality.scores.statistics import Floats

Counts = tuple[float, ...]


@dataclass(frozen=True)
class SampleRow:
    """What a model made of a row."""

    key: str
    """The same for every model (see `row_key`)."""

    cluster: str
    """What rows are drawn by."""

    title: str

    doc: Mapping[str, Any]
    """The texts that all models share, with the row's ``id``."""

    outcome: str
    """``right``, ``wrong``, ``unscored`` or ``none``."""

    margin: float | None
    """By how much it is right. Higher is better."""

    facets: Sequence[str]
    """Error types, or the domain."""

    detail: Mapping[str, Any]
    """What this model made of the texts."""

    score_counts: Mapping[str, Counts] = field(default_factory=dict)
    """The row's part in each score that is compared: (value times weight, weight), or counts of
    (true alarms, false alarms, missed, passed)."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The parts of a model in one score."""

    rows: Mapping[str, tuple[str, Counts]]
    """By the row's key its cluster and its counts."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.rows)

    @cached_property
    def counts(self) -> Floats:
        return np.array([counts for _, counts in self.rows.values()], dtype=float)

    @cached_property
    def clusters(self) -> NDArray[np.intp]:
        return np.unique([cluster for cluster, _ in self.rows.values()], return_inverse=True)[1]


def collect_scored_rows(rows: Iterable[SampleRow]) -> dict[str, ScoredRows]:
    """Return what the rows of a run contribute to each score."""
    parts: dict[str, dict[str, tuple[str, Counts]]] = {}
    for row in rows:
        for score, counts in row.score_counts.items():
            parts.setdefault(score, {})[row.key] = (row.cluster, counts)
    return {score: ScoredRows(rows_of_score) for score, rows_of_score in parts.items()}


def row_key(sample: Mapping[str, Any], *texts: str) -> str:
    """Return a key for the row of a sample, from its number and the texts that make it up."""
    content = json.dumps([sample["doc_id"], *texts], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def mean_counts(value: Any, weight: float = 1.0) -> Counts:
    return float(value) * weight, weight


def mean_counts_of_scores(sample: Mapping[str, Any], scores: Iterable[Any]) -> dict[str, Counts]:
    """Return what a sample adds to each of the declared scores that tables show and it has."""
    names = [score.name for score in scores if score.label]
    return {name: mean_counts(sample[name]) for name in names if sample.get(name) is not None}


def snippet(text: str, most: int = 90) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def with_finite_numbers(row: SampleRow) -> SampleRow:
    """Return the row with None in place of numbers that are not finite.

    No page and no score can hold those.

    Raises:
        TypeError: The key, the cluster, the title or a facet is no text, or a score has no counts.
    """
    for text in (row.key, row.cluster, row.title, *row.facets):
        if not isinstance(text, str):
            raise TypeError(f"found {repr(text)[:60]}, expected a text")
    if not all(row.score_counts.values()):
        raise TypeError("a score without counts")
    parts = {
        name: counts
        for name, counts in row.score_counts.items()
        if None not in map(number_of, counts)
    }
    sound = {name: finite_json(getattr(row, name)) for name in ("doc", "detail", "margin")}
    return replace(row, **sound, score_counts=parts)


def finite_json(value: Any) -> Any:
    """Return what JSON makes of a value, with None in place of numbers that are not finite."""
    return json.loads(json.dumps(value), parse_constant=lambda constant: None)
