"""Every score of the suite's tasks out of their samples alone, by the same metrics as in the run;
the rows whose own metrics do not follow from them; and what a results file says otherwise.

What a model said is read from ``filtered_resps``: log-probabilities of choices and documents,
outputs of FELM's judge. What a judge said is read from the verdict records there; nobody is asked
again. What follows from a record, or has to be in it for the response that was given, is found
again by the benchmark's ``recount``."""

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
_CLOSE_STDERR = 1e-6  # bootstrapped ones are sums in another order where numpy is another
_SHOWN_ROWS = 3

# What a strange row raises.
UNREADABLE = (
    DataError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


@dataclass(frozen=True)
class Recomputed:
    """What the samples of a task give: ``metrics`` and ``stderrs`` by name as in ``TaskResult``;
    ``changed_rows`` says of rows whose own metrics in the file are not what follows from the rest
    of the row."""

    metrics: Mapping[str, float]
    stderrs: Mapping[str, float]
    changed_rows: tuple[str, ...]


def recompute(task: TaskResult, samples: Iterable[Mapping[str, Any]] | None = None) -> Recomputed:
    """The scores of ``task`` from its samples file, or from ``samples``, which are read once.
    Raises DataError: there are no samples, they are not as this task writes them, or the task is
    none of the suite's."""
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
    values, changed = _collect(benchmark, task, samples)
    metrics, stderrs = {}, {}
    with _readable(task.task):
        for name, rows in values.items():
            score = benchmark.score(name)
            if score is None:
                raise ValueError(f"{benchmark.kind} declares no score {name!r}")
            aggregation = score.aggregation
            metrics[name] = float(aggregation.value(rows))
            if aggregation.stderr is not None and len(rows) > 1:  # as in lm_eval
                stderrs[name] = float(aggregation.stderr(rows))
    return Recomputed(metrics, stderrs, tuple(changed))


def differences(task: TaskResult, found: Recomputed) -> list[str]:
    """What the results file says otherwise than the samples, one sentence a score; none for an
    honest run."""
    wrong = []
    for suffix, said, given, tolerance in (
        ("", task.metrics, found.metrics, _CLOSE),
        ("_stderr", task.stderrs, found.stderrs, _CLOSE_STDERR),
    ):
        # A score that is not defined is none: a part of the data may lack a type.
        names = [
            name for name, value in said.items() if name not in given and not math.isnan(value)
        ]
        wrong += [f"{name}{suffix}: the results have it, the samples do not" for name in names]
        for name, value in given.items():
            listed, gives = said.get(name, math.nan), f"the samples give {value:.10g}"
            if (math.isnan(listed) and math.isnan(value)) or math.isclose(
                listed, value, rel_tol=tolerance, abs_tol=tolerance
            ):
                continue
            both = (
                f"the results say {listed:.10g}, {gives}"
                if name in said
                else f"{gives}, the results have none"
            )
            wrong.append(f"{name}{suffix}: {both}")
    return [*wrong, *found.changed_rows]


def _collect(
    benchmark: Benchmark, task: TaskResult, samples: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, list[Any]], list[str]]:
    """The values of all rows by metric, and what is said of rows that were changed."""
    rows: list[tuple[Any, Mapping[str, Any], Mapping[str, Any]]] = []
    for sample in samples:
        with _readable(f"{task.task}, doc_id {sample['doc_id']}"):
            own = {name: sample.get(name) for name in sample.get("metrics", ())}
            rows.append((sample["doc_id"], benchmark.scoring.keep(sample), own))
    with _readable(task.task):
        row_metrics, unfounded = benchmark.scoring.recount(task, [row for _, row, _ in rows])
    values: dict[str, list[Any]] = defaultdict(list)
    changed: list[str] = []
    for doc_id, row, logged in rows:
        with _readable(f"{task.task}, doc_id {doc_id}"):
            reason, found = unfounded(row), row_metrics(row)
        for name, value in found.items():
            values[name].append(value)
        wrong = next(
            (name for name in {**found, **logged} if not same(found.get(name), logged.get(name))),
            None,
        )
        if reason is not None:
            changed.append(f"doc_id {doc_id}: {reason}")
        elif wrong is not None:
            changed.append(f"doc_id {doc_id}: its {wrong} does not follow from the row")
    if len(changed) > _SHOWN_ROWS:
        changed = [*changed[:_SHOWN_ROWS], f"... {len(changed)} rows in all"]
    return values, changed


@contextmanager
def _readable(where: str) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{where}: not a sample as this task writes it: {what}") from error


def same(one: Any, other: Any, tolerance: float = _CLOSE) -> bool:
    """Whether a metric or a record of a row is what the file has, which is how JSON writes it, but
    for the last digits."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key], tolerance) for key, value in one.items()
        )
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(
            same(*each, tolerance) for each in zip(one, other, strict=True)
        )
    if isinstance(one, int | float) and isinstance(other, int | float):
        return (
            math.isclose(one, other, rel_tol=_CLOSE, abs_tol=tolerance)
            or one != one != other != one
        )
    return bool(one == other)
