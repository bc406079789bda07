"""The command ``lm-factuality run``: lm_eval's own ``run`` with the suite's tasks and models.

It closes three traps of lm_eval: credentials in the model's arguments, which lm_eval would write to
the results file; a response cache that does not know which model answered, in place of which it
keeps answers itself (`kept_answers`); and an output folder that cannot be written, which lm_eval
passes over with a warning.
"""

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from judges.backends.api_client import client_class
from judges.config import load_judge_config
from lm_factuality.ground.console import is_first_process
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.ground.files import check_writable
from lm_factuality.ground.packages import replaced
from lm_factuality.ground.secrets import INSTEAD, secrets_within
from lm_factuality.ground.suite import find_config, read_config
from lm_factuality.harness import preflight
from lm_factuality.harness.checkpoints import check_model
from lm_factuality.harness.context import EvaluationRun, begin_run
from lm_factuality.harness.failures import explained_failures
from lm_factuality.harness.internals import accept_assignments, lm_eval_part
from lm_factuality.harness.outputs import Rows, number_of, write_retrieved
from lm_factuality.harness.own_data import YAML_FOLDER

if TYPE_CHECKING:
    from lm_eval.api.task import Task

    from judges.answers import Prices
    from lm_factuality.harness.dry_run import RunPlan
    from lm_factuality.harness.kept_answers import AnswerFile

_YAML = (".yaml", ".yml")
_FRESH = "--fresh"
_OWN_OPTIONS = (_FRESH, "--dry-run", "--prices")  # those that lm_eval does not have
# Options that can change the model's answer to a request. Others change the requests.
_ANSWER_CHANGING_OPTIONS = ("model", "model_args", "seed", "trust_remote_code")


@dataclass(frozen=True)
class Finished:
    """The outcome of a run of lm_eval."""

    content: Mapping[str, Any]
    """The results as lm_eval returns them."""

    path: Path | None
    """The results file, None if none was saved."""

    unscored: Mapping[str, Sequence[str]]
    """The reasons of the unscored rows, by task."""


