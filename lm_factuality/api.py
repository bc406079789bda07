"""The Python API of the suite. The names in ``__all__`` keep their meaning from release to release.

Scripts and notebooks import it; see ``docs/python.md``. The import is cheap, since functions import
what they need. Scores and rows are plain dictionaries for ``pandas.DataFrame``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lm_factuality.ground.errors import (
    BackendDownError,
    ConfigError,
    DataError,
    FactualityError,
    ModelError,
    reasons_of,
)

if TYPE_CHECKING:
    from lm_eval.api.model import LM

    from factor_gen.config import load_build
    from factor_gen.pipeline import build
    from judges.config import JudgeConfig, load_judge_config
    from judges.judge import Judge
    from judges.verify import Pair, verify
    from lm_factuality.harness.outputs import ResultsFile, TaskResult

__all__ = [
    "BackendDownError",
    "ConfigError",
    "DataError",
    "FactualityError",
    "ModelError",
    "Results",
]
# The module that defines each name that is imported at its first use.
_LAZY = {
    "Judge": "judges.judge",
    "JudgeConfig": "judges.config",
    "Pair": "judges.verify",
    "build": "factor_gen.pipeline",
    "load_build": "factor_gen.config",
    "load_judge_config": "judges.config",
    "verify": "judges.verify",
}
# The keys of a score that are attributes of its figure.
_FIGURE = ("value", "low", "high", "stderr", "unscored", "worst", "best", "floor")
# The keys of a score that are attributes of the corrected figure.
_CORRECTED = {"corrected_low": "low", "corrected_high": "high", "corrected": "value"}
__all__ += ["evaluate", "open_model", "read_results", "run", "score_rows"]
__all__ += ["Judge", "JudgeConfig", "Pair", "build", "load_build", "load_judge_config", "verify"]


def __getattr__(name: str) -> object:
    """Import a public name from its module at the first use (PEP 562).

    Raises:
        AttributeError: This module has no such name.
    """
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


@dataclass(frozen=True)
class Results:
    """The results of one or more runs of lm_eval."""

    files: tuple[ResultsFile, ...]
    """The results files, with their ``tasks`` and their ``content`` as lm_eval writes it."""

    def scores(self) -> list[dict[str, Any]]:
        """Return a dictionary for each score of each of the suite's tasks, the headline first.

        Returns:
            Dictionaries with the keys ``model``, ``task``, ``score`` (its name), ``rows`` (the
            number of rows that were run), ``value``, ``low`` and ``high`` (the 95% interval),
            ``stderr``, ``unscored`` (the number of unscored items), ``worst`` and ``best`` (the
            value if all of these were wrong, or right), ``floor`` (the score of a model that knows
            nothing), ``corrected`` (the value without the judge's errors), ``corrected_low`` and
            ``corrected_high``. Shares lie between 0 and 1, and None means not known.
        """
        from lm_factuality.benchmarks.chosen import (
            benchmark_of,
            headline_name,
            score_figure,
            suite_runs,
        )

        rows = []
        for run in suite_runs(self.files)[0]:
            task = run.task
            headline = headline_name(task)
            names = sorted(task.metrics, key=lambda name: name != headline)
            for name in names:
                score = benchmark_of(task).find_score(name)
                figure = score_figure(task, name)
                if score is None or score.value_range is None or figure is None:
                    continue
                row = {
                    "model": run.file.label,
                    "task": task.task,
                    "score": name,
                    "rows": figure.n,
                }
                for key in _FIGURE:
                    row[key] = getattr(figure, key)
                for key, attribute in _CORRECTED.items():
                    # Only judges with a certificate have a corrected figure.
                    row[key] = getattr(figure.corrected, attribute, None)
                rows.append(row)
        return rows

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row of each task whose samples were kept.

        Returns:
            Dictionaries with the keys ``model``, ``task``, ``doc_id``, each score of the row by
            its name (None if the row has none), ``unscored`` (the reason, for a row without a
            score), and ``doc``, ``resps`` and ``filtered_resps`` as lm_eval writes them.

        Raises:
            DataError: A file of samples is damaged.
        """
        rows = []
        for file in self.files:
            for task in file.tasks:
                for sample in _samples(file, task):
                    row = {"model": file.label, "task": task.task, "doc_id": sample["doc_id"]}
                    for name in (*sample.get("metrics", ()), "doc", "resps", "filtered_resps"):
                        row[name] = sample.get(name)
                    rows.append(row)
        return rows

    def unscored(self) -> list[dict[str, Any]]:
        """Return a dictionary for each reason why rows of a task have no score.

        Returns:
            Dictionaries with the keys ``model``, ``task``, ``rows`` (the number of rows),
            ``reason`` and ``cure`` (what to do, or an empty string if that is not known).

        Raises:
            DataError: A file of samples is damaged.
        """
        reasons_by_run: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for row in self.rows():
            reason = row.get("unscored")
            if isinstance(reason, str):
                reasons_by_run[row["model"], row["task"]].append(reason)

        counts = []
        for (model, task), reasons in reasons_by_run.items():
            for reason in reasons_of(reasons):
                counts.append(
                    {
                        "model": model,
                        "task": task,
                        "rows": reason.items,
                        "reason": reason.example,
                        "cure": reason.cure,
                    }
                )
        return counts


def _samples(file: ResultsFile, task: TaskResult) -> Iterable[Mapping[str, Any]]:
    """Return the samples of a task, from its file of samples or from memory.

    If lm_eval applied several filters, each row has a sample per filter. Only those of the first
    filter are returned.
    """
    from lm_factuality.harness.samples import samples_of

    if task.samples:
        return samples_of(task)
    samples = file.content.get("samples", {}).get(task.task, ())
    return [sample for sample in samples if sample["filter"] == samples[0]["filter"]]


def read_results(*paths: str | Path) -> Results:
    """Read the results of earlier runs.

    Args:
        *paths: Results files, or folders of them.

    Raises:
        DataError: There are no results, or lm_eval did not write a file.
    """
    from lm_factuality.results.read import read_results_files

    return Results(read_results_files([Path(path) for path in paths]))


def open_model(name: str = "hf-tree", **arguments: Any) -> LM:
    """Open a model of lm_eval or of the suite.

    Example:
        ``open_model("hf", pretrained="gpt2")``

    Args:
        name: The name of the kind of model, as ``--model`` takes it.
        **arguments: The arguments of the model, as ``--model_args`` takes them.

    Raises:
        ConfigError: There is no kind of model of this name.
    """
    from lm_eval.api.registry import get_model

    from lm_factuality.harness.run import register_models

    register_models()
    try:
        model_class: type[LM] = get_model(name)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"no model is called {name!r}: {error}") from error
    # lm_eval's default device stands for the CPU on machines without a GPU.
    return model_class.create_from_arg_obj({"device": "cuda:0", **arguments})


