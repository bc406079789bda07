"""The stages of a build by name: how each is opened, and how examples are taken through them.

:mod:`factor_gen.engine` and :mod:`factor_gen.ray_engine` run the stages ``select`` to ``filter``
in the processes that they start. Each of these stages works on a shard, a few hundred consecutive
documents, without knowing the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from factor_gen.records import Example
from factor_gen.settings import BuildSettings, FilterSettings
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.packages import missing

READ = "read"
STAGES = ("select", "types", "generate", "filter")
CHOOSE = "choose"
ALL_STAGES = (READ, *STAGES, CHOOSE)

KEPT = "finished shards are kept: the same command continues with the rest"


class Stage(Protocol):
    """Examples in, the same number of examples out, in order.

    ``Example.unused`` marks the examples that are done with. What comes out depends on
    ``fingerprint``, the seed and each document alone, never on the other examples of the shard. A
    stage may have a method ``close``.
    """

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Every setting that can change the output, as JSON has it.

        Models are identified by name and revision, prompts by hash.
        """

    def run(self, examples: Sequence[Example]) -> list[Example]: ...


Opener = Callable[[BuildSettings, str], Stage]
"""Opens a stage by its name, in whichever process it is to run: a function that can be pickled."""


class StageFailed(FactualityError):
    """A stage could not make a shard. The text names the stage, the shard and its documents."""


class StageGroup(NamedTuple):
    """Stages that one process can go through without giving the shard away."""

    has_model: bool
    """Whether these stages keep a model busy with whole shards by themselves.

    More processes would only load the model again.
    """
    names: Sequence[str]


def group_stages(settings: BuildSettings) -> list[StageGroup]:
    """Group the stages of a build, in order."""
    with_model = {
        "generate": settings.generate.generator == "llm",
        "filter": settings.filter.is_on,
    }
    groups = groupby(STAGES, key=lambda name: with_model.get(name, False))
    return [StageGroup(has_model, list(names)) for has_model, names in groups]


class StageRunner:
    """Takes examples through stages, which are opened when they are first needed."""

    def __init__(self, settings: BuildSettings, opener: Opener) -> None:
        self._settings = settings
        self._opener = opener
        self._stages: dict[str, Stage] = {}

    def open(self, name: str) -> Stage:
        """Return the stage ``name``, opening it the first time."""
        if name not in self._stages:
            self._stages[name] = self._opener(self._settings, name)
        return self._stages[name]

    def run(
        self, names: Sequence[str], shard_number: int, examples: Sequence[Example]
    ) -> list[Example]:
        """Take the examples of a shard through the stages ``names``, in order.

        Raises:
            StageFailed: A stage raised an error.
        """
        for name in names:
            stage = self.open(name)
            try:
                examples = stage.run(examples)
            except Exception as error:
                is_expected = isinstance(error, FactualityError)
                kind = "" if is_expected else f"{type(error).__name__}: "
                place = describe_shard(shard_number, examples)
                raise StageFailed(f"stage {name}, {place}: {kind}{error}\n{KEPT}") from error
        return list(examples)

    def close(self) -> None:
        """Close the stages that have something to close."""
        for stage in self._stages.values():
            if hasattr(stage, "close"):
                stage.close()


def describe_shard(number: int, examples: Sequence[Example]) -> str:
    """Name a shard for a message, such as ``shard 2 (documents 'd8' to 'd11')``."""
    return f"shard {number} (documents {examples[0].doc_id!r} to {examples[-1].doc_id!r})"


def open_stage(settings: BuildSettings, name: str) -> Stage:
    """Open the stage ``name``.

    Raises:
        ConfigError: A package is not installed, or the stage refuses its settings.
    """
    try:
        return _open(settings, name)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = "spacy" if module == "spacy" else "generate"
        raise missing(module, f"the stage {name}", extra, error) from error


def _open(settings: BuildSettings, name: str) -> Stage:
    # The libraries of a stage are imported only where it is opened, because those of the others
    # may not be installed.
    language = settings.corpus.language
    generate = settings.generate
    types = _located(settings, settings.types)
    if name == "select":
        # select imports it with the first sentence only, which is late to learn that it is missing
        import sentencex  # noqa: F401

        from factor_gen.select import Select

        return Select(settings.select, settings.seed, language)
    if name == "types":
        from factor_gen.types import Types

        return Types(types, language)
    if name == "filter":
        from factor_gen.filters import Filters

        nli = _located(settings, settings.filter.nli)
        fluency = _located(settings, settings.filter.fluency)
        return Filters(FilterSettings(nli, fluency))
    if generate.generator == "llm":
        from factor_gen.generate.llm.generator import LLMGenerator

        return LLMGenerator(generate, settings.folder, language=language)
    from factor_gen.generate.rules.generator import RulesGenerator

    is_filtered = settings.filter.is_on
    return RulesGenerator(
        generate, types, settings.seed, settings.contexts, language, filtered=is_filtered
    )


def _located(settings: BuildSettings, section: Any) -> Any:
    """Return a section whose model, if it is a folder beside the YAML, is a path from here."""
    if section is None:
        return None
    path = settings.folder / Path(section.model).expanduser()
    return replace(section, model=str(path)) if path.is_dir() else section
