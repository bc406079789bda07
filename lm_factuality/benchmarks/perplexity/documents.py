"""The whole documents that a perplexity task scores.

They come from a table of texts, or are rebuilt from the rows of a FACTOR file. `PerplexityTask`
parses its YAML and loads its documents here.
"""

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from lm_factuality.benchmarks.factor.corpus import (
    PAPER_WINDOW,
    FactorColumns,
    JoinMetadata,
    TableYaml,
    Window,
    read_null,
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
    Row,
    cell_text,
)
from lm_factuality.ground.replies import SURROGATE_PATTERN, replace_surrogates
from lm_factuality.ground.tables import FORMATS, Table

WHOLE_PREFIX = "full_prefix"
"""The column of the published files with the prefix before it was cut to the authors' window."""


class TextColumns(FactorColumns):
    """The names of the columns of a table of texts, or of a FACTOR file."""

    text: str = "text"
    """The column of the text, in a table of texts."""


class PerplexityMetadata(JoinMetadata):
    """The settings of a perplexity task."""

    documents_of: str | None = None
    """The FACTOR file, or the name of a published one, whose documents are scored."""

    columns: TextColumns = TextColumns()
    """The names of the columns."""

    window: Window = PAPER_WINDOW
    """The number of tokens that the model sees at once. None for no limit."""

    stride: Annotated[
        Annotated[int, Field(ge=1)] | None,
        BeforeValidator(read_null),
        Field(description="a number of tokens, at least 1, or null for half of the window"),
    ] = None
    """The number of tokens by which the window advances. None for half of the window."""

    @model_validator(mode="after")
    def _check_stride(self) -> "PerplexityMetadata":
        """Refuse a stride that is not smaller than the window."""
        # The first token of a window would otherwise have no context.
        if self.window and self.stride and self.stride >= self.window:
            raise ValueError(
                f"stride: found {self.stride}, expected less than the window of {self.window}"
                " tokens"
            )
        return self

    @model_validator(mode="after")
    def _check_columns(self) -> "PerplexityMetadata":
        """Refuse names of columns that the data cannot have.

        A FACTOR file has no column ``text``. Of a table of texts, only the texts and the ids of
        documents are used.
        """
        if self.documents_of:
            kind_of_data = "rows of FACTOR"
            unused_columns = {"text"}
        else:
            kind_of_data = "texts"
            unused_columns = FactorColumns.model_fields.keys() - {"doc_id"}
        # `model_fields_set` has the columns that the YAML names, but no default ones.
        wrong_columns = unused_columns & self.columns.model_fields_set
        if wrong_columns:
            names = ", ".join(sorted(wrong_columns))
            raise ValueError(f"columns: {kind_of_data} have no column for {names}")
        return self


class TextsYaml(TableYaml):
    """The YAML of a perplexity task."""

    output_type: Literal["loglikelihood_rolling"] = "loglikelihood_rolling"
    doc_to_text: Annotated[Literal[""], Field(description="'': nothing stands before a text")] = ""
    doc_to_target: Literal["doc_id"] = "doc_id"
    metadata: PerplexityMetadata = PerplexityMetadata()

    @model_validator(mode="after")
    def _check_data(self) -> "TextsYaml":
        """Refuse a YAML that names both a table of texts and a FACTOR file, or neither."""
        # The two are equal if both are named, or neither is.
        if bool(self.dataset_path) == bool(self.metadata.documents_of):
            raise ValueError(
                "expected either dataset_path (a CSV, JSONL or Parquet file with a column of texts,"
                " or a dataset on the Hub) or metadata.documents_of (a FACTOR file); found"
                f" {'both' if self.dataset_path else 'neither'}"
            )
        return self


@dataclass(frozen=True)
class TextDocument:
    """A document whose text is scored. Samples files show these fields."""

    location: str
    """The file and the row that the text comes from."""

    doc_id: str
    """The id of the document, by which standard errors are clustered."""

    text: str
    """The text."""

    problem: str = ""
    """Why the text cannot be scored. Empty if it can."""


