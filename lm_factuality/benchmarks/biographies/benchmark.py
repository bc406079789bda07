"""AmbigBio and D-FActScore as the rest of the suite knows them."""

from lm_factuality.benchmarks.biographies.certify import JUDGED_STEPS, SETTINGS
from lm_factuality.benchmarks.biographies.generations import AMBIGBIO, AMBIGBIO_DECISIONS, LLAMA, LLAMA_DECISIONS, NAMES
from lm_factuality.benchmarks.biographies.judging import AmbigBio, generation
from lm_factuality.benchmarks.biographies.metrics import SCORES
from lm_factuality.benchmarks.biographies.page import LEAD, SAMPLES, sections
from lm_factuality.benchmarks.biographies.recount import recount
from lm_factuality.benchmarks.declaration import Benchmark, Instance, Sample
from lm_factuality.harness.samples import first_text, keep_verdict


def instance(sample: Sample) -> Instance | None:
    """The D-FActScore of a response; it is correct if every fact of it is."""
    score = sample.get("d_factscore")
    if score is None:
        return None
    raw, shown = first_text(sample.get("resps")), f"D-FActScore {score:.3f}"
    return Instance(sample["doc"]["text"], (), None, raw, shown, "verdicts of a judge", float(score), score >= 1)


BENCHMARK = Benchmark(
    kind=AmbigBio.name,
    title="AmbigBio",
    headlines=("d_factscore",),
    scores=SCORES,
    keep=keep_verdict,
    recount=recount,
    generation=generation,
    instance=instance,
    sources=(AMBIGBIO, AMBIGBIO_DECISIONS, LLAMA, LLAMA_DECISIONS, NAMES),
    former_mark="d_factscore",
    order=30,
    lead=LEAD,
    sections=sections,
    samples=SAMPLES,
    settings=(
        "protocol",
        "demonstrations",
        "prompts",
        "prompt",
        "prompt_hashes",
        "knowledge",
        "knowledge_identity",
        "linking",
        "facts",
    ),
    certifiable=tuple(SETTINGS.values()),
    judged_steps=JUDGED_STEPS,
)
