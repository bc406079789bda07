"""Rates of a judge's verdicts corrected by its certificate, where no labels of the same responses are known: by how often it says
yes where the truth is yes (sensitivity) and no where it is no (Rogan and Gladen, 1978), with the uncertainty of both in the
interval (arXiv 2511.21140)."""

import math
from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.certifiable import is_interval, mapping, whole_scores
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.statistics import Z95
from lm_factuality.harness.outputs import Corrected, TaskResult, number_of


def by_certificate(benchmark: Benchmark, task: TaskResult, metric: str) -> Corrected | str | None:
    """The score ``metric`` of a task corrected by the certificate of its judge, or in a sentence why that is not possible though
    there is one; None for scores that no certificate corrects. Assumed is that the judge errs on these responses as it did on
    those that it was certified on."""
    rate, stderr = task.metrics.get(metric, math.nan), task.stderrs.get(metric, math.nan)
    for step in benchmark.judged_steps if task.metadata.get("judge_config") else ():
        found = step.certificate(task.metadata) if metric in step.rates else None
        if found is not None and math.isfinite(rate) and math.isfinite(stderr):
            setting, content = found
            level = step.rates[metric]
            scores, ends = (mapping(mapping(each).get(level)) for each in (whole_scores(content), content.get("intervals")))
            return correct(rate, stderr, scores, ends, f"its certificate ({setting.name})")
    return None


def correct(rate: float, stderr: float, scores: Mapping[str, Any], ends: Mapping[str, Any], named: str) -> Corrected | str:
    """By the delta method. ``scores`` have the counts of a certificate; half a verdict is added to each, so that no variance is
    zero. ``ends`` has its intervals, which know of clusters: variances are not below those that they tell of."""
    counts = [number_of(scores.get(name)) for name in ("tp", "fp", "fn", "tn")]
    tp, fp, fn, tn = (-1.0 if count is None else count for count in counts)
    if min(tp, fp, fn, tn) < 0 or not tp + fn or not fp + tn:
        return f"{named} has no counts of both kinds of truth"
    yes, no = tp + fn + 1, fp + tn + 1
    sensitivity, specificity = (tp + 0.5) / yes, (tn + 0.5) / no
    of_yes = max(sensitivity * (1 - sensitivity) / yes, _variance(ends.get("recall")))
    # Balanced accuracy is half the sum.
    both = max(of_yes + specificity * (1 - specificity) / no, 4 * _variance(ends.get("balanced_accuracy")))
    above, shown = sensitivity + specificity - 1, f"sensitivity {sensitivity:.1%}, specificity {specificity:.1%}"
    if above <= Z95 * math.sqrt(both):
        return f"no correction: in {named} the judge is not clearly better than chance, {shown}"
    value = (rate + specificity - 1) / above
    inside = min(1.0, max(0.0, value))
    error = math.sqrt(stderr**2 + (1 - inside) ** 2 * (both - of_yes) + inside**2 * of_yes) / above
    low, high = (min(1.0, max(0.0, value + side * Z95 * error)) for side in (-1, 1))
    return Corrected(inside, low, high, error, f"by {named}: {shown}, if the judge errs here as on the data of the certificate")


def _variance(ends: Any) -> float:
    return float(((ends[1] - ends[0]) / (2 * Z95)) ** 2) if is_interval(ends) else 0.0
