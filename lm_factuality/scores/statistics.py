"""Means, pooled scores and their uncertainty when rows come in clusters.

Rows of one document share what a model knows about it, so whole clusters are the units of every
standard error and interval. Benchmarks declare their scores with the aggregations of this module.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Value = Callable[[Sequence[float]], float]
"""Makes a score out of the column sums of its rows' counts."""

# Quantiles of the standard normal distribution: half the width of a 95% interval in standard
# errors, and what 80% lie below.
Z95 = 1.959963984540054
Z80 = 0.8416212335729143

_ROUNDING = 1e-9  # a standard error below this share of the value is none
_MOST = 1e100  # no score comes near, but a file may hold any number
_MOST_EXPONENT = 300.0
_NUMBERS_IN_MEMORY = 1 << 20  # while rows are drawn again


class Outcome(float):
    """The value of a row, with the cluster it belongs to.

    Its weight says how many decisions the value is the mean of.
    """

    cluster: str
    weight: int

    def __new__(cls, value: float, cluster: str, weight: int = 1) -> Outcome:
        outcome = super().__new__(cls, value)
        outcome.cluster = cluster
        outcome.weight = weight
        return outcome

    def __reduce__(self) -> tuple[type[Outcome], tuple[Any, ...]]:
        return Outcome, (float(self), self.cluster, self.weight)


def mean(outcomes: Sequence[Outcome | None]) -> float:
    """Return the weighted mean of the scored rows, or NaN if there are none."""
    value, weight = _sums_of(outcomes)
    return ratio(value, weight)


def clustered_stderr(outcomes: Sequence[Outcome | None]) -> float:
    """Return the clustered standard error of `mean`.

    It is sqrt(G / (G - 1) * S) / W for G clusters of total weight W, where S is the sum of the
    squares of the clusters' sums of weighted residuals. With one row per cluster it is that of a
    plain mean. It is NaN for fewer than two clusters, or no weight.
    """
    centre = mean(outcomes)
    residuals: dict[str, float] = defaultdict(float)
    for outcome in outcomes:
        if outcome is not None:
            residuals[outcome.cluster] += outcome.weight * (outcome - centre)
    groups = len(residuals)
    if groups < 2:
        return math.nan
    squares = sum(residual**2 for residual in residuals.values())
    return ratio(math.sqrt(groups / (groups - 1) * squares), _sums_of(outcomes)[1])


