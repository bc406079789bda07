"""Write results as ``.eval_results/*.yaml`` of a model's repository on the Hub.

The form is https://huggingface.co/docs/hub/eval-results. A result belongs to a benchmark, which is
a dataset of the Hub with an ``eval.yaml``. None of the suite's benchmarks is one yet, so the user
names the dataset that stands for a task. The form has no field for uncertainty, so the notes of a
result state it. Arguments and environments of a run may hold paths and keys: only what this module
names leaves the machine.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.chosen import Figure, figure, headline, measure_of
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.ground.files import write_text
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.results.read import date_of

_BENCHMARK = re.compile(
    r"([^=\s]+)=([A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*)"
    r"(?::([\w.-]+))?(?:@([0-9a-f]{7,64}))?"
)
# Both parts of a model's name become folders, so neither may end with a dot: some file systems
# do not keep it.
_MODEL = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?"
)


@dataclass(frozen=True)
class Benchmark:
    """A dataset on the Hub that stands for a task of the suite."""

    task: str
    """The task as lm_eval's results name it."""

    dataset: str
    """``ORG/DATASET`` on the Hub."""

    task_id: str
    """The name of the task in the dataset's ``eval.yaml``."""

    revision: str | None = None
    """The commit of the dataset."""


def parse_benchmark(text: str) -> Benchmark:
    """Read a benchmark as the command line states it.

    For example, ``wiki_factor=my-org/factor:wiki@0123abc``. Without ``:TASK_ID`` the task has the
    same name on the Hub.

    Raises:
        ConfigError: ``text`` is not ``TASK=ORG/DATASET[:TASK_ID][@REVISION]``.
    """
    match = _BENCHMARK.fullmatch(text)
    if match is None:
        expected = (
            "TASK=ORG/DATASET[:TASK_ID][@REVISION], such as wiki_factor=my-org/factor:wiki@0123abc"
        )
        raise ConfigError(f"--benchmark {text!r}: expected {expected}")
    task, dataset, task_id, revision = match.groups()
    return Benchmark(task, dataset, task_id or task, revision)


def export_hub(
    files: Sequence[ResultsFile],
    out: Path,
    benchmarks: Sequence[Benchmark],
    model: str | None = None,
    source: Mapping[str, str | None] | None = None,
) -> tuple[list[Path], list[str]]:
    """Write ``ORG/NAME/.eval_results/TASK.yaml`` below ``out`` for every task with a benchmark.

    Of several runs of a task the newest is written. Shares are given in per cent, as the papers'
    tables have them. Nothing is written unless every file can be.

    Args:
        model: ``ORG/NAME`` of the model. Defaults to what lm_eval calls it.
        source: Where the results can be seen: an https address (``url``), what to call it
            (``name``), and the organisation of the Hub that it belongs to (``org``).

    Returns:
        The files, and one sentence on each result that is left out.

    Raises:
        ConfigError: The results have no task of a benchmark, the model has no name on the Hub, or
            the source is no https address.
        DataError: A run with ``--limit`` or without a score, or ``out`` cannot be written.
    """
    if source is not None and not str(source["url"]).startswith("https://"):
        raise ConfigError(f"--source-url {source['url']!r}: expected an address with https://")
    _check_one_model(files, model)
    tasks = sorted({task.task for file in files for task in file.tasks})
    _check_benchmarks(benchmarks, tasks)

    named_tasks = {benchmark.task for benchmark in benchmarks}
    left_out = [
        f"{task}: no dataset is named for it; add --benchmark {task}=ORG/DATASET"
        for task in tasks
        if task not in named_tasks
    ]
    newest: dict[Path, tuple[ResultsFile, TaskResult, Benchmark]] = {}
    for file in sorted(files, key=lambda file: file.date):
        for benchmark in benchmarks:
            task = file.task(benchmark.task)
            if task is None:
                continue
            name = f"{benchmark.dataset.split('/')[1]}_{benchmark.task_id}.yaml"
            path = out / _model_id(file, model) / ".eval_results" / name
            if path in newest:
                older = newest[path][0].path.name
                left_out.append(f"{task.task} of {older}: {file.path.name} is newer")
            newest[path] = (file, task, benchmark)

    entries = {path: _entry(*run, source or {}) for path, run in newest.items()}
    for path, entry in entries.items():
        write_text(path, yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=1000))
    return list(entries), left_out


