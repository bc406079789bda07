"""Scores of FACTOR in open generation out of its samples, and whether a record follows from the responses.

A record holds what was read of the judge, not its outputs: what follows from the responses is found again, and what only the
judge can know is believed. People in the judge's place say whether the minimal fact is true, false or not touched on (section
6.1).
"""

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.asked import Answers, Item, People, as_verdict, load_questions, relabelling
from lm_factuality.benchmarks.declaration import Recount, Row, Rows, Sample
from lm_factuality.benchmarks.factor.scoring import wins
from lm_factuality.benchmarks.factor_generation.facts import complete, end_of, why_none
from lm_factuality.benchmarks.factor_generation.marks import MARKS
from lm_factuality.benchmarks.factor_generation.metrics import row_metrics
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import belongs, verdict_of


def recount(task: TaskResult, rows: Rows) -> Recount:
    """From the marks by the task's protocol; what does not follow from the judge's texts is unfounded."""
    protocol = str(task.metadata.get("protocol", "paper"))

    def again(row: Row) -> dict[str, Any]:
        verdict, doc = row["verdict"], row["doc"]
        expected = 0 if doc["no_fact"] else len(row["responses"])
        belongs(verdict["doc_id"] == doc["doc_id"] and len(verdict["marks"]) == expected)
        if unknown := set(verdict["marks"]) - {*MARKS, None}:
            raise ValueError(f"marks {unknown}, expected {', '.join(MARKS)} or null")
        if doc["factor_acc"] is not None and doc["factor_acc"] != wins(doc["mean_logprob"], doc["gold"], protocol):
            raise ValueError("its factor_acc does not follow from mean_logprob")
        return row_metrics(doc, verdict)

    return Recount(again, unfounded)


def unfounded(row: Row) -> str | None:
    """What of a record of FACTOR's generations does not follow, if anything."""
    doc, verdict = row["doc"], row["verdict"]
    texts = [] if doc["no_fact"] else row["responses"]
    sentences = [complete(doc["stem"], text) for text in texts]
    if verdict["sentences"] != sentences:
        return "its sentences are not those of the responses"
    for text, sentence, mark, reason in zip(texts, sentences, verdict["marks"], verdict["reasons"], strict=True):
        if (mark is None) != isinstance(reason, str):
            return "a generation has a mark and a reason why it has none, or neither"
        if sentence is None and (mark, reason) != (None, why_none(text)):
            return "a generation without a word has a mark"
    return None


def _items(result: TaskResult, sample: Sample) -> list[Item]:
    """The sentences of a row's generations."""
    doc, record = sample["doc"], verdict_of(sample)
    context = (("Right version", doc["true"]), ("Wrong version", doc["false"]), ("Text before", end_of(doc["prefix"])))
    pairs = enumerate(zip(record["sentences"], record["marks"], strict=True))
    return [Item(f"mark:{place}", "mark", text, context, mark) for place, (text, mark) in pairs if text]


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    """The marks that people gave."""
    record = verdict_of(sample)
    marks = [answers.get(f"mark:{place}") for place in range(len(record["marks"]))]
    reasons = [None if mark else reason for mark, reason in zip(marks, record["reasons"], strict=True)]
    return as_verdict({**record, "marks": marks, "reasons": reasons, "unscored": None})


PEOPLE = People(tuple(load_questions(__package__).values()), _items, relabelling(_items, _change, recount))
