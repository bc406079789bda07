"""How sure the difference between two models is: over the rows that both have a score on, row by
row.

A score is a function of sums over rows: a mean (sum of values, sum of weights), or what the score's
aggregation makes of counts (errors found, false alarms, errors missed, the rest). Its standard
error is that of means clustered by document (``lm_factuality.scores.statistics``), and of counts
the same to the first order. Intervals are normal; p-values are two-sided and those of a
randomisation test over clusters (``lm_factuality.scores.paired``)."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_factuality.benchmarks.declaration import Benchmark, Sample, Samples, Score, undeclared
from lm_factuality.benchmarks.rows import Counts, SampleRow, finite
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.scores.paired import detectable, flip_test, holm, slopes, swap_test
from lm_factuality.scores.statistics import Z95, Floats, ratio

_EQUAL = 1e-12

Value: TypeAlias = Callable[[Sequence[float]], float]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Scored:
    """The parts of a model in one score: by the row's key its cluster and its counts."""

    rows: Mapping[str, tuple[str, Counts]]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.rows)

    @cached_property
    def counts(self) -> Floats:
        return np.array([counts for _, counts in self.rows.values()], dtype=float)

    @cached_property
    def clusters(self) -> NDArray[np.intp]:
        return np.unique([cluster for cluster, _ in self.rows.values()], return_inverse=True)[1]


@dataclass(frozen=True)
class Pair:
    """Score ``a`` minus score ``b`` over the ``n`` rows that both have a score on, with a p-value;
    None below two clusters. ``wins`` and ``losses`` are the rows on which a, or b, has the better
    value. ``adjusted`` is p corrected for its table."""

    a: float
    b: float
    difference: float
    stderr: float | None
    p: float | None
    n: int
    wins: int
    losses: int
    adjusted: float | None = None

    @property
    def low(self) -> float | None:
        return None if self.stderr is None else self.difference - Z95 * self.stderr

    @property
    def high(self) -> float | None:
        return None if self.stderr is None else self.difference + Z95 * self.stderr

    @property
    def detectable(self) -> float | None:
        """The smallest difference that these rows can be expected to show; None for models that
        differ in no row."""
        return detectable(self.stderr) if self.stderr else None


@contextmanager
def reading(result: TaskResult, sample: Sample) -> Iterator[None]:
    """Around what a benchmark makes of a sample. Raises DataError: it is not a sample of this
    task."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{result.samples}: doc_id {sample.get('doc_id')}: not a sample of a {result.kind}"
            f" task: {type(error).__name__}: {error}; run the task again with --log_samples"
        ) from error


def row_of(result: TaskResult, samples: Samples, sample: Sample) -> SampleRow:
    """A sample as its benchmark shows it. Raises DataError: it is not a sample of this task."""
    with reading(result, sample):
        return finite(samples.row(result, sample))


def scored_rows(rows: Iterable[SampleRow]) -> dict[str, Scored]:
    """What the rows of a run contribute to each score."""
    parts: dict[str, dict[str, tuple[str, Counts]]] = {}
    for row in rows:
        for score, counts in row.parts.items():
            parts.setdefault(score, {})[row.key] = (row.cluster, counts)
    return {score: Scored(rows) for score, rows in parts.items()}


def compared_scores(benchmark: Benchmark, names: Sequence[str]) -> list[Score]:
    """Of ``names`` the scores of a benchmark that are compared, those that tables show before the
    others. What has no better way is not, nor what has no measure, such as log-probabilities per
    token: two models' tokens are not the same."""
    shown = {score.name: score for score in benchmark.shown}
    able = [
        score
        for score in shown.values()
        if score.name in names and score.measure is not None and score.higher is not None
    ]
    compared = benchmark.page.samples.compared if benchmark.page.samples else undeclared
    return able + [compared(name) or undeclared(name) for name in sorted(set(names) - set(shown))]


def compare(one: Scored, other: Scored, score: Score) -> Pair | None:
    """The pair; None if no row has a score of both, or the score is not defined on these rows.
    Raises ValueError: the models' parts in a row are not of the same form."""
    a, b, clusters = one.counts, other.counts, one.clusters
    if one.keys != other.keys:
        places = {key: place for place, key in enumerate(other.keys)}
        shared = [place for place, key in enumerate(one.keys) if key in places]
        a, b = a[shared], b[[places[one.keys[place]] for place in shared]]
        clusters = np.unique(clusters[shared], return_inverse=True)[1]
    if not len(a):
        return None
    value = value_of(score, a.shape[1])
    score_a, score_b = value(a.sum(axis=0).tolist()), value(b.sum(axis=0).tolist())
    if math.isnan(score_a) or math.isnan(score_b):
        return None
    better = (_row_values(a) - _row_values(b)) * (-1 if score.higher is False else 1)
    wins, losses = int((better > _EQUAL).sum()), int((better < -_EQUAL).sum())
    stderr = _stderr(_adds(a, clusters, value) - _adds(b, clusters, value))
    p = None if stderr is None else _p(a, b, clusters, value)
    return Pair(score_a, score_b, score_a - score_b, stderr, p, len(a), wins, losses)


