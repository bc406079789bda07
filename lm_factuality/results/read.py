"""Read lm_eval's results files, and the scores that people's labels correct.

The corrected scores of a task are in ``corrected_TASK_DATE.json`` beside the results. Comparisons,
reports, leaderboards and the Python API call this module.
"""

import datetime
import logging
import math
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    model_validator,
)

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
from lm_factuality.scores.statistics import NOT_DEFINED, ClusterInterval

logger = logging.getLogger(__name__)

_CORRECTION_ADVICE = "delete it, or make it again by lm-factuality people correct"

_BACKENDS = load_yaml(__package__, "backends.yaml")

PLAIN_BACKENDS: frozenset[str] = frozenset(_BACKENDS["plain"])
"""The backends that score a checkpoint as it is.

Any other backend, such as retrieval or a way of decoding, makes another model of the checkpoint.
"""

_LOADING_ARGUMENTS: frozenset[str] = frozenset(_BACKENDS["loading"])
"""The model arguments that say how a checkpoint is loaded and run."""


class Correction(BaseModel):
    """The corrected scores of a task, as their file stores them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    """The version of the file format."""

    suite_version: str
    """The version of this package that wrote the file."""

    task: str
    """The name of the task."""

    samples: str
    """The SHA-256 of the file of samples."""

    key: str
    """The SHA-256 of the key of the sheet that people answered."""

    labels: tuple[str, ...]
    """The SHA-256 of each file with people's answers."""

    scores: Mapping[str, Corrected]
    """The corrected scores by name."""

    left_out: Mapping[str, int]
    """The number of samples that do not count, by the reason."""

    without: Mapping[str, str]
    """The reasons why scores are not corrected, by the name of the score."""


def write_correction(correction: Correction, results: Path) -> Path:
    """Write corrected scores beside the results file of their run, and return the path."""
    # The date connects the file with its run, as it does for samples.
    path = results.with_name(f"corrected_{correction.task}_{date_in_name(results)}.json")
    write_json(path, correction.model_dump())
    return path


def read_correction(path: Path) -> Correction:
    """Read a file of corrected scores, which `write_correction` has written.

    Raises:
        DataError: The file is something else, or a score is outside of its own interval.
    """
    try:
        content = parse_json(read_text(path, _CORRECTION_ADVICE))
        correction = to_model(Correction, content)
        for name, score in correction.scores.items():
            _check_corrected_score(name, score)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: no corrected scores: {error}; {_CORRECTION_ADVICE}") from error
    return correction


def _check_corrected_score(name: str, score: Corrected) -> None:
    """Check that a corrected score has finite numbers, and lies inside its interval.

    Raises:
        ValueError: A number is not finite, or the score lies outside of its interval.
    """
    is_finite = all(map(math.isfinite, (score.low, score.high, score.stderr)))
    if not (is_finite and score.low <= score.value <= score.high):
        raise ValueError(f"{name}: no finite number inside its interval")


def read_results_files(
    paths: Sequence[Path], with_corrected: bool = True
) -> tuple[ResultsFile, ...]:
    """Read results files of lm_eval, and all results files in folders.

    Args:
        paths: Files, or folders that stand for all ``results_*.json`` anywhere below them.
        with_corrected: Whether to read the scores that people's labels correct as well.

    Returns:
        The files. A file that several paths name is read once.

    Raises:
        DataError: A path has no results, or lm_eval did not write a file.
    """
    all_files: list[Path] = []
    for path in paths:
        # Sorting makes the order the same on every machine.
        files = sorted(path.rglob("results_*.json")) if path.is_dir() else [path]
        if not files or not all(file.is_file() for file in files):
            raise DataError(
                f"{path}: no results_*.json here; expected lm_eval's --output_path or a file"
                " below it"
            )
        all_files += files
    # The keys of a dictionary are the files in order, each of them once.
    return tuple(read_results_file(file, with_corrected) for file in dict.fromkeys(all_files))


def read_results_file(path: Path, with_corrected: bool = True) -> ResultsFile:
    """Read a results file of lm_eval.

    Args:
        path: The file.
        with_corrected: Whether to read the scores that people's labels correct as well.

    Returns:
        The model and its tasks in lm_eval's order, without groups of tasks.

    Raises:
        DataError: lm_eval did not write the file, or its corrected scores cannot be used.
    """
    try:
        file = to_results_file(path, parse_json(path.read_text(encoding="utf-8")))
    # A huge number overflows when it becomes an int, and JSON can be nested too deeply.
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{path}: not a results file of lm_eval: {error}; expected a results_*.json that"
            " --output_path left"
        ) from error
    if not with_corrected:
        return file
    return replace(file, tasks=tuple(_add_corrected_scores(path, task) for task in file.tasks))


