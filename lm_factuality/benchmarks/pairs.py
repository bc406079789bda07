"""How sure the difference between two models is, over the rows that both have a score on.

A score is a function of sums over rows: a mean (sum of values, sum of weights), or what the score's
aggregation makes of counts (errors found, false alarms, errors missed, the rest). Its standard
error is that of means clustered by document (`lm_factuality.scores.statistics`), and of counts the
same to the first order. Intervals are normal. P-values are two-sided and those of a randomisation
test over clusters (`lm_factuality.scores.paired`).
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Sample,
    SampleDisplay,
    Score,
    undeclared_score,
)
from lm_factuality.benchmarks.rows import SampleRow, ScoredRows, with_finite_numbers
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.scores.paired import (
    flip_test,
    holm,
    minimum_detectable_difference,
    score_gradient,
    swap_test,
)
from lm_factuality.scores.statistics import Z95, Floats, ratio

Value: TypeAlias = Callable[[Sequence[float]], float]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class PairedDifference:
    """A score of model A minus that of model B."""

    score_a: float
    score_b: float
    difference: float

    stderr: float | None
    """None below two clusters."""

    p_value: float | None
    """None below two clusters."""

    shared_rows: int
    """The rows that both models have a score on."""

    adjusted_p_value: float | None = None
    """The p-value corrected for its table."""

    @property
    def low(self) -> float | None:
        return None if self.stderr is None else self.difference - Z95 * self.stderr

    @property
    def high(self) -> float | None:
        return None if self.stderr is None else self.difference + Z95 * self.stderr

    @property
    def detectable(self) -> float | None:
        """The smallest difference that these rows can be expected to show.

        It is None for models that differ in no row.
        """
        return minimum_detectable_difference(self.stderr) if self.stderr else None


@contextmanager
def sample_errors(result: TaskResult, sample: Sample) -> Iterator[None]:
    """Turn what a benchmark raises about a sample into a DataError that names the sample."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{result.samples}: doc_id {sample.get('doc_id')}: not a sample of a {result.kind}"
            f" task: {type(error).__name__}: {error}; run the task again with --log_samples"
        ) from error


def sample_row_of(result: TaskResult, samples: SampleDisplay, sample: Sample) -> SampleRow:
    """Return a sample as its benchmark shows it.

    Raises:
        DataError: It is not a sample of this task.
    """
    with sample_errors(result, sample):
        return with_finite_numbers(samples.make_row(result, sample))


def comparable_scores(benchmark: Benchmark, names: Sequence[str]) -> list[Score]:
    """Return the scores among ``names`` that are compared, those that tables show first.

    A score of which neither higher nor lower is better is not compared. Neither is one without a
    measure, such as log-probabilities per token: two models' tokens are not the same.
    """
    compared = (
        benchmark.page.samples.find_extra_score if benchmark.page.samples else undeclared_score
    )
    scores = []
    for score in benchmark.table_scores:
        if (
            score.name in names
            and score.value_range is not None
            and score.higher_is_better is not None
        ):
            scores.append(score)
    for name in sorted(set(names) - {score.name for score in benchmark.table_scores}):
        scores.append(compared(name) or undeclared_score(name))
    return scores


def paired_difference(one: ScoredRows, other: ScoredRows, score: Score) -> PairedDifference | None:
    """Compare two models, or return None if no row or no score is defined for both.

    Raises:
        ValueError: The models' parts in a row are not of the same form.
    """
    a, b, clusters = one.counts, other.counts, one.clusters
    if one.keys != other.keys:
        places = {key: place for place, key in enumerate(other.keys)}
        shared = [place for place, key in enumerate(one.keys) if key in places]
        a = a[shared]
        b = b[[places[one.keys[place]] for place in shared]]
        clusters = np.unique(clusters[shared], return_inverse=True)[1]
    if not len(a):
        return None
    value = score_of_sums(score, a.shape[1])
    score_a, score_b = value(a.sum(axis=0).tolist()), value(b.sum(axis=0).tolist())
    if math.isnan(score_a) or math.isnan(score_b):
        return None
    stderr = _stderr(_adds(a, clusters, value) - _adds(b, clusters, value))
    return PairedDifference(
        score_a,
        score_b,
        score_a - score_b,
        stderr,
        p_value=None if stderr is None else _p(a, b, clusters, value),
        shared_rows=len(a),
    )


