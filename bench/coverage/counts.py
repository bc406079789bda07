"""Recall, precision, F1 and balanced accuracy of a judge that looks for errors in responses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bench.coverage.cells import Cell, Integers, Replication, measure
from lm_factuality.scores.intervals import (
    Interval,
    balanced_accuracy_interval,
    f1_interval,
    has_few_clusters,
    precision_interval,
    recall_interval,
)

FALSE_ALARMS = 0.05
"""The share of right segments that the judge takes for errors."""


class JudgeScore(NamedTuple):
    """A score of a judge's counts: tp, fp, fn and tn."""

    of_counts: Callable[[Sequence[float]], float]
    """Computes the score from the sums of the counts, or from their shares."""

    interval: Callable[[ArrayLike], Interval | None]
    """Computes its interval from the counts of each response."""

    denominators: tuple[tuple[int, ...], ...]
    """The columns of the counts that add up to each denominator of the score."""


def score_recall(counts: Sequence[float]) -> float:
    """Compute tp / (tp + fn)."""
    tp, _, fn, _ = counts
    return tp / (tp + fn)


def score_precision(counts: Sequence[float]) -> float:
    """Compute tp / (tp + fp)."""
    tp, fp, _, _ = counts
    return tp / (tp + fp)


def score_f1(counts: Sequence[float]) -> float:
    """Compute 2 tp / (2 tp + fp + fn)."""
    tp, fp, fn, _ = counts
    return 2 * tp / (2 * tp + fp + fn)


def score_balanced_accuracy(counts: Sequence[float]) -> float:
    """Compute the mean of recall and tn / (tn + fp)."""
    tp, fp, fn, tn = counts
    return (tp / (tp + fn) + tn / (tn + fp)) / 2


RECALL = JudgeScore(score_recall, recall_interval, ((0, 2),))
PRECISION = JudgeScore(score_precision, precision_interval, ((0, 1),))
F1 = JudgeScore(score_f1, f1_interval, ((0, 1, 2),))
BALANCED_ACCURACY = JudgeScore(
    score_balanced_accuracy, balanced_accuracy_interval, ((0, 2), (1, 3))
)


def recall_cells(replications: int) -> list[Cell]:
    """Measure the share of errors that the judge finds."""
    return _cells(RECALL, replications)


def precision_cells(replications: int) -> list[Cell]:
    """Measure the share of errors among the segments that the judge takes for errors."""
    return _cells(PRECISION, replications)


def f1_cells(replications: int) -> list[Cell]:
    """Measure F1."""
    return _cells(F1, replications)


def balanced_accuracy_cells(replications: int) -> list[Cell]:
    """Measure the balanced accuracy."""
    return _cells(BALANCED_ACCURACY, replications)


def _cells(score: JudgeScore, replications: int) -> list[Cell]:
    """Measure a score on 10 to 400 responses."""
    cells = []
    for num_responses, errors, sensitivity in product(
        (10, 30, 100, 400), (0.03, 0.1, 0.3), (0.3, 0.7, 0.9)
    ):
        setting = {
            "responses": f"{num_responses}",
            "errors": f"{errors:.0%}",
            "found": f"{sensitivity:.0%}",
        }
        shares = (
            errors * sensitivity,
            (1 - errors) * FALSE_ALARMS,
            errors * (1 - sensitivity),
            (1 - errors) * (1 - FALSE_ALARMS),
        )
        draw = partial(
            draw_counts, num_responses=num_responses, errors=errors, sensitivity=sensitivity
        )
        replicate = partial(_replicate, draw=draw, score=score)
        cells.append(measure(setting, score.of_counts(shares), replicate, replications))
    return cells


def _replicate(
    generator: np.random.Generator,
    draw: Callable[[np.random.Generator], Integers],
    score: JudgeScore,
) -> Replication:
    """Draw responses, and compute a score with its interval."""
    counts = draw(generator)
    if is_interval_hidden(counts, score):
        return Replication(math.nan, None)
    return Replication(score.of_counts(counts.sum(axis=0).tolist()), score.interval(counts))


def is_interval_hidden(counts: Integers, score: JudgeScore) -> bool:
    """Return whether too few responses have a part in one of the score's denominators."""
    for columns in score.denominators:
        responses_that_count = np.flatnonzero(counts[:, columns].sum(axis=1))
        if has_few_clusters(responses_that_count.tolist()):
            return True
    return False


def draw_counts(
    generator: np.random.Generator, num_responses: int, errors: float, sensitivity: float
) -> Integers:
    """Draw responses with one to five segments, and a judge's verdicts on them.

    Args:
        generator: The source of randomness.
        num_responses: The number of responses.
        errors: The share of segments that are errors.
        sensitivity: The share of errors that the judge finds.

    Returns:
        The counts of each response, with the columns tp, fp, fn and tn.
    """
    num_segments = generator.integers(1, 6, num_responses)
    num_errors = generator.binomial(num_segments, errors)
    num_right = num_segments - num_errors
    tp = generator.binomial(num_errors, sensitivity)
    fp = generator.binomial(num_right, FALSE_ALARMS)
    return np.stack([tp, fp, num_errors - tp, num_right - fp], axis=1)
