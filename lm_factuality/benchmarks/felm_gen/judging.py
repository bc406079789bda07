"""The benchmark in order: what is no answer is set aside, answers are cut into segments, a judge
marks each segment, and marks become error rates.

A response holds an error if any of its segments does. Rates are of pooled counts, by segment and by
response, over all and for each domain. What is no answer (empty, a refusal) and what has no verdict
is in no rate; ``worst`` and ``best`` are the rates if every response without a verdict were wrong
throughout, or right. What is no answer is in neither: there is nothing in it to be wrong.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import ClassVar

from pydantic import BaseModel

from judges.judge import Judge
from judges.typed import ParsedReply
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.declaration import ERROR_RATE, Score, worst_and_best_of
from lm_factuality.benchmarks.felm.benchmark import FACTUAL, segment_items
from lm_factuality.benchmarks.felm.metrics import LEVELS
from lm_factuality.benchmarks.felm.rows import DOMAINS, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm_gen.steps import (
    BY_JUDGE,
    CUT_PROMPT,
    CUT_TOKENS,
    MARK_PROMPT,
    TYPES,
    UNTYPED,
    CutReply,
    MarksReply,
    check_cut,
    check_marks,
    cut,
    cut_by_rules,
    cut_subject,
    mark_subject,
    no_answer,
    pieces_of,
    read_marks,
    to_answer,
)
from lm_factuality.benchmarks.judged import JudgedMethod, count_reasons
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.scores.statistics import TOTAL, Aggregation, how_many, pooled, ratio

ERROR_KINDS = (*TYPES, UNTYPED)


def error_rate(totals: Sequence[float]) -> float:
    """Return the share of units with an error, or NaN where there are none."""
    errors, units = totals
    return ratio(errors, units)


def _scores() -> Iterator[Score]:
    rate = pooled(error_rate)
    rates = [
        Score(f"{level}_error_rate", rate, ERROR_RATE, f"{level.capitalize()}s with errors", False)
        for level in LEVELS
    ]
    yield from rates
    for score in rates:
        for domain in DOMAINS:
            yield Score(f"{score.name}_{domain}", rate, ERROR_RATE, higher_is_better=False)
        yield from score.worst_and_best()
    for kind in ERROR_KINDS:
        yield Score(f"errors_{kind}", TOTAL, higher_is_better=False)
    for name in ("no_answer", "unscored"):
        yield Score(name, Aggregation(how_many), higher_is_better=False)


SCORES = tuple(_scores())


class PromptDocument(BaseModel):
    """What a judge needs of a document."""

    index: str
    domain: str
    prompt: str
    reference_texts: tuple[str, ...]


class FelmGen(JudgedMethod):
    """Marks the segments of answers to FELM's prompts.

    A record has the ``segments`` and for each the type of its error or None (``errors``), or
    ``no_answer`` or ``unscored`` with the reason; who cut it (``cut_by``, ``cut_refused``); and the
    judge's ``outputs``.
    """

    name = "felm_gen"
    required_kinds = ("marks",)
    prompt_names = (CUT_PROMPT, MARK_PROMPT)
    document_model: ClassVar[type] = PromptDocument
    identity_keys = ("index", "domain")
    scores = SCORES

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        answers = [to_answer(text) for (text,) in responses]
        records = [_begin(doc, text) for doc, (text,) in zip(docs, responses, strict=True)]
        judged = [place for place, record in enumerate(records) if record["unscored"] is None]
        uncut = []
        if judge.config.capabilities.can_answer("cut"):
            uncut = [place for place in judged if _is_cut_by_judge(docs[place], answers[place])]
        cuts = judge.ask_typed(
            CUT_PROMPT,
            CutReply,
            [cut_subject(answers[place]) for place in uncut],
            "cutting responses",
            check_cut,
            samples=1,
            max_tokens=CUT_TOKENS,
        )
        for place, (reply,) in zip(uncut, cuts, strict=True):
            records[place] |= vars(cut(answers[place], docs[place]["domain"], reply))
        marks = judge.ask_typed(
            MARK_PROMPT,
            MarksReply,
            [mark_subject(docs[place], records[place]["segments"]) for place in judged],
            "marking segments",
            check_marks,
        )
        for place, replies in zip(judged, marks, strict=True):
            records[place] |= _marked(records[place], replies)
        return list(records)

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        record = _begin(doc, responses[0])
        return {**record, "unscored": record["unscored"] or reason}

    def summary_counts(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        errors = chain.from_iterable(verdict["errors"] or () for verdict in verdicts)
        return {
            **super().summary_counts(docs, verdicts),
            "unscored": count_reasons(
                row["unscored"] for row in verdicts if row["no_answer"] is None
            ),
            "no_answer": count_reasons(row["no_answer"] for row in verdicts),
            "wrong_segments": count_reasons(errors),
            "cut_by": count_reasons(verdict["cut_by"] for verdict in verdicts),
            "cuts_refused": count_reasons(verdict["cut_refused"] for verdict in verdicts),
        }

    def row_metrics(self, doc: Doc, verdict: Verdict) -> JsonObject:
        """Return the counts of one response, (units with an error, units), by score.

        A unit is a segment or the whole response. A response without a verdict has units in
        ``worst`` and ``best`` alone.
        """
        errors = verdict["errors"] or ()
        is_unscored = verdict["unscored"] is not None and verdict["no_answer"] is None
        types = Counter(errors)
        wrong = len(errors) - types[None]
        metrics: JsonObject = {
            "unscored": verdict["unscored"] if is_unscored else None,
            "no_answer": verdict["no_answer"],
        }
        for kind in ERROR_KINDS:
            metrics[f"errors_{kind}"] = types[kind]
        segments = len(verdict["segments"]) or 1  # one for an answer that never came
        for level, counts, units in (
            ("segment", [wrong, len(errors)], segments),
            ("response", [int(wrong > 0), int(verdict["errors"] is not None)], 1),
        ):
            name = f"{level}_error_rate"
            scored = None if verdict["unscored"] else counts
            metrics[name] = scored
            metrics[f"{name}_{verdict['domain']}"] = scored
            ends = ([units, units], [0, units]) if is_unscored else (counts, counts)
            metrics |= worst_and_best_of(name, *ends)
        return metrics

    def check_record(self, doc: Doc, verdict: Verdict) -> None:
        errors, segments = verdict["errors"], verdict["segments"]
        if errors is not None and len(errors) != len(segments):
            raise ValueError(f"{len(errors)} verdicts on {len(segments)} segments")
        if (errors is None) != isinstance(verdict["unscored"], str):
            raise ValueError("it has errors and a reason why it has none, or neither")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], verdict: Verdict) -> Verdict:
        """Return the record with what follows from the response alone: whether it is an answer.

        The judge is believed. Who doubts it runs the task again.
        """
        record = _begin(doc, responses[0])
        return {**verdict, "no_answer": None} if record["unscored"] is None else record

    def people_items(self, doc: Doc, verdict: Verdict, response: str) -> list[Item]:
        marks = verdict["errors"] and [error or FACTUAL for error in verdict["errors"]]
        references = doc.get("reference_texts") or ()
        return segment_items(doc["prompt"], verdict["segments"], marks, references)

    def relabel_record(self, doc: Doc, verdict: Verdict, answers: Sequence[str]) -> Verdict:
        only_kind = "reasoning" if doc["domain"] in WITHOUT_REFERENCES else ""
        errors = [None if answer == FACTUAL else only_kind or answer for answer in answers]
        return {**verdict, "errors": errors, "unscored": None, "outputs": []}


FELM_GEN = FelmGen()


def _begin(doc: Doc, response: str) -> JsonObject:
    """Return the record of a response before it is judged, cut by rules.

    A response that is no answer is never judged. An unfinished thought does not decline to answer.
    """
    problem = no_answer(response)
    refusal = None if problem == UNFINISHED else problem
    record = {
        "index": doc["index"],
        "domain": doc["domain"],
        "segments": [],
        "errors": None,
        "no_answer": refusal,
        "unscored": f"no answer: {problem}" if refusal else problem,
        "cut_by": None,
        "cut_refused": None,
        "outputs": [],
    }
    if problem is None:
        record |= vars(cut_by_rules(to_answer(response), doc["domain"]))
    return record


def _is_cut_by_judge(doc: Doc, answer: str) -> bool:
    """Tell whether a judge is to cut an answer. One piece has nothing to group."""
    return doc["domain"] in BY_JUDGE and len(pieces_of(answer)) > 1


def _marked(record: Verdict, replies: Sequence[ParsedReply[MarksReply]]) -> JsonObject:
    """Return what the judge's replies make of a record."""
    marks = read_marks(replies, len(record["segments"]), record["domain"])
    is_read = not isinstance(marks, str)
    return {
        "errors": list(marks) if is_read else None,
        "unscored": None if is_read else marks,
        "outputs": [reply.answer.text or "" for reply in replies],
    }
