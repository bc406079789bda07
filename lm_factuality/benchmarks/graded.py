"""A judged benchmark in one call: the model answers questions, and a judge grades each answer.

`graded_benchmark` declares the benchmark with its scores, report, checks and questions for people,
and `GradedTask` is the base of its lm_eval task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.asked import Option, Question
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import Benchmark, Data, Page, Sample, SampleDisplay
from lm_factuality.benchmarks.grading import PAPER, GradedAnswers, GradeScore
from lm_factuality.benchmarks.judged import JudgedMethod, judged_benchmark
from lm_factuality.benchmarks.rows import SampleRow, mean_counts, row_key, snippet
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import Source
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.own_data import read_records, text_in
from lm_factuality.harness.samples import responses_of, verdict_of
from lm_factuality.harness.suite_task import TaskSettings


def graded_benchmark(
    title: str,
    lead: str,
    scores: Sequence[GradeScore],
    headline: str,
    sources: Sequence[Source] = (),
    prompts: Path | None = None,
    order: int = 100,
    **grading: Any,
) -> Benchmark:
    """Declare a benchmark in which a judge grades each answer by a reference.

    Args:
        title: What readers call it.
        lead: The first sentence of its page in the report.
        scores: What is computed from the grades, in the order of tables.
        headline: The name of the score that the benchmark is about.
        sources: The published files.
        prompts: The folder of the judge's prompts, for benchmarks outside this package.
        order: The place of the benchmark in lists.
        **grading: The other fields of `GradedAnswers`: ``name``, ``question``, ``reference``,
            ``prompt``, ``reply``, ``worst_grade``, ``best_grade``,
            ``unreadable_grade_by_protocol``.

    Returns:
        The declaration. The benchmark's task derives from `GradedTask` and names it.
    """
    answers = GradedAnswers(grade_scores=scores, **grading)
    goodness = {answers.best_grade: True, answers.worst_grade: False}
    options = [
        Option(grade, _in_words(grade), good=goodness.get(grade)) for grade in answers.grades
    ]
    ask = "Which grade does the answer deserve, going by the reference?"
    return judged_benchmark(
        lambda metadata: replace(answers, protocol=str(metadata.get("protocol") or PAPER)),
        steps=(JudgedStep("grading answers", (), "all scores"),),
        questions=(Question("grade", ask, tuple(options)),),
        headline=headline,
        prompts=prompts,
        title=title,
        data=Data(tuple(sources), settings=("protocol",)),
        page=Page(lead=lead, samples=_samples(answers)),
        order=order,
    )


class GradedTask(JudgedTask):
    """The lm_eval task of a graded benchmark, which a subclass names in ``declared``.

    The YAML names the data under ``dataset_path``: a table relative to the YAML, or a dataset of
    the Hub with ``dataset_kwargs`` for its options. ``metadata`` holds ``judge``, ``judge_store``
    and ``protocol``, and under ``rows`` the number of rows that the published data has.
    """

    reads = ("protocol", "rows")
    instructs = True

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        self._answers: GradedAnswers = self.declared.judging.make_method(metadata)
        self._dataset = dict(config)
        own = {"doc_to_text": "text", "doc_to_target": "reference"}
        return self._answers, TaskSettings(own, self._answers.recorded_settings)

    def read_documents(self) -> list[JsonObject]:
        """Read the questions and references.

        Raises:
            DataError: The data cannot be read, a row lacks a text, or rows are missing.
        """
        records, self.config.metadata["data"] = read_records(
            self._dataset, "a table with a column of questions and one of answers"
        )
        documents = []
        for number, record in enumerate(records):
            question = text_in(record, self._answers.question)
            reference = text_in(record, self._answers.reference)
            documents.append(
                {
                    "index": str(number),
                    "question": question,
                    "reference": reference,
                    "topic": str(record.values.get("topic") or ""),
                    "text": question,
                }
            )
        expected = self.config.metadata.get("rows")
        if expected and len(documents) != int(expected):
            raise DataError(
                f"{self.config.task}: found {len(documents):,} rows, expected {int(expected):,} as"
                " published; name the published data, or leave out metadata.rows for data of your"
                " own"
            )
        return documents


def _samples(answers: GradedAnswers) -> SampleDisplay:
    """How the report shows the answers."""
    outcomes = {answers.best_grade: "right", answers.worst_grade: "wrong", None: "unscored"}

    def row(result: TaskResult, sample: Sample) -> SampleRow:
        doc, verdict = sample["doc"], verdict_of(sample)
        grade = verdict["grade"]
        parts = {}
        for part in answers.grade_scores:
            outcome = part.outcome(grade, doc["index"])
            if outcome is not None:
                parts[part.score.name] = mean_counts(outcome, float(outcome.weight))
        return SampleRow(
            key=row_key(sample, doc["question"]),
            cluster=str(doc["index"]),
            title=snippet(doc["question"]),
            doc={"question": doc["question"], "reference": doc["reference"], "id": doc["index"]},
            outcome=outcomes.get(grade, "none"),
            margin=None,
            facets=[doc["topic"]] if doc["topic"] else [],
            detail={
                "answer": responses_of(sample)[0],
                "grade": grade or verdict["unscored"],
                "judge": "\n".join(verdict["outputs"]),
            },
            score_counts=parts,
        )

    right, wrong = _in_words(answers.best_grade), _in_words(answers.worst_grade)
    others = [_in_words(grade) for grade in answers.grades if grade not in outcomes]
    return SampleDisplay(
        row,
        (right, wrong, "unscored", ", ".join(others) or "other"),
        facet_label="Topic",
        right_count_label=f"Answers graded {right}",
    )


def _in_words(grade: str) -> str:
    return grade.lower().replace("_", " ")
