"""The settings of a build, as dataclasses that pydantic fills in and checks.

:mod:`factor_gen.config` reads them from a YAML file. The defaults are the paper's, except those
that ``configs/corpora/_my_corpus.yaml`` marks with * or +.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from factor_gen.language import ENGLISH, LANGUAGES_WITH_RULES
from factor_gen.recipe import DocumentText, Where
from factor_gen.records import ERROR_TYPES, ErrorType
from lm_factuality.ground.settings import FORBID, Integer, Number, Text, Truth

# This value turns a filter off in the YAML.
OFF = "none"

# Errors about these settings say what is expected.
_NEEDS_JUDGE_ADVICE = (
    "the generator llm asks a model: name its judge, generate: {generator: llm, judge:"
    " openai-server} or the path of a judge's YAML"
)
_NAME = (
    "letters, digits, _ and - alone, for it becomes the name of an lm_eval task: name: my_factor"
)
_CORPUS = "files, corpus: my_texts/*.txt, or a dataset, corpus: {dataset: NAME}"
_KINDS = "offline, judge, nli or none, or a mapping with one of them as its kind: {kind: nli, ...}"

Count = Annotated[Integer, Field(ge=1)]
Natural = Annotated[Integer, Field(ge=0)]
Probability = Annotated[Number, Field(ge=0, le=1)]


def _in_order_of_table_3(types: tuple[ErrorType, ...]) -> tuple[ErrorType, ...]:
    """Sort error types in the order of the paper's table 3, and remove repeated ones."""
    return tuple(sorted(set(types), key=ERROR_TYPES.index))


ErrorTypes = Annotated[
    tuple[ErrorType, ...], Field(min_length=1), AfterValidator(_in_order_of_table_3)
]


def _read_filter(value: object) -> object:
    """Return None for the ``none`` that turns a filter off, and any other value unchanged.

    pydantic calls it with the value in the YAML, and reads the settings from what it returns.

    Raises:
        ValueError: The YAML names the filter but gives it no value, or has the margin that earlier
            versions had.
    """
    if isinstance(value, dict) and "margin" in value:
        raise ValueError(
            "has margin, which does not exist any more; write drop and form in its place, such as"
            " fluency: {drop: 6.0, form: 3.0}, or leave it out"
        )
    # An empty line in a YAML would turn the filter off by accident.
    if value is None:
        raise ValueError("expected none, or a mapping; leave the line out for the defaults")
    return None if value == OFF else value


def _read_filters(value: object) -> object:
    """Return settings without a filter for ``filter: none``, and any other mapping unchanged.

    pydantic calls it with the value in the YAML, and reads the settings from what it returns.

    Raises:
        ValueError: The value is neither ``none`` nor a mapping, or the mapping has the key ``nli``,
            which only earlier versions had in this section.
    """
    if isinstance(value, dict) and "nli" in value:
        raise ValueError(
            "has nli, which is a check of contradictions now; write contradiction: {kind: nli,"
            " threshold: 0.6}, or contradiction: none instead of nli: none"
        )
    if value == OFF:
        return FilterSettings(None)
    if isinstance(value, dict | FilterSettings):
        return value
    raise ValueError("expected none, or a mapping with fluency; leave the line out otherwise")


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Whose texts the corpus holds, and which part of them is read."""

    config: Text | None = None
    """The configuration of a dataset of the Hub. None: its only one."""

    split: Text = "train"
    """The split of a dataset. ``validation+test`` reads both."""

    revision: Text | None = None
    """The branch, tag or commit of a dataset. None: the newest commit when the build began."""

    documents: Count | None = None
    """How many documents are read at most. None: all."""

    license: Text = "unknown"
    """The licence of the texts, for the dataset card."""

    source: Text | None = None
    """The people to thank for the texts, for the dataset card."""


@dataclass(frozen=True)
class CorpusSettings(SourceSettings):
    """Where the documents come from: from files, or from a dataset of the Hub."""

    path: Text | None = None
    """The files of the corpus. The path may hold ``*``."""

    dataset: Text | None = None
    """The name of a dataset of the Hub, or a folder that holds one."""

    text: DocumentText = "text"
    """The column or key of the text, or a template over several."""

    where: Where = field(default_factory=dict)
    """Conditions on the columns of a row. Rows that fail one are left out, and counted."""

    id: Text | None = None
    """The column or key that names a row. None: ``id``, or the number of the row."""

    unwrap: Truth = True
    """Whether to join lines of paragraphs that were broken at a width; the paper's: false."""

    language: Annotated[
        Text, Field(pattern=r"\A[a-z]{2,3}\z", description="an ISO 639-1 code: language: de")
    ] = ENGLISH
    """The language of the texts."""

    @model_validator(mode="after")
    def _check_place(self) -> CorpusSettings:
        """Check that the settings name either files or a dataset, and not both."""
        # Both are None, or neither is.
        if (self.path is None) == (self.dataset is None):
            places = "both path and dataset" if self.path else "neither path nor dataset"
            raise ValueError(f"has {places}; expected one of them")
        return self


