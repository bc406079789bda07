"""Tests whether two models that answered the same rows differ by more than chance.

`lm_factuality.benchmarks.pairs` calls them. They are Fisher's randomisation tests: if two models do
not differ, a coin may as well decide which of the two gave which answers to a cluster of rows, so
no distribution is assumed. For clusters of one row, right or wrong, this is McNemar's exact test.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from lm_factuality.scores.intervals import Floats, ScoreOfSums, score_gradient

MAX_CLUSTERS_FLIPPED = 18  # up to so many, flip_test goes through all 2**n choices of signs
MAX_CLUSTERS_SWAPPED = 10  # the same for swap_test, which has to compute a score for each choice
_MAX_WHOLE_SUM = 100_000  # the largest sum of whole numbers whose distribution is computed
_MAX_DENOMINATOR = 100_000  # of the sizes as fractions of the largest one
_ROUNDING = 1e-9  # shares of a size below this are rounding
_MAX_NORMAL_ROOT = 1e-3  # the saddlepoint's r below which its formula is rounding
_MAX_STEPS = 100  # of Newton's method, which takes about ten


def flip_test(differences: Floats) -> float:
    """Test whether a sum of differences is 0, by a randomisation test that flips their signs.

    If the models do not differ, each difference might as well have the other sign. The p-value is
    the share of all choices of signs whose sum is at least as far from 0 as the observed one.

    It is exact for up to 18 clusters. For more clusters it is exact if the differences have a
    common step, such as 1 for differences in right answers or 1/20 for means of 20 rows, and add up
    to at most 100,000 steps. Otherwise it is Lugannani and Rice's saddlepoint approximation
    (Robinson, 1982), which is accurate even for p-values that would take millions of random draws.

    Args:
        differences: The difference between two models in each cluster.

    Returns:
        The two-sided p-value, or NaN if a difference is not a finite number.
    """
    if not np.isfinite(differences).all():
        return math.nan
    sizes = np.abs(differences)
    # Clusters without a difference have no sign to flip.
    sizes = sizes[sizes > _ROUNDING * sizes.max(initial=0.0)]
    total = abs(float(differences.sum()))
    # Every choice of signs reaches a sum of 0.
    if not len(sizes) or total <= _ROUNDING * sizes.sum():
        return 1.0

    step = _common_step(sizes)
    if step is not None:
        whole_sizes = np.rint(sizes / step).astype(int)
        return _exact_p_of_whole_sizes(whole_sizes, round(total / step))

    if len(sizes) <= MAX_CLUSTERS_FLIPPED:
        # The sizes are a table with a single column here.
        sums = _sums_for_all_signs(sizes[:, None])[:, 0]
        return float((np.abs(sums) >= total * (1 - _ROUNDING)).mean())
    return _saddlepoint_p(sizes, total)


def _common_step(sizes: Floats) -> float | None:
    """Find the largest number of which all sizes are multiples, such as 0.25 for 0.5 and 0.75.

    Args:
        sizes: The absolute difference in each cluster, above 0.

    Returns:
        The number, or None if there is none, or the sizes add up to more than 100,000 times it.
    """
    largest = float(sizes.max())
    # The largest size must be a whole number of steps, and so must each share of it. 2/3 and 1/2 of
    # it need 6 steps, the least common multiple of 3 and 2.
    num_steps = 1
    for share in np.unique(sizes / largest).tolist():
        fraction = Fraction(share).limit_denominator(_MAX_DENOMINATOR)
        if abs(fraction - Fraction(share)) > _ROUNDING:
            return None
        num_steps = math.lcm(num_steps, fraction.denominator)
        if sizes.sum() / largest * num_steps > _MAX_WHOLE_SUM:
            return None
    return largest / num_steps


def _exact_p_of_whole_sizes(sizes: NDArray[np.int_], total: int) -> float:
    """Compute the exact p-value of the sign-flipping test for whole numbers.

    Clusters of the same size have a binomial distribution of signs. The distribution of the sum is
    the convolution of these distributions.

    Example:
        For the sizes 3 and 3, the differences with a positive sign add up to 0, 3 or 6 with the
        probabilities 1/4, 1/2 and 1/4. The sum of both differences is then -6, 0 or 6, and
        P(|sum| >= 6) is 1/2.

    Args:
        sizes: The absolute difference in each cluster.
        total: The absolute sum of the observed differences.

    Returns:
        P(|sum| >= total), over all choices of signs.
    """
    # probabilities[k] is the chance that the differences with a positive sign add up to k.
    probabilities = np.ones(1)
    for size, num_clusters in zip(*np.unique(sizes, return_counts=True), strict=True):
        # Positive signs in j of these clusters add j * size, with the chance of j heads.
        probabilities_of_size = np.zeros(size * num_clusters + 1)
        probabilities_of_size[::size] = _coin_probabilities(num_clusters)
        probabilities = np.convolve(probabilities, probabilities_of_size)

    # The negative differences add up to k - sum_of_sizes, so the sum of all is 2k - sum_of_sizes.
    sum_of_sizes = len(probabilities) - 1
    sums = 2 * np.arange(len(probabilities)) - sum_of_sizes
    return min(1.0, float(probabilities[np.abs(sums) >= total].sum()))


def _coin_probabilities(num_coins: int) -> Floats:
    """Return the probabilities of 0 to n heads among n coins.

    Logarithms keep the binomial coefficients of many coins from overflowing. (The rounding of
    scipy's binomial distribution shows even for three coins.)
    """
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, num_coins + 1)))])
    log_coefficients = log_factorials[-1] - log_factorials - log_factorials[::-1]
    return np.asarray(np.exp(log_coefficients - num_coins * math.log(2)))


def _sums_for_all_signs(rows: Floats) -> Floats:
    """Return the 2**n column sums of n rows, one for each choice of the signs of the rows."""
    sums = np.zeros((1, rows.shape[1]))
    for row in rows:
        sums = np.concatenate([sums + row, sums - row])
    return sums


def _saddlepoint_p(sizes: Floats, total: float) -> float:
    """Approximate P(|sum| >= total) for random signs by Lugannani and Rice's formula.

    The sum of sizes with random signs has the cumulant generating function
    K(t) = sum(log cosh(t * size)), and the saddlepoint t solves K'(t) = total. The two-sided
    p-value is that of a normal deviation ``root``, with a correction for the form of the tail:

    - root = sqrt(2 * (t * total - K(t)))
    - curvature = K''(t)
    - p = 2 * (1 - Phi(root)) + 2 * phi(root) * (1 / (t * sqrt(curvature)) - 1 / root)

    Args:
        sizes: The absolute difference in each cluster.
        total: The absolute sum of the observed differences, above 0.

    Returns:
        The two-sided p-value.
    """
    # Sizes of at most 1 keep the numbers in range, and change no probability.
    scaled = sizes / sizes.max()
    target = total / sizes.max()
    if target >= scaled.sum() * (1 - _ROUNDING):
        # Only the choices in which all signs agree reach the total.
        return float(2.0 ** (1 - len(sizes)))

    saddlepoint = _saddlepoint(scaled, target)
    arguments = saddlepoint * scaled
    # log cosh(x) = log(exp(x) + exp(-x)) - log(2), in a form that cannot overflow.
    cumulant = float((np.logaddexp(arguments, -arguments) - math.log(2)).sum())
    curvature = float(scaled**2 @ (1 - np.tanh(arguments) ** 2))
    root = math.sqrt(2 * (saddlepoint * target - cumulant))
    normal_p = math.erfc(root / math.sqrt(2))
    # Near 0 the correction is a difference of two huge numbers, i.e. rounding. The normal
    # distribution alone is accurate there.
    if root < _MAX_NORMAL_ROOT:
        return normal_p
    density = math.exp(-(root**2) / 2) / math.sqrt(2 * math.pi)
    correction = 1 / (saddlepoint * math.sqrt(curvature)) - 1 / root
    return min(1.0, normal_p + 2 * density * correction)


def _saddlepoint(sizes: Floats, total: float) -> float:
    """Find the saddlepoint t, the solution of sum(size * tanh(t * size)) = total.

    The left side is K'(t), the first derivative of K(t) = sum(log cosh(t * size)). For random
    signs, K is the cumulant generating function of the sum of the sizes.

    Args:
        sizes: The absolute difference in each cluster.
        total: A number between 0 and the sum of the sizes.
    """
    # Newton's method always converges from 0, since K' is concave above 0. It stops when t is
    # accurate to 8 digits, or to 1e-12 if t itself is that small. (scipy.optimize has it too, but
    # takes half a second to import.)
    saddlepoint = 0.0
    for _ in range(_MAX_STEPS):
        tangents = np.tanh(saddlepoint * sizes)
        curvature = float(sizes**2 @ (1 - tangents**2))
        step = (total - float(sizes @ tangents)) / curvature
        saddlepoint += step
        if step <= 1e-12 + 1e-8 * saddlepoint:
            break
    return saddlepoint


def swap_test(counts_a: Floats, counts_b: Floats, score_of_sums: ScoreOfSums) -> float:
    """Test whether two models have the same score, by a randomisation test that swaps clusters.

    A swap gives the answers of model A in some clusters to model B, and those of B to A. The
    p-value is the share of all choices of clusters to swap for which the scores differ at least as
    much as the observed ones.

    More than 10 clusters have too many choices. The difference between the scores is then replaced
    by a linear function of the counts (delta method). By this function, each cluster adds one
    number to the difference, and a swap changes the sign of this number, as in `flip_test`.

    Args:
        counts_a: The counts of one model, of shape (clusters, counts).
        counts_b: The counts of the other model, of the same shape.
        score_of_sums: The score as a function of the column sums of the counts.

    Returns:
        The two-sided p-value, or NaN if a model has no score.
    """
    score_a = score_of_sums(counts_a.sum(axis=0).tolist())
    score_b = score_of_sums(counts_b.sum(axis=0).tolist())
    observed = abs(score_a - score_b)
    if math.isnan(observed):
        return math.nan
    # The sums of model A are middle + shift and those of B middle - shift, where shift is the sum
    # of the clusters' half differences. Swapping a cluster changes the sign of its half difference.
    middle = (counts_a + counts_b).sum(axis=0) / 2
    half_differences = (counts_a - counts_b) / 2
    # Swaps of clusters with equal counts change nothing.
    half_differences = half_differences[np.any(half_differences != 0, axis=1)]
    if not len(half_differences) or observed <= _ROUNDING:
        return 1.0

    if len(half_differences) > MAX_CLUSTERS_SWAPPED:
        linear_differences = half_differences @ score_gradient(score_of_sums, middle)
        return flip_test(linear_differences)
    return _exact_p_of_swaps(middle, half_differences, score_of_sums, observed)


def _exact_p_of_swaps(
    middle: Floats, half_differences: Floats, score_of_sums: ScoreOfSums, observed: float
) -> float:
    """Compute the share of swaps whose scores differ at least as much as the observed ones.

    Args:
        middle: The mean of the two models' sums.
        half_differences: Half of the difference between the models' counts in each cluster.
        score_of_sums: The score as a function of the sums.
        observed: The observed difference between the scores.

    Returns:
        The two-sided p-value. Swaps without a score are left out.
    """
    is_as_large = []
    for shift in _sums_for_all_signs(half_differences):
        score_a = score_of_sums((middle + shift).tolist())
        score_b = score_of_sums((middle - shift).tolist())
        difference = abs(score_a - score_b)
        if not math.isnan(difference):
            is_as_large.append(difference >= observed * (1 - _ROUNDING))
    return sum(is_as_large) / len(is_as_large)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number by Holm's step-down method (1979).

    The smallest of m p-values is multiplied by m, the next one by m - 1, and so on. None may be
    smaller than the one before it, or above 1. The chance of any false difference then stays below
    the level of the test.

    Args:
        p_values: The p-values of all comparisons, in any order.

    Returns:
        The adjusted p-values, in the same order.

    Example:
        ``[0.04, 0.01]`` becomes ``[0.04, 0.02]``.
    """
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    scaled = np.minimum(1.0, factors * np.array(p_values)[order])
    adjusted = np.empty(len(p_values))
    # The adjusted p-values go back to the places of the original ones.
    adjusted[order] = np.maximum.accumulate(scaled)
    return list(adjusted.tolist())
