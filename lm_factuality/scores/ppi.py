"""Scores of a judge, corrected by people's labels of some units (prediction-powered inference).

`lm_factuality.people.correct` calls it.

Units are the rows that a score is summed over. A score is a function of the column sums of its
units' counts: a mean (value times weight, weight), an error rate (errors, segments), or more. With
the judge's counts f of all units and people's counts y of those that were drawn, the sums are those
of lambda f over all units, plus the sums of y - lambda f over the labelled ones, weighted up to all
units of their stratum (Angelopoulos et al., 2023, arXiv 2301.09633). Lambda is the one of the
smallest variance, kept between 0 (the judge is not believed at all, which leaves the labels alone)
and 1: the power tuning of PPI++ (Angelopoulos, Duchi and Zrnic, 2023, arXiv 2311.01453).

The package ppi-python does this for means of independent units. The scores here are ratios of sums,
of units that come in clusters and were drawn by stratum; on the mean of independent units both
agree (``tests/scores/test_ppi.py``)."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lm_factuality.scores.paired import slopes
from lm_factuality.scores.statistics import Floats, Value

Numbers = NDArray[np.intp]
_MOST_LEVERAGE = 0.9  # of a label on lambda
_NONE = 1e-9  # what a labelled unit stands for beside itself, if that is nothing


@dataclass(frozen=True, eq=False)
class Units:
    """The rows that a score is summed over, some of which people have labelled."""

    judged: Floats
    """The judge's counts, of shape (units, counts): zeros where the judge has no score."""

    people: Floats
    """People's counts, of the same shape: anything where nobody was asked."""

    labelled: NDArray[np.bool_]
    """Which units people have labelled."""

    clusters: Numbers
    """The number of each unit's cluster, from 0."""

    strata: Numbers
    """The number of each unit's stratum, from 0."""

    weights: Floats
    """One over the chance that a unit was drawn. Only ratios within a stratum count."""


@dataclass(frozen=True)
class Estimate:
    """A corrected score with its 95% interval and its standard error."""

    value: float
    low: float
    high: float
    stderr: float
    weight: float
    """Lambda: how much the judge is believed, from 0 to 1."""

    labelled: int
    """The number of labels."""


def estimate(
    units: Units,
    value: Value,
    low: float = -math.inf,
    high: float = math.inf,
    weight: float | None = None,
) -> Estimate | None:
    """Correct a score by people's labels.

    Args:
        value: Makes the score out of sums of counts.
        low: The lowest value that the score can have.
        high: The highest.
        weight: Lambda, if it is not to be tuned.

    Returns:
        The corrected score, which is the plain one if everything is labelled. None if it is not
        defined, or for fewer than two labelled clusters.
    """
    sample = _LabelledSample(replace(units, strata=_strata_with_labels(units)))
    if len(np.unique(sample.clusters)) < 2:
        return None
    is_tuned = weight is None and not units.labelled.all()
    if is_tuned:
        weight = 1.0
        for _ in range(2):
            weight = sample.tuned_weight(slopes(value, sample.sums(weight)))
    weight = weight or 0.0
    sums = sample.sums(weight)
    score = value(sums.tolist())
    if math.isnan(score):
        return None
    stderr, quantile = sample.error(slopes(value, sums), weight, is_tuned)
    lower, upper = interval_within(score, quantile * stderr, low, high)
    if math.isfinite(high - low):
        common, share = sample.common_label(value)
        reach = share * (high - low)
        if common > low:
            lower = min(lower, max(low, min(score, high) - reach))
        if common < high:
            upper = max(upper, min(high, max(score, low) + reach))
    return Estimate(min(max(score, low), high), lower, upper, stderr, weight, len(sample.people))


def interval_within(value: float, half: float, low: float, high: float) -> tuple[float, float]:
    """Return an interval that reaches ``half`` to both sides, on the scale of log-odds.

    If an end of the plain interval lies beyond a bound, or there is none, it is the plain one, cut
    off at the bounds.
    """
    is_bounded = math.isfinite(low) and math.isfinite(high)
    if not is_bounded or value - half <= low or value + half >= high:
        return min(high, max(low, value - half)), max(low, min(high, value + half))
    odds = (value - low) / (high - value)
    width = half * (high - low) / ((value - low) * (high - value))
    return (
        low + (high - low) / (1 + math.exp(width) / odds),
        low + (high - low) / (1 + math.exp(-width) / odds),
    )


def _strata_with_labels(units: Units) -> Numbers:
    """Number the strata without gaps.

    Those with fewer than two labels have no variance. They join the largest of the others.
    """
    sizes = np.bincount(units.strata)
    labels = np.bincount(units.strata, units.labelled)
    is_short = (labels < 2) & (labels < sizes)
    largest = np.argmax(np.where(is_short, 0, sizes))
    numbers = np.where(is_short, largest, np.arange(len(sizes)))
    is_used = np.bincount(numbers, sizes, len(sizes)) > 0
    return np.asarray((np.cumsum(is_used) - 1)[numbers][units.strata])


