"""Writes the files of a benchmark: rows as they come, all files whole or none."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from tqdm import tqdm

from factor_gen.choose import Chosen
from factor_gen.output.card import Figures, Provenance, dataset_card, models, versions
from factor_gen.output.counts import Counts, stage_and_reason
from factor_gen.output.folder import FORMAT, MANIFEST, file_names, refuse_to_overwrite, show
from factor_gen.output.rows import PREFIX, columns, csv_writer, make_row, parquet_writer
from factor_gen.records import Example, whole
from factor_gen.settings import BuildSettings
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_json, write_text

_PART = ".output.part"  # a folder that files are written in before they are shown
# Quoted text cannot name a class, so the head is written as it is.
_HEAD = """\
# Made by factor-gen; run it with: lm-factuality run --model hf --model_args pretrained=MODEL --tasks {name} --include_path FOLDER
class: !function lm_factuality.benchmarks.factor.task.FactorTask
"""  # noqa: E501
_REASONS = 5  # that the error about a build without rows names

Audit = Callable[[], Figures]


@dataclass(frozen=True)
class Written:
    """What was written: the files by what they are (csv, parquet, task, card, unused, manifest),
    and the counts."""

    files: Mapping[str, Path]
    counts: Counts


def write_benchmark(
    settings: BuildSettings,
    items: Iterable[Chosen | Example],
    out: Path,
    provenance: Provenance,
    audit: Audit | None = None,
) -> Written:
    """Writes ``items`` (rows, and the documents that gave none) to ``out`` with a task, a card and
    a manifest. Rows are written as they come. ``audit`` is asked once all have been; its answer
    goes on the card and into the manifest. Files of an earlier build stay as they are until all new
    ones are complete; then those go that the new one does not replace. Raises DataError: no
    document gave a row, ``out`` cannot be written, or holds what no build wrote where a file would
    go; ValueError: a row has another number of contradictions than the settings say."""
    refuse_to_overwrite(settings, out)
    part = out / _PART
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            counts = _write_all(settings, items, part, provenance, audit)
            files = show(part, out)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"{out}: cannot be written: {error}; free some space or choose another folder"
        ) from error
    return Written({kind: files[name] for kind, name in file_names(settings).items()}, counts)


def _write_all(
    settings: BuildSettings,
    items: Iterable[Chosen | Example],
    folder: Path,
    provenance: Provenance,
    audit: Audit | None,
) -> Counts:
    names = file_names(settings)
    counts = _write_rows(settings, items, folder)
    if not counts.rows:
        raise DataError(_no_rows(counts))
    audited = audit() if audit else None
    write_text(folder / names["task"], _task_yaml(settings))
    write_text(folder / names["card"], dataset_card(settings, provenance, counts, audited))
    rows = {
        names["csv"]: counts.rows,
        names["parquet"]: counts.rows,
        names["unused"]: counts.documents - counts.rows,
    }
    files = [
        {"name": name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
        | ({"rows": rows[name]} if name in rows else {})
        for name, path in ((name, folder / name) for name in names.values() if name != MANIFEST)
    ]
    manifest = {
        "format": FORMAT,
        "name": settings.name,
        "seed": settings.seed,
        "command": (
            provenance.command or f"factor-gen build {settings.name}.yaml --out {settings.name}"
        ),
        "settings": dict(provenance.settings),
        "corpus": dict(provenance.corpus),
        "models": models(provenance.stages),
        "stages": {name: dict(fingerprint) for name, fingerprint in provenance.stages.items()},
        "versions": versions(settings),
        "counts": counts.to_json(),
        "audit": dict(audited) if audited else None,
        "files": files,
    }
    write_json(folder / MANIFEST, manifest)
    return counts


def _write_rows(settings: BuildSettings, items: Iterable[Chosen | Example], folder: Path) -> Counts:
    names, number = file_names(settings), settings.choose.contradictions
    heads = columns(number)
    counts = Counts()
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(csv_writer(folder / names["csv"], heads)),
            stack.enter_context(parquet_writer(folder / names["parquet"], heads)),
        ]
        unused = stack.enter_context(
            (folder / names["unused"]).open("w", encoding="utf-8", newline="\n")
        )
        for item in tqdm(items, desc="write", unit=" documents", delay=2):
            counts.add(item)
            if isinstance(item, Chosen):
                row = make_row(item, number)
                for write in writers:
                    write(row)
            else:
                stage, reason = stage_and_reason(item)
                line = {
                    "doc_id": whole(item.doc_id),
                    "stage": stage,
                    "reason": reason,
                    "draws": item.draws,
                }
                unused.write(json.dumps(line, ensure_ascii=False) + "\n")
    return counts


def _task_yaml(settings: BuildSettings) -> str:
    """The task that lm_eval runs: in need of nothing but the rows beside it, so that the folder can
    be moved. It reads the whole prefix and cuts it to the window in tokens of the model. Prefix and
    completion are a document's text as it stands, with any space between the two in the prefix, as
    in the authors' files."""
    about = {"language": settings.corpus.language, "license": settings.corpus.license}
    content = {
        "task": settings.name,
        "dataset_path": f"{settings.name}.csv",
        "output_type": "multiple_choice",
        "test_split": "test",
        "num_fewshot": 0,
        "metadata": {
            "version": 1.0,
            **about,
            "window": 1024,
            "join": "authors",
            "columns": {"prefix": PREFIX},
        },
    }
    return _HEAD.format(name=settings.name) + yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True
    )


def _no_rows(counts: Counts) -> str:
    reasons = [
        f"{count} x {stage}: {reason}"
        for (stage, reason), count in counts.unused.most_common(_REASONS)
    ]
    return (
        f"no rows: none of the {counts.documents} documents gave one ({'; '.join(reasons)}); a"
        " document needs some text and then a sentence that can be made wrong"
    )
