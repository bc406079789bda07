"""FELM-gen as the rest of the suite knows it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.chosen import Chosen, scores_section
from lm_factuality.benchmarks.declaration import Benchmark, Instance, Sample, Samples, Score
from lm_factuality.benchmarks.felm.certify import SEGMENTS
from lm_factuality.benchmarks.felm.page import of_domain, table4
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.benchmarks.felm_gen.metrics import SCORES
from lm_factuality.benchmarks.felm_gen.recount import PEOPLE, recount
from lm_factuality.benchmarks.rows import SampleRow, key_of, snippet
from lm_factuality.ground.html import render
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import first_text, keep_verdict, responses_of, verdict_of

_NOTE = "Error rates of the models' own answers to FELM's prompts, as the judge sees them; lower is better."


def sections(chosen: Chosen) -> Sequence[Markup]:
    """The scores, and the share of segments with errors by domain."""
    entries = chosen.of_kind("felm_gen")
    labels = {f"segment_error_rate_{domain}": label for domain, label in table4().domains.items()}
    named = [replace(score, label=labels[score.name]) for score in SCORES if score.name in labels]
    return [scores_section(chosen, "felm_gen", note=_NOTE), render(f"{__package__}/page.html", entries=entries, scores=named)]


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """An answer of the model."""
    doc, record = sample["doc"], verdict_of(sample)
    errors, parts = record["errors"], {}
    outcome, margin = ("none" if record["no_answer"] else "unscored"), None
    if errors is not None and not record["unscored"]:
        wrong = sum(error is not None for error in errors)
        outcome, margin = ("wrong" if wrong else "right"), -wrong / max(1, len(errors))
        for level in ("segment", "response"):
            parts[f"{level}_error_rate"] = tuple(map(float, sample[f"{level}_error_rate"]))
            parts[f"{level}_error_rate_{doc['domain']}"] = parts[f"{level}_error_rate"]
    return SampleRow(
        key_of(sample, doc["prompt"]),
        str(doc["index"]),
        snippet(doc["prompt"]),
        {"id": doc["index"], "prompt": doc["prompt"]},
        outcome,
        margin,
        (doc["domain"],),
        {
            "segments": record["segments"],
            "errors": errors,
            "unscored": record["unscored"] or record["no_answer"],
            "answer": responses_of(sample)[0],
        },
        parts,
    )


def _compared(name: str) -> Score | None:
    """The error rate of a domain."""
    return of_domain(name, "error_rate", SCORES)


SAMPLES = Samples(
    row,
    ("no error", "has errors", "unscored", "no answer"),
    margin="share of errors",
    facet="Domain",
    is_partition=True,
    right="Responses without an error",
    compared=_compared,
    script=Path(__file__).with_name("page.js"),
)


def instance(sample: Sample) -> Instance | None:
    """Whether the judge finds an error in a response; it is correct if not."""
    counts = sample.get("response_error_rate")
    if counts is None or not counts[1]:
        return None
    has_error = bool(counts[0])
    found = "has an error" if has_error else "has no error"
    raw = first_text(sample.get("resps"))
    return Instance(sample["doc"]["prompt"], (), None, raw, found, "verdicts of a judge", float(has_error), not has_error)


BENCHMARK = Benchmark(
    kind=FELM_GEN.name,
    title="FELM-gen",
    lead="How many segments of the model's own answers to FELM's prompts have errors?",
    headlines=("segment_error_rate",),
    scores=SCORES,
    keep=keep_verdict,
    recount=recount,
    generation=lambda metadata: FELM_GEN,
    instance=instance,
    instance_score="response_error_rate",
    is_pooled=True,
    former_mark="segment_error_rate",
    order=40,
    page="felm",
    sections=sections,
    samples=SAMPLES,
    settings=("references",),
    judged_steps=(
        JudgedStep("cutting answers into segments", (), "scores of segments"),
        JudgedStep(
            "marking segments", SEGMENTS, "all scores", rates={f"{level}_error_rate": level for level in ("segment", "response")}
        ),
    ),
    people=PEOPLE,
)