@dataclass(frozen=True)
class SelectSettings:
    """Which sentence of a document becomes the completion (section 3.2.1)."""

    min_words: Count = 10
    """The least number of words in a sentence."""

    max_words: Count = 200
    """The greatest number of words. Longer ones are lists; the paper has no limit."""

    position: Literal["facts", "random", "first", "last"] = "facts"
    """Which of the suitable sentences is tried first; the paper's: random.

    With "facts", those with several numbers and names come first, in random order: they have more
    that can be replaced by something that is surely false.
    """

    draws: Count = 1000
    """How many sentences are tried until one gives a row of two types; the paper's: 1.

    If a model writes or checks the candidates, the default is 4, because it is asked about each
    sentence.
    """

    once: Truth = True
    """Whether only the first document with a sentence may use it; the paper's: false."""


@dataclass(frozen=True)
class TypesSettings:
    """How to find the error types for which a sentence has something to edit (appendix A.1)."""

    types: ErrorTypes = ERROR_TYPES
    """The error types of the benchmark, in the order of table 3."""

    tagger: Literal["pattern", "spacy"] = "pattern"
    """What finds the parts of speech and the named entities."""

    model: Text = "en_core_web_sm"
    """The model of spaCy: a package or a folder."""


@dataclass(frozen=True)
class GenerateSettings:
    """How contradictions are generated (section 3.2.2)."""

    generator: Literal["llm", "rules"] = "llm"
    """``llm`` asks the model of a judge, ``rules`` needs no model."""

    judge: Text | None = None
    """For ``llm``: the YAML of a judge, or the name of one."""

    per_type: Count = 4
    """How many contradictions of each error type are made at most.

    With the generator ``llm`` the default is 3, because its question asks for all types.
    """

    context: Natural = 100
    """How many words before the completion the model sees."""


@dataclass(frozen=True)
class NoCheckSettings:
    """No check of whether candidates contradict the completion."""

    kind: Literal["none"] = "none"


@dataclass(frozen=True)
class OfflineSettings:
    """Rules that find out whether the edited words exclude each other."""

    kind: Literal["offline"] = "offline"


@dataclass(frozen=True)
class JudgeSettings:
    """A judge that is asked whether both sentences can be true at the same time."""

    judge: Text | None = None
    """The YAML of a judge, or the name of one. None: the judge that wrote the candidates."""

    candidates: Count = 6
    """How many candidates of a sentence the judge is asked about at most."""

    context: Natural = 40
    """How many words before the completion the judge sees."""

    kind: Literal["judge"] = "judge"


