"""The settings of a FACTOR task, checked as they are read from its YAML.

The YAML uses lm_eval's own keys as far as lm_eval has them, and ``metadata`` for all others. The
FACTOR tasks call `parse_corpus`; `load` then reads the table that the YAML names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from lm_factuality.benchmarks.factor.joining import AUTHORS, DELIMITER, DOLA, Join
from lm_factuality.ground.settings import Strict, read_settings
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.own_data import INLINE, folder_of

PAPER_WINDOW = 1024
"""The number of tokens of prefix and completion that the paper's models saw (section 4.2)."""

COMPLETION_COLUMN = "completion"
"""The column of true completions in the files of FACTOR's authors."""

PERPLEXITY_SUFFIX = "_perplexity"
"""The end of a perplexity task's name: ``news_factor_perplexity`` is on ``news_factor``'s texts."""


def read_null(value: object) -> object:
    """Return None for the texts ``null`` and ``none``, and any other value as it is.

    The command line passes ``--metadata window=null`` on as text.
    """
    return None if str(value).lower() in ("null", "none") else value


Column = Annotated[str | None, Field(description="a column name")]
ColumnList = Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None
_TOKENS = "a number of tokens, at least 2, or null for no limit"
Window = Annotated[
    Annotated[int, Field(ge=2)] | None, BeforeValidator(read_null), Field(description=_TOKENS)
]


class FactorColumns(Strict):
    """The names of a table's columns. None stands for the authors' name, if the table has it."""

    prefix: Column = None
    completion: str = COMPLETION_COLUMN
    contradictions: ColumnList = None
    """One column for each contradiction."""

    error_types: ColumnList = None
    """The column of each contradiction's error type."""

    doc_id: Column = None
    """The column that names the document of a row, by which standard errors are clustered."""


class TableMetadata(Strict, extra="ignore"):
    """The metadata that lm_eval and ``lm-factuality run`` add to each YAML."""

    config_source: str = INLINE
    """The path of the YAML."""

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
    """The YAML of a task that reads a table: a file on this machine or a dataset on the Hub."""

    task: Annotated[str, Field(description="the name of the task")]
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: JsonObject | None = None
    test_split: str | None = None
    metadata: TableMetadata = TableMetadata()

    @property
    def where(self) -> str:
        """The path of the YAML, for messages."""
        return self.metadata.config_source

    @property
    def folder(self) -> Path | None:
        """The folder of the YAML, or None if lm_eval does not pass it on."""
        return folder_of(vars(self.metadata))


class JoinMetadata(TableMetadata):
    """The settings of how a prefix and a completion become one text."""

    join: Literal["authors", "delimiter"] | None = None
    delimiter: str | None = None

    @model_validator(mode="after")
    def _check_delimiter(self) -> "JoinMetadata":
        """Refuse a delimiter beside the rule ``authors``, which never uses one."""
        # A delimiter that nothing uses would be a mistake of the user.
        if self.join == AUTHORS and self.delimiter is not None:
            raise ValueError("delimiter: 'join: authors' has no delimiter; keep one of the two")
        return self

    def join_of(self, source: str | None) -> Join:
        """Return the rule by which prefixes and completions are joined.

        Args:
            source: The published file that the rows are from, None for a user's own rows. Unless
                the YAML says otherwise, published files are joined as their authors join them, and
                other rows by a space.
        """
        if self.delimiter is not None:
            return Join(self.join or DELIMITER, self.delimiter)
        default_rule = AUTHORS if source else DELIMITER
        return Join(self.join or default_rule)


class FactorMetadata(JoinMetadata):
    """The settings of a FACTOR task that lm_eval has no keys for."""

    source: str | None = None
    """The name of a published file, such as ``news_factor``."""

    columns: FactorColumns = FactorColumns()
    spacing: Literal["published", "normalised"] | None = None
    protocol: Literal["paper", "code", "dola"] = "paper"
    dola_prefix: Column = None
    """The column of whole prefixes, which the protocol ``dola`` reads."""

    window: Window = PAPER_WINDOW

    @model_validator(mode="before")
    @classmethod
    def _lift_window_for_dola(cls, values: object) -> object:
        """Lift the window for the protocol ``dola``, whose script has none.

        A window that the YAML or the command line names is kept.
        """
        # A window in `values` replaces the None.
        if isinstance(values, Mapping) and values.get("protocol") == DOLA:
            return {"window": None, **values}
        return values


