"""The last screen of a run, from lm_eval's results as they are when it prints its table."""

from __future__ import annotations

import math
import re

import pytest

from lm_factuality.cli.outcome import print_outcome
from lm_factuality.harness.run import Finished, is_for_readers
from lm_factuality.harness.suite_task import UNSCORED

JUDGE = {"name": "strict", "backend": "openai", "model": "m"}


def results_content(tasks, limit=None):
    """Results as lm_eval has them, of ``tasks``: for each name its benchmark, its metrics, more
    metadata, and how many rows were run of how many."""
    results = {}
    configs = {}
    sample_counts = {}
    for name, (benchmark, metrics, metadata, effective, original) in tasks.items():
        results[name] = {f"{metric},none": value for metric, value in metrics.items()}
        configs[name] = {"metadata": {"suite_version": "1", "benchmark": benchmark, **metadata}}
        sample_counts[name] = {"original": original, "effective": effective}
    return {
        "results": results,
        "configs": configs,
        "versions": dict.fromkeys(tasks, 1.0),
        "n-samples": sample_counts,
        "config": {"model": "hf", "limit": limit},
    }


@pytest.fixture
def print_screen(capsys, monkeypatch):
    """Returns what is printed at the end of a run of ``tasks`` (as ``results_content`` takes
    them)."""

    def print_screen(tasks, unscored=None, path=None, output=None):
        monkeypatch.setenv("COLUMNS", "140")
        print_outcome(Finished(results_content(tasks), path, output, unscored or {}))
        return capsys.readouterr().out

    return print_screen


FACTOR_METRICS = {
    "factor_acc": 0.5,
    "factor_acc_stderr": 0.05,
    "guess_baseline": 0.25,
    "truncated": 2.0,
    "unscored": 0.0,
}


def test_a_task_has_its_score_in_percent_with_an_interval(print_screen):
    screen = print_screen({"my_factor": ("factor", FACTOR_METRICS, {}, 18, 19)})

    assert "FACTOR accuracy in percent" in screen
    assert "50.0" in screen  # factor_acc
    assert re.search(r" \d\d\.\d – \d\d\.\d ", screen)


def test_a_task_has_notes_on_what_its_score_means(print_screen):
    metadata = {
        "caution": "Answers are given\n away.",
        "data": {"is_upstream": False, "rows": 9, "upstream_rows": 10},
    }

    screen = print_screen({"my_factor": ("factor", FACTOR_METRICS, metadata, 18, 19)})

    assert "guess baseline on these rows: 25.0%" in screen
    assert "not the published file: 9 rows of 10" in screen
    assert "2 rows longer than the window, whose beginning was cut off" in screen
    assert "Answers are given away." in screen
    assert "--output_path DIR --log_samples" in screen


def test_a_score_of_few_rows_is_withheld(print_screen):
    screen = print_screen({"my_factor": ("factor", FACTOR_METRICS, {}, 4, 9)})

    assert "too few rows" in screen
    assert "50.0" not in screen  # factor_acc


def test_unscored_rows_have_their_reasons_with_a_cure(print_screen):
    reasons = ["no answer line"] * 9 + ["thinking without an end"] * 2
    tasks = {"my_felm": ("felm", {"unscored": 11.0, "segment_f1": 0.5}, {}, 11, 11)}

    screen = print_screen(tasks, {"my_felm": reasons})

    assert (
        "my_felm: 9 × no answer line: try --apply_chat_template, or a larger --gen_kwargs max_gen_toks=N"
        in screen
    )
    assert (
        "my_felm: 2 × thinking without an end: give it more room: --metadata thinking_tokens=N"
        in screen
    )


def test_only_the_three_commonest_reasons_are_named(print_screen):
    # The first three in number, then in the order they came: one of the four strange ones is.
    reasons = (
        ["no answer line"] * 9 + ["thinking without an end"] * 2 + ["odd", "queer", "rare", "weird"]
    )
    tasks = {"my_felm": ("felm", {"unscored": 15.0, "segment_f1": "N/A"}, {}, 15, 15)}

    screen = print_screen(tasks, {"my_felm": reasons})

    assert "my_felm: 3 × other reasons, named in the samples" in screen


def test_a_score_that_is_not_available_is_none(print_screen):
    tasks = {"my_felm": ("felm", {"unscored": 15.0, "segment_f1": "N/A"}, {}, 15, 15)}

    screen = print_screen(tasks, {"my_felm": ["no answer line"] * 15})

    assert "none" in screen
    assert "nan" not in screen.lower()


@pytest.fixture
def results_path(tmp_path):
    """Where lm_eval keeps the results of the tasks a and b below "out", with samples of both."""
    folder = tmp_path / "out" / "model"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"samples_{name}_2026-01-01T00-00-00.jsonl").touch()
    return folder / "results_2026-01-01T00-00-00.json"


def test_the_next_step_after_a_judged_task_is_a_report(print_screen, results_path, tmp_path):
    metrics = {"segment_error_rate": 0.5, "segment_error_rate_stderr": 0.1, "unscored": 0.0}
    metadata = {"judge_config": JUDGE, "judge": "strict"}
    tasks = {"a": ("felm_gen", metrics, metadata, 9, 9)}

    screen = print_screen(tasks, path=results_path, output=tmp_path / "out")

    assert f"lm-factuality report {results_path} --out report" in screen


def test_the_next_step_after_a_task_without_a_judge_is_to_judge(
    print_screen, results_path, tmp_path
):
    samples_path = results_path.parent / "samples_b_2026-01-01T00-00-00.jsonl"

    screen = print_screen(
        {"b": ("felm_gen", {}, {}, 9, 9)}, path=results_path, output=tmp_path / "out"
    )

    assert (
        f"lm-factuality judge felm_gen --samples {samples_path} --judge CONFIG --out {samples_path.with_suffix('')}"
        in screen
    )
    assert "Outcome" not in screen


def test_tasks_of_others_have_no_screen(print_screen):
    assert print_screen({"hellaswag": ("", {"acc": 0.5}, {}, 9, 9)}) == ""


@pytest.mark.parametrize(
    ("key", "value", "is_kept"),
    [
        ("alias", "my_task", True),
        ("acc,none", 0.5, True),
        ("acc_stderr,none", 0.1, True),
        ("acc_stderr,none", "N/A", False),
        ("acc,none", math.nan, False),
        ("acc,none", "N/A", False),
        ("detail,none", 0.5, False),
        (f"{UNSCORED},none", 3.0, True),
    ],
)
def test_lm_evals_table_has_numbers_for_readers(key, value, is_kept):
    assert is_for_readers(key, value, lambda name: name in ("acc", UNSCORED)) == is_kept
