"""What several commands print: shares in per cent, and what ``--dry-run`` would ask and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_factuality.ground.console import print_table

if TYPE_CHECKING:
    from judges.judge import Plan
    from lm_factuality.harness.outputs import ResultsFile

_COLUMNS = (
    "step",
    "#requests",
    "#distinct",
    "#on disk",
    "#to send",
    "#at most",
    "#prompt tokens",
    "#generated at most",
    "#USD estimated",
    "#USD at most",
)


def percent(value: float | None) -> str:
    """A share in per cent, ``-`` where it is not defined."""
    return "-" if value is None else f"{100 * value:.1f}"


def print_plans(what: str, judge: str, steps: Sequence[tuple[str, Plan]]) -> None:
    """A line for each step of ``what``, and the sums of the costs: as estimated, and the most that the calls can cost, which is
    what ``max_cost`` sets aside before each."""
    rows, priced = [], []
    for step, plan in steps:
        costs = plan.estimate.estimated_cost, plan.at_most.max_cost
        counts = (plan.total, plan.distinct, plan.stored, plan.to_send, plan.at_most.calls)
        tokens = (plan.estimate.prompt_tokens, plan.at_most.max_completion_tokens)
        shown = ("-" if cost is None else f"{cost:.4f}" for cost in costs)
        rows.append((step, *(f"{count:,}" for count in (*counts, *tokens)), *shown))
        priced += [(costs[0], costs[1])] if costs[0] is not None and costs[1] is not None else []
    total = "No cost: the judge's config names no prices."
    if len(priced) == len(steps):
        estimated, most = sum(cost for cost, _ in priced), sum(cost for _, cost in priced)
        total = f"All steps: ${estimated:.4f} estimated, at most ${most:.4f} if no call has to be repeated or to think longer."
    counted = ", ".join(sorted({plan.estimate.counted_by for _, plan in steps}))
    bounded = (
        "At most: with as many answers asked for once more, and facts as short, as can be, if the judge need not think longer."
    )
    notes = [f"Prompt tokens: {counted}. Nothing was sent.", bounded, total]
    print_table(f"{what}, judged by {judge}: what would be asked", _COLUMNS, rows, notes)


def print_corrected(files: Sequence[ResultsFile], tasks: Sequence[str] | None = None) -> None:
    """The scores that are corrected for their judge beside what was measured, of all ``tasks`` or of some, and why others are not
    though the judge has a certificate; nothing where there are none."""
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.benchmarks.chosen import figure

    rows, notes = [], dict[str, None]()
    for task in (each for file in files for each in file.tasks if tasks is None or each.task in tasks):
        benchmark = find_benchmark(task.kind)
        for name in task.metrics:
            found = figure(task, name)
            if found and found.uncorrected:
                notes[f"{task.task}, {name}: {found.uncorrected}"] = None
            if found and (each := found.corrected) and benchmark and (score := benchmark.score(name)):
                own = "" if found.low is None or found.high is None else score.between(found.low, found.high)
                weight = "" if each.weight is None else f"{each.weight:.2f}"
                labels = f"{each.labelled} of {each.units}" if each.labelled else ""
                ends = score.write(each.value), score.between(each.low, each.high)
                rows.append((f"{task.task}, {name}", score.write(found.value), own, *ends, weight, labels))
                notes[f"{task.task}: corrected {each.how}"] = None
    if any(row[5] for row in rows):
        notes["lambda: how far the judge is believed between the labels, from 0 (not at all) to 1."] = None
    if notes:
        columns = ("score", "#measured", "#95% interval", "#corrected", "#95% interval ", "#lambda", "#labelled")
        print_table("Scores corrected for the judge", columns, rows, list(notes))
