"""The command ``lm-factuality run``: lm_eval's own ``run`` with the suite's tasks and models.

It closes three traps of lm_eval: credentials in the model's arguments, which lm_eval would write to
the results file; a response cache that does not know which model answered; and an output folder
that cannot be written, which lm_eval passes over with a warning.
"""

import argparse
import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from judges.config import load_judge_config
from lm_factuality.ground.console import is_first_process
from lm_factuality.ground.errors import ConfigError, DataError, ModelError
from lm_factuality.ground.files import check_writable
from lm_factuality.ground.packages import first_line, replaced
from lm_factuality.ground.secrets import INSTEAD, secrets_within
from lm_factuality.ground.suite import find_config, read_config
from lm_factuality.harness.checkpoints import check_model
from lm_factuality.harness.context import EvaluationRun, begin_run
from lm_factuality.harness.internals import internal
from lm_factuality.harness.outputs import Rows, number_of, write_retrieved
from lm_factuality.harness.own_data import YAML_FOLDER

_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Finished:
    """The outcome of a run of lm_eval."""

    content: Mapping[str, Any]
    """The results as lm_eval returns them."""

    path: Path | None
    """The results file, None if none was saved."""

    output: Path | None
    """The value of ``--output_path``, None if nothing was saved."""

    unscored: Mapping[str, Sequence[str]]
    """The reasons of the unscored rows, by task."""


def run(
    arguments: Sequence[str], show: Callable[[Finished], None] = lambda finished: None
) -> set[Path]:
    """Run lm_eval with the suite's tasks and models.

    Replaces ``sys.argv`` and the current run (`current_run`).

    Args:
        arguments: The command-line arguments that follow ``lm-factuality run``.
        show: Called with the outcome, in the first of several processes only.

    Returns:
        The results files that were written.

    Raises:
        ConfigError: A task is unknown, or an option cannot be used.
        DataError: Data cannot be read, or results cannot be written.
        BackendDownError: A judge could not be asked. Results and generations are saved.
    """
    register_models()
    sys.argv = ["lm-factuality", "run", *arguments]
    parsed = internal("lm_eval._cli:HarnessCLI")().parse_args()
    if parsed.config:
        parsed.config = str(find_config(Path(parsed.config)))
    options = _read_options(parsed)
    _check_options(options)

    # These modules are imported only now, because they import datasets and more, which takes long.
    from lm_factuality.harness.judging import raise_failures
    from lm_factuality.harness.tasks import check_tasks

    internal("lm_eval.utils:setup_logging")()
    current = _begin_run_with(options)
    tasks = []
    for names in _as_texts(options, "tasks"):
        tasks += [name for name in names.split(",") if name]
    include_path = _as_texts(options, "include_path")
    is_suite_only = check_tasks(tasks, include_path, options["model_args"], options["metadata"])
    # The check has built each task once, and lm_eval builds them again.
    current.tasks.clear()
    _adapt_options(parsed, options, tasks, include_path)

    output = options.get("output_path")
    earlier_files = _results_files(output)
    printed_results: list[Mapping[str, Any]] = []
    with (
        _readable_tables(current, printed_results),
        _without_lm_eval_tasks() if is_suite_only else nullcontext(),
        _memory_errors_explained(),
    ):
        parsed.func(parsed)

    saved = _save_retrieved(current, output, earlier_files)
    if printed_results:
        finished = Finished(
            content=printed_results[0],
            path=max(saved, default=None),
            output=Path(output) if output and saved else None,
            unscored={name: task.unscored for name, task in current.tasks.items()},
        )
        show(finished)
    raise_failures()
    if output and not saved and is_first_process():
        raise DataError(f"{output}: lm_eval saved no results; its log above says why")
    return saved


def _begin_run_with(options: Mapping[str, Any]) -> EvaluationRun:
    """Begin a run with lm_eval's options, after checking that its output folder can be written.

    Args:
        options: The options from `_read_options`.

    Raises:
        DataError: The folder cannot be written.
    """
    output = options.get("output_path")
    folder = Path(output) if output else None
    # lm_eval also accepts the path of a results file.
    if folder and folder.suffix == ".json":
        folder = folder.parent
    if folder:
        check_writable(folder, "results")
    run = EvaluationRun(
        folder=folder,
        only_predicts=bool(options.get("predict_only")),
        has_response_cache=bool(options.get("use_cache")),
    )
    return begin_run(run)


