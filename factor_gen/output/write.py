"""Writes the files of a benchmark: rows as they come, all files whole or none.

The rows are written as CSV and as Parquet: the authors' columns, and for each contradiction how it
came about. :mod:`factor_gen.pipeline` calls :func:`write_benchmark`.
"""

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow
import pyarrow.parquet
import yaml
from tqdm import tqdm

from factor_gen.choose import Chosen
from factor_gen.output.card import Figures, Provenance, dataset_card, models, versions
from factor_gen.output.counts import Counts, stage_and_reason
from factor_gen.output.folder import FORMAT, MANIFEST, PART, file_names, show
from factor_gen.records import CUT_PREFIX, CUT_WORDS, PREFIX, Example, last_words, whole
from factor_gen.settings import BuildSettings
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_json, write_text

Cell: TypeAlias = str | float | None

_NUMBERS = ("nli", "fluency")
# a row group of Parquet is held in memory until it has so many rows or characters
_GROUP_ROWS = 1000
_GROUP_CHARACTERS = 16 << 20
# Quoted text cannot name a class, so the head is written as it is.
_HEAD = """\
# Made by factor-gen; run it with: lm-factuality run --model hf --model_args pretrained=MODEL --tasks {name} --include_path FOLDER
class: !function lm_factuality.benchmarks.factor.task.FactorTask
"""  # noqa: E501
_REASONS = 5  # that the error about a build without rows names


def write_benchmark(
    settings: BuildSettings,
    items: Iterable[Chosen | Example],
    out: Path,
    provenance: Provenance,
    audit: Callable[[], Figures] = dict,
) -> Counts:
    """Write a benchmark with its task, card and manifest.

    Files of an earlier build stay as they are until all new ones are complete.

    Args:
        settings: The settings of the build.
        items: Rows, and the documents that gave none.
        out: The folder of the benchmark.
        provenance: What the card and the manifest say beside the counts.
        audit: Called once all rows are written, for figures of the card and the manifest.

    Returns:
        What became of the documents.

    Raises:
        DataError: No document gave a row, or ``out`` cannot be written.
    """
    part = out / PART
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            counts = _write_rows(settings, items, part)
            if not counts.rows:
                raise DataError(_no_rows(counts))
            _write_descriptions(settings, part, provenance, counts, audit())
            show(out)
        finally:
            if not (part / MANIFEST).is_file():
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"{out}: cannot be written: {error}; free some space or choose another folder"
        ) from error
    return counts