@dataclass(frozen=True, eq=False)
class _RowText:
    """The text of a FACTOR row. Two of them are equal only if they are the same object."""

    row: Row
    """The row."""

    text: str
    """The prefix of the row joined to its true completion."""

    plain_text: str
    """The text with single spaces, since the files differ in white space."""


def load_documents(settings: TextsYaml, data_dir: str | Path | None = None) -> LoadedData:
    """Load the documents that the settings of a task name.

    Args:
        settings: The settings. ``documents_of`` names a FACTOR file, from whose rows documents are
            rebuilt. Otherwise ``dataset_path`` names a table of texts.
        data_dir: A folder with the published FACTOR files.

    Returns:
        The documents, where they come from and how many they are, and the lines of the file that
        cannot be read. A document that cannot be scored is among them and names its problem.

    Raises:
        ConfigError: The table lacks a column.
        DataError: A file is missing, or nothing in it can be read.
    """
    factor_file = settings.metadata.documents_of
    if factor_file:
        return _load_documents_of_factor(settings, factor_file, data_dir)

    # The rows of a table of texts are whole documents already.
    table, provenance = load_table(settings)
    documents = _documents_in_table(settings, table)
    return LoadedData(tuple(documents), {**provenance, "documents": len(documents)}, table.problems)


def _load_documents_of_factor(
    settings: TextsYaml, factor_file: str, data_dir: str | Path | None
) -> LoadedData:
    """Load the rows of a FACTOR file, and rebuild the documents that they were made from.

    Args:
        settings: The settings of the task.
        factor_file: The path of a table, such as ``my_rows.csv``, or the name of a published file,
            such as ``wiki_factor``.
        data_dir: A folder with the published files.

    Returns:
        The documents, where they come from and how many rows and documents there are, and the lines
        of the file that cannot be read.
    """
    is_path = factor_file.lower().endswith(tuple(FORMATS))
    published_name = None if is_path else factor_file
    # `load_table` reads the table in dataset_path, unless it is given the name of a published file.
    table_settings = settings.model_copy(update={"dataset_path": factor_file})
    table, provenance = load_table(table_settings, published_name, data_dir)

    columns: FactorColumns = settings.metadata.columns
    # The published files cut their usual prefixes, and have the whole ones in another column.
    if columns.prefix is None and WHOLE_PREFIX in column_names(table):
        columns = columns.model_copy(update={"prefix": WHOLE_PREFIX})

    rows = rows_from_columns(settings.where, columns, table)
    documents = rebuild_documents(rows, settings.metadata.join_of(published_name))
    counts = {
        "rows": len(rows),
        "rows_in_longer_texts": len(rows) - len(documents),
        "documents": len(documents),
    }
    return LoadedData(tuple(documents), {**provenance, **counts}, table.problems)


def rebuild_documents(rows: Sequence[Row], join: Join = AUTHORS_JOIN) -> list[TextDocument]:
    """Rebuild the documents that FACTOR's rows were made from, without counting any text twice.

    The text of a row is its prefix joined to its true completion. The texts of one document
    overlap. A text is dropped if one of these is true:

    - A longer text of the same document contains it, or begins with the prefix of its row.
    - Another text, of any document, begins with it.
    - The text of an earlier row, of any document, is equal to it.

    So each document keeps its longest text, and every text that begins differently.

    Example:
        Of the texts ``One.``, ``One. Two.`` and ``Three.``, the last two are kept.

    Args:
        rows: The rows of a FACTOR file.
        join: The rule by which a prefix and a completion become one text.

    Returns:
        The kept texts in the order of the rows.
    """
    row_texts = [_join_row(row, join) for row in rows]
    first_row_by_text: dict[str, _RowText] = {}
    for row_text in row_texts:
        first_row_by_text.setdefault(row_text.plain_text, row_text)
    # The texts with which a longer one begins, in any document.
    beginnings = _find_beginnings(first_row_by_text.keys())

    documents = []
    for row_text in _drop_parts(row_texts):
        plain_text = row_text.plain_text
        is_first = first_row_by_text[plain_text] is row_text
        is_repeated = plain_text in beginnings or not is_first
        # An empty text is always kept, so that the user hears of it.
        if plain_text and is_repeated:
            continue
        row = row_text.row
        documents.append(_make_document(row.location, row.doc_id, row_text.text))
    return documents


