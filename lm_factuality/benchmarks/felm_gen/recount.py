"""Scores of FELM-gen out of its samples: whether a record follows from the response and from the judge's outputs, which it holds,
so that its marks are read again; and people in the judge's place (section 3.6)."""

from collections.abc import Mapping
from typing import Any

from judges.answers import Answer
from judges.backends import capabilities
from judges.typed import read_reply
from lm_factuality.benchmarks.asked import Answers, Item, People, as_verdict, load_questions, relabelling
from lm_factuality.benchmarks.declaration import Recount, Row, Rows, Sample
from lm_factuality.benchmarks.felm.benchmark import FACTUAL, segment_items
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm_gen.answers import no_answer, to_answer, why_none
from lm_factuality.benchmarks.felm_gen.metrics import Record, row_metrics
from lm_factuality.benchmarks.felm_gen.steps import BY_JUDGE, MarksReply, check_marks, cut_by_rules, read_marks
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import belongs, verdict_of


def recount(task: TaskResult, rows: Rows) -> Recount:
    """From the verdicts; what does not follow from the judge's texts is unfounded."""
    judge = task.metadata.get("judge_config")
    config: Mapping[str, Any] = judge if isinstance(judge, dict) else {}

    def again(row: Row) -> dict[str, Any]:
        verdict: Record = row["verdict"]
        doc, errors = row["doc"], verdict["errors"]
        belongs(verdict["index"] == doc["index"] and verdict["domain"] == doc["domain"])
        if errors is not None and len(errors) != len(verdict["segments"]):
            raise ValueError(f"{len(errors)} verdicts on {len(verdict['segments'])} segments")
        return row_metrics(verdict)

    return Recount(again, lambda row: unfounded(row, config))


def unfounded(row: Row, judge: Mapping[str, Any]) -> str | None:
    """What of a record of FELM-gen does not follow, if anything; ``judge`` is the config in the results."""
    verdict: Record = row["verdict"]
    doc, (response,) = row["doc"], row["responses"]
    problem = no_answer(response)
    none, unscored = why_none(problem)
    if verdict["no_answer"] != none:
        return f"its no_answer is {verdict['no_answer']!r}, but of the response it is {none!r}"
    if problem is not None:
        empty: dict[str, Any] = {"segments": [], "errors": None, "unscored": unscored, "cut_by": None, "outputs": []}
        wrong = next((key for key, value in empty.items() if row["verdict"][key] != value), None)
        return None if wrong is None else f"its {wrong} is of an answer, but the response is none"
    return _wrong_cut(to_answer(response), doc["domain"], verdict, judge) or _wrong_marks(verdict, judge)


def _wrong_cut(answer: str, domain: str, verdict: Record, judge: Mapping[str, Any]) -> str | None:
    """Segments are the answer, whole and in order; where rules cut, they are those of the rules."""
    segments = verdict["segments"]
    if verdict["cut_by"] == "judge":
        if domain not in BY_JUDGE or not capabilities(str(judge.get("backend"))).can_answer("cut"):
            return f"its segments are said to be cut by a judge, which cuts none of {domain}"
        is_whole = "".join("".join(segments).split()) == "".join(answer.split())
        return None if is_whole and all(map(str.strip, segments)) else "its segments are not the text of the response"
    cut = cut_by_rules(answer, domain)
    is_cut = segments == list(cut.segments) and verdict["cut_by"] == cut.by
    return None if is_cut else "its segments are not those of the response"


def _wrong_marks(verdict: Record, judge: Mapping[str, Any]) -> str | None:
    outputs, errors, reason = verdict["outputs"], verdict["errors"], verdict["unscored"]
    if (errors is None) != isinstance(reason, str):
        return "it has errors and a reason why it has none, or neither"
    if not outputs:
        return None if errors is None else "it has marks, but nothing that the judge wrote"
    if len(outputs) != judge.get("samples", 1):
        return f"it has {len(outputs)} outputs of the judge, expected {judge.get('samples', 1)}"
    subject = {"units": verdict["segments"]}
    replies = [read_reply(Answer(text), MarksReply, subject, check_marks) for text in outputs]
    found = read_marks(replies, len(verdict["segments"]), verdict["domain"]).errors
    return None if errors == (None if found is None else list(found)) else "its errors are not what the judge wrote"


def _items(result: TaskResult, sample: Sample) -> list[Item]:
    record, doc = verdict_of(sample), sample["doc"]
    said = None if record["errors"] is None else [error or FACTUAL for error in record["errors"]]
    return segment_items(doc["prompt"], record["segments"], said, doc.get("reference_texts") or ())


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    """The types of errors that people found; all in math and reasoning are reasoning errors, as in the paper."""
    record, said = verdict_of(sample), (answers[item.id] for item in _items(result, sample))
    only = "reasoning" if record["domain"] in WITHOUT_REFERENCES else None
    errors = [None if answer == FACTUAL else only or answer for answer in said]
    return as_verdict({**record, "errors": errors, "unscored": None, "outputs": []})


PEOPLE = People(tuple(load_questions(__package__).values()), _items, relabelling(_items, _change, recount))
