"""Asks a judge for the three properties of contradictions in table 2, and for their error types.

``factor-gen audit --judge`` calls it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from factor_gen.audit.audit import draw_rows
from factor_gen.audit.flags import contradictions_of
from factor_gen.audit.records import EstimatedShare, JudgedProperty
from factor_gen.records import ErrorType
from judges.typed import Reply
from lm_factuality.ground.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from judges.judge import Judge
    from lm_factuality.benchmarks.factor.rows import Row

PROMPTS_FOLDER = Path(__file__).resolve().parent / "prompts"
PROMPTS = {
    "non-factual": "contradicts",
    "fluent": "fluent",
    "self-consistent": "consistent",
}
"""The name of the prompt that asks for each property of table 2."""
_TYPE_PROMPT = "type"  # asks for the error type
_CONTEXT_WORDS = 100  # words of the prefix that the judge sees


class YesOrNo(Reply):
    """Whether a contradiction has a property."""

    reason: str
    answer: Literal["yes", "no"]


class Kind(Reply):
    """Of which error type a contradiction is."""

    reason: str
    type: ErrorType


class Contradiction(NamedTuple):
    """A contradiction that the judge is asked about."""

    row: Row
    text: str


def open_judge(path_or_name: str, store: Path | None = None) -> Judge:
    """Open a judge that asks with the audit's own prompts.

    Args:
        path_or_name: The YAML of a judge, or the name of a judge of the suite. The YAML's
            ``prompts`` may replace prompts of the audit.
        store: Where the answers are kept. None: in the user's cache.

    Raises:
        ConfigError: There is no such judge, it cannot answer questions, or its prompts cannot be
            used.
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

    # The YAML may also replace prompts of a benchmark, which the audit does not have.
    audit_prompts = (*PROMPTS.values(), _TYPE_PROMPT)
    overrides = {name: path for name, path in config.prompts.items() if name in audit_prompts}
    prompts = Prompts(overrides, folder=PROMPTS_FOLDER)
    return Judge(config, open_backend(config), AnswerStore(store), prompts)


def judge_rows(
    judge: Judge, rows: Sequence[Row], seed: int, count: int
) -> tuple[JudgedProperty, ...]:
    """Ask a judge which contradictions are non-factual, fluent and self-consistent (table 2).

    Args:
        judge: The judge, from `open_judge`.
        rows: All rows of the benchmark.
        seed: Decides which rows are drawn.
        count: How many rows are drawn. All their contradictions are judged.

    Raises:
        BackendDownError: The judge cannot be reached. Earlier answers stay stored.
    """
    contradictions = _draw_contradictions(rows, seed, count)
    return tuple(_judge_property(judge, name, contradictions) for name in PROMPTS)


def _judge_property(
    judge: Judge, name: str, contradictions: Sequence[Contradiction]
) -> JudgedProperty:
    """Ask a judge which contradictions have a property, such as ``fluent``."""
    subjects = _prompt_variables(contradictions)
    replies = judge.ask_typed(PROMPTS[name], YesOrNo, subjects, f"judging: {name}", samples=1)

    outcomes = []
    documents = []
    unscored: Counter[str] = Counter()
    # There is a list of replies for each question. The judge was asked for one reply.
    for [reply], contradiction in zip(replies, contradictions, strict=True):
        # A reply that cannot be read has a problem instead of a value.
        if reply.value is None:
            unscored[reply.problem] += 1
            continue
        outcomes.append(float(reply.value.answer == "yes"))
        documents.append(contradiction.row.doc_id)

    share = EstimatedShare.of(outcomes, documents)
    return JudgedProperty(name, len(outcomes), share, dict(sorted(unscored.items())))


def judge_types(judge: Judge, rows: Sequence[Row], seed: int, count: int) -> list[str | None]:
    """Ask a judge for the error types of the contradictions that `judge_rows` draws.

    Args:
        judge: The judge, from `open_judge`.
        rows: All rows of the benchmark.
        seed: Decides which rows are drawn.
        count: How many rows are drawn.

    Returns:
        The error type of each contradiction; None if the reply cannot be used.

    Raises:
        BackendDownError: The judge cannot be reached. Earlier answers stay stored.
    """
    subjects = _prompt_variables(_draw_contradictions(rows, seed, count))
    replies = judge.ask_typed(_TYPE_PROMPT, Kind, subjects, "judging: types", samples=1)
    # There is a list of replies for each question. The judge was asked for one reply.
    return [reply.value.type if reply.value else None for [reply] in replies]


def _draw_contradictions(rows: Sequence[Row], seed: int, count: int) -> list[Contradiction]:
    """Draw up to ``count`` rows at random, and return all their contradictions in order."""
    # A row with a problem may lack choices.
    usable_rows = [row for row in rows if not row.problem]
    contradictions = []
    # The text after the seed keeps these random numbers apart from those of other steps.
    for row in draw_rows(usable_rows, count, f"{seed}/audit/judge"):
        contradictions += [Contradiction(row, text) for text in contradictions_of(row)]
    return contradictions


def _prompt_variables(contradictions: Sequence[Contradiction]) -> list[dict[str, str]]:
    """Return the variables of the prompt for each contradiction."""
    return [
        {
            "kind": "audit",
            # The end of the prefix is enough, and a long prefix costs money.
            "context": " ".join(row.prefix.split()[-_CONTEXT_WORDS:]),
            "completion": row.choices[row.gold].strip(),
            "contradiction": text.strip(),
        }
        for row, text in contradictions
    ]