def _check_one_model(files: Sequence[ResultsFile], model: str | None) -> None:
    """Raise ConfigError if one name is given for the results of several models."""
    # Several paths may name the same folder, so only its last part counts.
    names = sorted({Path(file.model).name for file in files})
    if model is not None and len(names) > 1:
        raise ConfigError(
            f"--model {model}: the results are of {len(names)} models ({', '.join(names)}); export"
            " each by itself"
        )


def _check_benchmarks(benchmarks: Sequence[Benchmark], tasks: Sequence[str]) -> None:
    """Raise ConfigError if there is no benchmark, or one of a task that no results have."""
    for benchmark in benchmarks:
        if benchmark.task not in tasks:
            hint = did_you_mean(benchmark.task, tasks)
            raise ConfigError(
                f"--benchmark: the results have no task {benchmark.task!r}, only"
                f" {', '.join(tasks)}{hint}"
            )
    if not benchmarks:
        raise ConfigError(
            "the Hub shows a result under a benchmark dataset; say which with --benchmark"
            f" TASK=ORG/DATASET[:TASK_ID], for some of {', '.join(tasks)}"
        )


def _model_id(file: ResultsFile, model: str | None) -> str:
    """Return ``ORG/NAME`` of the model: ``model``, or what lm_eval calls it.

    Raises:
        ConfigError: That is no name on the Hub, but for example a folder.
    """
    name = model or file.model
    is_folder = model is None and Path(name).is_dir()
    if is_folder or not _MODEL.fullmatch(name) or "data" in name.split("/"):
        raise ConfigError(
            f"{file.path}: the model is {name!r}, expected ORG/NAME as on the Hub; say which it is"
            " with --model ORG/NAME"
        )
    return name


def _entry(
    file: ResultsFile, task: TaskResult, benchmark: Benchmark, source: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return a result in the Hub's form, which ``huggingface_hub`` writes and reads."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    if task.limit is not None:
        raise DataError(
            f"{file.path}: {task.task} was run with --limit {task.limit:g}; run it whole to"
            " publish it"
        )
    metric = headline(task)
    score = figure(task, metric) if metric else None
    if score is None:
        raise DataError(
            f"{file.path}: {task.task} has no score to publish ({_unscored(task)} unscored)"
        )
    measure = measure_of(task, score.metric)
    factor = 100 if measure is not None and measure.unit == "proportion" else 1
    entry = EvalResultEntry(
        dataset_id=benchmark.dataset,
        task_id=benchmark.task_id,
        value=round(factor * score.value, 4),
        dataset_revision=benchmark.revision,
        date=date_of(file),
        source_url=source.get("url"),
        source_name=source.get("name") or None,
        source_org=source.get("org") or None,
        notes=_notes(file, task, score, factor),
    )
    return dict(eval_result_entries_to_yaml([entry])[0])


def _unscored(task: TaskResult) -> str:
    return f"{task.metrics.get('unscored', 0):.0f} of {task.effective}"


def _notes(file: ResultsFile, task: TaskResult, score: Figure, factor: int) -> str:
    """Say how sure a score is, and what it depends on: versions, settings and the judge."""
    parts = [f"{score.metric} in per cent" if factor == 100 else score.metric]
    if score.low is not None and score.high is not None:
        parts.append(f"95% interval {factor * score.low:.2f} to {factor * score.high:.2f}")
    parts.append(f"{_unscored(task)} unscored")
    if score.unscored and score.worst is not None and score.best is not None:
        parts.append(
            f"{factor * score.worst:.2f} to {factor * score.best:.2f} if those are wrong or right"
        )
    suite_version = file.versions.get("suite", "?")
    parts.append(f"lm-factuality {suite_version}, lm_eval {file.versions.get('lm_eval', '?')}")
    parts.append(f"{task.task} version {task.version}")

    benchmark = find_benchmark(task.kind)
    settings = {
        name: task.metadata.get(name) for name in (benchmark.data.settings if benchmark else ())
    }
    settings |= {"dtype": file.dtype, "revision": file.revision, "backend": file.backend}
    for name, value in settings.items():
        if isinstance(value, str | int | float) and value != "":
            parts.append(f"{name} {value}")
    judge = task.metadata.get("judge_config")
    if judge:
        certified = "certified" if "judge_certificate" in task.metadata else "without a certificate"
        parts.append(f"judge {judge.get('name')}, {certified}")
    return "; ".join(parts)
