"""Benchmarks in which the model answers questions, and a judge grades each answer by a reference.

The package of a benchmark calls `graded_benchmark` to declare it, and derives its lm_eval task from
`lm_factuality.benchmarks.graded_task.GradedTask`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.asked import Option, Question
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Data,
    JudgeRole,
    Page,
    Sample,
    SampleDisplay,
)
from lm_factuality.benchmarks.grading import PAPER, GradedAnswers, GradeScore
from lm_factuality.benchmarks.judged import judged_benchmark
from lm_factuality.benchmarks.rows import Counts, SampleRow, mean_counts, row_key, snippet
from lm_factuality.ground.published import Source
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import responses_of, verdict_of


def graded_benchmark(
    title: str,
    lead: str,
    scores: Sequence[GradeScore],
    headline: str,
    sources: Sequence[Source] = (),
    prompts: Path | None = None,
    order: int = 100,
    **answer_fields: Any,
) -> Benchmark:
    """Declare a benchmark in which a judge grades each answer by a reference.

    The benchmark's task derives from `GradedTask` and names the result in ``declared``.

    Args:
        title: The name of the benchmark for readers.
        lead: The first sentence of its page in the report.
        scores: The scores that follow from the grades, in the order of tables.
        headline: The name of the main score.
        sources: The published files.
        prompts: The folder of the judge's prompts, for benchmarks outside this package.
        order: The place of the benchmark in lists. Lower numbers come first.
        **answer_fields: The other fields of `GradedAnswers`: ``name``, ``question``,
            ``reference``, ``prompt``, ``reply``, ``worst_grade``, ``best_grade`` and
            ``unreadable_grade_by_protocol``.
    """
    grading = GradedAnswers(grade_scores=scores, **answer_fields)

    def make_method(metadata: Mapping[str, Any]) -> GradedAnswers:
        # The protocol is the only setting that differs between runs.
        return replace(grading, protocol=str(metadata.get("protocol") or PAPER))

    return judged_benchmark(
        JudgeRole(make_method, (JudgedStep("grading answers", (), "all scores"),), prompts),
        questions=(_grade_question(grading),),
        headline=headline,
        title=title,
        data=Data(tuple(sources), settings=("protocol",)),
        page=Page(lead=lead, samples=_sample_display(grading)),
        order=order,
    )


def _grade_question(grading: GradedAnswers) -> Question:
    """Make the question by which people grade an answer in the judge's place.

    Args:
        grading: The grading method of the benchmark. Its grades are the options of the question.
    """
    # A sheet compares people with the judge by sensitivity and specificity, for which a grade is
    # good or bad. Other grades, such as NOT_ATTEMPTED, count for neither.
    is_good_by_grade = {grading.best_grade: True, grading.worst_grade: False}
    options = tuple(
        Option(grade, _grade_label(grade), good=is_good_by_grade.get(grade))
        for grade in grading.grades
    )
    return Question(
        "grade", "Which grade does the answer deserve, going by the reference?", options
    )


def _sample_display(grading: GradedAnswers) -> SampleDisplay:
    """Say how the report shows the graded answers.

    Args:
        grading: The grading method of the benchmark.
    """
    right_label = _grade_label(grading.best_grade)
    wrong_label = _grade_label(grading.worst_grade)
    labels = [_grade_label(grade) for grade in grading.grades]
    # The report shows all grades that are neither right nor wrong in one group.
    other_labels = [label for label in labels if label not in (right_label, wrong_label)]
    other_label = ", ".join(other_labels) or "other"
    return SampleDisplay(
        make_row=partial(_sample_row, grading),
        outcome_labels=(right_label, wrong_label, "unscored", other_label),
        facet_label="Topic",
        right_count_label=f"Answers graded {right_label}",
    )


def _sample_row(grading: GradedAnswers, result: TaskResult, sample: Sample) -> SampleRow:
    """Return an answer with its grade as the report shows it.

    Args:
        grading: The grading method of the benchmark.
        result: The run's task, on which rows of this kind do not depend.
        sample: A line of lm_eval's samples file.
    """
    doc = sample["doc"]
    verdict = verdict_of(sample)
    return SampleRow(
        key=row_key(sample, doc["question"]),
        cluster=str(doc["index"]),
        title=snippet(doc["question"]),
        doc={"question": doc["question"], "reference": doc["reference"], "id": doc["index"]},
        outcome=_row_outcome(grading, verdict["grade"]),
        margin=None,
        facets=[doc["topic"]] if doc["topic"] else [],
        detail={
            "answer": responses_of(sample)[0],
            "grade": verdict["grade"] or verdict["unscored"],
            "judge": "\n".join(verdict["outputs"]),
        },
        score_counts=_score_counts(grading, verdict["grade"], doc["index"]),
    )


def _row_outcome(grading: GradedAnswers, grade: str | None) -> str:
    """Return the outcome of a `SampleRow` with a grade. A grade of None means unscored."""
    if grade is None:
        return "unscored"
    return {grading.best_grade: "right", grading.worst_grade: "wrong"}.get(grade, "none")


def _score_counts(grading: GradedAnswers, grade: str | None, cluster: str) -> dict[str, Counts]:
    """Return what an answer adds to each score that is computed from it, by the score's name.

    Each score is a weighted mean, so these are two counts: the value times the weight, and the
    weight.

    Args:
        grading: The grading method of the benchmark.
        grade: The grade of the answer, or None if it is unscored.
        cluster: The cluster of the answer for standard errors.
    """
    counts_by_score = {}
    for grade_score in grading.grade_scores:
        outcome = grade_score.outcome(grade, cluster)
        # For example, precision leaves out answers that were not attempted.
        if outcome is not None:
            name = grade_score.score.name
            counts_by_score[name] = mean_counts(float(outcome), float(outcome.weight))
    return counts_by_score


def _grade_label(grade: str) -> str:
    """Return a grade as readers see it: ``NOT_ATTEMPTED`` gives ``not attempted``."""
    return grade.lower().replace("_", " ")