METADATA_KEYS = tuple(FactorMetadata.model_fields)


class Corpus(TableYaml):
    """The YAML of a FACTOR task."""

    output_type: Literal["multiple_choice"] = "multiple_choice"
    doc_to_text: Any = None
    doc_to_choice: Any = None
    doc_to_target: Any = None
    metadata: FactorMetadata = FactorMetadata()

    @model_validator(mode="after")
    def _check_data(self) -> "Corpus":
        """Refuse a YAML that names neither a published file (``source``) nor a user's own data."""
        if not (self.metadata.source or self.dataset_path):
            raise ValueError(
                "no data: give dataset_path (a CSV, JSONL or Parquet file, or a dataset on the Hub)"
            )
        return self

    @model_validator(mode="after")
    def _check_column_names(self) -> "Corpus":
        """Refuse templates that are incomplete, or that repeat what ``metadata.columns`` says.

        The templates ``doc_to_text`` and ``doc_to_choice`` make the prefix and the choices of the
        table's columns. ``metadata.columns`` names the columns of prefix and choices instead.
        """
        has_templates = self.doc_to_text is not None
        if has_templates != (self.doc_to_choice is not None):
            raise ValueError("give doc_to_text and doc_to_choice together, or neither")
        if self.doc_to_target is not None and not has_templates:
            raise ValueError("give doc_to_text and doc_to_choice with doc_to_target")

        # No template names the document of a row, so a YAML with templates may still name the
        # column of documents.
        redundant_columns = self.metadata.columns.model_fields_set - {"doc_id"}
        if redundant_columns and has_templates:
            raise ValueError(
                f"metadata.columns.{min(redundant_columns)} and doc_to_text say the same thing"
                " twice; keep one"
            )
        return self

    @property
    def dola_prefix(self) -> str | None:
        """The column of whole prefixes, or None if the protocol is not ``dola``."""
        return self.metadata.dola_prefix if self.metadata.protocol == DOLA else None

    @property
    def validate_target(self) -> str:
        """What ``lm-factuality validate`` takes to check the rows: a table or the task's name."""
        names_columns = self.doc_to_text is not None or self.metadata.columns != FactorColumns()
        path = self.dataset_path or ""
        # If `run` is given a table without a YAML, it names the task after the table.
        is_table_alone = not names_columns and Path(path).stem == self.task
        return path if is_table_alone else self.task

    @property
    def recorded_metadata(self) -> JsonObject:
        """The settings that change scores, as results files record them."""
        return {
            "window": self.metadata.window,
            "protocol": self.metadata.protocol,
            **self.join.metadata,
        }

    @property
    def join(self) -> Join:
        """The rule by which prefixes and completions are joined."""
        # DoLa's script joins by a rule of its own, whatever the YAML says.
        if self.metadata.protocol == DOLA:
            return Join(DOLA)
        return self.metadata.join_of(self.metadata.source)


def parse_corpus(config: Mapping[str, Any]) -> Corpus:
    """Check the config of a FACTOR task and return it as a `Corpus`.

    Args:
        config: The YAML of the task, as lm_eval loaded it.

    Raises:
        ConfigError: A key is unknown, missing, or of the wrong type.
    """
    return read_task_config(Corpus, config)


Yaml = TypeVar("Yaml", bound=TableYaml)


def read_task_config(settings_class: type[Yaml], config: Mapping[str, Any]) -> Yaml:
    """Check the config of a task and return it as an instance of a pydantic class.

    Args:
        settings_class: The class that declares the keys, such as `Corpus`.
        config: The YAML of the task, as lm_eval loaded it.

    Raises:
        ConfigError: A key is unknown, missing, or of the wrong type. The message names the YAML.
    """
    # A task may also be given without a file.
    yaml_path = INLINE
    metadata = config.get("metadata")
    # `read_settings` refuses metadata that are no mapping, together with all other problems.
    if isinstance(metadata, Mapping):
        yaml_path = str(metadata.get("config_source", INLINE))
    return read_settings(settings_class, dict(config), yaml_path)
