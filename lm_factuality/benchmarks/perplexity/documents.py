"""Whole documents to score: a table of texts, or those behind the rows of a FACTOR file.

A FACTOR row's text is its prefix (``full_prefix`` where the file has one, since the published files
cut the other) joined to its true completion as for scoring. Of one document's texts those go that
another holds (white space aside), and those whose prefix begins another, which would be counted
twice. So do texts that begin any other in the file. What remains is for each document its longest
text, and any that begins differently. How many rows went is in the provenance.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lm_factuality.benchmarks.factor import rows as factor_rows
from lm_factuality.benchmarks.factor.corpus import (
    PAPER_WINDOW,
    Columns,
    Joined,
    TableYaml,
    Window,
    null_as_text,
    read_yaml,
)
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN, Join
from lm_factuality.benchmarks.factor.load import (
    Loaded,
    column_names,
    document_ids,
    find_table,
    rows_from_columns,
)
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.tables import FORMATS, Table

# Of the published files: the prefix before it was cut to the window of the authors' models.
WHOLE_PREFIX = "full_prefix"


class _Columns(Columns):
    text: Annotated[str, Field(description="a column name")] = "text"


class _Metadata(Joined):
    documents_of: Annotated[
        str | None, Field(description="a published FACTOR file by name or a file's path")
    ] = None
    columns: _Columns = _Columns()
    window: Window = PAPER_WINDOW
    stride: Annotated[
        Annotated[int, Field(ge=1)] | None,
        BeforeValidator(null_as_text),
        Field(description="a number of tokens, at least 1, or null for half of the window"),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> "_Metadata":
        unused = {"text"} if self.documents_of else Columns.model_fields.keys() - {"doc_id"}
        wrong = unused & self.columns.model_fields_set
        if wrong:
            texts = "rows of FACTOR" if self.documents_of else "texts"
            raise ValueError(f"columns: {texts} have no column for {', '.join(sorted(wrong))}")
        if self.window and self.stride and self.stride >= self.window:
            raise ValueError(
                f"stride: found {self.stride}, expected less than the window of {self.window}"
                " tokens"
            )
        return self


class TextsYaml(TableYaml):
    """A perplexity YAML."""

    output_type: Literal["loglikelihood_rolling"] = "loglikelihood_rolling"
    doc_to_text: Annotated[Literal[""], Field(description="'': nothing stands before a text")] = ""
    doc_to_target: Literal["doc_id"] = "doc_id"
    metadata: _Metadata = _Metadata()

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
class Document:
    """A text to score."""

    location: str
    doc_id: str
    """What standard errors are clustered by."""

    text: str
    problem: str = ""
    """Why it cannot be scored, empty if it can."""


def load_texts(yaml: TextsYaml, data_dir: str | Path | None = None) -> Loaded:
    """Load all documents. One that cannot be scored keeps its place and says why.

    Raises:
        ConfigError: The table lacks a column.
        DataError: A file is missing, or nothing of it can be read.
    """
    file = yaml.metadata.documents_of
    if not file:
        table, provenance = find_table(yaml)
        documents = _texts(yaml, table)
    else:
        is_path = file.lower().endswith(tuple(FORMATS))
        source = None if is_path else file
        named = yaml.model_copy(update={"dataset_path": file})
        table, provenance = find_table(named, source, data_dir)
        columns: Columns = yaml.metadata.columns
        if columns.prefix is None and WHOLE_PREFIX in column_names(table):
            columns = columns.model_copy(update={"prefix": WHOLE_PREFIX})
        rows = rows_from_columns(yaml.where, columns, table)
        documents, dropped = rebuild(rows, yaml.metadata.rule(source))
        provenance |= {"rows": len(rows), "rows_in_longer_texts": dropped}
    return Loaded(tuple(documents), {**provenance, "documents": len(documents)}, table.problems)


def rebuild(rows: Sequence[Row], join: Join = AUTHORS_JOIN) -> tuple[list[Document], int]:
    """Return the documents that rows come from, and how many rows' texts stand in others."""
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
    by_document: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_document[row.doc_id].append(index)
    kept: list[int] = []
    for indices in by_document.values():
        longest: list[str] = []
        for index in sorted(indices, key=lambda index: len(plain[index]), reverse=True):
            prefix = _plain(rows[index].prefix)
            is_held = any(
                plain[index] in text or (prefix and text.startswith(prefix)) for text in longest
            )
            if not is_held:
                longest.append(plain[index])
            if not is_held and index not in beginnings:
                kept.append(index)
    documents = [
        Document(rows[index].location, rows[index].doc_id, texts[index], _unscorable(texts[index]))
        for index in sorted(kept)
    ]
    return documents, len(rows) - len(documents)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _texts(yaml: TextsYaml, table: Table) -> list[Document]:
    columns = yaml.metadata.columns
    names = column_names(table)
    if columns.text not in names:
        raise ConfigError(
            f"{yaml.where}: metadata.columns.text: no column {columns.text!r}; the table has"
            f" the columns {', '.join(map(repr, names))}. Say in metadata.columns which holds"
            " the texts."
        )
    documents = []
    ids = document_ids(yaml.where, columns.doc_id, table, "document")
    for record, doc_id in zip(table.records, ids, strict=True):
        text = factor_rows.cell_text(record.values.get(columns.text))
        problem = f"the text {factor_rows.NO_TEXT}" if text is None else _unscorable(text)
        documents.append(Document(record.location, doc_id, factor_rows.encodable(text), problem))
    return documents


def _unscorable(text: str) -> str:
    if not text.strip():
        return "the document is empty"
    return factor_rows.HALF_A_PAIR if factor_rows.SURROGATE.search(text) else ""


def text_suspicions(documents: Sequence[Document]) -> Iterator[tuple[str, str]]:
    """Yield the places of documents that should not be trusted as they stand, and why."""
    seen: dict[str, str] = {}
    for document in documents:
        if document.problem:
            continue
        if factor_rows.REPLACEMENT in document.text:
            yield document.location, factor_rows.WRONGLY_DECODED
        first = seen.setdefault(_plain(document.text), document.location)
        if first != document.location:
            yield document.location, f"repeats the document at {first}"
