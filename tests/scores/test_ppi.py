"""Scores corrected by labels, against ppi-python and known cases."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lm_factuality.scores.intervals import mean_interval, wilson_interval
from lm_factuality.scores.ppi import (
    Units,
    correct_by_labels,
    corrected_mean,
)

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


def is_among_first(count, num_units):
    """Return whether each of ``num_units`` units is among the first ``count``."""
    return np.arange(num_units) < count


def reference_units(case):
    """Return the units of a case of the reference, the labelled ones first."""
    num_labelled = len(case["people"])
    num_unlabelled = len(case["judged_unlabelled"])
    judged = np.array(case["judged_labelled"] + case["judged_unlabelled"], float)
    people = np.array(case["people"] + [0] * num_unlabelled, float)
    return make_units(judged, people, is_among_first(num_labelled, len(judged)))


def judge_weight_of(case, reference_lambda):
    """Return our weight of the judge for a lambda of ppi-python.

    Lambda is of the unlabelled units alone, and our weight of all units.
    """
    num_labelled = len(case["people"])
    num_unlabelled = len(case["judged_unlabelled"])
    return reference_lambda * (num_labelled + num_unlabelled) / num_unlabelled


each_case = pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: case["name"])


@each_case
@pytest.mark.parametrize("reference_lambda", [0.0, 0.5, 0.9])
def test_corrected_mean_equals_that_of_ppi_python(case, reference_lambda):
    """ppi-python is by the authors of the method, and computed ``ppi_reference.json``."""
    (reference,) = [result for result in case["given"] if result["lambda"] == reference_lambda]
    judge_weight = judge_weight_of(case, reference_lambda)

    estimate = correct_by_labels(reference_units(case), ratio, judge_weight=judge_weight)

    assert estimate.value == pytest.approx(reference["value"], abs=1e-9)
    # Our standard error is larger, since it makes up for the small number of labels.
    assert estimate.stderr == pytest.approx(reference["stderr"], rel=0.06)


@each_case
def test_judge_has_at_most_the_weight_that_ppi_python_gives_it(case):
    """Our choice of the weight may trust the judge less than theirs, but not more."""
    reference = case["tuned"]

    estimate = correct_by_labels(reference_units(case), ratio)

    reference_weight = min(judge_weight_of(case, reference["lambda"]), 1.0)
    # ppi-python divides by the number of units less one, which makes a difference of up to 0.01.
    highest_weight = reference_weight + 0.01
    # Our weight is smaller, above all if there are few labels.
    lowest_weight = reference_weight - 0.15
    assert lowest_weight < estimate.judge_weight < highest_weight
    assert estimate.value == pytest.approx(reference["value"], abs=0.02)


def test_fully_labelled_data_have_the_interval_of_the_labels():
    """If people labelled all rows, the judge has nothing to add."""
    random = np.random.default_rng(1)
    people = random.binomial(1, 0.3, 200).tolist()
    clusters = random.integers(60, size=200).tolist()
    judged = random.random(200).tolist()

    estimate = corrected_mean(judged, people, clusters, strata=people)

    assert estimate.value == pytest.approx(np.mean(people), abs=1e-12)
    assert (estimate.low, estimate.high) == pytest.approx(mean_interval(people, clusters))
    assert estimate.judge_weight == 0.0
    assert estimate.num_labelled == 200


def draw_errors(seed, error_rate):
    """Draw for each of 4000 units whether it has an error: 1.0 or 0.0."""
    return np.random.default_rng(seed).binomial(1, error_rate, 4000).astype(float)


def test_perfect_judge_narrows_the_interval():
    """The verdicts of such a judge on 4000 units are worth almost as much as 4000 labels."""
    truth = draw_errors(seed=2, error_rate=0.4)
    units = make_units(judged=truth, people=truth, is_labelled=is_among_first(300, 4000))

    with_judge = correct_by_labels(units, ratio, low=0, high=1)
    without_judge = correct_by_labels(units, ratio, low=0, high=1, judge_weight=0.0)

    assert with_judge.value == pytest.approx(truth.mean(), abs=2e-3)
    assert with_judge.judge_weight > 0.95
    # 4000 labels in place of 300 would narrow it to sqrt(300 / 4000) = 0.27 of its width.
    assert with_judge.high - with_judge.low < 0.4 * (without_judge.high - without_judge.low)


def test_guessing_judge_has_little_weight():
    """Guesses would only add noise to the labels."""
    truth = draw_errors(seed=2, error_rate=0.4)
    guesses = draw_errors(seed=6, error_rate=0.4)
    units = make_units(judged=guesses, people=truth, is_labelled=is_among_first(300, 4000))

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    assert estimate.judge_weight < 0.15


def test_a_few_agreeing_labels_do_not_make_the_judge_perfect():
    """A judge with a few percent of errors could well agree with 30 labels."""
    truth = draw_errors(seed=3, error_rate=0.5)
    units = make_units(judged=truth, people=truth, is_labelled=is_among_first(30, 4000))

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    stderr_of_perfect_judge = math.sqrt(0.5 * 0.5 / 4000)
    assert estimate.stderr > 1.5 * stderr_of_perfect_judge


def test_strata_are_weighted_by_units_and_not_by_labels():
    """Each stratum has 20 labels, but the second has only a tenth of all units."""
    strata = np.repeat([0, 1], [900, 100])
    # People find no error in the first stratum, and one in every second unit of the other.
    people = np.where(strata == 1, np.arange(1000) % 2, 0).astype(float)
    is_labelled = np.zeros(1000, bool)
    is_labelled[:20] = True
    is_labelled[900:920] = True
    units = make_units(judged=np.zeros(1000), people=people, is_labelled=is_labelled, strata=strata)

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    # The second stratum is a tenth of all units, and half of them have an error.
    assert estimate.value == pytest.approx(0.1 * 0.5, abs=1e-9)


def test_cluster_members_count_as_dependent():
    """The ten units of a cluster are alike here, so 500 labels tell little more than 100 would."""
    people = np.repeat(np.random.default_rng(4).binomial(1, 0.5, 100), 10).astype(float)
    is_labelled = np.arange(1000) % 10 < 5
    clusters = np.repeat(np.arange(100), 10)
    judged = np.zeros(1000)
    independent_units = make_units(judged, people, is_labelled)
    clustered_units = make_units(judged, people, is_labelled, clusters=clusters)

    if_independent = correct_by_labels(independent_units, ratio, low=0, high=1)
    if_clustered = correct_by_labels(clustered_units, ratio, low=0, high=1)

    assert if_clustered.value == if_independent.value
    assert if_clustered.stderr > 2 * if_independent.stderr


@pytest.mark.parametrize(
    ("is_labelled", "clusters"),
    [
        pytest.param([True] + [False] * 5, None, id="one unit"),
        pytest.param([True, True] + [False] * 4, [0, 0, 1, 2, 3, 4], id="two units of a cluster"),
    ],
)
def test_fewer_than_two_labelled_clusters_give_no_correction(is_labelled, clusters):
    """One cluster does not show how much clusters differ."""
    units = make_units(
        judged=np.zeros(6), people=np.ones(6), is_labelled=is_labelled, clusters=clusters
    )

    assert correct_by_labels(units, ratio) is None


def test_undefined_score_has_no_correction():
    """The ratio divides 0 by 0 if all counts are 0."""
    units = Units(
        judge_counts=np.zeros((6, 2)),
        people_counts=np.zeros((6, 2)),
        is_labelled=np.ones(6, bool),
        clusters=np.arange(6),
        strata=np.zeros(6, int),
        weights=np.ones(6),
    )

    assert correct_by_labels(units, ratio) is None


@pytest.mark.parametrize("seed", range(200))
def test_corrected_interval_always_contains_its_value(seed):
    """We draw sizes, labels, clusters, strata and weights, to find cases that nobody thought of."""
    random = np.random.default_rng(seed)
    num_units = int(random.integers(4, 40))
    error_rate_by_judge = random.random()
    judged = random.binomial(1, error_rate_by_judge, num_units)
    error_rate_by_people = random.random()
    people = random.binomial(1, error_rate_by_people, num_units)
    is_labelled = random.random(num_units) < 0.6
    # Clusters are numbered without gaps.
    _, clusters = np.unique(random.integers(num_units, size=num_units), return_inverse=True)
    strata = random.integers(3, size=num_units)
    weights = random.random(num_units) + 0.5
    units = make_units(judged, people, is_labelled, clusters, strata, weights)

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    if estimate is None:
        assert len(set(clusters[is_labelled])) < 2
    else:
        assert 0 <= estimate.low <= estimate.value + 1e-12
        assert estimate.value - 1e-12 <= estimate.high <= 1


@pytest.mark.parametrize(
    "judged",
    [np.zeros(4000), (np.arange(4000) % 20 == 19).astype(float)],
    ids=["judge finds no error", "judge finds an error in every 20th unit"],
)
def test_20_labels_without_an_error_give_wilsons_interval(judged):
    """Labels that all agree have no spread from which the correction's interval could be made."""
    units = make_units(judged, people=np.zeros(4000), is_labelled=is_among_first(20, 4000))

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    assert estimate.value == 0
    assert (estimate.low, estimate.high) == pytest.approx(wilson_interval(0, 20))


