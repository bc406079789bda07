"""What a leaderboard takes: ``configs/leaderboard/rules/NAME.yaml``.

The config of its runs is ``configs/leaderboard/NAME.yaml``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion
from pydantic import AfterValidator, BeforeValidator, Field

from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.settings import Strict, Text, read_settings
from lm_factuality.ground.suite import configs_folder, read_config

Names = Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]
Settings = Mapping[str, Any]


class TaskRules(Strict):
    """What a leaderboard expects of one task."""

    task: Text
    version: Annotated[str, BeforeValidator(str)]
    headline: Text | None = None
    """The score that it is ranked by, or None if it is not ranked."""

    git_blob: Text
    """The blob id of its data file."""

    documents: Annotated[int, Field(ge=0)]
    """How many documents it has."""

    digest: Text | None = None
    """The hash of its documents (see `lm_factuality.leaderboard.documents`), if it is known."""

    metadata: Settings = Field(default_factory=dict)
    """What the results must say. A null stands for nothing said."""

    generation_kwargs: Settings | None = None
    repeats: Annotated[int, Field(ge=1)] = 1
    judge_prompts: Mapping[str, Text] = Field(default_factory=dict)
    """The hashes of the prompts that a judge is asked with; empty where nobody judges."""


class Rules(Strict):
    """What a leaderboard takes."""

    name: Text
    title: Text
    by_task: Annotated[Mapping[str, TaskRules], Field(alias="tasks", min_length=1)]
    suite_versions: Names
    lm_eval_versions: Annotated[
        Text,
        AfterValidator(lambda versions: str(SpecifierSet(versions))),
        Field(description="versions such as '>=0.4.13,<0.5'"),
    ]
    """The versions of lm_eval that are taken, such as ``>=0.4.13,<0.5``."""

    max_unscored: Annotated[float, Field(ge=0, le=1)]
    """The share of a task's responses that may be unscored."""

    thinking_tokens: Annotated[int, Field(ge=0)] = 32768
    """The most tokens that a model may have to think, beside those of an answer."""

    certificate: Literal["none", "any", "published"] = "none"
    """Whether a judge needs a certificate, and one that was measured on published data."""

    chat_template: bool = False
    """Whether a run may have a chat template."""

    @property
    def headlines(self) -> dict[str, str]:
        """The scores that are ranked, by task."""
        return {rules.task: rules.headline for rules in self.by_task.values() if rules.headline}

    def takes_lm_eval(self, version: str) -> bool:
        """Whether runs of this version of lm_eval are taken."""
        try:
            return SpecifierSet(self.lm_eval_versions).contains(version, prereleases=True)
        except InvalidVersion:
            return False


def rules_folder(chosen: Path | None = None) -> Path:
    """The chosen folder, or the suite's own.

    A folder that only happens to be called so where the command is run is never taken.
    """
    return chosen or configs_folder() / "leaderboard" / "rules"


def leaderboard_names(folder: Path | None = None) -> list[str]:
    """The leaderboards that there are rules for, in a folder or in the suite.

    Raises:
        ConfigError: The folder has no rules.
    """
    names = sorted(path.stem for path in rules_folder(folder).glob("*.yaml"))
    if not names:
        raise ConfigError(
            f"{rules_folder(folder)}: no rules of a leaderboard here; expected NAME.yaml"
        )
    return names


def read_rules(name: str, folder: Path | None = None) -> Rules:
    """Read the rules of a leaderboard from a folder or from the suite.

    Raises:
        ConfigError: There is no such leaderboard, or its rules are not in order.
    """
    names = leaderboard_names(folder)
    if name not in names:
        raise ConfigError(
            f"no leaderboard is called {name!r}{did_you_mean(name, names)}; known:"
            f" {', '.join(names)}"
        )
    path = rules_folder(folder) / f"{name}.yaml"
    content = as_mapping(read_config(path))
    tasks = as_mapping(content.get("tasks"))
    named = {task: {**as_mapping(settings), "task": task} for task, settings in tasks.items()}
    rules = read_settings(Rules, {**content, "name": name, "tasks": named}, str(path))
    if not rules.headlines:
        raise ConfigError(f"{path}: ranks nothing: no task has a headline")
    return rules