def _add_corrected_scores(results: Path, task: TaskResult) -> TaskResult:
    """Return a task with the scores that people's labels correct, if their file exists.

    Args:
        results: The results file of the run, beside which the file is.
        task: The task of the run.

    Raises:
        DataError: The file is damaged, or its scores are of other samples than those of the run.
    """
    path = sibling_of_results(results, f"corrected_{task.task}", ".json")
    if path is None:
        return task
    correction = read_correction(path)
    # `correction.samples` is the SHA-256 of the samples that people labelled. If the samples were
    # judged again, the corrected scores no longer fit them.
    samples = task.samples
    if correction.task != task.task or not samples or sha256_of(samples) != correction.samples:
        raise DataError(
            f"{path}: of other samples (SHA-256 {correction.samples[:12]}) than the run has now;"
            f" {_CORRECTION_ADVICE}"
        )
    return replace(task, corrected=correction.scores)


def date_of(file: ResultsFile) -> str:
    """Return when a run began, in UTC: ``2026-01-31T10:00:00+00:00``.

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


_JsonObject = dict[str, Any]

_EMPTY_IF_NULL = BeforeValidator(lambda content: {} if content is None else content)
"""Reads null in a results file as an empty object."""


class _StatedInterval(BaseModel):
    """The interval of a score in a results file."""

    low: FiniteFloat | None
    """The lower end, null if it is not defined."""

    high: FiniteFloat | None
    """The upper end."""

    num_clusters: NonNegativeInt
    """The number of clusters that have a part in the score."""

    @model_validator(mode="after")
    def check_order(self) -> "_StatedInterval":
        """Refuse an interval whose ends are in the wrong order."""
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the lower end {self.low} is above the upper end {self.high}")
        return self


class _ResultsContent(BaseModel):
    """The parts of a results file that are checked."""

    results: dict[str, _JsonObject]
    """The metrics of each task, by the task's name."""

    configs: dict[str, _JsonObject]
    """The config of each task, by the task's name."""

    config: Annotated[_JsonObject, _EMPTY_IF_NULL] = {}
    """The options of the run."""

    versions: Annotated[_JsonObject, _EMPTY_IF_NULL] = {}
    """The version of each task, by the task's name."""

    intervals: Annotated[dict[str, dict[str, _StatedInterval]], _EMPTY_IF_NULL] = {}
    """The 95% interval of each score of each task, by the names of both."""

    counts: Annotated[dict[str, dict[str, NonNegativeFloat]], _EMPTY_IF_NULL] = Field(
        {}, alias="n-samples"
    )
    """The number of documents that each task has (``original``) and has run (``effective``)."""


class SuiteMetadata(BaseModel):
    """The parts of the metadata of this package's tasks that are checked."""

    data: _JsonObject | None = None
    """The description of the data file."""

    judge_config: _JsonObject | None = None
    """The configuration of the judge."""


def to_results_file(path: Path, content: Mapping[str, Any]) -> ResultsFile:
    """Convert the content of a results file of lm_eval, without corrected scores.

    Args:
        path: The path that the file has, or will have.
        content: The JSON object of the file.

    Raises:
        ValueError: lm_eval does not write such a file.
    """
    checked = to_model(_ResultsContent, content)
    config = checked.config
    # A group of tasks has results, but no config.
    names = [name for name in checked.results if name in checked.configs]
    tasks = tuple(_to_task_result(path, checked, name) for name in names)
    # lm_eval names an adapter by its own name, not by that of its base model.
    model = str(content.get("model_name") or config.get("model", "unknown")).rstrip("/")
    backend = str(config.get("model", "hf"))
    # The commit is more exact than the name of a branch. Runs without a checkpoint have neither.
    revision = config.get("model_sha") or config.get("model_revision")
    # PyTorch writes torch.float32 for float32.
    dtype = str(config.get("model_dtype") or "").removeprefix("torch.")
    num_parameters = number_of(config.get("model_num_parameters")) or 0.0
    return ResultsFile(
        path=path,
        content=content,
        model=model,
        variant=_describe_variant(model, backend, config),
        backend=backend,
        revision=str(revision) if revision else None,
        dtype=dtype or None,
        num_parameters=num_parameters if num_parameters > 0 else None,
        date=number_of(content.get("date")) or 0.0,
        date_text=date_in_name(path),
        versions=_find_versions(content, tasks),
        tasks=tasks,
    )


def _find_versions(content: Mapping[str, Any], tasks: Sequence[TaskResult]) -> dict[str, str]:
    """Return the versions of lm_eval, transformers and this package (``suite``) that a run used."""
    versions = {name: content.get(f"{name}_version") for name in ("lm_eval", "transformers")}
    # Tasks of lm_eval itself have no such version.
    suite_versions = [
        task.metadata["suite_version"] for task in tasks if "suite_version" in task.metadata
    ]
    # Of several tasks, the first one counts.
    if suite_versions:
        versions["suite"] = suite_versions[0]
    return {name: str(version) for name, version in versions.items() if version}


