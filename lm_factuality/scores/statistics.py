"""Means, pooled scores and their uncertainty when rows come in clusters.

Rows of one document share what a model knows about it, so every standard error and interval takes
whole clusters as its units. Benchmarks declare their scores with the aggregations of this module.
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
ScoreOfSums = Callable[[Sequence[float]], float]
"""A function that makes a score of the column sums of counts, such as errors / segments."""

# Quantiles of the standard normal distribution. A 95% interval reaches 1.96 standard errors to
# each side, and 80% of all values lie below 0.84.
Z95 = 1.959963984540054
Z80 = 0.8416212335729143

_ROUNDING = 1e-9  # a standard error below this share of the value is rounding
_MAX_VALUE = 1e100  # no score comes near, but a file may hold any number
_MAX_EXPONENT = 300.0  # exp() of more than 709 overflows
_MAX_NUMBERS_IN_MEMORY = 1 << 20  # numbers that a block of bootstrap draws may hold


class Outcome(float):
    """The value of one row, which also knows the cluster of the row and its weight.

    lm_eval passes rows on as plain numbers, so the cluster has to travel with the number.
    """

    cluster: str
    """The document, or any other source, that the row shares with the rows of its cluster."""

    weight: int
    """The number of decisions that the value is the mean of, such as the facts of a response."""

    def __new__(cls, value: float, cluster: str, weight: int = 1) -> Outcome:
        """Create the outcome of a row.

        Args:
            value: The score of the row, such as 1.0 for a right answer.
            cluster: The cluster that the row belongs to.
            weight: How much the row counts in a mean.
        """
        # A float cannot be changed by __init__, so its attributes are set here.
        outcome = super().__new__(cls, value)
        outcome.cluster = cluster
        outcome.weight = weight
        return outcome

    def __reduce__(self) -> tuple[type[Outcome], tuple[float, str, int]]:
        """Return how pickle creates the outcome again, for runs in several processes."""
        return Outcome, (float(self), self.cluster, self.weight)


def mean(outcomes: Sequence[Outcome | None]) -> float:
    """Compute the weighted mean of the rows, sum(w * x) / sum(w).

    Args:
        outcomes: The values of the rows. Unscored rows are None and are left out.

    Returns:
        The mean, or NaN if no row is scored.
    """
    sums = _weighted_sums(outcomes)
    return ratio(sums[0], sums[1])


def clustered_stderr(outcomes: Sequence[Outcome | None]) -> float:
    """Compute the standard error of `mean` for rows that come in clusters.

    This is the cluster-robust ("sandwich") estimator of a weighted mean m:
    sqrt(G / (G - 1) * S) / W, where G is the number of clusters, W the total weight and S the sum
    over clusters of (sum of w * (x - m))². With one row per cluster it is the standard error of
    a plain mean.

    Args:
        outcomes: The values of the rows. Unscored rows are None and are left out.

    Returns:
        The standard error, or NaN for fewer than two clusters.
    """
    centre = mean(outcomes)
    # The sum of w * (x - m) of each cluster. An outcome is a float, so it can be subtracted from.
    residuals: dict[str, float] = defaultdict(float)
    for outcome in outcomes:
        if outcome is not None:
            residuals[outcome.cluster] += outcome.weight * (outcome - centre)

    num_clusters = len(residuals)
    if num_clusters < 2:
        return math.nan
    sum_of_squares = sum(residual**2 for residual in residuals.values())
    total_weight = _weighted_sums(outcomes)[1]
    return ratio(math.sqrt(num_clusters / (num_clusters - 1) * sum_of_squares), total_weight)


def bootstrap_interval(
    outcomes: Sequence[Outcome | None], resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Compute the 95% percentile interval of `mean` by a cluster bootstrap.

    Whole clusters are drawn with replacement, and the interval reaches from the 2.5% to the 97.5%
    quantile of the means of the draws (Efron's percentile interval).

    Args:
        outcomes: The values of the rows. Unscored rows are None and are left out.
        resamples: The number of draws.
        seed: The seed of the draws.

    Returns:
        The lower and the upper end, both NaN if no row is scored.
    """
    clusters: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome is not None:
            clusters[outcome.cluster].append(outcome)

    # The sums of a cluster are all that its rows contribute to a mean.
    cluster_sums = [_weighted_sums(members) for members in clusters.values()]
    draws = _bootstrap_scores(cluster_sums, lambda sums: ratio(*sums), resamples, seed)
    return _percentile_interval(draws)


