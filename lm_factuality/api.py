"""The Python API of the suite. The names in ``__all__`` keep their meaning from release to release.

Scripts and notebooks import it; see ``docs/python.md``. The import is cheap, since functions import
what they need. Scores and rows are lists of dictionaries with a method ``to_pandas``.
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
    count_reasons,
)

if TYPE_CHECKING:
    from lm_eval.api.model import LM
    from lm_eval.api.task import Task
    from pandas import DataFrame

    from factor_gen.config import load_build
    from factor_gen.pipeline import build
    from judges.config import JudgeConfig, load_judge_config
    from judges.judge import Judge
    from judges.verify import Pair, verify
    from lm_factuality.benchmarks.declaration import Run
    from lm_factuality.check.answers import AnswerFile
    from lm_factuality.check.results import CheckResult
    from lm_factuality.harness.outputs import ResultsFile, TaskResult

__all__ = [
    "BackendDownError",
    "Check",
    "ConfigError",
    "DataError",
    "FactualityError",
    "Judge",
    "JudgeConfig",
    "ModelError",
    "Pair",
    "Results",
    "Rows",
    "build",
    "check",
    "evaluate",
    "load_build",
    "load_judge_config",
    "open_model",
    "read_results",
    "run",
    "score_rows",
    "verify",
]
# The module of each name that is imported at its first use.
_LAZY_MODULES = {
    "Judge": "judges.judge",
    "JudgeConfig": "judges.config",
    "Pair": "judges.verify",
    "build": "factor_gen.pipeline",
    "load_build": "factor_gen.config",
    "load_judge_config": "judges.config",
    "verify": "judges.verify",
}
# The keys of a headline that a notebook shows.
_HEADLINE_KEYS = (
    "model",
    "task",
    "score",
    "value",
    "low",
    "high",
    "guess_baseline",
    "rows",
    "unscored",
)
_MOST_SHOWN = 10  # rows, and columns, of a table in a notebook


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that importing this module is cheap.

    Python calls this function for names that the module does not have (PEP 562).

    Args:
        name: The name, such as ``Judge`` in ``lm_factuality.api.Judge``.

    Raises:
        AttributeError: This module has no such name.
    """
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY_MODULES[name]), name)


class Rows(list[dict[str, Any]]):
    """A list of dictionaries with the same keys. A notebook shows it as a table."""

    def to_pandas(self) -> DataFrame:
        """Return a pandas DataFrame with a column for each key."""
        import pandas

        return pandas.DataFrame(list(self))

    def __repr__(self) -> str:
        """Return the number of rows and their keys, since the rows can be long."""
        if not self:
            return "no rows"
        return f"{len(self):,} rows with {', '.join(self[0])} (all: .to_pandas())"

    def _repr_html_(self) -> str:
        """Return the first and the last rows as a small table, which Jupyter calls for."""
        table: str = self.to_pandas().to_html(max_rows=_MOST_SHOWN, max_cols=_MOST_SHOWN)
        return table


