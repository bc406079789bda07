"""The rows of a FACTOR corpus, read from a published file, a user's file or a dataset on the Hub.

The FACTOR tasks call `load_corpus`. The perplexity and long-form tasks and factor-gen's audit use
its parts.
"""

import difflib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import TemplateError

from lm_factuality.benchmarks import find_source
from lm_factuality.benchmarks.factor.corpus import (
    COMPLETION_COLUMN,
    Corpus,
    FactorColumns,
    TableYaml,
)
from lm_factuality.benchmarks.factor.rows import (
    CellRenderer,
    Row,
    cell_text,
    compile_cell_template,
    gold_index,
    make_row,
    normalise_spacing,
)
from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.ground.tables import FORMATS, Table, TableRow, read_table
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.own_data import read_dataset

logger = logging.getLogger(__name__)

PREFIX_COLUMNS = ("turncated_prefixes", "truncated_prefixes", "prefix", "full_prefix")
"""The columns that may hold the prefix. The first one that a table has is read.

The first is spelt as in the published files. The last holds the prefix before it was cut to the
window of the authors' models.
"""


@dataclass(frozen=True)
class LoadedData:
    """The rows or documents of a task, and where they are from."""

    rows: tuple[Any, ...]
    """Rows or documents. Each has a ``location``, and a ``problem`` if it cannot be scored."""

    provenance: Mapping[str, Any]
    """Where the rows are from, in a form that results files can hold."""

    problems: tuple[str, ...] = ()
    """The lines of the file that cannot be read, and why."""

    def checked_rows(self, task: str, unit: str, target: str = "") -> tuple[Any, ...]:
        """Return all rows if the file could be read, and warn of those that cannot be scored.

        One warning is logged for all of them. It counts them, quotes the first problem, and names
        ``lm-factuality validate``, the command that lists all problems.

        Args:
            task: The name of the task, for the warning.
            unit: What the warning calls them, such as ``rows`` or ``documents``.
            target: What ``validate`` is called with. By default the task.

        Raises:
            DataError: Lines of the file cannot be read.
        """
        refuse(self.problems)
        unscorable_rows = [row for row in self.rows if row.problem]
        # A file may have thousands of them, so not each has a warning of its own.
        if unscorable_rows:
            first_row = unscorable_rows[0]
            logger.warning(
                "%s: %d of %d %s cannot be scored, the first at %s: %s; 'lm-factuality validate"
                " %s' lists them all",
                task,
                len(unscorable_rows),
                len(self.rows),
                unit,
                first_row.location,
                first_row.problem,
                target or task,
            )
        return self.rows


def load_corpus(corpus: Corpus, data_dir: str | Path | None = None) -> LoadedData:
    """Load all rows of a corpus, in the order of the file.

    Args:
        corpus: The settings of the task, which name the data.
        data_dir: A folder with the published files, which are downloaded if it is None.

    Returns:
        The rows. A row that cannot be scored keeps its place, and its ``problem`` says why. Lines
        that cannot be read are in ``problems``, and a task must refuse a file that has any.

    Raises:
        ConfigError: Columns or templates do not fit the table.
        DataError: Nothing can be read.
    """
    table, provenance = load_table(corpus, corpus.metadata.source, data_dir)
    rows = rows_from_table(corpus, table)
    # Results record the number of rows, so that readers see how large the data was.
    return LoadedData(tuple(rows), {**provenance, "rows": len(rows)}, table.problems)


def load_table(
    settings: TableYaml, source: str | None = None, data_dir: str | Path | None = None
) -> tuple[Table, JsonObject]:
    """Read the table that the settings of a task name.

    Args:
        settings: The settings, whose ``dataset_path`` is a file or a dataset on the Hub.
        source: The name of a published file, such as ``news_factor``. If it is given, this file is
            read, and not the one in ``dataset_path``.
        data_dir: A folder with the published files, which are downloaded if it is None.

    Returns:
        The table, and where it is from in a form that results files can hold, such as
        ``{"file": "my_rows.csv", "git_blob": "9dd3..."}``.

    Raises:
        ConfigError: There is no such file or dataset.
        DataError: Nothing can be read.
    """
    path = settings.dataset_path or ""
    if not source and "://" in path:
        raise ConfigError(
            f"{settings.where}: dataset_path: found the address {path!r}, which is not read;"
            " expected a file on this machine or a dataset on the Hub; download it and name the"
            " file"
        )

    if source:
        table, provenance = _published_table(source, data_dir)
    elif path.lower().endswith(tuple(FORMATS)):
        file = _local_file(settings, path)
        table = read_table(file)
        provenance = {"file": file.name, "git_blob": blob_id(file)}
    else:
        # Any other name is that of a dataset on the Hub or in a folder.
        table, provenance = read_dataset(
            settings.where,
            path,
            settings.dataset_name,
            settings.dataset_kwargs,
            settings.test_split,
        )

    # Every line of the file is broken.
    if not table.records:
        raise DataError("\n".join(table.problems))
    return table, provenance


