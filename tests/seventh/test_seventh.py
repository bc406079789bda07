"""The benchmarks of ``docs/add_a_benchmark.md``, made of this folder alone, go through every command
without a change anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_factuality.benchmarks import all_benchmarks, all_sources
from lm_factuality.cli import main
from tests.conftest import TASKS

HERE = Path(__file__).resolve().parent
RULES = ("--rules", str(HERE / "rules"))
CHECKPOINT = TASKS / "sample" / "models" / "smaller"
MODELS = {
    "checkpoint": ("hf", {"pretrained": str(CHECKPOINT), "dtype": "float32"}),
    "guess": ("constant-answer", {"answer": " Paris, of course"}),
}


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    """The benchmark as an installed package is: on the path, with an entry point."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        all_benchmarks.cache_clear()
        all_sources.cache_clear()
        yield
    all_benchmarks.cache_clear()
    all_sources.cache_clear()


@pytest.fixture(scope="module")
def runs(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``runs/MODEL`` of both models."""
    folder = tmp_path_factory.mktemp("seventh")
    for name, (backend, arguments) in MODELS.items():
        given = [
            "run",
            "--model",
            backend,
            "--model_args",
            json.dumps(arguments),
            "--tasks",
            str(HERE / "capitals.yaml"),
        ]
        assert main([*given, "--output_path", str(folder / "runs" / name), "--log_samples"]) == 0
    return folder


def command(*arguments: str | Path) -> int:
    """A command of the suite."""
    return main([str(each) for each in arguments])


def test_a_run_says_its_kind_and_its_scores(runs):
    (path,) = (runs / "runs" / "guess").rglob("results_*.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["configs"]["capitals"]["metadata"]["benchmark"] == "capitals"
    assert content["results"]["capitals"]["capital_acc,none"] == pytest.approx(1 / 12)
    assert content["higher_is_better"]["capitals"]["capital_acc"] is True


def test_its_task_is_validated(installed, tmp_path, capsys):
    assert command("validate", "--run-code", HERE / "capitals.yaml") == 0
    assert (
        "sound; 12 rows, 12 requests\n  context of the first row: 'The capital of"
        in capsys.readouterr().out
    )
    broken = (
        (HERE / "capitals.yaml")
        .read_text(encoding="utf-8")
        .replace("dataset_path: ", "dataset_path: gone_")
    )
    (tmp_path / "capitals.yaml").write_text(broken, encoding="utf-8")
    exit_code = command("validate", "--run-code", tmp_path / "capitals.yaml")

    assert exit_code == 1
    assert "gone_capitals.jsonl: no such file; expected a table" in capsys.readouterr().out


def test_it_is_reported(runs):
    exit_code = command("report", runs / "runs", "--out", runs / "report")

    pages = {
        path.name: path.read_text(encoding="utf-8") for path in (runs / "report").glob("*.html")
    }
    assert exit_code == 0
    assert "8.3" in pages["index.html"]
    assert any("Capitals" in text for text in pages.values())


def test_a_judged_one_is_run_judged_again_and_reported(installed, tmp_path, capsys):
    task = ["--tasks", str(HERE / "rivers.yaml"), "--metadata", "judge=lexical"]
    model = ["--model", "constant-answer", "--model_args", "answer=It is the Danube."]
    assert main(["run", *model, *task, "--output_path", str(tmp_path), "--log_samples"]) == 0
    (path,) = tmp_path.rglob("results_*.json")
    results = json.loads(path.read_text(encoding="utf-8"))["results"]["rivers"]
    assert results["river_acc,judge"] == pytest.approx(1 / 4)
    (samples,) = tmp_path.rglob("samples_rivers_*.jsonl")
    again = ["--samples", samples, "--judge", "lexical", "--out", tmp_path / "judged"]
    assert command("judge", "rivers", *again) == 0
    assert "Accuracy" in capsys.readouterr().out
    exit_code = command("report", tmp_path, "--out", tmp_path / "report")

    page = (tmp_path / "report" / "rivers.html").read_text(encoding="utf-8")
    assert exit_code == 0
    assert "Does the model know on which rivers cities lie?" in page


def pack(runs: Path, out: Path) -> int:
    return command(
        "leaderboard",
        "pack",
        runs / "runs" / "checkpoint",
        "--model",
        "example/checkpoint",
        "--out",
        out,
        *RULES,
    )


def test_it_has_a_leaderboard(runs):
    submissions = runs / "submissions"
    assert pack(runs, submissions) == 0
    assert command("leaderboard", "check", submissions, *RULES) == 0
    exit_code = command(
        "leaderboard",
        "build",
        submissions,
        "--out",
        runs / "site",
        *RULES,
    )

    board = json.loads((runs / "site" / "leaderboard.json").read_text(encoding="utf-8"))
    (table,) = board["leaderboards"]
    (model,) = table["models"]
    assert exit_code == 0
    assert (table["name"], model["model"], model["scores"][0]["metric"]) == (
        "capitals",
        "example/checkpoint",
        "capital_acc",
    )
    assert not board["refused"]
