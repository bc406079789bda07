"""A FACTOR corpus as a task YAML describes it.

The YAML uses lm_eval's own keys where it has them and ``metadata`` for the rest. `load` reads the
table that it names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from lm_factuality.benchmarks.factor.joining import AUTHORS, DELIMITER, DOLA, Join
from lm_factuality.ground.settings import Strict, read_settings
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.own_data import INLINE, folder_of

# So many tokens of prefix and completion together are seen by a model (section 4.2).
PAPER_WINDOW = 1024
# What the name of the perplexity task on the same corpus adds to that of a FACTOR task.
PERPLEXITY_SUFFIX = "_perplexity"


def read_null(value: Any) -> Any:
    """Read ``--metadata window=null``, which arrives as text."""
    return None if str(value).lower() in ("null", "none") else value


Column = Annotated[str | None, Field(description="a column name")]
ColumnList = Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None
_TOKENS = "a number of tokens, at least 2, or null for no limit"
Window = Annotated[
    Annotated[int, Field(ge=2)] | None, BeforeValidator(read_null), Field(description=_TOKENS)
]


class FactorColumns(Strict):
    """Which column holds what. None stands for the authors' names, as far as the table has them."""

    prefix: Column = None
    completion: str = "completion"
    contradictions: ColumnList = None
    error_types: ColumnList = None
    doc_id: Column = None


class TableMetadata(Strict, extra="ignore"):
    """What lm_eval and ``lm-factuality run`` say of a YAML."""

    config_source: str = INLINE
    yaml_folder: str | None = None


class LmEvalKeys(Strict):
    """The keys of a YAML that only lm_eval reads."""

    num_fewshot: Annotated[
        Literal[0] | None, Field(description="0: there are no demonstrations")
    ] = None
    metric_list: Any = None
    task_class: Annotated[Any, Field(alias="class")] = None
    task_alias: Any = None
    tag: Any = None
    include: Any = None


class TableYaml(LmEvalKeys):
    """A YAML that names a table."""

    task: Annotated[str, Field(description="the name of the task")]
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: JsonObject | None = None
    test_split: str | None = None
    metadata: TableMetadata = TableMetadata()

    @property
    def where(self) -> str:
        """The YAML's path, for messages."""
        return self.metadata.config_source

    @property
    def folder(self) -> Path | None:
        """The YAML's folder. None if lm_eval does not say."""
        return folder_of(vars(self.metadata))


class JoinMetadata(TableMetadata):
    """How prefix and completion become one text."""

    join: Literal["authors", "delimiter"] | None = None
    delimiter: str | None = None

    @model_validator(mode="after")
    def _has_one_rule(self) -> "JoinMetadata":
        if self.join == AUTHORS and self.delimiter is not None:
            raise ValueError("delimiter: 'join: authors' has no delimiter; keep one of the two")
        return self

    def rule(self, source: str | None) -> Join:
        """Return the rule. By default a published file is joined as its authors do."""
        default = AUTHORS if source and self.delimiter is None else DELIMITER
        return Join(self.join or default, " " if self.delimiter is None else self.delimiter)


class FactorMetadata(JoinMetadata):
    """The settings of a FACTOR task."""

    source: str | None = None
    columns: FactorColumns = FactorColumns()
    spacing: Literal["published", "normalised"] | None = None
    protocol: Literal["paper", "code", "dola"] = "paper"
    dola_prefix: Column = None
    window: Window = PAPER_WINDOW

    @model_validator(mode="before")
    @classmethod
    def _has_no_window_by_dola(cls, values: Any) -> Any:
        """DoLa's script has no window, unless the YAML asks for one."""
        if isinstance(values, Mapping) and values.get("protocol") == DOLA:
            return {"window": None, **values}
        return values


METADATA_KEYS = tuple(FactorMetadata.model_fields)


class Corpus(TableYaml):
    """A FACTOR corpus."""

    output_type: Literal["multiple_choice"] = "multiple_choice"
    doc_to_text: Any = None
    doc_to_choice: Any = None
    doc_to_target: Any = None
    metadata: FactorMetadata = FactorMetadata()

    @model_validator(mode="after")
    def _names_data_once(self) -> "Corpus":
        if not (self.metadata.source or self.dataset_path):
            raise ValueError(
                "no data: give dataset_path (a CSV, JSONL or Parquet file, or a dataset on the Hub)"
            )
        if (self.doc_to_text is None) != (self.doc_to_choice is None):
            raise ValueError("give doc_to_text and doc_to_choice together, or neither")
        if self.doc_to_text is None and self.doc_to_target is not None:
            raise ValueError("give doc_to_text and doc_to_choice with doc_to_target")
        twice = self.metadata.columns.model_fields_set - {"doc_id"}
        if twice and self.doc_to_text is not None:
            raise ValueError(
                f"metadata.columns.{min(twice)} and doc_to_text say the same thing twice; keep one"
            )
        return self

    @property
    def dola_prefix(self) -> str | None:
        """The column of whole prefixes, which only DoLa's protocol takes."""
        return self.metadata.dola_prefix if self.metadata.protocol == DOLA else None

    @property
    def join(self) -> Join:
        """How a prefix and a completion become one text."""
        metadata = self.metadata
        return Join(DOLA) if metadata.protocol == DOLA else metadata.rule(metadata.source)


def parse_corpus(config: Mapping[str, Any]) -> Corpus:
    """Read the config of a task.

    Raises:
        ConfigError: A key is unknown, missing, or of the wrong type.
    """
    return read_yaml(Corpus, config)


Yaml = TypeVar("Yaml", bound=TableYaml)


def read_yaml(model: type[Yaml], config: Mapping[str, Any]) -> Yaml:
    """Read the config of a task into a model.

    Raises:
        ConfigError: It does not fit the model.
    """
    metadata = config.get("metadata")
    where = metadata.get("config_source", INLINE) if isinstance(metadata, Mapping) else INLINE
    return read_settings(model, dict(config), str(where))
