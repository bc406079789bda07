"""The simulation of corrected means, with few replications."""

import numpy as np
import pytest

from bench.coverage_corrected import NUM_ROWS, Setting, all_settings, draw_labels, simulate


@pytest.mark.parametrize(
    "setting",
    [
        Setting(0.05, True, 50, 0.3, False),
        Setting(0.2, False, 20, 0.3, True),
        Setting(0.2, False, 200, 0.03, True),
        Setting(0.4, False, 200, 0.98, True),
        Setting(0.2, True, 50, 0.3, False, cluster_size=10),
    ],
    ids=str,
)
def test_intervals_contain_the_truth(setting):
    cell = simulate(setting, replications=300)

    # Three standard errors of 300 replications below 93%.
    assert cell.coverage >= 0.886


@pytest.mark.parametrize("truth", [0.03, 0.3, 0.98])
def test_a_judge_near_chance_does_not_widen_intervals(truth):
    cell = simulate(Setting(0.4, True, 20, truth, False), replications=200)

    assert cell.width_to_labels <= 1.02


def test_a_good_judge_narrows_intervals():
    cell = simulate(Setting(0.05, True, 50, 0.3, False), replications=50)

    assert cell.width_to_labels < 0.6


@pytest.mark.parametrize(
    ("num_called_wrong", "num_labels", "labelled_of_these"),
    [(300, 50, 25), (10, 50, 10), (990, 50, 40), (300, NUM_ROWS, 300)],
)
def test_half_of_the_labels_are_of_rows_that_the_judge_calls_wrong(
    num_called_wrong, num_labels, labelled_of_these
):
    judged = np.arange(NUM_ROWS) < num_called_wrong
    setting = Setting(0.2, True, num_labels, 0.3, by_verdict=True)

    is_labelled = draw_labels(np.random.default_rng(1), setting, judged)

    assert is_labelled.sum() == num_labels
    assert is_labelled[judged].sum() == labelled_of_these


def test_the_grid_has_144_settings_of_independent_rows():
    assert sum(setting.cluster_size == 1 for setting in all_settings()) == 144
