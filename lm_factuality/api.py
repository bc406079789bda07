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
_LAZY = {
    **dict.fromkeys(("JudgeConfig", "load_judge_config"), "judges.config"),
    **{"Judge": "judges.judge", "Pair": "judges.verify", "verify": "judges.verify"},
    **{"load_build": "factor_gen.config", "build": "factor_gen.pipeline"},
}
_FIGURE = ("value", "low", "high", "stderr", "unscored", "worst", "best", "floor")
_CORRECTED = {"corrected_low": "low", "corrected_high": "high", "corrected": "value"}
__all__ += ["evaluate", "open_model", "read_results", "run", "score_rows"]
__all__ += ["Judge", "JudgeConfig", "Pair", "build", "load_build", "load_judge_config", "verify"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


@dataclass(frozen=True)
class Results:
    """What lm_eval says of runs.

    ``files`` has all of it: their ``tasks``, and ``content`` as lm_eval writes it.
    """

    files: tuple[ResultsFile, ...]

    def scores(self) -> list[dict[str, Any]]:
        """Return a dictionary for each score of each of the suite's tasks, the headline first.

        Its keys are ``model``, ``task``, ``score`` (its name), ``rows`` (that were run), ``value``,
        ``low`` and ``high`` (its 95% interval), ``stderr``, ``unscored`` (how many), ``worst`` and
        ``best`` (its value if these were wrong, or right), ``floor`` (what knowing nothing scores),
        ``corrected`` (without the judge's errors) with ``corrected_low`` and ``corrected_high``.
        Shares lie between 0 and 1; None is what is not known.
        """
        from lm_factuality.benchmarks.chosen import (
            benchmark_of,
            headline_name,
            score_figure,
            suite_runs,
        )

        scores = []
        for run in suite_runs(self.files)[0]:
            task, first = run.task, headline_name(run.task)
            for name in sorted(task.metrics, key=lambda name: name != first):
                score, result = benchmark_of(task).find_score(name), score_figure(task, name)
                if score is None or score.value_range is None or result is None:
                    continue
                row = {
                    "model": run.file.label,
                    "task": task.task,
                    "score": name,
                    "rows": result.n,
                }
                row |= {key: getattr(result, key) for key in _FIGURE}
                for key, end in _CORRECTED.items():
                    row[key] = getattr(result.corrected, end, None)
                scores.append(row)
        return scores

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row whose sample is known.

        Its keys are ``model``, ``task``, ``doc_id``, what the row adds to each score by name (None,
        and the reason under ``unscored``, if it has none), ``doc``, ``resps`` and
        ``filtered_resps`` as lm_eval writes them.

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

        Its keys are ``model``, ``task``, ``rows`` (how many), ``reason`` and ``cure`` (empty where
        none is known).
        """
        reasons: dict[tuple[str, str], list[str]] = {}
        for row in self.rows():
            reason = row.get("unscored")
            if isinstance(reason, str):
                reasons.setdefault((row["model"], row["task"]), []).append(reason)
        counts = []
        for (model, task), of_task in reasons.items():
            for reason in reasons_of(of_task):
                row = {"model": model, "task": task, "rows": reason.items}
                counts.append({**row, "reason": reason.example, "cure": reason.cure})
        return counts


def _samples(file: ResultsFile, task: TaskResult) -> Iterable[Mapping[str, Any]]:
    """Return a task's samples, of several filters those of the first."""
    from lm_factuality.harness.samples import samples_of

    if task.samples:
        return samples_of(task)
    samples = file.content.get("samples", {}).get(task.task, ())
    return [sample for sample in samples if sample["filter"] == samples[0]["filter"]]


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
    # lm_eval's default device, or the CPU where there is no such one
    return kind.create_from_arg_obj({"device": "cuda:0", **arguments})


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
    model gives no such answers; BackendDownError: a judge gives none, and the generations are
    kept."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from lm_factuality.harness import judging
    from lm_factuality.harness.context import EvaluationRun, begin_run
    from lm_factuality.harness.internals import internal
    from lm_factuality.harness.tasks import find_configs, with_suite
    from lm_factuality.results.read import to_results_file

    for name in tasks:
        if not isinstance(name, str):
            continue
        for _, config in find_configs(name, include_path, may_import=True):
            if isinstance(config, FactualityError):
                raise config
    manager = TaskManager(
        include_path=with_suite(include_path), include_defaults=False, metadata=dict(metadata or {})
    )
    begin_run(EvaluationRun(has_response_cache=bool(options.get("use_cache"))))
    lm = open_model(pretrained=model) if isinstance(model, str) else model
    with _without_loop():
        content = simple_evaluate(lm, tasks=list(tasks), task_manager=manager, **options)
    judging.raise_failures()
    sanitize = internal("lm_eval.utils:sanitize_list")
    for samples in content["samples"].values():
        for sample in samples:  # as lm_eval writes them
            for key in ("resps", "filtered_resps"):
                sample[key] = sanitize(sample[key])
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
        config = {"task": "rows", "dataset_path": str(path), "metadata": metadata}
        return evaluate(model, [FactorTask(config=config)])


def run(
    tasks: Sequence[str], model: str = "hf", output_path: str | Path = "results", **options: Any
) -> Results:
    """``lm-factuality run``, whose files stay under ``output_path`` for other commands. ``options``
    are those of the command: ``model_args={"pretrained": "gpt2"}``, ``limit=10``,
    ``apply_chat_template=True``, ``metadata={"judge": "my_judge.yaml"}``. Raises ConfigError,
    DataError, ModelError, BackendDownError: as :func:`evaluate`; and for credentials in an
    option."""
    from lm_factuality.harness.run import run as run_command

    options |= {"model": model, "tasks": ",".join(tasks), "output_path": output_path}
    arguments = ["--log_samples"]
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append(f"--{name}")
        if value is not True:
            arguments.append(json.dumps(value) if isinstance(value, Mapping) else str(value))
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
