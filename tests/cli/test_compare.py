"""``compare`` with perplexities and published figures, as a user types it."""

from __future__ import annotations

import re

import pytest

from lm_factuality.cli import main
from tests.benchmarks.factor.test_agreement import write_results_of
from tests.conftest import REPOSITORY

RIGHT_IN_4_OF_10_ROWS = [1, 1, 0, 0, 1, 0, 0, 1, 0, 0]
RIGHT_IN_6_OF_10_ROWS = [1, 1, 0, 1, 1, 1, 0, 1, 0, 0]
"""For each row of FACTOR whether a model is right. The second model is right where the first is."""


@pytest.fixture
def compare(tmp_path, capsys):
    """Return a function that compares the results in ``tmp_path``, and returns what is printed."""

    def run_compare(*options):
        assert main(["compare", str(tmp_path), *options]) == 0
        return capsys.readouterr().out

    return run_compare


def test_accuracy_and_perplexity_share_a_line(tmp_path, compare):
    right_in_6_of_10_rows = [1, 1, 0, 1, 1, 1, 0, 1, 0, 0]
    write_results_of(tmp_path, "acme/one", right_in_6_of_10_rows, perplexity=9.0)

    output = compare()

    table = output.partition("Accuracy and perplexity on one corpus")[2]
    (line,) = [line for line in table.splitlines() if line.startswith(" x_factor   ")]
    task, model, accuracy, perplexity, byte_perplexity, num_tokens = re.split("  +", line.strip())
    assert (task, model) == ("x_factor", "acme/one")
    assert accuracy == "60.0 ± 4.0"
    assert perplexity == "9.00 ± 0.10"
    assert byte_perplexity == "1.900 ± 0.010"
    assert num_tokens == "5,000"


@pytest.mark.parametrize("unit", ["token", "byte"])
def test_rankings_by_accuracy_and_perplexity_are_compared(tmp_path, compare, unit):
    """The correlation is -1, since the more accurate model has the worse (higher) perplexity."""
    write_results_of(tmp_path / "a", "less accurate", RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    write_results_of(tmp_path / "b", "more accurate", RIGHT_IN_6_OF_10_ROWS, perplexity=9.0)

    output = compare()

    assert f"x_factor: -1.00 over 2 models, perplexity per {unit}" in output


def test_pair_ranked_differently_by_accuracy_and_perplexity_is_listed(tmp_path, compare):
    """The p-value of the pair says whether chance alone may have caused the difference in accuracy."""
    write_results_of(tmp_path / "a", "one", RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    write_results_of(tmp_path / "b", "two", RIGHT_IN_6_OF_10_ROWS, perplexity=9.0)

    output = compare()

    models = "one +two"
    perplexities_per_token = r"8\.00 vs 9\.00"
    perplexities_per_byte = r"1\.800 vs 1\.900"
    accuracies = r"40\.0 vs 60\.0"
    difference = r"\+20\.0"
    interval = r"-\d+\.\d to \+\d+\.\d"
    p_value, corrected_p_value = r"0\.500", r"0\.500"
    assert re.search(
        rf"{models} +{perplexities_per_token} +{perplexities_per_byte} +{accuracies}"
        rf" +{difference} +{interval} +{p_value} +{corrected_p_value} +token and byte",
        output,
    )


def test_published_figures_are_not_counted_as_measured(tmp_path, compare):
    """The user measured one pair that disagrees, and the paper published others."""
    write_results_of(tmp_path / "a", "one", RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    write_results_of(tmp_path / "b", "two", RIGHT_IN_6_OF_10_ROWS, perplexity=9.0)
    published_figures = REPOSITORY / "configs" / "reproduce" / "factor_figures.yaml"

    output = compare("--with", str(published_figures))

    assert "Published scores" in output
    assert "Pairs of models on which the two disagree, as measured: 1" in output


def test_no_pair_is_listed_if_accuracy_and_perplexity_agree(tmp_path, compare):
    """The more accurate model has the better (lower) perplexity as well."""
    write_results_of(tmp_path / "a", "less accurate", RIGHT_IN_4_OF_10_ROWS, perplexity=9.0)
    write_results_of(tmp_path / "b", "more accurate", RIGHT_IN_6_OF_10_ROWS, perplexity=8.0)

    output = compare()

    assert "x_factor: 1.00 over 2 models" in output
    assert "No pair of models on which the two disagree." in output


def replace_in_file(path, text, replacement):
    """Replace a text in a file, which must contain it."""
    content = path.read_text(encoding="utf-8")
    assert text in content
    path.write_text(content.replace(text, replacement), encoding="utf-8")


def test_different_tokenizers_cause_a_warning(tmp_path, compare):
    """Perplexities per token cannot be compared if two models split the text differently."""
    write_results_of(tmp_path / "a", "one", RIGHT_IN_4_OF_10_ROWS, perplexity=9.0)
    path = write_results_of(tmp_path / "b", "two", RIGHT_IN_6_OF_10_ROWS, perplexity=8.0)
    replace_in_file(path, '"num_tokens,none": 5000.0', '"num_tokens,none": 6000.0')

    output = compare()

    assert "token counts differ" in output


def test_different_windows_cause_a_warning(tmp_path, compare):
    """A model has a higher perplexity if its window shows it less text before a token."""
    write_results_of(tmp_path / "a", "one", RIGHT_IN_4_OF_10_ROWS, perplexity=9.0)
    path = write_results_of(tmp_path / "b", "two", RIGHT_IN_6_OF_10_ROWS, perplexity=8.0)
    replace_in_file(path, '"window_used": 1024', '"window_used": 513')

    output = compare()

    assert "windows differ: 1024, 513 tokens" in output
    assert "two: window of 513 tokens, 1024 asked for" in output


def test_compare_without_results_is_an_error(capsys):
    exit_code = main(["compare"])

    assert exit_code == 1
    assert "give results of lm_eval, or published figures" in capsys.readouterr().err