@dataclass(frozen=True)
class NliSettings:
    """A model of natural language inference (section 3.2.3 and appendix A.2)."""

    model: Text = "microsoft/deberta-large-mnli"
    """A sequence classifier with a label for contradiction."""

    revision: Text | None = None
    """The branch, tag or commit of a model of the Hub."""

    threshold: Probability = 0.6
    """The probability of a contradiction must be greater than this."""

    coreference: Probability = 0.3
    """The threshold of coreference errors."""

    context: Natural = 100
    """How many words before the completion precede both premise and hypothesis."""

    batch_size: Count = 32
    """How many pairs the model reads at once."""

    kind: Literal["nli"] = "nli"


ContradictionSettings = Annotated[
    OfflineSettings | JudgeSettings | NliSettings | NoCheckSettings, Field(discriminator="kind")
]


@dataclass(frozen=True)
class FluencySettings:
    """The filter of sentences that an edit has broken.

    The paper's filter (section 3.2.3) compares mean log-likelihoods instead.
    """

    model: Text = "gpt2"
    """A causal language model."""

    revision: Text | None = None
    """The branch, tag or commit of a model of the Hub."""

    drop: Annotated[Number, Field(ge=0)] = 6.0
    """How far the edit may lower the log-probability of a token after it, in nats."""

    form: Annotated[Number, Field(ge=0)] = 3.0
    """How much likelier another form of an edited word may be, in nats."""

    context: Natural = 60
    """How many words before the completion the model reads; the paper's: 0."""

    batch_size: Count = 32
    """How many sentences of 64 tokens the model reads at once."""


# The default models, which the paper uses, read no other language.
_ENGLISH_MODELS = (NliSettings.model, FluencySettings.model)


@dataclass(frozen=True)
class FilterSettings:
    """The filter of sentences that are not fluent. It is None if the YAML says ``none``."""

    fluency: Annotated[FluencySettings | None, BeforeValidator(_read_filter)] = FluencySettings()
    """The filter that keeps only fluent sentences."""


@dataclass(frozen=True)
class ChooseSettings:
    """Which of the contradictions that passed the filters make a row (section 3.2.4)."""

    contradictions: Count = 3
    """How many contradictions a row has."""

    pick: Literal["balanced", "random"] = "balanced"
    """How to choose among contradictions of the same types.

    ``balanced`` chooses so that the surface of the rows, such as their lengths and words, tells
    true completions from false ones as little as possible.
    """

    min_types: Annotated[Integer, Field(ge=1, le=len(ERROR_TYPES))] = 1
    """Documents whose contradictions have fewer error types give no row."""

    balance: Mapping[ErrorType, Annotated[Number, Field(ge=0)]] | None = None
    """The desired shares of the error types among the contradictions of all rows, as weights.

    Types without a weight are avoided. None, as in the paper: each row has as many types as it can.
    """

    hide_most_central: Truth = False
    """Whether the true completion is the most similar to the others no more often than they are."""


@dataclass(frozen=True, kw_only=True)
class WorkSettings:
    """How the work is shared out, and the files that a build works with.

    None of these settings changes the benchmark.
    """

    shard: Count = 256
    """How many documents make a shard, the part of a corpus that is processed at once."""

    engine: Literal["local", "ray"] = "local"
    """What runs the stages: processes of this machine, or a Ray cluster."""

    workers: Count | None = None
    """How many processes, or actors per group of stages. None: as many as there are cores."""

    yaml: Path | None = field(default=None, compare=False)
    """The file that the settings were read from. The build must not overwrite it."""

    collocations: Path | None = field(default=None, compare=False)
    """The file of the corpus's collocations. The build sets it, see ``rules/collocations.py``."""


