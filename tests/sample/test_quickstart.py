"""The embedded default: what the first command prints, and what it claims."""

from __future__ import annotations

import json
import re

import pytest

from lm_factuality.benchmarks.biographies.types import read_verdicts
from lm_factuality.cli import main
from lm_factuality.sample.quickstart import (
    CHECKPOINTS,
    judge_sample,
    run_checkpoints,
)
from tests.conftest import TASKS


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Return the scores of the two models that come with the suite, by name."""
    folder = tmp_path_factory.mktemp("quickstart")
    return {score.checkpoint: score for score in run_checkpoints(folder)}


def test_larger_model_beats_the_smaller_and_both_beat_chance(scores):
    """A benchmark whose scores do not grow with knowledge would measure something else."""
    larger, smaller = scores["larger"].accuracy, scores["smaller"].accuracy

    assert larger.value >= 0.60
    assert larger.value >= smaller.value + 0.05
    assert smaller.low > 1 / 4  # a guess among four choices
    assert larger.unscored == smaller.unscored == 0
    assert larger.n >= 300


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_interval_of_a_model_is_about_two_standard_errors_to_each_side(scores, name):
    """With more than 300 rows the interval is close to that of a normal distribution."""
    accuracy = scores[name].accuracy

    assert accuracy.low < accuracy.value < accuracy.high
    width = accuracy.high - accuracy.low
    assert width == pytest.approx(2 * 1.96 * accuracy.stderr, rel=0.1)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Return the folder with the judged biographies, and their comparison with the truth."""
    folder = tmp_path_factory.mktemp("judged")
    return folder, judge_sample(folder)


@pytest.mark.parametrize(
    ("name", "largest_error", "correlation_in_paper"),
    [
        pytest.param("D-FActScore", 0.05, 0.75),
        pytest.param("biographies", 0.1, 0.8, id="number of biographies"),
        pytest.param("entities", 0.1, 0.8, id="number of entities"),
    ],
)
def test_the_offline_judge_comes_near_the_truth(judged, name, largest_error, correlation_in_paper):
    """The correlations are those between people and the paper's pipeline (section 5.2)."""
    _, sample = judged
    comparison_by_name = {comparison.name: comparison for comparison in sample.comparisons}

    comparison = comparison_by_name[name]

    assert abs(comparison.judge - comparison.truth) < largest_error
    assert comparison.pearson > correlation_in_paper
    assert comparison.responses > 90


def test_verdicts_of_all_biographies_are_written(judged):
    """Each line also says by which protocol and linking the biography was judged."""
    folder, sample = judged

    verdicts = read_verdicts(folder / "verdicts.jsonl")

    assert len(verdicts) == sample.num_biographies
    assert {verdict["protocol"] for verdict in verdicts} == {"paper"}
    assert {verdict["linking"] for verdict in verdicts} == {"greedy"}


def test_a_biography_has_no_higher_d_factscore_than_factscore(judged):
    """For FActScore any namesake's article supports a fact, for D-FActScore only one of them."""
    folder, _ = judged

    first_verdict, *_ = read_verdicts(folder / "verdicts.jsonl")

    scores = first_verdict["scores"]
    assert 0 <= scores["d_factscore"] <= scores["factscore"] <= 1


def test_the_page_contains_the_protocol_and_linking_of_the_verdicts(judged):
    """The page loads nothing else, so that it can be opened without a server."""
    folder, _ = judged

    page = (folder / "biographies.html").read_text(encoding="utf-8")

    assert '"protocol":"paper","linking":"greedy"' in page


def test_the_command_prints_a_table_and_what_to_run_next(
    monkeypatch, tmp_path, capsys, scores, judged
):
    # The models have run once for all tests, and need not run again.
    module = "lm_factuality.sample.quickstart"
    monkeypatch.setattr(f"{module}.run_checkpoints", lambda output: list(scores.values()))
    monkeypatch.setattr(f"{module}.judge_sample", lambda output: judged[1])
    monkeypatch.setenv("COLUMNS", "80")

    exit_code = main(["quickstart", "--output", str(tmp_path)])

    output = capsys.readouterr().out
    assert exit_code == 0
    # The cells are the parameters, the accuracy, its interval, the guess baseline, and the numbers of
    # rows and of rows without a score.
    assert re.search(r"larger +[\d,]+ +\d\d\.\d% +\d\d\.\d% - \d\d\.\d% +26\.1% +\d{3} +0", output)
    assert "lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor" in output


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_are_small_and_have_no_code(name):
    """A checkpoint of the suite must not run code when it is loaded."""
    folder = TASKS / "sample" / "models" / name
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "training.json",
    }
    assert (folder / "model.safetensors").stat().st_size < 3_000_000


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_say_how_they_were_made(name):
    """Anyone can train them again within half an hour, from the same made-up world."""
    path = TASKS / "sample" / "models" / name / "training.json"

    training = json.loads(path.read_text(encoding="utf-8"))

    assert training["seconds"] < 30 * 60
    assert training["world_seed"] == 0
