"""Read the rules of a leaderboard from ``configs/leaderboard/rules/NAME.yaml``.

The checks, the site and the command line call `read_rules`. The configuration with which models
are run for the leaderboard is ``configs/leaderboard/NAME.yaml``.
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

Settings = Mapping[str, Any]
"""The values of settings, by the name of the setting."""


class TaskRules(Strict):
    """What a leaderboard requires of one task."""

    task: Text
    """The name of the task."""

    version: Annotated[str, BeforeValidator(str)]
    """The version of the task, which a YAML file may give as a number."""

    headline: Text | None = None
    """The score that ranks the models, or None if the task ranks none."""

    git_blob: Text
    """The git blob id of the data file."""

    documents: Annotated[int, Field(ge=0)]
    """The number of documents."""

    digest: Text | None = None
    """The hash of the documents (see `lm_factuality.leaderboard.documents`), or None if unknown."""

    metadata: Settings = Field(default_factory=dict)
    """The required metadata of the task. None stands for metadata that must be absent."""

    generation_kwargs: Settings | None = None
    """The required decoding options, or None if the task generates no text."""

    repeats: Annotated[int, Field(ge=1)] = 1
    """The required number of responses to each prompt."""

    judge_prompts: Mapping[str, Text] = Field(default_factory=dict)
    """The hashes of the judge's prompts, by prompt name. Empty for a task without a judge."""


class Rules(Strict):
    """What a leaderboard requires of a submission."""

    name: Text
    """The name of the leaderboard, such as ``factor``."""

    title: Text
    """The heading of the leaderboard on the site."""

    by_task: Annotated[Mapping[str, TaskRules], Field(alias="tasks", min_length=1)]
    """The rules of each task, by the name of the task."""

    suite_versions: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]
    """The allowed versions of lm-factuality."""

    lm_eval_versions: Annotated[
        Text,
        AfterValidator(lambda versions: str(SpecifierSet(versions))),
        Field(description="versions such as '>=0.4.13,<0.5'"),
    ]
    """The allowed versions of lm_eval, such as ``>=0.4.13,<0.5``."""

    max_unscored: Annotated[float, Field(ge=0, le=1)]
    """The share of a task's responses that may be unscored, from 0 to 1."""

    thinking_tokens: Annotated[int, Field(ge=0)] = 32768
    """The most tokens that a model may have to think, in addition to the tokens of its answer."""

    certificate: Literal["none", "any", "published"] = "none"
    """Whether a judge needs a certificate, and one that was measured on published data."""

    chat_template: bool = False
    """Whether a run may have a chat template."""

    @property
    def headlines(self) -> dict[str, str]:
        """Return the score that ranks the models on each task, by the name of the task."""
        return {rules.task: rules.headline for rules in self.by_task.values() if rules.headline}

    def allows_lm_eval(self, version: str) -> bool:
        """Return whether runs of a version of lm_eval are allowed.

        Args:
            version: The version, such as ``0.4.13``. Pre-releases count like releases, and a text
                that is no version is not allowed.
        """
        # Results that somebody edited can state anything as their version.
        try:
            return SpecifierSet(self.lm_eval_versions).contains(version, prereleases=True)
        except InvalidVersion:
            return False


def rules_folder(chosen: Path | None) -> Path:
    """Return the folder with the rules of leaderboards.

    Args:
        chosen: The folder that the user names. Defaults to the suite's folder, never to one of the
            same name where the command is run.
    """
    return chosen or configs_folder() / "leaderboard" / "rules"


def leaderboard_names(folder: Path | None = None) -> list[str]:
    """Return the sorted names of all leaderboards that have rules.

    Args:
        folder: A folder of rules. Defaults to the suite's rules.

    Raises:
        ConfigError: The folder has no rules.
    """
    folder = rules_folder(folder)
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if not names:
        raise ConfigError(f"{folder}: no rules of a leaderboard here; expected NAME.yaml")
    return names


def read_rules(name: str, folder: Path | None = None) -> Rules:
    """Read and validate the rules of a leaderboard.

    Args:
        name: The name of the leaderboard, such as ``factor``.
        folder: A folder of rules. Defaults to the suite's rules.

    Returns:
        The rules, with at least one task that ranks models.

    Raises:
        ConfigError: There is no such leaderboard, or its rules are invalid.
    """
    names = leaderboard_names(folder)
    if name not in names:
        raise ConfigError(
            f"no leaderboard is called {name!r}{did_you_mean(name, names)}; known:"
            f" {', '.join(names)}"
        )
    path = rules_folder(folder) / f"{name}.yaml"
    content = as_mapping(read_config(path))

    # In the file, the name of a task is the key of its rules. `TaskRules` has it as a field.
    tasks = {}
    for task, settings in as_mapping(content.get("tasks")).items():
        tasks[task] = {**as_mapping(settings), "task": task}
    # The name of the leaderboard is the name of the file.
    rules = read_settings(Rules, {**content, "name": name, "tasks": tasks}, str(path))
    if not rules.headlines:
        raise ConfigError(f"{path}: ranks nothing: no task has a headline; give one task a score")
    return rules
