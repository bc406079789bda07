"""Paired tests of two models against brute force and other implementations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest

from lm_factuality.scores.paired import flip_test, holm, swap_test


def exact_p_value(differences):
    """Return the share of all choices of signs whose sum is at least as far from zero."""
    sums = np.zeros(1)
    for size in np.abs(differences):
        sums = np.concatenate([sums + size, sums - size])
    return float(np.mean(np.abs(sums) >= abs(np.sum(differences)) - 1e-9))


def random_differences(seed, clusters, kind):
    """Return a random difference between two models for each cluster.

    Args:
        seed: The seed of the random numbers.
        clusters: The number of clusters.
        kind: "whole" for numbers from -3 to 3, "even" for clusters of about the same size, or
            "uneven" for others.
    """
    random = np.random.default_rng(seed)
    if kind == "whole":
        return random.integers(-3, 4, clusters).astype(float)
    differences = random.normal(0.4, 1, clusters)
    return differences * random.exponential(1, clusters) if kind == "uneven" else differences


@pytest.mark.parametrize("kind", ["whole", "even", "uneven"])
@pytest.mark.parametrize("clusters", [1, 2, 7, 16])
@pytest.mark.parametrize("seed", range(3))
def test_few_clusters_get_the_exact_p_value(seed, clusters, kind):
    """For up to 18 clusters, `flip_test` tries all choices of signs of the differences."""
    differences = random_differences(seed, clusters, kind)

    assert flip_test(differences) == pytest.approx(exact_p_value(differences))


@pytest.mark.parametrize(("better", "worse"), [(30, 14), (9, 0), (5, 5), (400, 350), (1, 0)])
def test_single_row_clusters_give_mcnemars_exact_test(better, worse):
    """McNemar's test is the usual one for two models on the same rows."""
    ties = 20  # which do not matter
    differences = np.array([1.0] * better + [-1.0] * worse + [0.0] * ties)

    p_value = flip_test(differences)

    assert p_value == pytest.approx(binomtest(better, better + worse).pvalue)
    assert flip_test(-differences) == pytest.approx(p_value)


def test_differences_of_one_size_give_the_sign_test():
    """The sign test asks how likely it is that a fair coin shows heads for 14 of 20 documents."""
    num_favouring_first = 14
    num_favouring_second = 6
    differences = np.array([0.05] * num_favouring_first + [-0.05] * num_favouring_second)

    p_value = flip_test(differences)

    sign_test = binomtest(num_favouring_first, num_favouring_first + num_favouring_second)
    assert p_value == pytest.approx(sign_test.pvalue)


@pytest.mark.parametrize("step", [0.05, 1 / 3, 1 / 60, 7.0, 1e-9])
@pytest.mark.parametrize("seed", range(5))
def test_multiples_of_a_step_get_the_exact_p_value(seed, step):
    """With 20 clusters `flip_test` no longer tries all signs, as `exact_p_value` does.

    It counts the sums in steps instead, which is as exact.
    """
    whole_differences = np.random.default_rng(seed).integers(-4, 7, 20)

    p_value = flip_test(step * whole_differences)

    assert p_value == pytest.approx(exact_p_value(whole_differences), rel=1e-6)


def test_whole_numbers_without_a_common_factor_get_the_exact_p_value():
    """The exact method counts in a step that divides all differences, at worst in steps of 1."""
    whole_differences = np.array([5003, 2400, 77, -1] + [120] * 12 + [-120] * 4)

    p_value = flip_test(whole_differences.astype(float))

    assert p_value == pytest.approx(exact_p_value(whole_differences), rel=1e-6)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("clusters", [2, 30])
def test_nan_differences_have_no_p_value(clusters, value):
    """A p-value of 1 would say that the models are equal."""
    differences = np.ones(clusters)
    differences[0] = value

    assert math.isnan(flip_test(differences))


def test_equal_models_have_a_p_value_of_one():
    """Every choice of signs gives the sum 0."""
    assert flip_test(np.zeros(20)) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["even", "uneven"])
@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_p_value_of_many_clusters_is_close_to_exact(seed, shift, kind):
    """With 20 clusters `flip_test` approximates the p-value, and `exact_p_value` tries all signs."""
    differences = random_differences(seed, 20, kind) + shift

    p_value = flip_test(differences)

    exact = exact_p_value(differences)
    # Of very small p-values, only the order of magnitude matters.
    tolerance = 0.12 if exact > 1e-4 else 0.5
    assert p_value == pytest.approx(exact, rel=tolerance)


@pytest.mark.parametrize("differences", [np.linspace(1, 2, 30), np.ones(30)], ids=["all", "equal"])
def test_largest_possible_sum_has_the_smallest_p_value(differences):
    """The approximation of the tail must not give less than is possible, such as 0."""
    p_value = flip_test(differences)

    # Two of 2**30 choices of signs give this sum: all as they are, and all changed.
    assert p_value == pytest.approx(2 / 2**30)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
