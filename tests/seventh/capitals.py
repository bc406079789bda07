"""Capitals: does a model go on with the capital of a country?"""

from lm_factuality.benchmarks.declaration import ACCURACY, Page, Score
from lm_factuality.benchmarks.scored import ScoredTask, scored_benchmark
from lm_factuality.scores.statistics import MEAN


def value(doc, answer):
    """What an answer adds to the score, or the reason why it is unscored."""
    if not answer.strip():
        return "empty answer"
    return float(answer.strip().startswith(doc["capital"]))


BENCHMARK = scored_benchmark(
    Score("capital_acc", MEAN, ACCURACY, "Accuracy", note="the answer begins with the capital"),
    value,
    cluster="country",
    kind="capitals",
    title="Capitals",
    page=Page(lead="Does the model know the capitals of countries?"),
)


class CapitalsTask(ScoredTask):
    """A task by ``capitals.yaml``."""

    declared = BENCHMARK
    prompt = "The capital of {country} is"