def _published_table(source: str, data_dir: str | Path | None) -> tuple[Table, JsonObject]:
    """Read a published file, and say in which version it was read.

    Args:
        source: The name of the file, such as ``news_factor``.
        data_dir: A folder with the published files, which are downloaded if it is None.
    """
    published = locate(find_source(source), data_dir)
    # A user's own copy in the folder may differ from the published file.
    provenance = {
        "source": source,
        "git_blob": published.blob,
        "is_published": published.is_published,
        "published_rows": published.source.rows,
    }
    return read_table(published.path), provenance


def _local_file(settings: TableYaml, name: str) -> Path:
    """Find a user's data file, and refuse settings that do not fit a file.

    A relative name is searched in the folder of the task's YAML.

    Args:
        settings: The settings of the task.
        name: The name of the file, such as ``data/my_rows.csv``.

    Raises:
        ConfigError: The folder of the YAML is not known, or the YAML has arguments for datasets of
            the Hub.
    """
    path = Path(name).expanduser()
    # lm_eval passes the folder on only if it finds the YAML by the name of its task.
    if not path.is_absolute() and settings.folder is None:
        raise ConfigError(
            f"task {settings.task}: the path {name!r} is relative to the YAML, but lm_eval does not"
            " say in which folder the YAML is; give --include_path FOLDER and the name of the task,"
            " or an absolute path to the data"
        )
    # dataset_kwargs are for the datasets library, which does not read this file.
    if settings.dataset_kwargs:
        # They often say how to parse CSV, so the message says how the suite parses it.
        raise ConfigError(
            f"{settings.where}: dataset_kwargs: found {', '.join(settings.dataset_kwargs)},"
            " expected none for a file on this machine; CSV is read with commas and UTF-8"
        )
    return (settings.folder or Path()) / path


def rows_from_table(corpus: Corpus, table: Table) -> list[Row]:
    """Make the rows of a corpus by the columns or the templates that its YAML names.

    If the YAML says ``spacing: normalised``, the rows have no spaces before punctuation.

    Args:
        corpus: The settings of the task.
        table: The table that the settings name.

    Returns:
        One row for each record of the table, in its order.

    Raises:
        ConfigError: The table lacks a column, or a template fails.
    """
    # The YAML names either templates or columns.
    if corpus.doc_to_text is not None:
        rows = _rows_from_templates(corpus, table)
    else:
        columns = corpus.metadata.columns
        # DoLa's script reads whole prefixes, and the YAML names their column as well.
        if corpus.dola_prefix:
            columns = columns.model_copy(update={"prefix": corpus.dola_prefix})
        rows = rows_from_columns(corpus.where, columns, table)

    if corpus.metadata.spacing == "normalised":
        return [normalise_spacing(row) for row in rows]
    return rows


def column_names(table: Table) -> list[str]:
    """Return the names of all columns, in the order in which they first occur."""
    # Records of JSONL may have different keys.
    names: dict[str, None] = {}
    for record in table.records:
        names |= dict.fromkeys(record.values)
    return list(names)


def require_column(where: str, key: str, column: str, table: Table) -> None:
    """Check that a table has the column that a YAML names.

    Args:
        where: The path of the YAML, for the message.
        key: The key of the YAML that names the column, for the message.
        column: The name of the column.
        table: The table.

    Raises:
        ConfigError: The table lacks the column. The message lists the columns that it has.
    """
    names = column_names(table)
    if column not in names:
        raise ConfigError(
            f"{where}: {key}: no column {column!r}; the table has the columns"
            f" {', '.join(map(repr, names))}"
        )


class RowRenderers(NamedTuple):
    """The functions that make the parts of a `Row` of the cells of a record."""

    prefix: CellRenderer

    choices: CellRenderer
    """Makes the list of the true completion and its contradictions."""

    target: CellRenderer
    """Makes the index or the text of the true completion."""

    error_types: CellRenderer
    """Makes the list of the contradictions' error types, empty if they are not known."""

    choice_columns: Sequence[str] = ()
    """The column of each choice, for messages. Empty if templates make the choices."""


