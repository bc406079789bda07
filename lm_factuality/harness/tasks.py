"""Finds task YAMLs by path or name, as lm_eval would load them, and checks them before a run.

The commands `run`, `validate` and `ls` and the Python API call it. Its errors say what to do.
"""

import atexit
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from glob import escape
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import yaml
from jinja2 import TemplateError
from lm_eval.tasks import TaskManager

from lm_factuality.ground.errors import ConfigError, FactualityError, did_you_mean
from lm_factuality.ground.packages import ENTRY_POINTS, replaced
from lm_factuality.ground.sandbox import BoundedEnvironment
from lm_factuality.ground.suite import check_size, tasks_folder
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.context import current_run
from lm_factuality.harness.internals import index_of, lm_eval_part
from lm_factuality.harness.suite_task import SuiteTask, warnings_silenced

logger = logging.getLogger(__name__)

_YAML = (".yaml", ".yml")
_TABLE_BASE = "factor/_factor.yaml"  # the YAML that tasks of a table without a YAML include
_RESTRICTED_ENVIRONMENT = BoundedEnvironment()  # takes no templates that could run code
_MISSPELT_SIMILARITY = 0.8  # difflib's ratio from which a key counts as a misspelt setting

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

Config: TypeAlias = dict[str, Any]
"""The content of a task's YAML, with everything that it includes."""

ConfigOrError: TypeAlias = Config | FactualityError
"""A config, or why it cannot be read. Errors are returned, so that other tasks are still read."""


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
    """Return the suite's folder of tasks, followed by the other folders."""
    suite = tasks_folder().resolve()
    return [str(suite), *(path for path in include_path if Path(path).resolve() != suite)]


def find_configs(
    target: str, include_path: Sequence[str] = (), may_import: bool = False
) -> Iterator[tuple[str, ConfigOrError]]:
    """Find the config of every task that a name or path stands for.

    Args:
        target: The path of a YAML, or the name of a task, a group or a tag. For example, the group
            ``felm`` stands for its tasks.
        include_path: Folders with more tasks.
        may_import: Whether to import a Python function of a user's own module that a YAML names
            with ``!function``, and to take templates with loops and methods. A warning is logged
            before the import. If False, such a YAML is an error.

    Yields:
        The name of each task, and its config or the error that says what is wrong with it.
    """
    if _is_path(target):
        # A group may name the tasks of other YAMLs in its folder.
        include_path = [str(Path(os.path.realpath(target)).parent), *include_path]
    for name, config in _ConfigFinder(include_path, may_import).find(target):
        problem = "" if may_import else _template_problem(config)
        if problem:
            config = ConfigError(f"{name}: {problem}")
        yield name, config


def write_yamls_of_tables(targets: Sequence[str]) -> list[str]:
    """Write a task's YAML for each data file among the tasks of a run.

    lm_eval reads no tasks but YAMLs. These YAMLs last as long as the process.

    Args:
        targets: Names of tasks, paths of YAMLs, and paths of data files, such as ``mine.csv``, with
            the columns of FACTOR's files.

    Returns:
        The targets, with the path of a YAML in place of each data file.

    Raises:
        ConfigError: The file is called like a task of the suite, so their results would be mixed
            up.
    """
    tasks = []
    for target in targets:
        is_table = Path(target).suffix.lower() in FORMATS
        tasks.append(_write_yaml_of_table(target) if is_table else target)
    return tasks


def _write_yaml_of_table(target: str) -> str:
    """Write the YAML of a FACTOR task whose rows are in a data file, and return the YAML's path.

    The YAML of ``data/mine.csv`` is ``mine.yaml`` in a temporary folder.

    Raises:
        ConfigError: The file is called like a task of the suite.
    """
    table = Path(target)
    task = table.stem
    if any(tasks_folder().rglob(escape(f"{task}.yaml"))):
        raise ConfigError(
            f"{target}: the suite has a task {task}; rename the file, or run --tasks {task}"
            f" --metadata data_dir={table.parent}"
        )
    config = {
        "include": str(tasks_folder().resolve() / _TABLE_BASE),
        "task": task,
        "dataset_path": str(table.absolute()),
    }
    folder = TemporaryDirectory(prefix="lm-factuality-")
    atexit.register(folder.cleanup)
    yaml_path = Path(folder.name, f"{task}.yaml")
    yaml_path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(yaml_path)


