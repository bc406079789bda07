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


def conclusion(audit: Audit, name: str) -> list[str]:
    """What a reader should know of the file, the most important line first."""
    counted = [
        each for each in audit.baselines if each.family in COUNTED and not math.isnan(each.wins)
    ]
    told = [each for each in counted if each.documents >= FEWEST]
    strongest = max(
        (each for each in told if each.name in audit.leaks),
        key=lambda each: each.wins,
        default=None,
    )
    if not told:
        first = (
            f"{audit.documents:,} documents are too few to tell what it gives away; {FEWEST} are"
            " needed"
        )
    elif strongest:
        others = len(audit.leaks) - 1
        more = (
            f"; {others} other blind baseline{'s' if others > 1 else ''} above chance"
            if others
            else ""
        )
        first = f"gives true completions away: {strongest.name}, {_pairs(strongest)}{more}"
    else:
        most = max(told, key=lambda each: each.wins)
        first = (
            f"no blind baseline tells true completions from contradictions; the best, {most.name},"
            f" {_pairs(most)}"
        )
    lines = [f"{name}: {first}."]
    if audit.sampled:
        even = f", not {shown(audit.floor.even)}" if audit.floor.high < audit.floor.even else ""
        central = audit.baseline(CENTRAL)
        advice = (
            ": never show a model all of them, or build with choose: {hide_centre: true}"
            if central.is_above_chance
            else ""
        )
        lines.append(
            f"Of all choices of a row, knowing nothing picks the true one in {_floor(audit)}{even}."
            f" Comparing them finds it in {shown(central.accuracy)}{advice}."
        )
    flagged, distance = len({flag.index for flag in audit.flags}), audit.distance
    spread = f"{shown(distance.mean, '.1f')} ± {shown(distance.deviation, '.1f')}"
    lines.append(
        f"{flagged:,} of {audit.rows:,} rows should be looked at; edit distance {spread} words."
    )
    return lines


def _pairs(baseline: Baseline) -> str:
    figures = (
        f"{shown(baseline.wins)} of pairs ({interval((baseline.wins_low, baseline.wins_high))};"
        " chance 50%"
    )
    return f"{figures}, {_p(baseline)})"


def _p(baseline: Baseline) -> str:
    corrected = math.nan if baseline.corrected is None else baseline.corrected
    return "p < 0.001" if corrected < 0.001 else f"p = {shown(corrected, '.3f')}"


def _floor(audit: Audit) -> str:
    return f"{shown(audit.floor.accuracy)} ({interval((audit.floor.low, audit.floor.high))})"


def baseline_table(audit: Audit, name: str) -> Table:
    """How many pairs each baseline wins, whether that is more than chance, and how often it picks
    the true one of all choices."""
    rows: list[tuple[str, ...]] = []
    notes = [
        f"chance: 50% of pairs; of all choices {_floor(audit)}, which random word weights pick"
    ]
    for family, explanation in FAMILIES.items():
        members = [each for each in audit.baselines if each.family == family]
        if members:
            rows.append((f"[{family}]", "", "", "", "", ""))
            notes += [f"{family}: {explanation}"] if family not in COUNTED else []
        for each in members:
            pairs, picks = (
                (each.wins, (each.wins_low, each.wins_high)),
                (each.accuracy, (each.low, each.high)),
            )
            cells = [
                cell for value, ends in (pairs, picks) for cell in (shown(value), interval(ends))
            ]
            rows.append((each.name, *cells, verdict(each)))
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
    columns = (
        "baseline",
        "#pairs won",
        "#95% interval",
        "#of all choices",
        "#95% interval ",
        "verdict",
    )
    return Table(title, columns, tuple(rows), (*notes, *audit.notes))


