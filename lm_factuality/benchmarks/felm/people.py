"""What people are asked of FELM's answers, segment by segment. They take the place of its annotators: their answers tell how well
people agree (table 2 of the paper), and how a judge does by other labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.asked import Answers, Item, People, load_questions, relabelling
from lm_factuality.benchmarks.declaration import Recount, Row, Rows, Sample
from lm_factuality.harness.outputs import TaskResult

FACTUAL, _WRONG = "factual", "wrong"


def segment_items(prompt: str, segments: Sequence[str], said: Sequence[str] | None, references: Sequence[str] = ()) -> list[Item]:
    """An item for each segment; ``said`` is what the judge says of each."""
    beside = tuple((f"Reference {number}", text) for number, text in enumerate(references, start=1))
    context = (("Question", prompt), ("Whole answer", "\n".join(segments)), *beside)
    numbered = enumerate(segments)
    return [Item(f"segment:{place}", "segment", text, context, said[place] if said else None) for place, text in numbered]


def people_of(keep: Callable[[Sample], Row], recount: Callable[[TaskResult, Rows], Recount]) -> People:
    """With FELM's labels in the place of the judge, and its metrics."""

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        doc = sample["doc"]
        return segment_items(doc["prompt"], doc["segments"], [FACTUAL if label else _WRONG for label in doc["labels"]])

    def change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
        return {"doc": {**sample["doc"], "labels": [answers[item.id] == FACTUAL for item in items(result, sample)]}}

    questions = tuple(load_questions(__package__).values())
    return People(questions, items, relabelling(items, change, recount, keep))
