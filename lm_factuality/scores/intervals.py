"""95% intervals of scores whose rows come in clusters, such as the rows of one document.

Each function takes plain numbers and returns an `Interval`, or None where none is defined: without
rows, for a single cluster, or for numbers that are not finite. ``docs/results.md`` explains the
formulas in words, and ``docs/coverage.md`` shows how often the intervals contain the truth.

In all of them, a score is a mean over clusters, or is made of such means:

- The variance of the mean is the larger of two estimates. One is robust: the squared residuals of
  whole clusters (`_robust_variance`). The other assumes that rows are equally correlated in every
  cluster (`_design_effect_variance`). The first estimate is too small if few clusters hold the
  errors, and the second if large clusters differ from small ones.
- Student's t takes the normal distribution's place, with degrees of freedom by Bell and McCaffrey
  (2002). For clusters of one size these are the number of clusters less one.
- Between two bounds, the interval is Wilson's (1927) for the effective number of trials of Korn and
  Graubard (1998): the number of independent trials that would have this variance, reduced by
  (1.96 / t)².
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]
ScoreOfSums = Callable[[Sequence[float]], float]
"""A function that makes a score of the column sums of counts, such as errors / segments."""

Z95 = 1.959963984540054
"""A 95% interval of the normal distribution reaches so many standard deviations to each side."""

Z80 = 0.8416212335729143
"""80% of all values of a normal distribution lie below so many standard deviations."""

MIN_CLUSTERS = 5
"""Intervals of fewer clusters are so wide that tables show only them, and not the score."""

_ROUNDING = 1e-12  # a variance below this share of the squared scale is rounding
_MAX_STDERR = 1e70  # a file may hold any number, whose fourth power must not overflow
_MAX_EXPONENT = 700.0  # exp() of more than 709 overflows
_RELATIVE_STEP = 1e-4  # of a sum, for the numerical derivative of a score
_QUADRATURE_NODES, _QUADRATURE_WEIGHTS = np.polynomial.legendre.leggauss(40)  # from -1 to 1
_MAX_NEWTON_STEPS = 50  # Newton's method takes three to ten


class Interval(NamedTuple):
    """A 95% confidence interval."""

    low: float
    """The lower end."""

    high: float
    """The upper end."""


class ClusteredMean(NamedTuple):
    """A mean over rows that come in clusters, with its uncertainty."""

    value: float
    """The mean."""

    variance: float
    """The variance of the mean."""

    degrees_of_freedom: float
    """The degrees of freedom of the variance."""

    num_clusters: int
    """The number of clusters that have a part in the mean."""

    has_single_rows: bool = False
    """Whether each cluster is one row, and all rows count the same."""

    @property
    def stderr(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self.variance)

    @property
    def margin_of_error(self) -> float:
        """Half the width of Student's 95% interval."""
        return student_quantile(self.degrees_of_freedom) * self.stderr


def mean_interval(
    values: Sequence[float | None],
    clusters: Sequence[Hashable] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    weights: Sequence[float] | None = None,
) -> Interval | None:
    """Compute the 95% interval of a mean.

    Args:
        values: The value of each row. Unscored rows are None and are left out.
        clusters: The cluster of each row, such as its document. None: every row is independent.
        low: The lowest value that a row can have, or -inf.
        high: The highest value that a row can have, or inf.
        weights: How much each row counts relative to the others, such as the number of decisions
            that its value is the mean of. None: all rows count the same.

    Returns:
        The interval, which lies between ``low`` and ``high``. None if it is not defined, or if all
        rows are alike and no two bounds limit what others may be.

    Example:
        ``mean_interval([1, 1, 0, 1], clusters=["a", "a", "b", "c"])`` is the interval of the
        accuracy 0.75 on four rows of three documents.
    """
    estimate = clustered_mean(values, clusters, weights)
    return None if estimate is None else interval_of_mean(estimate, low, high)


def clustered_mean(
    values: Sequence[float | None],
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
) -> ClusteredMean | None:
    """Compute the mean of rows, with a variance that respects clusters of similar rows.

    Args:
        values: The value of each row. Unscored rows are None and are left out.
        clusters: The cluster of each row, such as its document. None: every row is independent.
        weights: How much each row counts relative to the others. None: all rows count the same.

    Returns:
        The mean, or None if fewer than two clusters have a weight, or a number is not finite.
    """
    is_scored = [value is not None for value in values]
    scored_values = np.array(list(compress(values, is_scored)), dtype=float)
    num_scored = len(scored_values)
    if num_scored == 0:
        return None

    scored_weights = np.ones(num_scored)
    if weights is not None:
        scored_weights = np.array(list(compress(weights, is_scored)), dtype=float)
        # Only ratios of weights matter, so they are scaled to be 1 on average. If all of them are
        # 0, the result is not finite, and the mean is None.
        with np.errstate(invalid="ignore", divide="ignore"):
            scored_weights = scored_weights * (num_scored / scored_weights.sum())

    cluster_numbers = np.arange(num_scored)
    if clusters is not None:
        cluster_numbers = number_clusters(compress(clusters, is_scored))
    return _mean_of_clusters(
        sums=_sum_by_cluster(scored_weights * scored_values, cluster_numbers),
        weights=_sum_by_cluster(scored_weights, cluster_numbers),
        squares=_sum_by_cluster(scored_weights * scored_values**2, cluster_numbers),
    )


