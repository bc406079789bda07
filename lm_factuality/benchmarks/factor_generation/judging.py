"""The benchmark in order: generations are cut at the end of their sentence, and a judge marks
each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

from pydantic import StrictFloat, StrictInt

from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.factor.scoring import gold_wins
from lm_factuality.benchmarks.factor_generation import facts, tally
from lm_factuality.benchmarks.factor_generation.facts import MARKS, Mark
from lm_factuality.benchmarks.judged import JudgedMethod, count_reasons
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.scores.statistics import Outcome

PROMPT = "factor_generation/mark"
_KIND = "mark"  # of the subjects of the prompt


@dataclass(frozen=True)
class FactOfDocument:
    """The fact in which the two versions of a document's sentence differ."""

    no_fact: str
    stem: str
    true: str
    false: str
    true_edit: str
    false_edit: str


@dataclass(frozen=True)
class GenerationDocument(FactOfDocument):
    """What the judge and the scores need of a document."""

    doc_id: str
    prefix: str
    problem: str
    choices: list[Any]
    gold: StrictInt
    contradiction: StrictInt
    mean_logprob: list[StrictFloat | StrictInt | None]


class FactorGeneration(JudgedMethod):
    """Marks what a model writes where it could state a fact.

    A document is that of `lm_factuality.benchmarks.factor_generation.task`. One with ``no_fact``
    has no responses. A record has for each response the finished sentence (``sentences``), its mark
    or None (``marks``) and why it is None (``reasons``); ``unscored`` is the first reason where no
    response has a mark.
    """

    def __init__(self, protocol: str = "paper") -> None:
        """Args:
        protocol: By which the row's own ``factor_acc`` is checked.
        """
        self._protocol = protocol

    name = "factor_generation"
    required_kinds = ("verify",)
    prompt_names = (PROMPT,)
    document_model: ClassVar[type] = GenerationDocument
    identity_keys = ("doc_id",)
    scores = tally.SCORES

    def responses_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        if len(doc["mean_logprob"]) != len(doc["choices"]):
            return (
                "'doc' has no 'mean_logprob' with a number or null for each choice: is the model"
                " right?"
            )
        if bool(doc["no_fact"]) == bool(responses):
            expected = "none" if doc["no_fact"] else "at least one"
            return f"found {len(responses)} responses, expected {expected}"
        return None

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        subjects = []
        for doc, texts in zip(docs, responses, strict=True):
            sentences = _sentences(doc, texts)
            subjects += [mark_subject(doc, sentence) for sentence in sentences if sentence]
        if reads_prompt(judge.config):
            replies = judge.ask_typed(PROMPT, facts.MarkReply, subjects, "marking generations")
            marks: Iterator[Mark] = map(facts.majority_mark, replies)
        else:
            marks = iter(facts.support_marks(judge, subjects))
        return [_record(doc, texts, marks) for doc, texts in zip(docs, responses, strict=True)]

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        return _record(doc, responses, repeat(Mark(None, reason)))

    def summary_counts(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        """Return how many rows were judged, and generations by their mark.

        Beside them stand the reasons why rows have no fact and generations no mark, and why the
        weighted accuracy is ``not_defined``.
        """
        sums = tally.add(map(tally.tally_row, docs, verdicts))
        marks = map(int, tally.marks_of(sums, tally.POOLED))
        return {
            "rows": len(docs),
            "generations": dict(zip(MARKS, marks, strict=True)),
            "without_fact": count_reasons(doc["no_fact"] or None for doc in docs),
            "unscored": count_reasons(
                reason for verdict in verdicts for reason in verdict["reasons"]
            ),
            "not_defined": tally.why_undefined(sums),
        }

    def row_metrics(self, doc: Doc, verdict: Verdict) -> JsonObject:
        """Return the tally of one row, under the name of every score that it is part of."""
        right = doc.get("factor_acc")
        return {
            **dict.fromkeys([score.name for score in tally.SCORES], tally.tally_row(doc, verdict)),
            "factor_acc": None if right is None else Outcome(right, doc["doc_id"]),
            "unscored": verdict["marks"].count(None),
            "without_fact": doc["no_fact"] or None,
        }

    def check_record(self, doc: Doc, verdict: Verdict) -> None:
        for mark, reason in zip(verdict["marks"], verdict["reasons"], strict=True):
            if mark not in (*MARKS, None) or (mark is None) != isinstance(reason, str):
                raise ValueError(f"found the mark {mark!r} and the reason {reason!r}")
        accuracy = doc["factor_acc"]
        if accuracy is not None:
            expected = gold_wins(doc["mean_logprob"], doc["gold"], self._protocol)
            if accuracy != expected:
                raise ValueError("its factor_acc does not follow from mean_logprob")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], verdict: Verdict) -> Verdict:
        texts = [] if doc["no_fact"] else responses
        marks = map(Mark, verdict["marks"], verdict["reasons"])
        # Of generations with a word, the judge's marks are believed.
        judged = (mark for mark, text in zip(marks, _sentences(doc, texts), strict=True) if text)
        return _record(doc, texts, judged)

    def people_items(self, doc: Doc, verdict: Verdict, response: str) -> list[Item]:
        context = (
            ("Right version", doc["true"]),
            ("Wrong version", doc["false"]),
            ("Text before", facts.end_of_prefix(doc["prefix"])),
        )
        items = []
        for place, (text, mark) in enumerate(
            zip(verdict["sentences"], verdict["marks"], strict=True)
        ):
            if text:
                items.append(Item(f"mark:{place}", "mark", text, context, mark))
        return items

    def relabel_record(self, doc: Doc, verdict: Verdict, answers: Sequence[str]) -> Verdict:
        remaining = iter(answers)
        marks = [next(remaining) if text else None for text in verdict["sentences"]]
        reasons = [
            None if mark else reason for mark, reason in zip(marks, verdict["reasons"], strict=True)
        ]
        return {**verdict, "marks": marks, "reasons": reasons, "unscored": None}


