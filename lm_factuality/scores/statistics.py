"""How sure a score is when rows come in clusters: rows of one document share what the model knows
of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Value = Callable[[Sequence[float]], float]  # a score out of sums

# half the width of a 95% interval, in standard errors of a normal distribution
Z95 = 1.959963984540054
Z80 = 0.8416212335729143  # the quantile of a normal distribution that 80% lie below
_ROUNDING = 1e-9  # a standard error that is none
_MOST, _MOST_EXPONENT = 1e100, 300.0  # no score is near that, but a file may hold it
_DRAWN = 1 << 20  # numbers in memory while whole tables are drawn again


class Outcome(float):
    """A number that remembers its ``cluster`` and its ``weight`` (how many decisions it is the mean
    of)."""

    cluster: str
    weight: int

    def __new__(cls, value: float, cluster: str, weight: int = 1) -> Outcome:
        outcome = super().__new__(cls, value)
        outcome.cluster, outcome.weight = cluster, weight
        return outcome

    def __reduce__(self) -> tuple[type[Outcome], tuple[Any, ...]]:
        return Outcome, (float(self), self.cluster, self.weight)


def ratio(part: float, whole: float) -> float:
    """``part`` over ``whole``; NaN where that is 0."""
    return part / whole if whole else math.nan


def mean(outcomes: Sequence[Outcome | None]) -> float:
    """The weighted mean of what was scored; NaN where nothing was."""
    scored = [outcome for outcome in outcomes if outcome is not None]
    weight = sum(outcome.weight for outcome in scored)
    return ratio(sum(outcome.weight * outcome for outcome in scored), weight)


def defined(value: float) -> float | None:
    """``value``, or None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def average(values: Iterable[float | None]) -> float | None:
    """The plain mean of the values that are not None; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def interval_of(ends: tuple[float, float]) -> list[float] | None:
    """An interval as JSON has it, None where it is not defined."""
    return None if math.isnan(ends[0]) else list(ends)


def clustered_stderr(outcomes: Sequence[Outcome | None]) -> float:
    """The clustered standard error of ``mean``: the square root of G/(G-1) times the sum over G
    clusters of the squared sums of residuals, over the total weight. With one row a cluster it is
    that of a plain mean. NaN below two clusters."""
    scored = [outcome for outcome in outcomes if outcome is not None]
    centre = mean(scored)
    residuals: dict[str, float] = defaultdict(float)
    for outcome in scored:
        residuals[outcome.cluster] += outcome.weight * (outcome - centre)
    groups = len(residuals)
    if groups < 2:
        return math.nan
    squares = sum(residual**2 for residual in residuals.values())
    return math.sqrt(groups / (groups - 1) * squares) / sum(outcome.weight for outcome in scored)


def bootstrap_interval(
    outcomes: Sequence[Outcome | None], resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """The 95% percentile interval of ``mean`` when whole clusters are drawn with replacement; NaNs
    where nothing was scored."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for outcome in outcomes:
        if outcome is not None:
            sums[outcome.cluster][0] += outcome.weight * outcome
            sums[outcome.cluster][1] += outcome.weight
    if not sums:
        return math.nan, math.nan
    values, weights = _drawn_sums(np.array(list(sums.values())), resamples, seed).T
    low, high = np.quantile(values / weights, [0.025, 0.975])
    return float(low), float(high)


def interval(
    value: float, stderr: float, low: float = -math.inf, high: float = math.inf, n: int = 0
) -> tuple[float, float] | None:
    """The 95% interval of a score that lies between ``low`` and ``high``, by which every table,
    page and file shows it. Between two bounds it is Wilson's, with as many trials as would give
    ``stderr`` (so clusters count: Dean and Pagano, 2015), or ``n`` rows where all are at one end
    and ``stderr`` is 0. With a lower bound alone it is normal in the logarithm, otherwise normal.
    None where rows that do not differ say nothing about the error."""
    if not 0 <= stderr <= _MOST or abs(value) > _MOST:
        return None
    is_certain = stderr <= _ROUNDING * max(1.0, abs(value))
    if math.isinf(low) or math.isinf(high):
        if is_certain:
            return None
        if math.isinf(low) or value <= 0:
            return value - Z95 * stderr, value + Z95 * stderr
        factor = math.exp(min(Z95 * stderr / value, _MOST_EXPONENT))
        return max(low, value / factor), value * factor
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    spread = share * (1 - share)
    trials = (
        min(n, _MOST)
        if is_certain or spread <= _ROUNDING
        else spread * ((high - low) / stderr) ** 2
    )
    if trials <= 0 or (is_certain and spread > _ROUNDING):
        return None
    shrunk = 1 + Z95**2 / trials
    middle = (share + Z95**2 / (2 * trials)) / shrunk
    half = Z95 * math.sqrt(spread / trials + (Z95 / (2 * trials)) ** 2) / shrunk
    ends = max(0.0, middle - half), min(1.0, middle + half)
    return low + (high - low) * ends[0], low + (high - low) * ends[1]


