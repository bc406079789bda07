"""What people are asked of FELM-gen's answers: is a segment factual, and if not, what is wrong with it (section 3.6)?"""

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.asked import Answers, Item, People, as_verdict, load_questions, relabelling
from lm_factuality.benchmarks.declaration import Sample
from lm_factuality.benchmarks.felm.people import FACTUAL, segment_items
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm_gen.recount import recount
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import verdict_of


def items(result: TaskResult, sample: Sample) -> list[Item]:
    """The segments of an answer."""
    record, doc = verdict_of(sample), sample["doc"]
    said = None if record["errors"] is None else [error or FACTUAL for error in record["errors"]]
    return segment_items(doc["prompt"], record["segments"], said, doc.get("reference_texts") or ())


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    """The types of errors that people found; all in math and reasoning are reasoning errors, as in the paper."""
    record, said = verdict_of(sample), (answers[item.id] for item in items(result, sample))
    only = "reasoning" if record["domain"] in WITHOUT_REFERENCES else None
    errors = [None if answer == FACTUAL else only or answer for answer in said]
    return as_verdict({**record, "errors": errors, "unscored": None, "outputs": []})


PEOPLE = People(tuple(load_questions(__package__).values()), items, relabelling(items, _change, recount))