def read_configs(
    tasks: Sequence[str], include_path: Sequence[str], metadata: Mapping[str, Any]
) -> list[Config | None]:
    """Read the config of every task of a run, before any data is read.

    Args:
        tasks: Paths and names, as `find_configs` takes them.
        include_path: Folders with more tasks.
        metadata: The settings of the command line's ``--metadata``.

    Returns:
        The config of each of the suite's tasks, and None for each task of lm_eval.

    Raises:
        ConfigError: A task does not exist, or no task reads a setting.
    """
    configs = []
    for target in tasks:
        for name, config in find_configs(target, include_path, may_import=True):
            configs.append(_checked_suite_config(name, config))
    suite_configs = [config for config in configs if config is not None]
    # Tasks of lm_eval may read any setting.
    if len(suite_configs) == len(configs):
        _check_settings(suite_configs, metadata)
    return configs


def build_tasks(
    configs: Sequence[Config], model_args: Mapping[str, Any], metadata: Mapping[str, Any]
) -> None:
    """Check the suite's tasks of a run by building them, before the model is loaded.

    Args:
        configs: The configs of the tasks.
        model_args: The model's arguments, which lm_eval adds to the metadata of each task.
        metadata: The settings of the command line's ``--metadata``.

    Raises:
        ConfigError: A task cannot be built with its settings or its judge.
        DataError: The data of a task cannot be read.
    """
    for config in configs:
        all_metadata = {**config["metadata"], **model_args, **metadata}
        # The task gives its warnings when lm_eval builds it again for the run.
        with warnings_silenced():
            config["class"](config={**config, "metadata": all_metadata})


def is_suite_task(config: Mapping[str, Any]) -> bool:
    """Tell whether a YAML names a class of the suite's tasks."""
    task_class = config.get("class")
    return isinstance(task_class, type) and issubclass(task_class, SuiteTask)


def settings_of(task_class: type) -> frozenset[str]:
    """Return the keys of metadata that a class of tasks reads.

    They are those that all tasks read, and the ``metadata_keys`` of the class and its bases.
    """
    keys = set(_COMMON_SETTINGS)
    for base in task_class.__mro__:
        keys.update(getattr(base, "metadata_keys", ()))
    return frozenset(keys)


