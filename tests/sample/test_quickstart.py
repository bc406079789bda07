"""The embedded default: what the first command prints, and what it claims."""

from __future__ import annotations

import json
import re

import pytest

from lm_factuality.benchmarks.biographies.types import read_verdicts
from lm_factuality.cli import main
from lm_factuality.sample.quickstart import (
    CHECKPOINTS,
    PAGE,
    VERDICTS,
    judge_sample,
    run_checkpoints,
)
from tests.conftest import TASKS


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    return {score.checkpoint: score for score in run_checkpoints(folder)}


def test_the_larger_knows_more_than_the_smaller_and_both_more_than_chance(scores):
    larger, smaller = scores["larger"].accuracy, scores["smaller"].accuracy
    assert larger.value >= 0.60
    assert larger.value >= smaller.value + 0.05
    assert smaller.low > 0.25
    assert larger.unscored == smaller.unscored == 0
    assert larger.n >= 300
    for score in (larger, smaller):
        assert score.low < score.value < score.high
        assert score.high - score.low == pytest.approx(2 * 1.96 * score.stderr, rel=0.1)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The folder that the judged biographies are left in, and their comparison with the truth."""
    folder = tmp_path_factory.mktemp("judged")
    return folder, judge_sample(folder)


@pytest.mark.parametrize(
    ("name", "tolerance", "pearson"),
    [("D-FActScore", 0.05, 0.75), ("biographies", 0.1, 0.8), ("entities", 0.1, 0.8)],
)
def test_the_offline_judge_comes_near_the_truth(judged, name, tolerance, pearson):
    """Between people and its pipeline the paper reports 8 points and 0.1."""
    _, sample = judged
    comparison = {comparison.name: comparison for comparison in sample.comparisons}[name]
    assert abs(comparison.judge - comparison.truth) < tolerance
    assert comparison.pearson > pearson
    assert comparison.responses > 90


def test_verdicts_and_page_are_left_in_the_folder(judged):
    folder, sample = judged
    lines = read_verdicts(folder / VERDICTS)
    assert len(lines) == sample.num_biographies
    assert {(line["protocol"], line["linking"]) for line in lines} == {("paper", "greedy")}
    record = json.loads((folder / VERDICTS).read_text(encoding="utf-8").split("\n")[0])
    assert 0 <= record["scores"]["d_factscore"] <= record["scores"]["factscore"] <= 1
    page = (folder / PAGE).read_text(encoding="utf-8")
    assert '"protocol":"paper","linking":"greedy"' in page


def test_the_table_is_readable(monkeypatch, tmp_path, capsys, scores, judged):
    module = "lm_factuality.sample.quickstart"
    monkeypatch.setattr(f"{module}.run_checkpoints", lambda output: list(scores.values()))
    monkeypatch.setattr(f"{module}.judge_sample", lambda output: judged[1])
    monkeypatch.setenv("COLUMNS", "80")
    exit_code = main(["quickstart", "--output", str(tmp_path)])

    output = capsys.readouterr().out
    assert exit_code == 0
    assert re.search(r"larger +[\d,]+ +\d\d\.\d% +\d\d\.\d% - \d\d\.\d% +26\.1% +\d{3} +0", output)
    assert "lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor" in output


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_are_small_safe_and_say_how_they_were_made(name):
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
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert record["seconds"] < 30 * 60
    assert record["world_seed"] == 0