@dataclass(frozen=True, repr=False)
class Results:
    """The results of one or more runs of lm_eval. A notebook shows a table of the headlines."""

    files: tuple[ResultsFile, ...]
    """The results files, with their ``tasks`` and their ``content`` as lm_eval writes it."""

    def to_pandas(self) -> DataFrame:
        """Return the scores as a pandas DataFrame, with the columns of `scores`."""
        return self.scores().to_pandas()

    def __repr__(self) -> str:
        """Return the headline of each model and task as a line of a table."""
        headlines = self._headlines()
        if not headlines:
            return f"Results of {len(self.files)} runs, without scores of the suite"
        text: str = headlines.to_pandas().to_string(index=False, float_format="{:.3f}".format)
        return text

    def _repr_html_(self) -> str:
        """Return the headlines as a small table, which Jupyter calls for."""
        headlines = self._headlines()
        if not headlines:
            return repr(self)
        table: str = headlines.to_pandas().to_html(
            index=False, float_format="{:.3f}".format, max_rows=_MOST_SHOWN
        )
        return table

    def _headlines(self) -> Rows:
        """Return the main score of each model and task, with the model's short name."""
        from lm_factuality.ground.model_names import display_name

        scores = self.scores()
        models = {score["model"] for score in scores}
        first_scores: dict[tuple[str, str], dict[str, Any]] = {}
        for score in scores:
            first_scores.setdefault((score["model"], score["task"]), score)
        # The first score of a model and task is its headline.
        headlines = Rows()
        for score in first_scores.values():
            headline = {key: score[key] for key in _HEADLINE_KEYS}
            headline["model"] = display_name(score["model"], models)
            headlines.append(headline)
        return headlines

    def scores(self) -> Rows:
        """Return a dictionary for each score of each of the suite's tasks, the headline first.

        Returns:
            Dictionaries with the keys ``model``, ``task``, ``score`` (its name), ``rows`` (the
            number of rows that were run), ``value``, ``low`` and ``high`` (the 95% interval),
            ``stderr``, ``unscored`` (the number of unscored items), ``worst`` and ``best`` (the
            value if all of these were wrong, or right), ``guess_baseline`` (the score of a
            guess), ``corrected`` (the value without the judge's errors), ``corrected_low`` and
            ``corrected_high``. Shares lie between 0 and 1, and None means not known.
        """
        from lm_factuality.benchmarks.chosen import headline_name, suite_runs

        rows = Rows()
        runs, _ = suite_runs(self.files)
        for run in runs:
            headline = headline_name(run.task)
            # False sorts before True, so the headline comes first.
            for name in sorted(run.task.metrics, key=lambda name: name != headline):
                row = _score_row(run, name)
                if row is not None:
                    rows.append(row)
        return rows

    def rows(self) -> Rows:
        """Return a dictionary for each row of each task whose samples were kept.

        Returns:
            Dictionaries with the keys ``model``, ``task``, ``doc_id``, the name of each metric of
            the row (such as ``acc``, or ``unscored`` for the reason why a row has no score), and
            ``doc``, ``resps`` and ``filtered_resps`` as lm_eval writes them. A metric that the row
            does not have is None.

        Raises:
            DataError: A file of samples is damaged.
        """
        all_rows = Rows()
        for file in self.files:
            for task in file.tasks:
                for sample in _samples(file, task):
                    row = {"model": file.label, "task": task.task, "doc_id": sample["doc_id"]}
                    # lm_eval lists the names of the row's metrics under "metrics".
                    for key in (*sample.get("metrics", ()), "doc", "resps", "filtered_resps"):
                        row[key] = sample.get(key)
                    all_rows.append(row)
        return all_rows

    def unscored(self) -> Rows:
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

        summary = Rows()
        for (model, task), row_reasons in reasons_by_run.items():
            # Texts that differ only in numbers are one reason.
            for reason in count_reasons(row_reasons):
                summary.append(
                    {
                        "model": model,
                        "task": task,
                        "rows": reason.num_items,
                        "reason": reason.example,
                        "cure": reason.cure,
                    }
                )
        return summary


def _score_row(run: Run, name: str) -> dict[str, Any] | None:
    """Return a score of a run with its interval as a dictionary, for `Results.scores`.

    Args:
        run: The run.
        name: The name of a metric in its results.

    Returns:
        The dictionary, or None for a metric without a range, such as a number of errors.
    """
    from lm_factuality.benchmarks.chosen import benchmark_of, score_figure

    task = run.task
    score = benchmark_of(task).find_score(name)
    figure = score_figure(task, name)
    if score is None or score.value_range is None or figure is None:
        return None
    row = {
        "model": run.file.label,
        "task": task.task,
        "score": name,
        "rows": figure.n,
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "stderr": figure.stderr,
        "unscored": figure.unscored,
        "worst": figure.worst,
        "best": figure.best,
        "guess_baseline": figure.guess_baseline,
        "corrected_low": None,
        "corrected_high": None,
        "corrected": None,
    }
    # Only scores that people's labels corrected have a corrected figure.
    corrected = figure.corrected
    if corrected is not None:
        row["corrected_low"] = corrected.low
        row["corrected_high"] = corrected.high
        row["corrected"] = corrected.value
    return row


def _samples(file: ResultsFile, task: TaskResult) -> Iterable[Mapping[str, Any]]:
    """Return the samples of a task, i.e. its rows with the responses and scores of a model.

    If lm_eval applied several filters, each row has a sample per filter. Only the samples of the
    first filter are returned.

    Args:
        file: The results of the run. It holds the samples itself if the run was in memory.
        task: The task. It names its file of samples if the run wrote one.
    """
    from lm_factuality.harness.samples import samples_of

    if task.samples:
        # This function skips the samples of other filters.
        return samples_of(task)
    samples = file.content.get("samples", {}).get(task.task, ())
    if not samples:
        return []
    first_filter = samples[0]["filter"]
    return [sample for sample in samples if sample["filter"] == first_filter]


