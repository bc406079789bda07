"""The first run: the sample benchmark with both tiny checkpoints, through lm_eval, and one table."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from lm_factuality.errors import DataError
from lm_factuality.factor.statistics import Outcome, bootstrap_interval, clustered_stderr, mean
from lm_factuality.harness.run import run
from lm_factuality.suite import tasks_folder

TASK = "sample_factor"
CHECKPOINTS = ("larger", "smaller")


@dataclass(frozen=True)
class Score:
    """Accuracy of one checkpoint, with its interval, as shares; ``unscored`` counts rows."""

    checkpoint: str
    parameters: int
    accuracy: float
    stderr: float
    low: float
    high: float
    num_rows: int
    unscored: int


def quickstart(output: Path) -> list[Score]:
    """Runs ``sample_factor`` with every checkpoint and leaves lm_eval's files under ``output``.

    Raises:
        DataError: the checkpoints are missing from this installation.
    """
    scores = []
    for checkpoint in CHECKPOINTS:
        folder = tasks_folder() / "sample" / "models" / checkpoint
        if not (folder / "model.safetensors").is_file():
            raise DataError(f"{folder}: no checkpoint here; 'make sample' trains both")
        target = output / checkpoint
        shutil.rmtree(target, ignore_errors=True)
        run(
            [
                "--model", "hf", "--model_args", f"pretrained={folder},dtype=float32", "--tasks", TASK, "--batch_size", "16",
                "--output_path", str(target), "--log_samples",
            ]
        )  # fmt: skip
        scores.append(_score(checkpoint, folder, target))
    return scores


def _score(checkpoint: str, folder: Path, target: Path) -> Score:
    samples = next(target.glob(f"*/samples_{TASK}_*.jsonl"))
    outcomes: list[Outcome | None] = []
    for line in samples.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        right = sample["factor_acc"]
        outcomes.append(None if right is None else Outcome(right, sample["doc"]["doc_id"]))
    parameters = json.loads((folder / "training.json").read_text(encoding="utf-8"))["parameters"]
    return Score(
        checkpoint, parameters, mean(outcomes), clustered_stderr(outcomes), *bootstrap_interval(outcomes), len(outcomes),
        sum(outcome is None for outcome in outcomes),
    )  # fmt: skip
