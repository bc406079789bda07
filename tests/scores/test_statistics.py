"""Clustered standard errors and intervals, against closed forms and other implementations."""

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


def outcomes_of(values, clusters):
    """Return an outcome for each value and its cluster."""
    return [Outcome(value, str(cluster)) for value, cluster in zip(values, clusters, strict=True)]


def test_with_one_row_a_cluster_it_is_the_standard_error_of_a_mean():
    values = [1, 0, 0, 1, 1, 0, 1]

    stderr = clustered_stderr(outcomes_of(values, range(7)))

    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert stderr == pytest.approx(expected, abs=1e-12)


def test_the_standard_error_agrees_with_the_bootstrap_over_clusters():
    random = np.random.default_rng(1)
    rates = random.uniform(0.1, 0.9, 300)
    clusters = random.integers(0, 300, 900)
    values = (random.random(900) < rates[clusters]).astype(float)
    outcomes = outcomes_of(values, clusters)

    low, high = bootstrap_interval(outcomes)

    assert (high - low) / (2 * 1.96) == pytest.approx(clustered_stderr(outcomes), rel=0.05)


def test_unscored_rows_do_not_count():
    scored = outcomes_of([1, 0], [1, 2])
    with_unscored = [*scored, None]

    assert mean(with_unscored) == mean(scored) == 0.5
    assert clustered_stderr(with_unscored) == clustered_stderr(scored)


def test_weights_pool_decisions():
    # One of one decision, and half of two.
    assert mean([Outcome(1.0, "a", 1), Outcome(0.5, "b", 2)]) == pytest.approx(2 / 3)


def test_scores_of_no_scored_row_are_not_a_number():
    assert math.isnan(mean([None]))
    assert math.isnan(clustered_stderr([None]))
    assert all(map(math.isnan, bootstrap_interval([None])))


def test_the_standard_error_of_one_cluster_is_not_a_number():
    assert math.isnan(clustered_stderr(outcomes_of([1, 1], ["same", "same"])))


def test_a_score_that_is_not_a_number_has_no_interval():
    assert score_interval(math.nan, 0.1, 0, 1) is None


def test_an_outcome_can_be_pickled():
    outcome = pickle.loads(pickle.dumps(Outcome(0.5, "doc", 2)))

    assert outcome == 0.5
    assert outcome.cluster == "doc"
    assert outcome.weight == 2


def test_a_score_that_is_not_defined_is_written_as_text():
    assert Aggregation(lambda rows: math.nan)([]) is NOT_DEFINED
    assert Aggregation(lambda rows: 0.5)([]) == 0.5
    assert json.dumps([NOT_DEFINED]) == '["N/A"]'


@pytest.mark.parametrize("scores", [[0.5, NOT_DEFINED], [NOT_DEFINED, 0.5], [NOT_DEFINED]])
def test_a_mean_with_a_score_that_is_not_defined_is_not_defined(scores):
    """lm_eval multiplies and adds the scores of a group's tasks."""
    assert sum(score * 1 for score in scores) / len(scores) is NOT_DEFINED


def test_intervals_of_many_rows_are_those_of_one_draw_of_all():
    random = np.random.default_rng(3)
    values = random.random(700)
    weights = random.integers(1, 5, 700)
    outcomes = [
        Outcome(value, f"c{row}", int(weight))
        for row, (value, weight) in enumerate(zip(values, weights, strict=True))
    ]

    interval = bootstrap_interval(outcomes, seed=5)

    # A matrix of how often each row is in each draw needs much memory, but no chunks.
    draws = np.random.default_rng(5).multinomial(700, np.full(700, 1 / 700), size=10_000)
    means = (draws @ (values * weights)) / (draws @ weights)
    assert interval == pytest.approx(np.quantile(means, [0.025, 0.975]).tolist(), rel=1e-12)


@pytest.mark.parametrize(("right", "rows"), [(0, 3), (3, 3), (15, 20), (1, 369)])
def test_the_interval_of_plain_rows_is_wilsons(right, rows):
    share = right / rows
    stderr = math.sqrt(share * (1 - share) / rows)

    interval = score_interval(share, stderr, 0, 1, rows)

    expected = binomtest(right, rows).proportion_ci(method="wilson")
    assert interval == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(
    share=st.floats(0, 1),
    stderr=st.floats(0, 2),
    rows=st.integers(1, 10**6),
    bounds=st.sampled_from([(0, 1), (-1, 1), (0, 2), (1, math.inf), (0, math.inf)]),
)
def test_an_interval_holds_its_score_and_stays_in_range(share, stderr, rows, bounds):
    lowest, highest = bounds
    value = lowest + share * (10 if math.isinf(highest) else highest - lowest)

    interval = score_interval(value, stderr, lowest, highest, rows)

    if interval is not None:
        low, high = interval
        assert low <= value + 1e-9
        assert value <= high + 1e-9
        assert low < high
        assert lowest - 1e-9 <= low or value <= lowest
        assert high <= highest


@pytest.mark.parametrize(("value", "highest"), [(0.5, 1), (3.0, math.inf)])
def test_rows_that_do_not_differ_have_no_interval(value, highest):
    assert score_interval(value, 0.0, 0, highest, 9) is None


def test_rows_that_are_all_right_have_an_interval():
    low, high = score_interval(1.0, 0.0, 0, 1, 3)

    assert low < 0.5
    assert high == 1


@pytest.mark.parametrize(
    ("value", "stderr", "bounds"),
    [(0.5, 0.01, (0, 1)), (20.0, 0.1, (1,)), (-2.0, 0.1, ())],
    ids=["two bounds", "a lower bound", "no bounds"],
)
def test_an_interval_far_from_its_bounds_is_normal(value, stderr, bounds):
    expected = (value - 1.96 * stderr, value + 1.96 * stderr)

    assert score_interval(value, stderr, *bounds) == pytest.approx(expected, rel=1e-3)