def _sum_by_cluster(values: Floats, cluster_numbers: Numbers) -> Floats:
    """Add up the values of each cluster, whose number (from 0) each value has."""
    return np.asarray(np.bincount(cluster_numbers, values), dtype=float)


def number_clusters(clusters: Iterable[Hashable]) -> Numbers:
    """Replace the names of clusters by numbers from 0, in the order of their first occurrence.

    Example:
        ``["b", "a", "b"]`` becomes ``[0, 1, 0]``.
    """
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in clusters], dtype=np.intp)


def ratio_interval(parts: ArrayLike, wholes: ArrayLike) -> Interval | None:
    """Compute the 95% interval of a share of counts, sum(parts) / sum(wholes).

    Such a share is a clustered mean: each of the decisions that ``wholes`` counts is 0 or 1.

    Args:
        parts: The number of decisions of one kind in each cluster, such as errors.
        wholes: The number of all decisions in each cluster, such as segments.

    Returns:
        The interval, or None if fewer than two clusters have decisions.
    """
    estimate = mean_of_counts(parts, wholes)
    return None if estimate is None else interval_of_mean(estimate)


def mean_of_counts(parts: ArrayLike, wholes: ArrayLike) -> ClusteredMean | None:
    """Compute a share of counts, sum(parts) / sum(wholes), with its variance.

    Args:
        parts: The number of decisions of one kind in each cluster, such as errors.
        wholes: The number of all decisions in each cluster, such as segments.

    Returns:
        The share, or None if fewer than two clusters have decisions.
    """
    sums = np.asarray(parts, dtype=float)
    # The values are 0 or 1, which are their own squares.
    return _mean_of_clusters(sums, np.asarray(wholes, dtype=float), squares=sums)


def accuracy_interval(counts: ArrayLike) -> Interval | None:
    """Compute the 95% interval of the accuracy, (tp + tn) / (tp + fp + fn + tn).

    Args:
        counts: The counts of each cluster, as `precision_interval` takes them.

    Returns:
        The interval, or None if fewer than two clusters have decisions.
    """
    tp, fp, fn, tn = _columns(counts)
    return ratio_interval(tp + tn, tp + fp + fn + tn)


def precision_interval(counts: ArrayLike) -> Interval | None:
    """Compute the 95% interval of the precision, tp / (tp + fp).

    Args:
        counts: One row of four counts for each cluster: true positives (tp), false positives (fp),
            false negatives (fn) and true negatives (tn).

    Returns:
        The interval, or None if fewer than two clusters have positives.
    """
    tp, fp, _, _ = _columns(counts)
    return ratio_interval(tp, tp + fp)


def recall_interval(counts: ArrayLike) -> Interval | None:
    """Compute the 95% interval of the recall, tp / (tp + fn).

    Args:
        counts: The counts of each cluster, as `precision_interval` takes them.

    Returns:
        The interval, or None if fewer than two clusters have anything to find.
    """
    tp, _, fn, _ = _columns(counts)
    return ratio_interval(tp, tp + fn)


def f1_interval(counts: ArrayLike) -> Interval | None:
    """Compute the 95% interval of F1, 2 tp / (2 tp + fp + fn).

    F1 is no share of counts, but it grows with one: F1 = 2 J / (1 + J), where J is the Jaccard
    index tp / (tp + fp + fn). So this computes the interval of J, and converts both of its ends.

    Args:
        counts: The counts of each cluster, as `precision_interval` takes them.

    Returns:
        The interval, or None if fewer than two clusters have any count but true negatives.
    """
    tp, fp, fn, _ = _columns(counts)
    jaccard = ratio_interval(tp, tp + fp + fn)
    if jaccard is None:
        return None
    return Interval(2 * jaccard.low / (1 + jaccard.low), 2 * jaccard.high / (1 + jaccard.high))


