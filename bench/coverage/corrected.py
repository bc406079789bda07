"""Shares of wrong rows by a judge, corrected by people's labels of some rows.

A judge calls some of 1,000 rows wrong, with errors. People label some rows, and `corrected_mean`
estimates the share of wrong rows.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.coverage.cells import Cell, Floats, Replication, measure
from lm_factuality.scores.intervals import Interval, mean_interval
from lm_factuality.scores.ppi import corrected_mean

Bools = NDArray[np.bool_]

NUM_ROWS = 1000
"""The rows that the judge has judged."""

SHARES_OF_WRONG = (0.03, 0.3, 0.98)
"""The probabilities that a row is wrong."""

CLUSTER_SIZE = 10
"""The rows of a cluster, if rows come in clusters."""

CORRELATION = 0.2
"""The correlation of two rows of one cluster."""


class Judge(NamedTuple):
    """How often a judge errs."""

    misses: float
    """The share of wrong rows that it takes for right ones."""

    false_alarms: float
    """The share of right rows that it takes for wrong ones."""


JUDGES = (
    Judge(0.05, 0.05),
    Judge(0.1, 0.025),
    Judge(0.2, 0.2),
    Judge(0.4, 0.1),
    Judge(0.4, 0.4),
    Judge(0.8, 0.2),
)
"""Good judges come first. Each second one rather misses wrong rows than raises false alarms."""


class Study(NamedTuple):
    """What a judge and people do."""

    judge: Judge
    """The judge."""

    share_of_wrong: float
    """The probability that a row is wrong."""

    num_labels: int
    """The number of rows that people label."""

    by_verdict: bool
    """Whether half of the labels are drawn from the rows that the judge calls wrong."""

    cluster_size: int = 1
    """The rows of a cluster."""


def random_labels_cells(replications: int) -> list[Cell]:
    """Measure shares that are corrected by labels of rows drawn at random."""
    return _cells(False, replications)


def labels_by_verdict_cells(replications: int) -> list[Cell]:
    """Measure shares that are corrected by labels, half of which are of rows called wrong."""
    return _cells(True, replications)


def _cells(by_verdict: bool, replications: int) -> list[Cell]:
    """Measure shares of independent rows for all judges and 20 to 1,000 labels."""
    cells = []
    for num_labels, judge, share_of_wrong in product(
        (20, 50, 200, NUM_ROWS), JUDGES, SHARES_OF_WRONG
    ):
        setting = {
            "labels": f"{num_labels:,}",
            "judge": f"misses {judge.misses:.0%}, false alarms {100 * judge.false_alarms:g}%",
            "wrong": f"{share_of_wrong:.0%}",
        }
        # Both ways of drawing have seeds of their own.
        seed = {**setting, "drawn": "by verdict" if by_verdict else "at random"}
        study = Study(judge, share_of_wrong, num_labels, by_verdict)
        cell = measure(seed, share_of_wrong, partial(replicate, study=study), replications)
        cells.append(cell._replace(setting=setting))
    return cells


def clustered_labels_cells(replications: int) -> list[Cell]:
    """Measure shares of rows in clusters, corrected by labels of rows."""
    cells = []
    for num_labels, by_verdict, share_of_wrong in product(
        (50, 200), (False, True), SHARES_OF_WRONG
    ):
        setting = {
            "labels": f"{num_labels}",
            "drawn": "by verdict" if by_verdict else "at random",
            "wrong": f"{share_of_wrong:.0%}",
        }
        study = Study(Judge(0.2, 0.2), share_of_wrong, num_labels, by_verdict, CLUSTER_SIZE)
        cells.append(
            measure(setting, share_of_wrong, partial(replicate, study=study), replications)
        )
    return cells


def replicate(generator: np.random.Generator, study: Study) -> Replication:
    """Draw rows, verdicts and labels, and correct the judge's share of wrong rows.

    Args:
        generator: The source of randomness.
        study: What the judge and people do.

    Returns:
        The corrected share. Its baseline is the interval from as many labels of rows drawn at
        random, without the judge.
    """
    is_wrong = _draw_truth(generator, study)
    judged = _judge(generator, study.judge, is_wrong)
    labels = _labels_of(is_wrong, draw_labels(generator, study, judged))
    clusters = None
    if study.cluster_size > 1:
        clusters = (np.arange(NUM_ROWS) // study.cluster_size).tolist()
    strata = judged.tolist() if study.by_verdict else None
    estimate = corrected_mean(judged.tolist(), labels, clusters, strata)
    if estimate is None:
        return Replication(math.nan, None)

    # What people would know without a judge: it also tells which rows to draw by verdict.
    labels_without_judge = labels
    if study.by_verdict:
        random_study = study._replace(by_verdict=False)
        labels_without_judge = _labels_of(is_wrong, draw_labels(generator, random_study, judged))
    baseline = mean_interval(labels_without_judge, clusters)
    width_of_baseline = math.nan if baseline is None else baseline.high - baseline.low
    interval = Interval(estimate.low, estimate.high)
    return Replication(estimate.value, interval, width_of_baseline)


def _draw_truth(generator: np.random.Generator, study: Study) -> Bools:
    """Draw whether each row is wrong. The share of wrong rows of a cluster is beta-distributed."""
    shares: Floats | float = study.share_of_wrong
    if study.cluster_size > 1:
        # Rows of one cluster that share such a share have this correlation.
        concentration = (1 - CORRELATION) / CORRELATION
        alpha = study.share_of_wrong * concentration
        num_clusters = NUM_ROWS // study.cluster_size
        shares_of_clusters = generator.beta(alpha, concentration - alpha, num_clusters)
        shares = np.repeat(shares_of_clusters, study.cluster_size)
    return np.asarray(generator.random(NUM_ROWS) < shares)


def _judge(generator: np.random.Generator, judge: Judge, is_wrong: Bools) -> Bools:
    """Draw whether the judge calls each row wrong."""
    probabilities = np.where(is_wrong, 1 - judge.misses, judge.false_alarms)
    return np.asarray(generator.random(NUM_ROWS) < probabilities)


def draw_labels(generator: np.random.Generator, study: Study, judged: Bools) -> Bools:
    """Draw which rows people label.

    Args:
        generator: The source of randomness.
        study: How many labels are drawn, and how.
        judged: Whether the judge calls each row wrong.
    """
    is_labelled = np.zeros(NUM_ROWS, bool)
    order = generator.permutation(NUM_ROWS)
    if not study.by_verdict:
        is_labelled[order[: study.num_labels]] = True
        return is_labelled
    called_wrong = order[judged[order]]
    called_right = order[~judged[order]]
    # If the judge calls fewer rows wrong (or right), others are labelled in their place.
    num_called_wrong = min(study.num_labels // 2, len(called_wrong))
    num_called_wrong = max(num_called_wrong, study.num_labels - len(called_right))
    is_labelled[called_wrong[:num_called_wrong]] = True
    is_labelled[called_right[: study.num_labels - num_called_wrong]] = True
    return is_labelled


def _labels_of(is_wrong: Bools, is_labelled: Bools) -> list[float | None]:
    """Return the labels of all rows, which is None for a row without a label."""
    return [
        float(wrong) if labelled else None
        for wrong, labelled in zip(is_wrong.tolist(), is_labelled.tolist(), strict=True)
    ]
