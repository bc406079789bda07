"""AmbigBio and D-FActScore as the rest of the suite knows them."""

from pathlib import Path

from lm_factuality.benchmarks.biographies.certify import JUDGED_STEPS, SETTINGS
from lm_factuality.benchmarks.biographies.generations import SOURCES
from lm_factuality.benchmarks.biographies.method import AmbigBio, method_from_metadata
from lm_factuality.benchmarks.biographies.people import OPTIONAL_QUESTION, people_questions
from lm_factuality.benchmarks.biographies.scores import SCORES
from lm_factuality.benchmarks.biographies.types import JudgedBiography, biography_from_record
from lm_factuality.benchmarks.biographies.viewer import align_sentences, build_page, fact_statuses
from lm_factuality.benchmarks.declaration import (
    Checks,
    Data,
    JudgeRole,
    Page,
    Sample,
    SampleDisplay,
    SamplePages,
    count_answered_rows,
)
from lm_factuality.benchmarks.judged import judged_benchmark
from lm_factuality.benchmarks.rows import SampleRow, mean_counts_of_scores, row_key, snippet
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import read_samples, verdict_of

LEAD = (
    "Asked for a biography of a name that several people share, does the model merge two of them?"
    " FActScore counts facts that are true of anybody with the name, D-FActScore those that are"
    " true of the person they are about; the gap is what merging hides."
)


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a response as the report shows it."""
    doc = sample["doc"]
    record = verdict_of(sample)
    judged = biography_from_record(record)
    gap = sample.get("difference")
    outcome = "unscored" if gap is None else "wrong" if gap > 1e-9 else "right"
    if judged.abstained or sample.get("factscore") == 0:
        outcome = "none"  # Where nothing is told, or supported, nobody can be merged.
    return SampleRow(
        key=row_key(sample, doc["name"], doc["question"]),
        cluster=str(doc["name"]),
        title=snippet(doc["name"]),
        doc={
            "id": doc["index"],
            "question": doc["question"],
            "name": doc["name"],
            "passages": doc["passages"],
        },
        outcome=outcome,
        margin=None if gap is None else -gap,
        facets=(),
        detail={**report_detail(judged, record["unscored"]), "scores": record["scores"]},
        score_counts=mean_counts_of_scores(sample, SCORES),
    )


def report_detail(judged: JudgedBiography, unscored: str | None) -> JsonObject:
    """Return what the report shows of a judged response."""
    return {
        "pieces": align_sentences(judged.generation.output, judged.sentences),
        "facts": [[fact.text, fact.sentence] for fact in judged.facts],
        "statuses": fact_statuses(judged),
        "abstained": judged.abstained,
        "unscored": unscored,
    }


def _judged_texts(result: TaskResult, title: str) -> str:
    """Return the page with the judged texts of a run."""
    assert result.samples is not None
    return build_page([verdict_of(sample) for sample in read_samples(result.samples)], title)


BENCHMARK = judged_benchmark(
    JudgeRole(method_from_metadata, JUDGED_STEPS),
    questions=people_questions(AmbigBio.noun),
    headline="d_factscore",
    scoring={"count_rows": count_answered_rows},
    optional_question=OPTIONAL_QUESTION,
    unaffected_scores=("respond_ratio",),
    title="AmbigBio",
    data=Data(
        sources=SOURCES,
        settings=(
            *("protocol", "demonstrations", "prompts", "prompt", "prompt_hashes"),
            *("knowledge", "knowledge_identity", "linking", "facts"),
        ),
    ),
    page=Page(
        lead=LEAD,
        samples=SampleDisplay(
            sample_row,
            ("no gap", "people merged", "unscored", "nothing supported"),
            margin_label="gap",
            right_count_label="Responses without a gap",
            script=Path(__file__).with_name("page.js"),
            custom_page=SamplePages("biographies", _judged_texts),
        ),
    ),
    checks=Checks(certifiable=tuple(SETTINGS.values())),
    order=30,
)