class _LabelledSample:
    """The labelled units, one row each, as a sample of all units."""

    def __init__(self, units: Units) -> None:
        labelled = units.labelled
        self.units = units
        self.people = units.people[labelled]
        self.judged = units.judged[labelled]
        self.clusters = units.clusters[labelled]
        self.strata = units.strata[labelled]
        self.sizes = np.bincount(units.strata)
        self.labels = np.bincount(self.strata)
        drawn = units.weights[labelled]
        with np.errstate(divide="ignore"):
            scale = self.sizes / np.bincount(self.strata, drawn, len(self.sizes))
        # The labels of a stratum together stand for all its units, even where some that were
        # drawn have no answer.
        self.weights = drawn * scale[self.strata]
        self.extra = self.weights - 1  # what a label stands for beside itself

    def sums(self, weight: float) -> Floats:
        """Return the corrected sums of counts for a lambda."""
        total = self.units.judged.sum(axis=0)
        return np.asarray(
            self.weights @ self.people + weight * (total - self.weights @ self.judged)
        )

    def tuned_weight(self, slope: Floats) -> float:
        """Return the lambda of the smallest variance.

        It compares how people's labels vary together with the judge's with how the judge's vary.
        """
        people = self._centred(self.people @ slope)[1]
        judged = self._centred(self.judged @ slope)[1]
        together = np.bincount(self.strata, people * judged) / np.maximum(1, self.labels - 1)
        all_judged = self.units.judged @ slope
        variances = [
            np.var(all_judged[self.units.strata == number]) for number in range(len(self.sizes))
        ]
        factors = self.sizes * (self.sizes - self.labels) / self.labels
        squares = float(factors @ np.array(variances))
        if squares <= 0:
            return 0.0
        return min(1.0, max(0.0, float(factors @ together) / squares))

    def error(self, slope: Floats, weight: float, is_tuned: bool) -> tuple[float, float]:
        """Return the standard error to the first order, and how many of it an interval reaches.

        Labels vary by their deviations from their stratum's mean, widened by their number less one
        and by their leverage on lambda (as in the HC3 estimator of regressions).
        """
        means, deviations = self._centred((self.people - weight * self.judged) @ slope)
        pull = np.zeros(len(self.extra))
        if is_tuned:
            pull = (self.extra * self._centred(self.judged @ slope)[1]) ** 2
        leverage = pull / (float(pull.sum()) or 1.0)
        few = np.sqrt(np.maximum(1, self.labels) / np.maximum(1, self.labels - 1))[self.strata]
        widened = self.extra * deviations * few / (1 - np.minimum(leverage, _MOST_LEVERAGE))

        judged, inside = self._by_cluster
        labelled = np.bincount(self.clusters, deviations + widened, len(inside))
        by_cluster = inside @ means + labelled + weight * (judged @ slope)
        number = len(by_cluster)
        variance = number / (number - 1) * float(((by_cluster - by_cluster.mean()) ** 2).sum())
        variance += self._lacking_variance(slope, deviations)
        quantile = self._quantile(widened, variance, bool(leverage.any()))
        return math.sqrt(variance), quantile

    def _lacking_variance(self, slope: Floats, deviations: Floats) -> float:
        """Return what the strata's variances lack of their least.

        That labels of a stratum do not differ from the judge does not mean that none would: their
        variance is at least what it were if one more had differed, as much as labels do from each
        other.
        """
        people = self.people @ slope
        mean = np.average(people, weights=self.weights)
        among = float(self.weights @ (people - mean) ** 2) / float(self.weights.sum())
        variances = np.bincount(self.strata, deviations**2) / self.labels
        lacking = np.maximum(0.0, among / (self.labels + 1) - variances)
        return float(np.bincount(self.strata, self.extra**2) @ lacking)

    def _quantile(self, widened: Floats, variance: float, has_leverage: bool) -> float:
        """Return the 97.5% quantile of Student's t.

        Its degrees of freedom are those of a variance of as many values with as long tails
        (Satterthwaite's, with the kurtosis), for the part of the variance that comes from labels.
        """
        counted = self.extra > _NONE
        if not counted.any():  # where all are labelled, there is nothing to estimate
            counted = ~counted
        groups = len(np.unique(self.clusters[counted]))
        strata = len(np.unique(self.strata[counted]))
        freedom = float(max(1, groups - strata - has_leverage))
        sums = np.bincount(self.clusters, widened)
        sums = sums[sums != 0]
        squares = float((sums**2).sum())
        fourths = float((sums**4).sum())
        if fourths:
            kurtosis = len(sums) * fourths / squares**2
            of_tails = 2 * len(sums) / max(kurtosis - 1, 1e-9)
            freedom = min(freedom, of_tails) * (variance / min(squares, variance)) ** 2
        return float(stdtrit(max(1.0, freedom), 0.975))

    def common_label(self, value: Value) -> tuple[float, float]:
        """Return what every label scores if all are alike, and how many units may be unlike them.

        Such labels have no variance, but are not certain. The share of units that may differ is
        the end of Clopper and Pearson's interval for as many clusters as these count for by their
        weights (Kish). The score is NaN if labels differ or everything is labelled.
        """
        scores = np.array(
            [value(counts) if any(counts) else math.nan for counts in self.people.tolist()]
        )
        is_scored = ~np.isnan(scores)
        is_open = is_scored & (self.extra > _NONE)
        if not is_open.any() or np.ptp(scores[is_open]) > 0:
            return math.nan, 0.0
        extra = np.bincount(self.clusters, self.extra * is_open)
        total = float(extra.sum())
        bound = 1 - 0.025 ** (float((extra**2).sum()) / total**2)
        return float(scores[is_open][0]), bound * total / float(self.weights[is_scored].sum())

    @cached_property
    def _by_cluster(self) -> tuple[Floats, Floats]:
        """The judge's counts of each cluster, and its numbers of units by stratum."""
        clusters = self.units.clusters
        number = int(clusters.max()) + 1
        strata = len(self.sizes)
        columns = [np.bincount(clusters, column, number) for column in self.units.judged.T]
        places = clusters * strata + self.units.strata
        inside = np.bincount(places, minlength=number * strata).reshape(number, -1)
        return np.array(columns, dtype=float).T, inside.astype(float)

    def _centred(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the mean of each stratum, and how far each value lies from it."""
        means = np.bincount(self.strata, self.weights * values, len(self.sizes)) / self.sizes
        return means, values - means[self.strata]
