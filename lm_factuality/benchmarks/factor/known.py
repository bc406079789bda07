"""What is known of FACTOR's published files whoever is evaluated: ``known.yaml``, for the report."""

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.factor.metrics import FLOOR, VERSUS
from lm_factuality.benchmarks.factor.scoring import NORMALISATIONS
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import TaskResult, number_of

KNOWN: Mapping[str, Any] = load_yaml(__package__, "known.yaml")  # which says what its keys are


def known_of(task: TaskResult) -> Mapping[str, Any] | None:
    """What is known of the file behind ``task``, with its spacing; None where it is no published file."""
    data = task.metadata.get("data")
    source = data.get("source") if isinstance(data, Mapping) else None
    found: Mapping[str, Any] | None = KNOWN.get(str(source), {}).get(str(task.metadata.get("spacing") or "published"))
    return found


def floor(task: TaskResult, metric: str) -> float | None:
    """What knowing nothing scores on the rows of ``task``: of accuracies as the run has it, or, where it has not (runs of earlier
    releases), as it is known of a published file; a half of pairs. None of scores without a floor, and where it is not known."""
    if metric == "pairwise_acc" or metric.startswith(VERSUS):
        return 0.5
    if metric not in NORMALISATIONS:
        return None
    known = known_of(task)
    return number_of(task.metrics.get(FLOOR, known["lot"] / 100 if known else None))
