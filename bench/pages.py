"""Counts the calls and tokens of verifying biographies fact by fact, and page by page.

    python -m bench.pages

Nothing is sent. The calls and their prompt tokens are those that a judge would be asked first, for
the released facts of responses whose passages are known.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.decisions import match_texts, read_decisions
from lm_factuality.benchmarks.biographies.generations import passages_by_title, read_generations
from lm_factuality.benchmarks.biographies.matrix import (
    FactPair,
    PairKey,
    judge_pairs,
    pair_facts_with_pages,
)
from lm_factuality.benchmarks.biographies.types import Fact
from lm_factuality.ground.console import print_table
from tests.conftest import REPOSITORY

Way = Literal["fact", "page"]
"""What a question to the judge covers: one fact, or all facts on a page."""

_WAYS: tuple[Way, ...] = ("fact", "page")
_DATA = REPOSITORY.parent / "shared" / "data" / "ambigbio"


class Cost(NamedTuple):
    """What a judge is asked in order to verify all facts."""

    calls: int
    """The number of calls."""

    prompt_tokens: int
    """The tokens of their prompts."""


@dataclass(frozen=True)
class Comparison:
    """The cost of both ways of verifying the facts of the same responses."""

    num_responses: int
    """The number of responses."""

    num_facts: int
    """The number of their facts."""

    costs: Mapping[Way, Cost]
    """The cost of each way."""


def compare_costs(decisions: Path, generations: Path, tokenizer: str | None) -> Comparison:
    """Plan the verification of released facts in both ways, and count calls and tokens.

    Args:
        decisions: A file of the authors' decisions, from which the facts come.
        generations: The file with the responses and their passages.
        tokenizer: The tokenizer that counts, by its name in transformers. None estimates the
            tokens by the length of the text.
    """
    responses = read_decisions(decisions).responses
    matches = list(match_texts(responses, read_generations([generations])))
    pairs: dict[PairKey, FactPair] = {}
    for number, (response, generation) in enumerate(matches):
        facts = [Fact(fact.atom, 0) for fact in response.facts]
        find_page = passages_by_title(generation).get
        for pair in pair_facts_with_pages(facts, generation.entities, find_page):
            pairs[PairKey(number, pair.fact, pair.entity)] = pair

    num_facts = sum(len(response.facts) for response, _ in matches)
    costs = {way: _plan_cost(way, pairs, tokenizer) for way in _WAYS}
    return Comparison(len(matches), num_facts, costs)


def _plan_cost(way: Way, pairs: Mapping[PairKey, FactPair], tokenizer: str | None) -> Cost:
    """Count what a judge would be asked to verify pairs of a fact and a page in one way."""
    config = JudgeConfig("bench", "openai", model="m", verify=way, tokenizer=tokenizer)
    with (
        tempfile.TemporaryDirectory() as folder,
        Judge.open(config, Path(folder) / "answers.sqlite") as judge,
    ):
        plan = judge.plan(partial(judge_pairs, pairs=pairs))
    return Cost(plan.to_send, plan.estimate.prompt_tokens)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of both ways, and return the exit code."""
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("python -m bench.pages", description=description)
    parser.add_argument(
        "--decisions",
        type=Path,
        default=_DATA / "decisions" / "chatgpt-0301__no-ambig.json.gz",
        metavar="FILE",
        help="the authors' decisions (default: of ChatGPT)",
    )
    parser.add_argument(
        "--generations",
        type=Path,
        default=_DATA / "generations_chatgpt-0301.json.gz",
        metavar="FILE",
        help="the responses that were judged (default: of ChatGPT)",
    )
    parser.add_argument(
        "--tokenizer", metavar="NAME", help="of transformers (default: an estimate by length)"
    )
    arguments = parser.parse_args(argv)

    comparison = compare_costs(arguments.decisions, arguments.generations, arguments.tokenizer)
    cost_by_fact = comparison.costs["fact"]
    rows = []
    for way, cost in comparison.costs.items():
        fewer_calls = cost_by_fact.calls / cost.calls
        fewer_tokens = cost_by_fact.prompt_tokens / cost.prompt_tokens
        rows.append(
            (
                way,
                f"{cost.calls:,}",
                f"{cost.prompt_tokens:,}",
                f"{fewer_calls:.1f}",
                f"{fewer_tokens:.1f}",
            )
        )
    columns = ("verify", "#calls", "#prompt tokens", "#times fewer calls", "#times fewer tokens")
    note = (
        f"{comparison.num_responses} responses with {comparison.num_facts:,} released facts, each"
        f" compared with every candidate; {arguments.decisions.name}."
    )
    print_table("Verifying biographies", columns, rows, [note])
    return 0


if __name__ == "__main__":
    sys.exit(main())
