"""Scores of a judge, corrected by people's labels of some units (prediction-powered inference).

`lm_factuality.people.correct` calls `correct_by_labels`.

Units are the rows that a score is summed over. A score is a function of the column sums of their
counts: a mean (value * weight, weight), an error rate (errors, segments), or more. With the judge's
counts f of all units and people's counts y of the labelled ones, the corrected sums are those of
lambda * f over all units, plus those of y - lambda * f over the labelled ones, weighted up to all
units of their stratum (Angelopoulos et al., 2023, arXiv 2301.09633). Lambda is the one of the
smallest variance, kept between 0 (the judge is not believed, which leaves the labels alone) and 1:
the power tuning of PPI++ (Angelopoulos, Duchi and Zrnic, 2023, arXiv 2311.01453).

The package ppi-python does this for means of independent units. The scores here are ratios of sums,
of units that come in clusters and were drawn by stratum. For the mean of independent units both
give the same numbers (``tests/scores/test_ppi.py``).
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lm_factuality.scores.intervals import Floats, ScoreOfSums, score_gradient

Numbers = NDArray[np.intp]
_MAX_LEVERAGE = 0.9  # of a label on lambda; at 1 its corrected deviation would be infinite
_ROUNDING = 1e-9  # a label that stands for less than this beyond its own unit stands for it alone
_TAIL = 0.025  # the probability of each tail outside of a 95% interval


@dataclass(frozen=True, eq=False)
class Units:
    """The rows that a score is summed over, some of which people have labelled."""

    judge_counts: Floats
    """The judge's counts, of shape (units, counts). Zeros where the judge has no score."""

    people_counts: Floats
    """People's counts, of the same shape. Any numbers where nobody was asked."""

    is_labelled: NDArray[np.bool_]
    """Whether people have labelled each unit."""

    clusters: Numbers
    """The number of each unit's cluster, from 0."""

    strata: Numbers
    """The number of the stratum from which each unit was drawn for labelling, from 0."""

    weights: Floats
    """One over the probability that a unit was drawn. Only ratios within a stratum matter."""


@dataclass(frozen=True)
class Estimate:
    """A score of a judge, corrected by people's labels."""

    value: float
    """The corrected score."""

    low: float
    """The lower end of its 95% interval."""

    high: float
    """The upper end of its 95% interval."""

    stderr: float
    """Its standard error."""

    judge_weight: float
    """Lambda: how much the judge is believed, from 0 to 1."""

    num_labelled: int
    """The number of labelled units."""


class _StandardError(NamedTuple):
    """The standard error of a corrected score, and how wide its interval is."""

    stderr: float
    """The standard error."""

    quantile: float
    """How many standard errors the 95% interval reaches to each side."""


class _CommonLabel(NamedTuple):
    """The score that all labels have in common, such as 1 if people call every text right."""

    score: float
    """The score of every label."""

    max_share: float
    """The largest share of all units that may have another score."""


def correct_by_labels(
    units: Units,
    score_of_sums: ScoreOfSums,
    low: float = -math.inf,
    high: float = math.inf,
    judge_weight: float | None = None,
) -> Estimate | None:
    """Correct a judge's score by people's labels of some units (prediction-powered inference).

    The score is computed from corrected sums: lambda times the judge's counts of all units, plus
    people's counts less lambda times the judge's of the labelled units, which stand for all units.
    The 95% interval reaches t * standard error to each side, on the scale of log-odds for a score
    between two bounds.

    Args:
        units: The judge's counts of all units, and people's counts of the labelled ones.
        score_of_sums: The score as a function of the column sums of the counts.
        low: The lowest value that the score can have.
        high: The highest value that the score can have.
        judge_weight: Lambda, from 0 to 1. None means the lambda of the smallest variance.

    Returns:
        The corrected score, which is people's own score if every unit is labelled. None if it is
        not defined, or if fewer than two clusters are labelled.
    """
    sample = _LabelledSample(replace(units, strata=_merge_small_strata(units)))
    # The variance between clusters needs at least two of them.
    if len(np.unique(sample.clusters)) < 2:
        return None

    is_tuned = judge_weight is None and not units.is_labelled.all()
    if judge_weight is None:
        # If people have labelled every unit, the judge has nothing to add.
        judge_weight = 1.0 if is_tuned else 0.0
    if is_tuned:
        # The gradient depends on lambda, so lambda is tuned again with the gradient it leads to.
        for _ in range(2):
            gradient = score_gradient(score_of_sums, sample.sums(judge_weight))
            judge_weight = sample.tuned_judge_weight(gradient)

    sums = sample.sums(judge_weight)
    score = score_of_sums(sums.tolist())
    if math.isnan(score):
        return None
    # How much the score changes with each sum, so that the errors of sums become one of the score.
    gradient = score_gradient(score_of_sums, sums)
    error = sample.standard_error(gradient, judge_weight, is_tuned)
    half_width = error.quantile * error.stderr
    lower, upper = interval_within(score, half_width, low, high)

    # The correction may carry a score beyond its bounds.
    score_in_range = min(max(score, low), high)
    # Labels that are all alike have no variance, but unlabelled units may still be different.
    common = sample.find_common_label(score_of_sums)
    if common is not None and math.isfinite(high - low):
        # So many units, moved from one bound to the other, move the score by this much.
        reach = common.max_share * (high - low)
        # No unit can be lower than labels that have the lowest score, or higher than the highest.
        if common.score > low:
            lower = min(lower, max(low, score_in_range - reach))
        if common.score < high:
            upper = max(upper, min(high, score_in_range + reach))
    num_labelled = len(sample.people_counts)
    return Estimate(score_in_range, lower, upper, error.stderr, judge_weight, num_labelled)