def evaluate(
    model: LM | str,
    tasks: Sequence[Any],
    include_path: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Results:
    """Run tasks on a model in memory, without writing files.

    Args:
        model: An open model, or the name or folder of a checkpoint.
        tasks: The names or YAML files of tasks, as ``lm-factuality run`` takes them, or task
            objects of lm_eval.
        include_path: Folders with more tasks.
        metadata: Settings of the tasks, such as ``{"judge": "lexical"}``.
        **options: Options of ``lm_eval.simple_evaluate``, such as ``limit=10``.

    Returns:
        The results of one run.

    Raises:
        ConfigError: A task is not known, or it or its judge cannot be used.
        DataError: The data of a task cannot be used.
        ModelError: The model does not give the answers that a task needs.
        BackendDownError: A judge cannot be reached. The generations of the model are kept.
    """
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from lm_factuality.harness import judging
    from lm_factuality.harness.context import EvaluationRun, begin_run
    from lm_factuality.harness.internals import internal
    from lm_factuality.harness.tasks import with_suite
    from lm_factuality.results.read import to_results_file

    _refuse_broken_tasks(tasks, include_path)
    manager = TaskManager(
        include_path=with_suite(include_path), include_defaults=False, metadata=dict(metadata or {})
    )
    begin_run(EvaluationRun(has_response_cache=bool(options.get("use_cache"))))
    lm = open_model(pretrained=model) if isinstance(model, str) else model
    with _without_event_loop():
        content = simple_evaluate(lm, tasks=list(tasks), task_manager=manager, **options)
    judging.raise_failures()

    # Samples become what lm_eval would write to its files.
    sanitize = internal("lm_eval.utils:sanitize_list")
    for samples in content["samples"].values():
        for sample in samples:
            for key in ("resps", "filtered_resps"):
                sample[key] = sanitize(sample[key])
    to_json = internal("lm_eval.utils:handle_non_serializable")
    plain_content = json.loads(json.dumps(content, default=to_json))
    return Results((to_results_file(Path("results.json"), plain_content),))


def _refuse_broken_tasks(tasks: Sequence[object], include_path: Sequence[str]) -> None:
    """Check the YAML files of tasks before the model is loaded.

    Args:
        tasks: The names or YAML files of tasks. Task objects are not checked.
        include_path: Folders with more tasks.

    Raises:
        ConfigError: A task is not known, or its YAML cannot be used.
    """
    from lm_factuality.harness.tasks import find_configs

    for name in tasks:
        if not isinstance(name, str):
            continue
        for _, config in find_configs(name, include_path, may_import=True):
            if isinstance(config, FactualityError):
                raise config


def score_rows(model: LM | str, rows: Iterable[Mapping[str, Any]], **metadata: Any) -> Results:
    """Compute FACTOR's scores of rows that are in memory.

    Args:
        model: An open model, or the name or folder of a checkpoint.
        rows: The rows, with the keys ``prefix``, ``completion``, ``contradiction_0``, and so on
            (see ``docs/factor.md``).
        **metadata: Settings of the task, such as ``columns``, ``window`` or ``protocol``.

    Returns:
        The results of the task ``rows``.

    Raises:
        ConfigError: A setting cannot be used.
        DataError: There are no rows, or a key is missing.
        ModelError: The model gives no log-probabilities.
    """
    from lm_factuality.benchmarks.factor.task import FactorTask
    from lm_factuality.ground.files import write_lines

    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_lines(path, (json.dumps(dict(row), default=str) for row in rows))
        config = {"task": "rows", "dataset_path": str(path), "metadata": metadata}
        return evaluate(model, [FactorTask(config=config)])


def run(
    tasks: Sequence[str], model: str = "hf", output_path: str | Path = "results", **options: Any
) -> Results:
    """Run tasks as the command ``lm-factuality run`` does, which leaves its files for later.

    Example:
        ``run(["sample_factor"], model_args={"pretrained": "gpt2"}, limit=10)``

    Args:
        tasks: The names or YAML files of the tasks.
        model: The name of the kind of model, as ``--model`` takes it.
        output_path: The folder for the results and samples.
        **options: The other options of the command, without dashes. True stands for an option
            without a value; options that are None or False are left out.

    Returns:
        The results that the command wrote.

    Raises:
        ConfigError: A task, a judge or an option cannot be used, or an option has a credential in
            it.
        DataError: The data of a task cannot be used.
        ModelError: The model does not give the answers that a task needs.
        BackendDownError: A judge cannot be reached. The generations of the model are kept.
    """
    from lm_factuality.harness.run import run as run_command

    options |= {"model": model, "tasks": ",".join(tasks), "output_path": output_path}
    arguments = ["--log_samples"]
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append(f"--{name}")
        if value is not True:
            arguments.append(json.dumps(value) if isinstance(value, Mapping) else str(value))

    # The command changes sys.argv for lm_eval.
    argv = sys.argv
    try:
        with _without_event_loop():
            return read_results(*sorted(run_command(arguments)))
    finally:
        sys.argv = argv


@contextmanager
def _without_event_loop() -> Iterator[None]:
    """Hide the running event loop of a notebook from asyncio while the block runs.

    lm_eval's clients of servers start an event loop, which asyncio refuses where one runs already.
    """
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if loop is not None:
            asyncio.set_event_loop(loop)