def flag_table(audit: Audit) -> Table:
    """How many rows each reason holds for, and the first of them."""
    places: dict[str, list[str]] = {}
    for flag in audit.flags:
        places.setdefault(flag.reason, []).append(flag.location)
    rows = [
        (reason, f"{len(found):,}", shown(len(found) / audit.rows), ", ".join(found[:_PLACES]))
        for reason, found in sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    title = f"rows to look at: {len({flag.index for flag in audit.flags}):,} of {audit.rows:,}"
    return Table(
        title,
        ("reason", "#rows", "#share", "first"),
        tuple(rows) or (("none", "0", shown(0.0), ""),),
    )


def shape_table(
    audit: Audit,
    by_rule: Mapping[str, int] | None = None,
    judged: Sequence[tuple[str, str | None]] = (),
) -> Table:
    """Edit distance and error types beside tables 2 and 3; types as the file says, by rule, and by
    a judge where these were asked (``judged`` are pairs of rule and judge)."""
    told = [(rule, kind) for rule, kind in judged if kind]
    found = {
        "here": audit.types,
        "by rule": by_rule or {},
        "by judge": Counter(kind for _, kind in told),
    }
    apart = audit.distance.mean, audit.distance.deviation
    sources = {name: counts for name, counts in found.items() if counts or name == "here"}
    means = [
        f"{mean:.1f} ± {spread:.1f}" if math.isfinite(mean) else "-"
        for mean, spread in (apart, *DISTANCES)
    ]
    rows = [("edit distance (words)", means[0], *[""] * (len(sources) - 1), *means[1:])]
    for kind in dict.fromkeys((*TYPES, *audit.types)) if any(sources.values()) else ():
        here = [
            counts.get(kind, 0) / sum(counts.values()) if counts else math.nan
            for counts in sources.values()
        ]
        rows.append((kind, *map(shown, (*here, *TYPES.get(kind, (math.nan,) * len(FILES))))))
    notes = (
        []
        if any(sources.values())
        else ["the file does not say of which types its contradictions are; --types finds out"]
    )
    notes += (
        ["by rule: right in 31 of 40 contradictions of News and Expert that were read"]
        if by_rule
        else []
    )
    agree = sum(rule == kind for rule, kind in told)
    notes += (
        [f"judge and rule agree on {agree} of {len(told)}; unscored: {len(judged) - len(told)}"]
        if judged
        else []
    )
    title = f"{audit.distance.pairs:,} contradictions, beside tables 2 and 3 of the paper"
    return Table(
        title, ("", *(f"#{name}" for name in (*sources, *FILES))), tuple(rows), tuple(notes)
    )


def property_table(audit: Audit, judge: str, rows: int) -> Table:
    """What a judge says of contradictions beside table 2."""
    cells = []
    for each in audit.properties:
        figures = (
            shown(each.share),
            interval((each.low, each.high)),
            str(each.scored),
            str(sum(each.unscored.values())),
        )
        cells.append((each.name, *figures, *map(shown, PROPERTIES[each.name])))
    notes = [
        f"unscored, {each.name}: {reason}: {count}"
        for each in audit.properties
        for reason, count in each.unscored.items()
    ]
    title = f"contradictions of {rows:,} rows, judged by {judge}, beside table 2 of the paper"
    columns = (
        "property",
        "#share",
        "#95% interval",
        "#scored",
        "#unscored",
        *(f"#{name}" for name in FILES),
    )
    return Table(title, columns, tuple(cells), tuple(notes))


def card_figures(rows: Sequence[Row], seed: int = 0) -> Mapping[str, Mapping[str, object]]:
    """The audit of rows for a dataset's card: figures by column, for each baseline that a table
    shows. Raises ConfigError: a library is not installed."""
    audit = audit_rows(rows, seed)
    figures: dict[str, dict[str, object]] = {
        each.name: {
            "rows": each.rows,
            "pairs won": each.wins,
            "95% interval": f"{each.wins_low:.3f} to {each.wins_high:.3f}",
            "of all choices": each.accuracy,
            "verdict": verdict(each),
        }
        for each in audit.baselines
    }
    return figures | {
        "knowing nothing (the floor)": {
            "rows": audit.sampled,
            "of all choices": audit.floor.accuracy,
        }
    }


def verdict(baseline: Baseline) -> str:
    """In words, with the corrected p of pairs; what is above chance by less than
    :data:`LEAST_EFFECT` is slight."""
    if baseline.corrected is None:
        return "not counted"
    if math.isnan(baseline.corrected):
        return "too few documents to tell"
    if not baseline.is_above_chance:
        return f"not above chance, {_p(baseline)}"
    over = f"above chance by {100 * baseline.effect:.1f} points, {_p(baseline)}"
    if baseline.family not in COUNTED:
        return f"{over}; not counted"
    return f"slight leak, {over}" if baseline.effect < LEAST_EFFECT else over