def _adapt_options(
    parsed: argparse.Namespace,
    options: Mapping[str, Any],
    tasks: Sequence[str],
    include_path: Sequence[str],
) -> None:
    """Change lm_eval's options so that it finds the suite's tasks and caches the model apart.

    Args:
        parsed: lm_eval's parsed command line, of which ``include_path``, ``use_cache`` and
            ``metadata`` are changed.
        options: The options from `_read_options`.
        tasks: The names of the tasks and the paths of their YAMLs.
        include_path: The folders with more tasks.
    """
    from lm_factuality.harness.tasks import with_suite

    parsed.include_path = with_suite(include_path)
    parsed.use_cache = _cache_path_for_model(options)
    yaml_folders = {Path(task).resolve().parent for task in tasks if task.endswith(_YAML)}
    # lm_eval forgets the folder of a YAML, which relative paths in it start from.
    if len(yaml_folders) == 1:
        parsed.metadata = {**options["metadata"], YAML_FOLDER: str(yaml_folders.pop())}


def register_models() -> None:
    """Register the model classes of the suite and of other installed packages with lm_eval.

    Some releases of lm_eval read the entry points ``lm_eval.models`` themselves.
    """
    # Imported first, because a model that is registered before hides the built-in ones.
    import lm_eval.models  # noqa: F401

    model_registry = internal("lm_eval.api.registry:model_registry")
    for entry_point in entry_points(group="lm_eval.models"):
        if entry_point.name not in model_registry:
            model_registry.register(entry_point.name, target=entry_point.value)


def _read_options(parsed: argparse.Namespace) -> dict[str, Any]:
    """Merge the options of the command line with those of the file of ``--config``.

    An option of the command line takes precedence over the same option in the file.

    Args:
        parsed: lm_eval's parsed command line.

    Returns:
        The options that are not empty. ``model_args`` and ``metadata`` are always mappings:
        ``pretrained=gpt2`` becomes ``{"pretrained": "gpt2"}``.

    Raises:
        ConfigError: The file cannot be read or holds something else.
    """
    file_options: Any = {}
    if parsed.config:
        file_options = read_config(Path(parsed.config))
        if not isinstance(file_options, dict):
            raise ConfigError(
                f"{parsed.config}: found a {type(file_options).__name__}, expected a mapping of"
                " lm_eval's options"
            )

    command_line_options = {name: value for name, value in vars(parsed).items() if value}
    options: dict[str, Any] = {"model": "hf", **file_options, **command_line_options}
    parse_assignments = internal("lm_eval.utils:simple_parse_args_string")
    for name in ("model_args", "metadata"):
        value = options.get(name) or {}
        options[name] = parse_assignments(value) if isinstance(value, str) else dict(value)
    return options


def _as_texts(options: Mapping[str, Any], name: str) -> list[str]:
    """Return the values of an option that may be given once or as a list; empty if it is not."""
    value = options.get(name) or []
    values = value if isinstance(value, list) else [value]
    return [str(item) for item in values]


def _cache_path_for_model(options: Mapping[str, Any]) -> str | None:
    """Return a path for lm_eval's response cache that no other model uses.

    Returns:
        The value of ``--use_cache`` with a hash of the model and its arguments, such as
        ``cache-0123456789ab``; None without that option.
    """
    cache = options.get("use_cache")
    if not cache:
        return None
    model = [str(options["model"]), options["model_args"]]
    identity = json.dumps(model, sort_keys=True, default=str)
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return f"{cache}-{digest[:12]}"


def _check_options(options: Mapping[str, Any]) -> None:
    """Check that the model and the judge exist, and that no option holds a credential.

    Args:
        options: The options from `_read_options`.

    Raises:
        ConfigError: An option holds a credential, or the model or the judge is unknown.
        ModelError: The model's checkpoint or the device does not exist.
    """
    secret = next(secrets_within(options), None)
    if secret is not None:
        raise ConfigError(
            f"--{secret.key}: {secret.problem}, which lm_eval would write to the results file;"
            f" {INSTEAD}"
        )
    check_model(options["model"], options["model_args"], str(options.get("device") or ""))
    judge = options["metadata"].get("judge")
    if judge:
        load_judge_config(str(judge))


