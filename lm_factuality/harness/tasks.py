"""Finds task YAMLs by path or name, as lm_eval would load them, and checks them before a run.

The commands `run`, `validate` and `ls` and the Python API call it. Its errors say what to do.
"""

import logging
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml
from lm_eval.tasks import TaskManager

from lm_factuality.ground.console import tell_once
from lm_factuality.ground.errors import ConfigError, FactualityError, did_you_mean
from lm_factuality.ground.files import num_values
from lm_factuality.ground.suite import MOST_VALUES, tasks_folder
from lm_factuality.harness.internals import internal

logger = logging.getLogger(__name__)

ENTRY_POINTS = "lm_factuality.benchmarks"  # by which packages of others bring benchmarks

_YAML = (".yaml", ".yml")
_LONGEST_NAME = 150  # characters, beside which the name of a file has a date
_BUILD_SECTIONS = {"corpus", "generate", "select", "choose"}  # of factor-gen's configs
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

Found = Iterator[tuple[str, dict[str, Any] | FactualityError]]


def suite_tasks(include_path: Sequence[str] = ()) -> TaskManager:
    """Index the suite's tasks and those under some folders, without lm_eval's own.

    Raises:
        ConfigError: A YAML there has a name that is no text, which lm_eval cannot sort.
    """
    try:
        return TaskManager(include_path=with_suite(include_path), include_defaults=False)
    except TypeError as error:
        folders = ", ".join(include_path)
        raise ConfigError(
            f"{folders}: lm_eval cannot index the YAMLs here: {error}; is every task's name a text?"
        ) from error


def with_suite(include_path: Sequence[str] = ()) -> list[str]:
    """Put the suite's folder before others.

    It is left out where lm_eval has it by our entry point, since lm_eval warns of tasks that it
    sees twice.
    """
    suite = tasks_folder().resolve()
    others = [path for path in include_path if Path(path).resolve() != suite]
    known_tasks = TaskManager(include_defaults=False).all_tasks
    is_known = any(path.stem in known_tasks for path in suite.rglob("*.yaml"))
    return others if is_known else [str(suite), *others]


def find_configs(
    target: str,
    include_path: Sequence[str] = (),
    may_import: bool = False,
    within: tuple[str, ...] = (),
) -> Found:
    """Find every task that a name stands for.

    Args:
        target: The path of a YAML, or the name of a task, a group or a tag.
        include_path: Folders with more tasks.
        may_import: Whether to import the Python that a YAML of others names, which is said before.
            It is refused otherwise.
        within: The groups and tags that led here, so that one which holds itself is an error.

    Yields:
        The name of each task, and its config or what is wrong with it.
    """
    if target in within:
        path = " > ".join((*within, target))
        yield target, ConfigError(f"{target!r} holds itself, by way of {path}")
        return
    within = (*within, target)
    members: Sequence[str | dict[str, Any]] = ()
    if target.lower().endswith(_YAML):
        config = _load(Path(target), may_import)
        include_path = [str(Path(os.path.realpath(target)).parent), *include_path]
    else:
        config, members = _find_by_name(target, include_path, may_import)
    if isinstance(config, dict) and isinstance(config.get("task"), list):  # a group
        members = list(_members(config["task"], suite_tasks(include_path).task_index))
    for member in members:
        if isinstance(member, str):
            yield from find_configs(member, include_path, may_import, within)
        else:
            yield str(member["task"]), member
    if not members:
        yield target, config


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
    from lm_factuality.harness.suite_task import SuiteTask, quietly

    suite_configs: list[tuple[type[SuiteTask], dict[str, Any]]] = []
    is_only_suites = True
    for target in tasks:
        for name, config in find_configs(target, include_path, may_import=True):
            if isinstance(config, FactualityError):
                if not _is_lm_evals(name):
                    raise config
                is_only_suites = False
                continue
            kind = config.get("class")
            if not (isinstance(kind, type) and issubclass(kind, SuiteTask)):
                is_only_suites = False
                continue
            for problem in unknown_keys(name, config):
                raise ConfigError(problem)
            suite_configs.append((kind, config))
    if is_only_suites:
        _check_settings([kind for kind, _ in suite_configs], metadata)
    for kind, config in suite_configs:
        all_metadata = {**config["metadata"], **model_args, **metadata}
        with quietly():
            kind(config={**config, "metadata": all_metadata})
    return is_only_suites