FACTOR_GENERATION = FactorGeneration()


def reads_prompt(config: JudgeConfig) -> bool:
    """Whether a judge is asked what a sentence says of the fact; others say only whether it
    supports a wording."""
    return config.capabilities.can_answer(_KIND)


def mark_subject(doc: Doc, sentence: str) -> JsonObject:
    """What the prompt is about; true and false are words of Jinja."""
    return {
        "kind": _KIND,
        "context": facts.end_of_prefix(doc["prefix"]),
        "sentence": sentence,
        "correct": doc["true"],
        "incorrect": doc["false"],
        "stem": doc["stem"],
        "true_edit": doc["true_edit"],
        "false_edit": doc["false_edit"],
    }


def _sentences(doc: Doc, responses: Sequence[str]) -> list[str | None]:
    return [facts.complete_sentence(doc["stem"], text) for text in responses]


def _record(doc: Doc, responses: Sequence[str], sentence_marks: Iterator[Mark]) -> Verdict:
    """Return the record of a document.

    Args:
        doc: The document.
        responses: The responses to it.
        sentence_marks: The marks of those that have a word.
    """
    sentences = _sentences(doc, responses)
    marks = [
        next(sentence_marks)
        if sentence
        else Mark(None, UNFINISHED if without_thinking(text) is None else facts.NO_WORD)
        for sentence, text in zip(sentences, responses, strict=True)
    ]
    unscored = None
    if not any(mark.label for mark in marks):
        unscored = doc["no_fact"] or (marks[0].reason if marks else "no generation")
    return {
        "doc_id": doc["doc_id"],
        "sentences": sentences,
        "marks": [mark.label for mark in marks],
        "reasons": [mark.reason for mark in marks],
        "unscored": unscored,
    }
