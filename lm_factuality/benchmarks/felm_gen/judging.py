"""The benchmark in order: what is no answer is set aside, answers are cut into segments, a judge
marks each segment, and marks become error rates: by segment and by response, over all and for each
domain.

A response holds an error if any of its segments does. Rates are of pooled counts. What is no answer
(empty, a refusal) and what has no verdict is in no rate; ``worst`` and ``best`` are the rates if
every response without a verdict were wrong throughout, or right. What is no answer is in neither:
there is nothing in it to be wrong."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from judges.judge import Judge, Plan
from lm_factuality.benchmarks.declaration import ERROR_RATE, Score, bounds_of
from lm_factuality.benchmarks.felm.rows import DOMAINS
from lm_factuality.benchmarks.felm_gen import steps
from lm_factuality.benchmarks.felm_gen.steps import (
    Cut,
    CutReply,
    Marks,
    MarksReply,
    no_answer,
    to_answer,
    why_none,
)
from lm_factuality.ground.console import counted, shown
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import Docs, Table, Verdict
from lm_factuality.scores.statistics import (
    Aggregation,
    defined,
    how_many,
    interval_of,
    pooled,
    pooled_interval,
    pooled_stderr,
)


class _Doc(BaseModel):
    index: str
    domain: str
    prompt: str
    reference_texts: tuple[str, ...]


@dataclass(frozen=True)
class _Item:
    doc: Mapping[str, Any]
    answer: str
    problem: str | None

    @property
    def by_rules(self) -> Cut | None:
        return None if self.problem else steps.cut_by_rules(self.answer, self.doc["domain"])


class FelmGen:
    """``lm_factuality.harness.generation.Generation`` for FELM's prompts. A document has ``index``,
    ``domain``, ``prompt`` and ``reference_texts``, and one response. A record has its segments and
    for each the type of its error or null (``errors``), or ``no_answer`` or ``unscored`` with the
    reason; who cut it (``cut_by``, ``cut_refused``); and the judge's ``outputs``."""

    name = "felm_gen"
    kinds = ("marks",)
    prompt_names = (steps.CUT_PROMPT, steps.MARK_PROMPT)

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            to_model(_Doc, doc)
        except ValueError as error:
            return f"'doc': {error}; is this a sample of felm_gen?"
        return None if len(responses) == 1 else f"found {len(responses)} responses, expected one"

    def plan(
        self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]
    ) -> list[tuple[str, Plan]]:
        """Which segments will be marked is not known before they are cut: the second step is
        planned on those that rules cut."""
        items = _items(docs, responses)
        to_cut = [steps.cut_subject(item.answer) for item in items if _is_cut_by(judge, item)]
        cutting = judge.plan(
            steps.CUT_PROMPT, to_cut, samples=1, reply=CutReply, max_tokens=steps.CUT_TOKENS
        )
        to_mark = _mark_subjects(items, [item.by_rules for item in items])
        marking = judge.plan(steps.MARK_PROMPT, to_mark, reply=MarksReply)
        return [*([("cutting", cutting)] if to_cut else []), ("marking", marking)]

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        items = _items(docs, responses)
        cuts = _cut(judge, items)
        subjects = _mark_subjects(items, cuts)
        replies = iter(
            judge.ask_typed(
                steps.MARK_PROMPT, MarksReply, subjects, "marking segments", steps.check_marks
            )
        )
        records: list[Verdict] = []
        for item, cut in zip(items, cuts, strict=True):
            read = next(replies) if cut else []
            found = steps.read_marks(read, len(cut.segments), item.doc["domain"]) if cut else ""
            records.append(_record(item, cut, found, [each.answer.text or "" for each in read]))
        return records

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        (item,) = _items([doc], [responses])
        return _record(item, item.by_rules, reason, [])

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """``{"ALL" or a domain: {"responses", "scored", "no_answer", "unscored", "segment" and
        "response": {errors, units, error_rate, stderr, interval, worst, best}, "error_types":
        {kind: segments}}}``; beside them why there is no verdict (``unscored``) or no answer
        (``no_answer``), and by whom the responses were cut (``cut_by``, ``cuts_refused``).
        Intervals are 95% percentile bootstrap intervals over responses; a rate that is not defined
        is null."""
        rows = [(verdict["domain"], row_metrics(verdict)) for verdict in verdicts]
        names = (ALL, *sorted({domain for domain, _ in rows}))
        reasons = {key: _count(row[key] for _, row in rows) for key in ("unscored", "no_answer")}
        reasons |= {
            name: _count(verdict[key] for verdict in verdicts) for name, key in _CUTS.items()
        }
        return {
            name: _of([row for domain, row in rows if name in (ALL, domain)]) for name in names
        } | reasons

    def table(self, summary: Mapping[str, Any]) -> Table:
        rates = ("#segments wrong", "#95% interval", "#responses wrong", "#95% interval ")
        columns = (
            "domain",
            "#responses",
            *rates,
            "#no answer",
            "#unscored",
            "#worst / best segments",
        )
        rows = [
            _row(name, each)
            for name, each in summary.items()
            if isinstance(each, Mapping) and "segment" in each
        ]
        types = ", ".join(
            f"{kind} {number}" for kind, number in summary[ALL]["error_types"].items() if number
        )
        notes = [
            f"Wrong segments by type: {types or 'none'}.",
            *(
                f"{label}: {counted(summary[key])}."
                for label, key in _NOTES.items()
                if summary[key]
            ),
            (
                "Intervals: percentile bootstrap over responses. Responses without an answer or a"
                " verdict are left out."
            ),
        ]
        return columns, rows, notes


