"""lm_eval's results files as it wrote them, and ``corrected_TASK_DATE.json`` beside them: scores
that people's labels correct."""

import datetime
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import not_finite, parse_json, sha256_of, write_json
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.harness.outputs import (
    OTHER,
    Corrected,
    ResultsFile,
    TaskResult,
    beside,
    date_in_name,
    number_of,
)
from lm_factuality.scores.statistics import NOT_DEFINED

_AGAIN = "delete it, or make it again by lm-factuality people correct"
logger = logging.getLogger(__name__)

_BACKENDS = load_yaml(__package__, "backends.yaml")
# Backends that score a checkpoint as it is; any other (retrieval, a way of decoding, a baseline)
# makes another model of it.
PLAIN_BACKENDS: frozenset[str] = frozenset(_BACKENDS["plain"])
_LOADING: frozenset[str] = frozenset(
    _BACKENDS["loading"]
)  # arguments that say how a checkpoint is loaded and run


class Correction(BaseModel):
    """The corrected ``scores`` of a ``task``, by name. ``samples``, ``key`` and ``labels`` are the
    SHA-256 of these files; ``left_out`` counts what is not in the scores, and ``without`` says
    which scores have no correction, and why."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    suite_version: str
    task: str
    samples: str
    key: str
    labels: tuple[str, ...]
    scores: Mapping[str, Corrected]
    left_out: Mapping[str, int]
    without: Mapping[str, str]


def write_correction(correction: Correction, results: Path) -> Path:
    """Writes it beside the results file of its run; returns where."""
    path = results.with_name(f"corrected_{correction.task}_{date_in_name(results)}.json")
    write_json(path, correction.model_dump())
    return path


def read_correction(path: Path) -> Correction:
    """What ``write_correction`` wrote. Raises DataError: it did not."""
    try:
        content = parse_json(read_text(path, _AGAIN))
        found = to_model(Correction, content)
        wrong = [
            name for name, each in found.scores.items() if not each.low <= each.value <= each.high
        ]
        if wrong := [*not_finite(content), *wrong]:
            raise ValueError(f"{wrong[0]}: no finite number inside its interval")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: no corrected scores: {error}; {_AGAIN}") from error
    return found


def corrected_scores(results: Path, task: str, samples: Path | None) -> Mapping[str, Corrected]:
    """The corrected scores of a task beside its results, if any. Raises DataError: unreadable, or
    of other samples."""
    path = beside(results, f"corrected_{task}", ".json")
    if path is None:
        return {}
    found = read_correction(path)
    if found.task != task or samples is None or sha256_of(samples) != found.samples:
        raise DataError(
            f"{path}: of other samples (SHA-256 {found.samples[:12]}) than the run has now;"
            f" {_AGAIN}"
        )
    return found.scores


def read_results_files(
    paths: Sequence[Path], with_corrected: bool = True
) -> tuple[ResultsFile, ...]:
    """Every results file that ``paths`` name, each once, in the order of ``paths`` and in a folder
    by their place; a folder stands for all ``results_*.json`` anywhere below it. Scores that
    people's labels correct are read with them, unless they are not wanted. Raises DataError: a path
    without results, or a file that lm_eval did not write."""
    found: dict[Path, None] = {}
    for path in paths:
        files = sorted(path.rglob("results_*.json")) if path.is_dir() else [path]
        if not files or not all(file.is_file() for file in files):
            raise DataError(
                f"{path}: no results_*.json here; expected lm_eval's --output_path or a file"
                " below it"
            )
        found |= dict.fromkeys(files)
    return tuple(read_results_file(file, with_corrected) for file in found)


def read_results_file(path: Path, with_corrected: bool = True) -> ResultsFile:
    """One results file, its tasks in lm_eval's order, without groups. Raises DataError: lm_eval did
    not write it."""
    try:
        content: Mapping[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        found = to_results_file(path, content)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        expected = "expected a results_*.json that --output_path left"
        raise DataError(f"{path}: not a results file of lm_eval: {what}; {expected}") from error
    if not with_corrected:
        return found
    tasks = (
        replace(each, corrected=corrected_scores(path, each.task, each.samples))
        for each in found.tasks
    )
    return replace(found, tasks=tuple(tasks))


def date_of(file: ResultsFile) -> str:
    """When a run began, in UTC. Raises DataError: the file has a number that is no date."""
    try:
        return datetime.datetime.fromtimestamp(file.date, datetime.timezone.utc).isoformat(
            timespec="seconds"
        )
    except (OverflowError, ValueError, OSError) as error:
        raise DataError(
            f"{file.path}: 'date' is {file.date:.6g}, no number of seconds since 1970"
        ) from error


def to_results_file(path: Path, content: Mapping[str, Any]) -> ResultsFile:
    """What lm_eval writes to ``path``, without the scores that people's labels correct."""
    config = _mapping(content, "config")
    # A group has results, but no config.
    names = [
        name
        for name in _mapping(content, "results", True)
        if name in _mapping(content, "configs", True)
    ]
    tasks = tuple(_task(path, content, name) for name in names)
    versions = {name: content.get(f"{name}_version") for name in ("lm_eval", "transformers")}
    versions["suite"] = next(
        (each.metadata["suite_version"] for each in tasks if "suite_version" in each.metadata), None
    )
    backend = str(config.get("model", "hf"))
    # The model is as lm_eval names it: an adapter by its own name, not its base's.
    model = str(content.get("model_name") or config.get("model", "unknown")).rstrip("/")
    asked = config.get("model_revision")
    parts = [str(asked)] if asked not in (None, "", "main") else []
    if backend not in PLAIN_BACKENDS:
        parts.append(
            _with_options("" if backend == model else backend, config)
        )  # a baseline without a checkpoint is the model
    variant, revision = (
        ", ".join(filter(None, parts)),
        str(config.get("model_sha") or asked or "") or None,
    )
    dtype, size = config.get("model_dtype"), number_of(config.get("model_num_parameters"))
    weights = (
        revision,
        str(dtype).removeprefix("torch.") if dtype else None,
        size if size and size > 0 else None,
    )
    dates = number_of(content.get("date")) or 0.0, date_in_name(path)
    known = {name: str(version) for name, version in versions.items() if version}
    return ResultsFile(path, content, model, variant, backend, *weights, *dates, known, tasks)


