"""What a leaderboard takes: ``configs/leaderboard/rules/NAME.yaml``, beside the run config ``configs/leaderboard/NAME.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lm_factuality.errors import ConfigError, did_you_mean
from lm_factuality.suite import find_config, read_config

_FOLDER = Path("configs/leaderboard/rules")
_CERTIFICATES = ("none", "any", "published")


@dataclass(frozen=True)
class TaskRules:
    """What is expected of one task.

    ``documents`` is how many it has, ``digest`` their hash (see ``documents``; nothing where the rules do not know it),
    ``git_blob`` the file's. ``metadata`` and ``generation_kwargs`` are what the results must say; a null stands for nothing said.
    """

    task: str
    version: str
    git_blob: str
    documents: int
    digest: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    generation_kwargs: Mapping[str, Any] | None = None
    repeats: int = 1


@dataclass(frozen=True)
class Rules:
    """What a leaderboard takes.

    ``headlines`` maps each task to the metric that it is ranked by. ``max_unscored`` is a share of a task's responses.
    ``certificate`` says whether a judge needs one: ``none``, ``any``, or ``published`` (measured on FELM as published).
    ``chat_template`` and ``system_instruction`` say whether a run may have one. ``lm_eval_versions`` are the beginnings of those
    taken.
    """

    name: str
    title: str
    headlines: Mapping[str, str]
    tasks: tuple[TaskRules, ...]
    suite_versions: tuple[str, ...]
    lm_eval_versions: tuple[str, ...]
    max_unscored: float
    certificate: str = "none"
    chat_template: bool = False
    system_instruction: bool = False

    def task(self, name: str) -> TaskRules | None:
        """The rules of a task, if the leaderboard has it."""
        return next((each for each in self.tasks if each.task == name), None)


def leaderboard_names() -> list[str]:
    """The leaderboards that there are rules for."""
    return sorted(path.stem for path in find_config(_FOLDER).glob("*.yaml"))


def read_rules(name: str) -> Rules:
    """The rules of the leaderboard called ``name``.

    Raises:
        ConfigError: there is none, or its file is not in order.
    """
    known = leaderboard_names()
    if name not in known:
        raise ConfigError(f"no leaderboard is called {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
    path = _FOLDER / f"{name}.yaml"
    content = read_config(path)
    try:
        return _rules(name, content)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: not the rules of a leaderboard: {error!r}") from error


def _rules(name: str, content: Mapping[str, Any]) -> Rules:
    shared = content.get("all_tasks", {})
    tasks = []
    for task, given in content["tasks"].items():
        merged = {**shared, **given, "metadata": {**shared.get("metadata", {}), **given.get("metadata", {})}}
        headline = merged.pop("headline", None)
        tasks.append((TaskRules(task=task, **{**merged, "version": str(merged["version"])}), headline))
    rest = {key: value for key, value in content.items() if key not in ("tasks", "all_tasks")}
    for each in fields(Rules):
        if each.name in rest and str(each.type).startswith("tuple"):
            rest[each.name] = tuple(rest[each.name])
    found = Rules(
        name=name, tasks=tuple(task for task, _ in tasks),
        headlines={task.task: headline for task, headline in tasks if headline}, **rest,
    )  # fmt: skip
    if found.certificate not in _CERTIFICATES:
        raise ValueError(f"certificate is {found.certificate!r}, expected {', '.join(_CERTIFICATES)}")
    if not found.headlines:
        raise ValueError("no task has a headline")
    return found
