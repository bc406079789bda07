"""How far people agree, with each other or with a judge, beyond chance.

The coefficients are those of NLTK, which lm_eval brings along, and scikit-learn. The
``krippendorff`` package is under the GPL and not for Python 3.10, ``irrCAC`` wants one old release
of SciPy, and statsmodels has no alpha.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.stats import t
from tqdm import tqdm

from lm_factuality.scores.statistics import Value, defined, pooled_interval, ratio

Item = TypeVar("Item")
Answers = Sequence[str]
"""The answers to one item, one of each person."""

_MOST_GROUPS = 50  # of clusters, each of which is left out once


@dataclass(frozen=True)
class Measure:
    """A share or a coefficient with its 95% interval. What is not defined is None."""

    value: float | None
    low: float | None
    high: float | None
    count: int
    """The number of items."""


def cohen(pairs: Sequence[Answers]) -> float:
    """Return Cohen's kappa (1960) of pairs of answers.

    It is NaN where all answers are the same, as are the other coefficients.
    """
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(*zip(*pairs, strict=True))) if _differ(pairs) else math.nan


def fleiss(items: Sequence[Answers]) -> float:
    """Return Fleiss' kappa (1971), which NLTK calls the pi of many.

    Each item has as many answers, by whomever.
    """
    return float(_task(items).pi()) if _differ(items) else math.nan


def krippendorff(items: Sequence[Answers]) -> float:
    """Return Krippendorff's alpha for nominal answers, of items with two answers or more."""
    return float(_task(items).alpha()) if _differ(items) else math.nan


def agreeing(answers: Answers) -> float:
    """Return the share of the pairs of people who give the same answer to one item.

    It is NaN for fewer than two answers.
    """
    same = sum(map(answers.count, answers)) - len(answers)
    return ratio(same, len(answers) * (len(answers) - 1))


def coefficient(
    items: Sequence[Item], clusters: Sequence[str], value: Callable[[Sequence[Item]], float]
) -> Measure:
    """Measure a coefficient of all items.

    The interval is that of a jackknife, since libraries are too slow for a bootstrap. It leaves out
    up to 50 groups of clusters in turn. There is none where that cannot be done or changes nothing.

    Args:
        items: The items.
        clusters: The cluster of each.
        value: Makes the coefficient out of items.
    """
    measured = value(items)
    if math.isnan(measured):
        return Measure(None, None, None, len(items))
    groups = np.unique(clusters, return_inverse=True)[1] % _MOST_GROUPS
    values = []
    for left_out in tqdm(set(groups), "intervals", leave=False, delay=2):
        rest = [item for item, group in zip(items, groups, strict=True) if group != left_out]
        values.append(value(rest))
    jackknife = np.array(values)
    jackknife = jackknife[~np.isnan(jackknife)]
    if len(jackknife) < 2 or np.ptp(jackknife) < 1e-12:
        return Measure(measured, None, None, len(items))
    quantile = t.ppf(0.975, len(jackknife) - 1)
    half = float(quantile * np.std(jackknife) * math.sqrt(len(jackknife) - 1))
    return Measure(measured, max(-1.0, measured - half), min(1.0, measured + half), len(items))


def share(rows: Sequence[Sequence[float]], clusters: Sequence[str], value: Value) -> Measure:
    """Measure a share out of the sums of rows of counts.

    The interval is a bootstrap's over clusters, or Clopper and Pearson's if all agree.

    Args:
        rows: The counts.
        clusters: The cluster of each row.
        value: Makes the share out of sums of counts.
    """
    measured = value(np.sum(rows, axis=0).tolist()) if rows else math.nan
    if math.isnan(measured):
        return Measure(None, None, None, len(rows))
    numbers = np.unique(clusters, return_inverse=True)[1]
    columns = [np.bincount(numbers, column) for column in np.array(rows, dtype=float).T]
    sums = np.stack(columns, axis=1)
    low, high = map(defined, pooled_interval(sums.tolist(), value, resamples=2000))
    if low == high:
        bound = 0.025 ** (1 / len(sums))
        exact = {0.0: (0.0, 1 - bound), 1.0: (bound, 1.0)}
        low, high = exact.get(measured, (None, None))
    return Measure(measured, low, high, len(rows))


def _differ(items: Sequence[Answers]) -> bool:
    return len({answer for answers in items for answer in answers}) > 1


def _task(items: Sequence[Answers]) -> Any:
    """Return NLTK's form of answers: person, item and answer."""
    from nltk.metrics.agreement import AnnotationTask

    triples = []
    for number, answers in enumerate(items):
        for person, answer in enumerate(answers):
            triples.append((person, number, answer))
    return AnnotationTask(triples)
