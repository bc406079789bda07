"""The benchmark in order: what is no answer is set aside, answers are cut into segments, a judge marks each segment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from judges.judge import Judge, Plan
from lm_factuality.benchmarks.felm_gen import metrics, steps
from lm_factuality.benchmarks.felm_gen.steps import Cut, CutReply, Marks, MarksReply, no_answer, to_answer, why_none
from lm_factuality.ground.console import counted, shown
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import Docs, Table, Verdict


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
    """``lm_factuality.harness.generation.Generation`` for FELM's prompts. A document has ``index``, ``domain``, ``prompt`` and
    ``reference_texts``, and one response. A record has its segments and for each the type of its error or null (``errors``), or
    ``no_answer`` or ``unscored`` with the reason; who cut it (``cut_by``, ``cut_refused``); and the judge's ``outputs``."""

    name = "felm_gen"
    kinds = ("marks",)
    prompt_names = (steps.CUT_PROMPT, steps.MARK_PROMPT)

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            to_model(_Doc, doc)
        except ValueError as error:
            return f"'doc': {error}; is this a sample of felm_gen?"
        return None if len(responses) == 1 else f"found {len(responses)} responses, expected one"

    def plan(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[tuple[str, Plan]]:
        """Which segments will be marked is not known before they are cut: the second step is planned on those that rules cut."""
        items = _items(docs, responses)
        to_cut = [steps.cut_subject(item.answer) for item in items if _is_cut_by(judge, item)]
        cutting = judge.plan(steps.CUT_PROMPT, to_cut, samples=1, reply=CutReply, max_tokens=steps.CUT_TOKENS)
        to_mark = _mark_subjects(items, [item.by_rules for item in items])
        marking = judge.plan(steps.MARK_PROMPT, to_mark, reply=MarksReply)
        return [*([("cutting", cutting)] if to_cut else []), ("marking", marking)]

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        items = _items(docs, responses)
        cuts = _cut(judge, items)
        subjects = _mark_subjects(items, cuts)
        replies = iter(judge.ask_typed(steps.MARK_PROMPT, MarksReply, subjects, "marking segments", steps.check_marks))
        records: list[Verdict] = []
        for item, cut in zip(items, cuts, strict=True):
            read = next(replies) if cut else []
            found = steps.read_marks(read, len(cut.segments), item.doc["domain"]) if cut else Marks(None)
            records.append(_record(item, cut, found, [each.answer.text or "" for each in read]))
        return records

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        (item,) = _items([doc], [responses])
        return _record(item, item.by_rules, Marks(None, reason), [])

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        return metrics.summarise(verdicts)

    def table(self, summary: Mapping[str, Any]) -> Table:
        rates = ("#segments wrong", "#95% interval", "#responses wrong", "#95% interval ")
        columns = ("domain", "#responses", *rates, "#no answer", "#unscored", "#worst / best segments")
        rows = [_row(name, each) for name, each in summary.items() if isinstance(each, Mapping) and "segment" in each]
        types = ", ".join(f"{kind} {number}" for kind, number in summary[metrics.ALL]["error_types"].items() if number)
        notes = [
            f"Wrong segments by type: {types or 'none'}.",
            *(f"{label}: {counted(summary[key])}." for label, key in _NOTES.items() if summary[key]),
            "Intervals: percentile bootstrap over responses. Responses without an answer or a verdict are left out.",
        ]
        return columns, rows, notes


_NOTES = {"Cut by": "cut_by", "Cuts of the judge not taken": "cuts_refused", "No answer": "no_answer", "Unscored": "unscored"}
FELM_GEN = FelmGen()


def _items(docs: Docs, responses: Sequence[Sequence[str]]) -> list[_Item]:
    return [_Item(doc, to_answer(texts[0]), no_answer(texts[0])) for doc, texts in zip(docs, responses, strict=True)]


def _cut(judge: Judge, items: Sequence[_Item]) -> list[Cut | None]:
    places = [place for place, item in enumerate(items) if _is_cut_by(judge, item)]
    subjects = [steps.cut_subject(items[place].answer) for place in places]
    prompt, check, most = steps.CUT_PROMPT, steps.check_cut, steps.CUT_TOKENS
    replies = judge.ask_typed(prompt, CutReply, subjects, "cutting responses", check, 1, max_tokens=most) if places else []
    read = {place: reply for place, (reply,) in zip(places, replies, strict=True)}
    numbered = enumerate(items)
    return [None if each.problem else steps.cut(each.answer, each.doc["domain"], read.get(place)) for place, each in numbered]


def _is_cut_by(judge: Judge, item: _Item) -> bool:
    """Not what is one piece: there is nothing to group."""
    can_cut = item.doc["domain"] in steps.BY_JUDGE and judge.config.capabilities.can_answer("cut")
    return item.problem is None and can_cut and len(steps.pieces_of(item.answer)) > 1


def _mark_subjects(items: Sequence[_Item], cuts: Sequence[Cut | None]) -> list[dict[str, Any]]:
    return [steps.mark_subject(item.doc, cut.segments) for item, cut in zip(items, cuts, strict=True) if cut is not None]


def _record(item: _Item, cut: Cut | None, marks: Marks, outputs: list[str]) -> Verdict:
    none, unscored = why_none(item.problem)
    return {
        "index": item.doc["index"],
        "domain": item.doc["domain"],
        "segments": list(cut.segments) if cut else [],
        "errors": None if marks.errors is None else list(marks.errors),
        "no_answer": none,
        "unscored": unscored or marks.reason,
        "cut_by": cut.by if cut else None,
        "cut_refused": cut.refused if cut else None,
        "outputs": outputs,
    }


def _row(name: str, each: Mapping[str, Any]) -> tuple[str, ...]:
    rates = []
    for level in metrics.LEVELS:
        rate, ends = each[level]["error_rate"], each[level]["interval"]
        rates += [shown(rate), "-" if ends is None else f"{100 * ends[0]:.1f} - {ends[1]:.1%}"]
    bounds = " / ".join(shown(each["segment"][bound]) for bound in ("worst", "best"))
    return name, str(each["responses"]), *rates, str(each["no_answer"]), str(each["unscored"]), bounds