def test_the_unit_of_a_score_does_not_matter(unit):
    """A score in percent has to give the same p-value as one between 0 and 1."""
    differences = random_differences(seed=1, clusters=40, kind="uneven")

    assert flip_test(unit * differences) == pytest.approx(flip_test(differences))


def f1(sums):
    """Return F1 of summed counts of true positives, false positives and false negatives."""
    tp, fp, fn, _ = sums
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else math.nan


def random_counts(seed, clusters, recall):
    """Return counts for F1 of a judge that finds a share ``recall`` of 3 errors per cluster."""
    random = np.random.default_rng(seed)
    true_positives = random.binomial(3, recall, clusters)
    false_positives = random.binomial(4, 0.2, clusters)
    columns = [true_positives, false_positives, 3 - true_positives, np.zeros(clusters)]
    return np.stack(columns, axis=1).astype(float)


def difference_after_swaps(counts_of_a, counts_of_b, is_swapped):
    """Return the difference in F1 of two judges whose counts are swapped in some clusters."""
    swapped_a = np.where(is_swapped[:, None], counts_of_b, counts_of_a)
    swapped_b = np.where(is_swapped[:, None], counts_of_a, counts_of_b)
    return abs(f1(swapped_a.sum(axis=0)) - f1(swapped_b.sum(axis=0)))


def random_swaps(clusters, repetitions):
    """Yield, for each repetition, whether the counts of each cluster are swapped: half of them."""
    random = np.random.default_rng(0)
    for _ in range(repetitions):
        yield random.integers(0, 2, clusters).astype(bool)


def share_as_large(differences, observed):
    """Return the share of differences that are at least as large as the observed one."""
    return np.mean(np.array(differences) >= observed - 1e-12)


def test_swapping_few_clusters_gives_the_exact_p_value():
    """If two judges were equal, all 2**9 ways to swap their counts would be equally likely."""
    judge_a = random_counts(seed=0, clusters=9, recall=0.9)
    judge_b = random_counts(seed=1, clusters=9, recall=0.5)

    p_value = swap_test(judge_a, judge_b, f1)

    differences = []
    for is_swapped in itertools.product((False, True), repeat=9):
        differences.append(difference_after_swaps(judge_a, judge_b, np.array(is_swapped)))
    observed = differences[0]  # without any swap
    assert p_value == pytest.approx(share_as_large(differences, observed))


@pytest.mark.parametrize(("recall", "clusters"), [(0.5, 12), (0.62, 40), (0.62, 120), (0.75, 40)])
def test_p_value_of_many_clusters_is_close_to_random_swaps(recall, clusters):
    """4000 random swaps give a p-value with a standard error of at most 0.008."""
    judge_a = random_counts(seed=2, clusters=clusters, recall=recall)
    judge_b = random_counts(seed=3, clusters=clusters, recall=0.5)

    p_value = swap_test(judge_a, judge_b, f1)

    differences = []
    for is_swapped in random_swaps(clusters, repetitions=4000):
        differences.append(difference_after_swaps(judge_a, judge_b, is_swapped))
    no_swaps = np.zeros(clusters, bool)
    observed = difference_after_swaps(judge_a, judge_b, no_swaps)
    assert p_value == pytest.approx(share_as_large(differences, observed), abs=0.02)


def test_swap_p_value_does_not_depend_on_model_order():
    """Which model a user names first must not change what they conclude."""
    judge_a = random_counts(seed=2, clusters=40, recall=0.62)
    judge_b = random_counts(seed=3, clusters=40, recall=0.5)

    p_value = swap_test(judge_a, judge_b, f1)

    assert p_value == pytest.approx(swap_test(judge_b, judge_a, f1))


@pytest.mark.parametrize("clusters", [5, 20])
def test_judge_without_a_score_has_no_swap_p_value(clusters):
    """A judge whose counts are all 0 has an F1 of 0 divided by 0."""
    judge = random_counts(seed=0, clusters=clusters, recall=0.9)
    judge_without_counts = np.zeros_like(judge)

    assert math.isnan(swap_test(judge, judge_without_counts, f1))


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        # Sorted, they are multiplied by 4, 3, 2 and 1, and never less than the one before.
        pytest.param([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02], id="four"),
        pytest.param([0.5, 0.6], [1.0, 1.0], id="no more than one"),
        pytest.param([0.0001, 0.9, 0.3, 0.02, 0.04], [0.0005, 0.9, 0.6, 0.08, 0.12], id="five"),
        pytest.param([], [], id="none"),
    ],
)
def test_p_values_are_corrected_by_holm(p_values, corrected):
    """With many comparisons one of them is small by chance, so each p-value is made larger."""
    assert holm(p_values) == pytest.approx(corrected)
