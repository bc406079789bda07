"""FELM-gen as the rest of the suite knows it."""

from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import Benchmark, Instance, Sample
from lm_factuality.benchmarks.felm.certify import SEGMENTS
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.benchmarks.felm_gen.metrics import SCORES
from lm_factuality.benchmarks.felm_gen.page import SAMPLES, sections
from lm_factuality.benchmarks.felm_gen.recount import recount
from lm_factuality.harness.samples import first_text, keep_verdict


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
        JudgedStep("marking segments", SEGMENTS, "all scores"),
    ),
)
