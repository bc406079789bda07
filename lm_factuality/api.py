"""The suite from Python: what stands in ``__all__`` keeps its name and meaning from release to
release.

Importing it is cheap: what is used is imported when it is. It works in a notebook, where an event
loop runs already. Scores and rows are plain dictionaries, which ``pandas.DataFrame`` takes as they
are; see ``docs/python.md``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lm_factuality.ground.errors import (
    BackendDown,
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

__all__ = ["BackendDown", "ConfigError", "DataError", "FactualityError", "ModelError", "Results"]
_LAZY = {
    **dict.fromkeys(("JudgeConfig", "load_judge_config"), "judges.config"),
    **{"Judge": "judges.judge", "Pair": "judges.verify", "verify": "judges.verify"},
    **{"load_build": "factor_gen.config", "build": "factor_gen.pipeline"},
}
_FIGURE = ("value", "low", "high", "stderr", "unscored", "worst", "best", "floor")
__all__ += ["evaluate", "open_model", "read_results", "run", "score_rows"]
__all__ += ["Judge", "JudgeConfig", "Pair", "build", "load_build", "load_judge_config", "verify"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


@dataclass(frozen=True)
class Results:
    """What lm_eval says of runs; ``files`` has all of it: their ``tasks``, and ``content`` as
    lm_eval writes it."""

    files: tuple[ResultsFile, ...]

    def scores(self) -> list[dict[str, Any]]:
        """For each score of each task, the headline first: ``model``, ``task``, ``score`` (its
        name), ``rows`` (that were run), ``value``, ``low`` and ``high`` (its 95% interval),
        ``stderr``, ``unscored`` (how many), ``worst`` and ``best`` (its value if these were wrong,
        or right), ``floor`` (what knowing nothing scores), ``corrected`` (without the judge's
        errors) with ``corrected_low`` and ``corrected_high``. Shares lie between 0 and 1; None is
        what is not known."""
        from lm_factuality.benchmarks.chosen import figure, headline, measure_of

        found = []
        for file, task in self._tasks():
            first = headline(task)
            names = [
                name for name in task.metrics if first is None or measure_of(task, name) is not None
            ]
            for each in filter(
                None, (figure(task, name) for name in sorted(names, key=lambda name: name != first))
            ):
                about = {
                    "model": file.label,
                    "task": task.task,
                    "score": each.metric,
                    "rows": each.n,
                }
                ends = {
                    f"corrected_{key}": getattr(each.corrected, key, None)
                    for key in ("value", "low", "high")
                }
                ends["corrected"] = ends.pop("corrected_value")
                found.append(about | {key: getattr(each, key) for key in _FIGURE} | ends)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """For each row whose sample is known: ``model``, ``task``, ``doc_id``, what it adds to each
        score by name (None, and the reason under ``unscored``, if it has none), ``doc``, ``resps``
        and ``filtered_resps`` as lm_eval writes them. Raises DataError: a file of samples is
        damaged."""
        return [
            {"model": file.label, "task": task.task, "doc_id": sample["doc_id"]}
            | {
                name: sample.get(name)
                for name in (*sample.get("metrics", ()), "doc", "resps", "filtered_resps")
            }
            for file, task in self._tasks()
            for sample in _samples(file, task)
        ]

    def unscored(self) -> list[dict[str, Any]]:
        """Why rows have no score: ``model``, ``task``, ``reason``, ``cure`` (empty where none is
        known), ``rows`` (how many)."""
        said: dict[tuple[str, str], list[str]] = {}
        for row in self.rows():
            if isinstance(reason := row.get("unscored"), str):
                said.setdefault((row["model"], row["task"]), []).append(reason)
        keys = ("model", "task", "rows", "reason", "cure")
        return [
            dict(zip(keys, (*run, *each), strict=True))
            for run, given in said.items()
            for each in reasons_of(given)
        ]

    def _tasks(self) -> Iterator[tuple[ResultsFile, TaskResult]]:
        return ((file, task) for file in self.files for task in file.tasks)


def _samples(file: ResultsFile, task: TaskResult) -> Iterable[Mapping[str, Any]]:
    from lm_factuality.harness.samples import samples_of

    found = file.content.get("samples", {}).get(task.task, ())
    return (
        samples_of(task)
        if task.samples
        else [each for each in found if each["filter"] == found[0]["filter"]]
    )


def read_results(*paths: str | Path) -> Results:
    """What runs left in results files, or in folders of them. Raises DataError: no results, or a
    file not written by lm_eval."""
    from lm_factuality.results.read import read_results_files

    return Results(read_results_files([Path(path) for path in paths]))


def open_model(name: str = "hf-tree", **arguments: Any) -> LM:
    """A model of lm_eval or of the suite, with what ``--model_args`` takes: ``open_model("hf",
    pretrained="gpt2")``. Raises ConfigError: no model has this name."""
    from lm_eval.api.registry import get_model

    from lm_factuality.harness.run import register_models

    register_models()
    try:
        kind: type[LM] = get_model(name)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"no model is called {name!r}: {error}") from error
    return kind.create_from_arg_obj(
        {"device": "cuda:0"} | arguments
    )  # lm_eval's default: this, or the CPU


def evaluate(
    model: LM | str,
    tasks: Sequence[Any],
    include_path: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Results:
    """Runs tasks, by the names or YAMLs that ``lm-factuality run`` knows, on an open model, or on a
    checkpoint by its name or folder, in memory. ``options`` are those of
    ``lm_eval.simple_evaluate``, such as ``limit`` and ``apply_chat_template``. Raises ConfigError,
    DataError: a task is not known, or it, its data or its judge cannot be used; ModelError: the
    model gives no such answers; BackendDown: a judge gives none, and the generations are kept."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from lm_factuality.harness import judging
    from lm_factuality.harness.context import Run, begin_run
    from lm_factuality.harness.internals import internal
    from lm_factuality.harness.tasks import find_configs, with_suite
    from lm_factuality.results.read import to_results_file

    names = [each for each in tasks if isinstance(each, str)]
    for config in (
        found for name in names for _, found in find_configs(name, include_path, may_import=True)
    ):
        if isinstance(config, FactualityError):
            raise config
    manager = TaskManager(
        include_path=with_suite(include_path), include_defaults=False, metadata=dict(metadata or {})
    )
    begin_run(Run(has_response_cache=bool(options.get("use_cache"))))
    lm = open_model(pretrained=model) if isinstance(model, str) else model
    with _without_loop():
        content = simple_evaluate(lm, tasks=list(tasks), task_manager=manager, **options)
    judging.raise_failures()
    sanitize = internal("lm_eval.utils:sanitize_list")
    for sample in (
        each for samples in content["samples"].values() for each in samples
    ):  # as lm_eval writes them
        sample |= {key: sanitize(sample[key]) for key in ("resps", "filtered_resps")}
    plain = json.loads(
        json.dumps(content, default=internal("lm_eval.utils:handle_non_serializable"))
    )
    return Results((to_results_file(Path("results.json"), plain),))