def _weighted_sums(outcomes: Sequence[Outcome | None]) -> tuple[float, float]:
    """Return sum(w * x) and sum(w) of the scored rows, whose ratio is the weighted mean."""
    scored = [outcome for outcome in outcomes if outcome is not None]
    weighted_values = sum(outcome.weight * outcome for outcome in scored)
    weights = sum(outcome.weight for outcome in scored)
    return weighted_values, weights


def pooled_stderr(rows: Sequence[Sequence[float]], score_of_sums: ScoreOfSums) -> float:
    """Compute the standard error of a score of pooled counts by a bootstrap of 1,000 draws.

    Args:
        rows: The counts of each cluster, such as (errors, segments).
        score_of_sums: The score as a function of the column sums of the rows. Draws for which it
            is NaN are left out.

    Returns:
        The standard deviation of the score over the draws, or NaN for fewer than two rows.
    """
    draws = _bootstrap_scores(rows, score_of_sums, resamples=1000, seed=0)
    if len(rows) < 2 or len(draws) < 2:
        return math.nan
    return float(np.std(draws, ddof=1))


def pooled_interval(
    rows: Sequence[Sequence[float]],
    score_of_sums: ScoreOfSums,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Compute the 95% percentile interval of a score of pooled counts by a bootstrap.

    Args:
        rows: The counts of each cluster, such as (errors, segments).
        score_of_sums: The score as a function of the column sums of the rows.
        resamples: The number of draws.
        seed: The seed of the draws.

    Returns:
        The lower and the upper end, both NaN for fewer than two rows.
    """
    if len(rows) < 2:
        return math.nan, math.nan
    return _percentile_interval(_bootstrap_scores(rows, score_of_sums, resamples, seed))


def _bootstrap_scores(
    rows: Sequence[Sequence[float]], score_of_sums: ScoreOfSums, resamples: int, seed: int
) -> Floats:
    """Compute a score for each bootstrap draw of rows with replacement.

    Args:
        rows: The counts of each cluster.
        score_of_sums: The score as a function of the column sums of a draw.
        resamples: The number of draws.
        seed: The seed of the draws.

    Returns:
        The scores, without those that are NaN.
    """
    if not rows:
        return np.array([])
    counts = np.array(rows, dtype=float)
    # A fixed seed gives every run the same interval.
    generator = np.random.default_rng(seed)
    probabilities = np.full(len(rows), 1 / len(rows))

    # Drawing in blocks gives the same draws as drawing all at once, and bounds the memory.
    block_size = max(1, _MAX_NUMBERS_IN_MEMORY // len(rows))
    scores: list[float] = []
    for start in range(0, resamples, block_size):
        num_draws = min(block_size, resamples - start)
        # How often each row occurs in each draw.
        frequencies = generator.multinomial(len(rows), probabilities, size=num_draws)
        # Its product with the counts gives the column sums of each draw.
        scores.extend(score_of_sums(sums) for sums in (frequencies @ counts).tolist())
    return np.array([score for score in scores if not math.isnan(score)])


def _percentile_interval(draws: Floats) -> tuple[float, float]:
    """Return the 2.5% and the 97.5% quantile of bootstrap draws, NaN if there are none."""
    if not len(draws):
        return math.nan, math.nan
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def score_interval(
    value: float, stderr: float, low: float = -math.inf, high: float = math.inf, num_rows: int = 0
) -> tuple[float, float] | None:
    """Compute the 95% interval that every table, page and file shows for a score.

    A score between two bounds gets Wilson's interval, a positive score with a lower bound alone
    gets a normal interval of its logarithm, and any other score gets value ± 1.96 * stderr.

    Args:
        value: The score.
        stderr: Its standard error.
        low: The lowest value that the score can have.
        high: The highest value that the score can have.
        num_rows: The number of rows. It matters only if the score is at one of its bounds, where
            the standard error is 0.

    Returns:
        The lower and the upper end. None if the score is not a number, or if rows that do not
        differ say nothing about the error.
    """
    # The comparisons are also False for NaN.
    is_usable = 0 <= stderr <= _MAX_VALUE and abs(value) <= _MAX_VALUE
    if not is_usable:
        return None
    # A standard error of 0 says nothing about the error of the score.
    has_no_spread = stderr <= _ROUNDING * max(1.0, abs(value))
    if math.isfinite(low) and math.isfinite(high):
        return _wilson_interval(value, None if has_no_spread else stderr, low, high, num_rows)
    # Rows that are all alike show no spread, and there is no bound to reason from.
    if has_no_spread:
        return None
    if math.isinf(low) or value <= 0:
        return value - Z95 * stderr, value + Z95 * stderr

    # The standard error of log(value) is stderr / value (delta method).
    factor = math.exp(min(Z95 * stderr / value, _MAX_EXPONENT))
    return max(low, value / factor), value * factor


def _wilson_interval(
    value: float, stderr: float | None, low: float, high: float, num_rows: int
) -> tuple[float, float] | None:
    """Compute Wilson's 95% interval of a score between two bounds.

    For a share p of t trials its centre is (p + z²/2t) / (1 + z²/t), and it reaches
    z * sqrt(p(1 - p)/t + z²/4t²) / (1 + z²/t) to each side. As Dean and Pagano (2015) do for
    clustered samples, t is the effective number of trials: the number that would give the score
    its standard error. (scipy has Wilson's interval for whole numbers of trials alone.)

    Args:
        value: The score.
        stderr: Its standard error. None if it is 0 up to rounding, since all rows are alike.
        low: The lowest value that the score can have.
        high: The highest value that the score can have.
        num_rows: The number of rows, which are the trials of a score at one of its bounds.

    Returns:
        The lower and the upper end, or None if the number of trials is unknown.
    """
    # Rounding may have put the score just outside of its bounds.
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    variance = share * (1 - share)
    # At a bound all rows are alike, and each of them counts as one trial.
    if variance <= _ROUNDING:
        # A damaged file may state a number of rows that no float can hold.
        trials = min(num_rows, _MAX_VALUE)
    elif stderr is None:
        # Alike rows between the bounds do not tell how many trials they are.
        return None
    else:
        # A share p of t trials has the variance p * (1 - p) / t.
        trials = variance * ((high - low) / stderr) ** 2
    if trials <= 0:
        return None

    shrinkage = 1 + Z95**2 / trials
    centre = (share + Z95**2 / (2 * trials)) / shrinkage
    half_width = Z95 * math.sqrt(variance / trials + (Z95 / (2 * trials)) ** 2) / shrinkage
    # Wilson's interval lies within [0, 1] but for rounding.
    lower = max(0.0, centre - half_width)
    upper = min(1.0, centre + half_width)
    return low + (high - low) * lower, low + (high - low) * upper


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``, or NaN if ``whole`` is 0."""
    return part / whole if whole else math.nan


def average(values: Iterable[float | None]) -> float | None:
    """Return the arithmetic mean of the values that are not None, or None if there are none."""
    defined_values = [value for value in values if value is not None]
    return sum(defined_values) / len(defined_values) if defined_values else None


def none_if_nan(value: float) -> float | None:
    """Convert a number for JSON, which has no NaN: NaN becomes None."""
    return None if math.isnan(value) else value


def interval_or_none(ends: tuple[float, float]) -> list[float] | None:
    """Convert an interval for JSON: ``(0.2, 0.4)`` becomes ``[0.2, 0.4]``, and NaN ends None."""
    return None if math.isnan(ends[0]) else list(ends)


class NotDefined(str):
    """The text that lm_eval's results hold for a score that is not defined, ``N/A``.

    lm_eval computes means over several tasks. A mean that includes this text is this text again.
    """

    def _absorb(self, operand: object) -> NotDefined:
        """Return the text itself, whatever number it is added to or multiplied by."""
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = _absorb


NOT_DEFINED = NotDefined("N/A")


def not_defined_if_nan(value: float) -> float | NotDefined:
    """Convert a number for lm_eval's results: NaN becomes ``N/A``."""
    return NOT_DEFINED if math.isnan(value) else value


@dataclass(frozen=True)
class Aggregation:
    """How the values of all rows become one number with its standard error.

    lm_eval calls it like a function.
    """

    value: Callable[[Sequence[Any]], float]
    """Computes the number from the rows, NaN if it is not defined."""

    stderr: Callable[[Sequence[Any]], float] | None = None
    """Computes the standard error from the rows. None if the number has no such error."""

    interval: Callable[[Sequence[Any]], tuple[float, float] | None] | None = None
    """Computes the 95% interval from the rows. None: `score_interval` computes it instead."""

    rows: Callable[[Sequence[Any]], int] = len
    """Counts the rows that have a part in the number."""

    def __call__(self, items: Sequence[Any]) -> float | NotDefined:
        """Compute the number as lm_eval's results show it, ``N/A`` if it is not defined."""
        return not_defined_if_nan(self.value(items))


MEAN = Aggregation(mean, clustered_stderr)  # of outcomes
TOTAL = Aggregation(lambda rows: float(sum(value for value in rows if value is not None)))


def pooled(score_of_sums: ScoreOfSums) -> Aggregation:
    """Create the aggregation of a score that is computed from the sums of all rows' counts.

    For the score errors / segments, the rows (1, 4) and (2, 6) have the sums (3, 10) and the score
    0.3. Rows that are None or hold only zeros are left out. The standard error and the interval are
    those of a bootstrap over rows.

    Args:
        score_of_sums: The score as a function of the column sums, such as errors / segments.
    """

    def score_of_rows(rows: Sequence[Sequence[float] | None]) -> float:
        """Compute the score, NaN without any counts."""
        # zip turns the rows into columns, and each column has a total. Without rows there is none.
        totals = [sum(column) for column in zip(*_rows_with_counts(rows), strict=True)]
        return score_of_sums(totals) if totals else math.nan

    def stderr_of_rows(rows: Sequence[Sequence[float] | None]) -> float:
        """Compute the bootstrap standard error of the score."""
        return pooled_stderr(_rows_with_counts(rows), score_of_sums)

    def interval_of_rows(rows: Sequence[Sequence[float] | None]) -> tuple[float, float] | None:
        """Compute the bootstrap interval of the score, None if it is not defined."""
        ends = pooled_interval(_rows_with_counts(rows), score_of_sums)
        return None if math.isnan(ends[0]) else ends

    return Aggregation(score_of_rows, stderr_of_rows, interval_of_rows)


def _rows_with_counts(rows: Sequence[Sequence[float] | None]) -> list[Sequence[float]]:
    """Return the rows that hold any count other than 0."""
    # Other rows add nothing to the sums, and must not take part in the draws of a bootstrap.
    return [row for row in rows if row is not None and any(row)]


def count_present(reasons: Sequence[object]) -> float:
    """Count the rows that have a value, such as a reason why they are unscored."""
    return float(sum(reason is not None for reason in reasons))