def run(
    arguments: Sequence[str], show: Callable[[Finished], None] = lambda finished: None
) -> set[Path]:
    """Run lm_eval with the suite's tasks and models.

    This replaces ``sys.argv`` and the current run (`current_run`).

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
    parsed, options = _read_command_line(arguments)

    # This module is imported only now, because it imports datasets and more, which takes long.
    from lm_factuality.harness.judging import raise_failures
    from lm_factuality.harness.progress import reported_stage

    lm_eval_part("lm_eval.utils:setup_logging")()
    # lm_eval would keep answers in a cache of its own.
    parsed.use_cache = None
    parsed.model_args = _with_real_path(options["model_args"])
    folder = _writable_output_folder(options)
    answers = _open_answer_file(options, is_fresh=_FRESH in arguments)
    current = begin_run(EvaluationRun(folder, only_predicts=bool(options.get("predict_only"))))
    with reported_stage("reading the tasks and their data"):
        is_suite_only = _prepare_tasks(parsed, options, checks_server=True)
    # The check has built each task once, and lm_eval builds them again.
    current.tasks.clear()

    output = options.get("output_path")
    # The folder may hold the results of earlier runs, which are not those of this one.
    earlier_files = _results_files(output)
    with (
        # lm_eval's command returns nothing. It only prints its results, which are collected here.
        _readable_tables(current) as printed_results,
        _without_lm_eval_tasks() if is_suite_only else nullcontext(),
        _without_commit_outside_checkouts(),
        reported_stage(f"loading --model {options['model']}", current.is_evaluating),
        explained_failures(options["model"], str(options["model_args"].get("base_url") or "")),
        _with_suite_clients(),
        _kept_answers(current, answers),
    ):
        # lm_eval sets `func` to the function that carries out its command ``run``.
        parsed.func(parsed)

    # Only the first of several processes writes results.
    saved = _results_files(output) - earlier_files if is_first_process() else set()
    _save_retrieved(current, saved)
    # In a run of several processes, only the first one prints results.
    if printed_results:
        # lm_eval prints the table of tasks first, and a table of groups after it.
        show(_outcome(printed_results[0], saved, current, options["model_args"]))
    # A judge that failed is an error, but only once the results are saved and shown.
    raise_failures()
    if output and not saved and is_first_process():
        raise DataError(f"{output}: lm_eval saved no results; its log above says why")
    answers.finish()
    return saved


def _outcome(
    content: Mapping[str, Any],
    saved: set[Path],
    current: EvaluationRun,
    model_args: Mapping[str, Any],
) -> Finished:
    """Describe how a run ended.

    Args:
        content: The results that lm_eval printed.
        saved: The results files that lm_eval wrote, perhaps none.
        current: The run, with its tasks.
        model_args: The model's arguments, such as ``{"pretrained": "gpt2"}``.
    """
    # Only the results that lm_eval saves name the model.
    model_name = model_args.get("pretrained") or model_args.get("model")
    return Finished(
        content={"model_name": model_name, **content},
        # The names of results files end in a date, so the last name is the newest file.
        path=max(saved, default=None),
        unscored={name: task.unscored for name, task in current.tasks.items()},
    )


def plan(arguments: Sequence[str], prices: "Prices | None" = None) -> "RunPlan":
    """Estimate the requests, the time and the cost of a run. Nothing is sent, no model loaded.

    This replaces ``sys.argv`` and the current run, as `run` does.

    Args:
        arguments: The command-line arguments that follow ``lm-factuality run``.
        prices: The prices of the server; None if the cost is not of interest.

    Raises:
        ConfigError: A task is unknown or lm_eval's, or an option cannot be used.
        DataError: Data cannot be read.
    """
    parsed, options = _read_command_line(arguments)
    # This module is imported only now, because it imports lm_eval, which takes long.
    from lm_factuality.harness.dry_run import plan_run

    # A run that only predicts needs no judge.
    current = begin_run(EvaluationRun(only_predicts=True))
    is_suite_only = _prepare_tasks(parsed, options, checks_server=False)
    if not is_suite_only:
        raise ConfigError("--dry-run: knows the suite's own tasks alone; leave out lm_eval's")
    config_class = lm_eval_part("lm_eval.config.evaluate_config:EvaluatorConfig")
    return plan_run(current.tasks, config_class.from_cli(parsed), prices)


def _read_command_line(arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Read and check the options of a run.

    Returns:
        lm_eval's parsed command line, and the options from `_read_options`.
    """
    parsed = _parse_command_line([word for word in arguments if word != _FRESH])
    options = _read_options(parsed)
    # Mistakes that are quick to find are reported before the slow imports.
    _check_options(options)
    return parsed, options