def pooled_stderr(rows: Sequence[Sequence[float]], value: Value) -> float:
    """The bootstrap standard error of a score of pooled counts; NaN below two rows. ``rows`` have
    the counts of one cluster each; ``value`` makes the score out of their column sums. Draws for
    which the score is not defined are left out."""
    draws = _pooled_draws(rows, value, 1000, 0)
    return float(np.std(draws, ddof=1)) if len(rows) > 1 and len(draws) > 1 else math.nan


def pooled_interval(
    rows: Sequence[Sequence[float]], value: Value, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """The 95% percentile interval of a score of pooled counts, as ``pooled_stderr`` draws it; NaNs
    below two rows."""
    draws = _pooled_draws(rows, value, resamples, seed)
    if len(rows) < 2 or not len(draws):
        return math.nan, math.nan
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def _pooled_draws(
    rows: Sequence[Sequence[float]], value: Value, resamples: int, seed: int
) -> Floats:
    if not rows:
        return np.array([])
    sums = _drawn_sums(np.array(rows, dtype=float), resamples, seed)
    draws = np.array([value(totals) for totals in sums.tolist()])
    defined: Floats = draws[~np.isnan(draws)]
    return defined


def _drawn_sums(rows: Floats, resamples: int, seed: int) -> Floats:
    """The column sums of each of so many draws of all rows with replacement. They are drawn in
    blocks, in the order in which one draw of all would have them, so that memory does not grow with
    ``resamples`` times the rows."""
    generator, even = np.random.default_rng(seed), np.full(len(rows), 1 / len(rows))
    block = max(1, _DRAWN // len(rows))
    starts = range(0, resamples, block)
    drawn = (
        generator.multinomial(len(rows), even, size=min(block, resamples - start))
        for start in starts
    )
    return np.concatenate([times @ rows for times in drawn])


class NotDefined(str):
    """What results hold for a score that is not defined, lm_eval's ``N/A``; a mean over tasks of
    which one has none has none."""

    def _absorb(self, other: Any) -> NotDefined:
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = _absorb


NOT_DEFINED = NotDefined("N/A")


@dataclass(frozen=True)
class Aggregation:
    """From the values of all rows to one number, and to its standard error where that means
    something; NaN where it is not defined. Called, as lm_eval does, it gives ``NOT_DEFINED`` in the
    place of NaN."""

    value: Callable[[Sequence[Any]], float]
    stderr: Callable[[Sequence[Any]], float] | None = None

    def __call__(self, items: Sequence[Any]) -> float | NotDefined:
        return or_not_defined(self.value(items))


MEAN = Aggregation(mean, clustered_stderr)  # of outcomes
TOTAL = Aggregation(lambda rows: float(sum(value for value in rows if value is not None)))


def or_not_defined(value: float) -> float | NotDefined:
    """``value`` as results hold it."""
    return NOT_DEFINED if math.isnan(value) else value


def how_many(reasons: Sequence[Any]) -> float:
    """How many rows have a value at all, such as a reason why there is no score."""
    return float(sum(reason is not None for reason in reasons))


def pooled(value: Callable[[Sequence[float]], float], has_stderr: bool = True) -> Aggregation:
    """A score of the column sums of rows, counts of a response each (None or zeros: none), with its
    bootstrap standard error."""

    def counted(rows: Sequence[Sequence[float] | None]) -> list[Sequence[float]]:
        return [row for row in rows if row is not None and any(row)]

    def of_all(rows: Sequence[Sequence[float] | None]) -> float:
        totals = [sum(column) for column in zip(*counted(rows), strict=True)]
        return value(totals) if totals else math.nan

    return Aggregation(
        of_all, (lambda rows: pooled_stderr(counted(rows), value)) if has_stderr else None
    )
