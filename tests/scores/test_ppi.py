import json
import math
from pathlib import Path

import numpy as np
import pytest

from lm_factuality.scores.ppi import Estimate, Units, correct_by_labels, interval_within
from lm_factuality.scores.statistics import Outcome, clustered_stderr, mean

REFERENCE = json.loads(Path(__file__).with_name("ppi_reference.json").read_text(encoding="utf-8"))


def ratio(sums):
    return sums[0] / sums[1] if sums[1] else math.nan


def units(judged, people, labelled, clusters=None, strata=None, weights=None):
    number = len(judged)
    clusters = np.arange(number) if clusters is None else np.asarray(clusters)
    strata = np.zeros(number, int) if strata is None else np.asarray(strata)
    weights = np.ones(number) if weights is None else np.asarray(weights, float)
    ones = np.ones(number)
    return Units(
        np.stack([judged, ones], 1),
        np.stack([people, ones], 1),
        np.asarray(labelled, bool),
        clusters,
        strata,
        weights,
    )


def drawn(case):
    """The labelled units of a case of the reference come first."""
    judged = np.array(case["judged_labelled"] + case["judged_unlabelled"], float)
    people = np.array(case["people"] + [0] * len(case["judged_unlabelled"]), float)
    return units(judged, people, np.arange(len(judged)) < len(case["people"]))


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: case["name"])
def test_the_mean_of_independent_units_is_that_of_ppi_python(case):
    """Lambda there is of the unlabelled units alone, here of all, so that ours is (n + N) / N times
    theirs."""
    labelled, unlabelled = len(case["people"]), len(case["judged_unlabelled"])
    for given in case["given"]:
        found = correct_by_labels(
            drawn(case), ratio, judge_weight=given["lambda"] * (labelled + unlabelled) / unlabelled
        )
        assert found.value == pytest.approx(given["value"], abs=1e-9)
        assert found.stderr == pytest.approx(
            given["stderr"], rel=0.06
        )  # wider by leverage: 1 / n and more
    tuned = correct_by_labels(drawn(case), ratio)
    theirs = min(1.0, max(0.0, case["tuned"]["lambda"] * (labelled + unlabelled) / unlabelled))
    assert tuned.judge_weight == pytest.approx(theirs, abs=0.02)
    assert tuned.value == pytest.approx(case["tuned"]["value"], abs=2e-3)


def test_labels_on_everything_give_the_plain_score_of_people():
    random = np.random.default_rng(1)
    people, clusters = random.binomial(1, 0.3, 200).astype(float), random.integers(60, size=200)
    found = correct_by_labels(
        units(
            random.random(200), people, np.ones(200), np.unique(clusters, return_inverse=True)[1]
        ),
        ratio,
        0,
        1,
    )
    outcomes = [
        Outcome(value, str(cluster)) for value, cluster in zip(people, clusters, strict=True)
    ]
    assert found.value == pytest.approx(mean(outcomes), abs=1e-12)
    assert found.stderr == pytest.approx(clustered_stderr(outcomes), rel=1e-4)
    assert (found.judge_weight, found.num_labelled) == (0.0, 200)


def test_a_judge_who_is_always_right_is_believed_and_one_who_guesses_is_not():
    random = np.random.default_rng(2)
    truth, labelled = random.binomial(1, 0.4, 4000).astype(float), np.arange(4000) < 300
    right = correct_by_labels(units(truth, truth, labelled), ratio, 0, 1)
    guessed = correct_by_labels(units(random.binomial(1, 0.4, 4000), truth, labelled), ratio, 0, 1)
    alone = correct_by_labels(units(truth, truth, labelled), ratio, 0, 1, judge_weight=0.0)
    assert right.value == pytest.approx(truth.mean(), abs=2e-3)
    assert right.judge_weight > 0.95
    assert right.high - right.low < 0.4 * (alone.high - alone.low)
    assert guessed.judge_weight < 0.15


