"""A FACTOR corpus as a task YAML describes it: which file, which columns, which changes to the
text.

The YAML uses lm_eval's own keys where it has them (``dataset_path``, ``dataset_kwargs``,
``test_split``, ``doc_to_text``, ``doc_to_choice``, ``doc_to_target``) and ``metadata`` for the
rest: ``source`` (a name of the registry), ``columns``, ``spacing``, ``window``, ``join`` and
``delimiter`` (see ``joining``), ``protocol``, ``dola_prefix`` (the column of prefixes by that
protocol, if another), ``caution``."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from lm_factuality.benchmarks.declaration import wrong_metrics
from lm_factuality.benchmarks.factor.joining import AUTHORS, DELIMITER, DOLA, Join
from lm_factuality.benchmarks.factor.metrics import SCORES
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import Strict, read_settings
from lm_factuality.harness.own_data import INLINE, folder_of

PAPER_WINDOW = 1024  # tokens of prefix and completion together that a model sees (section 4.2)
# what the name of the perplexity task on the same corpus adds to that of a FACTOR task
PERPLEXITY_SUFFIX = "_perplexity"

TEMPLATE_KEYS = ("doc_to_text", "doc_to_choice", "doc_to_target")
LOADERS = {"csv": ".csv", "json": ".jsonl", "parquet": ".parquet"}  # lm_eval name: file ending


def null_as_text(value: Any) -> Any:
    """``--metadata window=null`` arrives as text."""
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
    """Which column holds what; None stands for the authors' column names, as far as the table has
    them."""

    prefix: Column = None
    completion: Annotated[str, Field(description="a column name")] = "completion"
    contradictions: ColumnList = None
    error_types: ColumnList = None
    doc_id: Column = None


class TableYaml(Strict):
    """The keys of a YAML that name a table, and those that only lm_eval reads."""

    task: Annotated[str, Field(description="the name of the task")]
    dataset_path: Text = None
    dataset_name: Text = None
    dataset_kwargs: dict[str, Any] | None = None
    test_split: Text = None
    num_fewshot: Annotated[
        Literal[0] | None, Field(description="0: there are no demonstrations")
    ] = None
    metric_list: Any = None
    task_class: Annotated[Any, Field(alias="class")] = None
    task_alias: Any = None
    tag: Any = None
    include: Any = None


class Joined(Strict, extra="ignore"):
    """Of metadata: how prefix and completion become one text; by default the authors' files by
    their rule."""

    join: Literal["authors", "delimiter"] | None = None
    delimiter: Text = None

    def rule(self, source: str | None) -> Join:
        default = AUTHORS if source and self.delimiter is None else DELIMITER
        return Join(self.join or default, " " if self.delimiter is None else self.delimiter)


class _Metadata(Joined):
    source: Text = None
    columns: Columns | None = None
    spacing: Literal["published", "normalised"] | None = None
    protocol: Literal["paper", "code", "dola"] = "paper"
    dola_prefix: Column = None
    window: Window = PAPER_WINDOW


METADATA_KEYS = tuple(_Metadata.model_fields)


class _FactorYaml(TableYaml):
    output_type: Literal["multiple_choice"] = "multiple_choice"
    doc_to_text: Any = None
    doc_to_choice: Any = None
    doc_to_target: Any = None
    metadata: _Metadata | None = None


Yaml = TypeVar("Yaml", bound=TableYaml)


@dataclass(frozen=True)
class Corpus:
    """A task YAML, checked; ``folder`` is where it lies, None if lm_eval does not say."""

    task: str
    where: str
    folder: Path | None
    dataset_path: str | None
    dataset_name: str | None
    data_files: str | Mapping[str, str] | None
    hub_options: Mapping[str, Any]
    test_split: str
    source: str | None = None
    columns: Columns = field(default_factory=Columns)
    templates: Mapping[str, Any] = field(default_factory=dict)
    normalise_spacing: bool = False
    window: int | None = PAPER_WINDOW
    protocol: str = "paper"
    join: Join = field(default_factory=Join)


def parse_corpus(config: Mapping[str, Any]) -> Corpus:
    """The corpus that a task config describes. Raises ConfigError: every key that is unknown,
    missing or of the wrong type."""
    problems = [*wrong_metrics(SCORES, config.get("metric_list")), *wrong_join(config)]
    if not (metadata_of(config).get("source") or config.get("dataset_path")):
        problems.append(
            "no data: give dataset_path (a CSV, JSONL or Parquet file, or a dataset on the Hub)"
        )
    yaml = read_yaml(_FactorYaml, config, problems)
    metadata = yaml.metadata or _Metadata()
    templates = {key: config[key] for key in TEMPLATE_KEYS if config.get(key) is not None}
    columns, window = metadata.columns or Columns(), metadata.window
    if metadata.protocol == "dola":
        window = (
            metadata.window if "window" in metadata.model_fields_set else None
        )  # DoLa's script has none
        if metadata.dola_prefix and templates:
            templates["doc_to_text"] = metadata.dola_prefix
        elif metadata.dola_prefix:
            columns = columns.model_copy(update={"prefix": metadata.dola_prefix})
    join = Join(DOLA) if metadata.protocol == DOLA else metadata.rule(metadata.source)
    rows = {"source": metadata.source, "columns": columns, "templates": templates}
    scored = {
        "normalise_spacing": metadata.spacing == "normalised",
        "window": window,
        "protocol": metadata.protocol,
        "join": join,
    }
    return to_corpus(yaml, config, yaml.dataset_path, **rows, **scored)


def wrong_join(config: Mapping[str, Any]) -> Iterator[str]:
    metadata = metadata_of(config)
    if metadata.get("join") == AUTHORS and metadata.get("delimiter") is not None:
        yield "metadata.delimiter: 'join: authors' has no delimiter; keep one of the two"


def metadata_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of a YAML. Raises ConfigError: it is no mapping."""
    metadata = config.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ConfigError(
            f"{INLINE}: metadata: found a {type(metadata).__name__}, expected a mapping"
        )
    return metadata


def read_yaml(model: type[Yaml], config: Mapping[str, Any], others: Iterable[str]) -> Yaml:
    """The YAML as a ``model``; ``others`` are problems that were found besides. Raises ConfigError:
    all problems at once."""
    where = str(metadata_of(config).get("config_source", INLINE))
    problems = [f"{where}: {problem}" for problem in others]
    path, options = config.get("dataset_path"), config.get("dataset_kwargs") or {}
    if (
        isinstance(path, str)
        and path in LOADERS
        and isinstance(options, Mapping)
        and "data_files" not in options
    ):
        problems.append(
            f"{where}: dataset_path is {path!r}, but dataset_kwargs.data_files names no file"
        )
    try:
        found = read_settings(model, dict(config), where)
    except ConfigError as error:
        raise ConfigError("\n".join([*str(error).split("\n"), *problems])) from error
    if problems:
        raise ConfigError("\n".join(problems))
    return found


def to_corpus(
    yaml: TableYaml, config: Mapping[str, Any], path: str | None, **settings: Any
) -> Corpus:
    """The table that ``yaml`` names, with ``path`` for its ``dataset_path``, and the ``settings``
    of the corpus."""
    metadata = metadata_of(config)
    where = str(metadata.get("config_source", INLINE))
    options = dict(yaml.dataset_kwargs or {})
    data_files = options.pop("data_files", None)
    for loader, ending in LOADERS.items():
        if path and path.lower().endswith(ending):
            data_files, path = path, loader
    of_file = path, yaml.dataset_name, data_files, options, yaml.test_split or "test"
    return Corpus(yaml.task, where, folder_of(metadata), *of_file, **settings)