_NOTES = {
    "Cut by": "cut_by",
    "Cuts of the judge not taken": "cuts_refused",
    "No answer": "no_answer",
    "Unscored": "unscored",
}
FELM_GEN = FelmGen()


def _items(docs: Docs, responses: Sequence[Sequence[str]]) -> list[_Item]:
    return [
        _Item(doc, to_answer(texts[0]), no_answer(texts[0]))
        for doc, texts in zip(docs, responses, strict=True)
    ]


def _cut(judge: Judge, items: Sequence[_Item]) -> list[Cut | None]:
    places = [place for place, item in enumerate(items) if _is_cut_by(judge, item)]
    subjects = [steps.cut_subject(items[place].answer) for place in places]
    prompt, check, most = steps.CUT_PROMPT, steps.check_cut, steps.CUT_TOKENS
    replies = (
        judge.ask_typed(prompt, CutReply, subjects, "cutting responses", check, 1, max_tokens=most)
        if places
        else []
    )
    read = {place: reply for place, (reply,) in zip(places, replies, strict=True)}
    numbered = enumerate(items)
    return [
        None if each.problem else steps.cut(each.answer, each.doc["domain"], read.get(place))
        for place, each in numbered
    ]


def _is_cut_by(judge: Judge, item: _Item) -> bool:
    """Not what is one piece: there is nothing to group."""
    can_cut = item.doc["domain"] in steps.BY_JUDGE and judge.config.capabilities.can_answer("cut")
    return item.problem is None and can_cut and len(steps.pieces_of(item.answer)) > 1


def _mark_subjects(items: Sequence[_Item], cuts: Sequence[Cut | None]) -> list[dict[str, Any]]:
    return [
        steps.mark_subject(item.doc, cut.segments)
        for item, cut in zip(items, cuts, strict=True)
        if cut is not None
    ]


def _record(item: _Item, cut: Cut | None, marks: Marks, outputs: list[str]) -> Verdict:
    none, unscored = why_none(item.problem)
    errors, reason = (None, marks or None) if isinstance(marks, str) else (list(marks), None)
    return {
        "index": item.doc["index"],
        "domain": item.doc["domain"],
        "segments": list(cut.segments) if cut else [],
        "errors": errors,
        "no_answer": none,
        "unscored": unscored or reason,
        "cut_by": cut.by if cut else None,
        "cut_refused": cut.refused if cut else None,
        "outputs": outputs,
    }


