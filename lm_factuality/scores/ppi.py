"""Scores of a judge, corrected by people's labels of some units (prediction-powered inference).

`corrected_mean` is the simple form for a mean. `lm_factuality.people.correct` calls
`correct_by_labels`, for any score of column sums.

Units are the rows that a score is summed over. A score is a function of the column sums of their
counts: a mean (value * weight, weight), an error rate (errors, segments), or more. With the judge's
counts f of all units and people's counts y of the labelled ones, the corrected sums are those of
lambda * f over all units, plus those of y - lambda * f over the labelled ones, weighted up to all
units of their stratum (Angelopoulos et al., 2023, arXiv 2301.09633). Lambda is the one of the
smallest variance: the power tuning of PPI++ (Angelopoulos, Duchi and Zrnic, 2023, arXiv
2311.01453). It is shrunk towards 0 (the labels alone) if it rests on few units.

The package ppi-python does this for means of independent units. The scores here are ratios of sums,
of units that come in clusters and were drawn by stratum. For the mean of independent units both
give the same numbers for the same lambda (``tests/scores/test_ppi.py``).

The interval is Wilson's, as that of every score (`lm_factuality.scores.intervals`). It is wider
where a stratum shows no disagreement (`_LabelledSample.missing_variances`).
``make coverage`` measures how often it contains the truth.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_factuality.scores.intervals import (
    ClusteredMean,
    Floats,
    Numbers,
    ScoreOfSums,
    clustered_mean,
    interval_of_mean,
    number_clusters,
    score_gradient,
)
from lm_factuality.scores.statistics import ratio

_ROUNDING = 1e-12  # a variance below this share of the mean square is rounding
_CAUTION = 1.5  # how much lambda is shrunk because of its own error
_MAX_LEVERAGE = 0.9  # of a label on lambda; at 1 its corrected deviation would be infinite


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


def corrected_mean(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: Sequence[Hashable] | None = None,
    strata: Sequence[Hashable] | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> Estimate | None:
    """Correct the mean of a judge by the labels that people gave to some of its rows.

    Args:
        judged: The judge's value of every row.
        labels: People's value of each row, or None where nobody labelled it. Within a stratum,
            every row had the same chance to be labelled.
        clusters: The cluster of each row, such as its document. None: every row is independent.
        strata: The group from which each row was drawn for labelling. None: one group.
        low: The lowest value that a row can have, or -inf.
        high: The highest value that a row can have, or inf.

    Returns:
        The mean with its interval, or None if it is not defined: without labels, for labels of one
        cluster, or for numbers that are not finite.

    Example:
        ``corrected_mean([1, 1, 0, 1, 0, 1], [1, None, 0, 0, None, None])`` is the mean by people,
        who labelled three of six rows.
    """
    # A mean is a ratio of sums: that of the values, and that of a 1 for each row.
    num_rows = len(judged)
    ones = np.ones(num_rows)
    units = Units(
        judge_counts=np.column_stack([judged, ones]),
        # None becomes NaN, which is never read.
        people_counts=np.column_stack([np.array(labels, dtype=float), ones]),
        is_labelled=np.array([label is not None for label in labels], dtype=bool),
        clusters=np.arange(num_rows) if clusters is None else number_clusters(clusters),
        strata=np.zeros(num_rows, int) if strata is None else number_clusters(strata),
        weights=ones,
    )
    return correct_by_labels(units, lambda sums: ratio(sums[0], sums[1]), low, high)


# Labels that all have a weight of 0 give sums that are not finite, and these give no score.
@np.errstate(divide="ignore", invalid="ignore")
def correct_by_labels(
    units: Units,
    score_of_sums: ScoreOfSums,
    low: float = -math.inf,
    high: float = math.inf,
    judge_weight: float | None = None,
) -> Estimate | None:
    """Correct a judge's score by people's labels of some units (prediction-powered inference).

    The judge has scored all units, and people have labelled a sample of them. The sample shows how
    far the judge's counts are off, and this correction is added to the judge's sums. Lambda says
    how much the judge is believed: 1 corrects the judge's sums, and 0 uses the labels alone.

    Args:
        units: The judge's counts of all units, and people's counts of the labelled ones.
        score_of_sums: The score as a function of the column sums of the counts. Two columns are the
            weighted value and the weight of a mean.
        low: The lowest value that the score can have.
        high: The highest value that the score can have.
        judge_weight: Lambda, from 0 to 1. None means the lambda of the smallest variance.

    Returns:
        The corrected score, which is people's own score if every unit is labelled, or if the
        correction would carry the score to one of its bounds. None if it is not defined, or if
        fewer than two clusters are labelled.
    """
    # The variance between clusters needs at least two of them.
    if len(np.unique(units.clusters[units.is_labelled])) < 2:
        return None
    sample = _LabelledSample(replace(units, strata=_merge_small_strata(units)))
    if not np.isfinite(sample.sums(1.0)).all():
        return None
    people_sums = sample.sums(0.0)
    if judge_weight is None:
        judge_weight = sample.tuned_judge_weight(score_gradient(score_of_sums, people_sums))

    sums = sample.sums(judge_weight)
    score = score_of_sums(sums.tolist())
    if math.isnan(score):
        return None
    people_score = score_of_sums(people_sums.tolist())
    if judge_weight > 0 and _has_little_room(score, people_score, low, high):
        judge_weight = 0.0
        sums = people_sums
        score = people_score

    # The gradient says how much the score changes with each sum. It turns the errors of the sums
    # into the error of the score.
    gradient = score_gradient(score_of_sums, sums)
    estimate = sample.score_with_variance(score, gradient, judge_weight)
    if estimate is None:
        return None
    missing = sample.missing_variances(gradient, judge_weight)
    below = estimate._replace(variance=estimate.variance + missing.below)
    above = estimate._replace(variance=estimate.variance + missing.above)
    lower = interval_of_mean(below, low, high)
    upper = interval_of_mean(above, low, high)
    if lower is None or upper is None:
        return None
    return Estimate(
        # Rounding may carry the score beyond its bounds.
        value=min(max(score, low), high),
        low=lower.low,
        high=upper.high,
        stderr=max(below.stderr, above.stderr),
        judge_weight=judge_weight,
        num_labelled=len(sample.people_counts),
    )


def _has_little_room(score: float, people_score: float, low: float, high: float) -> bool:
    """Return whether a correction carries a score near one of its bounds, or beyond.

    The interval takes p * (1 - p) for the variance of a trial, which is 0 at a bound. A score is
    near a bound if it has less than a quarter of this variance at people's own score.
    """
    room = (score - low) * (high - score)
    return room < (people_score - low) * (high - people_score) / 4


def _merge_small_strata(units: Units) -> Numbers:
    """Merge each stratum that has too few labels into the largest one that has enough.

    A stratum (a group that units were drawn from) needs two labels, since one shows no variance. A
    stratum whose units are all labelled needs none.

    Args:
        units: All units, with the number of each unit's stratum.

    Returns:
        The new number of each unit's stratum, from 0 without gaps. It is 0 if all units are
        labelled.
    """
    if units.is_labelled.all():
        return np.zeros_like(units.strata)
    stratum_sizes = np.bincount(units.strata)
    num_labels = np.bincount(units.strata, units.is_labelled)
    has_too_few = (num_labels < 2) & (num_labels < stratum_sizes)
    # The largest stratum is changed the least by further units.
    largest = np.argmax(np.where(has_too_few, 0, stratum_sizes))
    strata = np.where(has_too_few[units.strata], largest, units.strata)
    # The inverse of np.unique numbers the remaining strata from 0.
    return np.unique(strata, return_inverse=True)[1]


class _MissingVariances(NamedTuple):
    """The variance to add to that of a score, since few labels may agree with a judge by chance."""

    below: float
    """The variance to add for the lower end of the interval."""

    above: float
    """The variance to add for the upper end."""


class _LabelledSample:
    """The labelled units as a sample of all units that was drawn by groups (strata).

    If a stratum of 100 units has 20 labels, each of them stands for 5 units: its weight is 5.
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
        self.weights = self._hajek_weights(units.weights[labelled])
        self.bessel_factors = self._bessel_factors()
        # A sum over N units that is estimated from n of them, drawn without replacement, has the
        # variance N² / n * (1 - n / N) * s², where s² is the variance of the units' values. With
        # w = N / n, each of the n labels adds w * (w - 1) * s² to it.
        self.variance_weights = np.maximum(0.0, self.weights * (self.weights - 1))
        # For s², squared deviations from the mean of the labels need Bessel's correction.
        self.deviation_weights = self.variance_weights * self.bessel_factors

    def _hajek_weights(self, drawn_weights: Floats) -> Floats:
        """Scale the weights of labels so that they add up to the size of each stratum (Hájek).

        People may have left out some of the units that were drawn, whose weights are then missing.

        Args:
            drawn_weights: One over the probability that each labelled unit was drawn.
        """
        total_weights = np.bincount(self.strata, drawn_weights)
        return np.asarray(drawn_weights * (self.stratum_sizes / total_weights)[self.strata])

    def _bessel_factors(self) -> Floats:
        """Return n / (n - 1) for each label, where its stratum has n labels (Bessel's correction).

        The squared deviations of labels from their own mean times this factor are on average the
        variance in the stratum. The only label of a stratum has no deviation, and the factor 1.
        """
        degrees_of_freedom = np.maximum(1, self.labels_per_stratum - 1)
        return np.asarray((self.labels_per_stratum / degrees_of_freedom)[self.strata])

    def sums(self, judge_weight: float) -> Floats:
        """Compute the sum of each count over all units, corrected by the labels.

        It is the sum of lambda * the judge's count over all units, plus the sum of
        weight * (people's count - lambda * the judge's count) over the labels.

        Args:
            judge_weight: Lambda, from 0 to 1.
        """
        total = self.units.judge_counts.sum(axis=0)
        return np.asarray(
            self.weights @ self.people_counts
            + judge_weight * (total - self.weights @ self.judge_counts)
        )

    def tuned_judge_weight(self, gradient: Floats) -> float:
        """Choose lambda, the weight of the judge, so that the corrected score varies the least.

        Lambda is the slope in a regression of people's scores on the judge's: the covariance of
        both, divided by the variance of the judge's scores (the power tuning of PPI++). It is near
        1 if both rise and fall together, and 0 if they are unrelated. A slope from few labels may
        be chance, so it is made smaller (`_shrinkage`).

        Args:
            gradient: How much the final score changes with each count. It turns the counts of a
                unit into one number, the unit's score.

        Returns:
            Lambda, from 0 to 1.
        """
        variance = self._judge_variance(gradient)
        # Only labelled units show how people's scores vary with the judge's.
        people_deviations = self._stratum_deviations(self.people_counts @ gradient)
        judge_deviations = self._stratum_deviations(self.judge_counts @ gradient)
        covariance = float(self.deviation_weights @ (people_deviations * judge_deviations))
        if variance == 0 or covariance <= _ROUNDING * variance:
            return 0.0

        # The error of each label in the regression of people's scores on the judge's.
        slope_in_sample = covariance / float(self.deviation_weights @ judge_deviations**2)
        residuals = people_deviations - slope_in_sample * judge_deviations
        errors = self.deviation_weights * judge_deviations * residuals
        jackknife_errors = errors / (1 - self._leverages(gradient))
        return min(1.0, covariance / variance) * self._shrinkage(covariance, jackknife_errors)

    def _judge_variance(self, gradient: Floats) -> float:
        """Compute the variance of the judge's scores, by which lambda is divided.

        The judge has scored all units, so the variance in a stratum is exact: the mean square less
        the square of the mean. The variances are added up over the labels, by their weights.

        Returns:
            The variance, or 0 if the judge's scores in each stratum are equal up to rounding.
        """
        strata = self.units.strata
        judge_scores = self.units.judge_counts @ gradient
        means = np.bincount(strata, judge_scores) / self.stratum_sizes
        mean_squares = np.bincount(strata, judge_scores**2) / self.stratum_sizes
        variance = float(self.variance_weights @ (mean_squares - means**2)[self.strata])
        rounding = _ROUNDING * float(self.variance_weights @ mean_squares[self.strata])
        return 0.0 if variance <= rounding else variance

    def _shrinkage(self, covariance: float, errors: Floats) -> float:
        """Return the factor from 0 to 1 that makes an uncertain lambda smaller.

        It is 1 - 1.5 / t², where t is the slope divided by its standard error. With 1.5, intervals
        are on average at most 2% wider than without a judge (``bench.coverage.corrected``).

        Args:
            covariance: The numerator of the slope.
            errors: How much the numerator would change without each label (the jackknife).
        """
        # Labels of one cluster may err together, so their errors are added before squaring. The
        # slope and its standard error have the same denominator, which cancels out in t.
        errors_of_clusters = np.bincount(self.clusters, errors)
        squared_stderr = float(errors_of_clusters @ errors_of_clusters)
        return max(0.0, 1 - _CAUTION * (squared_stderr / covariance**2))

    def _leverages(self, gradient: Floats) -> Floats:
        """Compute the leverage of each label on lambda, from 0 to 0.9.

        As in a regression, it is the label's part of the sum of squared deviations in the judge's
        score. A leverage of 1 would make the error of a label infinite.
        """
        deviations = self._stratum_deviations(self.judge_counts @ gradient)
        squares = self.deviation_weights * deviations**2
        # If the judge's scores do not vary, the sum is 0, and 1.0 avoids a division by it.
        return np.minimum(squares / (float(squares.sum()) or 1.0), _MAX_LEVERAGE)

    def score_with_variance(
        self, score: float, gradient: Floats, judge_weight: float
    ) -> ClusteredMean | None:
        """Compute the variance of the corrected score, and its degrees of freedom.

        The score is replaced by its linear approximation (delta method), so that it is a sum of one
        number per cluster (`_contributions`). A sum of G independent numbers has the variance
        G * s², where s² is the sample variance of the numbers.

        Args:
            score: The corrected score.
            gradient: The gradient of the score with respect to its sums.
            judge_weight: Lambda, from 0 to 1.

        Returns:
            The score as a mean of clusters. None if the score is the mean of the labels alone, and
            this mean is not defined.
        """
        num_strata = len(self.stratum_sizes)
        # Two counts are those of a mean, (value * weight, weight). The mean of labels that were
        # drawn from all units at once needs no approximation.
        is_mean = self.people_counts.shape[1] == 2
        if judge_weight == 0 and num_strata == 1 and is_mean:
            return self._mean_of_labels()

        contributions = self._contributions(gradient, judge_weight)
        sample_variance = float(np.var(contributions, ddof=1))
        # As many clusters of the same weight would be as stable: Kish's effective number (1965).
        cluster_weights = np.bincount(self.clusters, self.weights)
        num_clusters = float(cluster_weights.sum() ** 2 / (cluster_weights @ cluster_weights))
        return ClusteredMean(
            value=score,
            variance=len(contributions) * sample_variance,
            degrees_of_freedom=max(1.0, num_clusters - num_strata),
            num_clusters=round(num_clusters),
        )

    def _contributions(self, gradient: Floats, judge_weight: float) -> Floats:
        """Compute what each cluster of units adds to the corrected score, up to a constant.

        A label corrects the judge's score of its unit by d = people's score - lambda * the judge's.
        A cluster adds two parts:

        - the prediction of each of its units, lambda * the judge's score + the mean of d in the
          stratum
        - the error of each of its labels, (d - mean of d) * (1 + (weight - 1) * sqrt(factor))

        A label's deviation d - mean of d counts once for its own unit, and weight - 1 times for
        unlabelled units. There the squared deviation is multiplied by n / (n - 1), as in a sample
        variance, and by 1 / (1 - leverage), as in the estimator HC2 of a regression: a label with
        leverage pulls lambda towards itself, so its own deviation is too small.

        Args:
            gradient: The gradient of the score with respect to its sums.
            judge_weight: Lambda, from 0 to 1.
        """
        corrections = (self.people_counts - judge_weight * self.judge_counts) @ gradient
        predictions = judge_weight * (self.units.judge_counts @ gradient)
        predictions += self._stratum_means(corrections)[self.units.strata]

        square_factors = self.bessel_factors
        if judge_weight > 0:
            square_factors = square_factors / (1 - self._leverages(gradient))
        deviations = self._stratum_deviations(corrections)
        errors = deviations * (1 + (self.weights - 1) * np.sqrt(square_factors))

        contributions = np.bincount(self.units.clusters, predictions)
        contributions += np.bincount(self.clusters, errors, minlength=len(contributions))
        return np.asarray(contributions)

    def _mean_of_labels(self) -> ClusteredMean | None:
        """Compute the mean of the labels alone, from counts (value * weight, weight)."""
        value_sums, value_weights = self.people_counts.T
        values = [
            value_sum / weight if weight else None
            for value_sum, weight in zip(value_sums, value_weights, strict=True)
        ]
        # Equal sampling weights become exactly 1.
        sampling_weights = self.weights / self.weights.max()
        return clustered_mean(values, self.clusters.tolist(), value_weights * sampling_weights)

    def missing_variances(self, gradient: Floats, judge_weight: float) -> _MissingVariances:
        """Compute the variance to add for strata whose labels agree with the judge by chance.

        If all labels of a stratum agree with the judge, they show no variance, but units without a
        label may disagree. `_missing_variance` assumes that there can be one such unit.

        Args:
            gradient: How much the score changes with each of its sums.
            judge_weight: Lambda, from 0 to 1.

        Returns:
            The variance to add for the lower and for the upper end of the interval. They differ: if
            people find no errors, for example, the true number of errors can only be higher.
        """
        # The gradient turns the counts of a label into one number, its part of the score.
        people_scores = self.people_counts @ gradient
        judge_scores = judge_weight * (self.judge_counts @ gradient)
        mean_score = np.average(people_scores, weights=self.weights)
        largest_variance = np.average((people_scores - mean_score) ** 2, weights=self.weights)

        # A label corrects the judge's score of its unit by the difference.
        corrections = people_scores - judge_scores
        means = self._stratum_means(corrections)
        lowest_correction = people_scores.min() - judge_scores.max()
        highest_correction = people_scores.max() - judge_scores.min()
        return _MissingVariances(
            below=self._missing_variance(corrections, means - lowest_correction, largest_variance),
            above=self._missing_variance(corrections, highest_correction - means, largest_variance),
        )

    def _missing_variance(
        self, corrections: Floats, distances: Floats, largest_variance: float
    ) -> float:
        """Compute by how much the labels at hand understate the variance of the corrected score.

        One unlabelled unit might have a correction at the given distance from the mean of its
        stratum. Among n labels, this outlier would bring the variance distance² / n. The variance
        of a stratum is taken to be at least half of that. What its labels lack is

            max(0, min(distance² / n, largest_variance) / 2 - observed_variance).

        Example:
            If 10 labels all agree with the judge, and the next one might disagree by 1, the
            observed variance is 0. It is taken to be at least 1² / 10 / 2 = 0.05.

        Args:
            corrections: By how much each label corrects the judge's score of its unit.
            distances: For each stratum, how far from its mean one more correction could lie.
            largest_variance: The variance of people's scores, which bounds that of an outlier.

        Returns:
            The sum of the missing variances over all labels, each times (weight - 1)².
        """
        squares = self._stratum_deviations(corrections) ** 2
        observed_variances = np.bincount(self.strata, squares) / self.labels_per_stratum
        outlier_variances = distances**2 / self.labels_per_stratum
        least_variances = np.minimum(outlier_variances, largest_variance) / 2
        missing_variances = np.maximum(0.0, least_variances - observed_variances)
        # A label stands for weight - 1 unlabelled units, which all share its error.
        squared_weights = np.bincount(self.strata, (self.weights - 1) ** 2)
        return float(squared_weights @ missing_variances)

    def _stratum_means(self, values: Floats) -> Floats:
        """Compute the weighted mean of the labels' values in each stratum."""
        return np.asarray(np.bincount(self.strata, self.weights * values) / self.stratum_sizes)

    def _stratum_deviations(self, values: Floats) -> Floats:
        """Compute how far each label's value lies from the mean of its stratum."""
        return np.asarray(values - self._stratum_means(values)[self.strata])
