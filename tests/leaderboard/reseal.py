"""What a forger does after a change: everything that can be made to fit it is made to fit, with the
suite's own functions."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.leaderboard.submission import FILE
from lm_factuality.results.read import read_results_file
from lm_factuality.results.recompute import recompute

Row = dict[str, Any]


def reseal(folder: Path) -> None:
    """Makes hashes of rows, their metrics, all scores and the hashes of files follow from the samples. What cannot be (a file that is none, samples that no
    metric can be made of) stays as it is."""
    results = next(folder.glob("results_*.json"))
    content = json.loads(results.read_text(encoding="utf-8"))
    try:
        tasks = read_results_file(results).tasks
    except DataError:
        tasks = ()
    for task in tasks:
        if task.samples is not None:
            _follow(task, content)
    results.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    seal_files(folder)


def _follow(task: TaskResult, content: dict[str, Any]) -> None:
    benchmark = find_benchmark(task.kind)
    assert task.samples is not None
    rows = read_rows(task.samples)
    for row in rows:
        _hash(row, benchmark.data.model_outputs if benchmark else ())
    own = [row for row in rows if row["filter"] == rows[0]["filter"]]
    joined = "".join(row["doc_hash"] + row["prompt_hash"] + row["target_hash"] for row in own)
    content["task_hashes"][task.task] = hashlib.sha256(joined.encode()).hexdigest()
    # A change may leave nothing to compute; then what is there is all there is to check.
    with contextlib.suppress(DataError, ValueError, KeyError, TypeError, OverflowError):
        _metrics(task, own, content["results"][task.task])
    write_rows(task.samples, rows)


def _hash(row: Row, model_outputs: Sequence[str]) -> None:
    own = {key: value for key, value in row["doc"].items() if key not in model_outputs}
    arguments = row["arguments"]
    first = next(iter(arguments.values()), {}) if isinstance(arguments, dict) else {}
    prompt = str(first.get("arg_0")) if isinstance(first, dict) else ""
    texts = {
        "doc": json.dumps(own, indent=2, ensure_ascii=False),
        "prompt": prompt,
        "target": str(row["target"]),
    }
    row |= {
        f"{name}_hash": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        for name, text in texts.items()
    }


def _metrics(task: TaskResult, rows: list[Row], said: dict[str, Any]) -> None:
    benchmark = find_benchmark(task.kind)
    assert benchmark is not None
    if task.kind == "ambigbio":
        _follow_judgements(task, rows)
    read = [benchmark.scoring.keep(row) for row in rows]
    recount = benchmark.scoring.recount(task, read)
    for row, each in zip(rows, read, strict=True):
        found = recount.row_metrics(each)
        row |= {name: _plain(value) for name, value in found.items()}
        row["metrics"] = list(found)
    found = recompute(task, rows)
    suffix = next(key.partition(",")[2] for key in said if "," in key)
    for name in [key for key in said if key.partition(",")[2] == suffix]:
        if name.split(",")[0].removesuffix("_stderr") not in found.metrics:
            del said[name]
    said |= {f"{name},{suffix}": value for name, value in found.metrics.items()}
    said |= {f"{name}_stderr,{suffix}": value for name, value in found.stderrs.items()}


def _follow_judgements(task: TaskResult, rows: list[Row]) -> None:
    """The scores in the records of biographies."""
    from lm_factuality.benchmarks.biographies.scores import score, why_unscored
    from lm_factuality.benchmarks.biographies.types import from_record

    for row in rows:
        record = json.loads(row["filtered_resps"][0])
        judged = from_record(record)
        scores = score(judged, str(task.metadata.get("protocol", "paper")))
        record |= {
            "scores": scores,
            "unscored": why_unscored(judged, scores),
        }
        row["filtered_resps"] = [json.dumps(record, ensure_ascii=False)]


def _plain(value: Any) -> Any:
    """As lm_eval writes it."""
    return (
        dataclasses.astuple(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
    )


def seal_files(folder: Path) -> None:
    """``submission.json`` has the hashes and sizes of the files."""
    said = json.loads((folder / FILE).read_text(encoding="utf-8"))
    for each in said["files"]:
        path = folder / each["path"]
        if path.is_file():
            each |= {"sha256": sha256_of(path), "bytes": path.stat().st_size}
    (folder / FILE).write_text(json.dumps(said, indent=1, ensure_ascii=False), encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
