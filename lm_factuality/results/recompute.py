"""Compute the scores of a task again from its samples alone, without any model or judge.

The answers of the model and the verdicts of the judge are read from the samples. Leaderboards
compare the recomputed scores with those in the results file.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.errors import DataError, short
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.scores.statistics import ClusterInterval

_TOLERANCE = 1e-9
"""The relative and absolute difference up to which two scores are the same."""

_STDERR_TOLERANCE = 1e-6
"""The same for standard errors, whose sums depend on the version of numpy."""

_MOST_CHANGED_ROWS = 3
"""The largest number of changed rows that are listed."""

UNREADABLE = (
    DataError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""The errors that a sample of another task, or one changed by hand, can cause."""


@dataclass(frozen=True)
class Recomputed:
    """The scores of a task that follow from its samples."""

    metrics: Mapping[str, float]
    """The scores by name, as in `TaskResult`."""

    stderrs: Mapping[str, float]
    """The standard errors by the name of the score."""

    intervals: Mapping[str, ClusterInterval]
    """The 95% intervals by the name of the score."""

    changed_rows: tuple[str, ...]
    """A sentence about each row whose metrics in the file do not follow from the rest of it."""


class _KeptSample(NamedTuple):
    """The parts of a sample from which its metrics are computed again."""

    doc_id: object
    """lm_eval's number of the row."""

    row: Mapping[str, Any]
    """The parts that the benchmark needs, such as the model's answer and the judge's verdicts."""

    logged_metrics: Mapping[str, object]
    """The metrics that the file states, by name."""


def recompute(task: TaskResult, samples: Iterable[Mapping[str, Any]] | None = None) -> Recomputed:
    """Compute the scores of a task again from its samples.

    Args:
        task: The task of a results file. Its own scores are not used.
        samples: The samples, which are read once. By default, those of the task's samples file.

    Returns:
        The scores, their standard errors, and the rows whose metrics were changed.

    Raises:
        DataError: The task is of another package, it has no samples, or a sample is not as this
            task writes it.
    """
    benchmark = find_benchmark(task.kind)
    if benchmark is None:
        raise DataError(
            f"{task.task}: not one of the suite's tasks, so its scores cannot be recomputed"
        )
    if samples is None:
        if task.samples is None:
            raise DataError(
                f"{task.task}: no samples file; run lm_eval with --log_samples to have it"
            )
        samples = read_samples(task.samples)

    kept_samples = _keep_samples(benchmark, task, samples)
    # The metrics of a row can depend on the others. In FACTOR, for example, a row has a metric for
    # each error type that occurs in any row.
    with _sample_errors(task.task):
        rescorer = benchmark.scoring.make_rescorer(task, [sample.row for sample in kept_samples])

    row_values_by_name: dict[str, list[Any]] = defaultdict(list)
    changed_rows = []
    for sample in kept_samples:
        location = f"doc_id {sample.doc_id}"
        with _sample_errors(f"{task.task}, {location}"):
            # A sample can state a verdict that does not follow from the judge's output in it.
            problem = rescorer.record_problem(sample.row)
            metrics = rescorer.row_metrics(sample.row)
        # One problem per row is reported, the verdict's before that of a metric.
        if problem is None:
            problem = _metric_problem(metrics, sample.logged_metrics)
        if problem is not None:
            changed_rows.append(f"{location}: {problem}")
        for name, value in metrics.items():
            row_values_by_name[name].append(value)
    # If someone changed many rows, the first ones and their number are enough.
    if len(changed_rows) > _MOST_CHANGED_ROWS:
        changed_rows[_MOST_CHANGED_ROWS:] = [f"... {len(changed_rows)} rows in all"]
    with _sample_errors(task.task):
        return _aggregate(benchmark, row_values_by_name, changed_rows)


def _keep_samples(
    benchmark: Benchmark, task: TaskResult, samples: Iterable[Mapping[str, Any]]
) -> list[_KeptSample]:
    """Read all samples, and keep of each only what its metrics are computed from.

    Long texts, such as prompts, are dropped, so that all samples fit into memory.

    Raises:
        DataError: A sample is not as this task writes it.
    """
    kept_samples = []
    for sample in samples:
        doc_id = sample["doc_id"]
        with _sample_errors(f"{task.task}, doc_id {doc_id}"):
            # lm_eval lists the names of a row's metrics: {"acc": 1.0, "metrics": ["acc"], ...}.
            logged_metrics = {name: sample.get(name) for name in sample.get("metrics", ())}
            row = benchmark.scoring.keep_row(sample)
            kept_samples.append(_KeptSample(doc_id, row, logged_metrics))
    return kept_samples


def _metric_problem(metrics: Mapping[str, object], logged: Mapping[str, object]) -> str | None:
    """Name the first metric of a row that the file states differently, or return None.

    Args:
        metrics: The computed metrics of the row, by name.
        logged: The metrics in the file, to which some may have been added.
    """
    for name in {**metrics, **logged}:
        if not is_same_value(metrics.get(name), logged.get(name)):
            return f"its {name} does not follow from the row"
    return None


