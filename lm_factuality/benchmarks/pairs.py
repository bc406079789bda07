"""Compares two models by the rows that both have a score on, for reports and ``compare``.

A score is a function of the sums of its rows' counts: a mean, or a pooled score such as F1.
Intervals are clustered by document (`lm_factuality.scores.intervals`), and two-sided p-values come
from a randomisation test over clusters (`lm_factuality.scores.paired`).
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_factuality.benchmarks.declaration import (
    NOT_NEGATIVE,
    Benchmark,
    Sample,
    SampleDisplay,
    Score,
    undeclared_score,
)
from lm_factuality.benchmarks.rows import SampleRow, ScoredRows, with_finite_numbers
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.scores.intervals import (
    Z80,
    Z95,
    Floats,
    Interval,
    ScoreOfSums,
    difference_interval,
    pooled_difference_interval,
    pooled_estimate,
)
from lm_factuality.scores.paired import flip_test, holm, swap_test
from lm_factuality.scores.statistics import ratio

Key = TypeVar("Key", bound=Hashable)
ClusterNumbers = NDArray[np.intp]


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two models in a score, over the rows that both have."""

    score_a: float
    """The score of model A on these rows."""

    score_b: float
    """The score of model B on these rows."""

    difference: float
    """The score of A minus that of B."""

    interval: Interval | None
    """The 95% interval of the difference, or None for fewer than two clusters."""

    p_value: float | None
    """The two-sided p-value, or None for fewer than two clusters."""

    shared_rows: int
    """The number of rows that both models have a score on."""

    shared_clusters: int
    """The number of documents, or other clusters, that these rows are from."""

    adjusted_p_value: float | None = None
    """The p-value corrected for the number of comparisons in its table."""

    @property
    def margin(self) -> float | None:
        """Half of the width of the interval."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that these rows would show with a probability of 80%.

        A two-sided test at the level of 5% finds a difference of (z_0.975 + z_0.8) standard errors
        so often, and the margin of an interval is z_0.975 standard errors.
        """
        return None if self.margin is None else self.margin * (1 + Z80 / Z95)


@contextmanager
def sample_errors(result: TaskResult, sample: Sample) -> Iterator[None]:
    """Turn errors that a benchmark raises about a sample into a DataError that names the sample.

    Args:
        result: The run's task.
        sample: The line of its samples file that is read inside the ``with`` block.

    Raises:
        DataError: The code in the block found that the line is no sample of this task.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{result.samples}: doc_id {sample.get('doc_id')}: not a sample of a {result.kind}"
            f" task: {type(error).__name__}: {error}; run the task again with --log_samples"
        ) from error


def sample_row_of(result: TaskResult, display: SampleDisplay, sample: Sample) -> SampleRow:
    """Return a sample of a run as the report shows it.

    Raises:
        DataError: It is not a sample of this task.
    """
    # Benchmarks may assume that a sample is sound, since errors get its number here.
    with sample_errors(result, sample):
        return with_finite_numbers(display.make_row(result, sample))


def comparable_scores(benchmark: Benchmark, names: Sequence[str]) -> list[Score]:
    """Return the scores by which two models can be compared.

    A score that tables show is comparable if it has a range and one direction is better. The number
    of facts in a response, for example, is neither good nor bad.

    Args:
        benchmark: The benchmark of both runs.
        names: The names of the scores for which rows have counts.

    Returns:
        The comparable scores that tables show, in their order, and then all scores that no table
        shows, such as the accuracy on one error type, by name.
    """
    table_scores = benchmark.table_scores
    scores = [score for score in table_scores if score.name in names and _is_comparable(score)]

    # Rows can have counts of further scores, such as the accuracy on one error type, which only
    # some pages of the report show. The benchmark may describe them. If it does not, their values
    # are shown as they are.
    table_names = {score.name for score in table_scores}
    display = benchmark.page.samples
    for name in sorted(set(names) - table_names):
        extra_score = display.find_extra_score(name) if display else None
        scores.append(extra_score or undeclared_score(name))
    return scores


def _is_comparable(score: Score) -> bool:
    """Return whether a model can be better than another in a score that tables show.

    Scores without a range, such as log-probability per token, depend on the tokens of the model.
    """
    return score.higher_is_better is not None and score.value_range is not None


def paired_difference(
    model_a: ScoredRows, model_b: ScoredRows, score: Score
) -> PairedDifference | None:
    """Compare two models in one score, by the rows that both have a score on.

    Args:
        model_a: The rows of model A that count for the score.
        model_b: The rows of model B that count for it.
        score: The score, such as accuracy or F1.

    Returns:
        The difference, or None if the models share no row, or a score is not defined.

    Raises:
        ValueError: The counts of the two models have different lengths.
    """
    shared = _find_shared_rows(model_a, model_b)
    num_rows = len(shared.counts_a)
    if num_rows == 0:
        return None

    # Scores are functions of sums over rows, not means of rows.
    compute_score = score_of_sums(score, shared.counts_a.shape[1])
    score_a = compute_score(shared.counts_a.sum(axis=0).tolist())
    score_b = compute_score(shared.counts_b.sum(axis=0).tolist())
    if math.isnan(score_a) or math.isnan(score_b):
        return None

    num_clusters = len(np.unique(shared.clusters))
    return PairedDifference(
        score_a=score_a,
        score_b=score_b,
        difference=score_a - score_b,
        interval=_interval_of_difference(shared, score),
        # A single cluster leaves nothing to test.
        p_value=_p_value(shared, compute_score) if num_clusters > 1 else None,
        shared_rows=num_rows,
        shared_clusters=num_clusters,
    )


class _SharedRows(NamedTuple):
    """The rows that two models share, in the order of model A."""

    counts_a: Floats
    """The counts of model A, with one line per row."""

    counts_b: Floats
    """The counts of model B on the same rows."""

    clusters: ClusterNumbers
    """The number of each row's cluster."""

    @property
    def are_means_of_equal_weights(self) -> bool:
        """Whether both scores are means of rows, and a row weighs the same for both models."""
        # Only the rows of a mean have two counts, the weighted value and the weight.
        is_mean = self.counts_a.shape[1] == 2
        return is_mean and np.array_equal(self.counts_a[:, 1], self.counts_b[:, 1])


