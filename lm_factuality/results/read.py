"""lm_eval's results files as it wrote them, and the scores that people's labels correct.

The corrected scores of a task are in ``corrected_TASK_DATE.json`` beside the results.
"""

import datetime
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json, sha256_of, write_json
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.harness.outputs import (
    OTHER,
    Corrected,
    ResultsFile,
    TaskResult,
    date_in_name,
    number_of,
    sibling_of_results,
)
from lm_factuality.results.settings import model_arguments
from lm_factuality.scores.statistics import NOT_DEFINED

_AGAIN = "delete it, or make it again by lm-factuality people correct"
logger = logging.getLogger(__name__)

_BACKENDS = load_yaml(__package__, "backends.yaml")
PLAIN_BACKENDS: frozenset[str] = frozenset(_BACKENDS["plain"])
"""Backends that score a checkpoint as it is.

Any other (retrieval, a way of decoding, a baseline) makes another model of it.
"""
_LOADING: frozenset[str] = frozenset(_BACKENDS["loading"])
"""Arguments that say how a checkpoint is loaded and run."""


class Correction(BaseModel):
    """The corrected scores of a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    suite_version: str
    task: str

    samples: str
    """The SHA-256 of the file of samples, as of those below."""

    key: str
    labels: tuple[str, ...]

    scores: Mapping[str, Corrected]
    """The corrected scores by name."""

    left_out: Mapping[str, int]
    """How much is not in the scores, by reason."""

    without: Mapping[str, str]
    """Which scores have no correction, and why."""


def write_correction(correction: Correction, results: Path) -> Path:
    """Write a correction beside the results file of its run, and return its path."""
    path = results.with_name(f"corrected_{correction.task}_{date_in_name(results)}.json")
    write_json(path, correction.model_dump())
    return path


def read_correction(path: Path) -> Correction:
    """Read what `write_correction` wrote.

    Raises:
        DataError: The file is something else.
    """
    try:
        content = parse_json(read_text(path, _AGAIN))
        correction = to_model(Correction, content)
        for name, score in correction.scores.items():
            is_finite = math.isfinite(score.low + score.high + score.stderr)
            if not (is_finite and score.low <= score.value <= score.high):
                raise ValueError(f"{name}: no finite number inside its interval")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: no corrected scores: {error}; {_AGAIN}") from error
    return correction


def read_results_files(
    paths: Sequence[Path], with_corrected: bool = True
) -> tuple[ResultsFile, ...]:
    """Read every results file that ``paths`` name, each once.

    Args:
        paths: Files, or folders that stand for all ``results_*.json`` anywhere below them.
        with_corrected: Whether scores that people's labels correct are read with them.

    Raises:
        DataError: A path has no results, or lm_eval did not write a file.
    """
    all_files: dict[Path, None] = {}
    for path in paths:
        files = sorted(path.rglob("results_*.json")) if path.is_dir() else [path]
        if not files or not all(file.is_file() for file in files):
            raise DataError(
                f"{path}: no results_*.json here; expected lm_eval's --output_path or a file"
                " below it"
            )
        all_files.update(dict.fromkeys(files))
    return tuple(read_results_file(file, with_corrected) for file in all_files)


def read_results_file(path: Path, with_corrected: bool = True) -> ResultsFile:
    """Read one results file: its tasks in lm_eval's order, without groups.

    Raises:
        DataError: lm_eval did not write it, or its corrected scores cannot be used.
    """
    try:
        file = to_results_file(path, parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{path}: not a results file of lm_eval: {error}; expected a results_*.json that"
            " --output_path left"
        ) from error
    if not with_corrected:
        return file
    return replace(file, tasks=tuple(_with_corrected(path, task) for task in file.tasks))


def _with_corrected(results: Path, task: TaskResult) -> TaskResult:
    path = sibling_of_results(results, f"corrected_{task.task}", ".json")
    if path is None:
        return task
    correction = read_correction(path)
    samples = task.samples
    if correction.task != task.task or not samples or sha256_of(samples) != correction.samples:
        raise DataError(
            f"{path}: of other samples (SHA-256 {correction.samples[:12]}) than the run has now;"
            f" {_AGAIN}"
        )
    return replace(task, corrected=correction.scores)


def date_of(file: ResultsFile) -> str:
    """Return when a run began, in UTC.

    Raises:
        DataError: The file has a number that is no date.
    """
    try:
        date = datetime.datetime.fromtimestamp(file.date, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError) as error:
        raise DataError(
            f"{file.path}: 'date' is {file.date:.6g}, no number of seconds since 1970"
        ) from error
    return date.isoformat(timespec="seconds")


_Object = dict[str, Any]


class _Content(BaseModel):
    """What is read of a results file. Null stands for an empty object."""

    results: dict[str, _Object]
    configs: dict[str, _Object]
    config: _Object | None = None
    versions: _Object | None = None
    counts: dict[str, dict[str, NonNegativeFloat]] | None = Field(None, alias="n-samples")


class SuiteMetadata(BaseModel):
    """What is read of the metadata of a suite's task."""

    data: _Object | None = None
    judge_config: _Object | None = None