def interval_within(
    value: float, half_width: float, low: float, high: float
) -> tuple[float, float]:
    """Compute an interval around a score that stays between its bounds.

    It is a normal interval on the scale of log-odds, log(p / (1 - p)) with the share
    p = (value - low) / (high - low). If a bound is infinite, or if the plain interval
    value ± half_width crosses a bound, it is the plain interval cut off at the bounds.

    Args:
        value: The score.
        half_width: How far the plain interval reaches to each side, in units of the score.
        low: The lowest value that the score can have.
        high: The highest value that the score can have.

    Returns:
        The lower and the upper end.
    """
    lower = value - half_width
    upper = value + half_width
    is_bounded = math.isfinite(low) and math.isfinite(high)
    if not is_bounded or lower <= low or upper >= high:
        # The value itself may lie outside, so each end is kept within both bounds.
        return min(high, max(low, lower)), max(low, min(high, upper))

    # The delta method: d log(p / (1 - p)) / d value = (high - low) / (distances to both bounds).
    half_log_odds = half_width * (high - low) / ((value - low) * (high - value))
    odds = (value - low) / (high - value)
    # The ends have the odds times exp(∓half_log_odds), and odds o are the share 1 / (1 + 1 / o).
    lower = low + (high - low) / (1 + math.exp(half_log_odds) / odds)
    upper = low + (high - low) / (1 + math.exp(-half_log_odds) / odds)
    return lower, upper


def _merge_small_strata(units: Units) -> Numbers:
    """Merge strata until each has at least two labels, or is labelled completely.

    One label shows no variance, so the units of such a stratum join the largest of the other
    strata, which they change the least.

    Returns:
        The number of each unit's stratum, from 0 without gaps.
    """
    # The number of units in each stratum, and that of the labelled ones.
    sizes = np.bincount(units.strata)
    num_labels = np.bincount(units.strata, units.is_labelled)
    has_too_few = (num_labels < 2) & (num_labels < sizes)
    largest = np.argmax(np.where(has_too_few, 0, sizes))
    strata = np.where(has_too_few[units.strata], largest, units.strata)
    # The inverse of np.unique numbers the remaining strata from 0.
    return np.unique(strata, return_inverse=True)[1]