def compare_all_models(
    models: Mapping[Key, ScoredRows], score: Score, metrics: Mapping[Key, Mapping[str, float]]
) -> dict[tuple[Key, Key], PairedDifference]:
    """Compare every pair of models that have rows in common.

    Args:
        metrics: All scores of each model (see ``Score.comparable_if_equal``).

    Returns:
        The pairs in the order of ``models``, with p-values corrected for their number.
    """
    pairs = {}
    for one, other in combinations(models, 2):
        condition = score.comparable_if_equal
        if metrics[one].get(condition) != metrics[other].get(condition):
            continue
        pair = paired_difference(models[one], models[other], score)
        if pair is not None:
            pairs[one, other] = pair
    return adjust_p_values(pairs)


def adjust_p_values(pairs: Mapping[Key, PairedDifference]) -> dict[Key, PairedDifference]:
    """Correct p-values by Holm's method for the number of pairs that have one."""
    values = {key: pair.p_value for key, pair in pairs.items() if pair.p_value is not None}
    corrected = dict(zip(values, holm(list(values.values())), strict=True))
    return {key: replace(pair, adjusted_p_value=corrected.get(key)) for key, pair in pairs.items()}


def score_stderr(model: ScoredRows, score: Score) -> float | None:
    """Return the standard error of one model's score, or None below two clusters."""
    if not model.rows:
        return None
    value = score_of_sums(score, model.counts.shape[1])
    return _stderr(_adds(model.counts, model.clusters, value))


def score_of_sums(score: Score, width: int) -> Value:
    """Return how a score follows from its sums; the result is NaN where it is not defined."""
    if width == 2:
        return lambda sums: ratio(sums[0], sums[1])
    return lambda sums: score.aggregation.value([sums])


def format_difference(pair: PairedDifference, score: Score) -> tuple[str, str, str, str, str]:
    """Write a pair as tables show it.

    Returns:
        The difference, its interval, the p-value alone and corrected, and what is detectable. What
        is not known is empty.
    """
    interval = ""
    if pair.stderr is not None:
        interval = f"{_shown(score, pair.low, '+')} to {_shown(score, pair.high, '+')}"
    return (
        _shown(score, pair.difference, "+"),
        interval,
        _shown_p(pair.p_value),
        _shown_p(pair.adjusted_p_value),
        _shown(score, pair.detectable, ""),
    )


def _shown(score: Score, value: float | None, sign: str) -> str:
    if value is None:
        return ""
    return format(
        round(score.display_factor * value, score.decimals) + 0.0, f"{sign}.{score.decimals}f"
    )


def _shown_p(p: float | None) -> str:
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _p(a: Floats, b: Floats, clusters: NDArray[np.intp], value: Value) -> float:
    # A mean over the same weights is linear in its rows.
    if a.shape[1] == 2 and np.array_equal(a[:, 1], b[:, 1]):
        return flip_test(_by_cluster(a[:, :1] - b[:, :1], clusters)[:, 0])
    return swap_test(_by_cluster(a, clusters), _by_cluster(b, clusters), value)


def _adds(counts: Floats, clusters: NDArray[np.intp], value: Value) -> Floats:
    """Return what each cluster adds to a score, to the first order.

    Of means over the same weights that is all.
    """
    return np.asarray(_by_cluster(counts, clusters) @ score_gradient(value, counts.sum(axis=0)))


def _by_cluster(counts: Floats, clusters: NDArray[np.intp]) -> Floats:
    return np.stack([np.bincount(clusters, weights=column) for column in counts.T], axis=1)


def _stderr(adds: Floats) -> float | None:
    """Return the standard error of what clusters add up to, by the delta method."""
    groups = len(adds)
    if groups < 2:
        return None
    return math.sqrt(groups / (groups - 1) * float(((adds - adds.mean()) ** 2).sum()))
