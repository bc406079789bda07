"""``lm-factuality run``: lm_eval's own ``run``, with the suite's tasks and models registered and
three traps closed.

The traps: credentials in the model's arguments, which lm_eval writes to the results file; a
response cache that does not know which model answered; an output folder that cannot be written,
which lm_eval passes over with a warning."""

import contextlib
import functools
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from judges.config import load_judge_config
from lm_factuality.ground.console import is_first_process
from lm_factuality.ground.errors import ConfigError, DataError, ModelError
from lm_factuality.ground.files import check_writable
from lm_factuality.ground.packages import first_line
from lm_factuality.ground.secrets import INSTEAD, secrets_within
from lm_factuality.ground.suite import find_config, read_config
from lm_factuality.harness import before
from lm_factuality.harness.internals import internal
from lm_factuality.harness.outputs import number_of
from lm_factuality.harness.own_data import YAML_FOLDER

logger = logging.getLogger(__name__)


def register_models() -> None:
    """Makes the suite's models, and those of other packages, known to lm_eval by their entry
    points, which later ones read."""
    import lm_eval.models  # noqa: F401  first: a model registered before it would hide the built-in ones

    model_registry = internal("lm_eval.api.registry:model_registry")
    for point in entry_points(group="lm_eval.models"):
        if point.name not in model_registry:
            model_registry.register(point.name, target=point.value)


@dataclass(frozen=True)
class Finished:
    """A run that is over: lm_eval's results, the file at ``path`` below ``output`` with them (None
    where they are not kept), and the reasons of each task's ``unscored`` rows. ``judge`` is the one
    that the command line named, if it did."""

    content: Mapping[str, Any]
    path: Path | None
    output: Path | None
    unscored: Mapping[str, Sequence[str]]
    judge: str = ""
    has_template: bool = False  # whether the model was asked by its chat template


def run(
    arguments: Sequence[str], show: Callable[[Finished], None] = lambda finished: None
) -> set[Path]:
    """Runs lm_eval with the command-line ``arguments`` that follow ``run``; returns the results
    files that it wrote. What came of it is handed to ``show``, by the first of several processes.
    Raises ConfigError, DataError: as the module says, and for tasks that nobody knows; BackendDown,
    in the end: a judge could not be asked; results and generations are saved."""
    register_models()
    sys.argv = ["lm-factuality", "run", *arguments]
    parsed = internal("lm_eval._cli:HarnessCLI")().parse_args()
    parsed.config = str(find_config(Path(parsed.config))) if parsed.config else None
    configured = read_config(Path(parsed.config)) if parsed.config else {}
    if not isinstance(configured, dict):
        raise ConfigError(
            f"{parsed.config}: found a {type(configured).__name__}, expected a mapping of lm_eval's"
            " options"
        )
    given = _Options(parsed, configured)
    options = {
        name: value for name, value in vars(parsed).items() if value
    }  # ``read_config`` has looked at a file's
    for place, what in secrets_within(
        options | {name: given.mapping(name) for name in ("model_args", "metadata")}
    ):
        raise ConfigError(
            f"--{place}: {what}, which lm_eval would write to the results file; {INSTEAD}"
        )
    tasks = [task for listed in given.texts("tasks") for task in listed.split(",") if task]
    arguments_of_model, metadata = given.mapping("model_args"), given.mapping("metadata")
    before.check_yamls(tasks)
    before.check_model(
        str(given.value("model") or "hf"), arguments_of_model, str(given.value("device") or "")
    )
    if judge := metadata.get("judge"):
        load_judge_config(str(judge))

    from lm_factuality.harness import judging, outputs
    from lm_factuality.harness.suite_task import SuiteTask, run_tasks
    from lm_factuality.harness.tasks import with_suite

    internal("lm_eval.utils:setup_logging")()
    parsed.include_path = with_suite(given.texts("include_path")) or None
    cache, output = given.value("use_cache"), given.value("output_path")
    SuiteTask.has_response_cache = bool(cache)
    if cache:
        identity = json.dumps(
            [given.value("model") or "hf", arguments_of_model], sort_keys=True, default=str
        )
        parsed.use_cache = f"{cache}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    folders = {Path(task).resolve().parent for task in tasks if task.endswith((".yaml", ".yml"))}
    if len(folders) == 1:
        parsed.metadata = {**metadata, YAML_FOLDER: str(folders.pop())}
    folder = (
        None if not output else Path(output).parent if output.endswith(".json") else Path(output)
    )
    judging.begin_run(folder, bool(given.value("predict_only")))
    if folder:
        check_writable(folder, "results")
    is_suites = before.check_tasks(tasks, given.texts("include_path"), arguments_of_model, metadata)
    earlier = _results_files(output)
    outputs.latest_retrieved = {}
    run_tasks.clear()
    try:
        with _readable_tables() as contents, _index(with_lm_evals=not is_suites):
            parsed.func(parsed)
    except ValueError as error:
        if str(error).startswith("Tasks not found"):
            raise ConfigError(
                f"{error}; see 'lm-factuality ls' and, for lm_eval's own tasks, 'lm-eval ls tasks'"
            ) from error
        raise
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which need not be imported here
            raise
        cure = "take dtype=bfloat16 in --model_args, or a device with more memory that is free"
        if str(given.value("model") or "hf") == "hf":
            cure = (
                "take a smaller --batch_size, --model hf-tree, which makes its passes smaller by"
                f" itself, or {cure[5:]}"
            )
        raise ModelError(f"{'. '.join(first_line(error).split('. ')[:2])}; {cure}") from error
    rows = {
        key: row
        for part in judging.from_all_processes(outputs.latest_retrieved)
        for key, row in part.items()
    }
    saved = _results_files(output) - earlier if is_first_process() else set()
    for results in saved:
        outputs.write_retrieved(results, rows)
    for content in contents[:1]:
        unscored = {name: each.unscored for name, each in run_tasks.items()}
        kept = max(saved, default=None), Path(output) if saved else None
        show(
            Finished(
                content, *kept, unscored, str(judge or ""), bool(given.value("apply_chat_template"))
            )
        )
    judging.raise_failures()
    if output and not saved and is_first_process():
        raise DataError(f"{output}: lm_eval saved no results; its log above says why")
    return saved


