"""Benchmarks without a judge: the model answers, and a function scores each answer.

The package of a benchmark calls `scored_benchmark` to declare it, and derives its lm_eval task from
`ScoredTask`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from lm_factuality.harness.own_data import read_records, require_text
from lm_factuality.harness.samples import flatten_responses
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings
from lm_factuality.scores.statistics import Aggregation, Outcome, count_present


def scored_benchmark(
    score: Score,
    score_answer: Callable[[Doc, str], float | str],
    cluster: str,
    **benchmark_fields: Any,
) -> Benchmark:
    """Declare a benchmark in which a function scores each answer.

    Args:
        score: The score. Its worst and best case, and the count of unscored answers, are added.
        score_answer: Returns the value of an answer to a document, or the reason why the answer is
            unscored.
        cluster: The column of the data by which standard errors are clustered.
        **benchmark_fields: Other fields of `Benchmark`, such as ``kind`` and ``title``.
    """
    answers = _ScoredAnswers(score, score_answer, cluster)
    unscored = Score("unscored", Aggregation(count_present), higher_is_better=False)
    scoring = Scoring(
        scores=(score, *score.worst_and_best(), unscored),
        headlines=(score.name,),
        keep_row=answers.keep_row,
        make_rescorer=answers.make_rescorer,
    )
    return Benchmark(scoring=scoring, **benchmark_fields)


@dataclass(frozen=True)
class _ScoredAnswers:
    """Scores the answers to the documents of a benchmark, in runs and again from saved samples."""

    score: Score

    score_answer: Callable[[Doc, str], float | str]
    """Returns the value of an answer, or the reason why it is unscored."""

    cluster_column: str
    """The column of the data by which standard errors are clustered."""

    def keep_row(self, sample: Sample) -> KeptRow:
        """Take the document and the answer from a sample."""
        # lm_eval nests responses in lists, of which this one has a single element.
        (answer,) = flatten_responses(sample["filtered_resps"])
        return {"doc": sample["doc"], "answer": answer}

    def make_rescorer(self, task: TaskResult, rows: KeptRows) -> Rescorer:
        """Return the function that scores a kept row. It depends neither on task nor other rows."""
        return Rescorer(self.row_metrics)

    def row_metrics(self, row: KeptRow) -> JsonObject:
        """Return the score of an answer, and the same score as its worst and its best case.

        Args:
            row: The document under ``doc``, and the model's ``answer`` to it.

        Returns:
            The outcomes by the name of the score, and under ``unscored`` the reason why there is no
            score, or None.
        """
        document = row["doc"]
        cluster = str(document[self.cluster_column])
        # If the model never stopped thinking, there is no answer to score.
        if without_thinking(row["answer"]) is None:
            return self._unscored_metrics(UNFINISHED, cluster)
        value_or_reason = self.score_answer(document, row["answer"])
        if isinstance(value_or_reason, str):
            return self._unscored_metrics(value_or_reason, cluster)

        name = self.score.name
        outcome = Outcome(float(value_or_reason), cluster)
        return {name: outcome, **worst_and_best_of(name, outcome, outcome), "unscored": None}

    def _unscored_metrics(self, reason: str, cluster: str) -> JsonObject:
        """Return the metrics of an answer without a score.

        An unscored answer could have any value, so its worst and its best case are the ends of the
        score's range. For an error rate, for example, the highest value is the worst.

        Args:
            reason: Why there is no score.
            cluster: The cluster of the answer's document.
        """
        value_range = self.score.value_range or ACCURACY
        low = Outcome(value_range.low, cluster)
        high = Outcome(value_range.high, cluster)
        name = self.score.name
        if self.score.higher_is_better:
            bounds = worst_and_best_of(name, worst=low, best=high)
        else:
            bounds = worst_and_best_of(name, worst=high, best=low)
        return {name: None, **bounds, "unscored": reason}


class ScoredTask(SuiteTask):
    """The lm_eval task of a scored benchmark, which a subclass names in ``declared``.

    The YAML names the data under ``dataset_path``: a table relative to the YAML, or a dataset of
    the Hub.
    """

    prompt: ClassVar[str]
    """The prompt, with the names of columns in braces, such as ``The capital of {country} is``."""

    metadata_keys = ()

    def configure(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Store the YAML for `read_documents`, and return what lm_eval is configured with.

        Args:
            config: The YAML.
            metadata: Its metadata, with those of the command line.
        """
        self._data_config = dict(config)
        lm_eval_config = {
            "output_type": "generate_until",
            "doc_to_text": "text",
            "doc_to_target": config.get("doc_to_target", "text"),
        }
        return TaskSettings(lm_eval_config, {})

    def read_documents(self) -> list[JsonObject]:
        """Read the rows, and describe the data in the task's metadata.

        Returns:
            A document per row: its columns, and the prompt under ``text``.

        Raises:
            DataError: The data cannot be read, or a column of the prompt is missing or empty.
        """
        records, description = read_records(self._data_config, "a table")
        # Results show the metadata, so that readers see which data was used.
        self.config.metadata["data"] = description
        columns = _column_names(self.prompt)
        documents = []
        for record in records:
            for column in columns:
                # An empty cell raises an error, because the prompt would lack a text.
                require_text(record, column)
            prompt = self.prompt.format(**record.values)
            documents.append({**record.values, "text": prompt})
        return documents

    def row_metrics(self, doc: JsonObject, results: Sequence[Any]) -> JsonObject:
        """Score the model's answer to a document.

        Args:
            doc: The document.
            results: The model's responses, of which there is one.
        """
        # A run and every later check score with the same function.
        rescorer: Rescorer = self.declared.scoring.make_rescorer(None, ())
        return rescorer.row_metrics({"doc": doc, "answer": results[0]})


def _column_names(prompt: str) -> list[str]:
    """Return the names in braces in a prompt.

    Example:
        ``The capital of {country} is`` gives ``["country"]``.
    """
    fields = Formatter().parse(prompt)
    return [name for _, name, _, _ in fields if name]