def balanced_accuracy_interval(counts: ArrayLike) -> Interval | None:
    """Compute the 95% interval of the balanced accuracy, the mean of recall and specificity.

    The specificity is the recall of negatives, tn / (tn + fp). The two intervals are combined by
    the method of variance estimates recovery (`sum_interval`).

    Args:
        counts: The counts of each cluster, as `precision_interval` takes them.

    Returns:
        The interval, or None if fewer than two clusters have positives, or negatives, to judge.
    """
    tp, fp, fn, tn = _columns(counts)
    positives = tp + fn
    negatives = tn + fp
    recall = ratio_interval(tp, positives)
    specificity = ratio_interval(tn, negatives)
    if recall is None or specificity is None:
        return None
    total = sum_interval(
        first=float(tp.sum() / positives.sum()),
        first_interval=recall,
        second=float(tn.sum() / negatives.sum()),
        second_interval=specificity,
        correlation=correlation_of(_residuals(tp, positives), _residuals(tn, negatives)),
    )
    # The mean of the two is half their sum.
    return Interval(total.low / 2, total.high / 2)


DETECTION_INTERVALS: Mapping[str, Callable[[ArrayLike], Interval | None]] = {
    "accuracy": accuracy_interval,
    "precision": precision_interval,
    "recall": recall_interval,
    "f1": f1_interval,
    "balanced_accuracy": balanced_accuracy_interval,
}
"""The functions for the intervals of scores of tp, fp, fn and tn, by the names of the scores."""


def count_detection_clusters(measure: str, counts: ArrayLike) -> int:
    """Count the clusters that a score of tp, fp, fn and tn depends on.

    The recall tp / (tp + fn), for example, depends on the clusters whose tp + fn is above 0.

    Args:
        measure: The name of the score, a key of `DETECTION_INTERVALS`.
        counts: The counts of each cluster, as `precision_interval` takes them.

    Returns:
        The number of clusters. For the balanced accuracy, which has two denominators, it is the
        smaller of two numbers.
    """
    tp, fp, fn, tn = _columns(counts)
    denominators = {
        "accuracy": [tp + fp + fn + tn],
        "precision": [tp + fp],
        "recall": [tp + fn],
        "f1": [tp + fp + fn],
        "balanced_accuracy": [tp + fn, tn + fp],
    }
    return min(int(np.count_nonzero(denominator > 0)) for denominator in denominators[measure])


def pooled_interval(
    counts: ArrayLike, score_of_sums: ScoreOfSums, low: float = 0.0, high: float = 1.0
) -> Interval | None:
    """Compute the 95% interval of any score of sums of counts.

    For F1 and the like there are functions of their own, which are more exact if few clusters have
    errors.

    Args:
        counts: One row of counts for each cluster.
        score_of_sums: The score as a function of the column sums, NaN if it is not defined.
        low: The lowest value that the score can have, or -inf.
        high: The highest value that the score can have, or inf.

    Returns:
        The interval, or None if it is not defined.
    """
    estimate = pooled_estimate(counts, score_of_sums)
    return None if estimate is None else interval_of_mean(estimate, low, high)


def pooled_estimate(counts: ArrayLike, score_of_sums: ScoreOfSums) -> ClusteredMean | None:
    """Compute a score of sums of counts with its variance, by the delta method.

    The delta method replaces the score by a linear function of the sums. Then each cluster changes
    the score by one number, its influence, and the variance is G / (G - 1) times the sum of the
    squared influences of the G clusters.

    Args:
        counts: One row of counts for each cluster, such as (errors, segments).
        score_of_sums: The score as a function of the column sums, NaN if it is not defined.

    Returns:
        The score, or None if it is not defined or depends on fewer than two clusters.
    """
    table = np.asarray(counts, dtype=float)
    if not table.size or not np.isfinite(table).all():
        return None
    sums = table.sum(axis=0)
    is_used = _columns_in_use(score_of_sums, sums)
    num_clusters = int(table[:, is_used].any(axis=1).sum())
    if num_clusters < 2:
        return None

    influences = _cluster_influences(table, score_of_sums)
    variance = num_clusters / (num_clusters - 1) * float(influences @ influences)
    score = score_of_sums(sums.tolist())
    if not math.isfinite(score) or not math.isfinite(variance):
        return None
    return ClusteredMean(score, variance, num_clusters - 1, num_clusters)


def _columns_in_use(score_of_sums: ScoreOfSums, sums: Floats) -> NDArray[np.bool_]:
    """Return whether a score changes with each of its sums.

    The recall tp / (tp + fn), for example, uses the sums of tp and fn, but not that of fp.
    """
    # At a bound, such as a recall of 1, a score may not change with a sum that it uses. One count
    # more in every sum leaves the bound.
    return np.asarray(score_gradient(score_of_sums, sums + 1.0) != 0)


