"""The last screen of a run, from lm_eval's results as they are when it prints its table."""

from __future__ import annotations

import math
import re

import pytest

from lm_factuality.cli.outcome import print_outcome
from lm_factuality.harness.run import Finished, is_for_readers
from lm_factuality.harness.suite_task import UNSCORED

JUDGE = {"name": "strict", "backend": "openai", "model": "m"}


def content(tasks, limit=None):
    """As lm_eval has it: ``tasks`` by name, (benchmark, metrics, more metadata, rows run, rows)."""
    return {
        "results": {
            name: {f"{metric},none": value for metric, value in each[1].items()}
            for name, each in tasks.items()
        },
        "configs": {
            name: {"metadata": {"suite_version": "1", "benchmark": each[0], **each[2]}}
            for name, each in tasks.items()
        },
        "versions": dict.fromkeys(tasks, 1.0),
        "n-samples": {
            name: {"original": each[4], "effective": each[3]} for name, each in tasks.items()
        },
        "config": {"model": "hf", "limit": limit},
    }


@pytest.fixture
def screen(capsys, monkeypatch):
    """What is printed of a run, at a width."""

    def screen(tasks, unscored=None, path=None, output=None, columns=140):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_outcome(Finished(content(tasks), path, output, unscored or {}))
        return capsys.readouterr().out

    return screen


FACTOR = {
    "factor_acc": 0.5,
    "factor_acc_stderr": 0.05,
    "guess_baseline": 0.25,
    "truncated": 2.0,
    "unscored": 0.0,
}


def test_a_line_a_task_with_what_to_know_of_it(screen):
    about = {
        "caution": "Answers are given\n away.",
        "data": {"is_upstream": False, "rows": 9, "upstream_rows": 10},
    }
    found = screen({"my_factor": ("factor", FACTOR, about, 18, 19)})
    assert "FACTOR accuracy in percent" in found
    assert "50.0" in found
    assert re.search(r" \d\d\.\d – \d\d\.\d ", found)
    for note in (
        "guess baseline on these rows: 25.0%",
        "not the published file: 9 rows of 10",
        "2 rows longer than the window, whose beginning was cut off",
        "Answers are given away.",
        "--output_path DIR --log_samples",
    ):
        assert note in found


def test_a_score_of_few_rows_is_withheld(screen):
    found = screen({"my_factor": ("factor", FACTOR, {}, 4, 9)})
    assert "too few rows" in found
    assert "50.0" not in found


def test_why_rows_are_unscored_and_what_cures_it(screen):
    reasons = (
        ["no answer line"] * 9
        + ["thinking without an end"] * 2
        + [f"strange {letter}" for letter in "abcd"]
    )
    metrics = {"unscored": 15.0, "segment_f1": "N/A"}
    found = screen({"my_felm": ("felm", metrics, {}, 15, 15)}, {"my_felm": reasons})
    assert "none" in found
    assert "nan" not in found.lower()
    assert (
        "my_felm: 9 × no answer line: try --apply_chat_template, or a larger --gen_kwargs max_gen_toks=N"
        in found
    )
    assert (
        "my_felm: 2 × thinking without an end: give it more room: --metadata thinking_tokens=N"
        in found
    )
    assert "my_felm: 3 × other reasons, named in the samples" in found


@pytest.fixture
def kept(tmp_path):
    """Where results of tasks a and b lie, with samples of them."""
    folder = tmp_path / "out" / "model"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"samples_{name}_2026-01-01T00-00-00.jsonl").touch()
    return folder / "results_2026-01-01T00-00-00.json", tmp_path / "out"


def test_what_to_do_next(screen, kept):
    path, output = kept
    rates = {"segment_error_rate": 0.5, "segment_error_rate_stderr": 0.1, "unscored": 0.0}
    about = {"judge_config": JUDGE, "judge": "strict"}
    found = screen({"a": ("felm_gen", rates, about, 9, 9)}, path=path, output=output)
    assert f"lm-factuality report {path} --out report" in found
    found = screen({"b": ("felm_gen", {}, {}, 9, 9)}, path=path, output=output)
    samples = path.parent / "samples_b_2026-01-01T00-00-00.jsonl"
    assert (
        f"lm-factuality judge felm_gen --samples {samples} --judge CONFIG --out {samples.with_suffix('')}"
        in found
    )
    assert "Outcome" not in found


def test_tasks_of_others_have_no_screen(screen):
    assert screen({"hellaswag": ("", {"acc": 0.5}, {}, 9, 9)}) == ""


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
