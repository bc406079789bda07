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
    PooledScore,
    clustered_stderr,
    mean,
    ratio,
)


def outcomes_of(values, clusters):
    """Return an outcome for each value and its cluster."""
    return [Outcome(value, str(cluster)) for value, cluster in zip(values, clusters, strict=True)]


def test_clusters_of_one_row_give_the_ordinary_standard_error():
    """The clustered formula has to agree with the textbook's where both apply."""
    values = [1, 0, 0, 1, 1]

    stderr = clustered_stderr(outcomes_of(values, ["a", "b", "c", "d", "e"]))

    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert stderr == pytest.approx(expected, abs=1e-12)


def test_the_standard_error_agrees_with_a_bootstrap_over_clusters():
    """Rows of a cluster share a rate, so the error is larger than that of 900 independent rows."""
    random = np.random.default_rng(1)
    rate_of_cluster = random.uniform(0.1, 0.9, size=300)
    clusters = random.integers(0, 300, size=900)
    values = (random.random(900) < rate_of_cluster[clusters]).astype(float)

    stderr = clustered_stderr(outcomes_of(values, clusters))

    sum_of_cluster = np.bincount(clusters, values, minlength=300)
    rows_of_cluster = np.bincount(clusters, minlength=300)
    # How often each cluster is drawn in each of 4000 repetitions.
    draws = random.multinomial(300, np.full(300, 1 / 300), size=4000)
    means = (draws @ sum_of_cluster) / (draws @ rows_of_cluster)
    assert stderr == pytest.approx(np.std(means), rel=0.05)


def test_unscored_rows_do_not_count():
    """A row that the judge could not score must not count as wrong."""
    scored = [Outcome(1.0, "a"), Outcome(0.0, "b")]
    with_unscored = [Outcome(1.0, "a"), Outcome(0.0, "b"), None]

    assert mean(with_unscored) == 0.5
    assert clustered_stderr(with_unscored) == clustered_stderr(scored)


def test_scores_are_weighted_by_decisions():
    """A response of two segments counts twice as much as one of one segment."""
    one_of_one = Outcome(1.0, "a", weight=1)
    one_of_two = Outcome(0.5, "b", weight=2)

    pooled_mean = mean([one_of_one, one_of_two])

    assert pooled_mean == pytest.approx((1 + 1) / (1 + 2))


def test_score_without_scored_rows_is_nan():
    """A score of 0 would say that all rows are wrong."""
    assert math.isnan(mean([None]))
    assert math.isnan(clustered_stderr([None]))


def test_standard_error_of_one_cluster_is_nan():
    """One cluster does not show how much clusters differ."""
    assert math.isnan(clustered_stderr(outcomes_of([1, 1], ["same", "same"])))


def test_an_outcome_can_be_pickled():
    """In a run of several processes, one of them collects the outcomes of the others."""
    outcome = pickle.loads(pickle.dumps(Outcome(0.5, cluster="doc", weight=2)))

    assert outcome == 0.5
    assert outcome.cluster == "doc"
    assert outcome.weight == 2


def test_undefined_score_is_written_as_text():
    """NaN is no JSON, so other programs could not read the results file."""
    aggregate = Aggregation(lambda rows: math.nan)

    score = aggregate([])

    assert score is NOT_DEFINED
    assert json.dumps([score]) == '["N/A"]'


def test_defined_score_is_a_number():
    aggregate = Aggregation(lambda rows: 0.5)

    score = aggregate([])

    assert score == 0.5


@pytest.mark.parametrize("scores", [[0.5, NOT_DEFINED], [NOT_DEFINED, 0.5], [NOT_DEFINED]])
def test_mean_with_an_undefined_score_is_undefined(scores):
    """lm_eval multiplies and adds the scores of a group's tasks as if all were numbers."""
    weighted_scores = [score * 1 for score in scores]

    group_score = sum(weighted_scores) / len(scores)

    assert group_score is NOT_DEFINED


def test_interval_of_a_mean_uses_row_clusters_and_weights():
    unscored = None
    outcomes = [
        Outcome(1.0, "a", weight=2),
        Outcome(0.5, "a", weight=1),
        unscored,
        Outcome(0.0, "b", weight=3),
    ]

    interval = replace(MEAN, low=-1.0, high=1.0).interval_of(outcomes)

    expected = mean_interval(
        [1.0, 0.5, 0.0], ["a", "a", "b"], low=-1.0, high=1.0, weights=[2, 1, 3]
    )
    assert interval.ends == expected
    assert interval.num_clusters == 2


RECALL = PooledScore(
    lambda sums: ratio(sums[0], sums[0] + sums[2]), recall_interval, len
).aggregation()


def row_counts(tp=0, fp=0, fn=0, tn=0):
    """Return the counts of a row in the order in which the scores take them."""
    return (tp, fp, fn, tn)


def test_interval_of_a_pooled_score_uses_the_counts_of_its_rows():
    unscored = None
    without_segments = row_counts()
    first = row_counts(tp=3, fn=1, tn=5)
    second = row_counts(tp=1, fn=1)
    third = row_counts(tp=2, tn=3)

    interval = RECALL.interval_of([first, unscored, without_segments, second, third])

    assert interval.ends == recall_interval([first, second, third])
    assert interval.num_clusters == 3


def test_standard_error_of_a_share_treats_each_decision_as_a_row():
    """The judge finds 3 of 4 errors in the first row, 1 of 2 in the second, 2 of 2 in the third."""
    counts = [row_counts(tp=3, fn=1, tn=5), row_counts(tp=1, fn=1), row_counts(tp=2, tn=3)]

    stderr = RECALL.stderr(counts)

    decisions = [
        Outcome(3 / 4, "a", weight=4),
        Outcome(1 / 2, "b", weight=2),
        Outcome(2 / 2, "c", weight=2),
    ]
    assert stderr == pytest.approx(clustered_stderr(decisions), rel=1e-6)


def test_a_count_has_no_interval():
    """A total, such as the number of unscored rows, is not an estimate."""
    assert TOTAL.interval_of([1, 2, 3]) is None
