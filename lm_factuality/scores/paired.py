"""Whether two models that answered the same rows differ by more than chance.

If the models do not differ, whose answers to a cluster of rows are whose is the toss of a coin
(Fisher's randomisation test). So clusters are flipped whole, and no distribution is assumed. Of
clusters of one row, right or wrong, it is McNemar's exact test."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lm_factuality.scores.statistics import Z80, Z95, Floats, Value

MOST_FLIPPED = 18  # clusters of which all 2**n flips are gone through
MOST_SWAPPED = 10  # the same where a score of each has to be computed
_MOST_COUNTED = 100_000
_CLOSE = 1e-9


def flip_test(differences: Floats) -> float:
    """The two-sided p-value of the sum of ``differences``, one a cluster, when the sign of each is
    a coin's. Exact for whole numbers, as of accuracies, by the distribution of the sum, and for few
    clusters by all flips. For others Lugannani and Rice's saddlepoint approximation (Robinson,
    1982), close far into the tail, where random draws would have to be millions."""
    sizes = np.abs(differences[np.abs(differences) > _CLOSE * np.abs(differences).max(initial=0.0)])
    total = abs(float(differences.sum()))
    if not len(sizes) or total <= _CLOSE * sizes.sum():
        return 1.0
    counts = np.rint(sizes)
    if counts.min() > 0 and np.abs(sizes - counts).max() < _CLOSE and counts.sum() <= _MOST_COUNTED:
        return _counted(counts.astype(int), round(total))
    if len(sizes) <= MOST_FLIPPED:
        return float((np.abs(_all_sums(sizes[:, None])[:, 0]) >= total * (1 - _CLOSE)).mean())
    return _saddlepoint(sizes, total)


def swap_test(a: Floats, b: Floats, value: Value) -> float:
    """The two-sided p-value of ``value(sums of a) - value(sums of b)`` when each cluster's counts
    (a row of both) change sides by the toss of a coin; ``value`` makes a score out of sums. Exact
    for few clusters (less swaps without a score). For others ``flip_test`` of what each adds to the
    difference to the first order; as a swap turns its sign, the rest is of the third."""
    middle, half = (a + b).sum(axis=0) / 2, (a - b) / 2
    half = half[np.any(half != 0, axis=1)]
    observed = abs(value(a.sum(axis=0).tolist()) - value(b.sum(axis=0).tolist()))
    if not len(half) or observed <= _CLOSE:
        return 1.0
    if len(half) <= MOST_SWAPPED:
        moved = _all_sums(half)
        pairs = zip((middle + moved).tolist(), (middle - moved).tolist(), strict=True)
        found = np.abs([value(one) - value(other) for one, other in pairs])
        return float((found[~np.isnan(found)] >= observed * (1 - _CLOSE)).mean())
    return flip_test(half @ slopes(value, middle))


def slopes(value: Value, sums: Floats) -> Floats:
    """How much a score out of ``sums`` rises with each of them."""
    steps = np.diag(1e-4 * np.maximum(np.abs(sums), 1.0))
    return np.array(
        [
            (value((sums + step).tolist()) - value((sums - step).tolist())) / (2 * step.sum())
            for step in steps
        ]
    )


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number (Holm, 1979), so that the chance of any false
    difference stays below their level."""
    order = np.argsort(ps)
    highest = np.maximum.accumulate(
        np.minimum(1.0, np.arange(len(ps), 0, -1) * np.array(ps)[order])
    )
    return list(highest[np.argsort(order)].tolist())


def detectable(stderr: float) -> float:
    """The smallest true difference that a two-sided test at 5% finds in 80% of cases, by the paired
    difference's error."""
    return (Z95 + Z80) * stderr


def normal_p(difference: float, stderr: float) -> float:
    """The two-sided p-value of a difference with a normal error, for models that did not answer the
    same rows."""
    return math.erfc(abs(difference) / stderr / math.sqrt(2)) if stderr else float(difference == 0)


def _counted(sizes: NDArray[np.int_], total: int) -> float:
    """Exact: clusters of one size give a binomial each, and the sum of all has their
    convolution."""
    chances = np.ones(1)
    for size, clusters in zip(*np.unique(sizes, return_counts=True), strict=True):
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, clusters + 1)))])
        spread = np.zeros(size * clusters + 1)
        spread[::size] = np.exp(logs[-1] - logs - logs[::-1] - clusters * math.log(2))
        chances = np.convolve(chances, spread)
    sums = 2 * np.arange(len(chances)) - len(chances) + 1
    return min(1.0, float(chances[np.abs(sums) >= total].sum()))


def _all_sums(rows: Floats) -> Floats:
    sums = np.zeros((1, rows.shape[1]))
    for row in rows:
        sums = np.concatenate([sums + row, sums - row])
    return sums


def _saddlepoint(sizes: Floats, total: float) -> float:
    """P(|sum| >= ``total``), whose cumulant generating function is the sum of log cosh(t size)."""
    scaled, wanted = sizes / sizes.max(), total / sizes.max()
    if wanted >= scaled.sum() * (1 - _CLOSE):
        return float(2.0 ** (1 - len(sizes)))
    t = 0.0
    for _ in range(100):  # Newton's method, which comes from below since tanh is concave
        slopes = np.tanh(t * scaled)
        step = (wanted - float(scaled @ slopes)) / float(scaled**2 @ (1 - slopes**2))
        t += step
        if step <= 1e-10 * (1 + t):
            break
    cumulant = float((np.logaddexp(t * scaled, -t * scaled) - math.log(2)).sum())
    curvature = float(scaled**2 @ (1 - np.tanh(t * scaled) ** 2))
    root, other = math.sqrt(2 * (t * wanted - cumulant)), t * math.sqrt(curvature)
    if root < 1e-3:  # the formula's two poles cancel there, and the sum is normal
        return math.erfc(root / math.sqrt(2))
    density = math.exp(-(root**2) / 2) / math.sqrt(2 * math.pi)
    return min(1.0, math.erfc(root / math.sqrt(2)) + 2 * density * (1 / other - 1 / root))