def rows_from_columns(where: str, columns: FactorColumns, table: Table) -> list[Row]:
    """Make the rows of a table whose columns hold a prefix, a completion and contradictions.

    Args:
        where: The path of the YAML, for messages.
        columns: The names of the columns. If the YAML leaves a name out, the column has the name
            that FACTOR's authors use: one of `PREFIX_COLUMNS`, ``completion``, ``contradiction_0``,
            ``contradiction_1`` and so on, and ``contradiction_0_type`` and so on.
        table: The table.

    Returns:
        One row for each record of the table, in its order.

    Raises:
        ConfigError: The table lacks a column, or there are more or fewer error types than
            contradictions.
    """
    names = column_names(table)
    prefix_column = columns.prefix or _prefix_column(names, table)
    # The YAML leaves the name out.
    if columns.completion == COMPLETION_COLUMN:
        _require_authors_column(COMPLETION_COLUMN, names, table)
    contradiction_columns = columns.contradictions or _contradiction_columns(names, table)
    type_columns = columns.error_types or _error_type_columns(contradiction_columns, names)
    # Error types are matched with contradictions by their order.
    if type_columns and len(type_columns) != len(contradiction_columns):
        raise ConfigError(
            f"{where}: metadata.columns: {len(type_columns)} error_types for"
            f" {len(contradiction_columns)} contradictions; name one for each"
        )

    choice_columns = [columns.completion, *contradiction_columns]
    # A column's name is a template that gives its cell. The first argument is the key of the YAML
    # that error messages name.
    compile_template = partial(compile_cell_template, where, columns=names)
    renderers = RowRenderers(
        prefix=compile_template("metadata.columns.prefix", prefix_column),
        choices=compile_template("metadata.columns", choice_columns),
        # The true completion is the first choice.
        target=compile_template("doc_to_target", 0),
        error_types=compile_template("metadata.columns.error_types", list(type_columns)),
        choice_columns=choice_columns,
    )
    return _render_rows(where, renderers, columns.doc_id, table)


def _prefix_column(names: Sequence[str], table: Table) -> str:
    """Return the first of the columns that may hold the prefix, of which some files have several.

    Raises:
        ConfigError: The table has none of them. The message asks for the column ``prefix``.
    """
    column = next((column for column in PREFIX_COLUMNS if column in names), "prefix")
    _require_authors_column(column, names, table)
    return column


def _require_authors_column(column: str, names: Sequence[str], table: Table) -> None:
    """Check that a table has a column with the name that FACTOR's authors use.

    The suite expects this column if the YAML names no other.

    Args:
        column: The column, such as ``completion``.
        names: The columns of the table.
        table: The table, whose file the message names.

    Raises:
        ConfigError: The table lacks the column.
    """
    if column not in names:
        raise ConfigError(
            f"{_file_of(table)}: no column {column!r}; found {', '.join(map(repr, names))};"
            " rename yours, or name it under metadata.columns of a YAML"
        )


def _file_of(table: Table) -> str:
    """Return the file or dataset of a table, such as ``rows.csv`` for a row at ``rows.csv:2``."""
    return re.sub(r"(:|, row )\d+$", "", table.records[0].location)


def _contradiction_columns(names: Sequence[str], table: Table) -> Sequence[str]:
    """Return the columns ``contradiction_0``, ``contradiction_1`` and so on, by their number.

    Args:
        names: The columns of the table.
        table: The table, whose file messages name.

    Raises:
        ConfigError: There is no such column, a number is left out, or another column has a
            misspelt name.
    """
    num_columns = sum(re.fullmatch(r"contradiction_\d+", name) is not None for name in names)
    # Two columns have to be 0 and 1. If they are 0 and 2, number 1 is missing.
    columns = [f"contradiction_{index}" for index in range(max(1, num_columns))]
    for column in columns:
        _require_authors_column(column, names, table)

    # Without this check, a misspelt column would be ignored and the rows would lose a choice.
    for name in names:
        if name not in columns and _resembles_contradiction(name):
            raise ConfigError(
                f"{_file_of(table)}: the column {name!r} would not be read; expected"
                f" 'contradiction_{num_columns}'; rename it, or name the columns under"
                " metadata.columns of a YAML"
            )
    return columns


def _resembles_contradiction(name: str) -> bool:
    """Return whether a column looks like a misspelt ``contradiction_2``: ``Contradicton 2``."""
    stem = re.sub(r"[\W_]*\d+\W*$", "", name).strip().lower()
    is_numbered = stem != name.lower()
    return is_numbered and bool(difflib.get_close_matches(stem, ["contradiction"], cutoff=0.8))


