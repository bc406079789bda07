"""Paired tests against brute force and other people's implementations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from lm_factuality.scores.paired import flip_test, holm, minimum_detectable_difference, swap_test


def by_all_flips(differences):
    """The share of all choices of signs whose sum is as far from zero."""
    sums = np.zeros(1)
    for size in np.abs(differences):
        sums = np.concatenate([sums + size, sums - size])
    return float(np.mean(np.abs(sums) >= abs(np.sum(differences)) - 1e-9))


def drawn(seed, clusters, kind):
    rng = np.random.default_rng(seed)
    if kind == "whole":
        return rng.integers(-3, 4, clusters).astype(float)
    return rng.normal(0.4, 1, clusters) * (rng.exponential(1, clusters) if kind == "uneven" else 1)


@pytest.mark.parametrize("kind", ["whole", "even", "uneven"])
@pytest.mark.parametrize("clusters", [1, 2, 7, 16])
@pytest.mark.parametrize("seed", range(3))
def test_few_clusters_are_exact(seed, clusters, kind):
    differences = drawn(seed, clusters, kind)
    assert flip_test(differences) == pytest.approx(by_all_flips(differences))


@pytest.mark.parametrize(
    ("better", "worse"), [(30, 14), (9, 0), (5, 5), (400, 350), (0, 0), (1, 0)]
)
def test_single_rows_are_mcnemars_exact_test(better, worse):
    differences = np.array([1.0] * better + [-1.0] * worse + [0.0] * 20)
    expected = binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert flip_test(differences) == pytest.approx(expected)
    assert flip_test(-differences) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["even", "uneven"])
@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_many_clusters_are_close_into_the_tail(seed, shift, kind):
    """20 clusters, which brute force can still do; the p-values go down to 1e-5."""
    differences = drawn(seed, 20, kind) + shift
    exact = by_all_flips(differences)
    assert flip_test(differences) == pytest.approx(exact, rel=0.12 if exact > 1e-4 else 0.5)


def test_a_sum_that_no_flip_exceeds_has_the_smallest_p_value():
    assert flip_test(np.linspace(1, 2, 30)) == pytest.approx(2**-29)
    assert flip_test(np.ones(30)) == pytest.approx(2**-29)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e9])
def test_the_unit_of_a_score_does_not_matter(size):
    differences = drawn(1, 40, "uneven")
    assert flip_test(size * differences) == pytest.approx(flip_test(differences))


def f1(sums):
    tp, fp, fn, _ = sums
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else math.nan


def judged(seed, clusters, chance):
    rng = np.random.default_rng(seed)
    hits = rng.binomial(3, chance, clusters)
    return np.stack(
        [hits, rng.binomial(4, 0.2, clusters), 3 - hits, np.zeros(clusters)], axis=1
    ).astype(float)


def swapped(a, b, swap):
    one, other = (np.where(swap[:, None], *sides).sum(axis=0) for sides in ((b, a), (a, b)))
    return abs(f1(one) - f1(other))


def test_swaps_of_a_score_of_pooled_counts_are_exact_for_few_clusters():
    a, b = judged(0, 9, 0.9), judged(1, 9, 0.5)
    found = [swapped(a, b, np.array(flips)) for flips in itertools.product((False, True), repeat=9)]
    assert swap_test(a, b, f1) == pytest.approx(np.mean(np.array(found) >= found[0] - 1e-12))


@pytest.mark.parametrize(("chance", "clusters"), [(0.5, 12), (0.62, 40), (0.62, 120), (0.75, 40)])
def test_swaps_of_many_clusters_are_as_random_draws_say(chance, clusters):
    a, b = judged(2, clusters, chance), judged(3, clusters, 0.5)
    rng = np.random.default_rng(0)
    found = [swapped(a, b, rng.integers(0, 2, clusters).astype(bool)) for _ in range(4000)]
    p = swap_test(a, b, f1)
    assert p == pytest.approx(
        np.mean(np.array(found) >= swapped(a, b, np.zeros(clusters, bool)) - 1e-12), abs=0.02
    )
    assert p == pytest.approx(swap_test(b, a, f1))


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.0001, 0.9, 0.3, 0.02, 0.04], [0.0005, 0.9, 0.6, 0.08, 0.12]),
        ([], []),
    ],
)
def test_holm_as_worked_out_by_hand(ps, expected):
    assert holm(ps) == pytest.approx(expected)


def test_the_detectable_difference_is_that_of_the_formula():
    assert minimum_detectable_difference(0.1) == pytest.approx(
        (norm.isf(0.025) + norm.isf(0.2)) * 0.1
    )
