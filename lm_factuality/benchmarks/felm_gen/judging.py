"""The benchmark in order: what is no answer is set aside, answers are cut into segments, a judge
marks each segment, and marks become error rates.

A response holds an error if any of its segments does. Rates are of pooled counts, by segment and by
response, over all and for each domain. What is no answer (empty, a refusal) and what has no verdict
is in no rate; ``worst`` and ``best`` are the rates if every response without a verdict were wrong
throughout, or right. What is no answer is in neither: there is nothing in it to be wrong.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel

from judges.answers import Answer
from judges.capabilities import capabilities
from judges.judge import Judge
from judges.typed import Typed, read_reply
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.declaration import ERROR_RATE, Score, bounds_of
from lm_factuality.benchmarks.felm.benchmark import FACTUAL, segment_items
from lm_factuality.benchmarks.felm.rows import DOMAINS, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm_gen import steps
from lm_factuality.benchmarks.felm_gen.steps import Cut, CutReply, MarksReply
from lm_factuality.benchmarks.judged import JudgedMethod, in_their_places
from lm_factuality.ground.console import counted, shown
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Table, Verdict
from lm_factuality.scores.statistics import (
    Aggregation,
    defined,
    how_many,
    interval_of,
    pooled,
    pooled_interval,
    pooled_stderr,
    ratio,
)

ALL = "ALL"
LEVELS = ("segment", "response")
ERROR_KINDS = (*steps.TYPES, steps.UNTYPED)


class _Document(BaseModel):
    index: str
    domain: str
    prompt: str
    reference_texts: tuple[str, ...]


@dataclass(frozen=True)
class FelmGen(JudgedMethod):
    """Marks the segments of answers to FELM's prompts.

    A record has the ``segments`` and for each the type of its error or None (``errors``), or
    ``no_answer`` or ``unscored`` with the reason; who cut it (``cut_by``, ``cut_refused``); and the
    judge's ``outputs``.
    """

    judge_config: Mapping[str, Any] = field(default_factory=dict)
    """The judge, as results describe it, where records of a run are checked."""

    name = "felm_gen"
    kinds = ("marks",)
    prompt_names = (steps.CUT_PROMPT, steps.MARK_PROMPT)
    document: ClassVar[type] = _Document
    identity = ("index", "domain")

    @property
    def scores(self) -> tuple[Score, ...]:
        return SCORES

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        records = [_begin(doc, text) for doc, (text,) in zip(docs, responses, strict=True)]
        answers = [steps.to_answer(text) for (text,) in responses]
        to_cut = [
            steps.cut_subject(answer)
            if judge.config.capabilities.can_answer("cut") and _has_to_be_cut(record, answer)
            else None
            for record, answer in zip(records, answers, strict=True)
        ]
        cuts = in_their_places(
            to_cut,
            lambda subjects: judge.ask_typed(
                steps.CUT_PROMPT,
                CutReply,
                subjects,
                "cutting responses",
                steps.check_cut,
                samples=1,
                max_tokens=steps.CUT_TOKENS,
            ),
        )
        to_mark: list[JsonObject | None] = []
        for doc, record, answer, replies in zip(docs, records, answers, cuts, strict=True):
            if record["unscored"] is not None:
                to_mark.append(None)
                continue
            reply = replies[0] if replies else None
            record |= vars(steps.cut(answer, doc["domain"], reply))
            to_mark.append(steps.mark_subject(doc, record["segments"]))
        marked = in_their_places(
            to_mark,
            lambda subjects: judge.ask_typed(
                steps.MARK_PROMPT, MarksReply, subjects, "marking segments", steps.check_marks
            ),
        )
        return [
            record if marks is None else record | _marked(record, marks)
            for record, marks in zip(records, marked, strict=True)
        ]

    def unscored(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        record = _begin(doc, responses[0])
        if record["unscored"] is None:
            cut = steps.cut_by_rules(steps.to_answer(responses[0]), doc["domain"])
            record |= vars(cut) | {"unscored": reason}
        return record

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        """Return the rates over everything and by domain, and reasons with their counts.

        Returns:
            Under ``ALL`` and each domain ``responses``, ``scored``, ``no_answer``, ``unscored``,
            ``error_types``, and for both levels ``errors``, ``units``, ``error_rate``, ``stderr``,
            ``interval`` (95%, percentile bootstrap over responses), ``worst`` and ``best``; a rate
            that is not defined is None. Beside them why there is no verdict (``unscored``) or no
            answer (``no_answer``), and who cut the responses (``cut_by``, ``cuts_refused``).
        """
        rows_of: dict[str, list[Mapping[str, Any]]] = {ALL: []}
        for domain in sorted({verdict["domain"] for verdict in verdicts}):
            rows_of[domain] = []
        for verdict in verdicts:
            row = self.row_metrics({}, verdict)
            rows_of[ALL].append(row)
            rows_of[verdict["domain"]].append(row)
        summary: JsonObject = {name: _rates(rows) for name, rows in rows_of.items()}
        for key in ("unscored", "no_answer"):
            summary[key] = _counts(row[key] for row in rows_of[ALL])
        summary["cut_by"] = _counts(verdict["cut_by"] for verdict in verdicts)
        summary["cuts_refused"] = _counts(verdict["cut_refused"] for verdict in verdicts)
        return summary

    def table(self, summary: Mapping[str, Any]) -> Table:
        rates = ("#segments wrong", "#95% interval", "#responses wrong", "#95% interval ")
        counts = ("#no answer", "#unscored", "#worst / best segments")
        rows = []
        for name, part in summary.items():
            if "segment" not in part:
                continue
            cells = [name, str(part["responses"])]
            for level in LEVELS:
                ends = part[level]["interval"]
                between = f"{100 * ends[0]:.1f} - {ends[1]:.1%}" if ends else "-"
                cells += [shown(part[level]["error_rate"]), between]
            bounds = f"{shown(part['segment']['worst'])} / {shown(part['segment']['best'])}"
            rows.append([*cells, str(part["no_answer"]), str(part["unscored"]), bounds])
        types = {kind: count for kind, count in summary[ALL]["error_types"].items() if count}
        notes = [f"Wrong segments by type: {counted(types) or 'none'}."]
        for label, key in (
            ("Cut by", "cut_by"),
            ("Cuts of the judge not taken", "cuts_refused"),
            ("No answer", "no_answer"),
            ("Unscored", "unscored"),
        ):
            if summary[key]:
                notes.append(f"{label}: {counted(summary[key])}.")
        notes.append(
            "Intervals: percentile bootstrap over responses. Responses without an answer or a"
            " verdict are left out."
        )
        return ("domain", "#responses", *rates, *counts), rows, notes

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
            metrics |= bounds_of(name, *ends)
        return metrics

    def check_record(self, doc: Doc, verdict: Verdict) -> None:
        errors, segments = verdict["errors"], verdict["segments"]
        if errors is not None and len(errors) != len(segments):
            raise ValueError(f"{len(errors)} verdicts on {len(segments)} segments")
        if (errors is None) != isinstance(verdict["unscored"], str):
            raise ValueError("it has errors and a reason why it has none, or neither")
        expected = self.judge_config.get("samples", 1)
        if verdict["outputs"] and len(verdict["outputs"]) != expected:
            raise ValueError(f"{len(verdict['outputs'])} outputs of the judge, expected {expected}")

    def rebuilt(self, doc: Doc, responses: Sequence[str], verdict: Verdict) -> Verdict:
        (response,) = responses
        record = _begin(doc, response)
        if record["unscored"] is not None:
            return record
        answer, segments = steps.to_answer(response), verdict["segments"]
        cut = steps.cut_by_rules(answer, doc["domain"], verdict["cut_refused"])
        # Behind a cascade's first judge, its second one cuts.
        cutter = self.judge_config.get("then") or self.judge_config
        can_cut = capabilities(str(cutter.get("backend"))).can_answer("cut")
        is_by_judge = verdict["cut_by"] == "judge" and can_cut and _has_to_be_cut(record, answer)
        if is_by_judge and "".join("".join(segments).split()) == "".join(answer.split()):
            cut = Cut(list(filter(str.strip, segments)), "judge")
        record |= vars(cut)
        if verdict["outputs"]:
            replies = [
                read_reply(Answer(text), MarksReply, {"units": segments}, steps.check_marks)
                for text in verdict["outputs"]
            ]
            record |= _marked(record, replies)
        if record["errors"] is None:  # only the judge knew why
            record["unscored"] = verdict["unscored"]
        return record

    def items(self, doc: Doc, verdict: Verdict, response: str) -> list[Item]:
        marks = verdict["errors"] and [error or FACTUAL for error in verdict["errors"]]
        references = doc.get("reference_texts") or ()
        return segment_items(doc["prompt"], verdict["segments"], marks, references)

    def relabelled(self, doc: Doc, verdict: Verdict, answers: Sequence[str]) -> Verdict:
        errors: list[str | None] = []
        for answer in answers:
            error = "reasoning" if doc["domain"] in WITHOUT_REFERENCES else answer
            errors.append(None if answer == FACTUAL else error)
        return {**verdict, "errors": errors, "unscored": None, "outputs": []}


FELM_GEN = FelmGen()


def _begin(doc: Doc, response: str) -> JsonObject:
    """Return the record of a response before it is judged.

    A response that is no answer is never judged. An unfinished thought does not decline to answer.
    """
    problem = steps.no_answer(response)
    no_answer = None if problem == UNFINISHED else problem
    return {
        "index": doc["index"],
        "domain": doc["domain"],
        "segments": [],
        "errors": None,
        "no_answer": no_answer,
        "unscored": f"no answer: {problem}" if no_answer else problem,
        "cut_by": None,
        "cut_refused": None,
        "outputs": [],
    }


def _has_to_be_cut(record: Verdict, answer: str) -> bool:
    """Tell whether a judge is to cut an answer. One piece has nothing to group."""
    return (
        record["unscored"] is None
        and record["domain"] in steps.BY_JUDGE
        and len(steps.pieces_of(answer)) > 1
    )


def _marked(record: Verdict, replies: Sequence[Typed[MarksReply]]) -> JsonObject:
    """Return what the judge's replies make of a record."""
    marks = steps.read_marks(replies, len(record["segments"]), record["domain"])
    is_read = not isinstance(marks, str)
    return {
        "errors": list(marks) if is_read else None,
        "unscored": None if is_read else marks,
        "outputs": [reply.answer.text or "" for reply in replies],
    }


