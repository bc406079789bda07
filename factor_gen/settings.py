"""The settings of a build, with the paper's defaults; :mod:`factor_gen.config` reads them from a YAML file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from factor_gen.records import ERROR_TYPES


@dataclass(frozen=True)
class CorpusSettings:
    """Where documents come from: files (``path``, which may hold ``*``), or a dataset of the Hub."""

    path: str | None = None
    dataset: str | None = None
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    text: str = "text"  # column or key
    id: str | None = None  # column or key; None: "id" where there is one, else the number of the row
    documents: int | None = None  # at most
    license: str = "unknown"
    source: str = ""  # whom to thank, for the dataset card


@dataclass(frozen=True)
class SelectSettings:
    """Section 3.2.1: one sentence a document, of ten words or more, no headline."""

    min_words: int = 10
    max_words: int = 200  # what is longer is a list
    position: str = "random"  # which of the sentences that will do: random, first or last


@dataclass(frozen=True)
class TypesSettings:
    """Appendix A.1: which error types a sentence has something to edit for."""

    types: tuple[str, ...] = ERROR_TYPES
    tagger: str = "pattern"  # or spacy
    model: str = "en_core_web_sm"  # of spaCy: a package, or a folder


@dataclass(frozen=True)
class GenerateSettings:
    """Section 3.2.2: ``llm`` asks a judge's model, ``rules`` needs none."""

    generator: str = "llm"
    judge: str | None = None  # llm: a judge's YAML, or the name of one
    per_type: int = 4  # contradictions that one prompt asks for, or that rules make of a type at most
    context: int = 100  # words before the completion that the model sees; link sees none
    prompts: str | None = None  # a folder with own templates


@dataclass(frozen=True)
class NliSettings:
    """Section 3.2.3 and appendix A.2."""

    model: str = "microsoft/deberta-large-mnli"
    revision: str | None = None
    threshold: float = 0.6
    coreference: float = 0.3
    context: int = 100  # words of near context before premise and hypothesis
    batch_size: int = 32


@dataclass(frozen=True)
class FluencySettings:
    """Section 3.2.3: mean log-likelihood above the original's less ``margin`` (nats a token)."""

    model: str = "gpt2"
    revision: str | None = None
    margin: float = 0.2
    batch_size: int = 32


@dataclass(frozen=True)
class FilterSettings:
    """Either filter may be off (``none`` in the YAML)."""

    nli: NliSettings | None = field(default_factory=NliSettings)
    fluency: FluencySettings | None = field(default_factory=FluencySettings)


@dataclass(frozen=True)
class ChooseSettings:
    """Section 3.2.4. Among those of a type ``pick`` takes at ``random``, or ``balanced``: so that what can be seen of the rows
    together tells true from false as little as possible. ``hide_centre`` makes the true completion the most central of a row's
    choices no oftener than any other; see :mod:`factor_gen.choose.compound`."""

    contradictions: int = 3
    pick: str = "balanced"
    min_types: int = 1  # rows of fewer types are left out
    hide_centre: bool = False


@dataclass(frozen=True)
class BuildSettings:
    """A build: what, from what, how. ``folder`` is where the YAML lies, which relative paths start from; ``yamls`` are the files
    that say all this, the YAML and what it includes."""

    name: str
    folder: Path
    corpus: CorpusSettings
    select: SelectSettings = SelectSettings()
    types: TypesSettings = TypesSettings()
    generate: GenerateSettings = GenerateSettings()
    filter: FilterSettings = FilterSettings()
    choose: ChooseSettings = ChooseSettings()
    seed: int = 0
    shard: int = 256  # documents
    engine: str = "local"  # or ray
    workers: int | None = None  # processes (local) or actors of a stage (ray); None: as many as there are cores
    yamls: tuple[Path, ...] = field(default=(), compare=False)