def _cluster_influences(counts: Floats, score_of_sums: ScoreOfSums) -> Floats:
    """Compute how far each cluster moves a score from its mean, by a linear approximation.

    Args:
        counts: One row of counts for each cluster.
        score_of_sums: The score as a function of the column sums.
    """
    influences = counts @ score_gradient(score_of_sums, counts.sum(axis=0))
    return np.asarray(influences - influences.mean())


def score_gradient(score_of_sums: ScoreOfSums, sums: Floats) -> Floats:
    """Compute how much a score changes with each of its sums, by central differences.

    Args:
        score_of_sums: The score as a function of the sums.
        sums: The sums at which the gradient is taken.

    Returns:
        For each sum, (score(sum + step) - score(sum - step)) / (2 * step). The step is a
        ten-thousandth of the sum, or of 1 if the sum is smaller. The other sums stay as they are.
    """
    steps = _RELATIVE_STEP * np.maximum(np.abs(sums), 1.0)
    gradient = []
    for index, step in enumerate(steps):
        change = np.zeros_like(sums)
        change[index] = step
        above = score_of_sums((sums + change).tolist())
        below = score_of_sums((sums - change).tolist())
        gradient.append((above - below) / (2 * step))
    return np.array(gradient)


def difference_interval(
    first: Sequence[float | None],
    second: Sequence[float | None],
    clusters: Sequence[Hashable] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    weights: Sequence[float] | None = None,
) -> Interval | None:
    """Compute the 95% interval of the difference between two means of the same rows.

    Args:
        first: The value of each row in the first mean. A row that is None in either is left out.
        second: The value of each row in the second mean.
        clusters: The cluster of each row. None: every row is independent.
        low: The lowest value that a row can have, or -inf.
        high: The highest value that a row can have, or inf.
        weights: How much each row counts. None: all rows count the same.

    Returns:
        The interval of first less second, between ``low - high`` and ``high - low``. None if it is
        not defined.
    """
    differences = [
        None if first_value is None or second_value is None else first_value - second_value
        for first_value, second_value in zip(first, second, strict=True)
    ]
    estimate = clustered_mean(differences, clusters, weights)
    if estimate is None:
        return None
    span = high - low
    if not math.isfinite(span):
        return interval_of_mean(estimate, -math.inf, math.inf)
    # The mean difference is the mean gain less the mean loss. Both are needed: if half of the rows
    # gain and half lose, the mean is less certain than if no row differs.
    gains = [None if difference is None else max(difference, 0.0) for difference in differences]
    mean_gain = clustered_mean(gains, clusters, weights)
    # Gains have the same rows and weights as the differences, whose mean is defined.
    assert mean_gain is not None
    return _bonett_price_interval(estimate, mean_gain.value / span, span)


def _bonett_price_interval(estimate: ClusteredMean, gain: float, span: float) -> Interval:
    """Compute the interval of a mean difference by the method of Bonett and Price (2012).

    All shares are in units of the span. Each row counts as a gain of 1 with the probability
    ``gain``, as a loss of 1 with the probability ``loss``, or as no difference.

    1. Over n independent rows, the difference gain - loss has the variance
       (gain + loss - difference²) / n. This gives the n that fits the variance of the estimate.
    2. Half a row with a gain and half a row with a loss are added, so that rows that never differ
       leave some uncertainty: the smoothed gain is (n * gain + 1/2) / (n + 1). (Bonett and Price
       add twice as much, which makes the interval wider than it needs to be.)
    3. The interval is that of the normal distribution around the smoothed difference.

    Args:
        estimate: The mean difference.
        gain: The mean of the positive differences, as a share of the span.
        span: The largest possible difference.
    """
    difference = estimate.value / span
    loss = gain - difference
    variance_of_row = gain + loss - difference**2
    num_rows = _effective_trials(estimate, variance_of_row * span**2)

    smoothed_gain = (num_rows * gain + 0.5) / (num_rows + 1)
    smoothed_loss = (num_rows * loss + 0.5) / (num_rows + 1)
    smoothed_difference = smoothed_gain - smoothed_loss
    smoothed_variance = smoothed_gain + smoothed_loss - smoothed_difference**2

    half_width = Z95 * math.sqrt(smoothed_variance / (num_rows + 1))
    low = max(-1.0, smoothed_difference - half_width)
    high = min(1.0, smoothed_difference + half_width)
    return Interval(span * low, span * high)


