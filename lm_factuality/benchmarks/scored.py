"""A benchmark without a judge in one call: the model answers, and a function scores each answer.

`scored_benchmark` declares the benchmark, and `ScoredTask` is the base of its lm_eval task.
"""

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, ClassVar

from lm_factuality.benchmarks.declaration import (
    ACCURACY,
    Benchmark,
    KeptRow,
    KeptRows,
    Rescorer,
    Sample,
    Score,
    Scoring,
    worst_and_best_of,
)
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.own_data import read_records, text_in
from lm_factuality.harness.samples import texts
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings
from lm_factuality.scores.statistics import Aggregation, Outcome, how_many


def scored_benchmark(
    score: Score, value: Callable[[Doc, str], float | str], cluster: str, **parts: Any
) -> Benchmark:
    """Declare a benchmark in which a function scores each answer.

    Args:
        score: The score. Its worst and best case, and the count of unscored answers, are added.
        value: Returns what an answer adds to the score, or the reason why it is unscored.
        cluster: The column of the data by which the standard error is clustered.
        **parts: Other fields of `Benchmark`, such as ``kind`` and ``title``.
    """
    measure = score.value_range or ACCURACY
    ends = (measure.low, measure.high) if score.higher_is_better else (measure.high, measure.low)

    def keep(sample: Sample) -> KeptRow:
        (answer,) = texts(sample["filtered_resps"])
        return {"doc": sample["doc"], "answer": answer}

    def row_metrics(row: KeptRow) -> JsonObject:
        answer = without_thinking(row["answer"])
        outcome = UNFINISHED if answer is None else value(row["doc"], row["answer"])
        is_unscored = isinstance(outcome, str)
        worst, best = (
            Outcome(float(end if is_unscored else outcome), str(row["doc"][cluster]))
            for end in ends
        )
        return {
            score.name: None if is_unscored else best,
            **worst_and_best_of(score.name, worst, best),
            "unscored": outcome if is_unscored else None,
        }

    def recount(task: TaskResult, rows: KeptRows) -> Rescorer:
        return Rescorer(row_metrics)

    unscored = Score("unscored", Aggregation(how_many), higher_is_better=False)
    scores = (score, *score.worst_and_best(), unscored)
    return Benchmark(scoring=Scoring(scores, (score.name,), keep, recount), **parts)


class ScoredTask(SuiteTask):
    """The lm_eval task of a scored benchmark, which a subclass names in ``declared``.

    The YAML names the data under ``dataset_path``: a table relative to the YAML, or a dataset of
    the Hub.
    """

    prompt: ClassVar[str]
    """What the model is asked, with the names of columns in braces."""

    reads = ()

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        self._dataset = dict(config)
        own = {"output_type": "generate_until", "doc_to_text": "text"}
        return TaskSettings(own | {"doc_to_target": config.get("doc_to_target", "text")}, {})

    def read_documents(self) -> list[JsonObject]:
        records, self.config.metadata["data"] = read_records(self._dataset, "a table")
        columns = [name for _, name, _, _ in Formatter().parse(self.prompt) if name]
        documents = []
        for record in records:
            for column in columns:
                text_in(record, column)  # raises where the prompt would lack a text
            documents.append({**record.values, "text": self.prompt.format(**record.values)})
        return documents

    def row_metrics(self, doc: JsonObject, results: Sequence[Any]) -> JsonObject:
        recount: Rescorer = self.declared.scoring.make_rescorer(None, ())
        return recount.row_metrics({"doc": doc, "answer": results[0]})
