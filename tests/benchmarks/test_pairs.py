"""Paired differences against values found in other ways."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.pairs import (
    comparable_scores,
    compare_all_models,
    paired_difference,
    score_stderr,
)
from lm_factuality.benchmarks.rows import ScoredRows
from lm_factuality.scores.paired import holm
from lm_factuality.scores.statistics import Outcome, clustered_stderr, mean

ACCURACY, F1 = find_benchmark("factor").table_scores[0], find_benchmark("felm").table_scores[0]


def scored(values, weights=None, clusters=None):
    weights = weights or [1.0] * len(values)
    clusters = clusters or [str(number) for number in range(len(values))]
    return ScoredRows(
        {
            str(number): (cluster, (value * weight, weight))
            for number, (value, weight, cluster) in enumerate(
                zip(values, weights, clusters, strict=True)
            )
        }
    )


def test_a_difference_of_means_is_the_clustered_one():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, 60).tolist(), rng.integers(0, 2, 60).tolist()
    clusters = [str(number // 3) for number in range(60)]
    pair = paired_difference(scored(a, clusters=clusters), scored(b, clusters=clusters), ACCURACY)
    gaps = [Outcome(x - y, cluster) for x, y, cluster in zip(a, b, clusters, strict=True)]
    stderr = clustered_stderr(gaps)
    assert pair.difference == pytest.approx(mean(gaps))
    assert (pair.high - pair.low) / 2 == pytest.approx(1.959964 * stderr)
    by_document = [sum(gaps[start : start + 3]) for start in range(0, 60, 3)]
    flips = [
        abs(sum(signs)) for signs in itertools.product(*((gap, -gap) for gap in by_document if gap))
    ]
    assert pair.p_value == pytest.approx(
        np.mean([total >= abs(sum(by_document)) for total in flips])
    )
    assert pair.detectable == pytest.approx((norm.isf(0.025) + norm.isf(0.2)) * stderr)


def f1(hits, alarms, misses, passed):
    return 2 * hits / (2 * hits + alarms + misses)


def test_f1_differs_as_the_bootstrap_of_both_together_says():
    rng = np.random.default_rng(3)
    rows = {}
    for name, chance in (("a", 0.8), ("b", 0.5)):
        counts = []
        for _ in range(150):
            hits = int(rng.binomial(2, chance))
            alarms = int(rng.binomial(3, 0.2))
            counts.append((float(hits), float(alarms), float(2 - hits), float(3 - alarms)))
        rows[name] = counts
    parts = {
        name: ScoredRows({str(n): (str(n), each) for n, each in enumerate(counts)})
        for name, counts in rows.items()
    }
    pair = paired_difference(parts["a"], parts["b"], F1)
    a, b = (np.sum(rows[name], axis=0) for name in "ab")
    assert (pair.score_a, pair.score_b) == pytest.approx((f1(*a), f1(*b)))
    draws = []
    both = np.hstack([np.array(rows["a"]), np.array(rows["b"])])
    for _ in range(1500):
        a, b = both[rng.integers(0, 150, 150)].sum(axis=0).reshape(2, 4)
        draws.append(f1(*a) - f1(*b))
    assert (pair.high - pair.low) / 2 / 1.959964 == pytest.approx(np.std(draws), rel=0.12)


def test_only_rows_that_both_have_a_score_on_count():
    one, other = scored([1.0, 0.0, 1.0]), scored([1.0, 1.0])
    pair = paired_difference(one, other, ACCURACY)
    assert (pair.shared_rows, pair.score_a, pair.score_b) == (2, 0.5, 1.0)
    assert paired_difference(one, ScoredRows({}), ACCURACY) is None


def test_models_that_agree_everywhere_do_not_differ():
    pair = paired_difference(scored([1.0, 0.0, 1.0]), scored([1.0, 0.0, 1.0]), ACCURACY)
    assert (pair.difference, pair.p_value) == (0.0, 1.0)
    assert (
        paired_difference(
            scored([1.0, 0.0], clusters=["d", "d"]),
            scored([0.0, 0.0], clusters=["d", "d"]),
            ACCURACY,
        ).p_value
        is None
    )


def test_a_standard_error_of_one_model_is_that_of_the_statistics():
    values, clusters = [1.0, 0.0, 1.0, 1.0], ["a", "a", "b", "c"]
    expected = clustered_stderr(
        [Outcome(value, cluster) for value, cluster in zip(values, clusters, strict=True)]
    )
    assert score_stderr(scored(values, clusters=clusters), ACCURACY) == pytest.approx(expected)
    assert score_stderr(ScoredRows({}), ACCURACY) is None
    assert math.isfinite(expected)


def test_scores_per_token_are_not_compared():
    names = ["factor_mean_logprob", "factor_acc_vs_entity", "factor_acc"]
    assert [metric.name for metric in comparable_scores(find_benchmark("factor"), names)] == [
        "factor_acc",
        "factor_acc_vs_entity",
    ]


def test_the_order_of_rows_does_not_matter():
    one, other = (
        scored([1.0, 0.0, 0.0, 1.0, 1.0], clusters=list("aabbc")),
        scored([0.0, 0.0, 1.0, 0.0, 0.0], clusters=list("aabbc")),
    )
    turned = ScoredRows(dict(reversed(other.rows.items())))
    assert paired_difference(one, other, ACCURACY) == paired_difference(one, turned, ACCURACY)


def test_rates_are_tested_by_swapping_whole_rows():
    """The rows are responses of unequal length: the number of their errors, and their length."""
    model_a = ScoredRows({"1": ("1", (1.0, 2.0)), "2": ("2", (0.0, 5.0)), "3": ("3", (1.0, 4.0))})
    model_b = ScoredRows({"1": ("1", (2.0, 2.0)), "2": ("2", (3.0, 6.0)), "3": ("3", (2.0, 3.0))})
    error_rate = find_benchmark("felm_gen").table_scores[0]

    pair = paired_difference(model_a, model_b, error_rate)

    assert pair.difference == pytest.approx(2 / 11 - 7 / 11)
    # Swapping row 1, 2 or 3 alone gives 3/11 and 6/11, 5/12 and 4/10, or 3/10 and 6/12, which are
    # less far apart. So of the 8 swaps only those of no row and of all rows are as far apart.
    assert pair.p_value == pytest.approx(2 / 8)


def test_pairs_of_all_models_are_corrected_together():
    rng = np.random.default_rng(7)
    models = {name: scored(rng.integers(0, 2, 40).tolist()) for name in "abcd"} | {
        "none": ScoredRows({})
    }
    found = compare_all_models(models, ACCURACY, {name: {} for name in models})
    assert set(found) == set(itertools.combinations("abcd", 2))
    assert [pair.adjusted_p_value for pair in found.values()] == pytest.approx(
        holm([pair.p_value for pair in found.values()])
    )
    for (one, other), pair in found.items():
        assert pair.p_value == paired_difference(models[one], models[other], ACCURACY).p_value
