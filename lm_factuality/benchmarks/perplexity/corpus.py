"""A corpus of whole texts as a perplexity YAML describes it: a table of texts, or the documents behind a FACTOR file.

The YAML uses lm_eval's own keys to name a table (``dataset_path``, ``dataset_name``, ``dataset_kwargs``, ``test_split``) and
``metadata`` for the rest: ``documents_of``, ``columns``, ``window``, ``stride``, ``caution``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lm_factuality.benchmarks.declaration import wrong_metrics
from lm_factuality.benchmarks.factor.corpus import (
    LOADERS,
    PAPER_WINDOW,
    Column,
    Columns,
    Corpus,
    Joined,
    TableYaml,
    Window,
    metadata_of,
    null_as_text,
    read_yaml,
    to_corpus,
    wrong_join,
)
from lm_factuality.benchmarks.factor.joining import Join
from lm_factuality.benchmarks.perplexity.benchmark import SCORES
from lm_factuality.ground.errors import did_you_mean
from lm_factuality.ground.settings import STRICT


class _TextColumns(BaseModel):
    model_config = STRICT

    text: Annotated[str, Field(description="a column name")] = "text"
    doc_id: Column = None


class _Metadata(BaseModel):
    """Of a table of texts."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    documents_of: Annotated[str | None, Field(description="a published FACTOR file by name or a file's path")] = None
    columns: _TextColumns | None = None
    window: Window = PAPER_WINDOW
    stride: Annotated[
        Annotated[int, Field(ge=1)] | None,
        BeforeValidator(null_as_text),
        Field(description="a number of tokens, at least 1, or null for half of the window"),
    ] = None


class _RowsMetadata(_Metadata, Joined):
    """Of a FACTOR file."""

    columns: Columns | None = None  # type: ignore[assignment]


class _TextsYaml(TableYaml):
    output_type: Literal["loglikelihood_rolling"] = "loglikelihood_rolling"
    doc_to_text: Annotated[Literal[""], Field(description="'': nothing stands before a text")] = ""
    doc_to_target: Literal["doc_id"] = "doc_id"
    metadata: _Metadata | None = None


class _RowsYaml(_TextsYaml):
    metadata: _RowsMetadata


@dataclass(frozen=True)
class TextCorpus:
    """A perplexity YAML, checked.

    ``table`` says where its file lies; ``from_rows`` that its rows are FACTOR examples, whose documents are to be rebuilt;
    ``text`` is the column of texts otherwise. ``window`` is the number of tokens that a model sees at once (None: as many as it
    can), ``stride`` how many of them are scored in each window after the first (None: half of the window).
    """

    table: Corpus
    from_rows: bool
    text: str = "text"
    window: int | None = PAPER_WINDOW
    stride: int | None = None


def parse_texts(config: Mapping[str, Any]) -> TextCorpus:
    """The corpus that the config of a perplexity task describes. Raises ConfigError: listing every key that is unknown, missing
    or of the wrong type."""
    from_rows = metadata_of(config).get("documents_of") is not None
    yaml = read_yaml(_RowsYaml if from_rows else _TextsYaml, config, _problems(config, metadata_of(config)))
    metadata = yaml.metadata or _Metadata()
    given: Columns | _TextColumns = metadata.columns or _TextColumns()
    columns, text = (Columns(doc_id=given.doc_id), given.text) if isinstance(given, _TextColumns) else (given, "text")
    is_file = from_rows and str(metadata.documents_of).lower().endswith(tuple(LOADERS.values()))
    source = None if is_file else metadata.documents_of
    path = metadata.documents_of if is_file else yaml.dataset_path
    join = metadata.rule(source) if isinstance(metadata, _RowsMetadata) else Join()
    table = to_corpus(yaml, config, path, source=source, columns=columns, window=metadata.window, join=join)
    return TextCorpus(table, from_rows, text, metadata.window, metadata.stride)


def _problems(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    """What more than one key is about."""
    yield from wrong_metrics(SCORES, config.get("metric_list"))
    yield from wrong_join(config)
    documents_of = metadata.get("documents_of")
    if documents_of and config.get("dataset_path"):
        yield "dataset_path and metadata.documents_of both name the texts; keep one"
    if not documents_of and not config.get("dataset_path"):
        close = next((key for key in metadata if did_you_mean(str(key), ["documents_of"])), None)
        hint = f"; did you mean documents_of where metadata has {close}?" if close else ""
        yield (
            "no texts: give dataset_path (a CSV, JSONL or Parquet file with a column of texts, or a dataset on the Hub) or "
            f"metadata.documents_of (a FACTOR file){hint}"
        )
    stride, window = metadata.get("stride"), metadata.get("window", PAPER_WINDOW)
    if isinstance(stride, int) and isinstance(window, int) and stride >= window:
        yield f"metadata.stride: found {stride}, expected less than the window of {window} tokens"
