"""FACTOR in open generation as the rest of the suite knows it. People in the judge's place say
whether the minimal fact is true, false or not touched on (section 6.1)."""

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
    Page,
    Sample,
    SampleDisplay,
    Score,
)
from lm_factuality.benchmarks.factor_generation.judging import FactorGeneration
from lm_factuality.benchmarks.factor_generation.tally import sums_of
from lm_factuality.benchmarks.judged import judged_benchmark
from lm_factuality.benchmarks.rows import SampleRow, row_key, snippet
from lm_factuality.harness.outputs import TaskResult, number_of
from lm_factuality.harness.samples import responses_of, verdict_of
from lm_factuality.scores.statistics import Aggregation, mean

_NOTE = (
    "Section 6 of the paper: the model continues where a true and a false completion diverge, and a"
    " judge marks what it says."
)
# Compared is what needs no weights of all rows together.
_POOLED = Score("accuracy_pooled", Aggregation(mean), ACCURACY, "True of true and false, pooled")


class FactorGenerationAudit(PromptAudit):
    """Nothing is generated for a row without a minimal fact."""

    key = "prompt"

    def repeats(self, doc: Mapping[str, Any]) -> int:
        return 0 if doc["no_fact"] else super().repeats(doc)


def counted(task: TaskResult, metric: str) -> int:
    """Return the number of rows that have a fact.

    For accuracies, it is the share of them whose generations say something of it.
    """
    rows = task.effective - (number_of(task.metrics.get("without_fact")) or 0)
    if metric.startswith("accuracy"):
        rows *= 1 - (number_of(task.metrics.get("neutral_pooled")) or 0)
    return round(rows)


def sections(chosen: ReportRuns) -> Sequence[Markup]:
    return [scores_section(chosen, FactorGeneration.name, "In open generation", _NOTE)]


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, record = sample["doc"], verdict_of(sample)
    marks = record["marks"]
    true, false = marks.count("true"), marks.count("false")
    parts = {}
    margin = None
    outcome = "unscored" if None in marks else "none"
    if true or false:
        outcome = "wrong" if false else "right"
        margin = true / (true + false)
        parts[_POOLED.name] = (float(true), float(true + false))
    return SampleRow(
        key=row_key(sample, doc["prefix"], doc["true"], doc["false"]),
        cluster=str(doc["doc_id"]),
        title=snippet(doc["stem"] or doc["prefix"]),
        doc={"id": doc["doc_id"], **{key: doc[key] for key in ("prefix", "stem", "true", "false")}},
        outcome=outcome,
        margin=margin,
        facets=[doc["error_type"]] if doc["error_type"] else [],
        detail={
            "marks": marks,
            "sentences": record["sentences"],
            "outputs": responses_of(sample),
            "unscored": doc["no_fact"] or None,
            "right": doc["factor_acc"],
        },
        score_counts=parts,
    )


BENCHMARK = judged_benchmark(
    title="FACTOR in open generation",
    method_of=lambda metadata: FactorGeneration(str(metadata.get("protocol", "paper"))),
    steps=(JudgedStep("marking generations", (), "all scores"),),
    questions=load_questions(__package__).values(),
    headline="accuracy",
    scoring={"count_rows": counted, "unscored_unit": "generations"},
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
        sections=sections,
        samples=SampleDisplay(
            sample_row,
            ("true", "false", "unscored", "neither"),
            margin_label="share true",
            facet_label="Error type",
            right_count_label="Rows without a false generation",
            find_extra_score=lambda name: _POOLED if name == _POOLED.name else None,
            pooled_counts=sums_of,
            script=Path(__file__).with_name("page.js"),
        ),
    ),
    checks=Checks(audit=FactorGenerationAudit),
    order=50,
)