def pooled_difference_interval(
    first: ArrayLike,
    second: ArrayLike,
    score_of_sums: ScoreOfSums,
    low: float = 0.0,
    high: float = 1.0,
) -> Interval | None:
    """Compute the 95% interval of the difference between two scores of sums over the same clusters.

    It combines the intervals of the two scores (`sum_interval`), which need the correlation of the
    scores over the clusters.

    Args:
        first: One row of the first model's counts for each cluster.
        second: The counts of the second model for the same clusters.
        score_of_sums: The score as a function of the column sums.
        low: The lowest value that the score can have, or -inf.
        high: The highest value that the score can have, or inf.

    Returns:
        The interval of first less second, or None if it is not defined.
    """
    first_score = pooled_estimate(first, score_of_sums)
    second_score = pooled_estimate(second, score_of_sums)
    if first_score is None or second_score is None:
        return None
    first_interval = interval_of_mean(first_score, low, high)
    second_interval = interval_of_mean(second_score, low, high)
    if first_interval is None or second_interval is None:
        return None

    correlation = correlation_of(
        _cluster_influences(np.asarray(first, dtype=float), score_of_sums),
        _cluster_influences(np.asarray(second, dtype=float), score_of_sums),
    )
    # Two models that agree in all G clusters at hand may differ in others. The factor (G - 1) / G
    # keeps their correlation below 1, so that their interval has a width.
    num_clusters = min(first_score.num_clusters, second_score.num_clusters)
    correlation *= 1 - 1 / num_clusters
    # The difference is the sum of the first score and the negative of the second.
    return sum_interval(
        first=first_score.value,
        first_interval=first_interval,
        second=-second_score.value,
        second_interval=Interval(low=-second_interval.high, high=-second_interval.low),
        correlation=-correlation,
    )


def perplexity_interval(
    log_losses: Sequence[float | None],
    num_tokens: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
) -> Interval | None:
    """Compute the 95% interval of a perplexity, exp(sum(tokens * loss) / sum(tokens)).

    It is Student's interval of the mean loss, with the exponential function of both ends.

    Args:
        log_losses: The mean negative log-probability per token (or byte) in each document, in nats.
            None for a document without a score.
        num_tokens: The number of tokens (or bytes) of each document.
        clusters: The cluster of each document. None: every document is independent.

    Returns:
        The interval, or None if it is not defined.
    """
    interval = mean_interval(log_losses, clusters, -math.inf, math.inf, num_tokens)
    if interval is None or interval.high > _MAX_EXPONENT:
        return None
    return Interval(math.exp(interval.low), math.exp(interval.high))


def has_few_clusters(clusters: Sequence[Hashable]) -> bool:
    """Return whether rows come from fewer than five clusters, such as documents.

    Tables then show the interval of a score, which is wide, and not the score itself.

    Args:
        clusters: The cluster of each row, such as ``["a.txt", "a.txt", "b.txt"]``.
    """
    num_clusters = len(set(clusters))
    return num_clusters < MIN_CLUSTERS


def sum_interval(
    first: float,
    first_interval: Interval,
    second: float,
    second_interval: Interval,
    correlation: float,
) -> Interval:
    """Compute the 95% interval of the sum of two scores from their own intervals.

    This is the method of variance estimates recovery (Zou and Donner, 2008). If a and b are the
    distances from the two scores to the lower ends of their intervals, and r is the correlation of
    the scores, then the sum lies sqrt(a² + b² + 2rab) above its own lower end. The upper end is
    found likewise.

    Args:
        first: The first score.
        first_interval: Its interval.
        second: The second score.
        second_interval: Its interval.
        correlation: The correlation of the two scores, from -1 to 1.
    """

    def combine(a: float, b: float) -> float:
        """Return the distance from the sum to one end of its interval."""
        # Rounding may make the square of a distance of 0 slightly negative.
        return math.sqrt(max(0.0, a**2 + b**2 + 2 * correlation * a * b))

    total = first + second
    return Interval(
        total - combine(first - first_interval.low, second - second_interval.low),
        total + combine(first_interval.high - first, second_interval.high - second),
    )


def interval_of_mean(
    estimate: ClusteredMean, low: float = 0.0, high: float = 1.0
) -> Interval | None:
    """Compute the 95% interval of a mean from its variance and degrees of freedom.

    Between two bounds it is Wilson's interval, and otherwise Student's. If a mean can only be
    positive, Student's interval of its logarithm is computed and converted back.

    Args:
        estimate: The mean.
        low: The lowest value that a row can have, or -inf.
        high: The highest value that a row can have, or inf.

    Returns:
        The interval. None if all rows are alike and no two bounds limit what others may be.
    """
    if math.isfinite(low) and math.isfinite(high):
        return _scaled_wilson_interval(estimate, low, high)
    if estimate.variance <= _ROUNDING * max(1.0, estimate.value**2):
        return None
    # A mean that can only be positive gets the interval of its logarithm, which 0 does not have.
    if math.isfinite(low) and estimate.value > max(0.0, low):
        return _log_interval(estimate, low)
    margin = estimate.margin_of_error
    return Interval(estimate.value - margin, estimate.value + margin)


