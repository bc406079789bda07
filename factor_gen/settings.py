"""The settings of a build; defaults are the paper's but for those that
``configs/corpora/_my_corpus.yaml`` marks with * or +."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from factor_gen.language import ENGLISH, RULES
from factor_gen.recipe import DocumentText, Where
from factor_gen.records import ERROR_TYPES, ErrorType
from lm_factuality.ground.settings import FORBID, Integer, Number, Text, Truth

OFF = "none"  # of a filter, in the YAML
_TWO_WAYS = (
    "the generator llm asks a model: name its judge, generate: {generator: llm, judge:"
    " openai-server} or the path of a judge's YAML; without a model, generate: rules"
)

_CODE = "an ISO 639-1 code: language: de"
Count = Annotated[Integer, Field(ge=1)]
Natural = Annotated[Integer, Field(ge=0)]
Probability = Annotated[Number, Field(ge=0, le=1)]
_in_order = AfterValidator(lambda types: tuple(sorted({*types}, key=ERROR_TYPES.index)))
ErrorTypes = Annotated[tuple[ErrorType, ...], Field(min_length=1), _in_order]


def _not_below(value: int, info: ValidationInfo) -> int:
    least = info.data.get("min_words", 0)
    if value < least:
        raise ValueError(f"expected at least min_words, which is {least}")
    return value


def _not_above(value: int, info: ValidationInfo) -> int:
    most = info.data.get("contradictions", value)
    if value > most:
        raise ValueError(f"expected at most choose.contradictions, which is {most}")
    return value


def _of_the_llm(judge: str | None, info: ValidationInfo) -> str | None:
    if judge is None and info.data.get("generator") == "llm":
        raise ValueError(f"is missing; {_TWO_WAYS}")
    return judge


def _none_if_off(given: Any) -> Any:
    if given is None:
        raise ValueError("expected none, or a mapping; leave the line out for the defaults")
    return None if given == OFF else given


@dataclass(frozen=True)
class CorpusSettings:
    """Where documents come from: files (``path``, which may hold ``*``), or a dataset of the
    Hub."""

    path: Text | None = None
    dataset: Text | None = None
    config: Text | None = None
    split: Text = "train"
    revision: Text | None = None
    text: DocumentText = "text"  # column or key, or a template over several
    where: Where = field(
        default_factory=dict
    )  # rows that fail one of these are left out, and counted
    id: Text | None = (
        None  # column or key; None: "id" where there is one, else the number of the row
    )
    documents: Count | None = None  # at most
    unwrap: Truth = (
        True  # join the lines of paragraphs that were broken at a width; the paper's: false
    )
    language: Annotated[Text, Field(pattern=r"\A[a-z]{2,3}\z", description=_CODE)] = ENGLISH
    license: Text = "unknown"
    source: Text = ""  # whom to thank, for the dataset card

    @model_validator(mode="after")
    def _from_one_place(self) -> CorpusSettings:
        if (self.path is None) == (self.dataset is None):
            found = "both path and dataset" if self.path else "neither path nor dataset"
            raise ValueError(f"has {found}; expected one of them")
        return self


@dataclass(frozen=True)
class SelectSettings:
    """Section 3.2.1: one sentence a document, of ten words or more, no headline."""

    min_words: Count = 10
    max_words: Annotated[Count, Field(validate_default=True), AfterValidator(_not_below)] = (
        200  # what is longer is a list
    )
    position: Literal["random", "first", "last"] = "random"  # which of the sentences that will do
    # sentences that are tried, one after the other, until one gives a row of two types; the
    # paper's: 1
    draws: Count = 40
    # whether a sentence that several documents have is used in the first alone; the paper's: false
    once: Truth = True


@dataclass(frozen=True)
class TypesSettings:
    """Appendix A.1: which error types a sentence has something to edit for."""

    types: ErrorTypes = ERROR_TYPES
    tagger: Literal["pattern", "spacy"] = "pattern"
    model: Text = "en_core_web_sm"  # of spaCy: a package, or a folder


@dataclass(frozen=True)
class GenerateSettings:
    """Section 3.2.2: ``llm`` asks a judge's model, ``rules`` needs none."""

    generator: Literal["llm", "rules"] = "llm"
    # llm: a judge's YAML, or the name of one
    judge: Annotated[Text | None, Field(validate_default=True), AfterValidator(_of_the_llm)] = None
    per_type: Count = (
        4  # contradictions that one prompt asks for, or that rules make of a type at most
    )
    context: Natural = 100  # words before the completion that the model sees; link sees none
    prompts: Text | None = (
        None  # a folder with own templates, or a YAML file with prompts in the form of the paper's
    )


