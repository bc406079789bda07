"""How far people agree with each other or with a judge, beyond chance.

`lm_factuality.people.agreement` calls it. The coefficients are those of NLTK, which lm_eval brings
along, and of scikit-learn. (The ``krippendorff`` package is under the GPL and not for Python 3.10,
``irrCAC`` needs one old release of SciPy, and statsmodels lacks Krippendorff's alpha.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, compress
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from tqdm.auto import tqdm

from lm_factuality.scores.intervals import ClusteredMean, Interval, interval_of_mean
from lm_factuality.scores.statistics import none_if_nan, ratio

if TYPE_CHECKING:
    from nltk.metrics.agreement import AnnotationTask

Item = TypeVar("Item")
Answers = Sequence[str]
"""The answers of several people to one item, such as ("right", "wrong", "right")."""

_MAX_JACKKNIFE_GROUPS = 50  # groups of clusters, each of which is left out once


@dataclass(frozen=True)
class Measure:
    """A share or a coefficient of agreement, with its 95% interval."""

    value: float | None
    """The share or coefficient, None if it is not defined."""

    low: float | None
    """The lower end of the interval, None without an interval."""

    high: float | None
    """The upper end of the interval, None without an interval."""

    count: int
    """The number of items."""


def cohen_kappa(pairs: Sequence[Answers]) -> float:
    """Compute Cohen's kappa (1960), the agreement of two people beyond chance.

    It is (p_o - p_e) / (1 - p_e), where p_o is the observed share of agreements and p_e the share
    expected if both answered at random with their own frequencies.

    Args:
        pairs: The answers of the two people to each item.

    Returns:
        Kappa, or NaN if all answers are the same or nobody answers the same item as another.
    """
    # The import takes a second, which other commands do not need to wait for.
    from sklearn.metrics import cohen_kappa_score

    # If all answers are the same, p_e is 1, and kappa is 0 / 0.
    if not _is_comparable(pairs):
        return math.nan
    first_answers, second_answers = zip(*pairs, strict=True)
    return float(cohen_kappa_score(first_answers, second_answers))


def fleiss_kappa(items: Sequence[Answers]) -> float:
    """Compute Fleiss' kappa (1971), the agreement of several people beyond chance.

    It is (p_o - p_e) / (1 - p_e), where p_o is the observed share of agreeing pairs of answers and
    p_e the share expected from the frequencies of all answers. NLTK calls it the pi of several
    people.

    Args:
        items: The answers to each item. All items have the same number of answers.

    Returns:
        Kappa, or NaN if all answers are the same or nobody answers the same item as another.
    """
    if not _is_comparable(items):
        return math.nan
    return float(_annotation_task(items).pi())


def krippendorff_alpha(items: Sequence[Answers]) -> float:
    """Compute Krippendorff's alpha, the agreement of several people beyond chance.

    It is 1 - D_o / D_e, where D_o is the observed share of pairs of answers to the same item that
    differ, and D_e the share expected by chance. (This is the alpha for answers without an order.)

    Args:
        items: The answers to each item, at least two. Their number may differ.

    Returns:
        Alpha, or NaN if all answers are the same or nobody answers the same item as another.
    """
    if not _is_comparable(items):
        return math.nan
    return float(_annotation_task(items).alpha())


def _is_comparable(items: Sequence[Answers]) -> bool:
    """Return whether a coefficient is defined: some item has two answers, and not all are equal."""
    all_answers = list(chain.from_iterable(items))
    has_pair = any(len(answers) > 1 for answers in items)
    return has_pair and len(set(all_answers)) > 1


def _annotation_task(items: Sequence[Answers]) -> AnnotationTask:
    """Convert answers to NLTK's form, triples of a person, an item and an answer."""
    # NLTK takes long to import, and most commands do not need it.
    from nltk.metrics.agreement import AnnotationTask

    triples = []
    for item_number, answers in enumerate(items):
        for person_number, answer in enumerate(answers):
            triples.append((person_number, item_number, answer))
    return AnnotationTask(triples)


def pairwise_agreement(answers: Answers) -> float:
    """Compute the share of pairs of people who give the same answer to one item.

    Args:
        answers: The answers to the item, one of each person.

    Returns:
        The share from 0 to 1, or NaN for fewer than two answers.

    Example:
        ``("right", "right", "wrong")`` has three pairs, one of which agrees: 1/3.
    """
    pairs = list(combinations(answers, 2))
    return ratio(sum(first == second for first, second in pairs), len(pairs))


def measure_of(value: float, interval: Interval | None, count: int) -> Measure:
    """Return a measure from its value, which may be NaN, and its interval.

    Args:
        value: The share or coefficient.
        interval: Its 95% interval, None if there is none.
        count: The number of items.
    """
    low, high = interval or (None, None)
    return Measure(none_if_nan(value), low, high, count)


def measure_coefficient(
    items: Sequence[Item], clusters: Sequence[str], compute: Callable[[Sequence[Item]], float]
) -> Measure:
    """Measure a coefficient of all items, with a 95% interval by the delete-a-group jackknife.

    The coefficient is computed again without each of g groups of clusters. If these values have the
    standard deviation s, the coefficient has the variance s² * (g - 1) with g - 1 degrees of
    freedom. The interval is Wilson's between -1 and 1 (`interval_of_mean`).

    Args:
        items: The items, such as the answers to each of them.
        clusters: The cluster of each item. Items of one cluster are not independent.
        compute: Computes the coefficient of some of the items.

    Returns:
        The coefficient. It has no interval if fewer than two groups can be left out.
    """
    coefficient = compute(items)
    if math.isnan(coefficient):
        return measure_of(coefficient, None, len(items))

    values_without_group = _jackknife_values(items, clusters, compute)
    if len(values_without_group) < 2:
        return measure_of(coefficient, None, len(items))
    degrees_of_freedom = len(values_without_group) - 1
    estimate = ClusteredMean(
        value=coefficient,
        variance=float(np.var(values_without_group)) * degrees_of_freedom,
        degrees_of_freedom=degrees_of_freedom,
        num_clusters=len(set(clusters)),
    )
    # No coefficient of agreement lies outside of [-1, 1].
    return measure_of(coefficient, interval_of_mean(estimate, -1.0, 1.0), len(items))


def _jackknife_values(
    items: Sequence[Item], clusters: Sequence[str], compute: Callable[[Sequence[Item]], float]
) -> list[float]:
    """Compute a coefficient once without each group of clusters.

    Args:
        items: The items, such as the answers to each of them.
        clusters: The cluster of each item.
        compute: Computes the coefficient of some of the items.

    Returns:
        The coefficients that are defined. One is not if the remaining answers are all the same.
    """
    # Up to 50 groups are enough, and coefficients are too slow for a bootstrap. Neighbouring
    # clusters go to different groups, so the groups are about equally large.
    _, cluster_numbers = np.unique(clusters, return_inverse=True)
    groups = cluster_numbers % _MAX_JACKKNIFE_GROUPS
    values = []
    for left_out in tqdm(set(groups), "intervals", leave=False, delay=2):
        value = compute(list(compress(items, groups != left_out)))
        if not math.isnan(value):
            values.append(value)
    return values