def _describe_variant(model: str, backend: str, config: Mapping[str, Any]) -> str:
    """Describe how a run differs from a plain run of the same model, such as by retrieval.

    Args:
        model: The name of the model.
        backend: lm_eval's ``--model``, such as ``hf`` or ``hf-ralm``.
        config: The options of the run.

    Returns:
        The revision and the backend, such as ``step1000, hf-ralm index=wiki``. It is empty for
        the main revision and a backend that scores a checkpoint as it is.
    """
    differences = []
    revision = config.get("model_revision")
    if revision not in (None, "", "main"):
        differences.append(str(revision))
    if backend not in PLAIN_BACKENDS:
        arguments = _describe_score_arguments(config)
        # A baseline without a checkpoint is named after its backend, which need not be repeated.
        words = arguments if backend == model else [backend, *arguments]
        if words:
            differences.append(" ".join(words))
    return ", ".join(differences)


def _describe_score_arguments(config: Mapping[str, Any]) -> list[str]:
    """List the model arguments that can change scores, such as ``index=wiki`` and ``stride=4``.

    Arguments that only say how a checkpoint is loaded, such as ``dtype``, are left out.
    """
    assignments = []
    for argument, value in sorted(model_arguments(config).items()):
        if argument not in _LOADING_ARGUMENTS:
            # The folder above an index differs between machines, so /data/wiki/ becomes wiki.
            name = posixpath.basename(str(value).rstrip("/"))
            assignments.append(f"{argument}={name}")
    return assignments


def _to_task_result(path: Path, file: _ResultsContent, name: str) -> TaskResult:
    """Convert the results of one task to this package's form, with its metadata and samples.

    Args:
        path: The path of the results file, beside which the samples are.
        file: The content of the results file.
        name: The name of the task.

    Raises:
        ValueError: The metadata of a task of this package have a wrong type.
    """
    results = file.results[name]
    task_config = file.configs[name]
    metadata = to_model(_JsonObject, task_config.get("metadata") or {})
    # Only tasks of this package describe their data and judge, whose types are checked here.
    if "suite_version" in metadata:
        to_model(SuiteMetadata, metadata)
    # The number of documents, such as {"original": 2994, "effective": 10} after a run with
    # --limit 10. A file without it may have the number of documents that were run in the results.
    counts = file.counts.get(name, {})
    sample_len = number_of(results.get("sample_len")) or 0
    num_run = int(counts.get("effective", sample_len))
    intervals = {}
    for score_name, stated in file.intervals.get(name, {}).items():
        intervals[score_name] = ClusterInterval(stated.low, stated.high, stated.num_clusters)
    metrics = _split_metrics(results)
    return TaskResult(
        task=name,
        kind=_benchmark_kind(metadata),
        metrics=metrics.values,
        stderrs=metrics.stderrs,
        intervals=intervals,
        num_samples=int(counts.get("original", num_run)),
        effective=num_run,
        metadata=metadata,
        config=task_config,
        # If the file has no table of versions, the task's own metadata tell its version.
        version=str(file.versions.get(name, metadata.get("version"))),
        samples=sibling_of_results(path, f"samples_{name}", ".jsonl"),
        limit=number_of(file.config.get("limit")),
    )


class _Metrics(NamedTuple):
    """The metrics of a task by name, without lm_eval's filters."""

    values: dict[str, float]
    stderrs: dict[str, float]
    """The standard errors. Those that are not defined are missing."""


def _split_metrics(results: Mapping[str, object]) -> _Metrics:
    """Separate the metrics of a task from their standard errors.

    Args:
        results: The results of the task, by metric and filter. Texts, such as the task's alias,
            are left out.

    Example:
        ``{"acc,none": 0.5, "acc_stderr,none": 0.1, "alias": "wiki"}`` gives the value
        ``{"acc": 0.5}`` and the standard error ``{"acc": 0.1}``.
    """
    values: dict[str, float] = {}
    stderrs: dict[str, float] = {}
    for key, result in results.items():
        # Only metrics have a filter after a comma. Of several filters, the first one counts.
        name, comma, _ = key.partition(",")
        if not comma:
            continue
        if name.endswith("_stderr"):
            if _is_number(result):
                stderrs.setdefault(name.removesuffix("_stderr"), float(result))
        elif result == NOT_DEFINED:
            values.setdefault(name, math.nan)
        elif _is_number(result):
            values.setdefault(name, float(result))
    return _Metrics(values, stderrs)


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value of a results file is a number. To Python, True is an integer too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _benchmark_kind(metadata: Mapping[str, Any]) -> str:
    """Return the kind of benchmark, such as ``felm``, that the metadata of a task state.

    Tasks of other packages get the kind `OTHER`. A benchmark whose package is not installed causes
    a warning.
    """
    if "suite_version" not in metadata or "benchmark" not in metadata:
        return OTHER
    # Plugins can add benchmarks, so the kind may not be known here.
    kind = str(metadata["benchmark"])
    if find_benchmark(kind) is None:
        logger.warning(
            "a task is of the benchmark %r, which is not installed here: install its package",
            # A damaged file may hold a very long text.
            kind[:60],
        )
    return kind
