"""What people are asked of FELM's answers, segment by segment. They take the place of its annotators: their answers tell how well
people agree (table 2 of the paper) and how a judge does by other labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.asked import Item, Option, People, Question, answered
from lm_factuality.benchmarks.declaration import Recount, Row, Rows, Sample
from lm_factuality.harness.outputs import TaskResult

ASK = "Is this part of the answer right, as an answer to the question?"
FACTUAL = Option("factual", "Right, or states no fact", "1", True)
_WRONG = Option("wrong", "Wrong: false, badly reasoned or beside the point", "2", False)


def segment_items(prompt: str, segments: Sequence[str], said: Sequence[str] | None, references: Sequence[str] = ()) -> list[Item]:
    """An item for each segment; ``said`` is what the judge says of each."""
    beside = tuple((f"Reference {number}", text) for number, text in enumerate(references, start=1))
    context = (("Question", prompt), ("Whole answer", "\n".join(segments)), *beside)
    judge = said or [None] * len(segments)
    return [Item(f"segment:{place}", "segment", text, context, judge[place]) for place, text in enumerate(segments)]


def people_of(keep: Callable[[Sample], Row], recount: Callable[[TaskResult, Rows], Recount]) -> People:
    """With FELM's labels in the place of the judge, and its metrics."""

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        doc = sample["doc"]
        said = [(FACTUAL if label else _WRONG).value for label in doc["labels"]]
        return segment_items(doc["prompt"], doc["segments"], said)

    def relabel(result: TaskResult, sample: Sample, answers: Mapping[str, str]) -> dict[str, Any] | None:
        asked = items(result, sample)
        if not answered(asked, answers):
            return None
        changed = {**sample, "doc": {**sample["doc"], "labels": [answers[item.id] == FACTUAL.value for item in asked]}}
        return {**changed, **recount(result, ()).row_metrics(keep(changed))}

    return People((Question("segment", ASK, (FACTUAL, _WRONG)),), items, relabel)