def _scaled_wilson_interval(estimate: ClusteredMean, low: float, high: float) -> Interval:
    """Compute Wilson's interval of a mean that lies between two bounds.

    The mean is scaled to a share from 0 to 1, and the interval is scaled back.

    Args:
        estimate: The mean.
        low: The lowest value that a row can have.
        high: The highest value that a row can have.
    """
    span = high - low
    share = min(1.0, max(0.0, (estimate.value - low) / span))
    trials = _effective_trials(estimate, share * (1 - share) * span**2)
    interval = wilson_interval(share, trials)
    return Interval(low + span * interval.low, low + span * interval.high)


def _log_interval(estimate: ClusteredMean, low: float) -> Interval:
    """Compute Student's interval of the logarithm of a mean, and convert both of its ends back.

    Args:
        estimate: The mean, which is above 0.
        low: The lowest value that a row can have.
    """
    # The standard error of log(value) is stderr / value (delta method).
    log_margin = estimate.margin_of_error / estimate.value
    factor = math.exp(min(log_margin, _MAX_EXPONENT))
    return Interval(max(low, estimate.value / factor), estimate.value * factor)


def interval_from_stderr(
    value: float, stderr: float, num_rows: int, low: float = 0.0, high: float = 1.0
) -> Interval | None:
    """Compute the 95% interval of a score from its standard error, if its rows are not known.

    Args:
        value: The score.
        stderr: Its standard error.
        num_rows: The number of rows, or of clusters if it is known.
        low: The lowest value that the score can have, or -inf.
        high: The highest value that the score can have, or inf.

    Returns:
        The interval. None for fewer than two rows, or for numbers that no score has.
    """
    if num_rows < 2 or not math.isfinite(value) or not 0 <= stderr < _MAX_STDERR:
        return None
    estimate = ClusteredMean(value, stderr**2, num_rows - 1, num_rows)
    return interval_of_mean(estimate, low, high)


def wilson_interval(share: float, trials: float) -> Interval:
    """Compute Wilson's 95% interval (1927) of a share of independent trials.

    With z = 1.96, its centre is (p + z²/2n) / (1 + z²/n), and half its width is
    z * sqrt(p(1 - p)/n + z²/4n²) / (1 + z²/n). (scipy has it only for whole numbers of trials.)

    Args:
        share: The share p, from 0 to 1.
        trials: The number n of trials, above 0. It need not be whole.
    """
    shrinkage = 1 + Z95**2 / trials
    centre = (share + Z95**2 / (2 * trials)) / shrinkage
    variance = share * (1 - share) / trials + (Z95 / (2 * trials)) ** 2
    half_width = Z95 * math.sqrt(variance) / shrinkage
    # The interval lies within [0, 1] but for rounding.
    return Interval(max(0.0, centre - half_width), min(1.0, centre + half_width))


def student_quantile(df: float) -> float:
    """Return the 97.5% quantile of Student's t distribution, as ``scipy.special.stdtrit`` does.

    With t = sqrt(df) * tan(angle), the probability P(0 < T < t) is

        Gamma((df + 1) / 2) / (sqrt(pi) * Gamma(df / 2)) * integral,

    where the integral is that of cos(x)^(df - 1) from 0 to the angle. At the quantile, the
    probability is 0.475, which gives the integral. Newton's method then finds the angle.

    scipy.special takes a third of a second to import. The results differ from it by less than 1e-12
    (relative) for up to a thousand degrees of freedom, and by less than 1e-8 for a million.

    Args:
        df: The degrees of freedom, at least 1.
    """
    gamma_ratio = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2))
    integral = 0.475 * math.sqrt(math.pi) / gamma_ratio
    # The quantile of the normal distribution is smaller, so Newton's method starts below the angle.
    # It does not overshoot, since the integrand falls.
    angle = math.atan(Z95 / math.sqrt(df))
    for _ in range(_MAX_NEWTON_STEPS):
        missing_area = integral - _integral_of_cosine_power(angle, exponent=df - 1)
        step = missing_area / math.cos(angle) ** (df - 1)
        angle += step
        # Each step squares the error, so the next one would be below the rounding.
        if abs(step) < 1e-9 * angle:
            break
    return math.sqrt(df) * math.tan(angle)


