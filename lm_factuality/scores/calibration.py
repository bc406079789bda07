"""The expected calibration error of probabilities, with its standard error and 95% interval.

Choices are grouped into bins of equal width by the probability that they are true. The gap of a bin
is the sum of (probability - truth) over its choices, divided by the number of all choices. The
calibration error is the sum of the sizes of all gaps (Naeini, Cooper and Hauskrecht, 2015).

The size of a gap is never negative, so chance alone makes the error of a calibrated model positive:
about 0.01 for 1,000 rows of four choices. An interval around the measured error would never contain
the 0 of such a model. `calibration_interval` therefore asks which true errors are likely to be
measured as the observed one.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lm_factuality.scores.intervals import (
    Floats,
    Interval,
    Numbers,
    mean_of_counts,
    number_clusters,
    student_quantile,
    wilson_interval,
)

_NUM_BINS = 10  # of equal width; the last one includes the probability 1
_ROUNDING = 1e-20  # a variance below this is rounding
_MOST_LUCK = 1.5  # standard errors below the mean, beyond which a small error is taken for luck
_NUM_HALVINGS = 30  # of a range, which then is a billionth of the first one


def calibration_error(probabilities: Sequence[float], is_true: Sequence[bool]) -> float:
    """Compute the expected calibration error.

    Args:
        probabilities: The probability that each choice is true.
        is_true: Whether each choice is true.

    Returns:
        The error, from 0 to 1. On average, it is larger than that of unlimited choices, since no
        gap can be below 0 (see the module). NaN without choices, or if a probability is not a
        number from 0 to 1.

    Example:
        The probabilities 0.75 and 0.25, of which the first is of a true choice, have the gaps
        -0.125 and 0.125, and the error 0.25.
    """
    values = np.asarray(probabilities, dtype=float)
    if not len(values) or not ((values >= 0) & (values <= 1)).all():
        return math.nan
    differences = values - np.asarray(is_true, dtype=float)
    gaps = np.bincount(_bin_numbers(values), weights=differences) / len(values)
    return float(np.abs(gaps).sum())


def calibration_stderr(
    probabilities: Sequence[float],
    is_true: Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
) -> float:
    """Compute the standard error of `calibration_error`, with the observed gaps as the true ones.

    Args:
        probabilities: The probability that each choice is true.
        is_true: Whether each choice is true.
        clusters: The cluster of each choice, such as its document. None: all are independent.

    Returns:
        The standard error. NaN for fewer than two clusters, or if a probability is not a number.
    """
    observed = _gaps_of_bins(probabilities, is_true, clusters)
    return math.nan if observed is None else _measured_error(observed.gaps, observed).stderr


def calibration_interval(
    probabilities: Sequence[float],
    is_true: Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
) -> Interval | None:
    """Compute the 95% interval of the calibration error that unlimited choices would show.

    The interval holds every true error for which the observed error is likely, i.e. less than
    1.96 standard errors from the mean of what is then measured. (Student's t takes the place of
    1.96.) To try out a larger or smaller true error, all observed gaps grow or shrink by the same
    number of their standard errors, but not below 0. If the observed error is likely for gaps of 0,
    i.e. for a calibrated model, the lower end is 0.

    Args:
        probabilities: The probability that each choice is true.
        is_true: Whether each choice is true.
        clusters: The cluster of each choice, such as its document. None: all are independent.

    Returns:
        The interval, which lies between 0 and 1. `calibration_error` may lie above it, since chance
        makes that too large. None for fewer than two clusters, or if a probability is not a number.
    """
    observed = _gaps_of_bins(probabilities, is_true, clusters)
    if observed is None:
        return None
    error = observed.moved_error(0.0)
    # As for all scores, clusters that are all alike count as one trial each.
    if observed.has_equal_clusters:
        return wilson_interval(min(1.0, error), observed.num_clusters)

    t = student_quantile(observed.degrees_of_freedom)
    calibrated = _measured_error(np.zeros_like(observed.gaps), observed)
    # A calibrated model may show an even smaller error by luck, and would then get [0, 0].
    credible_error = max(error, calibrated.quantile(-_MOST_LUCK))
    # If they shrink by so many standard errors, all gaps are 0.
    most_shrunk = -float((np.abs(observed.gaps) / observed.stderrs).max())

    def upper_excess(shift: float) -> float:
        """Return how far the largest error that fits the moved gaps is above the observed one."""
        return _measured_error(observed.moved(shift), observed).quantile(t) - error

    def lower_excess(shift: float) -> float:
        """Return how far the smallest error that fits the moved gaps is above the observed one."""
        return _measured_error(observed.moved(shift), observed).quantile(-t) - credible_error

    low = 0.0
    if error > calibrated.quantile(t):
        low = observed.moved_error(_find_root(upper_excess, most_shrunk, 0.0))
    # If gaps grow by t + 1 standard errors, the observed error no longer fits them.
    high = observed.moved_error(_find_root(lower_excess, most_shrunk, t + 1))
    return Interval(low, min(1.0, high))


@dataclass(frozen=True, eq=False)
class _Gaps:
    """The observed gaps of the bins that hold any choices, with their uncertainty."""

    gaps: Floats
    """The gap of each bin, which is above 0 if its probabilities are too high."""

    covariance: Floats
    """The covariance of the gaps, of shape (bins, bins)."""

    degrees_of_freedom: float
    """The degrees of freedom of the covariance."""

    num_clusters: int
    """The number of clusters."""

    has_equal_clusters: bool
    """Whether all clusters have the same gaps, so that these show no spread."""

    @property
    def stderrs(self) -> Floats:
        """The standard error of each gap."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def moved(self, shift: float) -> Floats:
        """Return the gaps after all of them grow by ``shift`` standard errors, or shrink to 0.

        Example:
            Gaps of 0.3, -0.1 and -0.4 with standard errors of 0.1 become 0.1, 0 and -0.2 for the
            shift -2.
        """
        sizes = np.maximum(np.abs(self.gaps) + shift * self.stderrs, 0.0)
        return np.asarray(np.copysign(sizes, self.gaps))

    def moved_error(self, shift: float) -> float:
        """Return the calibration error of the moved gaps."""
        return float(np.abs(self.moved(shift)).sum())


