"""Scores corrected for the judge by people's labels (``lm_factuality.ground.ppi``), and how many
labels a width takes."""

import math
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
from lm_factuality.ground.paired import slopes
from lm_factuality.ground.ppi import Units, estimate
from lm_factuality.ground.statistics import Z95, Floats
from lm_factuality.harness.outputs import Corrected, TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import Key, Labels, read_key, read_labels
from lm_factuality.people.sheet import units_of_run
from lm_factuality.results.read import Correction

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


@dataclass(frozen=True)
class Plan:
    """By stratum: units, labels, labels to add; the interval's width ``now``, and the one
    ``reached`` with all these labels."""

    strata: Mapping[str, tuple[int, int, int]]
    now: float
    reached: float


def plan_labels(rows: Sequence[Row], score: Score, width: float) -> Plan:
    """With the variances in ``rows`` that people have labelled in part: the fewest labels, or all
    where even these do not do, and from which strata to draw them (Neyman, 1934).

    To the first order the variance of a corrected score is the one that all labels would leave,
    since the samples are some of many, and for each stratum of N units with n labels N² (1/n - 1/N)
    times the variance of what people say minus lambda times what the judge says. The fewest labels
    go by N times the root of that variance. Raises DataError: these give no interval."""
    units = units_of(rows, score.name)
    is_asked = units.labelled & np.array([row.is_asked for row in rows])
    value = value_of(score, units.judged.shape[1])
    found = estimate(units, value)
    if found is None or is_asked.sum() < 2:
        raise DataError(
            f"{score.name}: not defined on these labels; label more of the sheet's samples"
        )
    own = units.labelled
    slope = slopes(
        value, np.average(units.people[own], axis=0, weights=units.weights[own]) * len(rows)
    )
    rest = (units.people - found.weight * units.judged) @ slope
    names = np.array([row.stratum for row in rows])
    strata = {
        name.partition(" ")[2]: names == name
        for name in sorted({row.stratum for row in rows if row.is_asked})
    }
    sizes, labelled = (
        np.array([(each & side).sum() for each in strata.values()])
        for side in (names == names, own)
    )
    together = np.std(rest[is_asked], ddof=1)  # of strata with less than two labels
    spreads = np.array(
        [
            np.std(rest[each & own], ddof=1) if (each & own).sum() > 1 else together
            for each in strata.values()
        ]
    )
    # Labels on which the judge errs never do not say that it never will: at least as in the
    # interval (lm_factuality.ground.ppi).
    spreads = np.maximum(
        spreads, np.sqrt(np.var((units.people @ slope)[is_asked]) / (labelled + 1))
    )
    if not spreads.any():
        raise DataError(
            f"{score.name}: people say the same of all these samples; label more of them"
        )

    def left(labelled: Floats) -> float:
        return float((sizes**2 * spreads**2 * (1 / labelled - 1 / sizes)).sum())

    floor = max(0.0, found.stderr**2 - left(np.maximum(labelled, 1)))

    def wanted(scale: float) -> Floats:
        return np.asarray(
            np.clip(
                np.ceil(scale * sizes * spreads), np.maximum(labelled, np.minimum(2, sizes)), sizes
            )
        )

    def reached(scale: float) -> float:
        return 2 * Z95 * math.sqrt(floor + left(wanted(scale)))

    low, high = 0.0, 1 / max(float(spreads.min()), 1e-12)
    for _ in range(60):  # their proportion is halved
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) <= width else (middle, high)
    counts = zip(strata, sizes, labelled, wanted(high), strict=True)
    by_stratum = {name: (int(size), int(own), int(most - own)) for name, size, own, most in counts}
    return Plan(by_stratum, 2 * Z95 * found.stderr, reached(high))
