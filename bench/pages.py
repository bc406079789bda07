"""``python -m bench.pages``: what it costs to verify biographies one fact a call and all facts of a
page at once.

Nothing is sent: the calls and their prompt tokens are those that a judge would be asked first, for
the released facts of responses whose passages are known. Tokens are counted by the tokenizer of
``--tokenizer``, or estimated by length.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

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

_DATA = REPOSITORY.parent / "shared" / "data" / "ambigbio"


def measure(
    decisions: Path, generations: Path, tokenizer: str | None
) -> tuple[int, int, dict[str, tuple[int, int]]]:
    """(responses, facts, calls and prompt tokens by ``fact`` and ``page``)."""
    matched = list(
        match_texts(read_decisions(decisions).responses, read_generations([generations]))
    )
    pairs: dict[PairKey, FactPair] = {}
    for number, (response, generation) in enumerate(matched):
        facts = [Fact(fact.atom, 0) for fact in response.facts]
        for pair in pair_facts_with_pages(
            facts, generation.entities, passages_by_title(generation).get
        ):
            pairs[PairKey(number, pair.fact, pair.entity)] = pair
    found = {}
    for verify in ("fact", "page"):
        config = JudgeConfig("bench", "openai", model="m", verify=verify, tokenizer=tokenizer)
        with (
            tempfile.TemporaryDirectory() as folder,
            Judge.open(config, Path(folder) / "answers.sqlite") as judge,
        ):
            plan = judge.plan(partial(judge_pairs, pairs=pairs))
        found[verify] = (plan.to_send, plan.estimate.prompt_tokens)
    return len(matched), sum(len(response.facts) for response, _ in matched), found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench.pages", description=__doc__)
    parser.add_argument(
        "--decisions",
        type=Path,
        default=_DATA / "decisions" / "chatgpt-0301__no-ambig.json.gz",
        metavar="FILE",
    )
    parser.add_argument(
        "--generations",
        type=Path,
        default=_DATA / "generations_chatgpt-0301.json.gz",
        metavar="FILE",
    )
    parser.add_argument(
        "--tokenizer", metavar="NAME", help="of transformers (default: an estimate by length)"
    )
    given = parser.parse_args(argv)
    responses, facts, found = measure(given.decisions, given.generations, given.tokenizer)
    (calls, tokens), rows = found["fact"], []
    for verify, (own_calls, own_tokens) in found.items():
        rows.append(
            (
                verify,
                f"{own_calls:,}",
                f"{own_tokens:,}",
                f"{calls / own_calls:.1f}",
                f"{tokens / own_tokens:.1f}",
            )
        )
    notes = [
        f"{responses} responses with {facts:,} released facts, each held against every candidate; {given.decisions.name}."
    ]
    print_table(
        "Verifying biographies",
        ("verify", "#calls", "#prompt tokens", "#times fewer calls", "#tokens"),
        rows,
        notes,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