@dataclass(frozen=True, repr=False)
class Check:
    """Checked answers. In a notebook it shows a table of its figures."""

    result: CheckResult
    """The answers with their claims and verdicts."""

    about: Mapping[str, Any]
    """The evidence, the judge and its use."""

    @property
    def claims(self) -> DataFrame:
        """The claims as a pandas DataFrame, with the columns of ``claims.jsonl``."""
        return self.to_pandas()

    def to_pandas(self) -> DataFrame:
        """Return the claims, as `claims` does."""
        from lm_factuality.check.outputs import claim_object

        return Rows(claim_object(claim) for claim in self.result.claims).to_pandas()

    def __repr__(self) -> str:
        """Return the figures as a small table."""
        from lm_factuality.check.outputs import figures_text

        return figures_text(self.result)

    def _repr_html_(self) -> str:
        """Return the figures and a small table of claims, which Jupyter calls for."""
        claims = self.to_pandas().reindex(columns=["answer", "claim", "verdict", "reason"])
        return f"<pre>{self!r}</pre>{claims.to_html(index=False, max_rows=_MOST_SHOWN)}"


def check(
    answers: str | Path | Iterable[Mapping[str, Any] | str] | DataFrame,
    knowledge: str | Path | None = None,
    search: str | Path | None = None,
    judge: str | Path | JudgeConfig = "lexical",
    columns: Mapping[str, str] | None = None,
    corrections: Iterable[str | Path] = (),
) -> Check:
    """Check answers against documents or a search service, as ``lm-factuality check`` does.

    Args:
        answers: A file or folder, or rows: texts, mappings, a DataFrame or a dataset.
        knowledge: The documents: a folder, a file, or a database of ``knowledge build``.
        search: The YAML file of a search service, instead of documents.
        judge: The judge: ``lexical``, a YAML file, or a configuration.
        columns: The names of columns by ``answer``, ``question`` and ``id``.
        corrections: Files of corrections that people saved on the page.

    Raises:
        ConfigError: A setting cannot be used.
        DataError: The answers, the corrections or the documents cannot be used.
        BackendDownError: The judge or the service cannot be reached.
    """
    from judges.config import JudgeConfig, load_judge_config
    from lm_factuality.check.corrections import apply_corrections, read_corrections
    from lm_factuality.check.run import run_check

    answer_file = _read_answers(answers, columns or {})
    config = judge if isinstance(judge, JudgeConfig) else load_judge_config(str(judge))
    # Damaged corrections are found before the judge costs anything.
    people_corrections = []
    for path in corrections:
        people_corrections += read_corrections(Path(path))
    finished = run_check(
        answer_file,
        None if knowledge is None else Path(knowledge),
        None if search is None else Path(search),
        config,
    )
    return Check(apply_corrections(finished.result, people_corrections), finished.about)


def _read_answers(
    answers: str | Path | Iterable[Mapping[str, Any] | str] | DataFrame, columns: Mapping[str, str]
) -> AnswerFile:
    """Read the answers to check from a file, a folder or rows, as `check` takes them."""
    from lm_factuality.check.answers import answers_of_rows, read_answers

    if isinstance(answers, str | Path):
        return read_answers(Path(answers), columns)
    if hasattr(answers, "columns") and hasattr(answers, "to_dict"):
        # A DataFrame is iterated over by its columns, so its rows are taken out.
        return answers_of_rows(answers.to_dict("records"), columns)
    return answers_of_rows(answers, columns)


def read_results(*paths: str | Path) -> Results:
    """Read the results of earlier runs from disk.

    Example:
        ``read_results("results/opt-1.3b", "results/opt-2.7b").scores()``

    Args:
        *paths: Results files, or folders of them.

    Raises:
        DataError: There are no results, or lm_eval did not write a file.
    """
    from lm_factuality.results.read import read_results_files

    return Results(read_results_files([Path(path) for path in paths]))


def open_model(name: str = "hf-tree", **arguments: Any) -> LM:
    """Open a language model of lm_eval or of the suite, so that several calls can use it.

    Example:
        ``open_model("hf", pretrained="gpt2")``

    Args:
        name: The name of the kind of model, as ``--model`` takes it.
        **arguments: The arguments of the model, as ``--model_args`` takes them.

    Raises:
        ConfigError: There is no kind of model of this name.
    """
    from lm_eval.api.registry import get_model

    from judges.backends.api_client import client_class
    from lm_factuality.harness.run import register_models

    register_models()
    try:
        model_class: type[LM] = client_class(get_model(name))
    except (KeyError, ValueError) as error:
        raise ConfigError(f"no model is called {name!r}: {error}") from error
    # lm_eval's default device stands for the CPU on machines without a GPU.
    return model_class.create_from_arg_obj({"device": "cuda:0", **arguments})


