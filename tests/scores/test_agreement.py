"""Coefficients of agreement against published worked examples and formulas written out again;
intervals against known formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def unfolded(counts):
    return [
        [category for category, count in zip("abcde", row, strict=True) for _ in range(int(count))]
        for row in counts
    ]


def units(observers):
    return [[value for value in unit if value != "."] for unit in zip(*observers, strict=True)]


def several(items):
    return [item for item in items if len(item) > 1]


def table(*cells):
    """Pairs of a two-by-two table: both yes, yes and no, no and yes, both no."""
    return [
        pair
        for pair, count in zip((("y", "y"), ("y", "n"), ("n", "y"), ("n", "n")), cells, strict=True)
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("coefficient", "items", "expected", "digits"),
    [
        (fleiss_kappa, unfolded(DIAGNOSES), 0.430, 3),  # Fleiss (1971)
        (krippendorff_alpha, several(units(OBSERVERS)), 0.743, 3),  # Krippendorff (2011), nominal
        (krippendorff_alpha, units(BINARY), 0.095, 3),
        (cohen_kappa, table(20, 5, 10, 15), 0.400, 3),
        (cohen_kappa, table(45, 15, 25, 15), 0.1304, 4),
        (cohen_kappa, table(1, 0, 0, 0), math.nan, 1),
        (cohen_kappa, [], math.nan, 1),
        (fleiss_kappa, [["a", "a"], ["a", "a"]], math.nan, 1),
        (krippendorff_alpha, [["a", "a", "a"], ["a", "a"]], math.nan, 1),
    ],
)
def test_published_examples(coefficient, items, expected, digits):
    assert round(coefficient(items), digits) == pytest.approx(expected, nan_ok=True)


def test_the_jackknife_of_a_mean_is_its_clustered_standard_error():
    random = np.random.default_rng(1)
    values, clusters = random.random(60).tolist(), [str(each % 20) for each in range(60)]
    found = measure_coefficient(values, clusters, lambda items: float(np.mean(items)))
    stderr = clustered_stderr(
        [Outcome(value, cluster) for value, cluster in zip(values, clusters, strict=True)]
    )
    assert found.value == pytest.approx(np.mean(values))
    assert (found.high - found.low) / 2 == pytest.approx(
        2.093024 * stderr, rel=1e-6
    )  # t with 19 degrees of freedom
    assert found.count == 60


@pytest.mark.parametrize(
    ("items", "clusters"),
    [
        ([("a", "b"), ("b", "a")], ["x", "x"]),
        ([("a", "a"), ("b", "b"), ("c", "c")] * 2, list("xyzxyz")),
    ],
)
def test_no_interval_where_there_is_nothing_to_leave_out(items, clusters):
    found = measure_coefficient(items, clusters, cohen_kappa)
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def of_two(sums: Sequence[float]) -> float:
    return ratio(*sums)


def test_shares_have_intervals_even_where_all_agree():
    rows, clusters = [(1, 1)] * 30, [str(each // 3) for each in range(30)]
    found = measure_share(rows, clusters, of_two)
    assert (found.value, found.high, found.count) == (1, 1, 30)
    assert found.low == pytest.approx(0.6915, abs=1e-4)  # 10 of 10, Clopper and Pearson
    assert measure_share([(1, 2), (1, 2)], ["x", "y"], of_two) == Measure(
        0.5, None, None, 2
    )  # no draw says anything of the spread
    assert measure_share([(0, 1)] * 3, list("xyz"), of_two).high == pytest.approx(
        1 - 0.025 ** (1 / 3)
    )
    assert measure_share([], [], of_two) == Measure(None, None, None, 0)
    assert measure_share([(0, 0)], ["x"], of_two) == Measure(None, None, None, 1)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [("aa", 1), ("ab", 0), ("aab", 1 / 3), ("aaab", 1 / 2), ("aabb", 1 / 3)],
)
def test_agreement_on_an_item(answers, expected):
    assert pairwise_agreement(list(answers)) == pytest.approx(expected)
