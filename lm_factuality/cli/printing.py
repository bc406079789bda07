"""What several commands print: shares in per cent, and what ``--dry-run`` would ask and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_factuality.ground.console import print_table

if TYPE_CHECKING:
    from judges.judge import Plan

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
