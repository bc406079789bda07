"""Scores corrected by labels, against ppi-python and known cases."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lm_factuality.scores.ppi import Estimate, Units, correct_by_labels, interval_within
from lm_factuality.scores.statistics import Outcome, clustered_stderr, mean

REFERENCE = json.loads(Path(__file__).with_name("ppi_reference.json").read_text(encoding="utf-8"))


def ratio(sums):
    """Return the mean, whose sums are those of values and of units."""
    return sums[0] / sums[1] if sums[1] else math.nan


def make_units(judged, people, is_labelled, clusters=None, strata=None, weights=None):
    """Return units of one value each, by default independent, in one stratum and of weight 1.

    Args:
        judged: The judge's value of each unit.
        people: People's value of each unit, which counts only where it is labelled.
        is_labelled: Whether people labelled each unit.
        clusters: The cluster of each unit.
        strata: The stratum of each unit.
        weights: One over the probability with which each unit was drawn.
    """
    num_units = len(judged)
    ones = np.ones(num_units)
    return Units(
        judge_counts=np.stack([judged, ones], axis=1),
        people_counts=np.stack([people, ones], axis=1),
        is_labelled=np.asarray(is_labelled, bool),
        clusters=np.arange(num_units) if clusters is None else np.asarray(clusters),
        strata=np.zeros(num_units, int) if strata is None else np.asarray(strata),
        weights=ones if weights is None else np.asarray(weights, float),
    )


def first_labelled(num_labelled, num_units):
    """Return whether each unit is labelled, if the first ones are."""
    return np.arange(num_units) < num_labelled


def reference_units(case):
    """Return the units of a case of the reference, the labelled ones first."""
    num_labelled = len(case["people"])
    num_unlabelled = len(case["judged_unlabelled"])
    judged = np.array(case["judged_labelled"] + case["judged_unlabelled"], float)
    people = np.array(case["people"] + [0] * num_unlabelled, float)
    return make_units(judged, people, first_labelled(num_labelled, len(judged)))


def judge_weight_of(case, reference_lambda):
    """Return our weight of the judge for a lambda of ppi-python.

    Lambda is of the unlabelled units alone, and our weight of all units.
    """
    num_labelled = len(case["people"])
    num_unlabelled = len(case["judged_unlabelled"])
    return reference_lambda * (num_labelled + num_unlabelled) / num_unlabelled


each_case = pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: case["name"])


@each_case
def test_the_mean_of_independent_units_is_that_of_ppi_python(case):
    for expected in case["given"]:
        judge_weight = judge_weight_of(case, expected["lambda"])

        estimate = correct_by_labels(reference_units(case), ratio, judge_weight=judge_weight)

        assert estimate.value == pytest.approx(expected["value"], abs=1e-9)
        # Ours is wider by leverage, i.e. by 1/n and more.
        assert estimate.stderr == pytest.approx(expected["stderr"], rel=0.06)


@each_case
def test_the_best_weight_of_the_judge_is_that_of_ppi_python(case):
    expected = case["tuned"]

    estimate = correct_by_labels(reference_units(case), ratio)

    expected_weight = np.clip(judge_weight_of(case, expected["lambda"]), 0.0, 1.0)
    assert estimate.judge_weight == pytest.approx(expected_weight, abs=0.02)
    assert estimate.value == pytest.approx(expected["value"], abs=2e-3)


def test_labels_on_everything_give_the_plain_score_of_people():
    random = np.random.default_rng(1)
    people = random.binomial(1, 0.3, 200).astype(float)
    clusters = random.integers(60, size=200)
    cluster_numbers = np.unique(clusters, return_inverse=True)[1]
    units = make_units(random.random(200), people, np.ones(200), cluster_numbers)

    estimate = correct_by_labels(units, ratio, 0, 1)

    outcomes = [
        Outcome(value, str(cluster)) for value, cluster in zip(people, clusters, strict=True)
    ]
    assert estimate.value == pytest.approx(mean(outcomes), abs=1e-12)
    assert estimate.stderr == pytest.approx(clustered_stderr(outcomes), rel=1e-4)
    assert estimate.judge_weight == 0.0
    assert estimate.num_labelled == 200


@pytest.fixture
def truth():
    """Return the value of each of 4000 units, of which 40% have an error."""
    return np.random.default_rng(2).binomial(1, 0.4, 4000).astype(float)


def test_a_judge_who_is_always_right_narrows_the_interval(truth):
    units = make_units(truth, truth, first_labelled(300, 4000))

    estimate = correct_by_labels(units, ratio, 0, 1)
    without_judge = correct_by_labels(units, ratio, 0, 1, judge_weight=0.0)

    assert estimate.value == pytest.approx(truth.mean(), abs=2e-3)
    assert estimate.judge_weight > 0.95
    assert estimate.high - estimate.low < 0.4 * (without_judge.high - without_judge.low)


def test_a_judge_who_guesses_has_little_weight(truth):
    guesses = np.random.default_rng(6).binomial(1, 0.4, 4000)

    estimate = correct_by_labels(make_units(guesses, truth, first_labelled(300, 4000)), ratio, 0, 1)

    assert estimate.judge_weight < 0.15


def test_the_judge_is_not_taken_for_perfect_if_few_labels_agree():
    truth = np.random.default_rng(3).binomial(1, 0.5, 4000).astype(float)

    estimate = correct_by_labels(make_units(truth, truth, first_labelled(30, 4000)), ratio, 0, 1)

    stderr_of_perfect_judge = math.sqrt(0.5 * 0.5 / 4000)
    assert estimate.stderr > 1.5 * stderr_of_perfect_judge


def test_strata_count_by_their_units_and_not_by_their_labels():
    strata = np.repeat([0, 1], [900, 100])
    # People find no error in the first stratum, and one in every second unit of the other.
    people = np.where(strata == 1, np.arange(1000) % 2, 0).astype(float)
    is_labelled = np.zeros(1000, bool)
    is_labelled[:20] = True
    is_labelled[900:920] = True
    units = make_units(np.zeros(1000), people, is_labelled, strata=strata)

    estimate = correct_by_labels(units, ratio, 0, 1)

    assert estimate.value == pytest.approx(0.1 * 0.5, abs=1e-9)


def test_units_of_a_cluster_vary_together():
    people = np.repeat(np.random.default_rng(4).binomial(1, 0.5, 100), 10).astype(float)
    is_labelled = np.arange(1000) % 10 < 5
    clusters = np.repeat(np.arange(100), 10)

    alone = correct_by_labels(make_units(np.zeros(1000), people, is_labelled), ratio, 0, 1)
    together = correct_by_labels(
        make_units(np.zeros(1000), people, is_labelled, clusters), ratio, 0, 1
    )

    assert together.value == alone.value
    assert together.stderr > 2 * alone.stderr


@pytest.mark.parametrize(
    ("is_labelled", "clusters"),
    [
        pytest.param([True] + [False] * 5, None, id="one unit"),
        pytest.param([True, True] + [False] * 4, [0, 0, 1, 2, 3, 4], id="two units of a cluster"),
    ],
)
def test_fewer_than_two_labelled_clusters_correct_nothing(is_labelled, clusters):
    units = make_units(np.zeros(6), np.ones(6), is_labelled, clusters)

    assert correct_by_labels(units, ratio) is None


def test_a_score_that_is_not_defined_has_no_correction():
    units = Units(
        judge_counts=np.zeros((6, 2)),
        people_counts=np.zeros((6, 2)),
        is_labelled=np.ones(6, bool),
        clusters=np.arange(6),
        strata=np.zeros(6, int),
        weights=np.ones(6),
    )

    assert correct_by_labels(units, ratio) is None


@pytest.mark.parametrize(
    ("value", "stderr", "low", "high"),
    [
        (0.5, 0.1, 0.3100, 0.6900),
        (0.9, 0.03, 0.8221, 0.9460),
        (0.97, 0.1, 0.77, 1.0),
        (-0.02, 0.005, 0.0, 0.0),
        (0.4, 0.0, 0.4, 0.4),
    ],
)
def test_intervals_stay_in_the_range(value, stderr, low, high):
    assert interval_within(value, 2 * stderr, 0, 1) == pytest.approx((low, high), abs=2e-3)


@pytest.mark.parametrize("seed", range(200))
def test_an_interval_contains_its_value_whatever_the_labels(seed):
    random = np.random.default_rng(seed)
    num_units = int(random.integers(4, 40))
    units = make_units(
        judged=random.binomial(1, random.random(), num_units),
        people=random.binomial(1, random.random(), num_units),
        is_labelled=random.random(num_units) < 0.6,
        clusters=np.unique(random.integers(num_units, size=num_units), return_inverse=True)[1],
        strata=random.integers(3, size=num_units),
        weights=random.random(num_units) + 0.5,
    )

    estimate = correct_by_labels(units, ratio, 0, 1)

    if estimate is not None:
        assert isinstance(estimate, Estimate)
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


# The exact bound of 0 of 20 at 97.5% (Clopper and Pearson, 1934).
BOUND_OF_20_ALIKE = 1 - 0.025 ** (1 / 20)


@pytest.mark.parametrize(
    "judged",
    [np.zeros(4000), (np.arange(4000) % 20 == 19).astype(float)],
    ids=["judge finds none", "judge finds some"],
)
def test_20_labels_without_an_error_give_the_exact_interval(judged):
    units = make_units(judged, np.zeros(4000), first_labelled(20, 4000))

    estimate = correct_by_labels(units, ratio, 0, 1)

    assert estimate.value == 0
    assert estimate.low == 0
    assert estimate.high == pytest.approx(BOUND_OF_20_ALIKE, abs=1e-3)


def test_20_labels_with_errors_only_give_the_exact_interval():
    units = make_units(np.ones(4000), np.ones(4000), first_labelled(20, 4000))

    estimate = correct_by_labels(units, ratio, 0, 1)

    assert estimate.low == pytest.approx(1 - BOUND_OF_20_ALIKE, abs=1e-3)
    assert estimate.high == 1


def test_labels_that_are_alike_give_the_exact_interval_beside_a_stratum_of_one_unit():
    # The last unit has an error, and is all of its stratum.
    is_last = np.arange(101) == 100
    is_labelled = first_labelled(20, 101) | is_last
    units = make_units(is_last, is_last.astype(int), is_labelled, strata=is_last.astype(int))

    estimate = correct_by_labels(units, ratio, 0, 1)

    # 80 of 101 units have no label.
    expected = estimate.value + 80 / 101 * BOUND_OF_20_ALIKE
    assert estimate.high == pytest.approx(expected, abs=1e-3)
