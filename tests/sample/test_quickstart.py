"""The embedded default: what the first command prints, and what it claims."""

from __future__ import annotations

import json
import re

import pytest

from lm_factuality.cli import main
from lm_factuality.sample.quickstart import CHECKPOINTS, quickstart
from tests.conftest import TASKS


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    return {score.checkpoint: score for score in quickstart(tmp_path_factory.mktemp("quickstart"))}


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


def test_the_table_is_readable(monkeypatch, tmp_path, capsys, scores):
    monkeypatch.setattr(
        "lm_factuality.sample.quickstart.quickstart", lambda output: list(scores.values())
    )
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["quickstart", "--output", str(tmp_path)]) == 0
    output = capsys.readouterr().out
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