@contextmanager
def _without_lm_eval_tasks() -> Iterator[None]:
    """Keep lm_eval from reading the 14,000 YAMLs of its own tasks within a ``with`` block."""
    task_manager = internal("lm_eval.tasks:TaskManager")
    init_without_defaults = functools.partialmethod(task_manager.__init__, include_defaults=False)
    with replaced(task_manager, __init__=init_without_defaults):
        yield


@contextmanager
def _readable_tables(
    current: EvaluationRun, printed_results: list[Mapping[str, Any]]
) -> Iterator[None]:
    """Shorten the tables that lm_eval prints, and collect the results that it prints.

    lm_eval's command returns nothing, so its tables are the only way to its results.

    Args:
        current: The run, whose tasks say which metrics tables show.
        printed_results: The list to which the results of each table are added.
    """
    make_table = internal("lm_eval.utils:make_table")

    def make_readable_table(
        content: Mapping[str, Any], column: str = "results", sort_results: bool = False
    ) -> str:
        """Make a table as lm_eval does, of the entries that are for readers."""
        printed_results.append(content)
        rows = {}
        for name, values in content[column].items():
            task = current.tasks.get(name)
            # All metrics of lm_eval's own tasks are shown.
            is_shown = (lambda metric: True) if task is None else task.is_shown
            rows[name] = {
                key: value for key, value in values.items() if is_for_readers(key, value, is_shown)
            }
        return str(make_table({**content, column: rows}, column, sort_results))

    with replaced(internal("lm_eval.utils"), make_table=make_readable_table):
        yield


def is_for_readers(key: str, value: object, is_shown: Callable[[str], bool]) -> bool:
    """Tell whether an entry of a task's results belongs into a table.

    Args:
        key: The key of the entry, such as ``alias``, ``acc,none`` or ``acc_stderr,none``.
        value: Its value; metrics that are no numbers are left out.
        is_shown: Tells whether tables show a metric, such as ``acc``.
    """
    name, comma, _ = key.partition(",")
    # Entries without a filter after a comma are no metrics.
    if not comma:
        return True
    return number_of(value) is not None and is_shown(name.removesuffix("_stderr"))


@contextmanager
def _memory_errors_explained() -> Iterator[None]:
    """Turn torch's error for lack of memory into one that says what to do.

    Raises:
        ModelError: The device ran out of memory within the block.
    """
    try:
        yield
    except RuntimeError as error:
        # The class is compared by name, so that torch need not be imported here.
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise ModelError(
            f"{first_line(error)}; take a smaller --batch_size, --model hf-tree in place of hf,"
            " which makes its passes smaller by itself, dtype=bfloat16 in --model_args, or a device"
            " with more memory that is free"
        ) from error


def _save_retrieved(
    current: EvaluationRun, output: str | None, earlier_files: set[Path]
) -> set[Path]:
    """Write the passages that the model retrieved next to the results of the run.

    All processes of the run must call this, because each waits for the passages of the others.

    Args:
        current: The run, with the passages that this process has retrieved.
        output: The value of ``--output_path``.
        earlier_files: The results files that were there before the run.

    Returns:
        The results files that lm_eval wrote; empty in all processes but the first.
    """
    from lm_factuality.harness.judging import gather_from_all_processes

    retrieved_by_row: Rows = {}
    for process_rows in gather_from_all_processes(current.retrieved):
        retrieved_by_row.update(process_rows)
    if not is_first_process():
        return set()

    saved = _results_files(output) - earlier_files
    for results in saved:
        write_retrieved(results, retrieved_by_row)
    return saved


def _results_files(output: str | None) -> set[Path]:
    """Find the results files below an output path.

    Args:
        output: The value of ``--output_path``: a folder, or a file such as ``out/run.json``, whose
            results are named ``out/run_DATE.json``. In a folder, lm_eval creates a subfolder per
            model, such as ``out/gpt2/results_DATE.json``.
    """
    if not output:
        return set()
    path = Path(output)
    if path.suffix == ".json":
        return set(path.parent.glob(f"{path.stem}_*.json"))
    return set(path.glob("*/results_*.json"))
