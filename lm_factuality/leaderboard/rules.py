"""What a leaderboard takes: ``configs/leaderboard/rules/NAME.yaml``, beside the run config
``configs/leaderboard/NAME.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.settings import Strict, Text, read_settings
from lm_factuality.ground.suite import configs_folder, read_config
from lm_factuality.results.read import PLAIN_BACKENDS

Names = Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]


class TaskRules(Strict):
    """What is expected of one task. ``benchmark`` is the kind that its results must be of, None for
    any. ``headline`` is the score that it is ranked by, None if it is not ranked. ``documents`` is
    how many it has, ``digest`` their hash (see ``documents``; None where the rules do not know it),
    ``git_blob`` the file's. ``metadata`` and ``generation_kwargs`` are what the results must say; a
    null stands for nothing said. ``judge_prompts`` are the prompts that a judge is asked with and
    their hashes, none where nobody judges."""

    task: Text
    version: Annotated[str, BeforeValidator(str)]
    git_blob: Text
    benchmark: Text | None = None
    documents: Annotated[int, Field(ge=0)]
    headline: Text | None = None
    digest: Text | None = None
    metadata: Mapping[str, Any] = {}
    generation_kwargs: Mapping[str, Any] | None = None
    repeats: Annotated[int, Field(ge=1)] = 1
    judge_prompts: Mapping[str, Text] = {}


class Rules(Strict):
    """What a leaderboard takes.

    ``max_unscored`` is a share of a task's responses. ``thinking_tokens`` is the most that a model
    may have to think, beside the tokens of an answer, which are those of ``generation_kwargs``.
    ``certificate`` says whether a judge needs one: ``none``, ``any``, or ``published`` (measured on
    FELM as published). ``chat_template`` and ``system_instruction`` say whether a run may have one,
    ``adapters`` whether the model may be a checkpoint with something added to it, ``backends`` by
    which of lm_eval's it may be run (default: those that score a checkpoint as it is).
    ``lm_eval_versions`` are the beginnings of those taken, from ``lm_eval_minimum`` on. In the
    file, ``all_tasks`` holds what the tasks have in common."""

    name: Text
    title: Text
    by_task: Annotated[Mapping[str, TaskRules], Field(alias="tasks", min_length=1)]
    suite_versions: Names
    lm_eval_versions: Names
    max_unscored: Annotated[float, Field(ge=0, le=1)]
    thinking_tokens: Annotated[int, Field(ge=0)] = 32768
    certificate: Literal["none", "any", "published"] = "none"
    chat_template: bool = False
    system_instruction: bool = False
    adapters: bool = False
    backends: Names = tuple(sorted(PLAIN_BACKENDS))
    lm_eval_minimum: Text = "0"

    @model_validator(mode="before")
    @classmethod
    def _merge(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        rest = {key: value for key, value in content.items() if key != "all_tasks"}
        common, tasks = content.get("all_tasks", {}), content.get("tasks")
        if not isinstance(common, dict):
            raise ValueError("needs a mapping under 'all_tasks'")  # noqa: TRY004 (as pydantic wants it)
        if isinstance(tasks, dict):
            rest["tasks"] = {**tasks}
            for name, given in tasks.items():
                if isinstance(given, dict):
                    metadata = {**(common.get("metadata") or {}), **(given.get("metadata") or {})}
                    rest["tasks"][name] = {**common, **given, "metadata": metadata, "task": name}
        return rest

    @model_validator(mode="after")
    def _is_ranked(self) -> Rules:
        if not self.headlines:
            raise ValueError("ranks nothing: no task has a headline")
        return self

    @property
    def tasks(self) -> tuple[TaskRules, ...]:
        return tuple(self.by_task.values())

    @property
    def headlines(self) -> dict[str, str]:
        return {each.task: each.headline for each in self.tasks if each.headline}

    def takes_lm_eval(self, version: str) -> bool:
        return version.startswith(self.lm_eval_versions) and _release(version) >= _release(
            self.lm_eval_minimum
        )


def rules_folder(chosen: Path | None = None) -> Path:
    """``chosen``, or the suite's own folder: never one that only happens to be called so where the
    command is run."""
    return chosen or configs_folder() / "leaderboard" / "rules"


def leaderboard_names(folder: Path | None = None) -> list[str]:
    """The leaderboards that there are rules for, in ``folder`` or in the suite. Raises ConfigError:
    ``folder`` has no rules."""
    found = sorted(path.stem for path in rules_folder(folder).glob("*.yaml"))
    if not found:
        raise ConfigError(
            f"{rules_folder(folder)}: no rules of a leaderboard here; expected NAME.yaml"
        )
    return found


def read_rules(name: str, folder: Path | None = None) -> Rules:
    """The rules of the leaderboard called ``name``, from ``folder`` or the suite. Raises
    ConfigError: there is none in order."""
    known = leaderboard_names(folder)
    if name not in known:
        raise ConfigError(
            f"no leaderboard is called {name!r}{did_you_mean(name, known)}; known:"
            f" {', '.join(known)}"
        )
    path = rules_folder(folder) / f"{name}.yaml"
    content = read_config(path)
    return read_settings(
        Rules, {**content, "name": name} if isinstance(content, dict) else content, str(path)
    )


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"\d{1,9}(?:\.\d{1,9}){0,9}", version)
    return tuple(map(int, found[0].split("."))) if found else ()
