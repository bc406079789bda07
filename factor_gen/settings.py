"""The settings of a build.

:mod:`factor_gen.config` reads them from a YAML file. Defaults are the paper's but for those that
``configs/corpora/_my_corpus.yaml`` marks with * or +.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from factor_gen.language import ENGLISH, RULES
from factor_gen.recipe import DocumentText, Where
from factor_gen.records import ERROR_TYPES, ErrorType
from lm_factuality.ground.settings import FORBID, Integer, Number, Text, Truth

OFF = "none"
"""In place of a filter in the YAML."""
_NEEDS_JUDGE = (
    "the generator llm asks a model: name its judge, generate: {generator: llm, judge:"
    " openai-server} or the path of a judge's YAML"
)
_NAME = (
    "letters, digits, _ and - alone, for it becomes the name of an lm_eval task: name: my_factor"
)
_CORPUS = "files, corpus: my_texts/*.txt, or a dataset, corpus: {dataset: NAME}"
_FILTER = "none, or a mapping with nli and fluency; leave the line out for the defaults"
Count = Annotated[Integer, Field(ge=1)]
Natural = Annotated[Integer, Field(ge=0)]
Probability = Annotated[Number, Field(ge=0, le=1)]
_in_order = AfterValidator(lambda types: tuple(sorted({*types}, key=ERROR_TYPES.index)))
ErrorTypes = Annotated[tuple[ErrorType, ...], Field(min_length=1), _in_order]


def _read_filter(value: Any) -> Any:
    if value is None:
        raise ValueError("expected none, or a mapping; leave the line out for the defaults")
    return None if value == OFF else value


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Whose texts these are, and which of them are read."""

    config: Text | None = None
    """Of a dataset of the Hub."""
    split: Text = "train"
    """Of a dataset; ``validation+test`` is both."""
    revision: Text | None = None
    documents: Count | None = None
    """How many documents are read at most."""
    license: Text = "unknown"
    source: Text | None = None
    """Whom to thank, for the dataset card."""


@dataclass(frozen=True)
class CorpusSettings(SourceSettings):
    """Where documents come from: files, or a dataset of the Hub."""

    path: Text | None = None
    """Files; it may hold ``*``."""
    dataset: Text | None = None
    text: DocumentText = "text"
    """The column or key of the text, or a template over several."""
    where: Where = field(default_factory=dict)
    """Conditions on rows. Rows that fail one are left out, and counted."""
    id: Text | None = None
    """The column or key that names a row. None: ``id``, or the number of the row."""
    unwrap: Truth = True
    """Whether lines of paragraphs that were broken at a width are joined; the paper's: false."""
    language: Annotated[
        Text, Field(pattern=r"\A[a-z]{2,3}\z", description="an ISO 639-1 code: language: de")
    ] = ENGLISH

    @model_validator(mode="after")
    def _check_place(self) -> CorpusSettings:
        if (self.path is None) == (self.dataset is None):
            places = "both path and dataset" if self.path else "neither path nor dataset"
            raise ValueError(f"has {places}; expected one of them")
        return self


@dataclass(frozen=True)
class SelectSettings:
    """Section 3.2.1: one sentence a document, of ten words or more, no headline."""

    min_words: Count = 10
    max_words: Count = 200
    """What is longer is a list; the paper has no limit."""
    position: Literal["random", "first", "last"] = "random"
    """Which of the sentences that will do is tried first."""
    draws: Count = 40
    """Sentences that are tried until one gives a row of two types; the paper's: 1."""
    once: Truth = True
    """Whether a sentence of several documents is used in the first alone; the paper's: false."""


@dataclass(frozen=True)
class TypesSettings:
    """Appendix A.1: which error types a sentence has something to edit for."""

    types: ErrorTypes = ERROR_TYPES
    tagger: Literal["pattern", "spacy"] = "pattern"
    model: Text = "en_core_web_sm"
    """Of spaCy: a package, or a folder."""


@dataclass(frozen=True)
class GenerateSettings:
    """Section 3.2.2: ``llm`` asks a judge's model, ``rules`` needs none."""

    generator: Literal["llm", "rules"] = "llm"
    judge: Text | None = None
    """For llm: a judge's YAML, or the name of one."""
    per_type: Count = 4
    """Contradictions that one prompt asks for, or that rules make of a type at most."""
    context: Natural = 100
    """Words before the completion that the model sees; link sees none."""
    prompts: Text | None = None
    """A folder with own templates, or a YAML file with prompts in the form of the paper's."""