class _LabelledSample:
    """The labelled units as a sample of all units that was drawn by groups (strata).

    Arrays have one element (or row) for each labelled unit, unless their name says otherwise.
    """

    def __init__(self, units: Units) -> None:
        """Select the labelled units, and compute how many units each of them stands for.

        Args:
            units: All units. Each stratum has labels.
        """
        labelled = units.is_labelled
        self.units = units
        self.people_counts = units.people_counts[labelled]
        self.judge_counts = units.judge_counts[labelled]
        self.clusters = units.clusters[labelled]
        self.strata = units.strata[labelled]
        self.stratum_sizes = np.bincount(units.strata)
        self.labels_per_stratum = np.bincount(self.strata)

        # The labels of a stratum together stand for all its units, even if some of the units that
        # were drawn have no answer (Hájek's estimator).
        drawn_weights = units.weights[labelled]
        total_weights = np.bincount(self.strata, drawn_weights, len(self.stratum_sizes))
        # If all labels of a stratum have a weight of 0, they cannot stand for its units. The factor
        # is infinite then, and the score is not a number.
        with np.errstate(divide="ignore"):
            factors = self.stratum_sizes / total_weights
        self.weights = drawn_weights * factors[self.strata]
        # How many unlabelled units a label stands for.
        self.extra_weights = self.weights - 1

    def sums(self, judge_weight: float) -> Floats:
        """Compute the corrected column sums, lambda * sum(f) + sum(w * (y - lambda * f)).

        The first sum runs over all units, the second over the labelled ones with their sampling
        weights w; f are the judge's counts and y people's.

        Args:
            judge_weight: Lambda, from 0 to 1.
        """
        total = self.units.judge_counts.sum(axis=0)
        return np.asarray(
            self.weights @ self.people_counts
            + judge_weight * (total - self.weights @ self.judge_counts)
        )

    def tuned_judge_weight(self, gradient: Floats) -> float:
        """Compute the lambda of the smallest variance (power tuning of PPI++).

        It is the slope of people's scores on the judge's, over all strata:
        sum(factor * covariance) / sum(factor * variance of the judge's scores). A stratum of N
        units and n labels has the factor N * (N - n) / n, since labels have to stand for the N - n
        other units.

        Args:
            gradient: The gradient of the score with respect to its sums. It turns the counts of a
                unit into one number, the unit's score.

        Returns:
            Lambda, kept between 0 and 1.
        """
        people_deviations = self._stratum_deviations(self.people_counts @ gradient)
        judge_deviations = self._stratum_deviations(self.judge_counts @ gradient)
        # The judge's scores are known for all units, not for the labelled ones alone.
        judge_scores = self.units.judge_counts @ gradient

        covariance_sum = 0.0
        variance_sum = 0.0
        for stratum, num_units in enumerate(self.stratum_sizes):
            num_labels = self.labels_per_stratum[stratum]
            factor = num_units * (num_units - num_labels) / num_labels
            is_in_stratum = self.strata == stratum
            products = people_deviations[is_in_stratum] * judge_deviations[is_in_stratum]
            # A stratum may be labelled completely by one label. Its factor is 0 then.
            covariance_sum += factor * products.sum() / max(1, num_labels - 1)
            variance_sum += factor * np.var(judge_scores[self.units.strata == stratum])

        # A judge that counts the same for every unit says nothing about any.
        if variance_sum <= 0:
            return 0.0
        return float(min(1.0, max(0.0, covariance_sum / variance_sum)))

    def standard_error(
        self, gradient: Floats, judge_weight: float, is_tuned: bool
    ) -> _StandardError:
        """Compute the standard error of the corrected score, and the width of its interval.

        The score is replaced by its linear approximation (delta method), so that each cluster
        contributes one number. The variance is G / (G - 1) times the sum of the squared deviations
        of the G clusters' numbers from their mean. Rows of one cluster may depend on each other.

        Args:
            gradient: The gradient of the score with respect to its sums.
            judge_weight: Lambda, from 0 to 1.
            is_tuned: Whether lambda was tuned on the labels, which therefore have leverage on it.

        Returns:
            The standard error, and the number of standard errors from the score to each end of its
            95% interval, such as 1.96 for very many labels.
        """
        # The correction of a labelled unit: people's score less lambda times the judge's.
        corrections = (self.people_counts - judge_weight * self.judge_counts) @ gradient
        deviations = self._stratum_deviations(corrections)
        # A label with leverage pulls lambda towards itself, so its own deviation looks too small.
        leverage = self._leverage(gradient) if is_tuned else np.zeros(len(corrections))
        errors_of_others = self._errors_of_unlabelled_units(deviations, leverage)

        # Labels of one cluster may err together, so their deviations are added up by cluster.
        contributions = self._cluster_contributions(
            judge_weight * (self.units.judge_counts @ gradient),
            self._stratum_means(corrections),
            deviations + errors_of_others,
        )
        num_clusters = len(contributions)
        squares = float(((contributions - contributions.mean()) ** 2).sum())
        variance = num_clusters / (num_clusters - 1) * squares
        # Labels that happen to agree with the judge would make the error look too small.
        variance += self._missing_variance(gradient, deviations)

        # Few labels make the error itself uncertain, so Student's t takes the normal's place.
        degrees = self._degrees_of_freedom(errors_of_others, variance, bool(leverage.any()))
        return _StandardError(math.sqrt(variance), float(stdtrit(degrees, 1 - _TAIL)))

    def _errors_of_unlabelled_units(self, deviations: Floats, leverage: Floats) -> Floats:
        """Estimate how far each label may lead the correction of unlabelled units astray.

        A label's correction is applied to the unlabelled units that it stands for. Its error is
        estimated by its deviation from the mean of its stratum, times sqrt(n / (n - 1)) for n
        labels in the stratum, and divided by 1 - leverage, as in the HC3 estimator of regressions.

        Args:
            deviations: How far each label's correction lies from the mean of its stratum.
            leverage: The leverage of each label on lambda, from 0 to 1.

        Returns:
            The error of each label, times the number of unlabelled units that it stands for.
        """
        # At least 1, for strata that are labelled completely by one label.
        degrees = np.maximum(1, self.labels_per_stratum - 1)
        # The mean of a few labels lies closer to them than the true mean, so errors are enlarged.
        small_sample = np.sqrt(self.labels_per_stratum / degrees)[self.strata]
        errors = self.extra_weights * deviations * small_sample
        return np.asarray(errors / (1 - np.minimum(leverage, _MAX_LEVERAGE)))

    def _leverage(self, gradient: Floats) -> Floats:
        """Compute the leverage of each label on the tuned lambda, as in a regression through 0.

        It is the square of the label's weighted deviation in the judge's counts, divided by the
        sum of these squares.

        Args:
            gradient: The gradient of the score with respect to its sums.

        Returns:
            The leverages, which add up to 1. All are 0 if the judge's counts do not vary.
        """
        deviations = self._stratum_deviations(self.judge_counts @ gradient)
        influence = (self.extra_weights * deviations) ** 2
        # If the judge's counts do not vary, the sum is 0, and 1.0 avoids a division by it.
        return np.asarray(influence / (float(influence.sum()) or 1.0))

    def _cluster_contributions(
        self, unit_scores: Floats, stratum_corrections: Floats, label_deviations: Floats
    ) -> Floats:
        """Add up by cluster what contributes to the corrected score.

        Args:
            unit_scores: What the judge's counts contribute, one number for each of all units.
            stratum_corrections: The mean correction of each stratum, which all its units get.
            label_deviations: How far each label deviates from this mean, one number for each
                labelled unit.

        Returns:
            One number for each cluster.
        """
        corrected_scores = unit_scores + stratum_corrections[self.units.strata]
        # A cluster sums its units, and the deviations of its labels.
        of_units = np.bincount(self.units.clusters, corrected_scores)
        of_labels = np.bincount(self.clusters, label_deviations, len(of_units))
        return np.asarray(of_units + of_labels)

    def _missing_variance(self, gradient: Floats, deviations: Floats) -> float:
        """Compute the variance to add for strata whose labels agree with the judge by chance.

        If all n labels of a stratum agree with the judge, they show no variance, but unlabelled
        units may disagree. So each stratum gets a variance of at least V / (n + 1), where V is the
        variance of all labels: as if one more label had been drawn, and had differed from the judge
        as much as labels differ from each other. What a stratum lacks of it is added.

        Args:
            gradient: The gradient of the score with respect to its sums.
            deviations: How far each label's correction lies from the mean of its stratum.

        Returns:
            The variance to add to that of the score; 0 if no stratum lacks any.
        """
        # The gradient turns the counts of a label into one number, its part of the score.
        label_scores = self.people_counts @ gradient
        mean = np.average(label_scores, weights=self.weights)
        total_weight = float(self.weights.sum())
        variance_of_labels = float(self.weights @ (label_scores - mean) ** 2) / total_weight
        smallest_variances = variance_of_labels / (self.labels_per_stratum + 1)

        stratum_variances = np.bincount(self.strata, deviations**2) / self.labels_per_stratum
        missing_variances = np.maximum(0.0, smallest_variances - stratum_variances)
        # A label's error counts once for each unlabelled unit that it stands for.
        squared_weights = np.bincount(self.strata, self.extra_weights**2)
        return float(squared_weights @ missing_variances)

    def _degrees_of_freedom(
        self, label_errors: Floats, variance: float, has_leverage: bool
    ) -> float:
        """Compute the degrees of freedom of Student's t for the interval of the corrected score.

        They say how well the labels tell the variance. 30 labelled clusters in 2 strata give 28:

        - Each stratum takes one degree away for its mean, and a tuned lambda takes one more.
        - There are fewer if a few errors are much larger than the others (long tails).
        - There are more if only a part of the variance comes from labels, since the rest is known
          well. For a share s they are divided by s² (Satterthwaite).

        Args:
            label_errors: The error of each label, as `_errors_of_unlabelled_units` estimates it.
            variance: The variance of the corrected score.
            has_leverage: Whether lambda was tuned on the labels.

        Returns:
            The degrees of freedom, at least 1.
        """
        # Labels that stand for their own unit alone say nothing about the error of others.
        represents_others = self.extra_weights > _ROUNDING
        if not represents_others.any():
            # If every label is of this kind, all of them count.
            represents_others = np.ones_like(represents_others)
        num_clusters = len(np.unique(self.clusters[represents_others]))
        num_strata = len(np.unique(self.strata[represents_others]))
        num_tuned = 1 if has_leverage else 0
        degrees = float(max(1, num_clusters - num_strata - num_tuned))

        cluster_errors = np.bincount(self.clusters, label_errors)
        # Clusters without labels contribute nothing.
        cluster_errors = cluster_errors[cluster_errors != 0]
        # The fourth powers of very small errors are 0, and then the tails cannot be measured.
        if (cluster_errors**4).any():
            label_variance = min(float((cluster_errors**2).sum()), variance)
            degrees = min(degrees, _degrees_for_tails(cluster_errors))
            degrees = degrees * (variance / label_variance) ** 2
        return max(1.0, degrees)

    def find_common_label(self, score_of_sums: ScoreOfSums) -> _CommonLabel | None:
        """Find the score that all labels have, and the share of units that may have another one.

        If people call 30 of 30 drawn texts right, the common score is 1. Up to 11.6% of the other
        texts may still be wrong: 30 draws would miss so many with a probability of 2.5%.

        Args:
            score_of_sums: The score as a function of counts.

        Returns:
            The common score with the largest share of units that may have another one. None if
            labels differ, or if every unit is labelled.
        """
        scores = np.full(len(self.people_counts), math.nan)
        for row, counts in enumerate(self.people_counts.tolist()):
            # A unit without counts has no part in the score.
            if any(counts):
                scores[row] = score_of_sums(counts)
        is_scored = ~np.isnan(scores)
        # A label of a stratum that is labelled completely stands for its own unit alone.
        represents_units = is_scored & (self.extra_weights > _ROUNDING)
        if not represents_units.any() or np.ptp(scores[represents_units]) > 0:
            return None

        # Booleans are 0 or 1, so labels that represent no unit get 0 here.
        represented_units = self.extra_weights * represents_units
        units_by_cluster = np.bincount(self.clusters, represented_units).astype(float)
        num_represented = float(units_by_cluster.sum())
        num_units = float(self.weights[is_scored].sum())
        # The labelled units are known to be alike, so the share is one of the other units only.
        max_share = _max_share_unlike_labels(units_by_cluster) * num_represented / num_units
        return _CommonLabel(float(scores[represents_units][0]), max_share)

    def _stratum_means(self, values: Floats) -> Floats:
        """Compute the weighted mean of the labels' values in each stratum."""
        totals = np.bincount(self.strata, self.weights * values, len(self.stratum_sizes))
        return np.asarray(totals / self.stratum_sizes)

    def _stratum_deviations(self, values: Floats) -> Floats:
        """Compute how far each label's value lies from the mean of its stratum."""
        return np.asarray(values - self._stratum_means(values)[self.strata])


def _degrees_for_tails(errors: Floats) -> float:
    """Compute the degrees of freedom of a variance of errors, a few of which may be very large.

    They are 2 * G / (kurtosis - 1) for G errors e, with the kurtosis G * sum(e**4) / sum(e**2)**2.

    Args:
        errors: The error of each cluster. Not all are 0.
    """
    squares = float((errors**2).sum())
    fourth_powers = float((errors**4).sum())
    kurtosis = len(errors) * fourth_powers / squares**2
    return 2 * len(errors) / max(kurtosis - 1, 1e-9)


def _max_share_unlike_labels(cluster_weights: Floats) -> float:
    """Compute the largest share of unlabelled units that may differ from labels that are all alike.

    It is the upper end 1 - 0.025**(1 / n) of Clopper and Pearson's 95% interval for none of n
    trials, where n is Kish's effective number of clusters, sum(w)**2 / sum(w**2).

    Args:
        cluster_weights: How many unlabelled units the labels of each cluster stand for.
    """
    inverse_num_trials = float((cluster_weights**2).sum()) / float(cluster_weights.sum()) ** 2
    return 1 - math.pow(_TAIL, inverse_num_trials)