def compare_all(
    models: Mapping[Key, Scored], score: Score, metrics: Mapping[Key, Mapping[str, float]]
) -> dict[tuple[Key, Key], Pair]:
    """Every pair of models that have rows in common, in the order of ``models``, with p-values
    corrected for their number. ``metrics`` are all of each model's, of which ``Score.alike`` must
    be equal."""
    able = [
        pair
        for pair in combinations(models, 2)
        if len({metrics[key].get(score.alike) for key in pair}) == 1
    ]
    pairs = {(one, other): compare(models[one], models[other], score) for one, other in able}
    return adjusted({key: pair for key, pair in pairs.items() if pair is not None})


def adjusted(pairs: Mapping[Key, Pair]) -> dict[Key, Pair]:
    """The pairs with their p-values corrected by Holm's method for the number of pairs that have
    one."""
    tested = [key for key, pair in pairs.items() if pair.p is not None]
    found = dict(
        zip(tested, holm([pair.p for pair in pairs.values() if pair.p is not None]), strict=True)
    )
    return {key: replace(pair, adjusted=found.get(key)) for key, pair in pairs.items()}


def stderr_of(one: Scored, score: Score) -> float | None:
    """The standard error of one model's score; None below two clusters."""
    return (
        _stderr(_adds(one.counts, one.clusters, value_of(score, one.counts.shape[1])))
        if one.rows
        else None
    )


def value_of(score: Score, width: int) -> Value:
    """How a score follows from its sums; NaN where it is not defined."""
    if width == 2 and not score.of_sums:
        return lambda sums: ratio(sums[0], sums[1])
    return score.of_sums or (lambda sums: score.aggregation.value([sums]))


def _row_values(counts: Floats) -> Floats:
    """How well each row went: its value or, of found errors, how many of its units are judged
    rightly."""
    if counts.shape[1] == 2:
        return np.asarray(
            np.divide(
                counts[:, 0],
                counts[:, 1],
                out=np.full(len(counts), np.nan),
                where=counts[:, 1] != 0,
            )
        )
    return np.asarray(counts[:, 0] + counts[:, 3])


def written(pair: Pair, score: Score) -> tuple[str, str, str, str, str]:
    """As tables show it, empty where not known: difference, interval, p-value alone and corrected,
    and what is detectable."""

    def shown(value: float | None, form: str) -> str:
        return (
            ""
            if value is None
            else format(round(score.times * value, score.digits) + 0.0, f"{form}.{score.digits}f")
        )

    def p(value: float | None) -> str:
        return "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"

    alone = p(pair.p) + (" unpaired" if pair.p is not None and not pair.n else "")
    ends = f"{shown(pair.low, '+')} to {shown(pair.high, '+')}" if pair.stderr is not None else ""
    return shown(pair.difference, "+"), ends, alone, p(pair.adjusted), shown(pair.detectable, "")


def _by_cluster(counts: Floats, clusters: NDArray[np.intp]) -> Floats:
    return np.stack([np.bincount(clusters, weights=column) for column in counts.T], axis=1)


def _p(a: Floats, b: Floats, clusters: NDArray[np.intp], value: Value) -> float:
    if a.shape[1] == 2 and np.array_equal(
        a[:, 1], b[:, 1]
    ):  # a mean over the same weights is linear in its rows
        return flip_test(_by_cluster(a[:, :1] - b[:, :1], clusters)[:, 0])
    return swap_test(_by_cluster(a, clusters), _by_cluster(b, clusters), value)


def _adds(counts: Floats, clusters: NDArray[np.intp], value: Value) -> Floats:
    """What each cluster adds to a score, to the first order; of means over the same weights that is
    all."""
    return np.asarray(_by_cluster(counts, clusters) @ slopes(value, counts.sum(axis=0)))


def _stderr(adds: Floats) -> float | None:
    """Of what clusters add up to (the delta method); None below two clusters."""
    groups = len(adds)
    return (
        math.sqrt(groups / (groups - 1) * float(((adds - adds.mean()) ** 2).sum()))
        if groups > 1
        else None
    )
