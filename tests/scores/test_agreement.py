"""Coefficients of agreement against published examples, and intervals against known formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lm_factuality.scores.agreement import (
    Measure,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    measure_coefficient,
    measure_share,
    pairwise_agreement,
)
from lm_factuality.scores.statistics import Outcome, clustered_stderr, ratio

# Fleiss (1971), table 1: how many of six psychiatrists gave each of 30 patients one of five
# diagnoses.
DIAGNOSES = [
    "00060",
    "03003",
    "01401",
    "00006",
    "03030",
    "20400",
    "00402",
    "20310",
    "20040",
    "00006",
    "10050",
    "11040",
    "03300",
    "10050",
    "02031",
    "00501",
    "30012",
    "51000",
    "02040",
    "10203",
    "00006",
    "01050",
    "02013",
    "20040",
    "10041",
    "05010",
    "40002",
    "02040",
    "10500",
    "00006",
]
# Krippendorff (2011), example C and D: four observers, twelve units, gaps.
OBSERVERS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
BINARY = ("0100000010", "1110010000")  # and his example A: two observers


def ratings_of(counts):
    """Return the ratings of each item from counts of categories: "210" gives ["a", "a", "b"]."""
    return [
        [category for category, count in zip("abcde", row, strict=True) for _ in range(int(count))]
        for row in counts
    ]


def units_of(observers):
    """Return the values of each unit from those of each observer, in which "." is a gap."""
    return [[value for value in unit if value != "."] for unit in zip(*observers, strict=True)]


def pairs_of(both_yes, yes_and_no, no_and_yes, both_no):
    """Return the pairs of answers that a two-by-two table counts."""
    return (
        [("y", "y")] * both_yes
        + [("y", "n")] * yes_and_no
        + [("n", "y")] * no_and_yes
        + [("n", "n")] * both_no
    )


@pytest.mark.parametrize(
    ("coefficient", "items", "expected"),
    [
        pytest.param(fleiss_kappa, ratings_of(DIAGNOSES), 0.430, id="Fleiss (1971)"),
        pytest.param(
            krippendorff_alpha,
            [unit for unit in units_of(OBSERVERS) if len(unit) > 1],
            0.743,
            id="Krippendorff (2011), example C, nominal",
        ),
        pytest.param(
            krippendorff_alpha, units_of(BINARY), 0.095, id="Krippendorff (2011), example A"
        ),
    ],
)
def test_coefficients_are_those_of_published_examples(coefficient, items, expected):
    assert coefficient(items) == pytest.approx(expected, abs=0.0005)


@pytest.mark.parametrize(
    ("table", "agreement", "agreement_by_chance"),
    [((20, 5, 10, 15), 0.7, 0.5), ((45, 15, 25, 15), 0.6, 0.54)],
)
def test_cohens_kappa_is_agreement_beyond_chance(table, agreement, agreement_by_chance):
    expected = (agreement - agreement_by_chance) / (1 - agreement_by_chance)

    assert cohen_kappa(pairs_of(*table)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("coefficient", "items"),
    [
        pytest.param(cohen_kappa, [("y", "y")], id="Cohen, one pair"),
        pytest.param(cohen_kappa, [], id="Cohen, no pair"),
        pytest.param(fleiss_kappa, [["a", "a"], ["a", "a"]], id="Fleiss, one category"),
        pytest.param(
            krippendorff_alpha, [["a", "a", "a"], ["a", "a"]], id="Krippendorff, one category"
        ),
    ],
)
def test_coefficients_are_not_defined_without_variation(coefficient, items):
    assert math.isnan(coefficient(items))


def test_the_jackknife_of_a_mean_is_its_clustered_standard_error():
    values = np.random.default_rng(1).random(60).tolist()
    clusters = [str(number % 20) for number in range(60)]

    measure = measure_coefficient(values, clusters, lambda items: float(np.mean(items)))

    outcomes = [Outcome(value, cluster) for value, cluster in zip(values, clusters, strict=True)]
    t_quantile = 2.093024  # of 97.5%, with 19 degrees of freedom
    half_width = (measure.high - measure.low) / 2
    assert measure.value == pytest.approx(np.mean(values))
    assert half_width == pytest.approx(t_quantile * clustered_stderr(outcomes), rel=1e-6)
    assert measure.count == 60


@pytest.mark.parametrize(
    ("items", "clusters"),
    [
        pytest.param([("a", "b"), ("b", "a")], ["x", "x"], id="one cluster"),
        pytest.param(
            [("a", "a"), ("b", "b"), ("c", "c")] * 2,
            list("xyzxyz"),
            id="clusters without variation",
        ),
    ],
)
def test_a_coefficient_has_no_interval_if_leaving_out_clusters_says_nothing(items, clusters):
    measure = measure_coefficient(items, clusters, cohen_kappa)

    assert measure.value is not None
    assert measure.low is None
    assert measure.high is None


def share_of(sums):
    """Return the share whose numerator and denominator are these sums."""
    return ratio(*sums)


def test_a_share_of_one_has_an_exact_interval():
    rows = [(1, 1)] * 30
    clusters = [str(number // 3) for number in range(30)]

    measure = measure_share(rows, clusters, share_of)

    assert measure.value == 1
    assert measure.high == 1
    assert measure.count == 30
    # Clopper and Pearson (1934), for 10 of 10 clusters.
    assert measure.low == pytest.approx(0.025 ** (1 / 10), abs=1e-4)


def test_a_share_of_zero_has_an_exact_interval():
    measure = measure_share([(0, 1)] * 3, list("xyz"), share_of)

    assert measure.high == pytest.approx(1 - 0.025 ** (1 / 3))


@pytest.mark.parametrize(
    ("rows", "clusters", "expected"),
    [
        # The bootstrap always draws the same share.
        pytest.param([(1, 2), (1, 2)], ["x", "y"], Measure(0.5, None, None, 2), id="no variation"),
        pytest.param([], [], Measure(None, None, None, 0), id="no rows"),
        pytest.param([(0, 0)], ["x"], Measure(None, None, None, 1), id="zero of zero"),
    ],
)
def test_a_share_may_have_no_interval(rows, clusters, expected):
    assert measure_share(rows, clusters, share_of) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [("aa", 1), ("ab", 0), ("aab", 1 / 3), ("aaab", 1 / 2), ("aabb", 1 / 3)],
)
def test_agreement_on_an_item_is_the_share_of_pairs_that_agree(answers, expected):
    assert pairwise_agreement(list(answers)) == pytest.approx(expected)
