"""Samples of a submission are run again with its model, and compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError
from lm_factuality.leaderboard.rerun import RERUN_SUFFIX, _is_same_output, describe_rerun, rerun
from lm_factuality.leaderboard.site.build import BOARD_FILE, build_site
from lm_factuality.leaderboard.site.entries import digest_of
from tests.conftest import REPOSITORY, TASKS
from tests.leaderboard.conftest import Forger
from tests.leaderboard.reseal import reseal

CONFIGS = REPOSITORY / "configs" / "leaderboard"
CHECKPOINT = TASKS / "sample" / "models" / "smaller"


@pytest.fixture
def submission(honest, tmp_path):
    """Return a copy of the honest submission, in a folder of submissions."""
    return Path(shutil.copytree(honest, tmp_path / "submissions" / "own"))


def test_an_honest_submission_gives_the_same_outputs(submission, capsys):
    """Log-probabilities may differ by 0.1%, since machines round differently."""
    exit_code = main(["leaderboard", "rerun", str(submission), "--rows", "3", "--seed", "7"])

    output = " ".join(capsys.readouterr().out.split())
    assert exit_code == 0
    assert "task rows same outcome compared" in output
    assert "sample_factor 3 3 same log-probabilities, within 0.1%" in output
    assert "sample_felm_gen 3 3 same texts" in output


def test_a_rerun_is_written_beside_the_submission(submission):
    """A file within the submission would change the digest of its files."""
    digest = digest_of(submission)

    rerun(submission, 3, seed=7)

    written = json.loads(submission.with_name(f"own{RERUN_SUFFIX}").read_text(encoding="utf-8"))
    outcome_by_task = {task: outcome for task, _, _, outcome, _ in written["tasks"]}
    assert written["submission"] == digest
    assert digest_of(submission) == digest
    # The responses of this task are drawn at random.
    assert outcome_by_task["sample_ambigbio"] in ("sampled", "same")


def test_the_site_shows_a_rerun(submission, tmp_path):
    """Readers see which submissions somebody has repeated, and on how many rows of each task."""
    rerun(submission, 3, seed=7)

    build_site(submission.parent, tmp_path / "site")

    board = json.loads((tmp_path / "site" / BOARD_FILE).read_text(encoding="utf-8"))
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    shown_rerun = board["leaderboards"][0]["models"][0]["rerun"]
    assert "sample_factor same (3 of 3)" in shown_rerun
    assert f"Run again on {shown_rerun}" in page


def test_a_rerun_does_not_count_for_a_changed_submission(submission):
    """The submission was changed after the rerun."""
    rerun(submission, 3, seed=7)
    (submission / "notes.txt").write_text("x", encoding="utf-8")

    assert describe_rerun(submission, digest_of(submission)) == ""


def make_true_completions_likeliest(rows):
    """Invent a high log-probability of the true completion in each row of FACTOR."""
    for row in rows:
        responses = row["filtered_resps"]
        responses[row["doc"]["gold"]][0] = "-1.5"
        row["resps"] = [[response] for response in responses]


def test_invented_log_probabilities_differ(submission, capsys):
    """No check of files can find them, since the forger makes the scores follow from them."""
    Forger(submission).change_samples("sample_factor", make_true_completions_likeliest)
    reseal(submission)
    options = ["--rows", "2", "--model_args", f"pretrained={CHECKPOINT}"]

    exit_code = main(["leaderboard", "rerun", str(submission), *options])

    assert exit_code == 1
    assert "sample_factor 2 0 differs" in " ".join(capsys.readouterr().out.split())
    assert "sample_factor differs (0 of 2)" in describe_rerun(submission, digest_of(submission))


@pytest.fixture
def custom_rules(tmp_path):
    """Return a folder with a copy of the suite's rules, without run configs beside it."""
    return Path(shutil.copytree(CONFIGS / "rules", tmp_path / "rules"))


def test_a_rerun_by_custom_rules_needs_the_run_config_beside_them(submission, custom_rules):
    """The run config says how the model is run."""
    with pytest.raises(
        ConfigError, match="sample.yaml: no such file; expected the leaderboard's run config"
    ):
        rerun(submission, 1, rules=custom_rules)


def test_a_rerun_by_custom_rules_takes_the_run_config_beside_them(submission, custom_rules):
    """The run config lies in the folder above that of the rules."""
    shutil.copy(CONFIGS / "sample.yaml", custom_rules.parent)
    options = ["--rows", "1", "--rules", str(custom_rules)]

    exit_code = main(["leaderboard", "rerun", str(submission), *options])

    assert exit_code == 0


def test_a_rerun_by_rules_without_the_leaderboard_is_refused(submission, custom_rules, capsys):
    """The submission names its leaderboard, whose rules are needed to know its tasks."""
    (custom_rules / "sample.yaml").unlink()

    exit_code = main(["leaderboard", "rerun", str(submission), "--rules", str(custom_rules)])

    assert exit_code == 1
    assert "no leaderboard is called 'sample'" in capsys.readouterr().err


def test_a_rerun_of_no_rows_is_refused(submission):
    """Every submission would count as repeated."""
    with pytest.raises(ConfigError, match="--rows is 0"):
        rerun(submission, 0)


def test_refused_submission_is_not_rerun(submission):
    """Running a model takes hours, and the result would not be shown."""
    (submission / "more.txt").write_text("x", encoding="utf-8")

    with pytest.raises(ConfigError, match="FILE_EXTRA"):
        rerun(submission, 2)

    assert not submission.with_name(f"own{RERUN_SUFFIX}").exists()


def test_a_broken_file_of_a_rerun_is_ignored(submission):
    """A broken file must not take the submission off the board."""
    submission.with_name(f"own{RERUN_SUFFIX}").write_text('{"submission": 1}', encoding="utf-8")

    assert describe_rerun(submission, digest="1") == ""


@pytest.mark.parametrize(
    ("output", "other_output", "share", "is_same"),
    [
        pytest.param("-30.01", "-30.02", 1e-3, True, id="within 0.1%"),
        pytest.param("-30.01", "-31.02", 1e-3, False, id="not within 0.1%"),
        pytest.param("-30.01", "-31.02", 5e-2, True, id="within 5%"),
        pytest.param("12", "13", 5e-2, False, id="numbers of tokens"),
        pytest.param("True", "False", 1e-3, True, id="whether a completion is the likeliest"),
        pytest.param("None", "-3.5", 1e-3, False, id="one log-probability is missing"),
        pytest.param("a", "a", None, True, id="equal texts"),
        pytest.param("a", "b", None, False, id="unequal texts"),
        pytest.param("True", "False", None, False, id="unequal texts that look like flags"),
    ],
)
def test_outputs_match_within_a_relative_tolerance(output, other_output, share, is_same):
    """Numbers of tokens and texts have to be equal; only log-probabilities may differ."""
    assert _is_same_output(output, other_output, share) is is_same