def misspelt_keys(name: str, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each key of a suite task's YAML that is probably misspelt.

    A top-level key is misspelt if lm_eval does not know it. A key of the metadata is misspelt if it
    is similar to a setting, because other keys may be the user's notes.

    Args:
        name: The name of the task, for the messages.
        config: The task's YAML.

    Yields:
        Messages such as ``my_task: unknown key 'dataset'; did you mean dataset_path?``.
    """
    keys = {
        "class",
        "include",
        *lm_eval_part("lm_eval.config.task:TaskConfig").__dataclass_fields__,
    }
    for key in config:
        if key not in keys:
            yield f"{name}: unknown key {key!r}{did_you_mean(key, keys)}"

    settings = settings_of(config["class"])
    for key in config.get("metadata") or {}:
        if key in settings:
            continue
        hint = did_you_mean(str(key), settings, cutoff=_MISSPELT_SIMILARITY)
        if hint:
            yield f"{name}: metadata: no setting {key!r}{hint}"


def _checked_suite_config(name: str, config: ConfigOrError) -> Config | None:
    """Return the config of one of the suite's tasks, or None for a task of lm_eval.

    Raises:
        FactualityError: The config could not be read, and lm_eval has no task of this name either.
        ConfigError: A key of the config is misspelt.
    """
    if isinstance(config, FactualityError):
        if _is_lm_eval_task(name):
            return None
        raise config
    if not is_suite_task(config):
        return None
    # One misspelt key is enough to refuse the task, so only the first is reported.
    problem = next(misspelt_keys(name, config), None)
    if problem is not None:
        raise ConfigError(problem)
    return config


def _check_settings(configs: Sequence[Config], metadata: Mapping[str, Any]) -> None:
    """Check that each setting of ``--metadata`` is one that a task of the run reads.

    Args:
        configs: The YAMLs of the run's tasks, whose classes declare the settings.
        metadata: The settings of the command line.

    Raises:
        ConfigError: No task reads a setting. The message suggests a similar one, or lists the
            settings that not all tasks have.
    """
    settings: set[str] = set()
    for config in configs:
        settings |= settings_of(config["class"])
    special_settings = ", ".join(sorted(settings.difference(_COMMON_SETTINGS)))
    for key in metadata:
        if key not in settings:
            hint = did_you_mean(key, settings) or f"; they have {special_settings}"
            raise ConfigError(f"--metadata {key}: no task of this run has such a setting{hint}")


def _template_problem(config: object) -> str:
    """Find a template in a YAML that could run code, such as one that calls a method.

    Returns:
        What is wrong with the first such template; empty if all templates only insert columns.
    """
    for key, text in _texts_within(config):
        if "{{" not in text and "{%" not in text:
            continue
        try:
            # This raises an error for anything but text and columns.
            _RESTRICTED_ENVIRONMENT.from_string(text)
        except TemplateError as error:
            return (
                f"{key} is not a template of columns and text: {error}; if you trust its author,"
                " add --run-code"
            )
    return ""


def _texts_within(content: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in the content of a YAML, with the path of its key.

    Example:
        ``{"task": "qa", "doc_to_choice": ["yes", "no"]}`` yields ``("task", "qa")``,
        ``("doc_to_choice.0", "yes")`` and ``("doc_to_choice.1", "no")``.
    """
    # Numbers, for example, are no texts and have no members.
    members: Iterable[tuple[object, object]] = ()
    if isinstance(content, str):
        yield key, content
    elif isinstance(content, dict):
        members = content.items()
    elif isinstance(content, list):
        members = enumerate(content)
    for name, member in members:
        yield from _texts_within(member, f"{key}.{name}" if key else str(name))


def _is_lm_eval_task(name: str) -> bool:
    """Tell whether lm_eval itself has tasks of a name. It takes seconds to list them."""
    return Path(name).is_dir() or bool(TaskManager().match_tasks([name]))


def _is_path(target: str) -> bool:
    """Tell whether the user named a task by the path of its YAML."""
    return target.lower().endswith(_YAML)


class _ConfigFinder:
    """Finds the configs of tasks by name or path, and those of all tasks in a group."""

    def __init__(self, include_path: Sequence[str], may_import: bool) -> None:
        """Prepare to look in some folders.

        Args:
            include_path: Folders with task YAMLs, besides the suite's own.
            may_import: Whether YAMLs may import the user's own Python.
        """
        self._include_path = include_path
        self._may_import = may_import

    @cached_property
    def _manager(self) -> TaskManager:
        """The index of all task names.

        It is made when the first name is looked up. A user who names the YAML of a task needs no
        index, and is not troubled by other YAMLs in its folder that are broken.
        """
        return suite_tasks(self._include_path)

    def find(
        self, target: str | Config, parents: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, ConfigOrError]]:
        """Yield a task, or all tasks of a group and of the groups within it.

        Args:
            target: The name or path of a task, group or tag, or the config of a task or group that
                is written out within its group.
            parents: The groups and tags that contain the target, the outermost first.

        Yields:
            The name of each task, and its config or error.
        """
        name = _name_of(target)
        if name in parents:
            path = " > ".join([*parents, name])
            yield name, ConfigError(f"{name!r} holds itself, by way of {path}")
            return

        config: ConfigOrError
        if isinstance(target, dict) and name not in index_of(self._manager):
            # Only groups of lm_eval write their tasks out. Such a task gets no class, since
            # `is_suite_task` knows the suite's tasks by it.
            config = {**target, "class": None}
        else:
            config = self._read_config(name)
        # A task names itself under "task", and a group lists its members there.
        members = config.get("task") if isinstance(config, dict) else None
        if not isinstance(members, list):
            yield name, config
            return
        for member in members:
            yield from self.find(member, (*parents, name))

    def _read_config(self, target: str) -> ConfigOrError:
        """Read the config of a task or group, given by its path or name.

        Args:
            target: The path of a YAML, or the name of a task, group or tag.

        Returns:
            The config, or the error. A tag becomes a group of the tasks that have it.
        """
        if _is_path(target):
            return _load(Path(target), self._may_import)

        entry = index_of(self._manager).get(target)
        if entry is None:
            names = self._manager.all_tasks
            hint = did_you_mean(target, names, most=2) or f"; known: {', '.join(names)}"
            return ConfigError(f"{target!r} is not a task, group, YAML or data file{hint}")
        # A tag has no YAML. It is a word that several tasks list under "tag" in theirs.
        is_tag = entry.kind is lm_eval_part("lm_eval.tasks._index:Kind.TAG")
        if is_tag:
            return {"task": sorted(entry.tags)}
        # A subtask that is written out in a group has no YAML of its own.
        if not entry.yaml_path:
            return dict(entry.cfg or {})
        return _load(Path(entry.yaml_path), self._may_import)