def test_20_labels_with_errors_only_give_wilsons_interval():
    """Labels that all agree have no spread from which the correction's interval could be made."""
    units = make_units(
        judged=np.ones(4000), people=np.ones(4000), is_labelled=is_among_first(20, 4000)
    )

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    assert (estimate.low, estimate.high) == pytest.approx(wilson_interval(1, 20))


@pytest.fixture
def estimate_of_two_strata():
    """Correct a score by 50 labels in a stratum of 900 units and 50 in a stratum of 100.

    People find no error in the large stratum, and one in every second unit of the small one. So
    the value is 0.1 * 0.5 = 0.05.
    """
    is_in_small_stratum = np.repeat([0, 1], [900, 100])
    place_in_stratum = np.concatenate([np.arange(900), np.arange(100)])
    people = np.where(is_in_small_stratum == 1, place_in_stratum % 2, 0).astype(float)
    units = make_units(
        judged=is_in_small_stratum,
        people=people,
        is_labelled=place_in_stratum < 50,
        strata=is_in_small_stratum,
    )
    return correct_by_labels(units, ratio, low=0, high=1)


def test_a_stratum_without_an_error_leaves_room_for_errors(estimate_of_two_strata):
    """50 labels without an error do not show that all 900 units are right."""
    estimate = estimate_of_two_strata

    assert estimate.value == pytest.approx(0.1 * 0.5)  # the errors of the small stratum
    # If 2% of the large stratum had an error, 50 labels would show none with a probability of 36%.
    assert estimate.high > 0.05 + 0.9 * 0.02


