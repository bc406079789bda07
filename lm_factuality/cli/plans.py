"""What ``--dry-run`` prints: the questions that a judge would be asked, and what they would cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_factuality.console import print_table

if TYPE_CHECKING:
    from judges.asking import Plan

_COLUMNS = (
    "step", "#requests", "#distinct", "#on disk", "#to send", "#prompt tokens", "#generated at most", "#USD at most",
)  # fmt: skip


def print_plans(what: str, judge: str, steps: Sequence[tuple[str, Plan]]) -> None:
    """A line for each step of ``what``, and the sum of the costs."""
    rows = [
        (step, f"{plan.total:,}", f"{plan.distinct:,}", f"{plan.stored:,}", f"{plan.to_send:,}",
         f"{plan.estimate.prompt_tokens:,}", f"{plan.estimate.max_completion_tokens:,}", _dollars(plan.estimate.max_cost))
        for step, plan in steps
    ]  # fmt: skip
    costs = [plan.estimate.max_cost for _, plan in steps]
    counted = sorted({plan.estimate.counted_by for _, plan in steps})
    known = sum(cost for cost in costs if cost is not None)
    total = "No cost: the judge's config names no prices." if None in costs else f"All steps: at most ${known:.4f}."
    notes = [f"Prompt tokens: {', '.join(counted)}. Nothing was sent.", total]
    print_table(f"{what}, judged by {judge}: what would be asked", _COLUMNS, rows, notes)


def _dollars(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.4f}"
