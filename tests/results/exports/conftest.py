"""Real results to export: short runs of the sample's tasks, once a session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.results.read import read_results_files


def run(out: Path, *arguments: str) -> Path:
    """lm_eval by way of ``lm-factuality run``; returns ``out``."""
    from lm_factuality.cli import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["lm-factuality"])  # which ``run`` replaces
        patch.setenv("LM_FACTUALITY_HOME", str(out / "home"))
        assert main(["run", "--output_path", str(out), "--log_samples", *arguments]) == 0
    return out


@pytest.fixture(scope="session")
def scored(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> tuple[ResultsFile, ...]:
    """A model's log-likelihoods, of 40 rows and documents."""
    out = run(
        tmp_path_factory.mktemp("scored"),
        "--model",
        "hf",
        "--model_args",
        f"pretrained={checkpoint},dtype=float32",
        "--tasks",
        "sample_factor,sample_factor_perplexity",
        "--limit",
        "40",
        "--device",
        "cpu",
        "--batch_size",
        "8",
    )
    return read_results_files([out])


@pytest.fixture(scope="session")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultsFile, ...]:
    """The same answer to everything, judged by rule"""
    out = run(
        tmp_path_factory.mktemp("answered"),
        "--model",
        "constant-answer",
        "--model_args",
        "answer=Answer: ALL_CORRECT",
        "--tasks",
        "sample_felm,sample_felm_gen",
        "--metadata",
        "judge=lexical",
    )
    return read_results_files([out])


@pytest.fixture(scope="session")
def whole(scored: tuple[ResultsFile, ...]) -> tuple[ResultsFile, ...]:
    """As if the 40 rows were all that the task has."""
    (file,) = scored
    tasks = tuple(
        replace(task, limit=None, num_samples=task.effective)
        for task in file.tasks
        if task.kind == "factor"
    )
    return (replace(file, tasks=tasks),)
