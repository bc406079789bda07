"""The stages of a build by name: how each is opened, and how examples are taken through them.

:mod:`factor_gen.engine` and :mod:`factor_gen.ray_engine` run the stages ``select`` to
``contradiction`` in the processes that they start. Each of these stages works on a shard, a few
hundred consecutive documents, without any knowledge of the other shards.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from factor_gen.records import Example, Refusal
from factor_gen.settings import (
    BuildSettings,
    FilterSettings,
    FluencySettings,
    NliSettings,
    TypesSettings,
)
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.packages import missing_package

if TYPE_CHECKING:
    from judges.budget import SpendingLimit

READ = "read"
STAGES = ("select", "types", "generate", "filter", "contradiction")
CHOOSE = "choose"
ALL_STAGES = (READ, *STAGES, CHOOSE)

# Errors of a build end with this advice.
RESUME_ADVICE = "finished shards are kept: the same command continues with the rest"

ModelSettings = TypeVar("ModelSettings", TypesSettings, NliSettings, FluencySettings)


class Stage(Protocol):
    """A step of a build that takes examples and returns as many, in the same order.

    A stage passes unused examples on unchanged. Its output depends only on its ``fingerprint``,
    the seed and each document, never on the other examples of the shard. A stage may have a method
    ``close``, and one ``share_spending_limit`` if it asks a judge.
    """

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Every setting that can change the output, as a JSON object.

        Models are identified by name and revision, and prompts by their hash.
        """

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Return what the stage makes of each example."""


StageOpener = Callable[[BuildSettings, str], Stage]
"""A function that opens a stage by its name. It must be picklable, to run in other processes."""


class StageError(FactualityError):
    """A stage could not process a shard. The message names the stage, shard and documents."""


class StageGroup(NamedTuple):
    """Consecutive stages that one process takes a shard through."""

    has_model: bool
    """Whether these stages run a model, which uses all cores or the GPU by itself.

    More processes would only load the model again.
    """

    names: Sequence[str]
    """The names of the stages, in order."""


def group_stages(settings: BuildSettings) -> list[StageGroup]:
    """Group consecutive stages by whether they run a model.

    Example:
        With the generator ``rules`` and a filter, the groups are ``select``, ``types`` and
        ``generate`` without a model, and ``filter`` and ``contradiction`` with one.
    """
    stages_with_model = set()
    if settings.generate.generator == "llm":
        stages_with_model.add("generate")
    # The last two stages are in one group, even if only one of them has a model. To hand shards on
    # to a group of its own would take longer than the stage without a model takes.
    if settings.runs_filter_model:
        stages_with_model.update(("filter", "contradiction"))

    # groupby puts consecutive stages with the same key together.
    groups = groupby(STAGES, key=lambda name: name in stages_with_model)
    return [StageGroup(has_model, list(names)) for has_model, names in groups]


@dataclass(eq=False, repr=False)
class StageRunner:
    """Takes the examples of shards through stages, and opens each stage when it is first needed."""

    settings: BuildSettings

    opener: StageOpener
    """The function that opens a stage by its name."""

    _stages: dict[str, Stage] = field(default_factory=dict, init=False)
    """The stages that are open, by name."""

    _spending_limits: "dict[str, SpendingLimit]" = field(default_factory=dict, init=False)
    """The limits on cost of the judges that open stages ask."""

    def open(self, name: str) -> Stage:
        """Return the stage of this name, and open it if it is not open yet."""
        if name not in self._stages:
            stage = self.opener(self.settings, name)
            if hasattr(stage, "share_spending_limit"):
                stage.share_spending_limit(self._spending_limits)
            self._stages[name] = stage
        return self._stages[name]

    def prepare(self, name: str) -> None:
        """Open a stage before its first shard, without returning it.

        Ray would send what an actor returns to another process, which a stage cannot be.
        """
        self.open(name)

    def run(
        self, names: Sequence[str], shard_number: int, examples: Sequence[Example]
    ) -> list[Example]:
        """Take the examples of a shard through some stages, one after the other.

        Args:
            names: The names of the stages, in order.
            shard_number: The number of the shard, for error messages.
            examples: The examples of the shard.

        Raises:
            StageError: A stage raised an error.
        """
        for name in names:
            stage = self.open(name)
            try:
                examples = [
                    _prefix_reasons_with_stage(example, name) for example in stage.run(examples)
                ]
            except Exception as error:
                # Our own errors are full sentences. Others need the name of their class.
                is_expected = isinstance(error, FactualityError)
                message = str(error) if is_expected else f"{type(error).__name__}: {error}"
                shard = describe_shard(shard_number, examples)
                raise StageError(f"stage {name}, {shard}: {message}\n{RESUME_ADVICE}") from error
        return list(examples)

    def close(self) -> None:
        """Close the open stages that have a method ``close``."""
        for stage in self._stages.values():
            # The stages that keep connections or files open have this method.
            if hasattr(stage, "close"):
                stage.close()


def _prefix_reasons_with_stage(example: Example, stage: str) -> Example:
    """Put the name of a stage before the reasons for which it has just rejected candidates.

    Example:
        ``not fluent`` becomes ``filter: not fluent``. ``filter: not fluent`` stays as it is.
    """
    candidates = []
    for candidate in example.candidates:
        reason = candidate.rejected
        # The reasons of earlier stages have a prefix already.
        if reason and Refusal.parse(reason).stage not in STAGES:
            candidate = replace(candidate, rejected=f"{stage}: {reason}")
        candidates.append(candidate)
    return replace(example, candidates=tuple(candidates))


def describe_shard(number: int, examples: Sequence[Example]) -> str:
    """Name a shard and its documents in a message.

    Example:
        ``shard 2 (documents 'd8' to 'd11')``
    """
    return f"shard {number} (documents {examples[0].doc_id!r} to {examples[-1].doc_id!r})"


def open_stage(settings: BuildSettings, name: str) -> Stage:
    """Open the stage with a name, one of `STAGES`. It may load its models only when it is used.

    Raises:
        ConfigError: A package is not installed, or the stage cannot work with its settings.
    """
    try:
        return _import_and_open(settings, name)
    except ModuleNotFoundError as error:
        # The message names the extra of this package that installs the module.
        module = (error.name or "").partition(".")[0]
        extra = "spacy" if module == "spacy" else "generate"
        raise missing_package(module, f"the stage {name}", extra, error) from error


def _import_and_open(settings: BuildSettings, name: str) -> Stage:
    """Import the module of a stage, and open the stage.

    A module at the top of this file would need its libraries even if its stage is not used.

    Raises:
        ModuleNotFoundError: A library of the stage is not installed.
    """
    language = settings.corpus.language
    if name == "select":
        # The stage imports sentencex at the first sentence. If it is missing, that is too late.
        import sentencex  # noqa: F401

        from factor_gen.select import SelectStage

        return SelectStage(settings.select, settings.seed, language)

    if name == "types":
        from factor_gen.types import TypesStage

        return TypesStage(_with_model_path(settings.types, settings.folder), language)

    if name == "generate":
        return _open_generator(settings)

    if name == "filter":
        from factor_gen.filters import FilterStage

        fluency = settings.filter.fluency
        # Without these settings the filter is off.
        if fluency is not None:
            fluency = _with_model_path(fluency, settings.folder)
        return FilterStage(FilterSettings(fluency), language)

    from factor_gen.contradiction.stage import open_contradiction_stage

    check = settings.contradiction_check
    if isinstance(check, NliSettings):
        check = _with_model_path(check, settings.folder)
    return open_contradiction_stage(check, settings)


def _open_generator(settings: BuildSettings) -> Stage:
    """Open the generator that the settings name: ``llm``, which asks a model, or ``rules``."""
    language = settings.corpus.language
    if settings.generate.generator == "llm":
        from factor_gen.generate.llm.generator import LLMGenerator

        # The YAML of the judge and the prompts may be in the folder of the build's YAML.
        return LLMGenerator(
            settings.generate,
            settings.folder,
            language=language,
            row_size=settings.choose.contradictions,
        )

    from factor_gen.generate.rules.generator import RulesGenerator

    return RulesGenerator(
        settings.generate,
        # The rules find words to edit with the tagger of the stage "types".
        _with_model_path(settings.types, settings.folder),
        settings.seed,
        # The file of the corpus's collocations, i.e. words that occur side by side.
        settings.collocations,
        language,
        filtered=settings.runs_filter_model,
    )


def _with_model_path(stage_settings: ModelSettings, folder: Path) -> ModelSettings:
    """Return the settings of a stage with the full path of its model, if that is a local folder.

    Args:
        stage_settings: Settings whose ``model`` is a path, or the name of a model on the Hub.
        folder: The folder of the YAML, from which relative paths start.
    """
    path = folder / Path(stage_settings.model).expanduser()
    return replace(stage_settings, model=str(path)) if path.is_dir() else stage_settings
