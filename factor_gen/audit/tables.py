"""An audit as tables: titles, columns and cells for the terminal and for a dataset's card."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from factor_gen.audit.audit import audit_rows
from factor_gen.audit.fix import Fixed
from factor_gen.audit.published import DISTANCES, FILES, PROPERTIES, TYPES
from factor_gen.audit.records import COUNTED, FAMILIES, Audit, Baseline
from lm_factuality.factor.rows import Row

_PLACES = 3  # locations that a reason names


@dataclass(frozen=True)
class Table:
    """Columns whose name begins with ``#`` hold numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def baseline_table(audit: Audit, name: str) -> Table:
    """What each baseline scores, and whether that is more than chance."""
    rows = []
    family = ""
    for each in audit.baselines:
        if each.family != family:
            family = each.family
            rows.append((f"[{family}]", "", "", "", ""))
        rows.append(
            (each.name, percent(each.accuracy), interval(each.low, each.high), percent(each.chance), verdict(each))
        )
    notes = [f"{family}: {FAMILIES[family]}" for family in FAMILIES if family not in COUNTED and _has(audit, family)]
    notes.append(
        "p: one-sided against chance by lot within rows, corrected by Holm within each kind; ties count by lot"
    )
    if audit.headline:
        stronger = audit.baseline(audit.headline)
        notes.append(f"the stronger classifier: {stronger.name}, {percent(stronger.accuracy)}")
    return Table(
        f"{name}: {audit.rows:,} rows of {audit.documents:,} documents; baselines on {audit.sampled:,} rows",
        ("baseline", "#accuracy", "#95% interval", "#chance", "verdict"), tuple(rows), (*notes, *audit.notes),
    )  # fmt: skip


def _has(audit: Audit, family: str) -> bool:
    return any(each.family == family for each in audit.baselines)


def flag_table(audit: Audit) -> Table:
    """How many rows each reason holds for, and the first of them."""
    places: dict[str, list[str]] = {}
    for flag in audit.flags:
        places.setdefault(flag.reason, []).append(flag.location)
    rows = [
        (reason, f"{len(found):,}", percent(len(found) / audit.rows), ", ".join(found[:_PLACES]))
        for reason, found in sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    flagged = len({flag.index for flag in audit.flags})
    return Table(
        f"rows to look at: {flagged:,} of {audit.rows:,}",
        ("reason", "#rows", "#share", "first"),
        tuple(rows) or (("none", "0", percent(0.0), ""),),
    )


def shape_table(audit: Audit) -> Table:
    """Edit distance and error types beside tables 2 and 3."""
    rows = [
        ("edit distance (words)", f"{audit.distance.mean:.1f} ± {audit.distance.deviation:.1f}",
         *(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in DISTANCES))
    ]  # fmt: skip
    total = sum(audit.types.values())
    for kind in (*TYPES, *(kind for kind in audit.types if kind not in TYPES)) if total else ():
        here = audit.types.get(kind, 0) / total
        paper = TYPES.get(kind)
        rows.append(
            (kind, percent(here), *(percent(each) for each in paper or ()), *([] if paper else ["-"] * len(FILES)))
        )
    notes = () if total else ("the file does not say of which error type its contradictions are",)
    return Table(
        f"{audit.distance.pairs:,} contradictions, beside tables 2 and 3 of the paper",
        ("", "#here", *(f"#{name}" for name in FILES)), tuple(rows), notes,
    )  # fmt: skip


def property_table(audit: Audit, judge: str, rows: int) -> Table:
    """What a judge says of contradictions beside table 2."""
    cells = [
        (each.name, percent(each.share), interval(each.low, each.high), str(each.scored), str(sum(each.unscored.values())),
         *(percent(share) for share in PROPERTIES[each.name]))
        for each in audit.properties
    ]  # fmt: skip
    notes = [
        f"unscored, {each.name}: {reason}: {count}"
        for each in audit.properties
        for reason, count in each.unscored.items()
    ]
    return Table(
        f"contradictions of {rows:,} rows, judged by {judge}, beside table 2 of the paper",
        ("property", "#share", "#95% interval", "#scored", "#unscored", *(f"#{name}" for name in FILES)),
        tuple(cells), tuple(notes),
    )  # fmt: skip


def fix_table(fixed: Fixed, path: Path) -> Table:
    """What was mended and what was left out."""
    rows = [("mended", reason, f"{count:,}") for reason, count in fixed.mended.items()]
    rows += [("left out", reason, f"{count:,}") for reason, count in fixed.dropped.items()]
    return Table(f"{path}: {len(fixed.rows):,} rows", ("what", "reason", "#rows"), tuple(rows))


def before_and_after(before: Audit, after: Audit) -> Table:
    """The blind baselines that were above chance before or are after, and the stronger classifier."""
    later = {each.name: each for each in after.baselines}
    shown = [
        each
        for each in before.baselines
        if each.is_above_chance
        or each.name == before.headline
        or (each.name in later and later[each.name].is_above_chance)
    ]
    rows = [
        (
            each.name,
            percent(each.accuracy),
            verdict(each),
            *((percent(there.accuracy), verdict(there)) if there else ("-", "-")),
        )
        for each in shown
        for there in (later.get(each.name),)
    ]
    return Table("before and after", ("baseline", "#before", "verdict", "#after", "verdict "), tuple(rows))


def card_figures(rows: Sequence[Row], seed: int = 0) -> Mapping[str, Mapping[str, object]]:
    """The audit of rows for a dataset's card: figures by column, for each baseline.

    Raises:
        ConfigError: a library is not installed.
    """
    return {
        each.name: {
            "rows": each.rows, "accuracy": each.accuracy, "95% interval": f"{each.low:.3f} to {each.high:.3f}",
            "chance": each.chance, "verdict": verdict(each),
        }
        for each in audit_rows(rows, seed).baselines
    }  # fmt: skip


def verdict(baseline: Baseline) -> str:
    """In words, with the corrected p."""
    if baseline.corrected is None:
        return "not counted"
    p = "p < 0.001" if baseline.corrected < 0.001 else f"p = {baseline.corrected:.3f}"
    over = f" by {100 * (baseline.accuracy - baseline.chance):.1f} points" if baseline.is_above_chance else ""
    return f"{'above' if baseline.is_above_chance else 'not above'} chance{over}, {p}"


def percent(share: float) -> str:
    """With one decimal; a dash for what is not a number."""
    return f"{share:.1%}" if math.isfinite(share) else "-"


def interval(low: float, high: float) -> str:
    """Its ends in percent."""
    return f"{percent(low)} - {percent(high)}" if math.isfinite(low) else "-"


def all_tables(audit: Audit, name: str) -> Sequence[Table]:
    """What every audit shows."""
    return [baseline_table(audit, name), flag_table(audit), shape_table(audit)]
