"""The last screen of a run, from lm_eval's results as they are when it prints its table."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import pytest

from lm_factuality.cli.outcome import print_outcome
from lm_factuality.harness.run import Finished, is_for_readers
from lm_factuality.harness.suite_task import UNSCORED

JUDGE = {"name": "strict", "backend": "openai", "model": "m"}


@dataclass(frozen=True)
class TaskRun:
    """A task of a run, as lm_eval describes it."""

    benchmark: str
    """The name of the benchmark, empty for a task of others."""

    metrics: dict
    """The values by metric."""

    metadata: dict = field(default_factory=dict)
    """Further settings of the task."""

    num_run: int = 18
    """The number of rows that were run."""

    num_rows: int = 18
    """The number of rows of the task."""


def make_results(tasks):
    """Make results as lm_eval has them when it prints its table, from tasks by name."""
    results = {}
    configs = {}
    sample_counts = {}
    for name, task in tasks.items():
        results[name] = {f"{metric},none": value for metric, value in task.metrics.items()}
        metadata = {"suite_version": "1", "benchmark": task.benchmark, **task.metadata}
        configs[name] = {"metadata": metadata}
        sample_counts[name] = {"original": task.num_rows, "effective": task.num_run}
    return {
        "results": results,
        "configs": configs,
        "versions": dict.fromkeys(tasks, 1.0),
        "n-samples": sample_counts,
        "config": {"model": "hf", "limit": None},
    }


@pytest.fixture
def print_screen(capsys, monkeypatch):
    """Return a function that returns what is printed at the end of a run.

    Its arguments are the tasks by name, the reasons for unscored rows of each task, and the results
    file.
    """

    def print_and_read(tasks, unscored=None, path=None):
        monkeypatch.setenv("COLUMNS", "140")
        print_outcome(Finished(make_results(tasks), path, unscored or {}))
        return capsys.readouterr().out

    return print_and_read


FACTOR_METRICS = {
    "factor_acc": 0.5,
    "factor_acc_stderr": 0.05,
    "guess_baseline": 0.25,
    "truncated": 2.0,
    "unscored": 0.0,
}


def test_a_task_has_its_score_in_percent_with_an_interval(print_screen):
    metrics = {
        "factor_acc": 0.5,
        "factor_acc_stderr": 0.05,
        "guess_baseline": 0.25,
        "unscored": 0.0,
    }

    screen = print_screen({"my_factor": TaskRun("factor", metrics, num_run=18, num_rows=19)})

    accuracy, interval, guess_baseline = r"50\.0", r"\d\d\.\d – \d\d\.\d", r"25\.0"
    assert "FACTOR accuracy in percent" in screen
    assert re.search(f" {accuracy} +{interval} +{guess_baseline} ", screen)
    assert "guess baseline" in screen
    assert "Guess baseline: what a guess without knowledge scores on these rows." in screen


def test_a_task_has_a_note_on_changed_data(print_screen):
    data = {"source": "news_factor", "is_published": False, "rows": 9, "published_rows": 10}

    screen = print_screen({"my_factor": TaskRun("factor", FACTOR_METRICS, {"data": data})})

    assert "not the published file: 9 rows of 10" in screen


def test_task_has_a_note_on_truncated_rows(print_screen):
    metrics = {"factor_acc": 0.5, "factor_acc_stderr": 0.05, "truncated": 2.0, "unscored": 0.0}

    screen = print_screen({"my_factor": TaskRun("factor", metrics)})

    assert "2 rows longer than the window, whose beginning was cut off" in screen


def test_a_task_has_its_caution_as_a_note(print_screen):
    """The caution says what limits the task, here over two lines."""
    metadata = {"caution": "Answers are given\n away."}

    screen = print_screen({"my_factor": TaskRun("factor", FACTOR_METRICS, metadata)})

    assert "Answers are given away." in screen


def test_a_run_without_a_folder_says_how_to_keep_its_results(print_screen):
    screen = print_screen({"my_factor": TaskRun("factor", FACTOR_METRICS)}, path=None)

    assert "--output_path DIR --log_samples" in screen


def test_a_score_of_few_documents_is_withheld(print_screen):
    """A score of four rows means little, but people would quote it."""
    metrics = {"factor_acc": 0.5, "factor_acc_stderr": 0.05, "unscored": 0.0}

    screen = print_screen({"my_factor": TaskRun("factor", metrics, num_run=4, num_rows=9)})

    assert "too few documents" in screen
    assert "50.0" not in screen


def test_unscored_rows_are_shown_with_reasons_and_advice(print_screen):
    """A user learns which option may give these rows a score."""
    reasons = ["no answer line"] * 9 + ["thinking without an end"] * 2
    metrics = {"unscored": 11.0, "segment_f1": 0.5}
    tasks = {"my_felm": TaskRun("felm", metrics, num_run=11, num_rows=11)}

    screen = print_screen(tasks, {"my_felm": reasons})

    cure = "try --apply_chat_template, or a larger --gen_kwargs max_gen_toks=N"
    assert f"my_felm: 9 × no answer line: {cure}" in screen
    assert "my_felm: 2 × thinking without an end: all tokens went into reasoning" in screen
    assert "--metadata thinking_tokens=N" in screen


def test_only_the_three_commonest_reasons_are_named(print_screen):
    """A task may have hundreds of reasons, and the samples name all of them."""
    reasons = ["frequent"] * 9 + ["common"] * 3 + ["seldom"] * 2 + ["odd", "rare", "weird"]
    metrics = {"unscored": 17.0, "segment_f1": "N/A"}
    tasks = {"my_felm": TaskRun("felm", metrics, num_run=17, num_rows=17)}

    screen = print_screen(tasks, {"my_felm": reasons})

    assert "my_felm: 9 × frequent" in screen
    assert "my_felm: 3 × common" in screen
    assert "my_felm: 2 × seldom" in screen
    assert "my_felm: 3 × other reasons, named in the samples" in screen


def test_unavailable_score_is_none(print_screen):
    """lm_eval writes ``N/A`` where a score has no value."""
    tasks = {
        "my_felm": TaskRun("felm", {"unscored": 15.0, "segment_f1": "N/A"}, num_run=15, num_rows=15)
    }

    screen = print_screen(tasks, {"my_felm": ["no answer line"] * 15})

    assert "none" in screen
    assert "nan" not in screen.lower()


@pytest.fixture
def results_path(tmp_path):
    """Return where lm_eval keeps the results of the tasks a and b, with the samples of both."""
    folder = tmp_path / "out" / "model"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"samples_{name}_2026-01-01T00-00-00.jsonl").touch()
    return folder / "results_2026-01-01T00-00-00.json"


def test_the_next_step_after_a_judged_task_is_a_report(print_screen, results_path):
    """The user can copy the whole command."""
    metrics = {"segment_error_rate": 0.5, "segment_error_rate_stderr": 0.1, "unscored": 0.0}
    metadata = {"judge_config": JUDGE, "judge": "strict"}
    tasks = {"a": TaskRun("felm_gen", metrics, metadata)}

    screen = print_screen(tasks, path=results_path)

    assert f"lm-factuality report {results_path} --out report" in screen


def test_next_step_after_an_unjudged_task_is_to_judge(print_screen, results_path):
    """Without a judge the task has responses but no score."""
    samples_path = results_path.parent / "samples_b_2026-01-01T00-00-00.jsonl"

    screen = print_screen({"b": TaskRun("felm_gen", {})}, path=results_path)

    paths = f"--samples {samples_path} --judge CONFIG --out {samples_path.with_suffix('')}"
    assert f"lm-factuality judge felm_gen {paths}" in screen
    assert "Outcome" not in screen


def test_foreign_tasks_have_no_screen(print_screen):
    """The suite knows nothing about the scores of other tasks."""
    screen = print_screen({"hellaswag": TaskRun("", {"acc": 0.5})})

    assert screen == ""


@pytest.mark.parametrize(
    ("key", "value", "is_kept"),
    [
        pytest.param("alias", "my_task", True, id="name of a task"),
        pytest.param("acc,none", 0.5, True, id="score"),
        pytest.param("acc_stderr,none", 0.1, True, id="standard error"),
        pytest.param("acc_stderr,none", "N/A", False, id="missing standard error"),
        pytest.param("acc,none", math.nan, False, id="score that is no number"),
        pytest.param("acc,none", "N/A", False, id="missing score"),
        pytest.param("detail,none", 0.5, False, id="score that is not for readers"),
        pytest.param(f"{UNSCORED},none", 3.0, True, id="number of unscored rows"),
    ],
)
def test_lm_eval_table_shows_only_numbers_for_readers(key, value, is_kept):
    """The task says that readers see its accuracy and its number of unscored rows."""

    class TaskOfSuite:
        @staticmethod
        def is_shown(metric):
            return metric in ("acc", UNSCORED)

    assert is_for_readers(key, value, TaskOfSuite()) == is_kept
