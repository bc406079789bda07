"""The declaration of FELM-gen to the rest of the suite, which finds `BENCHMARK` here.

The report shows each answer with the judge's marks on its segments.
"""

from dataclasses import replace
from pathlib import Path

from lm_factuality.benchmarks.asked import load_questions
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import Data, JudgeRole, Page, Sample, SampleDisplay
from lm_factuality.benchmarks.felm.benchmark import segments_row
from lm_factuality.benchmarks.felm.judging import SEGMENTS
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN, SCORES
from lm_factuality.benchmarks.judged import judged_benchmark
from lm_factuality.benchmarks.rows import SampleRow
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import responses_of, verdict_of


def report_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Make the row of the report that shows a model's answer and the judge's marks on it.

    Args:
        result: The run. The report passes it to all functions of this kind; this one needs only
            the sample.
        sample: A line of lm_eval's samples file.

    Returns:
        The row. Its outcome is ``none`` if the model gave no answer.
    """
    doc = sample["doc"]
    record = verdict_of(sample)
    is_wrong_by_segment = None
    if record["errors"] is not None:
        # A factual segment has no error type.
        is_wrong_by_segment = [error_type is not None for error_type in record["errors"]]

    row = segments_row(
        sample,
        is_wrong_by_segment,
        SCORES,
        row_doc={"id": doc["index"], "prompt": doc["prompt"]},
        detail={
            "segments": record["segments"],
            "errors": record["errors"],
            "answer": responses_of(sample)[0],
            # Why there are no marks: the judge failed, or the model gave no answer.
            "unscored": record["unscored"] or record["no_answer"],
        },
    )
    if record["no_answer"]:
        # A refusal is neither right, nor wrong, nor a failure of the judge ("unscored").
        return replace(row, outcome="none")
    return row


BENCHMARK = judged_benchmark(
    JudgeRole(
        lambda metadata: FELM_GEN,
        steps=(
            JudgedStep("cutting answers into segments", (), "scores of segments"),
            JudgedStep("marking segments", SEGMENTS, "all scores"),
        ),
    ),
    title="FELM-gen",
    questions=load_questions(__package__).values(),
    headline="segment_error_rate",
    data=Data(settings=("references",)),
    page=Page(
        lead="How many segments of the model's own answers to FELM's prompts have errors?",
        name="felm",
        samples=SampleDisplay(
            report_row,
            ("no error", "has errors", "unscored", "no answer"),
            margin_label="share of errors",
            facet_label="Domain",
            right_count_label="Responses without an error",
            script=Path(__file__).with_name("page.js"),
        ),
    ),
    order=40,
)
