"""The commands as a user types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from lm_factuality.cli import main
from lm_factuality.cli.main import app
from tests.conftest import TASKS, example_row
from tests.people.test_correct import write_labelled_sheet, write_run
from tests.report.results import factor_task, write_results

BASELINE = ["--model", "surface-baseline", "--model_args", "rule=random"]


@pytest.fixture
def corpus(write_rows, factor_yaml, tmp_path) -> Path:
    write_rows([example_row(doc_id=str(i), turncated_prefixes=f"Part {i}. ") for i in range(3)])
    factor_yaml(dataset_path="rows.jsonl")
    return tmp_path


def every_command(group=None, *words):
    """Every command and group as typed, but for ``run`` and ``gen``, whose help others write."""
    for name, command in (group or get_command(app)).commands.items():
        if name not in ("run", "gen"):
            yield " ".join([*words, name])
            if isinstance(command, TyperGroup):
                yield from every_command(command, *words, name)


@pytest.mark.parametrize("command", every_command())
def test_help_shows_how_the_command_is_typed(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    output = capsys.readouterr().out
    assert f"Usage: lm-factuality {command} [OPTIONS]" in output
    assert re.search(rf"Examples?:\n    lm-factuality {command}", output)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("peeple sheet", "No such command 'peeple'. Did you mean 'people'?"),
        ("people shet", "No such command 'shet'. Did you mean 'sheet'?"),
        ("compare --score x", "No such option: --score (Possible options: --scores)"),
        ("report results", "Missing option '--out'"),
        ("", "Missing command"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_refused_with_a_suggestion(words, expected, capsys):
    assert main(words.split()) == 2
    assert expected in capsys.readouterr().err


def test_an_option_takes_several_values(tmp_path, capsys):
    missing = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    write_run(tmp_path)
    key, _ = write_labelled_sheet(tmp_path, tmp_path)
    arguments = ["people", "correct", str(tmp_path), "--labels", *missing, "--key", str(key)]
    assert main(arguments) == 1
    assert "a.csv: no such file" in capsys.readouterr().err


def test_help_imports_nothing_that_takes_time():
    heavy = {
        "torch",
        "lm_eval",
        "scipy",
        "numpy",
        "pyarrow",
        "httpx",
        "datasets",
        "lm_factuality.benchmarks",
    }
    code = (
        "import sys; from lm_factuality.cli.main import main; main(['people', 'sheet', '--help']);"
        f" print({heavy} & sys.modules.keys())"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.endswith("set()\n")


def test_run_has_every_option_of_lm_eval(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "--apply_chat_template" in capsys.readouterr().out


def test_ls_names_the_tasks_and_their_folder(capsys):
    assert main(["ls"]) == 0
    output = capsys.readouterr().out
    assert "expert_factor_clean" in output
    assert str(TASKS) in output.replace("\n", "")


def test_run_finds_own_and_other_tasks_and_saves_results(corpus, tmp_path, capsys):
    arguments = [
        "run",
        *BASELINE,
        "--include_path",
        str(corpus),
        "--tasks",
        "my_factor,sample_factor",
        "--limit",
        "3",
    ]
    assert main([*arguments, "--output_path", str(tmp_path / "out"), "--log_samples"]) == 0
    content = json.loads(
        next((tmp_path / "out").rglob("results_*.json")).read_text(encoding="utf-8")
    )
    assert set(content["results"]) == {"my_factor", "sample_factor"}
    assert main(["compare", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert "factor_acc is absent" in output
    assert "--limit 3" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--model_args", "pretrained=x,api_key=sk-12345", "--tasks", "factor"],
            "--model_args: the value of api_key",
        ),
        (
            ["--metadata", "auth_token=abcdef", "--tasks", "factor"],
            "--metadata: the value of auth_token",
        ),
        (
            ["--model_args", "pretrained=x,token=hf_12345", "--tasks", "factor"],
            "--model_args: the value of token",
        ),
        (["--config", "gone.yaml"], "gone.yaml: not a readable YAML file"),
        (
            [*BASELINE, "--tasks", "factr"],
            "'factr' is not a task, group, YAML or data file; did you mean factor",
        ),
        (
            [*BASELINE, "--tasks", "sample_factor", "--output_path", "/proc/nowhere"],
            "results cannot be written here",
        ),
        (
            [
                "--model",
                "surface-baseline",
                "--model_args",
                "rule=best",
                "--tasks",
                "sample_factor",
            ],
            "no rule 'best', expected one of",
        ),
    ],
)
def test_run_refuses_with_a_sentence(arguments, message, capsys):
    assert main(["run", *arguments]) == 1
    last = capsys.readouterr().err.rstrip().splitlines()[-1]
    assert last.startswith("lm-factuality: ")
    assert message in last


def test_configs_of_the_suite_are_found_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_results(tmp_path, {"news_factor": factor_task([True] * 10)}, "gpt2")
    assert main(["compare", str(tmp_path), "--with", "configs/reproduce/factor_figures.yaml"]) == 0
    assert "published" in capsys.readouterr().out


def test_results_that_lm_eval_failed_to_save_are_no_success(corpus, tmp_path, monkeypatch, capsys):
    from lm_eval.loggers import EvaluationTracker

    monkeypatch.setattr(EvaluationTracker, "save_results_aggregated", lambda *_, **__: None)
    arguments = [
        *BASELINE,
        "--include_path",
        str(corpus),
        "--tasks",
        "my_factor",
        "--output_path",
        str(tmp_path / "out"),
    ]
    assert main(["run", *arguments]) == 1
    assert "lm_eval saved no results" in capsys.readouterr().err