def _error_type_columns(
    contradiction_columns: Sequence[str], names: Sequence[str]
) -> Sequence[str]:
    """Return the column of each contradiction's error type, or none if the table lacks any.

    Example:
        The type of ``contradiction_0`` is in the column ``contradiction_0_type``.
    """
    type_columns = [f"{column}_type" for column in contradiction_columns]
    return type_columns if set(type_columns) <= set(names) else []


def _rows_from_templates(corpus: Corpus, table: Table) -> list[Row]:
    """Make the rows of a table by the templates of a YAML.

    The keys are those of lm_eval: ``doc_to_text`` makes the prefix, ``doc_to_choice`` the choices,
    and ``doc_to_target`` names the true one.
    """
    # Without doc_to_target, the first choice is the true completion.
    target = 0 if corpus.doc_to_target is None else corpus.doc_to_target
    compile_template = partial(compile_cell_template, corpus.where, columns=column_names(table))
    renderers = RowRenderers(
        prefix=compile_template("doc_to_text", corpus.dola_prefix or corpus.doc_to_text),
        choices=compile_template("doc_to_choice", corpus.doc_to_choice),
        target=compile_template("doc_to_target", target),
        # No key of lm_eval's names error types.
        error_types=lambda cells: [],
    )
    return _render_rows(corpus.where, renderers, corpus.metadata.columns.doc_id, table)


def _render_rows(
    where: str, renderers: RowRenderers, doc_id_column: str | None, table: Table
) -> list[Row]:
    """Make a row of each record of a table.

    Args:
        where: The path of the YAML, for messages.
        renderers: The functions that make the parts of a row.
        doc_id_column: The column that names a row's document, None for ``doc_id`` if there is one.
        table: The table.

    Returns:
        One row for each record of the table, in its order.

    Raises:
        ConfigError: The table has no such column, or a template fails.
    """
    doc_ids = document_ids(where, doc_id_column, table)
    return [
        _render_row(where, renderers, doc_id, record)
        for record, doc_id in zip(table.records, doc_ids, strict=True)
    ]


def _render_row(where: str, renderers: RowRenderers, doc_id: str, record: TableRow) -> Row:
    """Make a row of FACTOR from the cells of one record of a table.

    Args:
        where: The path of the YAML, for messages.
        renderers: The functions that make each part of the row from the cells.
        doc_id: The name of the row's document.
        record: The cells by column, and the line of the file.

    Returns:
        The row. If it cannot be scored, its ``problem`` says why.

    Raises:
        ConfigError: A template fails, or the one for the choices gives no list.
    """
    cells = record.values
    try:
        prefix = renderers.prefix(cells)
        choices = renderers.choices(cells)
        target = renderers.target(cells)
        contradiction_types = renderers.error_types(cells)
    except (TemplateError, ValueError, TypeError) as error:
        # Templates are compiled before the rows are read, but may still fail at a row.
        raise ConfigError(f"{where}: a template fails at {record.location}: {error}") from error
    if not isinstance(choices, list | tuple):
        raise ConfigError(
            f"{where}: doc_to_choice gives {choices!r:.80} at {record.location}, expected a"
            " list of texts"
        )

    # A choice that is no text becomes None, which makes the row unscorable.
    texts = [cell_text(choice) for choice in choices]
    if isinstance(contradiction_types, list) and contradiction_types:
        # The true completion is the first choice, and has no error type.
        error_types = ["", *(cell_text(error_type) or "" for error_type in contradiction_types)]
    else:
        error_types = [""] * len(texts)
    return make_row(
        location=record.location,
        doc_id=doc_id,
        prefix=cell_text(prefix),
        choices=texts,
        gold=gold_index(target, texts),
        error_types=error_types,
        choice_columns=renderers.choice_columns,
    )


def document_ids(where: str, column: str | None, table: Table, unit: str = "row") -> list[str]:
    """Return the name of each row's document, by which standard errors are clustered.

    Example:
        A table with the cells ``Rome``, empty and ``Rome`` gives ``["Rome", "row 1", "Rome"]``.

    Args:
        where: The path of the YAML, for messages.
        column: The column that holds the names, which must exist. None for the column ``doc_id``,
            which may be missing.
        table: The table.
        unit: The first word of the names of rows without a document, such as ``row``.

    Raises:
        ConfigError: The YAML names a column that the table lacks.
    """
    if column:
        require_column(where, "metadata.columns.doc_id", column, table)
    names = []
    for number, record in enumerate(table.records):
        name = cell_text(record.values.get(column or "doc_id"))
        # A row whose cell is empty is a document of its own.
        names.append(name or f"{unit} {number}")
    return names