def bootstrap_interval(
    outcomes: Sequence[Outcome | None], resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95% percentile interval of `mean` when whole clusters are drawn again.

    Both ends are NaN if nothing was scored.
    """
    clusters: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome is not None:
            clusters[outcome.cluster].append(outcome)
    rows = [_sums_of(members) for members in clusters.values()]
    return _percentile_interval(_draws(rows, lambda sums: ratio(*sums), resamples, seed))


def pooled_stderr(rows: Sequence[Sequence[float]], value: Value) -> float:
    """Return the bootstrap standard error of a score of pooled counts.

    Args:
        rows: The counts of one cluster each.
        value: Makes the score out of their column sums. Draws for which it is NaN are left out.

    Returns:
        The standard error, or NaN for fewer than two rows.
    """
    draws = _draws(rows, value, resamples=1000, seed=0)
    return float(np.std(draws, ddof=1)) if len(rows) > 1 and len(draws) > 1 else math.nan


def pooled_interval(
    rows: Sequence[Sequence[float]], value: Value, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95% percentile interval of a score of pooled counts, as `pooled_stderr` draws.

    Both ends are NaN for fewer than two rows.
    """
    if len(rows) < 2:
        return math.nan, math.nan
    return _percentile_interval(_draws(rows, value, resamples, seed))


def score_interval(
    value: float, stderr: float, low: float = -math.inf, high: float = math.inf, n: int = 0
) -> tuple[float, float] | None:
    """Return the 95% interval by which every table, page and file shows a score.

    Between two bounds it is Wilson's, with as many trials as would give the standard error, so
    that clusters count (Dean and Pagano, 2015). scipy has Wilson's interval for whole numbers of
    trials alone. With a lower bound alone the interval is normal in the logarithm, without bounds
    it is normal.

    Args:
        low: The lowest value that the score can have.
        high: The highest.
        n: The number of rows, which are the trials if all are at one end and the error is 0.

    Returns:
        The ends, or None where rows that do not differ say nothing about the error.
    """
    if not (0 <= stderr <= _MOST and abs(value) <= _MOST):  # so that NaN has no interval
        return None
    is_certain = stderr <= _ROUNDING * max(1.0, abs(value))
    if math.isfinite(low) and math.isfinite(high):
        return _wilson_interval(value, stderr, low, high, n, is_certain)
    if is_certain:
        return None
    if math.isinf(low) or value <= 0:
        return value - Z95 * stderr, value + Z95 * stderr
    factor = math.exp(min(Z95 * stderr / value, _MOST_EXPONENT))
    return max(low, value / factor), value * factor


def _wilson_interval(
    value: float, stderr: float, low: float, high: float, n: int, is_certain: bool
) -> tuple[float, float] | None:
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    variance = share * (1 - share)
    if variance <= _ROUNDING:
        trials = min(n, _MOST)
    elif is_certain:
        return None
    else:
        trials = variance * ((high - low) / stderr) ** 2
    if trials <= 0:
        return None
    shrunk = 1 + Z95**2 / trials
    middle = (share + Z95**2 / (2 * trials)) / shrunk
    half = Z95 * math.sqrt(variance / trials + (Z95 / (2 * trials)) ** 2) / shrunk
    lower = max(0.0, middle - half)
    upper = min(1.0, middle + half)
    return low + (high - low) * lower, low + (high - low) * upper


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``, or NaN if ``whole`` is 0."""
    return part / whole if whole else math.nan


def average(values: Iterable[float | None]) -> float | None:
    """Return the plain mean of the values that are not None, or None without any."""
    defined_values = [value for value in values if value is not None]
    return sum(defined_values) / len(defined_values) if defined_values else None


def defined(value: float) -> float | None:
    """Return a value for JSON, which has no NaN: None in its place."""
    return None if math.isnan(value) else value


def interval_of(ends: tuple[float, float]) -> list[float] | None:
    """Return an interval for JSON: None if it is not defined."""
    return None if math.isnan(ends[0]) else list(ends)


class NotDefined(str):
    """What results hold for a score that is not defined, lm_eval's ``N/A``.

    lm_eval takes means over tasks. A mean with one that is not defined is not defined either.
    """

    def _absorb(self, other: Any) -> NotDefined:
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = _absorb


NOT_DEFINED = NotDefined("N/A")


def or_not_defined(value: float) -> float | NotDefined:
    """Return a value as results hold it."""
    return NOT_DEFINED if math.isnan(value) else value


@dataclass(frozen=True)
class Aggregation:
    """How the values of all rows become one number and its standard error.

    lm_eval calls it, and gets `NOT_DEFINED` in the place of NaN.
    """

    value: Callable[[Sequence[Any]], float]
    """Makes the number, or NaN if it is not defined."""

    stderr: Callable[[Sequence[Any]], float] | None = None
    """Makes the standard error, where that means something."""

    interval: Callable[[Sequence[Any]], tuple[float, float] | None] | None = None
    """Makes the 95% interval where it is not that of the standard error (`score_interval`)."""

    rows: Callable[[Sequence[Any]], int] = len
    """Counts the values that have a part in the number."""

    def __call__(self, items: Sequence[Any]) -> float | NotDefined:
        return or_not_defined(self.value(items))


MEAN = Aggregation(mean, clustered_stderr)  # of outcomes
TOTAL = Aggregation(lambda rows: float(sum(value for value in rows if value is not None)))


def pooled(value: Value) -> Aggregation:
    """Return the aggregation of rows of counts to a score of their column sums.

    Rows that are None or hold only zeros are left out. The standard error is a bootstrap's.
    """

    def value_of(rows: Sequence[Sequence[float] | None]) -> float:
        totals = [sum(column) for column in zip(*_counted(rows), strict=True)]
        return value(totals) if totals else math.nan

    def stderr_of(rows: Sequence[Sequence[float] | None]) -> float:
        return pooled_stderr(_counted(rows), value)

    def ends_of(rows: Sequence[Sequence[float] | None]) -> tuple[float, float] | None:
        ends = pooled_interval(_counted(rows), value)
        return None if math.isnan(ends[0]) else ends

    return Aggregation(value_of, stderr_of, ends_of)


def how_many(reasons: Sequence[Any]) -> float:
    """Return how many rows have a value, such as a reason why there is no score."""
    return float(sum(reason is not None for reason in reasons))


def _counted(rows: Sequence[Sequence[float] | None]) -> list[Sequence[float]]:
    return [row for row in rows if row is not None and any(row)]


def _sums_of(outcomes: Sequence[Outcome | None]) -> tuple[float, float]:
    """Return the weighted sum of the scored rows, and their weight."""
    scored = [outcome for outcome in outcomes if outcome is not None]
    return (
        sum(outcome.weight * outcome for outcome in scored),
        sum(outcome.weight for outcome in scored),
    )


def _percentile_interval(draws: Floats) -> tuple[float, float]:
    if not len(draws):
        return math.nan, math.nan
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def _draws(rows: Sequence[Sequence[float]], value: Value, resamples: int, seed: int) -> Floats:
    """Return the score of each draw of all rows with replacement, without those that are NaN.

    Rows are drawn in blocks, which gives the same draws as all at once, so that memory does not
    grow with resamples times rows.
    """
    if not rows:
        return np.array([])
    table = np.array(rows, dtype=float)
    generator = np.random.default_rng(seed)
    chances = np.full(len(rows), 1 / len(rows))
    block = max(1, _NUMBERS_IN_MEMORY // len(rows))
    scores: list[float] = []
    for start in range(0, resamples, block):
        times = generator.multinomial(len(rows), chances, size=min(block, resamples - start))
        scores += [value(sums) for sums in (times @ table).tolist()]
    return np.array([score for score in scores if not math.isnan(score)])
