"""Finding task YAMLs by path or name, as lm_eval would load them, with errors that say what to
do."""

import logging
import os
from collections.abc import Container, Iterator, Sequence
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

_LONGEST_NAME = 150  # characters, beside which the name of a file has a date
ENTRY_POINTS = "lm_factuality.benchmarks"  # by which packages of others bring benchmarks
logger = logging.getLogger(__name__)

Found = Iterator[tuple[str, dict[str, Any] | FactualityError]]


def suite_tasks(include_path: Sequence[str] = ()) -> TaskManager:
    """lm_eval's index of the suite's tasks and of those under ``include_path``, without lm_eval's
    own. Raises ConfigError: a YAML there has a name that is no text, which lm_eval cannot sort."""
    try:
        return TaskManager(include_path=with_suite(include_path), include_defaults=False)
    except TypeError as error:
        folders = ", ".join(include_path)
        raise ConfigError(
            f"{folders}: lm_eval cannot index the YAMLs here: {error}; is every task's name a text?"
        ) from error


def with_suite(include_path: Sequence[str] = ()) -> list[str]:
    """``include_path`` after the suite's folder, unless lm_eval has that by our entry point: it
    warns of tasks seen twice."""
    suite = tasks_folder().resolve()
    others = [path for path in include_path if Path(path).resolve() != suite]
    found = TaskManager(include_defaults=False).all_tasks
    is_known = any(path.stem in found for path in suite.rglob("*.yaml"))
    return others if is_known else [str(suite), *others]


def find_configs(
    target: str,
    include_path: Sequence[str] = (),
    may_import: bool = False,
    within: tuple[str, ...] = (),
) -> Found:
    """(name, config or what is wrong with it) of every task that ``target`` stands for: a YAML, a
    task, a group or a tag. With ``may_import`` the Python that a YAML of others names is imported,
    which is said before; without it, it is refused. ``within`` names the groups and tags that led
    here, so that one which holds itself is an error and not a circle."""
    if target in within:
        yield (
            target,
            ConfigError(f"{target!r} holds itself, by way of {' > '.join((*within, target))}"),
        )
        return
    within = (*within, target)
    config: dict[str, Any] | FactualityError
    members: Sequence[str | dict[str, Any]] = ()
    if Path(target).suffix.lower() in (".yaml", ".yml"):
        config = _load(Path(target), may_import)
        include_path = [str(Path(os.path.realpath(target)).parent), *include_path]
    else:
        manager = suite_tasks(include_path)
        internal("lm_eval.tasks:TaskManager.task_index")
        entry = manager.task_index.get(target)
        if entry is None:
            hint = (
                did_you_mean(target, manager.all_tasks, most=2)
                or f"; known: {', '.join(manager.all_tasks)}"
            )
            config = ConfigError(f"{target!r} is not a task, group, YAML or data file{hint}")
        elif entry.kind is internal("lm_eval.tasks._index:Kind.TAG"):
            config, members = {}, sorted(entry.tags)
        else:
            config = (
                _load(Path(entry.yaml_path), may_import)
                if entry.yaml_path
                else dict(entry.cfg or {})
            )
    if isinstance(config, dict) and isinstance(config.get("task"), list):  # a group
        members = [*_members(config["task"], suite_tasks(include_path).task_index)]
    for member in members:
        if isinstance(member, str):
            yield from find_configs(member, include_path, may_import, within)
        else:
            yield str(member["task"]), member
    if not members:
        yield target, config


def _members(listed: Sequence[Any], known: Container[str]) -> Iterator[str | dict[str, Any]]:
    """The names in a group and in groups written out within it, and the tasks written out, which
    are lm_eval's to make."""
    for each in listed:
        if not isinstance(each, dict):
            yield str(each)
        elif "group" in each and each["group"] not in known:
            yield from _members(each.get("task") or (), known)
        elif "dataset_path" in each and each["task"] not in known:
            yield {key: value for key, value in each.items() if key != "class"}
        else:
            yield str(each["group"] if "group" in each else each.get("task"))


def _load(path: Path, may_import: bool) -> dict[str, Any] | FactualityError:
    if not path.is_file():
        return ConfigError(f"{path}: no such file")
    load_yaml = internal("lm_eval.tasks._yaml_loader:load_yaml")
    try:
        for source, name in foreign_functions(path):
            if not may_import:
                return ConfigError(
                    f"{source}: !function {name}: Python that is not the suite's, so it was not"
                    " imported; if you trust its author, import it with --run-code"
                )
            tell_once(
                logger,
                f"{source}: importing {name}, as its !function says: Python that is not the"
                " suite's",
            )
        config: dict[str, Any] = load_yaml(path, resolve_func=True)
        if num_values(config, MOST_VALUES) > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES:,} values once its aliases are followed")
    except (yaml.YAMLError, RecursionError) as error:
        return ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}")
    except UnicodeDecodeError as error:
        return ConfigError(
            f"{path}: byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"
        )
    except OSError as error:
        return ConfigError(
            f"{path}: include: {error.filename} does not exist; give a path relative to this YAML"
        )
    except (ImportError, AttributeError, ValueError) as error:
        return ConfigError(f"{path}: {error}")
    except Exception as error:  # noqa: BLE001  the Python file that the YAML names may raise anything
        return ConfigError(
            f"{path}: a Python file that it names cannot be loaded: {type(error).__name__}: {error}"
        )
    if problem := wrong_name(config.get("task")):
        return ConfigError(f"{path}: {problem}")
    metadata = config.get("metadata") or {}
    if not isinstance(metadata, dict):
        return ConfigError(
            f"{path}: metadata: found a {type(metadata).__name__}, expected a mapping"
        )
    config["metadata"] = {**metadata, "config_source": str(path)}
    return config


def wrong_name(task: Any) -> str:
    """What is wrong with the name of a task: lm_eval names the file of samples by it, and goes on
    without them if it cannot."""
    if not isinstance(task, str) or (len(task) <= _LONGEST_NAME and not set(task) & set("/\\\0")):
        return ""
    return (
        f"task: found {task[:80]!r}, expected a name of at most {_LONGEST_NAME} characters without"
        " slashes, as in file names"
    )


def foreign_functions(
    path: Path, seen: frozenset[Path] = frozenset()
) -> Iterator[tuple[Path, str]]:
    """(YAML, name) of every ``!function`` in a YAML and in what it includes that is not of the
    suite, nor of an installed benchmark (modules beside it come first, as in lm_eval). Raises
    OSError, UnicodeDecodeError, yaml.YAMLError: unreadable."""
    path = path.resolve()
    if path in seen:
        return
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    for node in _scalars(root):
        if node.tag == "!function" and not _is_installed(
            node.value.rpartition(".")[0], path.parent
        ):
            yield path, node.value
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    for include in (
        each for key, value in pairs if key.value == "include" for each in _scalars(value)
    ):
        yield from foreign_functions(path.parent / include.value, seen | {path})


def _is_installed(module: str, folder: Path) -> bool:
    if (folder / f"{module.replace('.', '/')}.py").exists():
        return False
    package = module.partition(".")[0]
    if package == "lm_factuality":
        return True
    return any(
        point.module.partition(".")[0] == package for point in entry_points(group=ENTRY_POINTS)
    )


def _scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Every scalar below a node, each once; an alias stands for the node it names."""
    waiting, seen = [node], set()
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, yaml.ScalarNode):
            yield found
        elif isinstance(found, yaml.SequenceNode):
            waiting += found.value
        elif isinstance(found, yaml.MappingNode):
            waiting += [each for pair in found.value for each in pair]