def _join_row(row: Row, join: Join) -> _RowText:
    """Join the prefix of a row to its true completion."""
    text = row.prefix
    # A row that cannot be scored may have no completion.
    if row.choices:
        text = "".join(join(row.prefix, row.choices[row.gold]))
    return _RowText(row, text, _normalise_spaces(text))


def _find_beginnings(texts: Set[str]) -> set[str]:
    """Return the texts with which another text begins.

    Example:
        Of ``One.``, ``One. Two.`` and ``Three.``, it is ``One.``
    """
    # Sorting puts a text right before one that begins with it.
    sorted_texts = sorted(texts)
    return {text for text, next_text in pairwise(sorted_texts) if next_text.startswith(text)}


def _drop_parts(row_texts: Sequence[_RowText]) -> list[_RowText]:
    """Drop each text that is a part of a longer text of the same document.

    Returns:
        The other texts, in the order of the rows.
    """
    whole_texts_by_document: dict[str, list[_RowText]] = defaultdict(list)
    # A text can only be part of a longer one, so the longest come first.
    for row_text in sorted(row_texts, key=lambda item: len(item.plain_text), reverse=True):
        longer_texts = whole_texts_by_document[row_text.row.doc_id]
        if not _is_part_of(row_text, longer_texts):
            longer_texts.append(row_text)

    whole_texts = set(chain.from_iterable(whole_texts_by_document.values()))
    return [row_text for row_text in row_texts if row_text in whole_texts]


def _is_part_of(row_text: _RowText, longer_texts: Sequence[_RowText]) -> bool:
    """Return whether a longer text contains a row's text, or begins with the row's prefix.

    Args:
        row_text: The text of the row.
        longer_texts: The longer texts of the same document.
    """
    prefix = _normalise_spaces(row_text.row.prefix)
    for longer_text in longer_texts:
        if row_text.plain_text in longer_text.plain_text:
            return True
        # Every text begins with an empty prefix, which therefore says nothing.
        if prefix and longer_text.plain_text.startswith(prefix):
            return True
    return False


def _normalise_spaces(text: str) -> str:
    """Replace each run of white space by one space, and strip the text."""
    return " ".join(text.split())


def _documents_in_table(settings: TextsYaml, table: Table) -> list[TextDocument]:
    """Make a document of each row of a table of texts.

    Args:
        settings: The settings of the task, which name the columns.
        table: The table.

    Raises:
        ConfigError: The table lacks the column of texts or of ids that the settings name.
    """
    columns = settings.metadata.columns
    require_column(settings.where, "metadata.columns.text", columns.text, table)
    doc_ids = document_ids(settings.where, columns.doc_id, table, "document")

    documents = []
    for record, doc_id in zip(table.records, doc_ids, strict=True):
        # An empty cell is a problem of its row, not of the file.
        text = cell_text(record.values.get(columns.text))
        documents.append(_make_document(record.location, doc_id, text))
    return documents


def _make_document(location: str, doc_id: str, text: str | None) -> TextDocument:
    """Make a document, and find out why its text cannot be scored, if it cannot.

    Args:
        location: The file and the row that the text comes from.
        doc_id: The id of the document.
        text: The text, or None if the cell of the table holds none.

    Returns:
        The document. What cannot be written as UTF-8 is replaced in its text.
    """
    problem = ""
    if text is None:
        problem = f"the text {NOT_TEXT}"
    elif not text.strip():
        problem = "the document is empty"
    elif SURROGATE_PATTERN.search(text):
        # No tokenizer can encode half of a character.
        problem = LONE_SURROGATE
    return TextDocument(location, doc_id, replace_surrogates(text or ""), problem)
