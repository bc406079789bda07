"""The rows of a corpus: a file, a published file or a dataset, read by columns or by templates."""

import ast
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from lm_factuality.benchmarks import find_source
from lm_factuality.benchmarks.factor.corpus import TEMPLATE_KEYS, Columns, Corpus, TableYaml
from lm_factuality.benchmarks.factor.rows import (
    Row,
    cell_text,
    gold_index,
    make_row,
    normalise_spacing,
    renderer,
)
from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.ground.tables import FORMATS, Table, TableRow, read_table

logger = logging.getLogger(__name__)

PREFIX_COLUMNS = ("turncated_prefixes", "truncated_prefixes", "prefix", "full_prefix")
"""In this order. The first is how the published files spell it. The last is there uncut, and taken
where there is no other."""

# What the datasets library calls the reader of a file.
_LOADERS = {".csv": "csv", ".jsonl": "json", ".parquet": "parquet"}


@dataclass(frozen=True)
class Loaded:
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

    def all_problems(self, target: str, suspicions: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the problems of the file and of its rows, suspicions, and rows that are missing.

        Args:
            target: What the user calls the task.
            suspicions: The place and the description of each.
        """
        problems = list(self.problems)
        problems += [f"{row.location}: {row.problem}" for row in self.rows if row.problem]
        problems += [f"{place}: {suspicion}" for place, suspicion in suspicions]
        count = self.provenance.get("rows")
        expected = self.provenance.get("upstream_rows")
        if expected not in (None, count):
            problems.append(f"{target}: {count} rows, the published file has {expected}")
        return tuple(dict.fromkeys(problems))


def load_corpus(corpus: Corpus, data_dir: str | Path | None = None) -> Loaded:
    """Load all rows of a corpus, in file order.

    A row that cannot be scored keeps its place and says why. Lines that cannot be read are left out
    and named in ``problems``: whoever scores must refuse such a file.

    Raises:
        ConfigError: Columns or templates do not fit the table.
        DataError: Nothing can be read.
    """
    table, provenance = find_table(corpus, corpus.metadata.source, data_dir)
    rows = table_rows(corpus, table)
    return Loaded(tuple(rows), {**provenance, "rows": len(rows)}, table.problems)


def find_table(
    yaml: TableYaml, source: str | None = None, data_dir: str | Path | None = None
) -> tuple[Table, dict[str, Any]]:
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
    provenance: dict[str, Any]
    if source:
        located = locate(find_source(source), data_dir)
        provenance = {
            "source": source,
            "git_blob": located.blob,
            "is_upstream": located.is_upstream,
            "upstream_rows": located.source.rows,
        }
        table = read_table(located.path)
    elif path.lower().endswith(tuple(FORMATS)) and "://" not in path:
        file = _local_file(yaml, path)
        table = read_table(file)
        provenance = {"file": file.name, "git_blob": blob_id(file)}
    elif path in _LOADERS.values():
        raise ConfigError(
            f"{yaml.where}: dataset_path: found {path!r}, which reads files; name the file itself,"
            " such as rows.csv"
        )
    else:
        table, provenance = _load_dataset(yaml, path)
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


def _load_dataset(yaml: TableYaml, path: str) -> tuple[Table, dict[str, Any]]:
    """Load a dataset of the Hub, or a file by its address."""
    import datasets

    options = dict(yaml.dataset_kwargs or {})
    if isinstance(options.get("data_files"), str):
        # The loader would call the split of a single file "train".
        options["data_files"] = {yaml.test_split: options["data_files"]}
    loader = _LOADERS.get(Path(path).suffix.lower())
    if loader:
        options["data_files"] = {yaml.test_split: path}
        path = loader
    try:
        dataset = datasets.load_dataset(path, yaml.dataset_name, **options)
    # The loader raises some twenty kinds of error, most of them without the name.
    except Exception as error:
        raise DataError(f"{yaml.where}: dataset {path!r} cannot be loaded: {error}") from error
    if isinstance(dataset, Mapping):
        if yaml.test_split not in dataset:
            raise ConfigError(
                f"{yaml.where}: test_split is {yaml.test_split!r}, but {path} has the splits"
                f" {', '.join(dataset)}"
            )
        dataset = dataset[yaml.test_split]
    name = f"{path}[{yaml.test_split}]"
    records = [
        TableRow(f"{name}, row {number}", dict(values))
        for number, values in enumerate(dataset, start=1)
    ]
    problems = () if records else (f"{name}: no rows; expected at least one",)
    fingerprint = getattr(dataset, "_fingerprint", None)
    return Table(tuple(records), problems), {"dataset": path, "fingerprint": fingerprint}


def table_rows(corpus: Corpus, table: Table) -> list[Row]:
    """Return the rows of a corpus's table."""
    if corpus.templates:
        rows = _rows_from_templates(corpus, table)
    else:
        rows = rows_from_columns(corpus.where, corpus.metadata.columns, table)
    if corpus.metadata.spacing == "normalised":
        return [normalise_spacing(row) for row in rows]
    return rows


def column_names(table: Table) -> list[str]:
    """Return the names of all columns, in order."""
    return list(dict.fromkeys(name for record in table.records for name in record.values))


def rows_from_columns(where: str, columns: Columns, table: Table) -> list[Row]:
    """Return the rows of a table.

    Args:
        where: The YAML, for messages.
        columns: Which column holds what.

    Raises:
        ConfigError: The table lacks a column.
    """
    names = column_names(table)
    prefix = columns.prefix or next((name for name in PREFIX_COLUMNS if name in names), "prefix")
    numbered = [name for name in names if re.fullmatch(r"contradiction_\d+", name)]
    numbered.sort(key=lambda name: int(name.removeprefix("contradiction_")))
    contradictions = columns.contradictions or numbered or ["contradiction_0"]
    error_types = columns.error_types or [f"{name}_type" for name in contradictions]
    if columns.error_types is None and not set(error_types) <= set(names):
        error_types = []
    choices = [columns.completion, *contradictions]
    missing = [name for name in (prefix, *choices, *error_types) if name not in names]
    if missing:
        raise ConfigError(
            f"{where}: no column {', '.join(map(repr, missing))}; the table has the columns"
            f" {', '.join(map(repr, names))}. Rename them or say in metadata.columns which is"
            " which."
        )
    if error_types and len(error_types) != len(contradictions):
        raise ConfigError(
            f"{where}: metadata.columns: {len(error_types)} error_types for"
            f" {len(contradictions)} contradictions"
        )
    ids = document_ids(where, columns.doc_id, table)
    rows = []
    for record, doc_id in zip(table.records, ids, strict=True):
        cells = {name: cell_text(value) for name, value in record.values.items()}
        types = [cells.get(name) or "" for name in error_types] or [""] * len(contradictions)
        texts = [cells.get(name) for name in choices]
        rows.append(make_row(record.location, doc_id, cells.get(prefix), texts, 0, ["", *types]))
    return rows


def document_ids(where: str, column: str | None, table: Table, unit: str = "row") -> list[str]:
    """Return what each row's standard error is clustered by.

    It is the row's document, or the row itself where the data does not say.

    Raises:
        ConfigError: The YAML names a column that the table has not.
    """
    names = column_names(table)
    if column and column not in names:
        raise ConfigError(
            f"{where}: metadata.columns.doc_id: no column {column!r}; the table has the"
            f" columns {', '.join(map(repr, names))}"
        )
    return [
        cell_text(record.values.get(column or "doc_id")) or f"{unit} {number}"
        for number, record in enumerate(table.records)
    ]


def _rows_from_templates(corpus: Corpus, table: Table) -> list[Row]:
    where = corpus.where
    columns = corpus.metadata.columns
    names = column_names(table)
    templates = {"doc_to_target": 0, **corpus.templates}
    if len(templates) < len(TEMPLATE_KEYS):
        raise ConfigError(
            f"{where}: found {', '.join(corpus.templates)} alone; give doc_to_text and"
            " doc_to_choice together"
        )
    twice = columns.model_fields_set - {"doc_id"}
    if twice:
        raise ConfigError(
            f"{where}: metadata.columns.{min(twice)} and doc_to_text say the same thing twice; keep"
            " one"
        )
    renderers = [renderer(where, key, templates[key], names) for key in TEMPLATE_KEYS]
    ids = document_ids(where, columns.doc_id, table)
    rows = []
    for record, doc_id in zip(table.records, ids, strict=True):
        try:
            text, choices, target = (render(record.values) for render in renderers)
            if isinstance(choices, str) and choices.lstrip().startswith("["):
                choices = ast.literal_eval(choices)  # lm_eval's other way to write a list
        except (TemplateError, ValueError, SyntaxError, TypeError) as error:
            raise ConfigError(f"{where}: a template fails at {record.location}: {error}") from error
        if not isinstance(choices, list | tuple):
            raise ConfigError(
                f"{where}: doc_to_choice gives {choices!r:.80} at {record.location}, expected a"
                " list of texts"
            )
        texts = [cell_text(choice) for choice in choices]
        gold = gold_index(target, texts)
        types = [""] * len(texts)
        rows.append(make_row(record.location, doc_id, cell_text(text), texts, gold, types))
    return rows