def _load(path: Path, may_import: bool) -> ConfigOrError:
    """Return the config in a YAML with all that it includes, or the error that says what is wrong.

    Args:
        path: The YAML.
        may_import: Whether the YAML may import the user's own Python.
    """
    if not path.is_file():
        neighbours = [file.name for file in path.parent.glob("*.y*ml")]
        return ConfigError(f"{path}: no such file{did_you_mean(path.name, neighbours)}")
    try:
        config = _load_yaml(path, may_import)
        return _check_config(path, config)
    except ConfigError as error:
        return error
    # The Python file that the YAML names may raise anything.
    except Exception as error:  # noqa: BLE001
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return ConfigError(f"{path}: cannot be loaded as a task's YAML: {problem}")


def _load_yaml(path: Path, may_import: bool) -> Config:
    """Load a YAML as lm_eval does, but import only the Python functions that may be imported.

    The import of the user's own Python is logged once.

    Args:
        path: The YAML, which names functions as in ``!function my_module.my_function``.
        may_import: Whether it may import the user's own Python.

    Raises:
        ConfigError: The YAML names the user's own Python, and may not import it.
    """
    loader = lm_eval_part("lm_eval.tasks._yaml_loader")
    import_function = lm_eval_part("lm_eval.tasks._yaml_loader:_import_func_in_yml")

    def check_and_import(name: str, folder: Path) -> object:
        if not _is_trusted_function(name, folder):
            _check_user_function(name, path, may_import)
        return import_function(name, folder)

    # The loader in C, which lm_eval prefers, crashes on a YAML that is nested too deeply.
    with replaced(loader, _import_func_in_yml=check_and_import, _Base=yaml.SafeLoader):
        config: Config = loader.load_yaml(path, resolve_func=True)
    return config


def _check_user_function(name: str, path: Path, may_import: bool) -> None:
    """Check that a YAML may import a function of the user's, and log its import.

    Args:
        name: The name of the function, such as ``my_module.my_function``.
        path: The YAML, whose ``!function`` names it.
        may_import: Whether the user allows the import by ``--run-code``.

    Raises:
        ConfigError: The user does not allow the import.
    """
    if not may_import:
        raise ConfigError(
            f"{path}: !function {name}: Python that is not the suite's, so it was not imported;"
            " if you trust its author, import it with --run-code"
        )
    text = f"{path}: importing {name}, as its !function says; it is not part of the suite"
    current_run().log_once(logger, text)


def _is_trusted_function(name: str, folder: Path) -> bool:
    """Tell whether a function is the suite's or an installed benchmark's, which may be imported.

    Args:
        name: The name of the function, such as ``lm_factuality.benchmarks.felm.task.FelmTask``.
        folder: The folder of the YAML. As in lm_eval, a module in it hides an installed one.
    """
    module = name.rpartition(".")[0]
    if (folder / f"{module.replace('.', '/')}.py").exists():
        return False
    trusted_packages = {"lm_factuality"}
    for entry_point in entry_points(group=ENTRY_POINTS):
        trusted_packages.add(entry_point.module.partition(".")[0])
    return module.partition(".")[0] in trusted_packages


def _check_config(path: Path, config: Config) -> Config:
    """Check the content of a task's YAML, and return it with its path added to the metadata.

    Args:
        path: The YAML, whose path becomes ``config_source`` in the metadata.
        config: Its content, whose ``metadata`` are replaced.

    Raises:
        ConfigError: The content is no task or group, or is too large.
    """
    check_size(path, config)
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


def _name_of(target: str | Config) -> str:
    """Return the name or path of a task or group, which may be written out within its group."""
    if isinstance(target, str):
        return target
    return str(target.get("group") or target["task"])
