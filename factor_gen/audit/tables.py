"""An audit as tables: titles, columns and cells for the terminal and for a dataset's card."""

import math
from collections import Counter
from collections.abc import Sequence

from factor_gen.audit.baselines import CENTRAL
from factor_gen.audit.records import (
    COMPARES,
    FEWEST,
    LEAST_EFFECT,
    PAPER,
    BenchmarkAudit,
    BlindBaseline,
    EstimatedShare,
    Property,
)
from lm_factuality.benchmarks.declaration import ComparisonTable
from lm_factuality.ground.console import format_number, plural

_PLACES = 3  # locations that a reason names
_NOTES = (
    "p: one-sided, of pairs, against random signs for each document; corrected by Holm for all"
    " baselines that count together. Ties count half. What learns is tested where it learns"
    " from earlier fifths of the documents alone",
    f"{COMPARES}: not counted against the file: small edits of one sentence leave the sentence"
    " itself in their middle, so that comparing the choices with each other finds it; a model that"
    " scores them one by one does not",
)


def conclusion(audit: BenchmarkAudit, name: str) -> list[str]:
    """Return what a reader should know of the file, the most important line first."""
    lines = [f"{name}: {_strongest_leak(audit)}."]
    if audit.sampled:
        even = f", not {format_number(audit.even)}" if audit.floor.high < audit.even else ""
        central = audit.baseline(CENTRAL)
        advice = ""
        if central.is_above_chance:
            advice = ": never show a model all of them, or build with choose: {hide_centre: true}"
        lines.append(
            "Of all choices of a row, knowing nothing picks the true one in"
            f" {_with_interval(audit.floor)}{even}. Comparing them finds it in"
            f" {format_number(central.picks.value)}{advice}."
        )
    mean_distance = format_number(audit.distance.mean, ".1f")
    deviation = format_number(audit.distance.deviation, ".1f")
    distance = f"{mean_distance} ± {deviation}"
    lines.append(f"{_flagged(audit)} rows should be looked at; edit distance {distance} words.")
    return lines


def _strongest_leak(audit: BenchmarkAudit) -> str:
    tested = [
        baseline
        for baseline in audit.baselines
        if baseline.family != COMPARES and not math.isnan(baseline.corrected)
    ]
    if not tested:
        return (
            f"{audit.documents:,} documents are too few to tell what it gives away; {FEWEST} are"
            " needed"
        )
    strongest = max(audit.leaks or tested, key=lambda baseline: baseline.pairs.value)
    pairs = strongest.pairs
    figures = (
        f"{strongest.name}, {format_number(pairs.value)} of pairs ({pairs.interval}; chance 50%,"
        f" {_p(strongest)})"
    )
    if not audit.leaks:
        return f"no blind baseline tells true completions from contradictions; the best, {figures}"
    others = len(audit.leaks) - 1
    more = f"; {plural(others, 'other blind baseline')} above chance" if others else ""
    return f"gives true completions away: {figures}{more}"


def _p(baseline: BlindBaseline) -> str:
    if baseline.corrected < 0.001:
        return "p < 0.001"
    return f"p = {format_number(baseline.corrected, '.3f')}"


def _with_interval(share: EstimatedShare) -> str:
    return f"{format_number(share.value)} ({share.interval})"


def _flagged(audit: BenchmarkAudit) -> str:
    return f"{len({flag.index for flag in audit.flags}):,} of {audit.rows:,}"


