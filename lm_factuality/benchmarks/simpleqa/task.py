"""The lm_eval task of SimpleQA.

lm_eval creates a `SimpleQATask` from each YAML that includes ``tasks/simpleqa/_simpleqa.yaml``.
"""

from lm_factuality.benchmarks.graded_task import GradedTask
from lm_factuality.benchmarks.simpleqa.benchmark import BENCHMARK


class SimpleQATask(GradedTask):
    """A task in which the evaluated model answers short questions, which a judge grades."""

    declared = BENCHMARK