def _row(name: str, each: Mapping[str, Any]) -> tuple[str, ...]:
    rates = []
    for level in LEVELS:
        rate, ends = each[level]["error_rate"], each[level]["interval"]
        rates += [shown(rate), "-" if ends is None else f"{100 * ends[0]:.1f} - {ends[1]:.1%}"]
    bounds = " / ".join(shown(each["segment"][bound]) for bound in ("worst", "best"))
    return (
        name,
        str(each["responses"]),
        *rates,
        str(each["no_answer"]),
        str(each["unscored"]),
        bounds,
    )


ALL = "ALL"
LEVELS = ("segment", "response")
ERROR_KINDS = (*steps.TYPES, steps.UNTYPED)
_BOUNDS = ("worst", "best")
_CUTS = {"cut_by": "cut_by", "cuts_refused": "cut_refused"}  # of a summary and of a record


def error_rate(totals: Sequence[float]) -> float:
    """The share of units with an error; NaN where there are none."""
    return totals[0] / totals[1] if totals[1] else math.nan


def _of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "responses": len(rows),
        "scored": sum(row["segment_error_rate"] is not None for row in rows),
        "no_answer": sum(row["no_answer"] is not None for row in rows),
        "unscored": sum(row["unscored"] is not None for row in rows),
        **{level: _rate(rows, f"{level}_error_rate") for level in LEVELS},
        "error_types": {kind: sum(row[f"errors_{kind}"] for row in rows) for kind in ERROR_KINDS},
    }


def _rate(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    counts = [row[name] for row in rows if row[name] is not None]
    errors, units = _sum(counts)
    return {
        "errors": errors,
        "units": units,
        "error_rate": defined(error_rate((errors, units))),
        "stderr": defined(pooled_stderr(counts, error_rate)),
        "interval": interval_of(pooled_interval(counts, error_rate)),
        **{
            bound: defined(error_rate(_sum([row[f"{name}_{bound}"] for row in rows])))
            for bound in _BOUNDS
        },
    }


def _sum(counts: Sequence[Sequence[int]]) -> tuple[int, int]:
    return sum(row[0] for row in counts), sum(row[1] for row in counts)


def _count(values: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(value for value in values if value is not None).most_common())


def row_metrics(verdict: Verdict) -> dict[str, Any]:
    """The counts of one response, (units with an error, units), under the name of every score that
    they are part of; a unit is a segment or the whole response. A response without a verdict has
    units in ``worst`` and ``best`` alone."""
    errors, is_unscored = (
        verdict["errors"] or (),
        verdict["unscored"] is not None and verdict["no_answer"] is None,
    )
    types = Counter(errors)
    wrong = len(errors) - types[None]
    found: dict[str, Any] = {
        "unscored": verdict["unscored"] if is_unscored else None,
        "no_answer": verdict["no_answer"],
    }
    found |= {f"errors_{kind}": types[kind] for kind in ERROR_KINDS}
    segments = len(verdict["segments"]) or 1  # one for an answer that never came
    for level, counts, units in (
        ("segment", [wrong, len(errors)], segments),
        ("response", [int(wrong > 0), int(verdict["errors"] is not None)], 1),
    ):
        scored = None if verdict["unscored"] else counts
        found |= {f"{level}_error_rate": scored, f"{level}_error_rate_{verdict['domain']}": scored}
        ends = ([units, units], [0, units]) if is_unscored else (counts, counts)
        found |= bounds_of(f"{level}_error_rate", *ends)
    return found


def _scores() -> Iterator[Score]:
    rate = pooled(error_rate)
    shown = [
        Score(f"{level}_error_rate", rate, ERROR_RATE, f"{level.capitalize()}s with errors", False)
        for level in LEVELS
    ]
    yield from shown
    for score in shown:
        for domain in DOMAINS:
            yield Score(f"{score.name}_{domain}", rate, ERROR_RATE, higher=False)
        yield from score.bounds()
    for kind in ERROR_KINDS:
        yield Score(f"errors_{kind}", Aggregation(lambda counts: float(sum(counts))), higher=False)
    for name in ("no_answer", "unscored"):
        yield Score(name, Aggregation(how_many), higher=False)


SCORES = tuple(_scores())
