"""What commands share: their parsers and those of their actions, such as ``index build``, and what several of them print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.ground.console import print_table
from lm_factuality.ground.packages import load_yaml

if TYPE_CHECKING:
    from judges.judge import Plan

Action = Callable[[argparse.Namespace], int]
_EXAMPLES: Mapping[str, str] = load_yaml(__package__, "examples.yaml")
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


def examples(name: str) -> str:
    """The examples of a command, or of one of its actions (``index build``)."""
    return _EXAMPLES[name].rstrip("\n")


def add_action(actions: Any, name: str, line: str, function: Action | None = None) -> argparse.ArgumentParser:
    """The parser of a command or an action among ``actions``, with one ``line`` on it, its examples and what it does. ``name`` is
    that of the command, and behind it that of the action."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name.rpartition(" ")[2],
        help=line,
        description=f"{line[0].upper()}{line[1:]}.",
        epilog=examples(name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if function is not None:
        parser.set_defaults(function=function)
    return parser


@dataclass(frozen=True)
class Command:
    """A command: its name, one line on it, and the module here with what it does, ``NAME`` (unless each of its actions does
    something), and its options, ``NAME_options`` (if it has some); imported when it is needed, so that ``--help`` stays fast."""

    name: str
    help: str
    module: str = ""

    def add(self, subparsers: Any, has_options: bool = True) -> None:
        """Adds the command, without its options if nobody asks for them."""
        parser = add_action(subparsers, self.name, self.help)
        if self.module and has_options:
            module = import_module(f"{__package__}.{self.module}")
            parser.set_defaults(function=getattr(module, self.name, None))
            getattr(module, f"{self.name}_options", lambda parser: None)(parser)


def add_judge(parser: argparse.ArgumentParser, otherwise: str = "'lexical' to try things out") -> None:
    """The options of whatever asks a judge."""
    parser.add_argument("--judge", required=True, metavar="CONFIG", help=f"a judge's YAML, or {otherwise}")
    parser.add_argument("--store", type=Path, metavar="FILE", help="where answers are kept (default: the shared store)")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and cost; ask and write nothing")


def percent(value: float | None) -> str:
    """A share in per cent, ``-`` where it is not defined."""
    return "-" if value is None else f"{100 * value:.1f}"


def print_plans(what: str, judge: str, steps: Sequence[tuple[str, Plan]]) -> None:
    """A line for each step of ``what``, and the sums of the costs, as estimated and at most (see ``max_cost``)."""
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