def _with_options(backend: str, config: Mapping[str, Any]) -> str:
    """A backend with the options of its own that a run was given; of a folder, such as an index,
    the last part."""
    arguments = config.get("model_args")
    if not isinstance(arguments, Mapping):
        arguments = dict(
            each.split("=", 1) for each in str(arguments or "").split(",") if "=" in each
        )
    own = {
        key: str(value).rstrip("/").rpartition("/")[2]
        for key, value in arguments.items()
        if key not in _LOADING
    }
    return " ".join([backend, *(f"{key}={value}" for key, value in sorted(own.items()))]).strip()


def _task(path: Path, content: Mapping[str, Any], name: str) -> TaskResult:
    results = _mapping(content["results"], name, True)
    metrics, stderrs = split_metrics(results)
    config = _mapping(content["configs"], name, True)
    metadata = _mapping(config, "metadata")
    for key in ("data", "judge_config") if "suite_version" in metadata else ():
        _mapping(metadata, key)
    counts, _ = _mapping(_mapping(content, "n-samples"), name), _mapping(content, "n-shot")
    effective = _count(counts.get("effective", results.get("sample_len", 0)), name)
    documents = _count(counts.get("original", effective), name), effective
    version = str(_mapping(content, "versions").get(name, metadata.get("version")))
    samples, limit = (
        beside(path, f"samples_{name}", ".jsonl"),
        number_of(_mapping(content, "config").get("limit")),
    )
    kind = _kind(metadata)
    return TaskResult(
        name, kind, metrics, stderrs, *documents, metadata, config, version, samples, limit
    )


def _mapping(content: Mapping[str, Any], key: str, is_needed: bool = False) -> Mapping[str, Any]:
    """The object under ``key``; an empty one where it is null or, unless it ``is_needed``, not
    there."""
    found = content[key] if is_needed else content.get(key)
    if found is None and not is_needed:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{key[:60]!r} is a {type(found).__name__}, not an object")  # noqa: TRY004
    return found


def _count(value: Any, name: str) -> int:
    number = number_of(value)
    if number is None or number < 0:
        raise ValueError(f"'n-samples' of {name[:60]!r} holds no count")
    return int(number)


def split_metrics(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """(metrics, standard errors) of a task by name, of several filters the first's; NaN where a
    score is not defined."""
    metrics: dict[str, float] = {}
    stderrs: dict[str, float] = {}
    for key, value in values.items():
        name, comma, _ = key.partition(",")
        is_error = name.endswith("_stderr")
        if value == NOT_DEFINED and not is_error:
            value = math.nan
        if not comma or not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if is_error:
            stderrs.setdefault(name.removesuffix("_stderr"), float(value))
        else:
            metrics.setdefault(name, float(value))
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
