"""Clustered errors against closed forms and against an independent way to the same number."""

import json
import math
import pickle
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lm_factuality.scores.statistics import (
    NOT_DEFINED,
    Aggregation,
    Outcome,
    bootstrap_interval,
    clustered_stderr,
    mean,
    score_interval,
)


def outcomes(values, clusters):
    return [Outcome(value, str(cluster)) for value, cluster in zip(values, clusters, strict=True)]


def test_with_one_row_a_cluster_it_is_the_standard_error_of_a_mean():
    values = [1, 0, 0, 1, 1, 0, 1]
    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert clustered_stderr(outcomes(values, range(7))) == pytest.approx(expected, abs=1e-12)


def test_it_agrees_with_the_bootstrap_over_clusters():
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.1, 0.9, 300)
    clusters = rng.integers(0, 300, 900)
    rows = outcomes((rng.random(900) < rates[clusters]).astype(float), clusters)
    low, high = bootstrap_interval(rows)
    assert (high - low) / (2 * 1.96) == pytest.approx(clustered_stderr(rows), rel=0.05)


def test_unscored_rows_do_not_count():
    rows = outcomes([1, 0], [1, 2])
    assert mean([*rows, None]) == mean(rows) == 0.5
    assert clustered_stderr([*rows, None]) == clustered_stderr(rows)


def test_weights_pool_decisions():
    assert mean([Outcome(1.0, "a", 1), Outcome(0.5, "b", 2)]) == pytest.approx(2 / 3)


def test_nothing_scored_is_not_a_number():
    assert math.isnan(mean([None]))
    assert math.isnan(clustered_stderr([None]))
    assert all(map(math.isnan, bootstrap_interval([None])))
    assert math.isnan(clustered_stderr(outcomes([1, 1], ["same", "same"])))
    assert score_interval(math.nan, 0.1, 0, 1) is None


def test_an_outcome_travels_between_processes():
    outcome = pickle.loads(pickle.dumps(Outcome(0.5, "doc", 2)))
    assert (outcome, outcome.cluster, outcome.weight) == (0.5, "doc", 2)


def test_a_score_that_is_not_defined_is_no_nan_in_results():
    """lm_eval multiplies and adds the scores of a group's tasks."""
    assert Aggregation(lambda rows: math.nan)([]) is NOT_DEFINED
    assert Aggregation(lambda rows: 0.5)([]) == 0.5
    for scores in ([0.5, NOT_DEFINED], [NOT_DEFINED, 0.5], [NOT_DEFINED]):
        assert sum(score * 1 for score in scores) / len(scores) is NOT_DEFINED
    assert json.dumps([NOT_DEFINED]) == '["N/A"]'


def at_once(rows, resamples, seed):
    """The column sums of all draws, by one matrix of how often each row is in each draw."""
    even = np.full(len(rows), 1 / len(rows))
    return np.random.default_rng(seed).multinomial(len(rows), even, size=resamples) @ rows


def test_intervals_of_many_rows_are_those_of_one_draw_of_all():
    generator = np.random.default_rng(3)
    values, weights = generator.random(700), generator.integers(1, 5, 700)
    outcomes = [
        Outcome(value, f"c{n}", int(weight))
        for n, (value, weight) in enumerate(zip(values, weights, strict=True))
    ]
    sums = at_once(np.stack([values * weights, weights], axis=1), 10_000, 5)
    ends = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    assert bootstrap_interval(outcomes, seed=5) == pytest.approx(ends.tolist(), rel=1e-12)


@pytest.mark.parametrize(("right", "rows"), [(0, 3), (3, 3), (15, 20), (1, 369)])
def test_the_interval_of_plain_rows_is_wilsons(right, rows):
    share = right / rows
    expected = binomtest(right, rows).proportion_ci(method="wilson")
    found = score_interval(share, math.sqrt(share * (1 - share) / rows), 0, 1, rows)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(
    st.floats(0, 1),
    st.floats(0, 2),
    st.integers(1, 10**6),
    st.sampled_from([(0, 1), (-1, 1), (0, 2), (1, math.inf), (0, math.inf)]),
)
def test_an_interval_holds_its_score_and_stays_in_range(share, stderr, rows, bounds):
    low, high = bounds
    value = low + share * (10 if math.isinf(high) else high - low)
    ends = score_interval(value, stderr, low, high, rows)
    if ends is not None:
        assert ends[0] <= value + 1e-9
        assert value <= ends[1] + 1e-9
        assert ends[0] < ends[1]
        assert low - 1e-9 <= ends[0] or value <= low
        assert ends[1] <= high


def test_an_interval_of_rows_that_do_not_differ_is_not_known_unless_all_are_at_one_end():
    assert score_interval(0.5, 0.0, 0, 1, 9) is None
    assert score_interval(3.0, 0.0, 0, math.inf, 9) is None
    low, high = score_interval(1.0, 0.0, 0, 1, 3)
    assert low < 0.5
    assert high == 1


def test_an_interval_far_from_both_bounds_is_normal():
    assert score_interval(0.5, 0.01, 0, 1) == pytest.approx((0.5 - 0.0196, 0.5 + 0.0196), rel=1e-3)
    assert score_interval(20.0, 0.1, 1) == pytest.approx((20 - 0.196, 20 + 0.196), rel=1e-3)
    assert score_interval(-2.0, 0.1) == pytest.approx((-2.196, -1.804), rel=1e-3)
