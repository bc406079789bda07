"""What people are asked of generations: is the minimal fact true, false or not touched on in it (section 6.1)?"""

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.asked import Item, Option, People, Question, answered, with_verdict
from lm_factuality.benchmarks.declaration import Sample
from lm_factuality.benchmarks.factor_generation.marks import FALSE, NEUTRAL, TRUE
from lm_factuality.benchmarks.factor_generation.recount import recount
from lm_factuality.benchmarks.factor_generation.sentences import end_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import verdict_of

MARK = Question(
    "mark",
    "What does this sentence say of the fact in which the two versions differ?",
    (
        Option(TRUE, "It states the fact as the right version does", "1", True),
        Option(FALSE, "It contradicts the right version on that fact", "2", False),
        Option(NEUTRAL, "Neither: it says something else", "3"),
    ),
)


def items(result: TaskResult, sample: Sample) -> list[Item]:
    """The sentences of a row's generations."""
    doc, record = sample["doc"], verdict_of(sample)
    context = (("Text before", end_of(doc["prefix"])), ("Right version", doc["true"]), ("Wrong version", doc["false"]))
    pairs = zip(record["sentences"], record["marks"], strict=True)
    return [Item(f"mark:{place}", MARK.name, text, context, mark) for place, (text, mark) in enumerate(pairs) if text]


def relabel(result: TaskResult, sample: Sample, answers: Mapping[str, str]) -> dict[str, Any] | None:
    """With the marks that people gave."""
    asked, record = items(result, sample), verdict_of(sample)
    if not asked:
        return dict(sample)
    if not answered(asked, answers):
        return None
    marks = [answers.get(f"mark:{place}") for place in range(len(record["marks"]))]
    reasons = [None if mark else reason for mark, reason in zip(marks, record["reasons"], strict=True)]
    changed = {**record, "marks": marks, "reasons": reasons, "unscored": None}
    return with_verdict(sample, changed, recount(result, ()).row_metrics)


PEOPLE = People((MARK,), items, relabel)
