"""``compare`` with perplexities and plots, as a user types it."""

from __future__ import annotations

import re

from lm_factuality.cli import main
from tests.benchmarks.factor.test_agreement import ONE, TWO, results
from tests.conftest import REPOSITORY

FIGURES = ["--with", str(REPOSITORY / "configs" / "reproduce" / "factor_figures.yaml")]


def test_measured_pairs_say_how_sure_they_are(tmp_path, capsys):
    results(tmp_path / "a", "one", ONE, 8.0)
    results(tmp_path / "b", "two", TWO, 9.0)
    assert main(["compare", str(tmp_path), *FIGURES]) == 0
    output = capsys.readouterr().out
    assert re.search(r"x_factor +two +60\.0 ± 4\.0 +9\.00 ± 0\.10 +1\.900 ± 0\.010 +5,000", output)
    assert "x_factor: -1.00 over 2 models, perplexity per token" in output
    assert "x_factor: -1.00 over 2 models, perplexity per byte" in output
    assert re.search(
        r"one +two +8\.00 vs 9\.00 +1\.800 vs 1\.900 +40\.0 vs 60\.0 +20\.0 ± \d+\.\d +0\.500 +0\.500 +token and byte",
        output,
    )
    assert "as measured: 1" in output


def test_models_that_agree_make_no_pairs(tmp_path, capsys):
    results(tmp_path / "a", "one", ONE, 9.0)
    results(tmp_path / "b", "two", TWO, 8.0)
    assert main(["compare", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "x_factor: 1.00 over 2 models" in output
    assert "No pair of models on which the two disagree." in output


def test_other_tokenizers_and_windows_are_warned_of(tmp_path, capsys):
    results(tmp_path / "a", "one", ONE, 9.0)
    path = results(tmp_path / "b", "two", TWO, 8.0)
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("5000.0", "6000.0").replace('"window_used": 1024', '"window_used": 513'),
        encoding="utf-8",
    )
    assert main(["compare", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "token counts differ" in output
    assert "windows differ: 1024, 513 tokens" in output
    assert "two: window of 513 tokens, 1024 asked for" in output


def test_nothing_to_compare_is_an_error(capsys):
    assert main(["compare"]) == 1
    assert "give results of lm_eval, or published figures" in capsys.readouterr().err
