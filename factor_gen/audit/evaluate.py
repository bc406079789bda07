"""From what baselines say of choices to accuracies, intervals and tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm import tqdm

from factor_gen.audit.records import BLIND_LM, COUNTED, Baseline, Scores
from factor_gen.surface import shares
from lm_factuality.factor.rows import Row

_RESAMPLES = 10_000
_DRAWS = 200_000  # of the randomisation test
_AT_ONCE = 250  # resamples drawn together: with 5,000 documents 10 MB
_TESTED = (*COUNTED, BLIND_LM)  # the families whose p is corrected, each for its own number

Array = np.ndarray[Any, np.dtype[np.float64]]


def evaluate(found: Sequence[Scores], rows: Sequence[Row], seed: int = 0) -> list[Baseline]:
    """How good each baseline is on ``rows``, in order."""
    outcomes = [[_right(values, row) for values, row in zip(each.values, rows, strict=True)] for each in found]
    intervals = _intervals(outcomes, [row.doc_id for row in rows], seed)
    baselines = []
    for each, outcome, (low, high) in zip(found, outcomes, intervals, strict=True):
        scored = [(x, 1 / len(row.choices)) for x, row in zip(outcome, rows, strict=True) if x is not None]
        count = len(scored)
        accuracy = sum(x for x, _ in scored) / count if count else math.nan
        chance = sum(each_chance for _, each_chance in scored) / count if count else math.nan
        p = _p_value(each, outcome, rows, seed)
        baselines.append(Baseline(each.name, each.family, count, accuracy, low, high, chance, p))
    corrected: dict[int, float] = {}
    for family in _TESTED:
        members = [index for index, each in enumerate(baselines) if each.family == family]
        corrected |= dict(zip(members, holm([baselines[index].p for index in members]), strict=True))
    return [replace(each, corrected=corrected.get(index)) for index, each in enumerate(baselines)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the k-th smallest of n times n - k + 1, never below one before it, at most 1."""
    corrected = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = highest
    return corrected


def _right(values: Sequence[float] | None, row: Row) -> float | None:
    return None if values is None else shares(values)[row.gold]


def _intervals(
    outcomes: Sequence[Sequence[float | None]], documents: Sequence[str], seed: int
) -> list[tuple[float, float]]:
    """Percentile intervals of all baselines from the same resamples of whole documents: what
    ``lm_factuality.statistics.bootstrap_interval`` does for one, in memory that does not grow with the number of resamples."""
    numbers = {document: number for number, document in enumerate(dict.fromkeys(documents))}
    if not numbers:
        return [(math.nan, math.nan)] * len(outcomes)
    sums = np.zeros((len(numbers), len(outcomes)))
    weights = np.zeros_like(sums)
    for column, outcome in enumerate(outcomes):
        for document, x in zip(documents, outcome, strict=True):
            if x is not None:
                sums[numbers[document], column] += x
                weights[numbers[document], column] += 1
    generator = np.random.default_rng(seed)
    even = np.full(len(numbers), 1 / len(numbers))
    draws = np.empty((_RESAMPLES, len(outcomes)))
    steps = range(0, _RESAMPLES, _AT_ONCE)
    with np.errstate(invalid="ignore", divide="ignore"):
        for start in tqdm(steps, desc="bootstrap", delay=2, leave=False):
            times = generator.multinomial(len(numbers), even, size=_AT_ONCE).astype(float)
            draws[start : start + _AT_ONCE] = (times @ sums) / (times @ weights)
    found = []
    for values in draws.T:
        defined = values[np.isfinite(values)]
        quantiles = np.quantile(defined, [0.025, 0.975]) if len(defined) else (math.nan, math.nan)
        found.append((float(quantiles[0]), float(quantiles[1])))
    return found


def _p_value(scores: Scores, outcome: Sequence[float | None], rows: Sequence[Row], seed: int) -> float:
    """How likely so many right answers are if in every row lot decides which choice is the true one.

    A row where m of k choices tie for the greatest value then counts 1/m with probability m/k, so that the rows of one m and k
    add up to a binomial number. Rows of one document may be right or wrong together; the excess over chance is divided by the
    square root of the design effect that the data show.
    """
    patterns: Counter[tuple[int, int]] = Counter()
    excess = squares = 0.0
    by_document: dict[str, float] = {}
    for values, x, row in zip(scores.values, outcome, rows, strict=True):
        if values is None or x is None:
            continue
        count, tied = len(values), sum(value == max(values) for value in values)
        over = x - 1 / count
        if tied < count:
            patterns[tied, count] += 1
        excess += over
        squares += over**2
        by_document[row.doc_id] = by_document.get(row.doc_id, 0.0) + over
    if not patterns or squares == 0:
        return 1.0
    effect = max(1.0, sum(each**2 for each in by_document.values()) / squares)
    drawn = _excess_by_lot(patterns, seed)
    return float((1 + np.count_nonzero(drawn >= excess / math.sqrt(effect) - 1e-9)) / (1 + _DRAWS))


def _excess_by_lot(patterns: Mapping[tuple[int, int], int], seed: int) -> Array:
    generator = np.random.default_rng(seed)
    total: Array = np.zeros(_DRAWS)
    for (tied, count), number in sorted(patterns.items()):
        total += generator.binomial(number, tied / count, size=_DRAWS) / tied - number / count
    return total
