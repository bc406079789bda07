"""``lm-factuality run``: lm_eval's own ``run``, with the suite's tasks and models.

It closes three traps: credentials in the model's arguments, which lm_eval would write to the
results file; a response cache that does not know which model answered; and an output folder that
cannot be written, which lm_eval passes over with a warning.
"""

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from lm_factuality.harness.outputs import number_of, write_retrieved
from lm_factuality.harness.own_data import YAML_FOLDER

_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Finished:
    """A run that is over."""

    content: Mapping[str, Any]
    """lm_eval's results."""

    path: Path | None
    """The file with the results, None if they are not kept."""

    output: Path | None
    """The output path that the file is below."""

    unscored: Mapping[str, Sequence[str]]
    """The reasons of each task's unscored rows."""


def run(
    arguments: Sequence[str], show: Callable[[Finished], None] = lambda finished: None
) -> set[Path]:
    """Run lm_eval.

    Args:
        arguments: Those of the command line that follow ``run``.
        show: Is handed what came of it, in the first of several processes.

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
    options = _read_options(parsed)
    tasks = [task for text in _texts(options, "tasks") for task in text.split(",") if task]
    _check_options(options)

    # Imported only now, since these import datasets and more, which takes long.
    from lm_factuality.harness.judging import raise_failures
    from lm_factuality.harness.tasks import check_tasks, with_suite

    internal("lm_eval.utils:setup_logging")()
    output = options.get("output_path")
    folder = Path(output) if output else None
    if folder and folder.suffix == ".json":  # lm_eval takes the name of a file in the folder, too
        folder = folder.parent
    current = begin_run(
        EvaluationRun(
            folder=folder,
            only_predicts=bool(options.get("predict_only")),
            has_response_cache=bool(options.get("use_cache")),
        )
    )
    if folder:
        check_writable(folder, "results")
    include_path = _texts(options, "include_path")
    model_args, metadata = options["model_args"], options["metadata"]
    is_only_suites = check_tasks(tasks, include_path, model_args, metadata)
    parsed.include_path = with_suite(include_path) or None
    parsed.use_cache = _cache_of_model(options)
    yaml_folders = {Path(task).resolve().parent for task in tasks if task.endswith(_YAML)}
    if len(yaml_folders) == 1:  # lm_eval forgets where the YAML of a task lies
        parsed.metadata = {**metadata, YAML_FOLDER: str(yaml_folders.pop())}
    current.tasks.clear()

    earlier_files = _results_files(output)
    printed: list[Mapping[str, Any]] = []
    with _readable_tables(current, printed), _task_index(is_only_suites), _plain_errors():
        parsed.func(parsed)
    saved = _save_retrieved(current, output, earlier_files)
    if printed:
        unscored = {name: task.unscored for name, task in current.tasks.items()}
        show(
            Finished(
                content=printed[0],
                path=max(saved, default=None),
                output=Path(output) if output and saved else None,
                unscored=unscored,
            )
        )
    raise_failures()
    if output and not saved and is_first_process():
        raise DataError(f"{output}: lm_eval saved no results; its log above says why")
    return saved


def register_models() -> None:
    """Make the suite's models, and those of other packages, known to lm_eval.

    Later releases of lm_eval read these entry points themselves.
    """
    import lm_eval.models  # noqa: F401  first: a model registered before hides the built-in ones

    model_registry = internal("lm_eval.api.registry:model_registry")
    for point in entry_points(group="lm_eval.models"):
        if point.name not in model_registry:
            model_registry.register(point.name, target=point.value)


def _read_options(parsed: Any) -> dict[str, Any]:
    """Return lm_eval's options: those of the command line before those of ``--config``'s file.

    Raises:
        ConfigError: The file cannot be read or holds something else.
    """
    configured: Any = {}
    if parsed.config:
        parsed.config = str(find_config(Path(parsed.config)))
        configured = read_config(Path(parsed.config))
        if not isinstance(configured, dict):
            raise ConfigError(
                f"{parsed.config}: found a {type(configured).__name__}, expected a mapping of"
                " lm_eval's options"
            )
    named = {name: value for name, value in vars(parsed).items() if value}
    options: dict[str, Any] = {"model": "hf", **configured, **named}
    for name in ("model_args", "metadata"):
        value = options.get(name) or {}
        if isinstance(value, str):
            value = internal("lm_eval.utils:simple_parse_args_string")(value)
        options[name] = dict(value)
    return options


def _texts(options: Mapping[str, Any], name: str) -> list[str]:
    """Return an option as a list of texts."""
    value = options.get(name) or []
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def _cache_of_model(options: Mapping[str, Any]) -> str | None:
    """Return the path of the response cache, with what tells the model from others."""
    cache = options.get("use_cache")
    if not cache:
        return None
    model = [str(options["model"]), options["model_args"]]
    identity = json.dumps(model, sort_keys=True, default=str)
    return f"{cache}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse credentials, a model that cannot be had, and a judge that cannot be read."""
    for place, problem in secrets_within(options):
        raise ConfigError(
            f"--{place}: {problem}, which lm_eval would write to the results file; {INSTEAD}"
        )
    check_model(options["model"], options["model_args"], str(options.get("device") or ""))
    judge = options["metadata"].get("judge")
    if judge:
        load_judge_config(str(judge))