def to_results_file(path: Path, content: Mapping[str, Any]) -> ResultsFile:
    """Return what lm_eval writes to ``path``, without scores that people's labels correct.

    Raises:
        ValueError: lm_eval does not write this.
    """
    checked = to_model(_Content, content)
    config = checked.config or {}
    # A group has results, but no config.
    tasks = [_task(path, checked, name) for name in checked.results if name in checked.configs]
    versions = {name: content.get(f"{name}_version") for name in ("lm_eval", "transformers")}
    suites = [task.metadata["suite_version"] for task in tasks if "suite_version" in task.metadata]
    versions["suite"] = suites[0] if suites else None
    backend = str(config.get("model", "hf"))
    # The model is as lm_eval names it: an adapter by its own name, not its base's.
    model = str(content.get("model_name") or config.get("model", "unknown")).rstrip("/")
    asked = config.get("model_revision")
    parts = [str(asked)] if asked not in (None, "", "main") else []
    if backend not in PLAIN_BACKENDS:
        # A baseline without a checkpoint is the model.
        parts.append(_with_options("" if backend == model else backend, config))
    dtype = config.get("model_dtype")
    return ResultsFile(
        path=path,
        content=content,
        model=model,
        variant=", ".join(filter(None, parts)),
        backend=backend,
        revision=str(config.get("model_sha") or asked or "") or None,
        dtype=str(dtype).removeprefix("torch.") if dtype else None,
        num_parameters=max(0.0, number_of(config.get("model_num_parameters")) or 0.0) or None,
        date=number_of(content.get("date")) or 0.0,
        date_text=date_in_name(path),
        versions={name: str(version) for name, version in versions.items() if version},
        tasks=tuple(tasks),
    )


def _with_options(backend: str, config: Mapping[str, Any]) -> str:
    """Return a backend with the options of its own that a run was given.

    Of a folder, such as an index, the last part is shown.
    """
    options = [backend]
    for key, argument in sorted(model_arguments(config).items()):
        if key not in _LOADING:
            value = str(argument).rstrip("/").rpartition("/")[2]
            options.append(f"{key}={value}")
    return " ".join(options).strip()


def _task(path: Path, content: _Content, name: str) -> TaskResult:
    results = content.results[name]
    metrics, stderrs = _split_metrics(results)
    config = content.configs[name]
    metadata = to_model(_Object, config.get("metadata") or {})
    if "suite_version" in metadata:
        to_model(SuiteMetadata, metadata)
    counts = (content.counts or {}).get(name, {})
    effective = int(counts.get("effective", number_of(results.get("sample_len")) or 0))
    return TaskResult(
        task=name,
        kind=_kind(metadata),
        metrics=metrics,
        stderrs=stderrs,
        num_samples=int(counts.get("original", effective)),
        effective=effective,
        metadata=metadata,
        config=config,
        version=str((content.versions or {}).get(name, metadata.get("version"))),
        samples=sibling_of_results(path, f"samples_{name}", ".jsonl"),
        limit=number_of((content.config or {}).get("limit")),
    )


def _split_metrics(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Return metrics and standard errors by name, of several filters the first's.

    A score that is not defined is NaN.
    """
    metrics: dict[str, float] = {}
    stderrs: dict[str, float] = {}
    for key, value in values.items():
        name, comma, _ = key.partition(",")
        is_error = name.endswith("_stderr")
        if value == NOT_DEFINED and not is_error:
            value = math.nan
        if not comma or not isinstance(value, int | float) or isinstance(value, bool):
            continue
        numbers = stderrs if is_error else metrics
        numbers.setdefault(name.removesuffix("_stderr"), float(value))
    return metrics, stderrs


def _kind(metadata: Mapping[str, Any]) -> str:
    """The benchmark of a task, as its metadata says, or `OTHER` for tasks of other suites."""
    if "suite_version" not in metadata or "benchmark" not in metadata:
        return OTHER
    kind = str(metadata["benchmark"])
    if find_benchmark(kind) is None:
        logger.warning(
            "a task is of the benchmark %r, which is not installed here: install its package",
            kind[:60],
        )
    return kind
