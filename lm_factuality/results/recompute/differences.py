"""What a results file says otherwise than its samples."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lm_factuality.results.recompute.scores import Recomputed
from lm_factuality.results.types import TaskResult

_CLOSE = 1e-9
_CLOSE_STDERR = 1e-6  # bootstrapped ones are sums in another order where numpy is another


def differences(task: TaskResult, found: Recomputed) -> list[str]:
    """What the results file says otherwise than the samples, one sentence a score; none for an honest run."""
    said = _unfounded(task.metrics, found.metrics, "")
    for name, value in found.metrics.items():
        said += _difference(name, task.metrics.get(name), value, _CLOSE)
    said += _unfounded(task.stderrs, found.stderrs, "_stderr")
    for name, value in found.stderrs.items():
        said += _difference(f"{name}_stderr", task.stderrs.get(name), value, _CLOSE_STDERR)
    return [*said, *found.changed_rows]


def _unfounded(said: Mapping[str, float], found: Mapping[str, float], suffix: str) -> list[str]:
    """Scores of the results that the samples have not; one that is not defined is none (a part of the data may lack a type)."""
    names = [name for name, value in said.items() if name not in found and not math.isnan(value)]
    return [f"{name}{suffix}: the results have it, the samples do not" for name in names]


def _difference(name: str, said: float | None, value: float, tolerance: float) -> list[str]:
    if said is None:
        return [] if math.isnan(value) else [f"{name}: the samples give {value:.10g}, the results have none"]
    if math.isnan(said) and math.isnan(value):
        return []
    if math.isclose(said, value, rel_tol=tolerance, abs_tol=tolerance):
        return []
    return [f"{name}: the results say {said:.10g}, the samples give {value:.10g}"]