@contextmanager
def _task_index(is_only_suites: bool) -> Iterator[None]:
    """Keep lm_eval from reading the 14,000 YAMLs of its own tasks for a run of none of them."""
    if not is_only_suites:
        yield
        return
    manager = internal("lm_eval.tasks:TaskManager")
    without_defaults = functools.partialmethod(manager.__init__, include_defaults=False)
    with replaced(manager, __init__=without_defaults):
        yield


@contextmanager
def _readable_tables(current: EvaluationRun, printed: list[Mapping[str, Any]]) -> Iterator[None]:
    """Leave out of lm_eval's tables what is not for readers; collect the results printed."""
    make_table = internal("lm_eval.utils:make_table")

    def make_readable_table(
        content: Mapping[str, Any], column: str = "results", sort_results: bool = False
    ) -> str:
        printed.append(content)
        rows = {}
        for name, values in content[column].items():
            task = current.tasks.get(name)
            rows[name] = {
                key: value
                for key, value in values.items()
                if is_for_readers(key, value, task.is_shown if task else lambda metric: True)
            }
        return str(make_table({**content, column: rows}, column, sort_results))

    with replaced(internal("lm_eval.utils"), make_table=make_readable_table):
        yield


def is_for_readers(key: str, value: Any, is_shown: Callable[[str], bool]) -> bool:
    """Tell whether a result such as ``acc_stderr,none`` belongs into a table."""
    name, comma, _ = key.partition(",")
    is_number = number_of(value) is not None
    return not comma or (is_number and is_shown(name.removesuffix("_stderr")))


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Say what to do about what torch raises for lack of memory."""
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which need not be imported here
            raise
        raise ModelError(
            f"{first_line(error)}; take a smaller --batch_size, --model hf-tree in place of hf,"
            " which makes its passes smaller by itself, dtype=bfloat16 in --model_args, or a device"
            " with more memory that is free"
        ) from error


def _save_retrieved(
    current: EvaluationRun, output: str | None, earlier_files: set[Path]
) -> set[Path]:
    """Write what the model retrieved beside the results; return the files that lm_eval wrote."""
    from lm_factuality.harness.judging import from_all_processes

    rows = {}
    for part in from_all_processes(current.retrieved):
        rows.update(part)
    if not is_first_process():
        return set()
    saved = _results_files(output) - earlier_files
    for results in saved:
        write_retrieved(results, rows)
    return saved


def _results_files(output: str | None) -> set[Path]:
    if not output:
        return set()
    path = Path(output)
    if path.suffix == ".json":
        return set(path.parent.glob(f"{path.stem}_*.json"))
    return set(path.glob("*/results_*.json"))