def score_rows(model: LM | str, rows: Iterable[Mapping[str, Any]], **metadata: Any) -> Results:
    """FACTOR's scores of rows with the columns of a file of one's own: ``prefix``, ``completion``,
    ``contradiction_0``, ... (see ``docs/factor.md``). ``metadata`` is that of a task's YAML, such
    as ``columns``, ``window`` or ``protocol``. Raises ConfigError, DataError, ModelError: a column
    or all rows are missing; the model gives no log-probabilities."""
    from lm_factuality.benchmarks.factor.task import FactorTask
    from lm_factuality.ground.files import write_lines

    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_lines(path, (json.dumps(dict(row), default=str) for row in rows))
        return evaluate(
            model,
            [FactorTask(config={"task": "rows", "dataset_path": str(path), "metadata": metadata})],
        )


def run(
    tasks: Sequence[str], model: str = "hf", output_path: str | Path = "results", **options: Any
) -> Results:
    """``lm-factuality run``, whose files stay under ``output_path`` for other commands. ``options``
    are those of the command: ``model_args={"pretrained": "gpt2"}``, ``limit=10``,
    ``apply_chat_template=True``, ``metadata={"judge": "my_judge.yaml"}``. Raises ConfigError,
    DataError, ModelError, BackendDown: as :func:`evaluate`; and for credentials in an option."""
    from lm_factuality.harness.run import run as run_command

    arguments = [
        "--log_samples",
        "--model",
        model,
        "--tasks",
        ",".join(tasks),
        "--output_path",
        str(output_path),
    ]
    for name, value in options.items():
        if value is not None and value is not False:
            text = json.dumps(value) if isinstance(value, Mapping) else str(value)
            arguments += [f"--{name}"] if value is True else [f"--{name}", text]
    argv = sys.argv
    try:
        with _without_loop():
            return read_results(*sorted(run_command(arguments)))
    finally:
        sys.argv = argv


@contextmanager
def _without_loop() -> Iterator[None]:
    """lm_eval's clients of servers start an event loop, which cannot be done where one runs
    already, as in a notebook."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if loop is not None:
            asyncio.set_event_loop(loop)
