"""The benchmark in order: what is no answer is set aside, answers are cut into segments, a judge marks each segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from lm_factuality.benchmarks.felm_gen import marks, metrics, segments
from lm_factuality.benchmarks.felm_gen.answers import no_answer, to_answer, why_none
from lm_factuality.benchmarks.felm_gen.marks import Marks, MarksReply
from lm_factuality.benchmarks.felm_gen.segments import Cut, CutReply, cut_by_rules
from lm_factuality.ground.console import counted, shown
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import Docs, Table, Verdict

if TYPE_CHECKING:
    from judges.judge import Judge, Plan


class _Doc(BaseModel):
    index: str
    domain: str
    prompt: str
    reference_texts: tuple[str, ...]


@dataclass(frozen=True)
class _Item:
    """A document, the answer to its prompt, and why that is none."""

    doc: Mapping[str, Any]
    answer: str
    problem: str | None

    @property
    def domain(self) -> str:
        return str(self.doc["domain"])


class FelmGen:
    """``lm_factuality.harness.generation.Generation`` for FELM's prompts. A document has ``index``, ``domain``, ``prompt`` and
    ``reference_texts``, and one response. A record has its segments and for each the type of its error or null (``errors``), or
    ``no_answer`` or ``unscored`` with the reason; and the judge's ``outputs``."""

    name = "felm_gen"
    kinds = ("marks",)
    prompt_names = (segments.CUT_PROMPT, marks.MARK_PROMPT)

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            to_model(_Doc, doc)
        except ValueError as error:
            return f"'doc': {error}; is this a sample of felm_gen?"
        return None if len(responses) == 1 else f"found {len(responses)} responses, expected one"

    def plan(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[tuple[str, Plan]]:
        """Which segments will be marked is not known before they are cut: the second step is planned on those that rules cut,
        which is about what it costs."""
        items = _items(docs, responses)
        cut = [item for item in items if _is_cut_by(judge, item)]
        cuts = [None if item.problem else cut_by_rules(item.answer, item.domain) for item in items]
        subjects = [segments.cut_subject(item.answer) for item in cut]
        cutting = judge.plan(segments.CUT_PROMPT, subjects, samples=1, reply=CutReply, max_tokens=segments.CUT_TOKENS)
        marking = judge.plan(marks.MARK_PROMPT, _mark_subjects(items, cuts), reply=MarksReply)
        return [*([("cutting", cutting)] if cut else []), ("marking", marking)]

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        items = _items(docs, responses)
        cuts = self._cut(judge, items)
        subjects = _mark_subjects(items, cuts)
        replies = iter(judge.ask_typed(marks.MARK_PROMPT, MarksReply, subjects, "marking segments", marks.check_marks))
        records: list[Verdict] = []
        for item, cut in zip(items, cuts, strict=True):
            read = next(replies) if cut else []
            found = marks.read_marks(read, len(cut.segments), item.domain) if cut else Marks(None)
            records.append(_record(item, cut, found, [each.answer.text or "" for each in read]))
        return records

    def _cut(self, judge: Judge, items: Sequence[_Item]) -> list[Cut | None]:
        """The segments of each answer; None for what is no answer."""
        places = [place for place, item in enumerate(items) if _is_cut_by(judge, item)]
        subjects = [segments.cut_subject(items[place].answer) for place in places]
        prompt, check, most = segments.CUT_PROMPT, segments.check_cut, segments.CUT_TOKENS
        replies = judge.ask_typed(prompt, CutReply, subjects, "cutting responses", check, 1, max_tokens=most) if places else []
        read = {place: reply for place, (reply,) in zip(places, replies, strict=True)}
        return [
            None if item.problem else segments.cut(item.answer, item.domain, read.get(place)) for place, item in enumerate(items)
        ]

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        (item,) = _items([doc], [responses])
        return _record(item, None if item.problem else cut_by_rules(item.answer, item.domain), Marks(None, reason), [])

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        return metrics.summarise(cast(Sequence[metrics.Record], verdicts))

    def table(self, summary: Mapping[str, Any]) -> Table:
        columns = (
            "domain",
            "#responses",
            "#segments wrong",
            "#95% interval",
            "#responses wrong",
            "#95% interval ",
            "#no answer",
            "#unscored",
            "#worst / best segments",
        )
        names = [name for name, each in summary.items() if isinstance(each, Mapping) and "segment" in each]
        rows = [_row(name, summary[name]) for name in names]
        types = ", ".join(f"{kind} {number}" for kind, number in summary[metrics.ALL]["error_types"].items() if number)
        notes = [
            f"Wrong segments by type: {types or 'none'}.",
            *(f"{label}: {counted(summary[key])}." for label, key in _NOTES.items() if summary[key]),
            "Intervals: percentile bootstrap over responses. What is no answer or has no verdict is in no rate.",
        ]
        return columns, rows, notes


_NOTES = {"Cut by": "cut_by", "Cuts of the judge not taken": "cuts_refused", "No answer": "no_answer", "Unscored": "unscored"}
FELM_GEN = FelmGen()


def _items(docs: Docs, responses: Sequence[Sequence[str]]) -> list[_Item]:
    return [_Item(doc, to_answer(texts[0]), no_answer(texts[0])) for doc, texts in zip(docs, responses, strict=True)]


def _is_cut_by(judge: Judge, item: _Item) -> bool:
    """Not what is one piece: there is nothing to group."""
    if item.problem is not None or item.domain not in segments.BY_JUDGE or not judge.config.capabilities.can_answer("cut"):
        return False
    return len(segments.pieces_of(item.answer)) > 1


def _mark_subjects(items: Sequence[_Item], cuts: Sequence[Cut | None]) -> list[dict[str, Any]]:
    return [marks.mark_subject(item.doc, cut.segments) for item, cut in zip(items, cuts, strict=True) if cut is not None]


def _record(item: _Item, cut: Cut | None, marks: Marks, outputs: list[str]) -> metrics.Record:
    none, unscored = why_none(item.problem)
    return {
        "index": item.doc["index"],
        "domain": item.domain,
        "segments": list(cut.segments) if cut else [],
        "errors": None if marks.errors is None else list(marks.errors),
        "no_answer": none,
        "unscored": unscored or marks.reason,
        "cut_by": cut.by if cut else None,
        "cut_refused": cut.refused if cut else None,
        "outputs": outputs,
    }


def _row(name: str, each: Mapping[str, Any]) -> tuple[str, ...]:
    segment, response = each["segment"], each["response"]
    return (
        name,
        str(each["responses"]),
        shown(segment["error_rate"]),
        _interval(segment["interval"]),
        shown(response["error_rate"]),
        _interval(response["interval"]),
        str(each["no_answer"]),
        str(each["unscored"]),
        f"{shown(segment['worst'])} / {shown(segment['best'])}",
    )


def _interval(ends: Sequence[float] | None) -> str:
    return "-" if ends is None else f"{100 * ends[0]:.1f} - {ends[1]:.1%}"