def _integral_of_cosine_power(angle: float, exponent: float) -> float:
    """Integrate cos(x)^exponent from 0 to an angle, by Gauss-Legendre quadrature."""
    half_angle = angle / 2
    # The nodes lie between -1 and 1, so these points lie between 0 and the angle.
    points = half_angle * (1 + _QUADRATURE_NODES)
    return half_angle * float(_QUADRATURE_WEIGHTS @ np.cos(points) ** exponent)


def _effective_trials(estimate: ClusteredMean, variance_of_trial: float) -> float:
    """Compute how many independent trials would be as uncertain as a mean over clusters.

    The mean of n trials has the variance v / n, where v is the variance of one trial. So a mean
    with the variance V is as uncertain as v / V trials (Korn and Graubard, 1998). If there are few
    clusters, V is uncertain itself, so v / V is multiplied by (1.96 / t)².

    Example:
        A share of 0.5 with the variance 0.001 over many clusters has 0.25 / 0.001 = 250 trials.

    Args:
        estimate: The mean.
        variance_of_trial: The variance of one trial, v, which is p * (1 - p) for a share p.

    Returns:
        The number of trials. Where the formula does not apply, each cluster counts as one.
    """
    # If all clusters are alike, or all rows have the same value, v or V is 0 up to rounding.
    smallest_variance = min(estimate.variance, variance_of_trial)
    if smallest_variance <= _ROUNDING * max(1.0, estimate.value**2):
        return estimate.num_clusters
    # Independent rows that are each 0 or 1 are trials already. Only for such rows, the variance of
    # the mean is p * (1 - p) / (n - 1). It is smaller for rows with values in between.
    variance_of_row = estimate.variance * (estimate.num_clusters - 1)
    are_rows_binary = math.isclose(variance_of_row, variance_of_trial)
    if estimate.has_single_rows and are_rows_binary:
        return estimate.num_clusters
    student_factor = (Z95 / student_quantile(estimate.degrees_of_freedom)) ** 2
    return variance_of_trial / estimate.variance * student_factor


def _mean_of_clusters(sums: Floats, weights: Floats, squares: Floats) -> ClusteredMean | None:
    """Compute a mean and its variance from the sums of each cluster.

    Args:
        sums: The sum of weight * value in each cluster.
        weights: The sum of the weights in each cluster.
        squares: The sum of weight * value² in each cluster.

    Returns:
        The mean, or None if fewer than two clusters have a weight, or a number is not finite.
    """
    if not np.isfinite(squares.sum() + weights.sum()):
        return None
    has_weight = weights > 0
    sums = sums[has_weight]
    weights = weights[has_weight]
    squares = squares[has_weight]
    num_clusters = len(weights)
    if num_clusters < 2:
        return None

    total_weight = float(weights.sum())
    mean = float(sums.sum()) / total_weight
    # The leverage of a cluster is its share of all weights.
    leverages = weights / total_weight
    # One cluster has all the weight, up to rounding.
    if leverages.max() >= 1 - _ROUNDING:
        return None
    residuals = (sums - mean * weights) / total_weight
    # The robust variance is too small if few clusters hold the errors. The other one is too small
    # if large clusters differ from small ones.
    variance = max(
        _robust_variance(residuals, leverages), _design_effect_variance(sums, weights, squares)
    )
    return ClusteredMean(
        value=mean,
        variance=variance,
        degrees_of_freedom=_degrees_of_freedom(leverages),
        num_clusters=num_clusters,
        has_single_rows=bool((weights == 1).all()),
    )


def _robust_variance(residuals: Floats, leverages: Floats) -> float:
    """Compute the variance of a mean from the squared residuals of its clusters.

    A large cluster pulls the mean towards itself, so its residual r is too small. r² / (1 - h)
    corrects this for a cluster with the share h of all weights: the estimator CR2 of Bell and
    McCaffrey (2002) for a mean. For equal clusters it is G / (G - 1) * sum(r²).

    Args:
        residuals: What each cluster adds to the error of the mean.
        leverages: The share h of all weights in each cluster.
    """
    return float((residuals**2 / (1 - leverages)).sum())


def _design_effect_variance(sums: Floats, sizes: Floats, squares: Floats) -> float:
    """Compute the variance of a mean by Kish's design effect (1965).

    It is row_variance / num_rows * design_effect. The first two factors are the variance of a mean
    of independent rows. The design effect is 1 + (mean_size - 1) * correlation, where mean_size is
    the size of a row's cluster, averaged over all rows, and the correlation is the intraclass
    correlation (`_intraclass_correlation`).

    Args:
        sums: The sum of the values in each cluster.
        sizes: The number of rows in each cluster, or their total weight.
        squares: The sum of the squared values in each cluster.
    """
    num_rows = float(sizes.sum())
    mean = float(sums.sum()) / num_rows
    row_variance = max(0.0, float(squares.sum()) / num_rows - mean**2)
    mean_size = float((sizes**2).sum()) / num_rows
    design_effect = 1 + (mean_size - 1) * _intraclass_correlation(sums, sizes, squares)
    return row_variance / num_rows * design_effect