def error_rate(totals: Sequence[float]) -> float:
    """Return the share of units with an error, or NaN where there are none."""
    errors, units = totals
    return ratio(errors, units)


def _rates(rows: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Return the summary of some rows."""
    part: JsonObject = {
        "responses": len(rows),
        "scored": sum(row["segment_error_rate"] is not None for row in rows),
        "no_answer": sum(row["no_answer"] is not None for row in rows),
        "unscored": sum(row["unscored"] is not None for row in rows),
    }
    for level in LEVELS:
        name = f"{level}_error_rate"
        counts = [row[name] for row in rows if row[name] is not None]
        errors, units = _sums(counts)
        part[level] = {
            "errors": errors,
            "units": units,
            "error_rate": defined(ratio(errors, units)),
            "stderr": defined(pooled_stderr(counts, error_rate)),
            "interval": interval_of(pooled_interval(counts, error_rate)),
        }
        for bound in ("worst", "best"):
            totals = _sums([row[f"{name}_{bound}"] for row in rows])
            part[level][bound] = defined(error_rate(totals))
    part["error_types"] = {kind: sum(row[f"errors_{kind}"] for row in rows) for kind in ERROR_KINDS}
    return part


def _sums(counts: Sequence[Sequence[int]]) -> tuple[int, int]:
    return sum(row[0] for row in counts), sum(row[1] for row in counts)


def _counts(values: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(value for value in values if value is not None).most_common())


def _scores() -> Iterator[Score]:
    rate = pooled(error_rate)
    rates = [
        Score(f"{level}_error_rate", rate, ERROR_RATE, f"{level.capitalize()}s with errors", False)
        for level in LEVELS
    ]
    yield from rates
    for score in rates:
        for domain in DOMAINS:
            yield Score(f"{score.name}_{domain}", rate, ERROR_RATE, higher=False)
        yield from score.bounds()
    for kind in ERROR_KINDS:
        yield Score(f"errors_{kind}", Aggregation(lambda counts: float(sum(counts))), higher=False)
    for name in ("no_answer", "unscored"):
        yield Score(name, Aggregation(how_many), higher=False)


SCORES = tuple(_scores())
