"""Tests whether two models that answered the same rows differ by more than chance.

If the models do not differ, whose answers to a cluster of rows are whose is the toss of a coin
(Fisher's randomisation test). Clusters are therefore flipped whole, and no distribution is assumed.
For clusters of one row, right or wrong, this is McNemar's exact test.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import newton
from scipy.stats import norm

from lm_factuality.scores.statistics import Z80, Z95, Floats, Value

MOST_FLIPPED = 18  # clusters of which all 2**n flips are gone through
MOST_SWAPPED = 10  # the same where a score of each has to be computed
_MOST_COUNTED = 100_000  # the largest sum whose distribution is computed
_CLOSE = 1e-9  # shares of a size below this are rounding


def flip_test(differences: Floats) -> float:
    """Test whether a sum of differences is 0.

    The sign of each difference is a coin's. The test is exact for whole numbers, as of accuracies,
    by the distribution of the sum, and for few clusters by all flips. For others it is Lugannani
    and Rice's saddlepoint approximation (Robinson, 1982), which is close far into the tail, where
    random draws would have to be millions.

    Args:
        differences: One for each cluster.

    Returns:
        The two-sided p-value.
    """
    sizes = np.abs(differences)
    sizes = sizes[sizes > _CLOSE * sizes.max(initial=0.0)]
    total = abs(float(differences.sum()))
    if not len(sizes) or total <= _CLOSE * sizes.sum():
        return 1.0
    counts = np.rint(sizes)
    is_whole = counts.min() > 0 and np.abs(sizes - counts).max() < _CLOSE
    if is_whole and counts.sum() <= _MOST_COUNTED:
        return _p_of_counts(counts.astype(int), round(total))
    if len(sizes) <= MOST_FLIPPED:
        sums = _all_sums(sizes[:, None])[:, 0]
        return float((np.abs(sums) >= total * (1 - _CLOSE)).mean())
    return _p_by_saddlepoint(sizes, total)


def swap_test(a: Floats, b: Floats, value: Value) -> float:
    """Test whether two models have the same score.

    The counts of each cluster change sides by the toss of a coin. The test is exact for few
    clusters, less the swaps without a score. For others it is `flip_test` of what each cluster adds
    to the difference to the first order. A swap turns the sign of that, so the rest is of the third
    order.

    Args:
        a: The counts of one model, a row for each cluster.
        b: The counts of the other.
        value: Makes the score out of sums of counts.

    Returns:
        The two-sided p-value.
    """
    middle = (a + b).sum(axis=0) / 2
    half = (a - b) / 2
    half = half[np.any(half != 0, axis=1)]
    observed = abs(value(a.sum(axis=0).tolist()) - value(b.sum(axis=0).tolist()))
    if not len(half) or observed <= _CLOSE:
        return 1.0
    if len(half) > MOST_SWAPPED:
        return flip_test(half @ slopes(value, middle))
    differences = []
    for moved in _all_sums(half):
        difference = abs(value((middle + moved).tolist()) - value((middle - moved).tolist()))
        if not math.isnan(difference):
            differences.append(difference)
    return float((np.array(differences) >= observed * (1 - _CLOSE)).mean())


def slopes(value: Value, sums: Floats) -> Floats:
    """Return how much a score of sums rises with each of them."""
    steps = np.diag(1e-4 * np.maximum(np.abs(sums), 1.0))
    rises = []
    for step in steps:
        difference = value((sums + step).tolist()) - value((sums - step).tolist())
        rises.append(difference / (2 * step.sum()))
    return np.array(rises)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number (Holm, 1979).

    The chance of any false difference then stays below their level.
    """
    order = np.argsort(ps)
    scaled = np.arange(len(ps), 0, -1) * np.array(ps)[order]
    adjusted = np.maximum.accumulate(np.minimum(1.0, scaled))
    return list(adjusted[np.argsort(order)].tolist())


def detectable(stderr: float) -> float:
    """Return the smallest true difference that a two-sided test at 5% finds in 80% of cases.

    Args:
        stderr: The standard error of the paired difference.
    """
    return (Z95 + Z80) * stderr


def _p_of_counts(sizes: NDArray[np.int_], total: int) -> float:
    """Return the exact p-value for whole sizes.

    Clusters of one size have a binomial distribution, and the sum of all has the convolution of
    these.
    """
    chances = np.ones(1)
    for size, clusters in zip(*np.unique(sizes, return_counts=True), strict=True):
        log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, clusters + 1)))])
        log_choices = log_factorials[-1] - log_factorials - log_factorials[::-1]
        spread = np.zeros(size * clusters + 1)
        spread[::size] = np.exp(log_choices - clusters * math.log(2))
        chances = np.convolve(chances, spread)
    sums = 2 * np.arange(len(chances)) - len(chances) + 1
    return min(1.0, float(chances[np.abs(sums) >= total].sum()))


def _all_sums(rows: Floats) -> Floats:
    """Return the sums of all rows for each choice of their signs."""
    sums = np.zeros((1, rows.shape[1]))
    for row in rows:
        sums = np.concatenate([sums + row, sums - row])
    return sums


def _p_by_saddlepoint(sizes: Floats, total: float) -> float:
    """Return the probability that the sum is at least ``total`` from 0.

    Its cumulant generating function is the sum of log cosh(t * size).
    """
    scaled = sizes / sizes.max()
    wanted = total / sizes.max()
    if wanted >= scaled.sum() * (1 - _CLOSE):
        return float(2.0 ** (1 - len(sizes)))
    # Newton's method comes from below, since tanh is concave.
    root_of_mean = newton(
        lambda t: float(scaled @ np.tanh(t * scaled)) - wanted,
        x0=0.0,
        fprime=lambda t: float(scaled**2 @ (1 - np.tanh(t * scaled) ** 2)),
        tol=1e-12,
        rtol=1e-8,
        maxiter=100,
    )
    t = float(root_of_mean)
    cumulant = float((np.logaddexp(t * scaled, -t * scaled) - math.log(2)).sum())
    curvature = float(scaled**2 @ (1 - np.tanh(t * scaled) ** 2))
    root = math.sqrt(2 * (t * wanted - cumulant))
    normal = float(2 * norm.sf(root))
    if root < 1e-3:  # the formula's two poles cancel there, and the sum is normal
        return normal
    density = float(norm.pdf(root))
    return min(1.0, normal + 2 * density * (1 / (t * math.sqrt(curvature)) - 1 / root))
