"""The rows of a corpus: read from a file, the registry or the Hub, then by column names or by
templates."""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from jinja2 import TemplateError

from lm_factuality.benchmarks import find_source
from lm_factuality.benchmarks.factor.corpus import LOADERS, TEMPLATE_KEYS, Corpus
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
from lm_factuality.ground.tables import Record, Table, read_table

logger = logging.getLogger(__name__)
PREFIX_COLUMNS = ("turncated_prefixes", "truncated_prefixes", "prefix", "full_prefix")
"""In this order. The first is how the published files spell it; the last is there uncut, and taken
where there is no other."""


class Item(Protocol):
    @property
    def location(self) -> str: ...

    @property
    def problem(self) -> str: ...


AnyItem = TypeVar("AnyItem", bound=Item)


@dataclass(frozen=True)
class Loaded(Generic[AnyItem]):
    """The rows of a corpus, where they came from in a form that results can carry, and what is
    broken about the file."""

    rows: tuple[AnyItem, ...]
    provenance: Mapping[str, Any]
    problems: tuple[str, ...] = ()

    def usable(self, task: str, what: str) -> tuple[AnyItem, ...]:
        """The rows, once a broken file is refused, with one warning of those that cannot be
        scored."""
        refuse(self.problems)
        if bad := [row for row in self.rows if row.problem]:
            where = (
                f"the first at {bad[0].location}: {bad[0].problem}; 'lm-factuality validate {task}'"
                " lists them all"
            )
            logger.warning(
                "%s: %d of %d %s cannot be scored, %s", task, len(bad), len(self.rows), what, where
            )
        return self.rows

    def all_problems(self, target: str, suspicions: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Those of the file, of rows that cannot be scored, the ``suspicions`` (place, what), and
        rows that are not there."""
        found = [
            *self.problems,
            *(f"{row.location}: {row.problem}" for row in self.rows if row.problem),
        ]
        found += [f"{place}: {what}" for place, what in suspicions]
        count, expected = self.provenance.get("rows"), self.provenance.get("upstream_rows")
        if expected not in (None, count):
            found.append(f"{target}: {count} rows, the published file has {expected}")
        return tuple(dict.fromkeys(found))


def load_corpus(corpus: Corpus, data_dir: str | Path | None = None) -> Loaded[Row]:
    """All rows of ``corpus``, in file order; one that cannot be scored keeps its place and says
    why. Lines that cannot be read are left out and named in ``problems``: whoever scores must
    refuse such a file. Raises ConfigError: columns or templates that the table does not fit. Raises
    DataError: a file of which nothing can be read."""
    table, provenance = find_table(corpus, data_dir)
    rows = table_rows(corpus, table)
    return Loaded(tuple(rows), {**provenance, "rows": len(rows)}, table.problems)


def table_rows(corpus: Corpus, table: Table) -> list[Row]:
    records = list(table.records)
    names = column_names(table)
    build = _rows_from_templates if corpus.templates else _rows_from_columns
    rows = build(corpus, records, names)
    return [normalise_spacing(row) for row in rows] if corpus.normalise_spacing else rows


def column_names(table: Table) -> list[str]:
    return list(dict.fromkeys(name for record in table.records for name in record.values))


def find_table(corpus: Corpus, data_dir: str | Path | None = None) -> tuple[Table, dict[str, Any]]:
    """The table of ``corpus`` and where it came from, in a form that results can carry. Raises as
    ``load_corpus`` does."""
    name = None if corpus.source else _split_file(corpus)
    if corpus.source:
        located = locate(find_source(corpus.source), data_dir)
        provenance = {
            "source": corpus.source,
            "git_blob": located.blob,
            "is_upstream": located.is_upstream,
        }
        table, provenance["upstream_rows"] = read_table(located.path), located.source.rows
    elif corpus.dataset_path in LOADERS and name is not None and "://" not in name:
        path = _local_file(corpus, name)
        table, provenance = read_table(path), {"file": path.name, "git_blob": blob_id(path)}
    else:
        table, provenance = _hub_table(corpus)
    if not table.records:
        raise DataError("\n".join(table.problems))
    return table, provenance


def _local_file(corpus: Corpus, name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_absolute() and corpus.folder is None:
        raise ConfigError(
            f"task {corpus.task}: {name!r} is relative, but lm_eval does not say where a YAML lies"
            " that is given by its path; give --include_path FOLDER and the name of the task, or"
            " an absolute path to the data"
        )
    if corpus.hub_options:
        raise ConfigError(
            f"{corpus.where}: dataset_kwargs.{next(iter(corpus.hub_options))}: for a file on this"
            " machine expected data_files alone; CSV is read with commas and UTF-8"
        )
    return (corpus.folder or Path()) / path


def _split_file(corpus: Corpus) -> str | None:
    if corpus.data_files is None or isinstance(corpus.data_files, str):
        return corpus.data_files
    where = f"{corpus.where}: dataset_kwargs.data_files"
    if not isinstance(corpus.data_files, Mapping):
        raise ConfigError(f"{where}: expected a file name or a mapping of split to file")
    _check_split(corpus, "data_files", corpus.data_files)
    name = corpus.data_files[corpus.test_split]
    if not isinstance(name, str):
        raise ConfigError(f"{where}.{corpus.test_split}: found {name!r}, expected one file name")
    return name


def _check_split(corpus: Corpus, where: str, splits: Iterable[str]) -> None:
    if corpus.test_split not in splits:
        raise ConfigError(
            f"{corpus.where}: test_split is {corpus.test_split!r}, but {where} has the splits"
            f" {', '.join(splits)}"
        )


def _hub_table(corpus: Corpus) -> tuple[Table, dict[str, Any]]:
    import datasets

    options = dict(corpus.hub_options)
    if corpus.data_files is not None:
        one = isinstance(corpus.data_files, str)  # which the loader would call the split "train"
        options["data_files"] = {corpus.test_split: corpus.data_files} if one else corpus.data_files
    try:
        found = datasets.load_dataset(corpus.dataset_path, corpus.dataset_name, **options)
    except (
        Exception
    ) as error:  # the loader raises some twenty kinds of error, most of them without the name
        raise DataError(
            f"{corpus.where}: dataset {corpus.dataset_path!r} cannot be loaded: {error}"
        ) from error
    if isinstance(found, Mapping):
        _check_split(corpus, str(corpus.dataset_path), found)
        found = found[corpus.test_split]
    name = f"{corpus.dataset_path}[{corpus.test_split}]"
    records = [
        Record(f"{name}, row {number}", dict(values))
        for number, values in enumerate(found, start=1)
    ]
    problems = () if records else (f"{name}: no rows; expected at least one",)
    return Table(tuple(records), problems), {
        "dataset": corpus.dataset_path,
        "fingerprint": getattr(found, "_fingerprint", None),
    }


def _clusters(corpus: Corpus, records: list[Record], names: list[str]) -> list[str]:
    """What each row's standard error is clustered by: its document, or the row itself where the
    data does not say. Raises ConfigError: the YAML names a column of documents that the table has
    not."""
    doc_id = corpus.columns.doc_id or "doc_id"
    if corpus.columns.doc_id and doc_id not in names:
        raise ConfigError(
            f"{corpus.where}: metadata.columns.doc_id: no column {doc_id!r}; the table has the"
            f" columns {', '.join(map(repr, names))}"
        )
    return [
        cell_text(record.values.get(doc_id)) or f"row {number}"
        for number, record in enumerate(records)
    ]


def _rows_from_columns(corpus: Corpus, records: list[Record], names: list[str]) -> list[Row]:
    columns = corpus.columns
    prefix = columns.prefix or next((name for name in PREFIX_COLUMNS if name in names), None)
    contradictions = columns.contradictions or tuple(
        sorted(
            (name for name in names if re.fullmatch(r"contradiction_\d+", name)),
            key=lambda name: int(name[14:]),
        )
    )
    error_types = columns.error_types or tuple(f"{name}_type" for name in contradictions)
    if columns.error_types is None and not all(name in names for name in error_types):
        error_types = ()
    wanted = [*([prefix] if prefix else []), columns.completion, *contradictions, *error_types]
    problems = (
        [] if prefix else [f"no column of prefixes (one of {', '.join(map(repr, PREFIX_COLUMNS))})"]
    )
    problems += [f"no column {name!r}" for name in wanted if name not in names]
    if not contradictions:
        problems.append("no columns contradiction_0, contradiction_1, ...")
    if error_types and len(error_types) != len(contradictions):
        problems.append(f"{len(error_types)} error_types for {len(contradictions)} contradictions")
    if problems:
        raise ConfigError(
            f"{corpus.where}: {'; '.join(problems)}; the table has the columns"
            f" {', '.join(map(repr, names))}. Rename them or say in metadata.columns which is"
            " which."
        )
    rows = []
    for record, cluster in zip(records, _clusters(corpus, records, names), strict=True):
        values = record.values
        choices = [cell_text(values.get(name)) for name in (columns.completion, *contradictions)]
        types = (
            ["", *(cell_text(values.get(name)) or "" for name in error_types)]
            if error_types
            else [""] * len(choices)
        )
        rows.append(
            make_row(
                record.location, cluster, cell_text(values.get(prefix or "")), choices, 0, types
            )
        )
    return rows


def _rows_from_templates(corpus: Corpus, records: list[Record], names: list[str]) -> list[Row]:
    templates = {"doc_to_target": 0, **corpus.templates}
    missing = [key for key in TEMPLATE_KEYS if key not in templates]
    if missing:
        raise ConfigError(
            f"{corpus.where}: {', '.join(missing)} missing; give doc_to_text and doc_to_choice"
            " together"
        )
    ignored = [
        key
        for key in ("prefix", "contradictions", "error_types")
        if getattr(corpus.columns, key) is not None
    ]
    if ignored:
        raise ConfigError(
            f"{corpus.where}: metadata.columns.{ignored[0]} and doc_to_text say the same thing"
            " twice; keep one"
        )
    render = {key: renderer(corpus.where, key, templates[key], names) for key in TEMPLATE_KEYS}
    rows = []
    for record, cluster in zip(records, _clusters(corpus, records, names), strict=True):
        try:
            text, choices, target = (render[key](record.values) for key in TEMPLATE_KEYS)
        except (TemplateError, ValueError, SyntaxError, TypeError) as error:
            raise ConfigError(
                f"{corpus.where}: a template fails at {record.location}: {error}"
            ) from error
        if not isinstance(choices, list | tuple):
            found = f"{choices!r:.80} at {record.location}"
            raise ConfigError(
                f"{corpus.where}: doc_to_choice gives {found}, expected a list of texts"
            )
        texts = [cell_text(choice) for choice in choices]
        gold = gold_index(target, texts)
        rows.append(
            make_row(record.location, cluster, cell_text(text), texts, gold, [""] * len(texts))
        )
    return rows
