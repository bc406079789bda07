"""The offline judge against the known truth of the sample (between people and its pipeline the
paper reports 8 points and 0.1)."""

from __future__ import annotations

import pytest

from lm_factuality.sample.quickstart import judge_sample


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory):
    _, comparisons = judge_sample(tmp_path_factory.mktemp("judged"))
    return {comparison.name: comparison for comparison in comparisons}


@pytest.mark.parametrize(
    ("name", "tolerance", "pearson"),
    [("D-FActScore", 0.05, 0.75), ("biographies", 0.1, 0.8), ("entities", 0.1, 0.8)],
)
def test_the_offline_judge_comes_near_the_truth(comparisons, name, tolerance, pearson):
    comparison = comparisons[name]
    assert abs(comparison.judge - comparison.truth) < tolerance
    assert comparison.pearson > pearson
    assert comparison.responses > 90
