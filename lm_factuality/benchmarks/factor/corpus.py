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
from lm_factuality.harness.own_data import INLINE, folder_of

# So many tokens of prefix and completion together are seen by a model (section 4.2).
PAPER_WINDOW = 1024
# What the name of the perplexity task on the same corpus adds to that of a FACTOR task.
PERPLEXITY_SUFFIX = "_perplexity"
TEMPLATE_KEYS = ("doc_to_text", "doc_to_choice", "doc_to_target")


def null_as_text(value: Any) -> Any:
    """Read ``--metadata window=null``, which arrives as text."""
    return None if str(value).lower() in ("null", "none") else value


Text = Annotated[str | None, Field(description="text")]
Column = Annotated[str | None, Field(description="a column name")]
_Names = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
ColumnList = Annotated[_Names | None, Field(description="a list of column names")]
_TOKENS = "a number of tokens, at least 2, or null for no limit"
Window = Annotated[
    Annotated[int, Field(ge=2)] | None, BeforeValidator(null_as_text), Field(description=_TOKENS)
]


class Columns(Strict):
    """Which column holds what. None stands for the authors' names, as far as the table has them."""

    prefix: Column = None
    completion: Annotated[str, Field(description="a column name")] = "completion"
    contradictions: ColumnList = None
    error_types: ColumnList = None
    doc_id: Column = None


class TableMetadata(Strict, extra="ignore"):
    """What lm_eval and ``lm-factuality run`` say of a YAML."""

    config_source: str = INLINE
    yaml_folder: str | None = None


class TableYaml(Strict):
    """The keys of a YAML that name a table, and those that only lm_eval reads."""

    task: Annotated[str, Field(description="the name of the task")]
    dataset_path: Text = None
    dataset_name: Text = None
    dataset_kwargs: dict[str, Any] | None = None
    test_split: Annotated[str, Field(description="text")] = "test"
    num_fewshot: Annotated[
        Literal[0] | None, Field(description="0: there are no demonstrations")
    ] = None
    metric_list: Any = None
    task_class: Annotated[Any, Field(alias="class")] = None
    task_alias: Any = None
    tag: Any = None
    include: Any = None
    metadata: TableMetadata = TableMetadata()

    @property
    def where(self) -> str:
        """The YAML's path, for messages."""
        return self.metadata.config_source

    @property
    def folder(self) -> Path | None:
        """The YAML's folder. None if lm_eval does not say."""
        return folder_of(vars(self.metadata))


class Joined(TableMetadata):
    """How prefix and completion become one text."""

    join: Literal["authors", "delimiter"] | None = None
    delimiter: Text = None

    @model_validator(mode="after")
    def _has_one_rule(self) -> "Joined":
        if self.join == AUTHORS and self.delimiter is not None:
            raise ValueError("delimiter: 'join: authors' has no delimiter; keep one of the two")
        return self

    def rule(self, source: str | None) -> Join:
        """Return the rule. By default a published file is joined as its authors do."""
        default = AUTHORS if source and self.delimiter is None else DELIMITER
        return Join(self.join or default, " " if self.delimiter is None else self.delimiter)


class _Metadata(Joined):
    source: Text = None
    columns: Columns = Columns()
    spacing: Literal["published", "normalised"] | None = None
    protocol: Literal["paper", "code", "dola"] = "paper"
    dola_prefix: Column = None
    window: Window = PAPER_WINDOW


METADATA_KEYS = tuple(_Metadata.model_fields)


class Corpus(TableYaml):
    """A FACTOR corpus."""

    output_type: Literal["multiple_choice"] = "multiple_choice"
    doc_to_text: Any = None
    doc_to_choice: Any = None
    doc_to_target: Any = None
    metadata: _Metadata = _Metadata()

    @model_validator(mode="after")
    def _names_data(self) -> "Corpus":
        if not (self.metadata.source or self.dataset_path):
            raise ValueError(
                "no data: give dataset_path (a CSV, JSONL or Parquet file, or a dataset on the Hub)"
            )
        return self

    @property
    def templates(self) -> dict[str, Any]:
        """The ``doc_to_`` entries that the YAML has."""
        entries = {key: getattr(self, key) for key in TEMPLATE_KEYS}
        return {key: entry for key, entry in entries.items() if entry is not None}

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
    corpus = read_yaml(Corpus, config)
    metadata = corpus.metadata
    if metadata.protocol != DOLA:
        return corpus
    # DoLa's script has no window, and on News-FACTOR another column of prefixes.
    changes: dict[str, Any] = {}
    if "window" not in metadata.model_fields_set:
        changes["window"] = None
    text = corpus.doc_to_text
    if metadata.dola_prefix and text is not None:
        text = metadata.dola_prefix
    elif metadata.dola_prefix:
        changes["columns"] = metadata.columns.model_copy(update={"prefix": metadata.dola_prefix})
    metadata = metadata.model_copy(update=changes)
    return corpus.model_copy(update={"metadata": metadata, "doc_to_text": text})


Yaml = TypeVar("Yaml", bound=TableYaml)


def read_yaml(model: type[Yaml], config: Mapping[str, Any]) -> Yaml:
    """Read the config of a task into a model.

    Raises:
        ConfigError: It does not fit the model.
    """
    metadata = config.get("metadata")
    where = metadata.get("config_source", INLINE) if isinstance(metadata, Mapping) else INLINE
    return read_settings(model, dict(config), str(where))
