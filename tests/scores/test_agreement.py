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
    measure_of,
    pairwise_agreement,
)
from lm_factuality.scores.intervals import ClusteredMean, Interval, interval_of_mean
from lm_factuality.scores.statistics import Outcome, clustered_stderr

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
    """Return the ratings of each item from counts of categories: "21000" gives ["a", "a", "b"]."""
    ratings = []
    for row in counts:
        ratings_of_item = []
        for category, count in zip("abcde", row, strict=True):
            ratings_of_item.extend([category] * int(count))
        ratings.append(ratings_of_item)
    return ratings


def units_of(observers):
    """Return the values of each unit from those of each observer, in which "." is a gap."""
    units = []
    for column in zip(*observers, strict=True):
        units.append([value for value in column if value != "."])
    return units


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
def test_coefficients_match_published_examples(coefficient, items, expected):
    """The papers print three decimals."""
    value = coefficient(items)

    assert value == pytest.approx(expected, abs=0.0005)


def test_cohens_kappa_is_agreement_beyond_chance():
    """If both people say yes to most items, they agree more often by chance."""
    pairs = pairs_of(both_yes=45, yes_and_no=15, no_and_yes=25, both_no=15)

    kappa = cohen_kappa(pairs)

    agreement = (45 + 15) / 100
    # The first person says yes to 60 and the second to 70 of the 100 items.
    agreement_by_chance = 0.60 * 0.70 + 0.40 * 0.30
    assert kappa == pytest.approx((agreement - agreement_by_chance) / (1 - agreement_by_chance))


def test_cohens_kappa_if_one_person_says_yes_to_half_of_the_items():
    pairs = pairs_of(both_yes=20, yes_and_no=5, no_and_yes=10, both_no=15)

    kappa = cohen_kappa(pairs)

    agreement = (20 + 15) / 50
    # The first person says yes to 25 and the second to 30 of the 50 items.
    agreement_by_chance = (25 / 50) * (30 / 50) + (25 / 50) * (20 / 50)
    assert kappa == pytest.approx((agreement - agreement_by_chance) / (1 - agreement_by_chance))


@pytest.mark.parametrize(
    ("coefficient", "items"),
    [
        pytest.param(cohen_kappa, [("y", "y")], id="Cohen, one pair"),
        pytest.param(cohen_kappa, [], id="Cohen, no pair"),
        pytest.param(fleiss_kappa, [["a", "a"], ["a", "a"]], id="Fleiss, one category"),
        pytest.param(
            krippendorff_alpha, [["a", "a", "a"], ["a", "a"]], id="Krippendorff, one category"
        ),
        pytest.param(cohen_kappa, [("a",), ("b",)], id="Cohen, one person"),
        pytest.param(fleiss_kappa, [["a"], ["b"]], id="Fleiss, one person"),
        pytest.param(krippendorff_alpha, [["a"], ["b"]], id="Krippendorff, one person"),
    ],
)
def test_coefficients_are_undefined_without_variation_or_pairs(coefficient, items):
    """If all answers are alike, agreement beyond chance is 0 of 0."""
    assert math.isnan(coefficient(items))


def test_jackknife_of_a_mean_equals_the_clustered_standard_error():
    """Coefficients have no formula to check the jackknife by, but a mean has one."""
    values = np.random.default_rng(1).random(60).tolist()
    clusters = [str(number % 20) for number in range(60)]

    measure = measure_coefficient(values, clusters, lambda items: float(np.mean(items)))

    outcomes = [Outcome(value, cluster) for value, cluster in zip(values, clusters, strict=True)]
    mean = float(np.mean(values))
    estimate = ClusteredMean(
        value=mean,
        variance=clustered_stderr(outcomes) ** 2,
        degrees_of_freedom=20 - 1,
        num_clusters=20,
        has_single_rows=False,
    )
    expected_interval = interval_of_mean(estimate, low=-1, high=1)
    assert measure.value == pytest.approx(mean)
    assert (measure.low, measure.high) == pytest.approx(expected_interval)
    assert measure.count == 60


def test_a_coefficient_of_one_cluster_has_no_interval():
    """One cluster does not show how much clusters differ."""
    pairs = [("a", "b"), ("b", "a")]

    measure = measure_coefficient(pairs, ["x", "x"], cohen_kappa)

    assert measure == Measure(value=cohen_kappa(pairs), low=None, high=None, count=2)


@pytest.mark.parametrize("num_clusters", [10, 40])
def test_interval_of_perfect_agreement_counts_each_cluster_as_one_trial(num_clusters):
    """Perfect agreement shows no spread, so only the number of clusters limits certainty."""
    items = [("a", "a"), ("b", "b")] * num_clusters
    clusters = [str(number // 2) for number in range(2 * num_clusters)]

    measure = measure_coefficient(items, clusters, cohen_kappa)

    # Wilson's interval of so many successes, which reaches from -1 to 1 instead of from 0 to 1.
    wilson_low = num_clusters / (num_clusters + 1.96**2)
    assert measure.value == 1
    assert measure.low == pytest.approx(2 * wilson_low - 1, abs=1e-4)
    assert measure.high == pytest.approx(1)


@pytest.mark.parametrize("num_items", [30, 100])
def test_interval_contains_the_true_kappa(num_items):
    """Three people are each right with a probability of 0.9, so the true kappa is known."""
    random = np.random.default_rng(7)
    clusters = [str(number) for number in range(num_items)]

    hits = []
    for _ in range(60):
        truths = random.random((num_items, 1)) < 0.5
        is_right = random.random((num_items, 3)) < 0.9
        answers = np.where(truths == is_right, "yes", "no").tolist()
        measure = measure_coefficient(answers, clusters, fleiss_kappa)
        # Two people agree with a probability of 0.9**2 + 0.1**2 = 0.82, and by chance of 0.5.
        true_kappa = (0.82 - 0.5) / (1 - 0.5)
        hits.append(measure.low <= true_kappa <= measure.high)

    # The interval contains the truth in 95% of samples. 0.86 is three standard errors less.
    assert np.mean(hits) > 0.86


def test_undefined_measure_has_no_numbers():
    """Tables show an empty cell, where NaN would look like a result."""
    measure = measure_of(math.nan, interval=None, count=3)

    assert measure == Measure(value=None, low=None, high=None, count=3)


def test_a_measure_has_the_ends_of_its_interval():
    measure = measure_of(0.5, Interval(low=0.4, high=0.7), count=3)

    assert measure == Measure(value=0.5, low=0.4, high=0.7, count=3)


@pytest.mark.parametrize("answers", [[], ["a"]])
def test_agreement_on_an_item_needs_two_answers(answers):
    """One person agrees with nobody, so the item has no value instead of 0 or 1."""
    assert math.isnan(pairwise_agreement(answers))


@pytest.mark.parametrize(
    ("answers", "pairs_that_agree", "pairs"),
    [
        (["a", "a"], 1, 1),
        (["a", "b"], 0, 1),
        (["a", "a", "b"], 1, 3),
        (["a", "a", "a", "b"], 3, 6),
        (["a", "a", "b", "b"], 2, 6),
    ],
)
def test_agreement_on_an_item_is_the_share_of_pairs_that_agree(answers, pairs_that_agree, pairs):
    assert pairwise_agreement(answers) == pytest.approx(pairs_that_agree / pairs)