@dataclass(frozen=True)
class NliSettings:
    """Section 3.2.3 and appendix A.2."""

    model: Text = "microsoft/deberta-large-mnli"
    revision: Text | None = None
    threshold: Probability = 0.6
    coreference: Probability = 0.3
    """The threshold of coreference errors."""
    context: Natural = 100
    """Words of near context before premise and hypothesis."""
    batch_size: Count = 32


@dataclass(frozen=True)
class FluencySettings:
    """Section 3.2.3: the mean log-likelihood of a contradiction beside the original's."""

    model: Text = "gpt2"
    revision: Text | None = None
    margin: Annotated[Number, Field(ge=0)] = 0.2
    """How far below the original's it may be, in nats per token."""
    best: Count | None = None
    """How many of each type, the likeliest, are kept; None, as in the paper: all."""
    context: Natural = 0
    """Words of the text before that the model reads; the paper's: 0."""
    batch_size: Count = 32


@dataclass(frozen=True)
class FilterSettings:
    """The filters; either may be off, ``none`` in the YAML."""

    nli: Annotated[NliSettings | None, BeforeValidator(_read_filter)] = NliSettings()
    fluency: Annotated[FluencySettings | None, BeforeValidator(_read_filter)] = FluencySettings()

    @property
    def is_on(self) -> bool:
        """Whether either filter is on."""
        return self != FilterSettings(None, None)


@dataclass(frozen=True)
class ChooseSettings:
    """Section 3.2.4."""

    contradictions: Count = 3
    pick: Literal["balanced", "random"] = "balanced"
    """How to take from those of a type.

    ``balanced``: so that what can be seen of the rows together tells true from false as little as
    possible.
    """
    min_types: Annotated[Integer, Field(ge=1, le=len(ERROR_TYPES))] = 1
    """Rows of fewer types are left out."""
    hide_centre: Truth = False
    """Whether the true completion may be the most central choice no oftener than any other."""
    most_doubtful: Annotated[Integer, Field(ge=0, le=2)] = 2
    """How doubtful contradictions may be; see :class:`factor_gen.records.Candidate`."""


_both_off = BeforeValidator(lambda value: FilterSettings(None, None) if value == OFF else value)


@dataclass(frozen=True, kw_only=True)
class WorkSettings:
    """How the work is shared out, and what a build knows of it. It changes no benchmark."""

    shard: Count = 256
    """Documents of a shard."""
    engine: Literal["local", "ray"] = "local"
    workers: Count | None = None
    """Processes, or Ray's actors of a group of stages; None: as many as there are cores."""
    yaml: Path | None = field(default=None, compare=False)
    """The file that was read, which the build does not write over."""
    contexts: Path | None = field(default=None, compare=False)
    """Of the corpus, set by the build: see ``rules/contexts.py``."""


@dataclass(frozen=True)
class BuildSettings(WorkSettings):
    """A build: what, from what, how."""

    __pydantic_config__ = FORBID
    name: Annotated[Text, Field(pattern=r"\A[A-Za-z0-9_-]+\z", description=_NAME)]
    folder: Path
    """Where the YAML lies; relative paths start from it."""
    corpus: Annotated[CorpusSettings, Field(description=_CORPUS)]
    select: SelectSettings = SelectSettings()
    types: TypesSettings = TypesSettings()
    generate: GenerateSettings = GenerateSettings()
    filter: Annotated[FilterSettings, _both_off, Field(description=_FILTER)] = FilterSettings()
    choose: ChooseSettings = ChooseSettings()
    seed: Natural = 0

    @model_validator(mode="after")
    def _check_parts_together(self) -> BuildSettings:
        language = self.corpus.language
        if self.choose.min_types > self.choose.contradictions:
            raise ValueError(
                f"choose.min_types is {self.choose.min_types}; expected at most"
                f" choose.contradictions, which is {self.choose.contradictions}"
            )
        if self.generate.generator == "llm" and self.generate.judge is None:
            raise ValueError(
                f"generate.judge is missing; {_NEEDS_JUDGE}; without a model, generate: rules"
            )
        if self.generate.generator == "rules" and language not in RULES:
            raise ValueError(
                f"there are rules for {', '.join(RULES)} and not for {language!r}; {_NEEDS_JUDGE}"
            )
        for settings in (self.filter.nli, self.filter.fluency):
            if settings and settings.model == type(settings).model and language != ENGLISH:
                raise ValueError(
                    f"filter: {settings.model} reads English, not {language!r}; name a model of"
                    " many languages, or none"
                )
        return self
