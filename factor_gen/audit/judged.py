"""Table 2's three properties of contradictions, as a judge sees them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from factor_gen.audit.flags import contradictions_of
from factor_gen.audit.records import EstimatedShare, Property
from factor_gen.records import ErrorType
from judges.typed import Reply
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import ConfigError
from lm_factuality.scores.statistics import Outcome, bootstrap_interval, mean

if TYPE_CHECKING:
    from judges.judge import Judge

PROMPTS_FOLDER = Path(__file__).resolve().parent / "prompts"
PROMPTS = {
    "non-factual": "contradicts",
    "fluent": "fluent",
    "self-consistent": "consistent",
}
"""The prompt that asks for each property of table 2."""
_TYPE = "type"  # the prompt that asks for the error type
_CONTEXT = 100  # words of the prefix that the judge sees


class YesOrNo(Reply):
    """Whether a contradiction has a property."""

    reason: str
    answer: Literal["yes", "no"]


class Kind(Reply):
    """Of which error type a contradiction is."""

    reason: str
    type: ErrorType


def open_judge(path_or_name: str, store: Path | None = None) -> Judge:
    """Open the judge of a YAML, or of the suite's by its name, with the audit's own prompts.

    ``prompts`` of the YAML may replace these.

    Raises:
        ConfigError: There is no such judge, it reads no prose, or its prompts cannot be used.
        DataError: The store cannot be used.
    """
    from judges.config import load_judge_config
    from judges.judge import Judge, open_backend
    from judges.store import AnswerStore
    from judges.templates import Prompts

    config = load_judge_config(path_or_name)
    if not config.capabilities.reads_prompts:
        raise ConfigError(
            f"judge {config.name}: the {config.backend} judge compares claims with passages and"
            " cannot tell whether a sentence is fluent; give --judge one with a model, such as"
            " configs/judges/openai-server.yaml"
        )
    names = (*PROMPTS.values(), _TYPE)
    overrides = {name: path for name, path in config.prompts.items() if name in names}
    prompts = Prompts(overrides, folder=PROMPTS_FOLDER)
    return Judge(config, open_backend(config), AnswerStore(store), prompts)


def judge_rows(
    judge: Judge, rows: Sequence[Row], seed: int, count: int = 100
) -> tuple[Property, ...]:
    """Judge the three properties of all contradictions of ``count`` rows drawn by ``seed``.

    Raises:
        BackendDownError: The judge cannot be reached; earlier answers are kept.
    """
    pairs = _draw_pairs(rows, seed, count)
    properties = []
    for name, prompt in PROMPTS.items():
        outcomes = []
        unscored: Counter[str] = Counter()
        replies = judge.ask_typed(prompt, YesOrNo, _subjects(pairs), f"judging: {name}", samples=1)
        for (reply,), (row, _) in zip(replies, pairs, strict=True):
            if reply.value is None:
                unscored[reply.problem] += 1
            else:
                outcomes.append(Outcome(float(reply.value.answer == "yes"), row.doc_id))
        share = EstimatedShare(mean(outcomes), *bootstrap_interval(outcomes, seed=seed))
        properties.append(Property(name, len(outcomes), share, dict(sorted(unscored.items()))))
    return tuple(properties)


def judge_types(judge: Judge, rows: Sequence[Row], seed: int, count: int = 100) -> list[str | None]:
    """Judge the error types of all contradictions of the same rows.

    Returns:
        The error types; None where the reply cannot be used.

    Raises:
        BackendDownError: The judge cannot be reached; earlier answers are kept.
    """
    subjects = _subjects(_draw_pairs(rows, seed, count))
    replies = judge.ask_typed(_TYPE, Kind, subjects, "judging: types", samples=1)
    return [reply.value.type if reply.value else None for (reply,) in replies]


def _draw_pairs(rows: Sequence[Row], seed: int, count: int) -> list[tuple[Row, str]]:
    """Return the contradictions of ``count`` rows, each with its row."""
    usable = [row for row in rows if not row.problem]
    rng = random.Random(f"{seed}/audit/judge")
    pairs = []
    for place in sorted(rng.sample(range(len(usable)), min(count, len(usable)))):
        row = usable[place]
        pairs += [(row, choice) for choice in contradictions_of(row)]
    return pairs


def _subjects(pairs: Sequence[tuple[Row, str]]) -> list[dict[str, str]]:
    """Return what the judge is told of each contradiction."""
    return [
        {
            "kind": "audit",
            "context": " ".join(row.prefix.split()[-_CONTEXT:]),
            "completion": row.choices[row.gold].strip(),
            "contradiction": choice.strip(),
        }
        for row, choice in pairs
    ]
