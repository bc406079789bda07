"""The rows of a run: how reports show each sample, and what it adds to each score.

Benchmarks make a `SampleRow` of each sample. Reports show the rows, and two models are compared by
their `ScoredRows`.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_factuality.harness.outputs import number_of
from lm_factuality.scores.intervals import Floats

if TYPE_CHECKING:
    from lm_factuality.benchmarks.declaration import Score

JsonValue = TypeVar("JsonValue")

Counts = tuple[float, ...]
"""What a row adds to the sums from which a score is computed.

For a mean: (value times weight, weight). For F1 and the like: (true alarms, false alarms, missed,
passed).
"""

ClusteredCounts: TypeAlias = tuple[str, Counts]
"""The cluster of a row, and its counts in a score."""


@dataclass(frozen=True)
class SampleRow:
    """A row of the data with what one model made of it."""

    key: str
    """The key of the row, which is the same for every model (see `row_key`)."""

    cluster: str
    """The cluster of the row for standard errors, such as its document."""

    title: str
    """The text of the row in lists."""

    doc: Mapping[str, Any]
    """The texts that all models share, with the row's ``id``."""

    outcome: str
    """``right``, ``wrong``, ``unscored`` or ``none``."""

    margin: float | None
    """How far the model is right. Higher is better, and None means that it is not defined."""

    facets: Sequence[str]
    """The groups that readers can filter by, such as error types or a domain."""

    detail: Mapping[str, Any]
    """The texts and numbers of this model, such as its response."""

    score_counts: Mapping[str, Counts] = field(default_factory=dict)
    """The counts of the row in each score that models are compared by."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of one model that count for one score."""

    rows: Mapping[str, ClusteredCounts]
    """The cluster and the counts of each row, by the row's key."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of the rows, in order."""
        return tuple(self.rows)

    @cached_property
    def counts(self) -> Floats:
        """The counts as an array, with one line per row."""
        return np.array([counts for _, counts in self.rows.values()], dtype=float)

    @cached_property
    def clusters(self) -> NDArray[np.intp]:
        """The number of each row's cluster, from 0 on."""
        names = [cluster for cluster, _ in self.rows.values()]
        _, cluster_numbers = np.unique(names, return_inverse=True)
        return cluster_numbers


def collect_scored_rows(rows: Iterable[SampleRow]) -> dict[str, ScoredRows]:
    """Group the counts of a run's rows by score.

    Args:
        rows: All rows of one model on one task.

    Returns:
        The rows that have counts for a score, by the name of the score.
    """
    rows_by_score: dict[str, dict[str, ClusteredCounts]] = defaultdict(dict)
    for row in rows:
        for score_name, counts in row.score_counts.items():
            # If a samples file has a row twice, the last one counts.
            rows_by_score[score_name][row.key] = (row.cluster, counts)
    return {name: ScoredRows(scored_rows) for name, scored_rows in rows_by_score.items()}


def row_key(sample: Mapping[str, Any], *texts: str) -> str:
    """Return a key that identifies a row of the data across models, in 16 hexadecimal digits.

    Args:
        sample: A line of lm_eval's samples file.
        *texts: The texts that make up the row, such as its prefix and completion.
    """
    # Rows with the same texts differ in their number, the doc_id.
    content = json.dumps([sample["doc_id"], *texts], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def mean_counts(value: float, weight: float = 1.0) -> Counts:
    """Return the counts of a row in a weighted mean: the value times the weight, and the weight."""
    return float(value) * weight, weight


def mean_counts_by_score(sample: Mapping[str, Any], scores: Iterable[Score]) -> dict[str, Counts]:
    """Return the counts of a sample in each score that is a mean over samples: (value, 1).

    Args:
        sample: A line of lm_eval's samples file, with its metrics by name.
        scores: The declared scores. Those without a label, which no table shows, are left out.

    Returns:
        The counts by the score's name. A score is left out if the sample does not have it, or if it
        is None because the row is unscored.
    """
    counts_by_score = {}
    for score in scores:
        # lm_eval writes no metric for a row that has none, or writes None.
        if score.label and sample.get(score.name) is not None:
            counts_by_score[score.name] = mean_counts(sample[score.name])
    return counts_by_score


def snippet(text: str) -> str:
    """Return the first 90 characters of a text on one line, with an ellipsis if it goes on."""
    # Splitting removes line breaks and repeated spaces.
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:89].rstrip()}…"


def with_finite_numbers(row: SampleRow) -> SampleRow:
    """Return a row that pages can hold, after checking its types: NaN and infinity become None.

    JSON has no such numbers. Scores with a number that is not finite are left out of the row.

    Raises:
        TypeError: The key, the cluster, the title or a facet is not a string, or a score has no
            counts.
    """
    # The row may come from the benchmark of another package, which may return anything.
    for text in (row.key, row.cluster, row.title, *row.facets):
        if not isinstance(text, str):
            raise TypeError(f"found {repr(text)[:60]}, expected a text")

    finite_counts = {}
    for score_name, counts in row.score_counts.items():
        # A score is computed from the sums of its counts, so an empty tuple is an error.
        if not counts:
            raise TypeError(f"found no counts for the score {score_name!r}, expected at least one")
        # number_of returns None for NaN and infinity.
        if all(number_of(count) is not None for count in counts):
            finite_counts[score_name] = counts
    return replace(
        row,
        doc=finite_json(row.doc),
        detail=finite_json(row.detail),
        margin=finite_json(row.margin),
        score_counts=finite_counts,
    )


def finite_json(value: JsonValue) -> JsonValue:
    """Return the JSON form of a value, with None in place of NaN and infinity.

    Example:
        ``{"p": (0.5, nan)}`` gives ``{"p": [0.5, None]}``.
    """
    finite: JsonValue = json.loads(json.dumps(value), parse_constant=lambda constant: None)
    return finite
