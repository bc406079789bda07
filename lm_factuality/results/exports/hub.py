"""Results as ``.eval_results/*.yaml`` for a model's repository on the Hub
(https://huggingface.co/docs/hub/eval-results).

A result belongs to a benchmark, which is a dataset of the Hub with an ``eval.yaml``. None of the
suite's benchmarks is one yet, so which dataset stands for a task has to be said. The form has no
field for uncertainty: the notes say it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.chosen import Figure, figure, headline, measure_of
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.ground.files import write_text
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.results.exports.about import HUB, check_against, check_one_model, model_id
from lm_factuality.results.read import date_of

_BENCHMARK = re.compile(r"([^=\s]+)=([\w.-]+/[\w.-]+)(?::([\w.-]+))?(?:@([0-9a-f]{7,64}))?")


Source: TypeAlias = Mapping[str, str | None] | None


@dataclass(frozen=True)
class Benchmark:
    """``dataset`` on the Hub stands for ``task``; ``task_id`` is the task's name in its
    ``eval.yaml``."""

    task: str
    dataset: str
    task_id: str
    revision: str | None = None


def parse_benchmark(text: str) -> Benchmark:
    """From ``TASK=ORG/DATASET[:TASK_ID][@REVISION]``; by default ``TASK_ID`` is ``TASK``. Raises
    ConfigError: another form."""
    found = _BENCHMARK.fullmatch(text)
    if found is None:
        expected = (
            "TASK=ORG/DATASET[:TASK_ID][@REVISION], such as wiki_factor=my-org/factor:wiki@0123abc"
        )
        raise ConfigError(f"--benchmark {text!r}: expected {expected}")
    task, dataset, task_id, revision = found.groups()
    return Benchmark(task, dataset, task_id or task, revision)


def export_hub(
    files: Sequence[ResultsFile],
    out: Path,
    benchmarks: Sequence[Benchmark],
    model: str | None = None,
    source: Source = None,
) -> tuple[list[Path], list[str]]:
    """Writes ``ORG/NAME/.eval_results/TASK.yaml`` below ``out`` for every task that has a
    benchmark, with the newest of several runs; returns the files, and what is left out and why.
    Shares are given in per cent, as the papers' tables have them. ``source`` is where the results
    can be seen: an https address (``url``), what to call it (``name``), and whose it is (``org``,
    an organisation of the Hub). Raises ConfigError: no results have a benchmark's task, no name of
    the model, or no jsonschema; DataError: a run with ``--limit``, no score, a file that is not as
    documented, or ``out`` cannot be written."""
    check_one_model(files, model)
    known = sorted({task.task for file in files for task in file.tasks})
    for benchmark in benchmarks:
        if benchmark.task not in known:
            hint = did_you_mean(benchmark.task, known)
            raise ConfigError(
                f"--benchmark: the results have no task {benchmark.task!r}, only"
                f" {', '.join(known)}{hint}"
            )
    if not benchmarks:
        advice = (
            f"say which with --benchmark TASK=ORG/DATASET[:TASK_ID], for some of {', '.join(known)}"
        )
        raise ConfigError(f"the Hub shows a result under a benchmark dataset; {advice}")
    newest: dict[Path, tuple[ResultsFile, TaskResult, Benchmark]] = {}
    chosen = {benchmark.task for benchmark in benchmarks}
    left_out = [
        f"{task}: no dataset is named for it; add --benchmark {task}=ORG/DATASET"
        for task in known
        if task not in chosen
    ]
    for file in sorted(files, key=lambda each: each.date):
        for benchmark in benchmarks:
            if task := file.task(benchmark.task):
                name = f"{benchmark.dataset.split('/')[1]}_{benchmark.task_id}.yaml"
                path = out / model_id(file, model) / ".eval_results" / name
                if path in newest:
                    left_out.append(
                        f"{benchmark.task} of {newest[path][0].path.name}: {file.path.name} is"
                        " newer"
                    )
                newest[path] = file, task, benchmark
    entries = {path: [_entry(*each, source)] for path, each in newest.items()}
    for path, content in entries.items():
        check_against(HUB, [content], path.name)
    for path, content in entries.items():
        write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000))
    return list(entries), left_out


def _entry(
    file: ResultsFile, task: TaskResult, benchmark: Benchmark, source: Source
) -> dict[str, Any]:
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    if task.limit is not None:
        raise DataError(
            f"{file.path}: {task.task} was run with --limit {task.limit:g}; run it whole to"
            " publish it"
        )
    metric = headline(task)
    found = figure(task, metric) if metric else None
    if found is None:
        raise DataError(
            f"{file.path}: {task.task} has no score to publish ({_unscored(task)} unscored)"
        )
    measure = measure_of(task, found.metric)
    factor = 100 if measure is not None and measure.unit == "proportion" else 1
    value, notes = round(factor * found.value, 4), _notes(file, task, found, factor)
    seen: Any = {f"source_{key}": each for key, each in (source or {}).items()}
    which = benchmark.dataset, benchmark.task_id, value, benchmark.revision
    entry = EvalResultEntry(*which, date=date_of(file), notes=notes, **seen)
    written: dict[str, Any] = eval_result_entries_to_yaml([entry])[0]
    return written


def _unscored(task: TaskResult) -> str:
    return f"{task.metrics.get('unscored', 0):.0f} of {task.effective}"


def _notes(file: ResultsFile, task: TaskResult, found: Figure, factor: int) -> str:
    parts = [f"{found.metric}{' in per cent' if factor == 100 else ''}"]
    if found.low is not None and found.high is not None:
        parts.append(f"95% interval {factor * found.low:.2f} to {factor * found.high:.2f}")
    parts.append(f"{_unscored(task)} unscored")
    if found.unscored and found.worst is not None and found.best is not None:
        parts.append(
            f"{factor * found.worst:.2f} to {factor * found.best:.2f} if those are wrong or right"
        )
    parts.append(
        f"lm-factuality {file.versions.get('suite', '?')}, lm_eval"
        f" {file.versions.get('lm_eval', '?')}"
    )
    parts.append(f"{task.task} version {task.version}")
    benchmark = find_benchmark(task.kind)
    settings = {
        name: task.metadata.get(name) for name in (benchmark.data.settings if benchmark else ())
    }
    settings |= {name: getattr(file, name) for name in ("dtype", "revision", "backend")}
    parts += [
        f"{name} {value}"
        for name, value in settings.items()
        if isinstance(value, str | int | float) and value != ""
    ]
    if judge := task.metadata.get("judge_config"):
        certified = "certified" if "judge_certificate" in task.metadata else "without a certificate"
        parts.append(f"judge {judge.get('name')}, {certified}")
    return "; ".join(parts)
