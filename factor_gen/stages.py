"""The stages of a build by name: how each is opened, and how examples are taken through them.

:mod:`factor_gen.engine` and :mod:`factor_gen.ray_engine` run the stages ``select`` to ``filter``
in the processes that they start. Each of these stages works on a shard, a few hundred consecutive
documents, without knowing the others.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from factor_gen.records import Example
from factor_gen.settings import BuildSettings, FilterSettings
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.packages import missing

_LOG = logging.getLogger(__name__)

READ = "read"
STAGES = ("select", "types", "generate", "filter")
CHOOSE = "choose"
ALL_STAGES = (READ, *STAGES, CHOOSE)

_EXTRAS = {"spacy": "spacy"}
"""What to install for a module, if it is not the extra ``generate``."""
KEPT = "finished shards are kept: the same command continues with the rest"


class Stage(Protocol):
    """Examples in, the same number of examples out, in order.

    ``Example.unused`` marks the examples that are done with. What comes out depends on
    ``fingerprint``, the seed and each document alone, never on the other examples of the shard. A
    stage may have a method ``close``.
    """

    @property
    def name(self) -> str: ...

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
            StageFailed: A stage raised an error, or did not return every example.
        """
        for name in names:
            stage = self.open(name)
            examples = _run_stage(stage, shard_number, examples)
        return list(examples)

    def close(self) -> None:
        """Close the stages that have something to close."""
        for stage in self._stages.values():
            if hasattr(stage, "close"):
                stage.close()
        self._stages.clear()


def _run_stage(stage: Stage, shard_number: int, examples: Sequence[Example]) -> list[Example]:
    place = f"stage {stage.name}, {describe_shard(shard_number, examples)}"
    try:
        results = stage.run(examples)
    except FactualityError as error:
        raise StageFailed(f"{place}: {error}\n{KEPT}") from error
    except Exception as error:
        _LOG.exception("%s", place)
        raise StageFailed(
            f"{place}: {type(error).__name__}: {error}\n{KEPT}; if it fails again, report it"
        ) from error
    if [example.doc_id for example in results] != [example.doc_id for example in examples]:
        raise StageFailed(
            f"{place}: the stage did not return its {len(examples)} examples in order"
        )
    return results


def describe_shard(number: int, examples: Sequence[Example]) -> str:
    """Name a shard for a message, such as ``shard 2 (documents 'd8' to 'd11')``."""
    return f"shard {number} (documents {examples[0].doc_id!r} to {examples[-1].doc_id!r})"


def group_stages(settings: BuildSettings) -> list[tuple[bool, list[str]]]:
    """Group the stages that one process can go through without giving the shard away.

    Returns:
        Pairs of whether the group has a model, and the names of its stages. A stage with a model
        is a group of its own.
    """
    groups: list[tuple[bool, list[str]]] = []
    for name in STAGES:
        has_model = _has_model(settings, name)
        if groups and not has_model and not groups[-1][0]:
            groups[-1][1].append(name)
        else:
            groups.append((has_model, [name]))
    return groups


def _has_model(settings: BuildSettings, name: str) -> bool:
    """Whether a stage keeps a model busy with whole shards by itself.

    More processes would only load the model again.
    """
    if name == "generate":
        return settings.generate.generator == "llm"
    return name == "filter" and settings.filter.is_on


def open_stage(settings: BuildSettings, name: str) -> Stage:
    """Open the stage ``name``.

    Raises:
        ConfigError: A package is not installed, or the stage refuses its settings.
    """
    try:
        return _OPENERS[name](settings)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(module, "generate")
        raise missing(module, f"the stage {name}", extra, error) from error


# The libraries of a stage are imported only where it is opened, because those of the others may
# not be installed.


def _open_select(settings: BuildSettings) -> Stage:
    # select imports it with the first sentence only, which is late to learn that it is missing
    import sentencex  # noqa: F401

    from factor_gen.select import Select

    return Select(settings.select, settings.seed, settings.corpus.language)


def _open_types(settings: BuildSettings) -> Stage:
    from factor_gen.types import Types

    return Types(_located(settings, settings.types), settings.corpus.language)


def _open_generate(settings: BuildSettings) -> Stage:
    language = settings.corpus.language
    if settings.generate.generator == "llm":
        from factor_gen.generate.llm.generator import LLMGenerator

        return LLMGenerator(settings.generate, settings.folder, language=language)
    from factor_gen.generate.rules.generator import RulesGenerator

    return RulesGenerator(
        settings.generate,
        _located(settings, settings.types),
        settings.seed,
        settings.contexts,
        language,
        filtered=settings.filter.is_on,
    )


def _open_filter(settings: BuildSettings) -> Stage:
    from factor_gen.filters import Filters

    nli = _located(settings, settings.filter.nli)
    fluency = _located(settings, settings.filter.fluency)
    return Filters(FilterSettings(nli, fluency))


_OPENERS: Mapping[str, Callable[[BuildSettings], Stage]] = {
    "select": _open_select,
    "types": _open_types,
    "generate": _open_generate,
    "filter": _open_filter,
}


def _located(settings: BuildSettings, section: Any) -> Any:
    """Return a section whose model, if it is a folder beside the YAML, is a path from here."""
    if section is None:
        return None
    path = settings.folder / Path(section.model).expanduser()
    return replace(section, model=str(path)) if path.is_dir() else section
