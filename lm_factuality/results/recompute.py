"""Compute every score of the suite's tasks from their samples alone, by the metrics of the run.

What a model said is read from ``filtered_resps``: log-probabilities of choices and documents,
outputs of FELM's judge. What a judge said is read from the verdict records there, and nobody is
asked again. What follows from a record, or has to be in it for the response in the samples, is
computed by the benchmark's ``recount``.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import read_samples

_CLOSE = 1e-9
# Bootstrapped standard errors are sums in another order where numpy is another.
_CLOSE_STDERR = 1e-6
_SHOWN_ROWS = 3

UNREADABLE = (
    DataError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What a row raises that this task did not write."""


@dataclass(frozen=True)
class Recomputed:
    """What the samples of a task give."""

    metrics: Mapping[str, float]
    """The scores by name, as in `TaskResult`."""

    stderrs: Mapping[str, float]

    changed_rows: tuple[str, ...]
    """A sentence on each row whose metrics in the file do not follow from the rest of the row."""


def recompute(task: TaskResult, samples: Iterable[Mapping[str, Any]] | None = None) -> Recomputed:
    """Compute the scores of ``task`` from its samples.

    Args:
        samples: The rows, which are read once. Defaults to those of the task's samples file.

    Raises:
        DataError: There are no samples, they are not as this task writes them, or the task is none
            of the suite's.
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
    values, changed_rows = _collect(benchmark, task, samples)
    metrics = {}
    stderrs = {}
    with _readable(task.task):
        for name, row_values in values.items():
            score = benchmark.find_score(name)
            if score is None:
                raise ValueError(f"{benchmark.kind} declares no score {name!r}")
            aggregation = score.aggregation
            metrics[name] = float(aggregation.value(row_values))
            # lm_eval gives no standard error of a single row either.
            if aggregation.stderr is not None and len(row_values) > 1:
                stderrs[name] = float(aggregation.stderr(row_values))
    return Recomputed(metrics, stderrs, tuple(changed_rows))


def _collect(
    benchmark: Benchmark, task: TaskResult, samples: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the values of all rows by metric, and a sentence on each row that was changed."""
    doc_ids = []
    rows = []
    logged_metrics = []
    for sample in samples:
        with _readable(f"{task.task}, doc_id {sample['doc_id']}"):
            logged_metrics.append({name: sample.get(name) for name in sample.get("metrics", ())})
            doc_ids.append(sample["doc_id"])
            rows.append(benchmark.scoring.keep_row(sample))
    with _readable(task.task):
        row_metrics, unfounded = benchmark.scoring.make_rescorer(task, rows)

    values: dict[str, list[Any]] = defaultdict(list)
    changed_rows: list[str] = []
    for doc_id, row, logged in zip(doc_ids, rows, logged_metrics, strict=True):
        with _readable(f"{task.task}, doc_id {doc_id}"):
            reason = unfounded(row)
            metrics = row_metrics(row)
        for name, value in metrics.items():
            values[name].append(value)
        if reason is None:
            for name in {**metrics, **logged}:
                if not same(metrics.get(name), logged.get(name)):
                    reason = f"its {name} does not follow from the row"
                    break
        if reason is not None:
            changed_rows.append(f"doc_id {doc_id}: {reason}")
    if len(changed_rows) > _SHOWN_ROWS:
        changed_rows = [*changed_rows[:_SHOWN_ROWS], f"... {len(changed_rows)} rows in all"]
    return values, changed_rows


@contextmanager
def _readable(place: str) -> Iterator[None]:
    """Turn what a strange row raises into a DataError that names its place."""
    try:
        yield
    except UNREADABLE as error:
        problem = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{place}: not a sample as this task writes it: {problem}") from error


def same(value: Any, logged: Any) -> bool:
    """Whether a metric or a record of a row is what the file has, but for the last digits.

    JSON writes tuples as lists, and a score that is not defined is NaN in both.
    """
    if isinstance(value, dict) and isinstance(logged, dict):
        return value.keys() == logged.keys() and all(
            same(part, logged[key]) for key, part in value.items()
        )
    if isinstance(value, tuple | list) and isinstance(logged, tuple | list):
        return len(value) == len(logged) and all(
            same(part, logged_part) for part, logged_part in zip(value, logged, strict=True)
        )
    if isinstance(value, int | float) and isinstance(logged, int | float):
        return _is_close(value, logged, _CLOSE)
    return bool(value == logged)


def _is_close(first: float, second: float, tolerance: float) -> bool:
    if first != first and second != second:
        return True
    return math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance)


def differences(task: TaskResult, recomputed: Recomputed) -> list[str]:
    """Say what the results file states otherwise than the samples; nothing for an honest run.

    Returns:
        One sentence for each score and standard error, then those on changed rows.
    """
    sentences = _score_differences(task.metrics, recomputed.metrics, "", _CLOSE)
    sentences += _score_differences(task.stderrs, recomputed.stderrs, "_stderr", _CLOSE_STDERR)
    return [*sentences, *recomputed.changed_rows]


def _score_differences(
    stated: Mapping[str, float], recomputed: Mapping[str, float], suffix: str, tolerance: float
) -> list[str]:
    # A part of the data may lack a type, whose score the results state as not defined.
    sentences = [
        f"{name}{suffix}: the results have it, the samples do not"
        for name, value in stated.items()
        if name not in recomputed and not math.isnan(value)
    ]
    for name, value in recomputed.items():
        stated_value = stated.get(name, math.nan)
        if _is_close(stated_value, value, tolerance):
            continue
        gives = f"the samples give {value:.10g}"
        if name in stated:
            sentences.append(f"{name}{suffix}: the results say {stated_value:.10g}, {gives}")
        else:
            sentences.append(f"{name}{suffix}: {gives}, the results have none")
    return sentences