@dataclass(frozen=True)
class NliSettings:
    """Section 3.2.3 and appendix A.2."""

    model: Text = "microsoft/deberta-large-mnli"
    revision: Text | None = None
    threshold: Probability = 0.6
    coreference: Probability = 0.3
    context: Natural = 100  # words of near context before premise and hypothesis
    batch_size: Count = 32


@dataclass(frozen=True)
class FluencySettings:
    """Section 3.2.3: mean log-likelihood above the original's minus ``margin`` (nats a token),
    after ``context`` words of the text before (the paper's: 0)."""

    model: Text = "gpt2"
    revision: Text | None = None
    margin: Annotated[Number, Field(ge=0)] = 0.2
    best: Count | None = (
        # of each type the likeliest, so many at most; None, as in the paper: all above the margin
        None
    )
    context: Natural = 0
    batch_size: Count = 32


@dataclass(frozen=True)
class FilterSettings:
    """Either filter may be off (``none`` in the YAML)."""

    nli: Annotated[NliSettings | None, BeforeValidator(_none_if_off)] = field(
        default_factory=NliSettings
    )
    fluency: Annotated[FluencySettings | None, BeforeValidator(_none_if_off)] = field(
        default_factory=FluencySettings
    )


@dataclass(frozen=True)
class ChooseSettings:
    """Section 3.2.4. Among those of a type ``pick`` takes at ``random``, or ``balanced``: so that
    what can be seen of the rows together tells true from false as little as possible.
    ``hide_centre`` makes the true completion the most central of a row's choices no oftener than
    any other; see :func:`factor_gen.choose.compounds`. None is more doubtful than
    ``most_doubtful``; see :class:`factor_gen.records.Candidate`."""

    contradictions: Count = 3
    pick: Literal["balanced", "random"] = "balanced"
    # rows of fewer types are left out
    min_types: Annotated[Integer, Field(ge=1, le=len(ERROR_TYPES)), AfterValidator(_not_above)] = 1
    hide_centre: Truth = False
    most_doubtful: Annotated[Integer, Field(ge=0, le=2)] = 2


_NAME = (
    "letters, digits, _ and - alone, for it becomes the name of an lm_eval task: name: my_factor"
)
_CORPUS = "files, corpus: my_texts/*.txt, or a dataset, corpus: {dataset: NAME}"
_both_off = BeforeValidator(lambda given: FilterSettings(None, None) if given == OFF else given)
_FILTER = "none, or a mapping with nli and fluency; leave the line out for the defaults"


@dataclass(frozen=True)
class BuildSettings:
    """A build: what, from what, how. ``folder`` is where the YAML lies, which relative paths start
    from; ``yamls`` are the files that say all this, the YAML and what it includes."""

    __pydantic_config__ = FORBID
    name: Annotated[Text, Field(pattern=r"\A[A-Za-z0-9_-]+\z", description=_NAME)]
    folder: Path
    corpus: Annotated[CorpusSettings, Field(description=_CORPUS)]
    select: SelectSettings = SelectSettings()
    types: TypesSettings = TypesSettings()
    generate: GenerateSettings = GenerateSettings()
    filter: Annotated[FilterSettings, _both_off, Field(description=_FILTER)] = FilterSettings()
    choose: ChooseSettings = ChooseSettings()
    seed: Natural = 0
    shard: Count = 256  # documents
    engine: Literal["local", "ray"] = "local"
    workers: Count | None = (
        None  # processes (local) or actors of a stage (ray); None: as many as there are cores
    )
    yamls: tuple[Path, ...] = field(default=(), compare=False)
    contexts: Path | None = field(
        default=None, compare=False
    )  # of the corpus, set by the build: see rules/contexts.py

    @model_validator(mode="after")
    def _speaks_the_language(self) -> BuildSettings:
        language, filters = self.corpus.language, (self.filter.nli, self.filter.fluency)
        if self.generate.generator == "rules" and language not in RULES:
            raise ValueError(
                f"there are rules for {', '.join(RULES)} and not for {language!r};"
                f" {_TWO_WAYS.rpartition('; ')[0]}"
            )
        english = [each.model for each in filters if each and each.model == type(each).model]
        if english and language != ENGLISH:
            raise ValueError(
                f"filter: {english[0]} reads English, not {language!r}; name a model of many"
                " languages, or none"
            )
        return self