def _aggregate(
    benchmark: Benchmark,
    row_values_by_name: Mapping[str, Sequence[Any]],
    changed_rows: Sequence[str],
) -> Recomputed:
    """Combine the metrics of all rows into the scores of the task.

    Args:
        benchmark: The benchmark, which declares how each score is aggregated.
        row_values_by_name: The values of all rows, by the name of the metric.
        changed_rows: Sentences about the rows whose metrics in the file do not follow from them.

    Raises:
        ValueError: A row has a metric that the benchmark does not declare.
    """
    metrics = {}
    stderrs = {}
    intervals = {}
    for name, row_values in row_values_by_name.items():
        score = benchmark.find_score(name)
        if score is None:
            raise ValueError(f"{benchmark.kind} declares no score {name!r}")
        aggregation = score.bounded_aggregation
        metrics[name] = float(aggregation.value(row_values))
        # lm_eval gives no standard error of a single row either.
        if aggregation.stderr is None or len(row_values) < 2:
            continue
        stderrs[name] = float(aggregation.stderr(row_values))
        interval = aggregation.interval_of(row_values)
        if interval is not None:
            intervals[name] = interval
    return Recomputed(metrics, stderrs, intervals, tuple(changed_rows))


@contextmanager
def _sample_errors(location: str) -> Iterator[None]:
    """Turn the errors that a wrong sample causes into a DataError.

    Args:
        location: The start of its text, such as ``felm, doc_id 7``.
    """
    try:
        yield
    except UNREADABLE as error:
        # The text of a KeyError is only the name of the missing key.
        problem = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{location}: not a sample as this task writes it: {problem}") from error


def is_same_value(computed: object, logged: object) -> bool:
    """Return whether a computed value is the value in a file, up to the last digits of numbers.

    Args:
        computed: A metric, or a record with numbers and texts.
        logged: The value that was read from JSON, where tuples have become lists.

    Example:
        ``{"p": (0.5, nan)}`` is the same as ``{"p": [0.5000000000001, nan]}``.
    """
    return not first_difference(computed, logged, "")


def first_difference(computed: object, logged: object, name: str) -> str:
    """Name the first part in which a value in a file differs from the computed one.

    Args:
        computed: The computed value, as in `is_same_value`. A key without a value may be missing.
        logged: The value that was read from JSON.
        name: The name of the value.

    Example:
        ``intervals.f1.0 is 0.99, expected 0.3162``, or an empty text.
    """
    # A list is compared like a dictionary with the keys 0, 1 and so on.
    if isinstance(computed, tuple | list) and isinstance(logged, tuple | list):
        computed = dict(enumerate(computed))
        logged = dict(enumerate(logged))
    if isinstance(computed, dict) and isinstance(logged, dict):
        for key in {**computed, **logged}:
            difference = first_difference(computed.get(key), logged.get(key), f"{name}.{key}")
            if difference:
                return difference
        return ""
    if isinstance(computed, int | float) and isinstance(logged, int | float):
        is_same = _is_close(computed, logged, _TOLERANCE)
    else:
        # The type checker does not know that == of two objects gives a boolean.
        is_same = bool(computed == logged)
    return "" if is_same else f"{name} is {short(logged)}, expected {short(computed)}"


def _is_close(first: float, second: float, tolerance: float) -> bool:
    """Return whether two numbers differ by no more than the tolerance, or both are NaN."""
    if math.isnan(first) and math.isnan(second):
        return True
    return math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance)


def differences(task: TaskResult, recomputed: Recomputed) -> list[str]:
    """List what a results file states differently from its samples.

    Args:
        task: The task with the scores of the results file.
        recomputed: The scores that follow from the samples.

    Returns:
        One sentence about each score, standard error and end of an interval that differs, and then
        about each changed row. There are none for an honest run.
    """
    # Standard errors and intervals count as well, since ranks depend on them.
    return [
        *_describe_differences(task.metrics, recomputed.metrics, _TOLERANCE),
        *_describe_differences(_uncertainties(task), _uncertainties(recomputed), _STDERR_TOLERANCE),
        *recomputed.changed_rows,
    ]


def _uncertainties(scores: TaskResult | Recomputed) -> dict[str, float]:
    """Return all standard errors, and the fields of all defined intervals.

    For the score ``acc`` these are ``acc_stderr``, ``acc_low``, ``acc_high`` and
    ``acc_num_clusters``.
    """
    numbers = {f"{name}_stderr": stderr for name, stderr in scores.stderrs.items()}
    for name, interval in scores.intervals.items():
        if interval.ends is None:
            continue
        for field, number in interval._asdict().items():
            numbers[f"{name}_{field}"] = float(number)
    return numbers


def _describe_differences(
    stated: Mapping[str, float], recomputed: Mapping[str, float], tolerance: float
) -> list[str]:
    """Write a sentence about each number that a results file states wrongly.

    Args:
        stated: The numbers in the results file by name, such as scores or standard errors.
        recomputed: The numbers that follow from the samples.
        tolerance: The difference up to which two numbers are the same.
    """
    differences = []
    # NaN stands for a score that is not defined, such as the score of an error type that no row
    # has. Such a score is the same as a missing one.
    for name, stated_value in stated.items():
        if name not in recomputed and not math.isnan(stated_value):
            differences.append(f"{name}: the results have it, the samples do not")

    for name, value in recomputed.items():
        stated_value = stated.get(name, math.nan)
        if _is_close(stated_value, value, tolerance):
            continue
        computed_text = f"the samples give {value:.10g}"
        if name in stated:
            differences.append(f"{name}: the results say {stated_value:.10g}, {computed_text}")
        else:
            differences.append(f"{name}: {computed_text}, the results have none")
    return differences
