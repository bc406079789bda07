"""Whole documents to score: a table of texts, or those behind the rows of a FACTOR file.

A FACTOR row's text is its prefix (``full_prefix`` where the file has one, since the published files
cut the other) joined to its true completion as for scoring. Of one document's texts those go that
another holds (white space aside), and those whose prefix begins another, which would be counted
twice. So do texts that begin any other in the file. What remains is for each document its longest
text, and any that begins differently. How many rows went is in the provenance.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lm_factuality.benchmarks.factor.corpus import (
    PAPER_WINDOW,
    FactorColumns,
    JoinMetadata,
    TableYaml,
    Window,
    read_null,
    read_yaml,
)
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN, Join
from lm_factuality.benchmarks.factor.load import (
    LoadedData,
    column_names,
    document_ids,
    load_table,
    require_column,
    rows_from_columns,
)
from lm_factuality.benchmarks.factor.rows import (
    LONE_SURROGATE,
    NOT_TEXT,
    SURROGATE_PATTERN,
    Row,
    cell_text,
    replace_surrogates,
)
from lm_factuality.ground.tables import FORMATS, Table

# Of the published files: the prefix before it was cut to the window of the authors' models.
WHOLE_PREFIX = "full_prefix"


class TextColumns(FactorColumns):
    """Which column of a table of texts, or of a FACTOR file, holds what."""

    text: str = "text"


class PerplexityMetadata(JoinMetadata):
    """The settings of a perplexity task."""

    documents_of: str | None = None
    columns: TextColumns = TextColumns()
    window: Window = PAPER_WINDOW
    stride: Annotated[
        Annotated[int, Field(ge=1)] | None,
        BeforeValidator(read_null),
        Field(description="a number of tokens, at least 1, or null for half of the window"),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> "PerplexityMetadata":
        if self.window and self.stride and self.stride >= self.window:
            raise ValueError(
                f"stride: found {self.stride}, expected less than the window of {self.window}"
                " tokens"
            )
        unused = {"text"} if self.documents_of else FactorColumns.model_fields.keys() - {"doc_id"}
        wrong = unused & self.columns.model_fields_set
        if wrong:
            texts = "rows of FACTOR" if self.documents_of else "texts"
            raise ValueError(f"columns: {texts} have no column for {', '.join(sorted(wrong))}")
        return self


class TextsYaml(TableYaml):
    """A perplexity YAML."""

    output_type: Literal["loglikelihood_rolling"] = "loglikelihood_rolling"
    doc_to_text: Annotated[Literal[""], Field(description="'': nothing stands before a text")] = ""
    doc_to_target: Literal["doc_id"] = "doc_id"
    metadata: PerplexityMetadata = PerplexityMetadata()

    @model_validator(mode="after")
    def _names_texts(self) -> "TextsYaml":
        if bool(self.dataset_path) == bool(self.metadata.documents_of):
            raise ValueError(
                "expected either dataset_path (a CSV, JSONL or Parquet file with a column of texts,"
                " or a dataset on the Hub) or metadata.documents_of (a FACTOR file); found"
                f" {'both' if self.dataset_path else 'neither'}"
            )
        return self


def parse_texts(config: Mapping[str, Any]) -> TextsYaml:
    """Read the config of a perplexity task.

    Raises:
        ConfigError: A key is wrong.
    """
    return read_yaml(TextsYaml, config)


@dataclass(frozen=True)
class TextDocument:
    """A text to score."""

    location: str
    doc_id: str
    """What standard errors are clustered by."""

    text: str
    problem: str = ""
    """Why it cannot be scored, empty if it can."""


def load_texts(yaml: TextsYaml, data_dir: str | Path | None = None) -> LoadedData:
    """Load all documents. One that cannot be scored keeps its place and says why.

    Raises:
        ConfigError: The table lacks a column.
        DataError: A file is missing, or nothing of it can be read.
    """
    file = yaml.metadata.documents_of
    if not file:
        table, provenance = load_table(yaml)
        documents = _texts_of_table(yaml, table)
    else:
        source = None if file.lower().endswith(tuple(FORMATS)) else file
        named = yaml.model_copy(update={"dataset_path": file})
        table, provenance = load_table(named, source, data_dir)
        columns: FactorColumns = yaml.metadata.columns
        if columns.prefix is None and WHOLE_PREFIX in column_names(table):
            columns = columns.model_copy(update={"prefix": WHOLE_PREFIX})
        rows = rows_from_columns(yaml.where, columns, table)
        documents = rebuild(rows, yaml.metadata.join_of(source))
        dropped = len(rows) - len(documents)
        provenance |= {"rows": len(rows), "rows_in_longer_texts": dropped}
    return LoadedData(tuple(documents), {**provenance, "documents": len(documents)}, table.problems)


def rebuild(rows: Sequence[Row], join: Join = AUTHORS_JOIN) -> list[TextDocument]:
    """Return the documents that rows come from, without rows whose texts stand in others."""
    texts = [
        "".join(join(row.prefix, row.choices[row.gold])) if row.choices else row.prefix
        for row in rows
    ]
    plain = [_plain(text) for text in texts]
    # In sorted order a text that begins another, or repeats an earlier one, comes right before it.
    order = sorted(range(len(plain)), key=lambda index: (plain[index], -index))
    beginnings = {
        index
        for index, after in pairwise(order)
        if plain[index] and plain[after].startswith(plain[index])
    }
    longest: dict[str, list[str]] = defaultdict(list)
    kept: list[int] = []
    for index in sorted(range(len(plain)), key=lambda index: len(plain[index]), reverse=True):
        prefix = _plain(rows[index].prefix)
        longer = longest[rows[index].doc_id]
        if any(plain[index] in text or (prefix and text.startswith(prefix)) for text in longer):
            continue
        longer.append(plain[index])
        if index not in beginnings:
            kept.append(index)
    return [
        _document(rows[index].location, rows[index].doc_id, texts[index]) for index in sorted(kept)
    ]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _texts_of_table(yaml: TextsYaml, table: Table) -> list[TextDocument]:
    columns = yaml.metadata.columns
    require_column(yaml.where, "metadata.columns.text", columns.text, table)
    ids = document_ids(yaml.where, columns.doc_id, table, "document")
    return [
        _document(record.location, doc_id, cell_text(record.values.get(columns.text)))
        for record, doc_id in zip(table.records, ids, strict=True)
    ]


def _document(location: str, doc_id: str, text: str | None) -> TextDocument:
    problem = ""
    if text is None:
        problem = f"the text {NOT_TEXT}"
    elif not text.strip():
        problem = "the document is empty"
    elif SURROGATE_PATTERN.search(text):
        problem = LONE_SURROGATE
    return TextDocument(location, doc_id, replace_surrogates(text), problem)