def _parse_command_line(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the words after ``lm-factuality run`` by lm_eval's own parser, and set ``sys.argv``.

    Args:
        arguments: The words, such as ``["--model", "hf", "--tasks", "factor"]``.

    Returns:
        lm_eval's options. ``config`` is the path of an existing file or empty.

    Raises:
        ConfigError: There is no such file.
    """
    register_models()
    harness = lm_eval_part("lm_eval._cli:HarnessCLI")()
    run_parser = harness._subparsers.choices["run"]
    accept_assignments(run_parser)
    # lm_eval's main parser, not that of `run`, reports options that do not exist.
    exit_with_suggestion = functools.partial(_exit_with_suggestion, run_parser)
    # lm_eval's parser takes no arguments, and reads the words of the command from here. They stay
    # here, because Ctrl-C prints them as the command that continues the run.
    sys.argv = ["lm-factuality", "run", *arguments]
    with replaced(harness._parser, error=exit_with_suggestion):
        parsed: argparse.Namespace = harness.parse_args()
    if parsed.config:
        # The suite's own configs are also found outside of its repository.
        parsed.config = str(find_config(Path(parsed.config)))
    return parsed


def _exit_with_suggestion(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """End the program with an error about its command line, and suggest a similar option.

    Args:
        parser: The parser of lm_eval's ``run``.
        message: argparse's message, such as ``unrecognized arguments: --modle hf``.
    """
    options = [*parser._option_string_actions, *_OWN_OPTIONS]
    wrong_options = [word for word in message.split() if word.startswith("--")]
    hint = ""
    if wrong_options:
        # "--modle=hf" is looked up as "--modle".
        hint = did_you_mean(wrong_options[0].partition("=")[0], options)
    parser.exit(2, f"lm-factuality run: {message}{hint}\n")


def _open_answer_file(options: Mapping[str, Any], is_fresh: bool) -> "AnswerFile":
    """Open the file that keeps the model's answers until the results are saved.

    Args:
        options: The options from `_read_options`.
        is_fresh: Whether the run begins anew instead of continuing an interrupted one.

    Raises:
        DataError: The file cannot be written.
    """
    # This module imports lm_eval's models, which takes long.
    from lm_factuality.harness.kept_answers import AnswerFile

    cache = options.get("use_cache")
    return AnswerFile(
        Path(f"{cache}.sqlite") if cache else None,
        {name: options.get(name) for name in _ANSWER_CHANGING_OPTIONS},
        is_fresh=is_fresh,
    )


def _writable_output_folder(options: Mapping[str, Any]) -> Path | None:
    """Return the folder for results, after checking that it can be written; None without one.

    Raises:
        DataError: The folder cannot be written.
    """
    output = options.get("output_path")
    if not output:
        return None
    folder = Path(output)
    # lm_eval also accepts the path of a results file.
    if folder.suffix == ".json":
        folder = folder.parent
    check_writable(folder, "results")
    preflight.check_disk_space(folder)
    return folder


def _prepare_tasks(
    parsed: argparse.Namespace, options: Mapping[str, Any], *, checks_server: bool
) -> bool:
    """Check the tasks of the run, and change lm_eval's options so that it finds them.

    Args:
        parsed: lm_eval's parsed command line. Three options change: in ``tasks``, a YAML replaces
            each data file; ``include_path`` gets the suite's folder of tasks; and if the user named
            a YAML by its path, ``metadata`` gets its folder.
        options: The options from `_read_options`.
        checks_server: Whether to ask the model's server for one token before the tasks read their
            data.

    Returns:
        Whether all tasks are the suite's.

    Raises:
        ConfigError: A task is unknown, or a task cannot be built with these options.
        DataError: The data of a task cannot be read.
    """
    from lm_factuality.harness.tasks import (
        build_tasks,
        read_configs,
        with_suite,
        write_yamls_of_tables,
    )

    model = options["model"]
    model_args = options["model_args"]
    metadata = options["metadata"]
    include_path = _as_texts(options, "include_path")
    _check_folders(include_path)
    # On the command line, --tasks is one text with commas, and in a config file it may be a list.
    named_tasks = [name for name in ",".join(_as_texts(options, "tasks")).split(",") if name]
    tasks = write_yamls_of_tables(named_tasks)
    configs = read_configs(tasks, include_path, metadata)
    # lm_eval's own tasks have None here.
    suite_configs = [config for config in configs if config is not None]
    scoring_tasks = [config["task"] for config in suite_configs if config["class"].scores_texts]
    preflight.check_tasks_suit(model, scoring_tasks)
    if checks_server:
        preflight.check_server(model, model_args, needs_scores=bool(scoring_tasks))
    build_tasks(suite_configs, model_args, metadata)

    if tasks != named_tasks:
        parsed.tasks = ",".join(tasks)
    parsed.include_path = with_suite(include_path)
    # Relative paths in a YAML start from its folder, which lm_eval forgets. All tasks share the
    # metadata, so only one folder can be noted.
    yaml_folders = {Path(task).resolve().parent for task in named_tasks if task.endswith(_YAML)}
    if len(yaml_folders) == 1:
        parsed.metadata = {**metadata, YAML_FOLDER: str(yaml_folders.pop())}
    return len(suite_configs) == len(configs)


def _check_folders(include_path: Sequence[str]) -> None:
    """Check that the folders of ``--include_path`` exist.

    Raises:
        ConfigError: One does not exist.
    """
    for folder in include_path:
        if not Path(folder).is_dir():
            raise ConfigError(
                f"--include_path {folder}: no such folder; the suite's own tasks are found without"
                " this option"
            )


def register_models() -> None:
    """Register the model classes of the suite and of other installed packages with lm_eval.

    Some releases of lm_eval read the entry points ``lm_eval.models`` themselves.
    """
    # This import registers lm_eval's own models. It comes first, because it leaves out the names
    # that are already taken.
    import lm_eval.models  # noqa: F401

    model_registry = lm_eval_part("lm_eval.api.registry:model_registry")
    for entry_point in entry_points(group="lm_eval.models"):
        # lm_eval would refuse a second class under the name of a registered one.
        if entry_point.name not in model_registry:
            model_registry.register(entry_point.name, target=entry_point.value)


def _with_suite_clients() -> AbstractContextManager[None]:
    """Have lm_eval open the suite's versions of its clients of servers within a ``with`` block."""
    registry = lm_eval_part("lm_eval.api.registry")
    get_model = lm_eval_part("lm_eval.api.registry:get_model")
    # lm_eval refuses a second class under the name of a registered one.
    return replaced(registry, get_model=lambda name: client_class(get_model(name)))


def _read_options(parsed: argparse.Namespace) -> dict[str, Any]:
    """Merge the options of the command line with those in the file that ``--config`` names.

    An option of the command line takes precedence over the same option in the file.

    Args:
        parsed: lm_eval's parsed command line.

    Returns:
        The options that are not empty. ``model_args`` and ``metadata`` are always mappings:
        ``pretrained=gpt2`` becomes ``{"pretrained": "gpt2"}``.

    Raises:
        ConfigError: The file cannot be read, or holds something else than options.
    """
    file_options: Any = {}
    if parsed.config:
        file_options = read_config(Path(parsed.config))
        if not isinstance(file_options, dict):
            raise ConfigError(
                f"{parsed.config}: found a {type(file_options).__name__}, expected a mapping of"
                " lm_eval's options"
            )

    # An option that the user left out is None, empty or False here, and must not hide the file's.
    command_line_options = {name: value for name, value in vars(parsed).items() if value}
    options: dict[str, Any] = {"model": "hf", **file_options, **command_line_options}
    parse_assignments = lm_eval_part("lm_eval.utils:simple_parse_args_string")
    for name in ("model_args", "metadata"):
        # lm_eval itself has parsed these options on the command line, but not those of a file.
        settings = options.get(name) or {}
        if isinstance(settings, str):
            settings = parse_assignments(settings)
        options[name] = dict(settings)
    return options


def _with_real_path(model_args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's arguments, with the real path of a checkpoint that is a folder.

    Results name the model by this path, so that it has one name whichever link leads to the folder.
    """
    checkpoint = model_args.get("pretrained")
    if not isinstance(checkpoint, str):
        return dict(model_args)
    folder = Path(checkpoint).expanduser()
    if not folder.is_dir():
        return dict(model_args)
    return {**model_args, "pretrained": str(folder.resolve())}


def _as_texts(options: Mapping[str, Any], name: str) -> list[str]:
    """Return the values of an option, which may be a value, a list of values, or missing."""
    value = options.get(name) or []
    values = value if isinstance(value, list) else [value]
    return list(map(str, values))


def _check_options(options: Mapping[str, Any]) -> None:
    """Check what can be checked of the options before the tasks are read.

    Args:
        options: The options from `_read_options`.

    Raises:
        ConfigError: An option holds a credential, samples have no output folder, the model or the
            judge is unknown, or the model cannot take the chat template.
        ModelError: The model's checkpoint or the device does not exist.
    """
    secret = next(secrets_within(options), None)
    if secret is not None:
        raise ConfigError(
            f"--{secret.key}: {secret.problem}, which lm_eval would write to the results file;"
            f" {INSTEAD}"
        )
    saves_samples = options.get("log_samples") or options.get("predict_only")
    if saves_samples and not options.get("output_path"):
        raise ConfigError(
            "--log_samples and --predict_only write samples: to which folder? Add --output_path"
        )
    model = options["model"]
    preflight.check_package(model)
    check_model(model, options["model_args"], str(options.get("device") or ""))
    preflight.check_chat_template(
        model, options["model_args"], bool(options.get("apply_chat_template"))
    )
    # A judge that cannot be loaded is reported here, before the tasks read their data.
    judge = options["metadata"].get("judge")
    if judge:
        load_judge_config(str(judge))


def _without_lm_eval_tasks() -> AbstractContextManager[None]:
    """Keep lm_eval from reading the 14,000 YAMLs of its own tasks within a ``with`` block."""
    # lm_eval's command creates the manager itself, and has no option for this argument.
    task_manager = lm_eval_part("lm_eval.tasks:TaskManager")
    init_without_defaults = functools.partialmethod(task_manager.__init__, include_defaults=False)
    return replaced(task_manager, __init__=init_without_defaults)


def _without_commit_outside_checkouts() -> AbstractContextManager[None]:
    """Keep lm_eval from looking up a git commit, unless the current folder is in a checkout.

    lm_eval records the commit in its results. Outside a checkout, ``git`` would print an error.
    """
    # If a release of lm_eval lacks the function, this look-up raises the error that says so.
    lm_eval_part("lm_eval.evaluator:get_git_commit_hash")
    folder = Path.cwd()
    is_in_checkout = any((parent / ".git").exists() for parent in (folder, *folder.parents))
    if is_in_checkout:
        return nullcontext()
    evaluator = lm_eval_part("lm_eval.evaluator")
    return replaced(evaluator, get_git_commit_hash=lambda: None)


@contextmanager
def _readable_tables(current: EvaluationRun) -> Iterator[list[Mapping[str, Any]]]:
    """Shorten the tables that lm_eval prints within a ``with`` block, and collect its results.

    Args:
        current: The run, whose tasks say which metrics tables show.

    Yields:
        A list, to which lm_eval's results are added when it prints a table of them.
    """
    printed_results: list[Mapping[str, Any]] = []
    lm_eval_make_table = lm_eval_part("lm_eval.utils:make_table")

    def collect_and_make_table(
        content: Mapping[str, Any], column: str = "results", **options: Any
    ) -> object:
        printed_results.append(content)
        # A table shows the results of tasks, or of groups in the column ``groups``.
        shown_results = _results_for_readers(content[column], current)
        return lm_eval_make_table({**content, column: shown_results}, column, **options)

    with replaced(lm_eval_part("lm_eval.utils"), make_table=collect_and_make_table):
        yield printed_results


def _results_for_readers(
    results_by_task: Mapping[str, Mapping[str, object]], current: EvaluationRun
) -> dict[str, dict[str, object]]:
    """Return the results of tasks and groups without the entries that tables do not show."""
    shown_results = {}
    for name, results in results_by_task.items():
        # The suite does not know lm_eval's own tasks and groups.
        task = current.tasks.get(name)
        shown_results[name] = {
            key: result for key, result in results.items() if is_for_readers(key, result, task)
        }
    return shown_results


def is_for_readers(key: str, value: object, task: "Task | None") -> bool:
    """Tell whether tables show an entry of a task's results.

    Args:
        key: The key of the entry, such as ``alias``, ``acc,none`` or ``acc_stderr,none``.
        value: Its value. Tables show no metric whose value is not a number.
        task: The task, which tells whether tables show a metric such as ``acc``. None for a task of
            lm_eval, whose metrics are all shown.
    """
    name, comma, _ = key.partition(",")
    # Entries without a filter after a comma are no metrics.
    if not comma:
        return True
    if number_of(value) is None:
        return False
    return task is None or task.is_shown(name.removesuffix("_stderr"))


@contextmanager
def _kept_answers(current: EvaluationRun, answers: "AnswerFile") -> Iterator[None]:
    """Let a run keep the answers of models within a ``with`` block.

    After the block, this process may evaluate other models, whose answers are not to be kept.

    Args:
        current: The run.
        answers: The file in which the run keeps the answers.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C. The text names the file.
    """
    current.answers = answers
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"answers are kept in {answers.path}") from interrupt
    finally:
        current.answers = None


def _save_retrieved(current: EvaluationRun, results_files: set[Path]) -> None:
    """Write the passages that the model retrieved next to the results of the run.

    All processes of the run must call this, because each waits for the passages of the others.

    Args:
        current: The run, with the passages that this process has retrieved.
        results_files: The results files that this process has written.
    """
    # This import takes long, and this module should be quick to import for ``run --help``.
    from lm_factuality.harness.judging import gather_from_all_processes

    retrieved_by_row: Rows = {}
    for process_rows in gather_from_all_processes(current.retrieved):
        retrieved_by_row.update(process_rows)
    for results_file in results_files:
        write_retrieved(results_file, retrieved_by_row)


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