def test_a_stratum_without_an_error_does_not_lower_the_interval(estimate_of_two_strata):
    """What is unknown in the large stratum can only add errors."""
    # The standard error from 50 labels in the small stratum, which is a tenth of all units.
    stderr = 0.1 * math.sqrt(0.5 * 0.5 / 49)
    assert estimate_of_two_strata.low > 0.05 - 2.5 * stderr


def test_identical_labels_in_uneven_strata_count_as_fewer_trials():
    """50 labels tell less if some of them stand for more units than others."""
    strata = np.repeat([0, 1], [900, 100])
    is_labelled = np.concatenate([is_among_first(25, 900), is_among_first(25, 100)])
    no_errors = np.zeros(1000)
    errors_in_second_stratum = (strata == 1).astype(float)
    units = make_units(
        judged=errors_in_second_stratum, people=no_errors, is_labelled=is_labelled, strata=strata
    )

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    # 25 labels stand for 900 / 25 = 36 units each, and 25 for 100 / 25 = 4 units each. Kish's
    # effective number is the squared sum of these weights by the sum of their squares.
    effective_trials = 1000**2 / (25 * 36**2 + 25 * 4**2)  # 30.5
    assert estimate.high == pytest.approx(wilson_interval(0, effective_trials).high, abs=2e-3)