def evaluate(
    model: LM | str,
    tasks: Sequence[str | Task],
    include_path: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Results:
    """Run tasks on a model in memory, without writing files.

    Example:
        ``evaluate("gpt2", ["sample_factor"], limit=10)``

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
    from lm_factuality.harness.tasks import with_suite
    from lm_factuality.results.read import to_results_file

    # A wrong task is found before the model is loaded.
    _refuse_broken_tasks(tasks, include_path)
    manager = TaskManager(
        include_path=with_suite(include_path), include_defaults=False, metadata=dict(metadata or {})
    )
    # The tasks of a run share state, such as failures of judges, and this run begins without any.
    begin_run(EvaluationRun())
    lm = open_model(pretrained=model) if isinstance(model, str) else model
    with _without_event_loop():
        content = simple_evaluate(lm, tasks=list(tasks), task_manager=manager, **options)
    # Judges do not interrupt lm_eval, so their failures are raised now.
    judging.raise_failures()
    # The file has a name, but it is not written.
    file = to_results_file(Path("results.json"), _to_plain_content(content))
    return Results((file,))


def _refuse_broken_tasks(tasks: Sequence[object], include_path: Sequence[str]) -> None:
    """Refuse tasks whose name is unknown or whose YAML is broken. Task objects are not checked.

    Raises:
        ConfigError: A task is not known, or its YAML cannot be used.
    """
    from lm_factuality.harness.tasks import find_configs

    for name in tasks:
        if not isinstance(name, str):
            continue
        for _, config_or_error in find_configs(name, include_path, may_import=True):
            if isinstance(config_or_error, FactualityError):
                raise config_or_error


def _to_plain_content(content: dict[str, Any]) -> dict[str, Any]:
    """Convert results in memory to what lm_eval would have written to its JSON files.

    Args:
        content: The results as ``lm_eval.simple_evaluate`` returns them, with objects such as
            tensors and functions. They are not changed.
    """
    from lm_factuality.harness.internals import lm_eval_part

    # lm_eval converts responses by `sanitize`, and all other objects by `to_json`.
    sanitize = lm_eval_part("lm_eval.utils:sanitize_list")
    to_json = lm_eval_part("lm_eval.utils:handle_non_serializable")
    plain_samples = {}
    for task, samples in content["samples"].items():
        plain_samples[task] = [
            sample | {key: sanitize(sample[key]) for key in ("resps", "filtered_resps")}
            for sample in samples
        ]
    text = json.dumps({**content, "samples": plain_samples}, default=to_json)
    plain_content: dict[str, Any] = json.loads(text)
    return plain_content


def score_rows(model: LM | str, rows: Iterable[Mapping[str, Any]], **metadata: Any) -> Results:
    """Compute FACTOR's scores of rows in memory: does the model prefer the true completion?

    Example:
        ``score_rows("gpt2", [{"prefix": "Ice is", "completion": " cold.",
        "contradiction_0": " hot."}])``

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
    """Run tasks as the command ``lm-factuality run`` does, and keep the results on disk.

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
    # The command replaces sys.argv, from which lm_eval reads its options.
    caller_arguments = sys.argv
    try:
        with _without_event_loop():
            results_files = run_command(["--log_samples", *_command_options(options)])
    finally:
        sys.argv = caller_arguments
    return read_results(*sorted(results_files))


def _command_options(options: Mapping[str, Any]) -> list[str]:
    """Write options as arguments of a command.

    Example:
        ``{"limit": 10, "apply_chat_template": True, "seed": None}`` gives
        ``["--limit", "10", "--apply_chat_template"]``.
    """
    arguments = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append(f"--{name}")
        if value is not True:
            arguments.append(json.dumps(value) if isinstance(value, Mapping) else str(value))
    return arguments


@contextmanager
def _without_event_loop() -> Iterator[None]:
    """Hide the running event loop of a notebook from asyncio while the block runs.

    Notebooks run code inside an event loop. lm_eval's clients of servers start a loop of their own,
    which asyncio refuses inside another one.
    """
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if loop is not None:
            asyncio.set_event_loop(loop)
