"""The rows of a corpus: a file, a published file or a dataset, read by columns or by templates."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from lm_factuality.benchmarks import find_source
from lm_factuality.benchmarks.factor.corpus import Corpus, FactorColumns, TableYaml
from lm_factuality.benchmarks.factor.rows import (
    Row,
    cell_text,
    compile_cell_template,
    gold_index,
    make_row,
    normalise_spacing,
)
from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.ground.tables import FORMATS, Table, read_table
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.own_data import read_dataset

logger = logging.getLogger(__name__)

PREFIX_COLUMNS = ("turncated_prefixes", "truncated_prefixes", "prefix", "full_prefix")
"""In this order. The first is how the published files spell it. The last is there uncut, and taken
where there is no other."""


@dataclass(frozen=True)
class LoadedData:
    """What a task reads."""

    rows: tuple[Any, ...]
    """Rows or documents. Each has a ``location``, and a ``problem`` if it cannot be scored."""

    provenance: Mapping[str, Any]
    """Where they came from, in a form that results can carry."""

    problems: tuple[str, ...] = ()
    """What is broken about the file."""

    def usable(self, task: str, unit: str) -> tuple[Any, ...]:
        """Return the rows with one warning of those that cannot be scored.

        Raises:
            DataError: The file is broken.
        """
        refuse(self.problems)
        unscorable = [row for row in self.rows if row.problem]
        if unscorable:
            logger.warning(
                "%s: %d of %d %s cannot be scored, the first at %s: %s; 'lm-factuality validate"
                " %s' lists them all",
                task,
                len(unscorable),
                len(self.rows),
                unit,
                unscorable[0].location,
                unscorable[0].problem,
                task,
            )
        return self.rows


def load_corpus(corpus: Corpus, data_dir: str | Path | None = None) -> LoadedData:
    """Load all rows of a corpus, in file order.

    A row that cannot be scored keeps its place and says why. Lines that cannot be read are left out
    and named in ``problems``: whoever scores must refuse such a file.

    Raises:
        ConfigError: Columns or templates do not fit the table.
        DataError: Nothing can be read.
    """
    table, provenance = load_table(corpus, corpus.metadata.source, data_dir)
    rows = rows_from_table(corpus, table)
    return LoadedData(tuple(rows), {**provenance, "rows": len(rows)}, table.problems)


def load_table(
    yaml: TableYaml, source: str | None = None, data_dir: str | Path | None = None
) -> tuple[Table, JsonObject]:
    """Read the table that a YAML names.

    Args:
        source: The name of a published file, which is read instead.
        data_dir: A folder with the published files.

    Returns:
        The table, and where it came from in a form that results can carry.

    Raises:
        ConfigError: It cannot be found as the YAML says.
        DataError: Nothing can be read.
    """
    path = yaml.dataset_path or ""
    provenance: JsonObject
    if source:
        located = locate(find_source(source), data_dir)
        provenance = {
            "source": source,
            "git_blob": located.blob,
            "is_upstream": located.is_upstream,
            "upstream_rows": located.source.rows,
        }
        table = read_table(located.path)
    elif "://" in path:
        raise ConfigError(
            f"{yaml.where}: dataset_path: found the address {path!r}, which is not read; expected"
            " a file on this machine or a dataset on the Hub; download it and name the file"
        )
    elif path.lower().endswith(tuple(FORMATS)):
        file = _local_file(yaml, path)
        table = read_table(file)
        provenance = {"file": file.name, "git_blob": blob_id(file)}
    else:
        table, provenance = read_dataset(
            yaml.where, path, yaml.dataset_name, yaml.dataset_kwargs, yaml.test_split
        )
    if not table.records:
        raise DataError("\n".join(table.problems))
    return table, provenance


def _local_file(yaml: TableYaml, name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_absolute() and yaml.folder is None:
        raise ConfigError(
            f"task {yaml.task}: {name!r} is relative, but lm_eval does not say where a YAML lies"
            " that is given by its path; give --include_path FOLDER and the name of the task, or"
            " an absolute path to the data"
        )
    if yaml.dataset_kwargs:
        raise ConfigError(
            f"{yaml.where}: dataset_kwargs: found {', '.join(yaml.dataset_kwargs)}, expected none"
            " for a file on this machine; CSV is read with commas and UTF-8"
        )
    return (yaml.folder or Path()) / path


def rows_from_table(corpus: Corpus, table: Table) -> list[Row]:
    """Return the rows of a corpus's table.

    Raises:
        ConfigError: The table lacks a column, or a template fails.
    """
    columns = corpus.metadata.columns
    if corpus.doc_to_text is None:
        if corpus.dola_prefix:
            columns = columns.model_copy(update={"prefix": corpus.dola_prefix})
        rows = rows_from_columns(corpus.where, columns, table)
    else:
        templates = {
            "doc_to_text": corpus.dola_prefix or corpus.doc_to_text,
            "doc_to_choice": corpus.doc_to_choice,
            "doc_to_target": 0 if corpus.doc_to_target is None else corpus.doc_to_target,
            "error_types": [],
        }
        rows = _rows_from_templates(corpus.where, templates, columns.doc_id, table)
    if corpus.metadata.spacing == "normalised":
        return [normalise_spacing(row) for row in rows]
    return rows


def column_names(table: Table) -> list[str]:
    """Return the names of all columns, in order."""
    return list(dict.fromkeys(name for record in table.records for name in record.values))


def require_column(where: str, key: str, column: str, table: Table) -> None:
    """Refuse a table that lacks the column that a key of a YAML names."""
    names = column_names(table)
    if column not in names:
        raise ConfigError(
            f"{where}: {key}: no column {column!r}; the table has the columns"
            f" {', '.join(map(repr, names))}"
        )


def rows_from_columns(where: str, columns: FactorColumns, table: Table) -> list[Row]:
    """Return the rows of a table.

    Args:
        where: The YAML, for messages.
        columns: Which column holds what.

    Raises:
        ConfigError: The table lacks a column.
    """
    names = column_names(table)
    prefix = next((name for name in PREFIX_COLUMNS if name in names), "prefix")
    numbered = [name for name in names if re.fullmatch(r"contradiction_\d+", name)]
    numbered.sort(key=lambda name: int(name.removeprefix("contradiction_")))
    contradictions = columns.contradictions or numbered or ["contradiction_0"]
    error_types: Sequence[str] = [f"{name}_type" for name in contradictions]
    if columns.error_types:
        error_types = columns.error_types
    elif not set(error_types) <= set(names):
        error_types = []
    if error_types and len(error_types) != len(contradictions):
        raise ConfigError(
            f"{where}: metadata.columns: {len(error_types)} error_types for"
            f" {len(contradictions)} contradictions"
        )
    templates = {
        "metadata.columns.prefix": columns.prefix or prefix,
        "metadata.columns": [columns.completion, *contradictions],
        "doc_to_target": 0,
        "metadata.columns.error_types": list(error_types),
    }
    return _rows_from_templates(where, templates, columns.doc_id, table)


def _rows_from_templates(
    where: str, templates: Mapping[str, Any], doc_id: str | None, table: Table
) -> list[Row]:
    """Return the rows of a table.

    Args:
        where: The YAML, for messages.
        templates: What makes a row's prefix, its choices, the gold one, and the error types of
            the contradictions, by what messages call it. Without error types, none is known.
        doc_id: The column of documents.
    """
    names = column_names(table)
    renderers = [
        compile_cell_template(where, key, template, names) for key, template in templates.items()
    ]
    rows = []
    for record, document in zip(table.records, document_ids(where, doc_id, table), strict=True):
        try:
            text, choices, target, types = (render(record.values) for render in renderers)
        except (TemplateError, ValueError, TypeError) as error:
            raise ConfigError(f"{where}: a template fails at {record.location}: {error}") from error
        if not isinstance(choices, list | tuple):
            raise ConfigError(
                f"{where}: doc_to_choice gives {choices!r:.80} at {record.location}, expected a"
                " list of texts"
            )
        texts = [cell_text(choice) for choice in choices]
        error_types = ["", *(cell_text(kind) or "" for kind in types)]
        if not types:
            error_types = [""] * len(texts)
        gold = gold_index(target, texts)
        row = make_row(record.location, document, cell_text(text), texts, gold, error_types)
        rows.append(row)
    return rows


def document_ids(where: str, column: str | None, table: Table, unit: str = "row") -> list[str]:
    """Return what each row's standard error is clustered by.

    It is the row's document, or the row itself where the data does not say.

    Raises:
        ConfigError: The YAML names a column that the table has not.
    """
    if column:
        require_column(where, "metadata.columns.doc_id", column, table)
    return [
        cell_text(record.values.get(column or "doc_id")) or f"{unit} {number}"
        for number, record in enumerate(table.records)
    ]
