"""FACTOR in open generation in the report."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from lm_factuality.benchmarks.chosen import Chosen, scores_section
from lm_factuality.benchmarks.declaration import ACCURACY, Sample, Samples, Score
from lm_factuality.benchmarks.rows import SampleRow, key_of, snippet
from lm_factuality.ground.statistics import Aggregation, mean
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import responses_of, verdict_of

_NOTE = "Section 6 of the paper: the model goes on where a true and a false completion part, and a judge marks what it says."
# Compared is what needs no weights of all rows together.
_POOLED = Score("accuracy_pooled", Aggregation(mean), ACCURACY, "True of true and false, pooled")


def sections(chosen: Chosen) -> Sequence[Markup]:
    """A table of the scores for each task."""
    return [scores_section(chosen, "factor_generation", "In open generation", _NOTE)]


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """The generations from one prefix."""
    doc, record = sample["doc"], verdict_of(sample)
    marks = list(record["marks"])
    true, false = marks.count("true"), marks.count("false")
    outcome, margin = "unscored" if marks else "none", None
    if true + false:
        outcome, margin = ("wrong" if false else "right"), true / (true + false)
    elif marks and None not in marks:
        outcome = "none"
    return SampleRow(
        key_of(sample, doc["prefix"], doc["true"], doc["false"]),
        str(doc["doc_id"]),
        snippet(doc["stem"] or doc["prefix"]),
        {"id": doc["doc_id"], "prefix": doc["prefix"], "stem": doc["stem"], "true": doc["true"], "false": doc["false"]},
        outcome,
        margin,
        [doc["error_type"]] if doc.get("error_type") else [],
        {
            "marks": marks,
            "sentences": record.get("sentences"),
            "unscored": doc.get("no_fact") or None,
            "right": doc.get("factor_acc"),
            "outputs": responses_of(sample),
        },
        {_POOLED.name: (float(true), float(true + false))} if true + false else {},
    )


SAMPLES = Samples(
    row,
    ("true", "false", "unscored", "neither"),
    margin="share true",
    facet="Error type",
    right="Rows without a false generation",
    compared=lambda name: _POOLED if name == _POOLED.name else None,
    script=Path(__file__).with_name("page.js"),
)