def _find_shared_rows(model_a: ScoredRows, model_b: ScoredRows) -> _SharedRows:
    """Find the rows that both models have, by their keys, which are the same for every model."""
    # In most comparisons, both models answered the same rows in the same order.
    if model_a.keys == model_b.keys:
        return _SharedRows(model_a.counts, model_b.counts, model_a.clusters)

    position_in_b = {key: position for position, key in enumerate(model_b.keys)}
    shared_a = [position for position, key in enumerate(model_a.keys) if key in position_in_b]
    shared_b = [position_in_b[model_a.keys[position]] for position in shared_a]
    # Clusters without a shared row must not count, so the rest are numbered anew.
    _, clusters = np.unique(model_a.clusters[shared_a], return_inverse=True)
    return _SharedRows(model_a.counts[shared_a], model_b.counts[shared_b], clusters)


def _interval_of_difference(shared: _SharedRows, score: Score) -> Interval | None:
    """Compute the 95% interval of the difference between two models in a score.

    Args:
        shared: The rows that both models have.
        score: The score, whose range limits the interval.
    """
    counts_a, counts_b, clusters = shared
    value_range = score.value_range or NOT_NEGATIVE
    if not shared.are_means_of_equal_weights:
        return pooled_difference_interval(
            first=_sum_by_cluster(counts_a, clusters),
            second=_sum_by_cluster(counts_b, clusters),
            score_of_sums=score_of_sums(score, counts_a.shape[1]),
            low=value_range.low,
            high=value_range.high,
        )
    # The first count of a row is its value times its weight, and the second one is the weight.
    weights = counts_a[:, 1]
    # A row without weight has no part in the means. It is divided by 1, since 0 / 0 is NaN.
    divisors = np.where(weights > 0, weights, 1.0)
    return difference_interval(
        first=(counts_a[:, 0] / divisors).tolist(),
        second=(counts_b[:, 0] / divisors).tolist(),
        clusters=clusters.tolist(),
        low=value_range.low,
        high=value_range.high,
        weights=weights.tolist(),
    )


def compare_all_models(
    models: Mapping[Key, ScoredRows], score: Score, metrics: Mapping[Key, Mapping[str, float]]
) -> dict[tuple[Key, Key], PairedDifference]:
    """Compare every pair of models that share rows in a score.

    Args:
        models: The rows of each model that count for the score.
        score: The score. If it names another metric in ``comparable_if_equal``, only models that
            are equal in that metric are compared.
        metrics: All metrics of each model.

    Returns:
        The differences in the order of ``models``, with p-values adjusted for their number.
    """
    # For example, perplexities per token are compared only over the same number of tokens. Most
    # scores name no such metric.
    equal_metric = score.comparable_if_equal
    differences = {}
    for name_a, name_b in combinations(models, 2):
        if equal_metric and metrics[name_a].get(equal_metric) != metrics[name_b].get(equal_metric):
            continue
        difference = paired_difference(models[name_a], models[name_b], score)
        if difference is not None:
            differences[name_a, name_b] = difference
    return adjust_p_values(differences)