def test_no_disagreement_among_labels_does_not_mean_that_there_is_none():
    """Of 30 labels none differs from the judge; the interval is wider than that of the judge
    believed."""
    random = np.random.default_rng(3)
    truth = random.binomial(1, 0.5, 4000).astype(float)
    found = correct_by_labels(units(truth, truth, np.arange(4000) < 30), ratio, 0, 1)
    assert found.stderr > 1.5 * math.sqrt(0.25 / 4000)


def test_strata_are_weighted_by_their_units_and_not_by_their_labels():
    """Nine of ten units are in a stratum of which people find no error, half of the labels are in
    the other."""
    strata = np.repeat([0, 1], [900, 100])
    people = np.where(strata == 1, np.arange(1000) % 2, 0).astype(float)
    labelled = np.zeros(1000, bool)
    labelled[:20] = labelled[900:920] = True
    found = correct_by_labels(units(np.zeros(1000), people, labelled, strata=strata), ratio, 0, 1)
    assert found.value == pytest.approx(0.05, abs=1e-9)


def test_units_of_a_cluster_vary_together():
    random = np.random.default_rng(4)
    people = np.repeat(random.binomial(1, 0.5, 100), 10).astype(float)
    labelled, clusters = np.arange(1000) % 10 < 5, np.repeat(np.arange(100), 10)
    alone = correct_by_labels(units(np.zeros(1000), people, labelled), ratio, 0, 1)
    together = correct_by_labels(units(np.zeros(1000), people, labelled, clusters), ratio, 0, 1)
    assert together.value == alone.value
    assert together.stderr > 2 * alone.stderr


@pytest.mark.parametrize(
    ("labelled", "clusters"),
    [
        ([True] + [False] * 5, None),
        ([True, True] + [False] * 4, [0, 0, 1, 2, 3, 4]),
    ],
)
def test_fewer_than_two_labelled_clusters_correct_nothing(labelled, clusters):
    assert correct_by_labels(units(np.zeros(6), np.ones(6), labelled, clusters), ratio) is None


def test_a_score_that_is_not_defined_has_no_correction():
    assert (
        correct_by_labels(
            Units(
                *np.zeros((2, 6, 2)), np.ones(6, bool), np.arange(6), np.zeros(6, int), np.ones(6)
            ),
            ratio,
        )
        is None
    )


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


def test_an_interval_holds_its_value_whatever_the_labels_say():
    random = np.random.default_rng(5)
    for _ in range(200):
        number = int(random.integers(4, 40))
        given = units(
            random.binomial(1, random.random(), number),
            random.binomial(1, random.random(), number),
            random.random(number) < 0.6,
            np.unique(random.integers(number, size=number), return_inverse=True)[1],
            random.integers(3, size=number),
            random.random(number) + 0.5,
        )
        found = correct_by_labels(given, ratio, 0, 1)
        assert found is None or (
            isinstance(found, Estimate) and 0 <= found.low <= found.value <= found.high <= 1
        )


def test_labels_that_are_all_alike_do_not_make_a_score_certain():
    """Of 20 labels none has an error, whatever the judge says: no narrower than the exact interval
    of 0 of 20 (Clopper, Pearson)."""
    for judged in (np.zeros(4000), np.arange(4000) % 20 == 19):
        found = correct_by_labels(
            units(judged.astype(float), np.zeros(4000), np.arange(4000) < 20), ratio, 0, 1
        )
        assert (found.value, found.low) == (0, 0)
        assert found.high == pytest.approx(1 - 0.025 ** (1 / 20), abs=1e-3)
    right = correct_by_labels(
        units(np.ones(4000), np.ones(4000), np.arange(4000) < 20), ratio, 0, 1
    )
    assert (right.low, right.high) == (pytest.approx(0.025 ** (1 / 20), abs=1e-3), 1)
    strata = np.append(np.zeros(100, int), 1)  # one unit has an error, and it is all of its stratum
    most = correct_by_labels(
        units(np.arange(101) > 99, strata, (np.arange(101) < 20) | (strata == 1), strata=strata),
        ratio,
        0,
        1,
    )
    assert most.high == pytest.approx(most.value + 80 / 101 * (1 - 0.025 ** (1 / 20)), abs=1e-3)