def _gaps_of_bins(
    probabilities: Sequence[float],
    is_true: Sequence[bool],
    clusters: Sequence[Hashable] | None,
) -> _Gaps | None:
    """Compute the gap of each bin that holds choices, and the covariance of the gaps.

    Args:
        probabilities: The probability that each choice is true.
        is_true: Whether each choice is true.
        clusters: The cluster of each choice. None: all choices are independent.

    Returns:
        The gaps. None for fewer than two clusters, or if a probability is not a number.
    """
    values = np.asarray(probabilities, dtype=float)
    truths = np.asarray(is_true, dtype=float)
    num_choices = len(values)
    cluster_numbers = np.arange(num_choices) if clusters is None else number_clusters(clusters)
    cluster_sizes = np.bincount(cluster_numbers)
    num_clusters = len(cluster_sizes)
    share_of_true = mean_of_counts(np.bincount(cluster_numbers, truths), cluster_sizes)
    if share_of_true is None or not np.isfinite(values).all():
        return None

    bins = _bin_numbers(values)
    choices_per_bin = np.bincount(bins, minlength=_NUM_BINS)
    is_used = choices_per_bin > 0
    # What each choice adds to the gap of its bin, summed over the choices of each cluster.
    table = np.zeros((num_clusters, _NUM_BINS))
    np.add.at(table, (cluster_numbers, bins), values - truths)
    gaps_by_cluster = table[:, is_used] / num_choices
    gaps = gaps_by_cluster.sum(axis=0)
    covariance = _covariance_of_sums(gaps_by_cluster, cluster_sizes / num_choices)
    has_equal_clusters = bool(covariance.max() < _ROUNDING)

    # The variance of a gap is at least that of independent choices. Otherwise it would be too small
    # for a bin of few choices, or of low probabilities of which none happens to be true.
    num_true = np.asarray(np.bincount(bins, truths, _NUM_BINS)[is_used], dtype=float)
    least_variances = _variances_of_independent_choices(choices_per_bin[is_used], num_true)
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] = np.maximum(covariance[diagonal], least_variances)
    return _Gaps(
        gaps=gaps,
        covariance=covariance,
        degrees_of_freedom=share_of_true.degrees_of_freedom,
        num_clusters=num_clusters,
        has_equal_clusters=has_equal_clusters,
    )


