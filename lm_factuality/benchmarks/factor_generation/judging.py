"""The benchmark in order: generations are cut at the end of their sentence, a judge marks each, the marks become a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, StrictFloat, StrictInt

from judges.verify import plan
from lm_factuality.benchmarks.factor_generation.facts import complete, end_of, why_none
from lm_factuality.benchmarks.factor_generation.marks import Mark, MarkReply, support_marks, support_pairs, vote
from lm_factuality.benchmarks.factor_generation.report import to_summary, to_table
from lm_factuality.benchmarks.factor_generation.tally import Record
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import Docs, Table, Verdict

if TYPE_CHECKING:
    from judges.config import JudgeConfig
    from judges.judge import Judge, Plan

PROMPT = "factor_generation/mark"
_KIND = "mark"  # of the subjects of the prompt
_DESCRIPTION = "marking generations"


class _Doc(BaseModel):
    doc_id: str
    prefix: str
    problem: str
    no_fact: str
    stem: str
    true: str
    false: str
    true_edit: str
    false_edit: str
    choices: list[Any]
    gold: StrictInt
    contradiction: StrictInt
    mean_logprob: list[StrictFloat | StrictInt | None]


class FactorGeneration:
    """``lm_factuality.harness.generation.Generation`` for FACTOR's minimal facts. A document is that of
    ``lm_factuality.benchmarks.factor_generation.task``; one with ``no_fact`` has no responses. A record has for each response the
    finished sentence (``sentences``), its mark or null (``marks``) and why it is null (``reasons``); ``unscored`` is the first
    reason where no response has a mark."""

    name = "factor_generation"
    kinds = ("verify",)
    prompt_names = (PROMPT,)

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            means = to_model(_Doc, doc).mean_logprob
        except ValueError as error:
            return f"'doc': {error}; is this a sample of factor_generation?"
        if len(means) != len(doc["choices"]):
            return "'doc' has no 'mean_logprob' with a number or null for each choice: is the model right?"
        if bool(doc["no_fact"]) == bool(responses):
            return f"found {len(responses)} responses, expected {'none' if doc['no_fact'] else 'at least one'}"
        return None

    def plan(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[tuple[str, Plan]]:
        subjects = _subjects(docs, responses)
        if reads_prompt(judge.config):
            return [("marking", judge.plan(PROMPT, subjects, reply=MarkReply))]
        return [("marking", plan(judge, support_pairs(subjects, judge.config.capabilities.by_words)))]

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        subjects = _subjects(docs, responses)
        if reads_prompt(judge.config):
            found: Iterator[Mark] = map(vote, judge.ask_typed(PROMPT, MarkReply, subjects, _DESCRIPTION))
        else:
            found = iter(support_marks(judge, subjects, _DESCRIPTION))
        return [_record(doc, texts, found) for doc, texts in zip(docs, responses, strict=True)]

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        return _record(doc, responses, repeat(Mark(None, reason)))

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        return to_summary(docs, cast(Sequence[Record], verdicts))

    def table(self, summary: Mapping[str, Any]) -> Table:
        return to_table(summary)


FACTOR_GENERATION = FactorGeneration()


def reads_prompt(config: JudgeConfig) -> bool:
    """Whether a judge is asked what a sentence says of the fact; others say only whether it supports a wording."""
    return config.capabilities.can_answer(_KIND)


def mark_subject(doc: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    """What the prompt about one finished sentence is about."""
    kept = {key: doc[key] for key in ("stem", "true_edit", "false_edit")}
    versions = {"correct": doc["true"], "incorrect": doc["false"]}  # true and false are words of Jinja
    return {"kind": _KIND, "context": end_of(doc["prefix"]), "sentence": sentence, **versions, **kept}


def _sentences(doc: Mapping[str, Any], responses: Sequence[str]) -> list[str | None]:
    return [complete(doc["stem"], text) for text in responses]


def _subjects(docs: Docs, responses: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    pairs = zip(docs, responses, strict=True)
    return [mark_subject(doc, sentence) for doc, texts in pairs for sentence in _sentences(doc, texts) if sentence]


def _record(doc: Mapping[str, Any], responses: Sequence[str], found: Iterator[Mark]) -> Record:
    """``found`` are the marks of the sentences that there are."""
    sentences = _sentences(doc, responses)
    pairs = zip(sentences, responses, strict=True)
    marks = [next(found) if sentence else Mark(None, why_none(text)) for sentence, text in pairs]
    reasons = [mark.reason for mark in marks]
    unscored = None if any(mark.label for mark in marks) else doc["no_fact"] or (reasons[0] if reasons else "no generation")
    return {
        "doc_id": doc["doc_id"],
        "sentences": list(sentences),
        "marks": [mark.label for mark in marks],
        "reasons": reasons,
        "unscored": unscored,
    }
