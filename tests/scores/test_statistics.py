"""Means and clustered standard errors, against closed forms and other computations."""

import json
import math
import pickle
import statistics
from dataclasses import replace

import numpy as np
import pytest

from lm_factuality.scores.intervals import mean_interval, recall_interval
from lm_factuality.scores.statistics import (
    MEAN,
    NOT_DEFINED,
    TOTAL,
    Aggregation,
    Outcome,
    clustered_stderr,
    mean,
    pooled,
    ratio,
)


def outcomes_of(values, clusters):
    """Return an outcome for each value and its cluster."""
    return [Outcome(value, str(cluster)) for value, cluster in zip(values, clusters, strict=True)]


def test_with_one_row_a_cluster_it_is_the_standard_error_of_a_mean():
    values = [1, 0, 0, 1, 1, 0, 1]

    stderr = clustered_stderr(outcomes_of(values, range(7)))

    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert stderr == pytest.approx(expected, abs=1e-12)


def test_the_standard_error_agrees_with_a_bootstrap_over_clusters():
    random = np.random.default_rng(1)
    rates = random.uniform(0.1, 0.9, 300)
    clusters = random.integers(0, 300, 900)
    values = (random.random(900) < rates[clusters]).astype(float)
    sums = np.bincount(clusters, values, 300)
    sizes = np.bincount(clusters, minlength=300)
    draws = random.multinomial(300, np.full(300, 1 / 300), size=4000)
    means = (draws @ sums) / (draws @ sizes)

    stderr = clustered_stderr(outcomes_of(values, clusters))

    assert stderr == pytest.approx(np.std(means), rel=0.05)


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


def test_the_standard_error_of_one_cluster_is_not_a_number():
    assert math.isnan(clustered_stderr(outcomes_of([1, 1], ["same", "same"])))


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


WEIGHTED = [Outcome(1.0, "a", 2), Outcome(0.5, "a", 1), None, Outcome(0.0, "b", 3)]


def test_the_interval_of_a_mean_has_the_clusters_and_weights_of_its_rows():
    interval = replace(MEAN, low=-1.0, high=1.0).interval_of(WEIGHTED)

    expected = mean_interval([1.0, 0.5, 0.0], ["a", "a", "b"], -1.0, 1.0, weights=[2, 1, 3])
    assert interval.ends == expected
    assert interval.num_clusters == 2


RECALL = pooled(lambda sums: ratio(sums[0], sums[0] + sums[2]), recall_interval)
COUNTS = [(3, 0, 1, 5), None, (0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 0, 3)]


def test_the_interval_of_a_pooled_score_is_that_of_its_rows_with_counts():
    interval = RECALL.interval_of(COUNTS)

    assert interval.ends == recall_interval([COUNTS[0], COUNTS[3], COUNTS[4]])
    assert interval.num_clusters == 3


def test_the_standard_error_of_a_share_of_counts_is_that_of_its_decisions():
    decisions = [Outcome(3 / 4, "a", 4), Outcome(1 / 2, "b", 2), Outcome(1.0, "c", 2)]

    assert RECALL.stderr(COUNTS) == pytest.approx(clustered_stderr(decisions), rel=1e-6)


def test_a_count_has_no_interval():
    assert TOTAL.interval_of([1, 2, 3]) is None
