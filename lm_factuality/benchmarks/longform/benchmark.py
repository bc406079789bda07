"""Long-form factuality as the rest of the suite knows it, and in the report."""

from pathlib import Path

from lm_factuality.benchmarks.biographies.benchmark import instance_of, shown_of
from lm_factuality.benchmarks.biographies.people import people_of
from lm_factuality.benchmarks.biographies.types import from_record
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.chosen import scores_section
from lm_factuality.benchmarks.declaration import Benchmark, Sample, Samples, answered
from lm_factuality.benchmarks.longform.judging import LongForm, generation, recount
from lm_factuality.benchmarks.longform.metrics import SCORES, Tally
from lm_factuality.benchmarks.longform.rows import SOURCES
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import keep_verdict, verdict_of

_NOTE = (
    "F1@K balances the share of supported facts with their number. Compare models at one K, one knowledge source and one judge."
)


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """A response with its judged facts, and why the judge says so of each."""
    doc, record, f1 = sample["doc"], verdict_of(sample), sample.get("f1_at_k")
    judged = from_record(record)
    is_scored, is_wrong = f1 is not None and not record["unscored"], bool(Tally.of(judged).not_supported)
    return SampleRow(
        key_of(sample, doc["index"], doc["question"]),
        str(doc["index"]),
        snippet(doc["question"]),
        {"id": doc["index"], "question": doc["question"], "passages": doc["passages"]},
        "none" if judged.abstained else "unscored" if not is_scored else "wrong" if is_wrong else "right",
        f1,
        [doc["topic"]] if doc["topic"] else [],
        {
            **shown_of(judged, record["unscored"]),
            "reasons": [next((cell.reason for cell in cells if cell.reason), "") for cells in judged.matrix],
        },
        {score.name: mean_part(sample[score.name]) for score in SCORES if score.label and sample.get(score.name) is not None},
    )


SAMPLES = Samples(
    row,
    ("all supported", "unsupported facts", "unscored", "declined"),
    margin="F1@K",
    facet="Topic",
    is_partition=True,
    right="Responses without an unsupported fact",
    script=Path(__file__).with_name("page.js"),
)


BENCHMARK = Benchmark(
    kind=LongForm.name,
    title="Long-form factuality",
    headlines=("f1_at_k",),
    scores=SCORES,
    keep=keep_verdict,
    recount=recount,
    generation=generation,
    instance=instance_of("f1_at_k", "F1@K", "precision"),
    counted=answered,
    sources=SOURCES,
    order=35,
    lead="How much of a long answer is supported by what is known, and how much does it say?",
    sections=lambda chosen: [scores_section(chosen, LongForm.name, note=_NOTE)],
    samples=SAMPLES,
    settings=("k", "knowledge", "knowledge_identity", "passages", "entities", "entity_kind", "linking"),
    judged_steps=(
        JudgedStep("decomposition", (), "all scores"),
        JudgedStep("grouping", (), "D-FActScore, where entities may be confused"),
        JudgedStep("verification", (), "all scores"),
    ),
    people=people_of(generation, recount, "entity"),
)
