"""Scores corrected for the judge by people's labels (``lm_factuality.scores.ppi``)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lm_factuality import __version__
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.declaration import Benchmark, Score
from lm_factuality.benchmarks.pairs import row_of, value_of
from lm_factuality.benchmarks.rows import Counts
from lm_factuality.ground.errors import DataError, listed
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import Corrected, TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import Key, Labels, read_key, read_labels
from lm_factuality.people.sheet import units_of_run
from lm_factuality.results.read import Correction
from lm_factuality.scores.ppi import Units, estimate

FEWEST = 10  # labelled samples with a part in a score, from which it is corrected
_UNSCORED = "without a verdict, and with nothing to ask people"
_UNDECIDED = (
    "drawn, but people do not decide all of their items (skipped, tied, not answered or not asked)"
)


@dataclass(frozen=True)
class Row:
    """A sample: its parts in scores as judged and, where people decide it, by people (else None);
    how it was drawn. With nothing to ask (``is_asked``), what people say is what the judge says."""

    cluster: str
    stratum: str
    weight: float
    is_asked: bool
    judged: Mapping[str, Counts]
    people: Mapping[str, Counts] | None


def correct(result: TaskResult, key_file: Path, label_files: Sequence[Path]) -> Correction:
    """The scores of a task corrected by the labels on a sheet that was drawn from its samples.
    Raises DataError: files that cannot be used, a sheet of other samples, or labels that decide no
    sample."""
    key, benchmark = read_key(key_file), find_benchmark(result.kind)
    if benchmark is None or result.samples is None:
        raise DataError(f"{result.task}: has no samples that people can be asked about")
    rows, left_out = rows_of(benchmark, result, key, read_labels(label_files, key))
    if not any(row.is_asked and row.people is not None for row in rows):
        why = (
            "; ".join(f"{count} {reason}" for reason, count in left_out.items())
            or "none of its samples was drawn"
        )
        raise DataError(
            f"{', '.join(map(str, label_files))}: decide no sample of {result.task}: {why}"
        )
    scores: dict[str, Corrected] = {}
    without: dict[str, str] = {}
    unchanged = benchmark.people.unchanged if benchmark.people else ()
    named = {name for row in rows for name in (*row.judged, *(row.people or ()))} & set(
        result.metrics
    ) - set(unchanged)
    for name in sorted(named):
        score = benchmark.score(name)
        if score is not None and score.measure is not None:
            found = _corrected(score, name, rows, left_out.get(_UNSCORED, 0))
            if isinstance(found, str):
                without[name] = found
            else:
                scores[name] = found
    about: Any = {
        "suite_version": __version__,
        "task": result.task,
        "samples": sha256_of(result.samples),
    }
    about |= {"key": sha256_of(key_file), "labels": tuple(map(sha256_of, label_files))}
    return Correction(**about, scores=scores, left_out=left_out, without=without)


def rows_of(
    benchmark: Benchmark, result: TaskResult, key: Key, labels: Labels
) -> tuple[list[Row], dict[str, int]]:
    """The samples of a task, and how many are left out, by the reason. Raises DataError: the sheet
    is not of these samples."""
    people, shown = benchmark.people, benchmark.page.samples
    if people is None or shown is None or result.samples is None:
        raise DataError(f"{result.task}: has no samples that people can be asked about")
    of = result.task, sha256_of(result.samples)
    source = next(
        (place for place, each in enumerate(key.sources) if (each.task, each.samples_sha256) == of),
        None,
    )
    if source is None:
        known = listed(
            [f"{each.samples or each.file} ({each.samples_sha256[:12]})" for each in key.sources]
        )
        found = (
            f"sheet {key.sheet} was not drawn from these samples (SHA-256 {of[1][:12]}), but from"
            f" {known}"
        )
        raise DataError(
            f"{result.samples}: {found}; give the results that the sheet was made of, as they were"
        )
    weights = {each.unit: each.weight for each in key.items if each.source == source}
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    units = units_of_run(benchmark, result, key.sources[source].model)
    for sample, unit in zip(read_samples(result.samples), units, strict=True):
        row, changed = row_of(result, shown, sample), None
        is_asked = bool(unit.items)
        if not is_asked:
            changed = sample
            left_out[_UNSCORED] += row.outcome == "unscored"
        elif unit.key in weights:
            changed = people.relabel(result, sample, labels.decided.get((source, unit.key), {}))
            left_out[_UNDECIDED] += changed is None
        judged = {**row.parts, **shown.sums(sample)}
        said = (
            None
            if changed is None
            else {**row_of(result, shown, changed).parts, **shown.sums(changed)}
        )
        drawn_from = f"{is_asked} {unit.stratum(key.stratify)}"
        rows.append(
            Row(unit.cluster, drawn_from, weights.get(unit.key, 1.0), is_asked, judged, said)
        )
    return rows, dict(+left_out)


def _corrected(score: Score, name: str, rows: Sequence[Row], unscored: int) -> Corrected | str:
    units, asked = units_of(rows, name), np.array([row.is_asked for row in rows])
    number = int(
        (units.labelled & asked & (units.judged.any(axis=1) | units.people.any(axis=1))).sum()
    )
    if number < FEWEST:
        return f"people's answers decide {number} of its samples, expected {FEWEST} at least"
    assert score.measure is not None
    found = estimate(
        units, value_of(score, units.judged.shape[1]), score.measure.low, score.measure.high
    )
    if found is None:
        return "not defined on these labels, or all of them are of one cluster"
    how = f"by people's answers on {number} of {len(rows)} samples"
    return Corrected(
        found.value,
        found.low,
        found.high,
        found.stderr,
        how,
        found.weight,
        number,
        len(rows),
        unscored,
    )


def units_of(rows: Sequence[Row], name: str) -> Units:
    """The parts of the rows in a score."""
    parts = [(row.judged.get(name, ()), (row.people or {}).get(name, ())) for row in rows]
    width = max(len(part) for pair in parts for part in pair)
    judged, people = (np.array([pair[side] or (0.0,) * width for pair in parts]) for side in (0, 1))
    labelled, weights = (
        np.array([row.people is not None for row in rows]),
        np.array([row.weight for row in rows]),
    )
    names = [row.cluster for row in rows], [row.stratum for row in rows]
    clusters, strata = (np.unique(each, return_inverse=True)[1] for each in names)
    return Units(judged, people, labelled, clusters, strata, weights)