def baseline_table(audit: BenchmarkAudit, name: str) -> ComparisonTable:
    """Return how many pairs each baseline wins, and how often it picks the true one of all."""
    rows = [
        (
            baseline.name,
            baseline.family,
            format_number(baseline.pairs.value),
            baseline.pairs.interval,
            format_number(baseline.picks.value),
            baseline.picks.interval,
            verdict(baseline),
        )
        for baseline in audit.baselines
    ]
    chance = (
        f"chance: 50% of pairs; of all choices {_with_interval(audit.floor)}, which random word"
        " weights pick"
    )
    title = (
        f"{name}: {audit.rows:,} rows of {audit.documents:,} documents; baselines on"
        f" {audit.sampled:,} rows"
    )
    pairs = ("#pairs won", "#95% interval")
    picks = ("#of all choices", "#95% interval ")
    columns = ("baseline", "kind", *pairs, *picks, "verdict")
    return ComparisonTable(title, columns, rows, (chance, *_NOTES, *audit.notes))


def verdict(baseline: BlindBaseline) -> str:
    """Say whether a baseline is above chance, with the corrected p of pairs."""
    if math.isnan(baseline.corrected):
        return "too few documents to tell"
    if not baseline.is_above_chance:
        return f"not above chance, {_p(baseline)}"
    above = f"above chance by {100 * baseline.effect:.1f} points, {_p(baseline)}"
    if baseline.family == COMPARES:
        return f"{above}; not counted"
    return f"slight leak, {above}" if baseline.effect < LEAST_EFFECT else above


def flag_table(audit: BenchmarkAudit) -> ComparisonTable:
    """Return how many rows each reason holds for, and the first of them."""
    places: dict[str, list[str]] = {}
    for flag in audit.flags:
        places.setdefault(flag.reason, []).append(flag.location)
    most_first = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [
        (reason, f"{len(rows):,}", format_number(len(rows) / audit.rows), ", ".join(rows[:_PLACES]))
        for reason, rows in most_first
    ]
    columns = ("reason", "#rows", "#share", "first")
    return ComparisonTable(f"rows to look at: {_flagged(audit)}", columns, rows)


def shape_table(audit: BenchmarkAudit, judged: Sequence[str | None] = ()) -> ComparisonTable:
    """Return edit distance and error types beside tables 2 and 3.

    Args:
        audit: The audit, with the types as the file says.
        judged: The types as a judge sees them, where one was asked; None where its reply could not
            be used.
    """
    types_by_judge = Counter(filter(None, judged))
    measured = (audit.distance.mean, audit.distance.deviation)
    here, *published = (
        f"{mean:.1f} ± {deviation:.1f}" if math.isfinite(mean) else "-"
        for mean, deviation in (measured, *PAPER["distances"])
    )
    rows = [("edit distance (words)", here, "", *published)]
    published_types = PAPER["types"]
    for kind in dict.fromkeys((*published_types, *audit.types)):
        shares = [
            format_number(counts.get(kind, 0) / sum(counts.values())) if counts else ""
            for counts in (audit.types, types_by_judge)
        ]
        rows.append((kind, *shares, *map(format_number, published_types.get(kind, [None] * 3))))
    columns = ("", "#here", "#by judge", *(f"#{name}" for name in PAPER["files"]))
    notes = [f"unscored by the judge: {judged.count(None)}"] if judged else []
    title = f"{audit.distance.pairs:,} contradictions, beside tables 2 and 3 of the paper"
    return ComparisonTable(title, columns, rows, notes)


def property_table(properties: Sequence[Property], judge: str, rows: int) -> ComparisonTable:
    """Return what a judge says of the contradictions of some rows, beside table 2."""
    cells = []
    notes = []
    for finding in properties:
        cells.append(
            (
                finding.name,
                format_number(finding.share.value),
                finding.share.interval,
                str(finding.scored),
                str(sum(finding.unscored.values())),
                *map(format_number, PAPER["properties"][finding.name]),
            )
        )
        for reason, count in finding.unscored.items():
            notes.append(f"unscored, {finding.name}: {reason}: {count}")
    columns = ("property", "#share", "#95% interval", "#scored", "#unscored")
    title = f"contradictions of {rows:,} rows, judged by {judge}, beside table 2 of the paper"
    return ComparisonTable(
        title, (*columns, *(f"#{name}" for name in PAPER["files"])), cells, notes
    )
