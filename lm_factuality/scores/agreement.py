"""How far people agree, with each other or with a judge, beyond chance; with 95% intervals over
clusters of items.

The coefficients are those of NLTK, which lm_eval brings along, and scikit-learn. The
``krippendorff`` package is under the GPL and not for Python 3.10, ``irrCAC`` wants one old release
of SciPy, and statsmodels has no alpha."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.stats import t
from tqdm import tqdm

from lm_factuality.scores.statistics import defined, pooled_interval, ratio

Item = TypeVar("Item")
Answers = Sequence[str]  # of one item, one a person
_GROUPS = 50  # of clusters, each of which is left out once


@dataclass(frozen=True)
class Measure:
    """A share or a coefficient over ``count`` items, with its 95% interval; None where it is not
    defined."""

    value: float | None
    low: float | None
    high: float | None
    count: int


def cohen(pairs: Sequence[Answers]) -> float:
    """Cohen's kappa (1960) of pairs of answers; NaN, as of the others, where all answers are the
    same."""
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(*zip(*pairs, strict=True))) if _differ(pairs) else math.nan


def fleiss(items: Sequence[Answers]) -> float:
    """Fleiss' kappa (1971) of items with as many answers each, by whomever: what NLTK calls the pi
    of many."""
    return float(_task(items).pi()) if _differ(items) else math.nan


def krippendorff(items: Sequence[Answers]) -> float:
    """Krippendorff's alpha for nominal answers, of items with two answers or more."""
    return float(_task(items).alpha()) if _differ(items) else math.nan


def coefficient(
    items: Sequence[Item], clusters: Sequence[str], value: Callable[[Sequence[Item]], float]
) -> Measure:
    """``value`` of all ``items``, with the interval of a jackknife that leaves out up to 50 groups
    of clusters in turn (libraries are too slow for a bootstrap); without one where that cannot be
    done or changes nothing."""
    found = value(items)
    if math.isnan(found):
        return Measure(None, None, None, len(items))
    group = np.unique(clusters, return_inverse=True)[1] % _GROUPS
    parts = [
        [item for item, own in zip(items, group, strict=True) if own != each] for each in set(group)
    ]
    left = np.array([value(each) for each in tqdm(parts, "intervals", leave=False, delay=2)])
    left = left[~np.isnan(left)]
    if len(left) < 2 or np.ptp(left) < 1e-12:
        return Measure(found, None, None, len(items))
    half = float(t.ppf(0.975, len(left) - 1) * np.std(left) * math.sqrt(len(left) - 1))
    return Measure(found, max(-1.0, found - half), min(1.0, found + half), len(items))


def share(
    rows: Sequence[Sequence[float]],
    clusters: Sequence[str],
    value: Callable[[Sequence[float]], float],
) -> Measure:
    """A share out of the sums of ``rows``, with a bootstrap's interval over clusters, or Clopper
    and Pearson's if all agree."""
    if not rows or math.isnan(found := value(np.sum(rows, axis=0).tolist())):
        return Measure(None, None, None, len(rows))
    places = np.unique(clusters, return_inverse=True)[1]
    sums = np.stack(
        [np.bincount(places, column) for column in np.array(rows, dtype=float).T], axis=1
    )
    low, high = map(defined, pooled_interval(sums.tolist(), value, resamples=2000))
    if low == high:
        bound = 0.025 ** (1 / len(sums))
        low, high = {0.0: (0.0, 1 - bound), 1.0: (bound, 1.0)}.get(found, (None, None))
    return Measure(found, low, high, len(rows))


def agreeing(answers: Answers) -> float:
    """Return the share of the pairs of people who give the same answer to one item.

    It is NaN for fewer than two answers.
    """
    same = sum(map(answers.count, answers)) - len(answers)
    return ratio(same, len(answers) * (len(answers) - 1))


def _differ(items: Sequence[Answers]) -> bool:
    return len({answer for answers in items for answer in answers}) > 1


def _task(items: Sequence[Answers]) -> Any:
    from nltk.metrics.agreement import AnnotationTask

    return AnnotationTask(
        [
            (place, number, each)
            for number, own in enumerate(items)
            for place, each in enumerate(own)
        ]
    )
