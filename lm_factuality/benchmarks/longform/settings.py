"""A long-form task as its YAML describes it: prompts, what is known of each, and how facts are scored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lm_factuality.benchmarks.biographies.pages import EVIDENCE
from lm_factuality.benchmarks.factor.corpus import Column, Corpus, TableYaml, metadata_of, read_yaml, to_corpus
from lm_factuality.ground.settings import STRICT

_PROMPTS = "expected one source of prompts: dataset_path or metadata.longfact"
_KNOWN = "expected one thing to verify facts against: metadata.knowledge (an index, or pages) or metadata.columns.passages"
K = (64,)  # facts that are enough, unless a task says otherwise: the median of LongFact's responses
_Count = Annotated[int, Field(ge=1)]


def listed(value: Any) -> Any:
    """``--metadata k=64`` arrives as one value."""
    return value if isinstance(value, list | tuple) or value is None else (value,)


def is_true(value: Any) -> Any:
    """``--metadata entities=true`` arrives as text."""
    return {"true": True, "false": False}.get(str(value).lower(), value)


class Columns(BaseModel):
    """Which column holds what; ``title`` is one, or a list of those that may be confused."""

    model_config = STRICT

    prompt: Annotated[str, Field(description="a column name")] = "prompt"
    id: Column = None
    title: Column = None
    passages: Column = None


class Metadata(BaseModel):
    """Of a task. ``passages`` is how many a judge sees of a fact."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    columns: Columns = Columns()
    longfact: Literal["concepts", "objects"] | None = None
    topics: Annotated[Annotated[tuple[str, ...], Field(strict=False)] | None, BeforeValidator(listed)] = None
    knowledge: str | None = None
    passages: _Count = EVIDENCE
    k: Annotated[tuple[_Count, ...], BeforeValidator(listed), Field(strict=False, min_length=1)] = K
    entities: Annotated[bool, BeforeValidator(is_true)] = False
    entity_kind: Annotated[str, Field(min_length=1)] = "entity"
    linking: Literal["greedy", "hungarian"] = "greedy"

    @property
    def kind(self) -> str:
        return self.entity_kind if self.entities else ""


class _Yaml(TableYaml):
    output_type: Literal["generate_until"] = "generate_until"
    doc_to_text: Any = None
    doc_to_target: Literal["index"] = "index"
    generation_kwargs: Any = None
    repeats: Literal[1] | None = None
    metadata: Metadata


class LongFormTask(NamedTuple):
    """A YAML, checked: ``template`` is a column or a template, ``knowledge`` None where a column holds the passages."""

    table: Corpus
    metadata: Metadata
    template: Any
    knowledge: Path | None


def parse_task(config: Mapping[str, Any]) -> LongFormTask:
    """The task that a config describes. Raises ConfigError: listing every key that is unknown, missing or of the wrong type."""
    given, path = metadata_of(config), config.get("dataset_path")
    columns = given.get("columns")
    in_column = isinstance(columns, Mapping) and bool(columns.get("passages"))
    wrong = [] if bool(path) != bool(given.get("longfact")) else [_PROMPTS]
    wrong += [] if bool(given.get("knowledge")) != in_column else [_KNOWN]
    yaml = read_yaml(_Yaml, config, wrong)
    metadata, table = yaml.metadata, to_corpus(yaml, config, path)
    template = yaml.doc_to_text or metadata.columns.prompt
    if metadata.knowledge is None:
        return LongFormTask(table, metadata, template, None)
    known = Path(metadata.knowledge).expanduser()
    beside = (table.folder or Path()) / known  # the YAML, as its other paths; else as the command line has it
    return LongFormTask(table, metadata, template, beside if beside.exists() else known)
