"""Scores corrected by people: what a judge said of all units, and people of some of them
(prediction-powered inference).

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
_LEVERAGE = 0.9  # that a label is taken to have at most


@dataclass(frozen=True, eq=False)
class Units:
    """``judged`` and ``people`` are the counts of each unit, shape (units, counts): zeros where the
    judge has no score, anything where nobody was asked. ``labelled`` says what people have answered
    for; ``clusters`` and ``strata`` number each unit's from
    0. ``weights`` are one over the chance that a unit was drawn; only their ratios within a stratum
    count."""

    judged: Floats
    people: Floats
    labelled: NDArray[np.bool_]
    clusters: Numbers
    strata: Numbers
    weights: Floats


@dataclass(frozen=True)
class Estimate:
    """A score with its 95% interval and standard error; ``weight`` is lambda, ``labelled`` the
    number of labels."""

    value: float
    low: float
    high: float
    stderr: float
    weight: float
    labelled: int


def estimate(
    units: Units,
    value: Value,
    low: float = -math.inf,
    high: float = math.inf,
    weight: float | None = None,
) -> Estimate | None:
    """The corrected score, which ``value`` makes out of sums, between ``low`` and ``high``;
    ``weight`` is lambda if it is not tuned. With people's counts of all units it is the plain one.
    None below two labelled clusters, or if undefined."""
    drawn = _Drawn(replace(units, strata=_with_labels(units)))
    if len(np.unique(drawn.clusters)) < 2:
        return None
    is_tuned = weight is None and not units.labelled.all()
    if weight is None:
        weight = 1.0 if is_tuned else 0.0
        for _ in range(2 * is_tuned):
            weight = drawn.tuned(slopes(value, drawn.sums(weight)))
    sums = drawn.sums(weight)
    found = value(sums.tolist())
    if math.isnan(found):
        return None
    stderr, quantile = drawn.error(slopes(value, sums), weight, is_tuned)
    least, most = interval(found, stderr, quantile, low, high)
    if math.isfinite(high - low):
        alike, share = drawn.alike(value)
        reach = share * (high - low)
        least = min(least, max(low, min(found, high) - reach)) if alike > low else least
        most = max(most, min(high, max(found, low) + reach)) if alike < high else most
    return Estimate(min(max(found, low), high), least, most, stderr, weight, len(drawn.own))


def interval(
    value: float, stderr: float, quantile: float, low: float, high: float
) -> tuple[float, float]:
    """``quantile`` standard errors to both sides, of what lies between ``low`` and ``high``:
    symmetric on the scale of log-odds, unless an end of the plain interval lies outside, which is
    then cut off."""
    half = quantile * stderr
    if (
        not (math.isfinite(low) and math.isfinite(high))
        or value - half <= low
        or value + half >= high
    ):
        return min(high, max(low, value - half)), max(low, min(high, value + half))
    odds, width = (
        (value - low) / (high - value),
        half * (high - low) / ((value - low) * (high - value)),
    )
    least, most = (low + (high - low) / (1 + math.exp(side * width) / odds) for side in (1, -1))
    return least, most


def _with_labels(units: Units) -> Numbers:
    """The strata, numbered without gaps; those with fewer than two labels, without a variance, join
    the largest of the others."""
    sizes = np.bincount(units.strata)
    labels = np.bincount(units.strata, units.labelled)
    is_short = (labels < 2) & (labels < sizes)
    numbers = np.where(is_short, np.argmax(np.where(is_short, 0, sizes)), np.arange(len(sizes)))
    is_used = np.bincount(numbers, sizes, len(sizes)) > 0
    return np.asarray((np.cumsum(is_used) - 1)[numbers][units.strata])


class _Drawn:
    """Units of which some were drawn; ``own`` are the places of the labelled ones, and what is of
    them has one row each."""

    def __init__(self, units: Units) -> None:
        self.own = np.flatnonzero(units.labelled)
        self.clusters, self.strata = units.clusters[self.own], units.strata[self.own]
        self.people, self.judged = units.people[self.own], units.judged[self.own]
        self.sizes = np.bincount(units.strata)
        given = units.weights[self.own]
        with np.errstate(divide="ignore"):
            # What each stands for: together the units of its stratum, those that were drawn and not
            # answered included.
            self.weights = (
                given * (self.sizes / np.bincount(self.strata, given, len(self.sizes)))[self.strata]
            )
        self.extra = (
            self.weights - 1
        )  # what each stands for beside itself: 0 in strata that are labelled through
        self.open = self.extra > 1e-9
        self._units = units

    def alike(self, value: Value) -> tuple[float, float]:
        """What every label scores, if all are alike where not everything is labelled (else NaN):
        they have no variance, but are not certain. And how large a share of the units may be unlike
        them: the end of the interval of Clopper and Pearson for as many clusters as these count for
        by their weights (Kish), of the part without labels."""
        own = np.array(
            [value(counts) if any(counts) else math.nan for counts in self.people.tolist()]
        )
        has_part = ~np.isnan(own)
        is_open = has_part & self.open
        if not is_open.any() or np.ptp(own[is_open]) > 0:
            return math.nan, 0.0
        extra = np.bincount(self.clusters, self.extra * is_open)
        total = float(extra.sum())
        bound = 1 - 0.025 ** (float((extra**2).sum()) / total**2)
        return float(own[is_open][0]), bound * total / float(self.weights[has_part].sum())

    @cached_property
    def _by_cluster(self) -> tuple[Floats, Floats]:
        """The judge's counts of each cluster, and how many units of each stratum are in it."""
        clusters, number = self._units.clusters, int(self._units.clusters.max()) + 1
        judged = np.array(
            [np.bincount(clusters, column, number) for column in self._units.judged.T], dtype=float
        ).T
        inside = np.bincount(
            clusters * len(self.sizes) + self._units.strata, minlength=number * len(self.sizes)
        )
        return judged, inside.reshape(number, -1).astype(float)

    def sums(self, weight: float) -> Floats:
        """The corrected sums, by lambda."""
        total = self._units.judged.sum(axis=0)
        return np.asarray(
            self.weights @ self.people + weight * (total - self.weights @ self.judged)
        )

    def tuned(self, slope: Floats) -> float:
        """The lambda of the smallest variance: how labels go with what the judge says, beside how
        that varies in strata."""
        labels = np.bincount(self.strata)
        people, judged = (self._centred(counts @ slope)[1] for counts in (self.people, self.judged))
        together = np.bincount(self.strata, people * judged) / np.maximum(1, labels - 1)
        every, strata = self._units.judged @ slope, self._units.strata
        varies = np.array([np.var(every[strata == number]) for number in range(len(self.sizes))])
        left = self.sizes * (self.sizes - labels) / labels
        squares = float(left @ varies)
        return min(1.0, max(0.0, float(left @ together) / squares)) if squares > 0 else 0.0

    def error(self, slope: Floats, weight: float, is_tuned: bool) -> tuple[float, float]:
        """The standard error to the first order, and how many of it a 95% interval reaches to each
        side. Labels vary by what they are from each other, over their number less one, and wider by
        their leverage on lambda (as in the HC3 estimator of regressions). Student's t has the
        degrees of freedom that a variance of so many values with so long tails has
        (Satterthwaite's, with the kurtosis), of that part of the variance which comes from drawing
        labels. That labels of a stratum do not differ from the judge does not mean that none would:
        their variance is at least what it were if one more had differed, as much as labels do from
        each other."""
        means, deviations = self._centred((self.people - weight * self.judged) @ slope)
        labels = np.bincount(self.strata)
        judged = (
            (self.extra * self._centred(self.judged @ slope)[1]) ** 2
            if is_tuned
            else np.zeros(len(self.extra))
        )
        leverage = judged / (float(judged.sum()) or 1.0)
        own = np.sqrt(np.maximum(1, labels) / np.maximum(1, labels - 1))[self.strata]
        wide = self.extra * deviations * own / (1 - np.minimum(leverage, _LEVERAGE))
        by_cluster = self._spread(means, deviations + wide) + weight * (self._by_cluster[0] @ slope)
        number = len(by_cluster)
        variance = number / (number - 1) * float(((by_cluster - by_cluster.mean()) ** 2).sum())
        people = self.people @ slope
        among = float(
            self.weights @ (people - np.average(people, weights=self.weights)) ** 2
        ) / float(self.weights.sum())
        lacking = np.maximum(
            0.0, among / (labels + 1) - np.bincount(self.strata, deviations**2) / labels
        )
        variance += float(np.bincount(self.strata, self.extra**2) @ lacking)
        of_labels = np.bincount(self.clusters, wide)
        of_labels = of_labels[of_labels != 0]
        squares, fourths = float((of_labels**2).sum()), float((of_labels**4).sum())
        counted = (
            self.open if self.open.any() else ~self.open
        )  # where all are labelled, there is nothing to estimate
        groups, strata = (len(np.unique(each[counted])) for each in (self.clusters, self.strata))
        freedom = float(max(1, groups - strata - bool(leverage.any())))
        if fourths:
            kurtosis = len(of_labels) * fourths / squares**2
            freedom = (
                min(freedom, 2 * len(of_labels) / max(kurtosis - 1, 1e-9))
                * (variance / min(squares, variance)) ** 2
            )
        return math.sqrt(variance), float(stdtrit(max(1.0, freedom), 0.975))

    def _centred(self, values: Floats) -> tuple[Floats, Floats]:
        """The mean of each stratum, and how far each value lies from it."""
        means = np.bincount(self.strata, self.weights * values, len(self.sizes)) / self.sizes
        return means, values - means[self.strata]

    def _spread(self, means: Floats, weighted: Floats) -> Floats:
        """The sums by cluster of what stands for all units: the mean of its stratum for each, and
        the weighted deviations."""
        inside = self._by_cluster[1]
        return np.asarray(inside @ means + np.bincount(self.clusters, weighted, len(inside)))