@contextlib.contextmanager
def _index(with_lm_evals: bool) -> Iterator[None]:
    """lm_eval reads the 14,000 YAMLs of its own tasks in every run, which takes seconds; a run of
    none of them need not."""
    manager = internal("lm_eval.tasks:TaskManager")
    whole = manager.__init__
    if not with_lm_evals:
        manager.__init__ = functools.partialmethod(whole, include_defaults=False)
    try:
        yield
    finally:
        manager.__init__ = whole


@contextlib.contextmanager
def _readable_tables() -> Iterator[list[Mapping[str, Any]]]:
    """lm_eval's tables without what is not for readers, and the results that it prints, once it
    has."""
    from lm_factuality.harness.suite_task import run_tasks

    utils, make_table, printed = (
        internal("lm_eval.utils"),
        internal("lm_eval.utils:make_table"),
        list[Mapping[str, Any]](),
    )

    def readable(
        content: Mapping[str, Any], column: str = "results", sort_results: bool = False
    ) -> str:
        printed.append(content)
        shown = {name: task.is_shown for name, task in run_tasks.items()}
        rows = {
            name: {
                key: value
                for key, value in values.items()
                if _is_for_readers(key, value, shown.get(name, lambda _: True))
            }
            for name, values in content[column].items()
        }
        return str(make_table({**content, column: rows}, column, sort_results))

    utils.make_table = readable
    try:
        yield printed
    finally:
        utils.make_table = make_table


def _is_for_readers(key: str, value: Any, is_shown: Callable[[str], bool]) -> bool:
    name, comma, _ = key.partition(",")
    is_number = number_of(value) is not None
    return not comma or (is_number and is_shown(name.removesuffix("_stderr")))


@dataclass(frozen=True)
class _Options:
    """lm_eval's options: those of the command line, otherwise those of the file that ``--config``
    names."""

    parsed: Any
    configured: Mapping[str, Any]

    def value(self, name: str) -> Any:
        return getattr(self.parsed, name, None) or self.configured.get(name)

    def texts(self, name: str) -> list[str]:
        value = self.value(name) or []
        return [str(item) for item in (value if isinstance(value, list) else [value])]

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.value(name) or {}
        return dict(
            internal("lm_eval.utils:simple_parse_args_string")(value)
            if isinstance(value, str)
            else value
        )


def _results_files(output: str | None) -> set[Path]:
    if not output:
        return set()
    path = Path(output)
    if path.suffix == ".json":
        return set(path.parent.glob(f"{path.stem}_*.json"))
    return set(path.glob("*/results_*.json"))
