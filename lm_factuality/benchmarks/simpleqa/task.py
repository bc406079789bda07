"""The lm_eval task of SimpleQA."""

from lm_factuality.benchmarks.graded import GradedTask
from lm_factuality.benchmarks.simpleqa.benchmark import BENCHMARK


class SimpleQATask(GradedTask):
    """A task by a YAML that includes ``tasks/simpleqa/_simpleqa.yaml``."""

    declared = BENCHMARK