def _intraclass_correlation(sums: Floats, sizes: Floats, squares: Floats) -> float:
    """Estimate the correlation of two rows of one cluster by an analysis of variance.

    It is (MSB - MSW) / (MSB + (n0 - 1) * MSW), where MSB and MSW are the mean squares between and
    within clusters, and n0 is the typical size of a cluster (Donner, 1986). For k clusters of the
    sizes n_i and N rows in all:

    - MSB = sum(n_i * (mean_i - mean)²) / (k - 1)
    - MSW = sum(squares_i - sums_i² / n_i) / (N - k)
    - n0 = (N - sum(n_i²) / N) / (k - 1)

    Args:
        sums: The sum of the values in each cluster.
        sizes: The number of rows in each cluster, or their total weight.
        squares: The sum of the squared values in each cluster.

    Returns:
        The correlation, at most 1. It is 1 if each cluster is one row, so that a weight other than
        1 counts as that many equal rows.
    """
    num_clusters = len(sizes)
    num_rows = float(sizes.sum())
    degrees_within = num_rows - num_clusters
    if degrees_within <= _ROUNDING * num_rows:
        return 1.0

    mean = float(sums.sum()) / num_rows
    mean_square_between = float((sizes * (sums / sizes - mean) ** 2).sum()) / (num_clusters - 1)
    mean_square_within = float((squares - sums**2 / sizes).sum()) / degrees_within
    typical_size = (num_rows - float((sizes**2).sum()) / num_rows) / (num_clusters - 1)
    denominator = mean_square_between + (typical_size - 1) * mean_square_within
    if denominator <= 0:
        return 0.0
    return min(1.0, (mean_square_between - mean_square_within) / denominator)


def _degrees_of_freedom(leverages: Floats) -> float:
    """Compute the degrees of freedom of `_robust_variance` by Satterthwaite's approximation.

    They are tr(A W)² / tr(A W A W), where A is the matrix of the variance as a quadratic form of
    the clusters' errors, and W = diag(h) holds the variances of these errors for independent rows
    (Bell and McCaffrey, 2002; Pustejovsky and Tipton, 2018). For a mean,

        A = diag(c) + B,  B_ij = S - b_i - b_j,

    where h_i is the leverage, c_i = 1 / (1 - h_i), b_i = c_i * h_i and S = sum(b_i * h_i). The
    leverages add up to 1, so S is the mean of b, weighted by h. Therefore

    - tr(A W) = sum((c_i + B_ii) * h_i),
    - tr(B W B W) = sum over i and j of (S - b_i - b_j)² * h_i * h_j = 2 * sum(b_i² * h_i) - S²,
    - tr(A W A W) = tr(B W B W) + sum((c_i² + 2 * c_i * B_ii) * h_i²).

    For equal clusters, the degrees of freedom are their number less one.

    Args:
        leverages: The share h of all weights in each cluster.
    """
    c = 1 / (1 - leverages)
    b = c * leverages
    mean_b = float(b @ leverages)
    # B_ii, the diagonal of the matrix B.
    diagonal = mean_b - 2 * b
    trace_aw = float((c + diagonal) @ leverages)
    trace_bwbw = 2 * float(b**2 @ leverages) - mean_b**2
    trace_awaw = trace_bwbw + float((c**2 + 2 * c * diagonal) @ leverages**2)
    return trace_aw**2 / trace_awaw


def _columns(counts: ArrayLike) -> Floats:
    """Return the columns tp, fp, fn and tn of a table of counts with a row for each cluster."""
    return np.asarray(counts, dtype=float).reshape(-1, 4).T


def _residuals(parts: Floats, wholes: Floats) -> Floats:
    """Return what each cluster adds to the error of a share of counts, up to a factor."""
    return np.asarray(parts - parts.sum() / wholes.sum() * wholes)


def correlation_of(first: Floats, second: Floats) -> float:
    """Return the correlation of two scores from what each cluster adds to their errors.

    Args:
        first: The residual of each cluster in the first score. They add up to 0.
        second: The residuals in the second score.

    Returns:
        The correlation, from -1 to 1. It is 0 if either score has no errors.
    """
    product = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / product if product > 0 else 0.0
