"""FACTOR in open generation as the rest of the suite knows it."""

from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.factor_generation.audit import FactorGenerationAudit
from lm_factuality.benchmarks.factor_generation.judging import FACTOR_GENERATION
from lm_factuality.benchmarks.factor_generation.metrics import SCORES
from lm_factuality.benchmarks.factor_generation.page import SAMPLES, sections
from lm_factuality.benchmarks.factor_generation.recount import recount
from lm_factuality.benchmarks.felm.certify import SEGMENTS
from lm_factuality.harness.samples import keep_verdict

BENCHMARK = Benchmark(
    kind=FACTOR_GENERATION.name,
    title="FACTOR in open generation",
    headlines=("accuracy",),
    scores=SCORES,
    keep=keep_verdict,
    recount=recount,
    generation=lambda metadata: FACTOR_GENERATION,
    audit=FactorGenerationAudit,
    model_outputs=("mean_logprob", "factor_acc"),
    unscored_unit="generations",
    is_pooled=True,
    former_mark="pairs_right",
    order=50,
    page="factor",
    sections=sections,
    samples=SAMPLES,
    settings=("protocol", "window", "spacing", "contradiction"),
    judged_steps=(JudgedStep("marking generations", SEGMENTS, "all scores"),),
)