def test_a_judge_who_agrees_by_chance_has_no_weight():
    """40 labels do not show that such a judge is better than chance."""
    # The judge finds two of four errors, and calls 12 of 36 right units wrong.
    people = [1] * 2 + [1] * 2 + [0] * 12 + [0] * 24
    judged = [1] * 2 + [0] * 2 + [1] * 12 + [0] * 24
    units = make_units(judged * 25, people * 25, is_labelled=is_among_first(40, 40 * 25))

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    assert estimate.judge_weight == 0
    assert (estimate.low, estimate.high) == pytest.approx(wilson_interval(4 / 40, 40))


def test_a_correction_beyond_the_bounds_is_left_out():
    """The correction would give an error rate below 0 here, so only the labels count."""
    # Of 100 labelled units, the judge calls 50 wrong and people only 5. The judge finds no error
    # in the other 900 units.
    units = make_units(
        judged=is_among_first(50, 1000),
        people=is_among_first(5, 1000),
        is_labelled=is_among_first(100, 1000),
    )
    without_bounds = correct_by_labels(units, ratio)
    assert without_bounds.value < 0

    estimate = correct_by_labels(units, ratio, low=0, high=1)

    assert estimate.value == pytest.approx(5 / 100)
    assert estimate.judge_weight == 0


def test_corrected_mean_equals_the_corrected_ratio_with_unit_weights():
    """The short form for values has to agree with the general one for counts."""
    judged = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    labels = [0, 1, 1, None, None, None]

    estimate = corrected_mean(judged, labels, clusters=["a", "b", "c", "a", "b", "c"])

    units = make_units(
        judged=judged,
        people=[0, 1, 1, 0, 0, 0],
        is_labelled=[True, True, True, False, False, False],
        clusters=[0, 1, 2, 0, 1, 2],
    )
    assert estimate == correct_by_labels(units, ratio, low=0, high=1)


def test_corrected_mean_weights_strata_by_their_size():
    """Without strata, 4 of 6 labels would give an error rate of 67%."""
    labels_of_first_stratum = [1, 1, 1, 1]
    labels_of_second_stratum = [0, 0] + [None] * 94
    labels = labels_of_first_stratum + labels_of_second_stratum
    strata = ["first"] * 4 + ["second"] * 96

    estimate = corrected_mean([0.0] * 100, labels, strata=strata)

    assert estimate.value == pytest.approx(4 / 100)


@pytest.mark.parametrize(
    ("judged", "labels", "clusters"),
    [
        pytest.param([], [], None, id="no rows"),
        pytest.param([0.0, 1.0, 0.0], [None, None, None], None, id="no labels"),
        pytest.param([0.0, 1.0, 0.0], [1, None, None], None, id="one label"),
        pytest.param([0.0, 1.0, 0.0], [1, 0, None], ["a", "a", "b"], id="labels of one cluster"),
        pytest.param([0.0, 1.0, 0.0], [1, math.nan, None], None, id="label that is not a number"),
        pytest.param([0.0, 1.0, 0.0], [math.inf, -math.inf, None], None, id="infinite labels"),
        pytest.param([math.nan, 1.0, 0.0], [1, 0, None], None, id="NaN by the judge"),
    ],
)
def test_undefined_corrected_mean_is_none(judged, labels, clusters):
    """A command then prints no score, where NaN would look like a result."""
    assert corrected_mean(judged, labels, clusters) is None


@pytest.mark.parametrize("weight", [0.0, math.nan])
def test_labels_without_a_weight_give_no_estimate(weight):
    """The sum of the weights is then 0 or NaN, by which nothing can be divided."""
    judged = [0.0, 1.0, 0.0, 1.0]
    is_labelled = [True, True, True, False]
    units = make_units(judged, judged, is_labelled, weights=[weight] * 4)

    assert correct_by_labels(units, ratio, low=0, high=1) is None
