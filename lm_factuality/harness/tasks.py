"""Finds task YAMLs by path or name, as lm_eval would load them, and checks them before a run.

The commands `run`, `validate` and `ls` and the Python API call it. Its errors say what to do.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml
from lm_eval.tasks import TaskManager

from lm_factuality.ground.errors import ConfigError, FactualityError, did_you_mean
from lm_factuality.ground.files import count_values
from lm_factuality.ground.packages import replaced
from lm_factuality.ground.suite import MOST_VALUES, tasks_folder
from lm_factuality.harness.context import current_run
from lm_factuality.harness.internals import internal
from lm_factuality.harness.suite_task import SuiteTask, quietly

logger = logging.getLogger(__name__)

ENTRY_POINTS = "lm_factuality.benchmarks"  # by which packages of others bring benchmarks

_YAML = (".yaml", ".yml")
_NEAR = 0.8  # of difflib, by which a key of a YAML is taken for a misspelt one

# The keys of metadata that all tasks of the suite read.
_COMMON_SETTINGS = (
    "version",
    "license",
    "description",
    "caution",
    "data_dir",
    "source",
    "pretrained",
    "tokenizer",
    "chat_template_args",
    "thinking_tokens",
    "enable_thinking",
    "think_end_token",
)

Config = dict[str, Any]
Found = Iterator[tuple[str, Config | FactualityError]]


def suite_tasks(include_path: Sequence[str] = ()) -> TaskManager:
    """Index the suite's tasks and those in some folders, without lm_eval's own tasks.

    Args:
        include_path: Folders with more task YAMLs.

    Raises:
        ConfigError: The name of a task is not a text, so that lm_eval cannot sort it.
    """
    try:
        return TaskManager(include_path=with_suite(include_path), include_defaults=False)
    except TypeError as error:
        folders = ", ".join(include_path)
        raise ConfigError(
            f"{folders}: lm_eval cannot index the YAMLs here: {error}; is every task's name a text?"
        ) from error


def with_suite(include_path: Sequence[str] = ()) -> list[str]:
    """Put the suite's folder before others."""
    suite = tasks_folder().resolve()
    return [str(suite), *(path for path in include_path if Path(path).resolve() != suite)]


def find_configs(target: str, include_path: Sequence[str] = (), may_import: bool = False) -> Found:
    """Find every task that a name stands for.

    Args:
        target: The path of a YAML, or the name of a task, a group or a tag.
        include_path: Folders with more tasks.
        may_import: Whether to import the Python that a YAML of others names, which is said before.
            It is refused otherwise.

    Yields:
        The name of each task, and its config or what is wrong with it.
    """
    if _is_path(target):
        include_path = [str(Path(os.path.realpath(target)).parent), *include_path]

    # A YAML that is no group needs no index, and others in its folder may be of any kind.
    @cache
    def index() -> TaskManager:
        return suite_tasks(include_path)

    yield from _expand(target, index, may_import, ())