def _write_rows(settings: BuildSettings, items: Iterable[Chosen | Example], folder: Path) -> Counts:
    """Write the rows as CSV and Parquet, and the documents that gave none as JSON lines.

    In CSV, all text stands in quotes, so that lone carriage returns survive; numbers do not, and a
    missing value is ``""``.
    """
    names = file_names(settings)
    kinds = columns(settings.choose.contradictions)
    types = {str: pyarrow.string(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    counts = Counts()
    group: list[Mapping[str, Cell]] = []
    characters = 0
    with (
        (folder / names["csv"]).open("w", encoding="utf-8", newline="") as csv_file,
        (folder / names["unused"]).open("w", encoding="utf-8", newline="\n") as unused,
        pyarrow.parquet.ParquetWriter(
            folder / names["parquet"], schema, compression="zstd"
        ) as parquet,
    ):
        table = csv.DictWriter(
            csv_file, list(kinds), lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
        )
        table.writeheader()
        for item in tqdm(items, desc="write", unit=" documents", delay=2):
            counts.add(item)
            if isinstance(item, Example):
                unused.write(_unused_line(item))
                continue
            row = make_row(item)
            table.writerow(row)
            group.append(row)
            characters += sum(len(cell) for cell in row.values() if isinstance(cell, str))
            if len(group) >= _GROUP_ROWS or characters >= _GROUP_CHARACTERS:
                parquet.write_table(pyarrow.Table.from_pylist(group, schema=schema))
                group = []
                characters = 0
        if group:
            parquet.write_table(pyarrow.Table.from_pylist(group, schema=schema))
    return counts


def columns(contradictions: int) -> dict[str, type]:
    """Return the name of each column, in order, with the type of its cells."""
    names = [f"contradiction_{index}" for index in range(contradictions)]
    kinds: dict[str, type] = dict.fromkeys(
        ["doc_id", PREFIX, CUT_PREFIX, "completion", *names], str
    )
    for suffix in ("type", "edit", "generator", *_NUMBERS):
        for name in names:
            kinds[f"{name}_{suffix}"] = float if suffix in _NUMBERS else str
    return kinds


def make_row(chosen: Chosen) -> dict[str, Cell]:
    """Return the cells of a row by column; a filter that was off leaves its cells empty."""
    prefix = whole(chosen.example.prefix)
    row: dict[str, Cell] = {
        "doc_id": whole(chosen.example.doc_id),
        PREFIX: prefix,
        CUT_PREFIX: last_words(prefix, CUT_WORDS),
        "completion": whole(chosen.example.completion),
    }
    for index, candidate in enumerate(chosen.contradictions):
        name = f"contradiction_{index}"
        row[name] = whole(candidate.text)
        row[f"{name}_type"] = candidate.type
        row[f"{name}_edit"] = whole(candidate.edit)
        row[f"{name}_generator"] = candidate.generator
        row[f"{name}_nli"] = candidate.contradiction
        row[f"{name}_fluency"] = candidate.fluency
    return row


def _unused_line(example: Example) -> str:
    stage, reason = stage_and_reason(example)
    doc_id = whole(example.doc_id)
    line = {"doc_id": doc_id, "stage": stage, "reason": reason, "draws": example.draws}
    return json.dumps(line, ensure_ascii=False) + "\n"


def _no_rows(counts: Counts) -> str:
    reasons = [
        f"{count} x {stage}: {reason}"
        for (stage, reason), count in counts.unused.most_common(_REASONS)
    ]
    return (
        f"no rows: none of the {counts.documents} documents gave one ({'; '.join(reasons)}); a"
        " document needs some text and then a sentence that can be made wrong"
    )


def _write_descriptions(
    settings: BuildSettings,
    folder: Path,
    provenance: Provenance,
    counts: Counts,
    figures: Figures,
) -> None:
    """Write the task, the dataset card, and last the manifest of all files."""
    names = file_names(settings)
    write_text(folder / names["task"], _task_yaml(settings))
    write_text(folder / names["card"], dataset_card(settings, provenance, counts, figures))
    num_rows = {
        "csv": counts.rows,
        "parquet": counts.rows,
        "unused": counts.documents - counts.rows,
    }
    files = []
    for kind, name in names.items():
        if kind == "manifest":
            continue
        path = folder / name
        entry = {"name": name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
        if kind in num_rows:
            entry["rows"] = num_rows[kind]
        files.append(entry)
    default_command = f"factor-gen build {settings.name}.yaml --out {settings.name}"
    manifest = {
        "format": FORMAT,
        "name": settings.name,
        "seed": settings.seed,
        "command": provenance.command or default_command,
        "settings": provenance.settings,
        "corpus": provenance.corpus,
        "models": models(provenance.stages),
        "stages": provenance.stages,
        "versions": versions(settings),
        "counts": counts.to_json(),
        "audit": figures,
        "files": files,
    }
    write_json(folder / MANIFEST, manifest)


def _task_yaml(settings: BuildSettings) -> str:
    """Return the task that lm_eval runs.

    It needs nothing but the rows beside it, so that the folder can be moved. It reads the whole
    prefix and cuts it to the window in tokens of the model. Prefix and completion are a document's
    text as it stands, with any space between the two in the prefix, as in the authors' files.
    """
    content = {
        "task": settings.name,
        "dataset_path": f"{settings.name}.csv",
        "output_type": "multiple_choice",
        "test_split": "test",
        "num_fewshot": 0,
        "metadata": {
            "version": 1.0,
            "language": settings.corpus.language,
            "license": settings.corpus.license,
            "window": 1024,
            "join": "authors",
            "columns": {"prefix": PREFIX},
        },
    }
    head = _HEAD.format(name=settings.name)
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
