"""What people are asked of FELM-gen's answers: is a segment factual, and if not, what is wrong with it (section 3.6)?"""

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.asked import Item, Option, People, Question, answered, with_verdict
from lm_factuality.benchmarks.declaration import Sample
from lm_factuality.benchmarks.felm.people import ASK, FACTUAL, segment_items
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm_gen.marks import TYPES, UNTYPED
from lm_factuality.benchmarks.felm_gen.recount import recount
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import verdict_of

_WRONG = (
    "it says something false of the world",
    "a false step of reasoning or calculation",
    "it has nothing to do with the question",
    "it believes a false claim or a joke in the question",
    "in some other way",
)
_ERRORS = tuple(
    Option(value, f"Wrong: {label}", str(key), False)
    for key, (value, label) in enumerate(zip((*TYPES, UNTYPED), _WRONG, strict=True), start=2)
)


def items(result: TaskResult, sample: Sample) -> list[Item]:
    """The segments of an answer."""
    record, doc = verdict_of(sample), sample["doc"]
    errors = record["errors"]
    said = None if errors is None else [error or FACTUAL.value for error in errors]
    return segment_items(doc["prompt"], record["segments"], said, doc.get("reference_texts") or ())


def relabel(result: TaskResult, sample: Sample, answers: Mapping[str, str]) -> dict[str, Any] | None:
    """With the types of errors that people found; all in math and reasoning are reasoning errors, as in the paper."""
    asked, record = items(result, sample), verdict_of(sample)
    if not asked:
        return dict(sample)
    if not answered(asked, answers):
        return None
    found = [None if (answer := answers[item.id]) == FACTUAL.value else answer for item in asked]
    if record["domain"] in WITHOUT_REFERENCES:
        found = [error and "reasoning" for error in found]
    changed = {**record, "errors": found, "unscored": None, "outputs": []}
    return with_verdict(sample, changed, recount(result, ()).row_metrics)


PEOPLE = People((Question("segment", ASK, (FACTUAL, *_ERRORS)),), items, relabel)
