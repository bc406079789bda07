"""The simulation of corrected scores with fixed seeds and few trials; ``make bench-corrected`` has
them all."""

import pytest

from bench.corrected import DATA, Setting, biographies, felm, main, released, simulate

pytestmark = pytest.mark.skipif(
    not (DATA / "felm").is_dir(), reason="no published data beside the checkout"
)


@pytest.mark.parametrize(
    "setting",
    [
        Setting("segments with errors", "lenient", 200, "random"),
        Setting("segments with errors", "strict", 50, "stratified"),
        Setting("D-FActScore", "strict", 200, "random"),
        Setting("D-FActScore", "better on long ones", 50, "stratified"),
        Setting("responses with errors", "near chance", 50, "random"),
    ],
    ids=lambda setting: f"{setting.score}-{setting.judge}-{setting.labels}-{setting.draw}",
)
def test_intervals_hold_the_truth_and_the_judge_s_do_not(setting):
    found = simulate(setting, 150)
    assert 0.90 <= found.covered <= 1.0  # three standard errors below 95%
    assert found.uncorrected < 0.05
    if setting.labels == 200:
        assert found.width < found.alone


def test_clusters_are_drawn_whole():
    import numpy as np

    for pool in (felm(), biographies()):
        places, clusters = pool.draw(np.random.default_rng(1), 500)
        sizes = np.bincount(clusters)
        ends = np.cumsum(pool.sizes)
        for cluster, size in enumerate(sizes):
            own = places[clusters == cluster]
            assert size == pool.sizes[np.searchsorted(ends, own[0], side="right")]
            assert own[-1] - own[0] == size - 1
    assert max(biographies().sizes) > 1


def test_the_command_prints_a_line_a_setting(capsys):
    assert main(["--trials", "2", "--labels", "200"]) == 0
    assert capsys.readouterr().out.count("random") == 18


@pytest.mark.slow
def test_released_decisions_are_held_by_what_100_of_them_correct(tmp_path):
    for _, number, truth, judged, found in released(100, 300, tmp_path / "answers.sqlite"):
        assert number > 250
        assert abs(truth - judged) > 0.01
        assert found.covered >= 0.93
        assert found.uncorrected == 0
