"""What people are asked of generations: is the minimal fact true, false or not touched on in it (section 6.1)?"""

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.asked import Answers, Item, People, as_verdict, load_questions, relabelling
from lm_factuality.benchmarks.declaration import Sample
from lm_factuality.benchmarks.factor_generation.recount import recount
from lm_factuality.benchmarks.factor_generation.sentences import end_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import verdict_of


def items(result: TaskResult, sample: Sample) -> list[Item]:
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


PEOPLE = People(tuple(load_questions(__package__).values()), items, relabelling(items, _change, recount))
