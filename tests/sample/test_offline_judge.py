"""The offline judge against the known truth of the sample (between people and its pipeline the
paper reports 8 points and 0.1)."""

from __future__ import annotations

import pytest

from bench.sample.claims import read_biographies
from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.generations import read_generations
from lm_factuality.benchmarks.biographies.method import judge_biographies
from tests.conftest import TASKS
from tests.sample.steps import compare_steps


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "answers.sqlite"
    generations = read_generations([TASKS / "sample" / "sample_ambigbio_generations.json"])
    with Judge.open(load_judge_config("lexical"), store=store) as judge:
        judged = judge_biographies(judge, generations)
    return compare_steps(judged, read_biographies(TASKS / "sample" / "sample_ambigbio_truth.jsonl"))


@pytest.mark.parametrize("which", ["D-FActScore", "D-FActScore, same facts"])
def test_d_factscore_is_within_five_points_and_goes_with_the_truth(comparison, which):
    measure = next(each for each in comparison.measures if each.name == which)
    assert abs(measure.judge - measure.truth) < 0.05
    assert measure.pearson > 0.75
    assert measure.responses > 90


def test_numbers_are_within_a_tenth(comparison):
    for name in ("biographies", "entities"):
        measure = next(each for each in comparison.measures if each.name == name)
        assert abs(measure.judge - measure.truth) < 0.1
        assert measure.pearson > 0.8


@pytest.mark.parametrize(
    ("step", "least"),
    [
        ("abstention", 0.95),
        ("grouping: biographies", 0.95),
        ("grouping: pairs of facts", 0.95),
        ("linking", 0.95),
        ("verification", 0.93),
    ],
)
def test_each_step_is_mostly_right(comparison, step, least):
    assert comparison.steps[step][0] > least
