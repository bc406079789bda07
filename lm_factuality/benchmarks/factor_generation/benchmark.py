"""The declaration of FACTOR in open generation, with its page and the leaderboard's check.

Results, report, comparisons and leaderboards read the declaration. People may take the judge's
place and say whether a generation states the minimal fact, violates it, or neither (section 6.1).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality.benchmarks.asked import load_questions
from lm_factuality.benchmarks.audit import PromptAudit
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.chosen import ReportRuns, scores_section
from lm_factuality.benchmarks.declaration import (
    ACCURACY,
    Checks,
    Data,
    JudgeRole,
    Page,
    Sample,
    SampleDisplay,
    Score,
)
from lm_factuality.benchmarks.factor_generation.facts import FALSE, TRUE
from lm_factuality.benchmarks.factor_generation.judging import FactorGeneration
from lm_factuality.benchmarks.factor_generation.tally import pooled_counts
from lm_factuality.benchmarks.judged import judged_benchmark
from lm_factuality.benchmarks.rows import SampleRow, row_key, snippet
from lm_factuality.harness.outputs import TaskResult, number_of
from lm_factuality.harness.samples import responses_of, verdict_of
from lm_factuality.scores.statistics import Aggregation, mean

# Two models are compared row by row in this score. The weights of the headline are of all rows.
_POOLED = Score("accuracy_pooled", Aggregation(mean), ACCURACY, "True of true and false, pooled")


class FactorGenerationAudit(PromptAudit):
    """Checks the prompts of generations, of which a row without a minimal fact has none."""

    key = "prompt"

    def repeats(self, doc: Mapping[str, Any]) -> int:
        """Return the number of generations that a row has."""
        return 0 if doc["no_fact"] else super().repeats(doc)


def count_rows_of_score(task: TaskResult, metric: str) -> int:
    """Estimate the number of rows that a score is computed from.

    Args:
        task: The results of the task.
        metric: The name of the score.
    """
    # Nothing was generated for rows without a fact.
    num_without_fact = number_of(task.metrics.get("without_fact")) or 0
    num_with_generations = task.effective - num_without_fact
    if not metric.startswith("accuracy"):
        return round(num_with_generations)
    # Neutral generations have no part in an accuracy.
    neutral_share = number_of(task.metrics.get("neutral_pooled")) or 0
    return round(num_with_generations * (1 - neutral_share))


def score_sections(runs: ReportRuns) -> Sequence[Markup]:
    """Return the section on open generation of the report's page on FACTOR.

    Args:
        runs: The runs that the report shows.
    """
    note = (
        "Section 6 of the paper: the model continues where a true and a false completion diverge,"
        " and a judge marks what it says."
    )
    return [scores_section(runs, FactorGeneration.name, "In open generation", note)]


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a sample of open generation as the report shows it.

    Args:
        result: The results of the task, which this benchmark does not need.
        sample: A line of its samples file.

    Returns:
        The row. People sort rows by ``margin``, which is true / (true + false): the row's number of
        true generations divided by its number of true and false ones.
    """
    doc = sample["doc"]
    record = verdict_of(sample)
    marks = record["marks"]

    num_true = marks.count(TRUE)
    # Neutral and unscored generations have no part in the accuracy.
    num_decided = num_true + marks.count(FALSE)
    accuracy = None
    score_counts = {}
    if num_decided:
        accuracy = num_true / num_decided
        score_counts[_POOLED.name] = (float(num_true), float(num_decided))

    return SampleRow(
        key=row_key(sample, doc["prefix"], doc["true"], doc["false"]),
        cluster=str(doc["doc_id"]),
        title=snippet(doc["stem"] or doc["prefix"]),
        doc={
            "id": doc["doc_id"],
            "prefix": doc["prefix"],
            "stem": doc["stem"],
            "true": doc["true"],
            "false": doc["false"],
        },
        outcome=_outcome_of_marks(marks),
        margin=accuracy,
        facets=[doc["error_type"]] if doc["error_type"] else [],
        detail={
            "marks": marks,
            "sentences": record["sentences"],
            "outputs": responses_of(sample),
            "unscored": doc["no_fact"] or None,
            "factor_acc": doc["factor_acc"],
        },
        score_counts=score_counts,
    )


def _outcome_of_marks(marks: Sequence[str | None]) -> str:
    """Return the outcome of a row, by which the report colours it.

    Args:
        marks: The mark of each generation, None for an unscored one.
    """
    if FALSE in marks:
        return "wrong"
    if TRUE in marks:
        return "right"
    if None in marks:
        return "unscored"
    # All generations are neutral, or there are none.
    return "none"


BENCHMARK = judged_benchmark(
    JudgeRole(
        lambda metadata: FactorGeneration(str(metadata.get("protocol", "paper"))),
        steps=(JudgedStep("marking generations", (), "all scores"),),
    ),
    title="FACTOR in open generation",
    questions=load_questions(__package__).values(),
    headline="accuracy",
    scoring={"count_rows": count_rows_of_score, "unscored_unit": "generations"},
    data=Data(
        model_outputs=("mean_logprob", "factor_acc"),
        settings=("protocol", "window", "spacing", "join", "delimiter", "contradiction"),
    ),
    page=Page(
        lead=(
            "Does the model, continuing freely after the prefix, write what is true or what is"
            " false?"
        ),
        name="factor",
        sections=score_sections,
        samples=SampleDisplay(
            sample_row,
            ("true", "false", "unscored", "neither"),
            margin_label="share true",
            facet_label="Error type",
            right_count_label="Rows without a false generation",
            find_extra_score=lambda name: _POOLED if name == _POOLED.name else None,
            pooled_counts=pooled_counts,
            script=Path(__file__).with_name("page.js"),
        ),
    ),
    checks=Checks(audit=FactorGenerationAudit),
    order=50,
)
