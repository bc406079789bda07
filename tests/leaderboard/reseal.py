"""Make a submission consistent after a change to its samples, as a clever forger would."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.leaderboard.submission import SUBMISSION_FILE
from lm_factuality.results.read import read_results_file
from lm_factuality.results.recompute import Recomputed, recompute

Row = dict[str, Any]


def reseal(folder: Path) -> None:
    """Make the metrics of FACTOR's rows, its scores and the hashes of files follow from samples."""
    results = next(folder.glob("results_*.json"))
    content = json.loads(results.read_text(encoding="utf-8"))
    task = read_results_file(results).task("sample_factor")
    assert task is not None
    assert task.samples is not None
    rows = read_rows(task.samples)
    scores = _rescore(task, rows)
    stated = content["results"][task.task]
    stated |= {f"{name},none": value for name, value in scores.metrics.items()}
    stated |= {f"{name}_stderr,none": value for name, value in scores.stderrs.items()}
    content["intervals"][task.task] = {
        name: interval._asdict() for name, interval in scores.intervals.items()
    }
    write_rows(task.samples, rows)
    results.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    seal_files(folder)


def _rescore(task: TaskResult, rows: list[Row]) -> Recomputed:
    """Recompute the metrics of the rows in place, and return the scores of the task."""
    benchmark = find_benchmark(task.kind)
    assert benchmark is not None
    kept_rows = [benchmark.scoring.keep_row(row) for row in rows]
    rescorer = benchmark.scoring.make_rescorer(task, kept_rows)
    for row, kept_row in zip(rows, kept_rows, strict=True):
        for name, value in rescorer.row_metrics(kept_row).items():
            row[name] = dataclasses.astuple(value) if dataclasses.is_dataclass(value) else value
    return recompute(task, rows)


def hashes_of(rows: list[Row]) -> str:
    """Return the hash of the hashes of all rows, as lm_eval writes it into results."""
    joined = "".join(row["doc_hash"] + row["prompt_hash"] + row["target_hash"] for row in rows)
    return hashlib.sha256(joined.encode()).hexdigest()


def seal_files(folder: Path) -> None:
    """Correct the hashes and sizes of all files in ``submission.json``."""
    submission = json.loads((folder / SUBMISSION_FILE).read_text(encoding="utf-8"))
    for packed in submission["files"]:
        path = folder / packed["path"]
        if path.is_file():
            packed |= {"sha256": sha256_of(path), "bytes": path.stat().st_size}
    (folder / SUBMISSION_FILE).write_text(json.dumps(submission, indent=1), encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    """Read all rows of a samples file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows as a samples file."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
