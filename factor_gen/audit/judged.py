"""Table 2's three properties of contradictions, as a judge sees them: non-factual, fluent,
self-consistent."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from factor_gen.audit.records import PROPERTIES, Property
from factor_gen.records import ErrorType
from judges.typed import Reply
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import ConfigError
from lm_factuality.scores.statistics import Outcome, bootstrap_interval, mean

if TYPE_CHECKING:
    from judges.judge import Judge

PROMPTS_FOLDER = Path(__file__).resolve().parent / "prompts"
PROMPTS: Mapping[str, str] = dict(
    zip(PROPERTIES, ("contradicts", "fluent", "consistent"), strict=True)
)
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
    """The judge of a YAML, or of the suite's by its name, asked by the audit's own prompts, which
    ``prompts`` of the YAML may replace. Raises ConfigError: no such judge, or one that reads no
    prose; or its prompts cannot be used; DataError: the store cannot be used."""
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
    own = {
        name: path for name, path in config.prompts.items() if name in (*PROMPTS.values(), _TYPE)
    }
    return Judge(
        config, open_backend(config), AnswerStore(store), Prompts(own, folder=PROMPTS_FOLDER)
    )


def judge_rows(
    judge: Judge, rows: Sequence[Row], seed: int, count: int = 100
) -> tuple[Property, ...]:
    """The three properties of all contradictions of ``count`` rows drawn by ``seed``. Raises
    BackendDown: the judge cannot be reached; earlier answers are kept."""
    pairs, subjects = _drawn(rows, seed, count)
    found = []
    for name, prompt in PROMPTS.items():
        replies = (
            judge.ask_typed(prompt, YesOrNo, subjects, f"judging: {name}", samples=1)
            if subjects
            else []
        )
        outcomes = [
            Outcome(float(read.value.answer == "yes"), row.doc_id)
            for (read,), (row, _) in zip(replies, pairs, strict=True)
            if read.value
        ]
        unscored = Counter(read.problem for (read,) in replies if read.value is None)
        interval = bootstrap_interval(outcomes, seed=seed)
        found.append(
            Property(name, len(outcomes), mean(outcomes), *interval, dict(sorted(unscored.items())))
        )
    return tuple(found)


def judge_types(
    judge: Judge, rows: Sequence[Row], seed: int, count: int = 100
) -> list[tuple[str, str, str | None]]:
    """(completion, contradiction, error type) of all contradictions of the same rows; None where
    the reply cannot be used. Raises BackendDown: the judge cannot be reached; earlier answers are
    kept."""
    pairs, subjects = _drawn(rows, seed, count)
    replies = (
        judge.ask_typed(_TYPE, Kind, subjects, "judging: types", samples=1) if subjects else []
    )
    return [
        (row.choices[row.gold], choice, read.value.type if read.value else None)
        for (row, choice), (read,) in zip(pairs, replies, strict=True)
    ]


def _drawn(
    rows: Sequence[Row], seed: int, count: int
) -> tuple[list[tuple[Row, str]], list[dict[str, str]]]:
    """The contradictions of ``count`` rows, each with its row, and what the judge is told of
    them."""
    usable = [row for row in rows if not row.problem]
    chosen = random.Random(f"{seed}/audit/judge").sample(
        range(len(usable)), min(count, len(usable))
    )
    drawn = [usable[index] for index in sorted(chosen)]
    pairs = [
        (row, choice)
        for row in drawn
        for index, choice in enumerate(row.choices)
        if index != row.gold
    ]
    subjects = [
        {
            "kind": "audit",
            "context": " ".join(row.prefix.split()[-_CONTEXT:]),
            "completion": row.choices[row.gold].strip(),
            "contradiction": choice.strip(),
        }
        for row, choice in pairs
    ]
    return pairs, subjects
