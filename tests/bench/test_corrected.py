"""The simulation of corrected scores, with few trials (``make bench-corrected`` has all of them)."""

import numpy as np
import pytest

from bench.corrected import (
    DATA,
    Setting,
    biographies_pool,
    felm_pool,
    main,
    simulate,
    simulate_released,
)

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
    ids=lambda setting: (
        f"{setting.score}, {setting.judge}, {setting.num_labels} {setting.sampling}"
    ),
)
def test_only_corrected_intervals_contain_the_truth(setting):
    """A biased judge gives a wrong score with a narrow interval, and people's labels correct it.

    A 95% interval should contain the truth in 95% of 150 trials. 90% is three standard errors less.
    """
    coverage = simulate(setting, trials=150)

    assert coverage.corrected >= 0.90
    assert coverage.uncorrected < 0.05


def test_a_judge_makes_intervals_narrower_than_200_labels_alone():
    """Otherwise the judge would be of no use beside the labels."""
    setting = Setting("segments with errors", "lenient", 200, "random")

    coverage = simulate(setting, trials=50)

    assert coverage.width < coverage.width_of_labels


@pytest.mark.parametrize("read_pool", [felm_pool, biographies_pool])
def test_clusters_are_drawn_whole(read_pool):
    """Rows of one document depend on each other, and intervals count on seeing all of them.

    In the pool, the rows of a cluster follow one another.
    """
    pool = read_pool()

    indices, clusters = pool.draw(np.random.default_rng(1), 500)

    cluster_in_pool = np.repeat(np.arange(len(pool.cluster_sizes)), pool.cluster_sizes)
    for cluster in np.unique(clusters):
        drawn_members = indices[clusters == cluster]
        all_members = np.flatnonzero(cluster_in_pool == cluster_in_pool[drawn_members[0]])
        assert drawn_members.tolist() == all_members.tolist()


def test_biographies_of_one_name_share_a_cluster():
    """They are judged by the same pages."""
    assert max(biographies_pool().cluster_sizes) > 1


def test_the_command_prints_a_line_for_each_setting(capsys):
    """Labels of 3 scores and 6 judges are drawn at random, which makes 18 settings."""
    exit_code = main(["--trials", "2", "--labels", "200"])

    assert exit_code == 0
    assert capsys.readouterr().out.count("random") == 3 * 6


@pytest.mark.slow
def test_100_released_decisions_correct_the_offline_judge(tmp_path):
    """The judge is off by more than a point here, and its own interval never contains the truth."""
    for score in simulate_released(100, 300, tmp_path / "answers.sqlite"):
        assert score.num_responses > 250
        assert abs(score.released - score.by_judge) > 0.01
        assert score.coverage.corrected >= 0.93
        assert score.coverage.uncorrected == 0