def adjust_p_values(differences: Mapping[Key, PairedDifference]) -> dict[Key, PairedDifference]:
    """Correct p-values for the number of comparisons by Holm's method.

    Args:
        differences: All comparisons of a table.

    Returns:
        The same comparisons, with their adjusted p-values.
    """
    p_values = {}
    for key, difference in differences.items():
        # A comparison over one cluster has no p-value, so it does not count as a test.
        if difference.p_value is not None:
            p_values[key] = difference.p_value
    adjusted_by_key = dict(zip(p_values, holm(list(p_values.values())), strict=True))

    adjusted_differences = {}
    for key, difference in differences.items():
        adjusted_p_value = adjusted_by_key.get(key)
        adjusted_differences[key] = replace(difference, adjusted_p_value=adjusted_p_value)
    return adjusted_differences


def score_stderr(scored_rows: ScoredRows, score: Score) -> float | None:
    """Return the standard error of one model's score.

    Args:
        scored_rows: The rows of the model that count for the score.
        score: The score.

    Returns:
        The standard error, or None for no rows or rows of a single cluster.
    """
    # Without rows, the array of counts has no columns.
    if not scored_rows.rows:
        return None
    counts = scored_rows.counts
    sums = _sum_by_cluster(counts, scored_rows.clusters)
    estimate = pooled_estimate(sums, score_of_sums(score, counts.shape[1]))
    return None if estimate is None else estimate.stderr


def score_of_sums(score: Score, num_counts: int) -> ScoreOfSums:
    """Return the function that computes a score from the sums of its rows' counts.

    The result of the function is NaN if the score is not defined.

    Args:
        score: The score.
        num_counts: How many counts each row has.
    """
    # Two counts are the weighted value and the weight of a row in a mean.
    if num_counts == 2:
        return lambda sums: ratio(sums[0], sums[1])
    return lambda sums: score.aggregation.value([sums])


class FormattedDifference(NamedTuple):
    """A `PairedDifference` as the cells of a table. A number that is not known is empty."""

    difference: str
    interval: str
    p_value: str
    adjusted_p_value: str
    detectable: str


def format_difference(difference: PairedDifference, score: Score) -> FormattedDifference:
    """Write a difference between two models as the cells of a table.

    Args:
        difference: The comparison of two models.
        score: The score, which sets factor and decimals.

    Example:
        A difference of 0.0213 in accuracy gives ``+2.1`` and an interval such as ``+0.4 to +3.8``.
    """
    interval = ""
    # Rows of a single cluster say nothing about the uncertainty.
    if difference.interval is not None:
        low = _format_number(score, difference.interval.low, sign="+")
        high = _format_number(score, difference.interval.high, sign="+")
        interval = f"{low} to {high}"
    return FormattedDifference(
        difference=_format_number(score, difference.difference, sign="+"),
        interval=interval,
        p_value=_format_p_value(difference.p_value),
        adjusted_p_value=_format_p_value(difference.adjusted_p_value),
        detectable=_format_number(score, difference.detectable, sign=""),
    )


def _format_number(score: Score, value: float | None, sign: str) -> str:
    """Write a difference with the score's factor and decimals; ``sign="+"`` shows plus signs."""
    if value is None:
        return ""
    # Adding zero turns the -0.0 that rounding can give into 0.0.
    displayed = round(score.display_factor * value, score.decimals) + 0.0
    return format(displayed, f"{sign}.{score.decimals}f")


def _format_p_value(p_value: float | None) -> str:
    """Write a p-value with three decimals: ``0.042``, ``<0.001``, or an empty text for None."""
    if p_value is None:
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _p_value(shared: _SharedRows, compute_score: ScoreOfSums) -> float:
    """Test whether two models differ by more than chance, by a randomisation test over clusters.

    Args:
        shared: The rows that both models have.
        compute_score: Computes the score from the sums of counts.

    Returns:
        The two-sided p-value.
    """
    counts_a, counts_b, clusters = shared
    if shared.are_means_of_equal_weights:
        # With equal weights, the difference of two means is a sum, which has a faster test. The
        # first count of a row is its weighted value.
        differences = _sum_by_cluster(counts_a - counts_b, clusters)
        return flip_test(differences[:, 0])
    # For other scores, the test swaps the clusters of the two models.
    sums_a = _sum_by_cluster(counts_a, clusters)
    sums_b = _sum_by_cluster(counts_b, clusters)
    return swap_test(sums_a, sums_b, compute_score)


def _sum_by_cluster(counts: Floats, clusters: ClusterNumbers) -> Floats:
    """Add up the counts of each cluster's rows, and return one line per cluster."""
    columns = [np.bincount(clusters, weights=column) for column in counts.T]
    return np.stack(columns, axis=1)
