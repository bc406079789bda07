"""Finding task YAMLs by path or name, as lm_eval would load them, with errors that say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from lm_factuality.errors import ConfigError, FactualityError
from lm_factuality.suite import tasks_folder


def suite_tasks(include_path: Sequence[str] = ()) -> TaskManager:
    """lm_eval's index of the suite's tasks and of those under ``include_path``, without lm_eval's own."""
    return TaskManager(include_path=[str(tasks_folder()), *include_path], include_defaults=False)


def find_configs(
    target: str, include_path: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any] | FactualityError]]:
    """(name, config or what is wrong with it) of the YAML at ``target``, or of the task or of every task of the group so called.

    Raises:
        ConfigError: nothing is called ``target``.
    """
    if Path(target).suffix in (".yaml", ".yml"):
        yield target, _load(Path(target))
        return
    manager = suite_tasks(include_path)
    if target not in manager.task_index:
        close = difflib.get_close_matches(target, manager.all_tasks, n=2)
        hint = f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(manager.all_tasks)}"
        raise ConfigError(f"{target!r} is no task, group, YAML or data file{hint}")
    entry = manager.task_index[target]
    config = _load(Path(entry.yaml_path)) if entry.yaml_path else dict(entry.cfg or {})
    if isinstance(config, dict) and isinstance(config.get("task"), list):
        for member in config["task"]:
            yield from find_configs(member if isinstance(member, str) else member["task"], include_path)
        return
    yield target, config


def _load(path: Path) -> dict[str, Any] | FactualityError:
    if not path.is_file():
        return ConfigError(f"{path}: no such file")
    try:
        config: dict[str, Any] = load_yaml(path, resolve_func=True)
    except yaml.YAMLError as error:
        return ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}")
    except UnicodeDecodeError as error:
        return ConfigError(f"{path}: byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8")
    except FileNotFoundError as error:
        return ConfigError(f"{path}: include: {error.filename} does not exist; give a path relative to this YAML")
    except (ImportError, AttributeError, ValueError) as error:
        return ConfigError(f"{path}: {error}")
    metadata = config.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        config["metadata"] = {**(metadata or {}), "config_source": str(path)}
    return config