def settings_of(kind: type) -> frozenset[str]:
    """Return the keys of metadata that a class of tasks reads.

    They are those that its ``reads`` and its bases' name, and those of all tasks.
    """
    reads = [vars(base).get("reads", ()) for base in kind.__mro__]
    return frozenset(_COMMON_SETTINGS).union(*reads)


def unknown_keys(name: str, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is misspelt in a YAML.

    That is a key unknown to lm_eval, or one of metadata that is nearly a setting. Other keys of
    metadata are notes.
    """
    kind = config.get("class")
    if not isinstance(kind, type) or not any("reads" in vars(base) for base in kind.__mro__):
        return
    keys = {"class", "include", *internal("lm_eval.config.task:TaskConfig").__dataclass_fields__}
    for key in config:
        if key not in keys:
            yield f"{name}: unknown key {key!r}{did_you_mean(key, keys)}"
    settings = settings_of(kind)
    for key in config.get("metadata") or {}:
        hint = did_you_mean(str(key), settings, cutoff=_NEAR)
        if key not in settings and hint:
            yield f"{name}: metadata: no setting {key!r}{hint}"


def wrong_name(task: Any) -> str:
    """Say what is wrong with the name of a task.

    lm_eval names the file of samples by it, and goes on without samples if it cannot.
    """
    if not isinstance(task, str) or (len(task) <= _LONGEST_NAME and not set(task) & set("/\\\0")):
        return ""
    return (
        f"task: found {task[:80]!r}, expected a name of at most {_LONGEST_NAME} characters without"
        " slashes, as in file names"
    )


def _check_settings(kinds: Sequence[type], metadata: Mapping[str, Any]) -> None:
    settings = frozenset[str]().union(*map(settings_of, kinds))
    for key in metadata:
        if key in settings:
            continue
        others = ", ".join(sorted(settings.difference(_COMMON_SETTINGS)))
        hint = did_you_mean(key, settings) or f"; they have {others}"
        raise ConfigError(f"--metadata {key}: no task of this run has such a setting{hint}")


def _is_lm_evals(name: str) -> bool:
    """Tell whether a name is in the files of lm_eval's own tasks.

    lm_eval itself takes longer to list them.
    """
    if "*" in name or Path(name).is_dir():
        return True
    if Path(name).suffix:
        return False
    folder = Path(internal("lm_eval").__file__).parent / "tasks"
    files = [path for path in folder.rglob("*") if path.suffix in (".yaml", ".py")]
    if any(name in (path.stem, path.parent.name) for path in files):
        return True
    return any(name.encode() in path.read_bytes() for path in files)


def _find_by_name(
    target: str, include_path: Sequence[str], may_import: bool
) -> tuple[dict[str, Any] | FactualityError, Sequence[str]]:
    """Return the config of a task or group, and the members of a tag."""
    manager = suite_tasks(include_path)
    internal("lm_eval.tasks:TaskManager.task_index")
    entry = manager.task_index.get(target)
    if entry is None:
        hint = did_you_mean(target, manager.all_tasks, most=2)
        hint = hint or f"; known: {', '.join(manager.all_tasks)}"
        return ConfigError(f"{target!r} is not a task, group, YAML or data file{hint}"), ()
    if entry.kind is internal("lm_eval.tasks._index:Kind.TAG"):
        return {}, sorted(entry.tags)
    if not entry.yaml_path:
        return dict(entry.cfg or {}), ()
    return _load(Path(entry.yaml_path), may_import), ()


def _members(listed: Sequence[Any], known: Container[str]) -> Iterator[str | dict[str, Any]]:
    """Yield the names in a group, those in groups written out within it, and tasks written out.

    The last are lm_eval's to make.
    """
    for member in listed:
        if not isinstance(member, dict):
            yield str(member)
        elif "group" in member and member["group"] not in known:
            yield from _members(member.get("task") or (), known)
        elif "dataset_path" in member and member["task"] not in known:
            yield {key: value for key, value in member.items() if key != "class"}
        else:
            yield str(member["group"] if "group" in member else member.get("task"))


def _load(path: Path, may_import: bool) -> dict[str, Any] | FactualityError:
    """Return the config in a YAML with all that it includes, or what is wrong with it."""
    if not path.is_file():
        neighbours = [file.name for file in path.parent.glob("*.y*ml")]
        return ConfigError(f"{path}: no such file{did_you_mean(path.name, neighbours)}")
    try:
        return _load_checked(path, may_import)
    except (yaml.YAMLError, RecursionError) as error:
        problem = f"not valid YAML: {' '.join(str(error).split())}"
    except UnicodeDecodeError as error:
        problem = f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"
    except OSError as error:
        problem = f"include: {error.filename} does not exist; give a path relative to this YAML"
    except ConfigError as error:
        return error
    except (ImportError, AttributeError, ValueError) as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001  the Python file that the YAML names may raise anything
        problem = f"a Python file that it names cannot be loaded: {type(error).__name__}: {error}"
    return ConfigError(f"{path}: {problem}")


def _load_checked(path: Path, may_import: bool) -> dict[str, Any]:
    for source, name in _foreign_functions(path):
        if not may_import:
            raise ConfigError(
                f"{source}: !function {name}: Python that is not the suite's, so it was not"
                " imported; if you trust its author, import it with --run-code"
            )
        tell_once(
            logger,
            f"{source}: importing {name}, as its !function says: Python that is not the suite's",
        )
    load_yaml = internal("lm_eval.tasks._yaml_loader:load_yaml")
    config: dict[str, Any] = load_yaml(path, resolve_func=True)
    if num_values(config, MOST_VALUES) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values once its aliases are followed")
    if "corpus" in config or len(_BUILD_SECTIONS.intersection(config)) > 1:
        raise ValueError(
            f"no task: it is a build of factor-gen: lm-factuality gen build {path} --out DIR, then"
            " run the YAML that it writes"
        )
    if "task" not in config and "group" not in config:
        keys = ", ".join(sorted(config)[:8])
        raise ValueError(f"no task: found the keys {keys}; a task's YAML names it under 'task'")
    problem = wrong_name(config.get("task"))
    if problem:
        raise ValueError(problem)
    metadata = config.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ConfigError(
            f"{path}: metadata: found a {type(metadata).__name__}, expected a mapping"
        )
    config["metadata"] = {**metadata, "config_source": str(path)}
    return config


def _foreign_functions(
    path: Path, seen: frozenset[Path] = frozenset()
) -> Iterator[tuple[Path, str]]:
    """Yield the YAML and the name of every ``!function`` that is of others.

    Those of the suite and of installed benchmarks are not. As in lm_eval, a module beside the YAML
    comes before an installed one.

    Raises:
        OSError: A YAML is missing.
        UnicodeDecodeError: It is not UTF-8.
        yaml.YAMLError: It is no YAML.
    """
    path = path.resolve()
    if path in seen:
        return
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    for node in _scalars(root):
        if node.tag != "!function":
            continue
        module = node.value.rpartition(".")[0]
        if not _is_installed(module, path.parent):
            yield path, node.value
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    for key, value in pairs:
        if key.value != "include":
            continue
        for include in _scalars(value):
            yield from _foreign_functions(path.parent / include.value, seen | {path})


def _is_installed(module: str, folder: Path) -> bool:
    if (folder / f"{module.replace('.', '/')}.py").exists():
        return False
    package = module.partition(".")[0]
    points = entry_points(group=ENTRY_POINTS)
    return package in {"lm_factuality", *(point.module.partition(".")[0] for point in points)}


def _scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Yield every scalar below a node once. An alias stands for the node that it names."""
    waiting = [node]
    seen = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, yaml.ScalarNode):
            yield current
        elif isinstance(current, yaml.SequenceNode):
            waiting += current.value
        elif isinstance(current, yaml.MappingNode):
            for pair in current.value:
                waiting += pair