def _covariance_of_sums(parts: Floats, shares: Floats) -> Floats:
    """Compute the covariance of sums over clusters.

    Args:
        parts: What each cluster adds to each sum, of shape (clusters, sums).
        shares: The share of all choices that each cluster has.
    """
    # A large cluster pulls the sums towards itself, which the division corrects (Bell and
    # McCaffrey, 2002).
    leverages = shares[:, None]
    residuals = (parts - leverages * parts.sum(axis=0)) / np.sqrt(1 - leverages)
    return np.asarray(residuals.T @ residuals)


def _variances_of_independent_choices(num_choices: Numbers, num_true: Floats) -> Floats:
    """Compute the variance that the gap of each bin would have if all choices were independent.

    Args:
        num_choices: The number of choices in each bin.
        num_true: The number of true choices in each bin.
    """
    # A share of 0 or 1 would have no variance, so half a true and half a false choice are added.
    shares = (num_true + 0.5) / (num_choices + 1)
    return np.asarray(num_choices * shares * (1 - shares) / num_choices.sum() ** 2)


def _bin_numbers(probabilities: Floats) -> Numbers:
    """Return the number of the bin of each probability, from 0. The last bin includes 1."""
    return np.minimum((probabilities * _NUM_BINS).astype(np.intp), _NUM_BINS - 1)


class _Measured(NamedTuple):
    """The distribution of the calibration error that is measured for certain true gaps."""

    mean: float
    """Its mean."""

    stderr: float
    """Its standard deviation."""

    def quantile(self, deviations: float) -> float:
        """Return the error that lies so many standard deviations above the mean."""
        return self.mean + deviations * self.stderr


def _measured_error(true_gaps: Floats, observed: _Gaps) -> _Measured:
    """Compute the mean and the deviation of the error that is measured for certain true gaps.

    A measured gap has a normal distribution with the mean g and the standard error s, so its size
    has a folded normal one (Leone, Nelson and Nottingham, 1961). For z = g / s and the slope
    a = 2 Phi(z) - 1, the mean of the size is 2 s phi(z) + a g, and its variance is
    g² + s² - mean². The covariance of two sizes is about that of the gaps times both slopes. The
    variance of the error, a sum of sizes, is the sum of this covariance matrix of the sizes.

    Args:
        true_gaps: The true gap of each bin.
        observed: The observed gaps, of which the covariance counts.
    """
    # scipy takes long to import.
    from scipy.special import ndtr

    stderrs = observed.stderrs
    z = true_gaps / stderrs
    slopes = 2 * ndtr(z) - 1
    densities = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    means = 2 * stderrs * densities + slopes * true_gaps
    variances = true_gaps**2 + stderrs**2 - means**2

    # The products of slopes and covariances are right outside of the diagonal. On the diagonal, the
    # variances of the sizes take their place.
    sum_of_products = slopes @ observed.covariance @ slopes
    products_on_diagonal = (slopes * stderrs) ** 2
    variance = float(sum_of_products - products_on_diagonal.sum() + variances.sum())
    return _Measured(float(means.sum()), math.sqrt(max(0.0, variance)))


def _find_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Find where a rising function crosses 0 between two points, by bisection.

    Args:
        function: A function that is below 0 at ``low`` and above 0 at ``high``.
        low: The lower point.
        high: The upper point.
    """
    # (scipy.optimize has it too, but takes a third of a second to import.)
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