@dataclass(frozen=True)
class BuildSettings(WorkSettings):
    """Everything that a build needs to know: the corpus, and the settings of every stage."""

    __pydantic_config__ = FORBID

    name: Annotated[Text, Field(pattern=r"\A[A-Za-z0-9_-]+\z", description=_NAME)]
    """The name of the benchmark and of its lm_eval task."""

    folder: Path
    """The folder of the YAML, from which relative paths start."""

    corpus: Annotated[CorpusSettings, Field(description=_CORPUS)]
    """The texts that the benchmark is made of."""

    select: SelectSettings = SelectSettings()
    """The stage that draws a sentence."""

    types: TypesSettings = TypesSettings()
    """The stage that finds the error types of a sentence."""

    generate: GenerateSettings = GenerateSettings()
    """The stage that generates contradictions."""

    filter: Annotated[FilterSettings, BeforeValidator(_read_filters)] = FilterSettings()
    """The stage that rejects sentences that are not fluent."""

    contradiction: Annotated[ContradictionSettings | None, Field(description=_KINDS)] = None
    """The stage that rejects candidates that may be true. None: see `contradiction_check`."""

    choose: ChooseSettings = ChooseSettings()
    """The stage that chooses the contradictions of a row."""

    seed: Natural = 0
    """The seed of all random choices."""

    @property
    def contradiction_check(self) -> ContradictionSettings:
        """The check of contradictions. By default a model is asked if a model wrote them."""
        if self.contradiction is not None:
            return self.contradiction
        if self.generate.generator == "llm":
            return JudgeSettings()
        # The rules of the check know English words.
        return OfflineSettings() if self.corpus.language == ENGLISH else NoCheckSettings()

    @property
    def runs_filter_model(self) -> bool:
        """Whether a model reads the candidates after they are generated."""
        check = self.contradiction_check.kind
        return self.filter.fluency is not None or check in ("nli", "judge")

    @model_validator(mode="after")
    def _check_sections_together(self) -> BuildSettings:
        """Check the settings of one section that depend on those of another.

        Raises:
            ValueError: Two settings do not go together. The message says what would.
        """
        choose = self.choose
        # Each contradiction has one type.
        if choose.min_types > choose.contradictions:
            raise ValueError(
                f"choose.min_types is {choose.min_types}; expected at most"
                f" choose.contradictions, which is {choose.contradictions}"
            )
        # Without a positive weight there are no shares.
        if choose.balance is not None and not any(choose.balance.values()):
            raise ValueError(
                "choose.balance has no weight above 0; expected some, such as {predicate: 2,"
                " entity: 2, circumstance: 1}"
            )
        self._check_generator()
        self._check_judge()
        self._check_later_stages_read_language()
        return self

    def _check_generator(self) -> None:
        """Check that the generator can work: with a judge, or with rules for the language."""
        language = self.corpus.language
        if self.generate.generator == "llm" and self.generate.judge is None:
            raise ValueError(
                f"generate.judge is missing; {_NEEDS_JUDGE_ADVICE}; without a model, generate:"
                " rules"
            )
        if self.generate.generator == "rules" and language not in LANGUAGES_WITH_RULES:
            languages = ", ".join(LANGUAGES_WITH_RULES)
            raise ValueError(
                f"there are rules for {languages} and not for {language!r}; {_NEEDS_JUDGE_ADVICE}"
            )

    def _check_judge(self) -> None:
        """Check that there is a judge for the check of contradictions, if it asks one."""
        check = self.contradiction_check
        if isinstance(check, JudgeSettings) and not (check.judge or self.generate.judge):
            raise ValueError(
                "contradiction.judge is missing; expected the name or the YAML of a judge, since no"
                " judge wrote the candidates"
            )

    def _check_later_stages_read_language(self) -> None:
        """Check that the stages after the generator can read the language of the corpus.

        The rules and the default models read only English. Nobody knows which languages another
        model reads, so the choice of the user is accepted.
        """
        language = self.corpus.language
        check = self.contradiction_check
        if language == ENGLISH:
            return
        if check.kind == "offline":
            raise ValueError(
                f"contradiction: offline has rules for English, not for {language!r}; choose"
                " judge, or none"
            )
        for section in (check, self.filter.fluency):
            if not isinstance(section, NliSettings | FluencySettings):
                continue
            if section.model in _ENGLISH_MODELS:
                raise ValueError(
                    f"{section.model} reads English, not {language!r}; name a model of many"
                    " languages, or none"
                )
