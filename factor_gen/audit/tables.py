"""An audit as tables: titles, columns and cells for the terminal and for a dataset's card."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from factor_gen.audit.audit import audit_rows
from factor_gen.audit.baselines import CENTRAL
from factor_gen.audit.records import (
    COUNTED,
    DISTANCES,
    FAMILIES,
    FEWEST,
    FILES,
    LEAST_EFFECT,
    PROPERTIES,
    TYPES,
    Audit,
    Baseline,
)
from lm_factuality.benchmarks.declaration import Table
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.console import interval, shown

_PLACES = 3  # locations that a reason names
_BASELINE_COLUMNS = (
    "baseline",
    "#pairs won",
    "#95% interval",
    "#of all choices",
    "#95% interval ",
    "verdict",
)


def conclusion(audit: Audit, name: str) -> list[str]:
    """Return what a reader should know of the file, the most important line first."""
    lines = [f"{name}: {_strongest_leak(audit)}."]
    if audit.sampled:
        floor = audit.floor
        even = f", not {shown(floor.even)}" if floor.high < floor.even else ""
        central = audit.baseline(CENTRAL)
        advice = ""
        if central.is_above_chance:
            advice = ": never show a model all of them, or build with choose: {hide_centre: true}"
        lines.append(
            f"Of all choices of a row, knowing nothing picks the true one in {_floor(audit)}{even}."
            f" Comparing them finds it in {shown(central.accuracy)}{advice}."
        )
    flagged = len({flag.index for flag in audit.flags})
    distance = f"{shown(audit.distance.mean, '.1f')} ± {shown(audit.distance.deviation, '.1f')}"
    lines.append(
        f"{flagged:,} of {audit.rows:,} rows should be looked at; edit distance {distance} words."
    )
    return lines


def _strongest_leak(audit: Audit) -> str:
    told = [
        baseline
        for baseline in audit.baselines
        if baseline.family in COUNTED
        and not math.isnan(baseline.wins)
        and baseline.documents >= FEWEST
    ]
    if not told:
        return (
            f"{audit.documents:,} documents are too few to tell what it gives away; {FEWEST} are"
            " needed"
        )
    leaks = [baseline for baseline in told if baseline.name in audit.leaks]
    strongest = max(leaks or told, key=lambda baseline: baseline.wins)
    if not leaks:
        return (
            "no blind baseline tells true completions from contradictions; the best,"
            f" {strongest.name}, {_pairs(strongest)}"
        )
    leak = f"gives true completions away: {strongest.name}, {_pairs(strongest)}"
    others = len(leaks) - 1
    if not others:
        return leak
    return f"{leak}; {others} other blind baseline{'s' if others > 1 else ''} above chance"


def _pairs(baseline: Baseline) -> str:
    ends = interval((baseline.wins_low, baseline.wins_high))
    return f"{shown(baseline.wins)} of pairs ({ends}; chance 50%, {_p(baseline)})"


def _p(baseline: Baseline) -> str:
    corrected = math.nan if baseline.corrected is None else baseline.corrected
    return "p < 0.001" if corrected < 0.001 else f"p = {shown(corrected, '.3f')}"


def _floor(audit: Audit) -> str:
    return f"{shown(audit.floor.accuracy)} ({interval((audit.floor.low, audit.floor.high))})"


def baseline_table(audit: Audit, name: str) -> Table:
    """Return how many pairs each baseline wins, and how often it picks the true one of all."""
    rows: list[tuple[str, ...]] = []
    notes = [
        f"chance: 50% of pairs; of all choices {_floor(audit)}, which random word weights pick"
    ]
    for family, explanation in FAMILIES.items():
        members = [baseline for baseline in audit.baselines if baseline.family == family]
        if not members:
            continue
        rows.append((f"[{family}]", "", "", "", "", ""))
        if family not in COUNTED:
            notes.append(f"{family}: {explanation}")
        for baseline in members:
            rows.append(
                (
                    baseline.name,
                    shown(baseline.wins),
                    interval((baseline.wins_low, baseline.wins_high)),
                    shown(baseline.accuracy),
                    interval((baseline.low, baseline.high)),
                    verdict(baseline),
                )
            )
    notes.append(
        "p: one-sided, of pairs, against random signs for each document; corrected by Holm for all"
        " baselines that count together. Ties count half. What learns is tested where it learns"
        " from earlier fifths of the documents alone"
    )
    if audit.slight:
        notes.append(
            f"slight leaks, less than {100 * LEAST_EFFECT:g} points above chance:"
            f" {', '.join(audit.slight)}"
        )
    title = (
        f"{name}: {audit.rows:,} rows of {audit.documents:,} documents; baselines on"
        f" {audit.sampled:,} rows"
    )
    return Table(title, _BASELINE_COLUMNS, tuple(rows), (*notes, *audit.notes))


def verdict(baseline: Baseline) -> str:
    """Say whether a baseline is above chance, with the corrected p of pairs."""
    if baseline.corrected is None:
        return "not counted"
    if math.isnan(baseline.corrected):
        return "too few documents to tell"
    if not baseline.is_above_chance:
        return f"not above chance, {_p(baseline)}"
    above = f"above chance by {100 * baseline.effect:.1f} points, {_p(baseline)}"
    if baseline.family not in COUNTED:
        return f"{above}; not counted"
    return f"slight leak, {above}" if baseline.effect < LEAST_EFFECT else above


def flag_table(audit: Audit) -> Table:
    """Return how many rows each reason holds for, and the first of them."""
    places: dict[str, list[str]] = {}
    for flag in audit.flags:
        places.setdefault(flag.reason, []).append(flag.location)
    most_first = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [
        (reason, f"{len(rows):,}", shown(len(rows) / audit.rows), ", ".join(rows[:_PLACES]))
        for reason, rows in most_first
    ]
    flagged = len({flag.index for flag in audit.flags})
    title = f"rows to look at: {flagged:,} of {audit.rows:,}"
    return Table(
        title, ("reason", "#rows", "#share", "first"), rows or [("none", "0", shown(0.0), "")]
    )


def shape_table(audit: Audit, judged: Sequence[str | None] = ()) -> Table:
    """Return edit distance and error types beside tables 2 and 3.

    Args:
        audit: The audit, with the types as the file says.
        judged: The types as a judge sees them, where one was asked; None where its reply could not
            be used.
    """
    columns = {"here": audit.types}
    if judged:
        columns["by judge"] = Counter(filter(None, judged))
    distances = [
        f"{mean:.1f} ± {deviation:.1f}" if math.isfinite(mean) else "-"
        for mean, deviation in ((audit.distance.mean, audit.distance.deviation), *DISTANCES)
    ]
    blank = [""] * (len(columns) - 1)
    rows = [("edit distance (words)", distances[0], *blank, *distances[1:])]
    notes = []
    if any(columns.values()):
        for kind in dict.fromkeys((*TYPES, *audit.types)):
            shares = [
                counts.get(kind, 0) / sum(counts.values()) if counts else math.nan
                for counts in columns.values()
            ]
            published = TYPES.get(kind, (math.nan,) * len(FILES))
            rows.append((kind, *map(shown, (*shares, *published))))
    else:
        notes.append("the file does not say of which types its contradictions are")
    if judged:
        notes.append(f"unscored by the judge: {judged.count(None)}")
    title = f"{audit.distance.pairs:,} contradictions, beside tables 2 and 3 of the paper"
    return Table(title, ("", *(f"#{name}" for name in (*columns, *FILES))), rows, notes)


def property_table(audit: Audit, judge: str, most_rows: int) -> Table:
    """Return what a judge says of contradictions beside table 2."""
    cells = []
    notes = []
    for finding in audit.properties:
        cells.append(
            (
                finding.name,
                shown(finding.share),
                interval((finding.low, finding.high)),
                str(finding.scored),
                str(sum(finding.unscored.values())),
                *map(shown, PROPERTIES[finding.name]),
            )
        )
        for reason, count in finding.unscored.items():
            notes.append(f"unscored, {finding.name}: {reason}: {count}")
    columns = ("property", "#share", "#95% interval", "#scored", "#unscored")
    rows = min(most_rows, audit.rows - audit.unscorable)
    title = f"contradictions of {rows:,} rows, judged by {judge}, beside table 2 of the paper"
    return Table(title, (*columns, *(f"#{name}" for name in FILES)), cells, notes)


def card_figures(rows: Sequence[Row], seed: int = 0) -> Mapping[str, Mapping[str, object]]:
    """Audit rows for a dataset's card.

    Returns:
        Figures by column, for each baseline that a table shows.

    Raises:
        ConfigError: A library is not installed.
    """
    audit = audit_rows(rows, seed)
    figures: dict[str, dict[str, object]] = {}
    for baseline in audit.baselines:
        figures[baseline.name] = {
            "rows": baseline.rows,
            "pairs won": baseline.wins,
            "95% interval": f"{baseline.wins_low:.3f} to {baseline.wins_high:.3f}",
            "of all choices": baseline.accuracy,
            "verdict": verdict(baseline),
        }
    figures["knowing nothing (the floor)"] = {
        "rows": audit.sampled,
        "of all choices": audit.floor.accuracy,
    }
    return figures