def check_tasks(
    tasks: Sequence[str],
    include_path: Sequence[str],
    model_args: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> bool:
    """Make every task of the suite once, which says what is wrong with it.

    Args:
        tasks: Paths and names, as `find_configs` takes them.
        include_path: Folders with more tasks.
        model_args: The model's arguments, which lm_eval adds to the metadata.
        metadata: That of the command line.

    Returns:
        Whether all tasks are the suite's.

    Raises:
        ConfigError: A name that nobody knows, a setting that no task has, or a task that cannot be
            made because of its settings or its judge.
        DataError: The data of a task cannot be read.
    """
    suite_configs: list[Config] = []
    is_only_suites = True
    for target in tasks:
        for name, config in find_configs(target, include_path, may_import=True):
            if isinstance(config, FactualityError) and not _is_lm_evals(name):
                raise config
            if isinstance(config, FactualityError) or not is_suites(config):
                is_only_suites = False
                continue
            for problem in unknown_keys(name, config):
                raise ConfigError(problem)
            suite_configs.append(config)
    if is_only_suites:
        _check_settings(suite_configs, metadata)
    for config in suite_configs:
        all_metadata = {**config["metadata"], **model_args, **metadata}
        with quietly():
            config["class"](config={**config, "metadata": all_metadata})
    return is_only_suites


def is_suites(config: Mapping[str, Any]) -> bool:
    """Tell whether a YAML names a class of the suite's tasks."""
    kind = config.get("class")
    return isinstance(kind, type) and issubclass(kind, SuiteTask)


def settings_of(kind: type) -> frozenset[str]:
    """Return the keys of metadata that a class of tasks reads.

    They are the keys that all tasks read, and those in ``reads`` of the class and its bases.
    """
    keys = set(_COMMON_SETTINGS)
    for base in kind.__mro__:
        # `vars` ignores inherited attributes, each of which its own class contributes.
        keys.update(vars(base).get("reads", ()))
    return frozenset(keys)


def unknown_keys(name: str, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each key of a YAML that is probably misspelt.

    Only YAMLs of the suite's tasks are checked.

    Args:
        name: The name of the task, for the messages.
        config: The task's YAML.

    Yields:
        A message for each key that lm_eval does not know, and for each key of the metadata that is
        nearly a setting. Other keys of the metadata are the user's notes.
    """
    if not is_suites(config):
        return
    keys = {"class", "include", *internal("lm_eval.config.task:TaskConfig").__dataclass_fields__}
    for key in config:
        if key not in keys:
            yield f"{name}: unknown key {key!r}{did_you_mean(key, keys)}"

    settings = settings_of(config["class"])
    for key in config.get("metadata") or {}:
        hint = did_you_mean(str(key), settings, cutoff=_NEAR)
        if key not in settings and hint:
            yield f"{name}: metadata: no setting {key!r}{hint}"


def _check_settings(configs: Sequence[Config], metadata: Mapping[str, Any]) -> None:
    """Check that each setting of ``--metadata`` is one that a task of the run reads.

    Args:
        configs: The YAMLs of the run's tasks.
        metadata: The settings of the command line.

    Raises:
        ConfigError: No task reads a setting.
    """
    settings: set[str] = set()
    for config in configs:
        settings |= settings_of(config["class"])
    for key in metadata:
        if key in settings:
            continue
        special_settings = ", ".join(sorted(settings.difference(_COMMON_SETTINGS)))
        hint = did_you_mean(key, settings) or f"; they have {special_settings}"
        raise ConfigError(f"--metadata {key}: no task of this run has such a setting{hint}")


def _is_lm_evals(name: str) -> bool:
    """Tell whether lm_eval itself has tasks of a name. It takes seconds to list them."""
    return Path(name).is_dir() or bool(TaskManager().match_tasks([name]))


def _is_path(target: str) -> bool:
    """Tell whether the user named a task by the path of its YAML."""
    return target.lower().endswith(_YAML)


def _expand(
    member: str | Config,
    index: Callable[[], TaskManager],
    may_import: bool,
    within: tuple[str, ...],
) -> Found:
    """Yield the tasks of a name, a path, or what is written out in a group.

    Args:
        member: One of these.
        index: Returns the index to look names up in.
        may_import: As of `find_configs`.
        within: The groups and tags that it is in.
    """
    name = member if isinstance(member, str) else str(member.get("group") or member["task"])
    if name in within:
        path = " > ".join([*within, name])
        yield name, ConfigError(f"{name!r} holds itself, by way of {path}")
        return
    config: Config | FactualityError
    if isinstance(member, dict) and name not in index().task_index:
        config = {**member, "class": None}  # lm_eval's to make
    else:
        config = _read(name, index, may_import)
    if isinstance(config, FactualityError) or not isinstance(config.get("task"), list):
        yield name, config
        return
    for part in config["task"]:
        yield from _expand(part, index, may_import, (*within, name))


def _read(
    target: str, index: Callable[[], TaskManager], may_import: bool
) -> Config | FactualityError:
    """Read the config of a task or group by its path or name.

    Args:
        target: The path of a YAML, or the name of a task, group or tag.
        index: Returns the index of all names; it is made at the first call.
        may_import: Whether Python that the YAML names may be imported.

    Returns:
        The config, or the error. A tag becomes a group of the tasks that have it.
    """
    if _is_path(target):
        return _load(Path(target), may_import)

    internal("lm_eval.tasks:TaskManager.task_index")
    manager = index()
    entry = manager.task_index.get(target)
    if entry is None:
        hint = did_you_mean(target, manager.all_tasks, most=2)
        hint = hint or f"; known: {', '.join(manager.all_tasks)}"
        return ConfigError(f"{target!r} is not a task, group, YAML or data file{hint}")
    if entry.kind is internal("lm_eval.tasks._index:Kind.TAG"):
        return {"task": sorted(entry.tags)}
    # A subtask that is written out in a group has no YAML of its own.
    if not entry.yaml_path:
        return dict(entry.cfg or {})
    return _load(Path(entry.yaml_path), may_import)


def _load(path: Path, may_import: bool) -> Config | FactualityError:
    """Return the config in a YAML with all that it includes, or what is wrong with it."""
    if not path.is_file():
        neighbours = [file.name for file in path.parent.glob("*.y*ml")]
        return ConfigError(f"{path}: no such file{did_you_mean(path.name, neighbours)}")
    try:
        return _load_checked(path, may_import)
    except ConfigError as error:
        return error
    except Exception as error:  # noqa: BLE001  the Python file that the YAML names may raise anything
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return ConfigError(f"{path}: cannot be loaded as a task's YAML: {problem}")


def _load_checked(path: Path, may_import: bool) -> Config:
    loader = internal("lm_eval.tasks._yaml_loader")
    import_function = internal("lm_eval.tasks._yaml_loader:_import_func_in_yml")

    def import_checked(name: str, folder: Path) -> object:
        if not _is_installed(name.rpartition(".")[0], folder):
            if not may_import:
                raise ConfigError(
                    f"{path}: !function {name}: Python that is not the suite's, so it was not"
                    " imported; if you trust its author, import it with --run-code"
                )
            text = f"{path}: importing {name}, as its !function says: Python of somebody else"
            current_run().tell_once(logger, text)
        return import_function(name, folder)

    # The loader in C, which lm_eval prefers, crashes on a YAML that is nested too deeply.
    with replaced(loader, _import_func_in_yml=import_checked, _Base=yaml.SafeLoader):
        config: Config = loader.load_yaml(path, resolve_func=True)
    if count_values(config, MOST_VALUES) > MOST_VALUES:
        raise ConfigError(f"{path}: more than {MOST_VALUES:,} values once its aliases are followed")
    if "task" not in config and "group" not in config:
        keys = ", ".join(sorted(config)[:8])
        raise ConfigError(
            f"{path}: no task: found the keys {keys}; a task's YAML names it under 'task'. Of a"
            " build of factor-gen, run the YAML that it writes"
        )
    metadata = config.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ConfigError(
            f"{path}: metadata: found a {type(metadata).__name__}, expected a mapping"
        )
    config["metadata"] = {**metadata, "config_source": str(path)}
    return config


def _is_installed(module: str, folder: Path) -> bool:
    """Tell whether a module that a YAML names is the suite's or an installed benchmark's.

    Args:
        module: The name of the module, such as ``lm_factuality.benchmarks.felm.task``.
        folder: The folder of the YAML. As in lm_eval, a module in it hides an installed one.
    """
    if (folder / f"{module.replace('.', '/')}.py").exists():
        return False
    trusted_packages = {"lm_factuality"}
    for entry_point in entry_points(group=ENTRY_POINTS):
        trusted_packages.add(entry_point.module.partition(".")[0])
    return module.partition(".")[0] in trusted_packages
