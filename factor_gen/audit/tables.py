"""Shows an audit as sentences and tables, for the terminal and for the card of a dataset.

``factor-gen audit`` and `factor_gen.output.card` call it.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from factor_gen.audit.baselines import CENTRAL
from factor_gen.audit.records import (
    COMPARES,
    FEWEST,
    LEAST_EFFECT,
    PAPER,
    BenchmarkAudit,
    BlindBaseline,
    EstimatedShare,
    JudgedProperty,
)
from lm_factuality.benchmarks.declaration import ComparisonTable
from lm_factuality.ground.console import format_number, plural

_MOST_LOCATIONS = 3  # rows that are listed for each reason
_PAPER_COLUMNS = tuple(f"#{name}" for name in PAPER["files"])
_NOTES = (
    "p: one-sided, of pairs, against random signs for each document; corrected by Holm for all"
    " baselines that count together. Ties count half. What learns is tested where it learns"
    " from earlier fifths of the documents alone",
    f"{COMPARES}: not counted against the file: small edits of one sentence leave the sentence"
    " itself in their middle, so that comparing the choices with each other finds it; a model that"
    " scores them one by one does not",
)


def summarise_audit(audit: BenchmarkAudit, name: str) -> list[str]:
    """Summarise an audit in up to three sentences, the most important first.

    Args:
        audit: The audit.
        name: The benchmark's name, with which the first sentence begins.
    """
    lines = [f"{name}: {_describe_strongest_leak(audit)}."]
    # Without sampled rows there are no baselines.
    if audit.sampled:
        lines.append(f"{_describe_guess_baseline(audit)}. {_describe_most_central(audit)}.")

    distance = _mean_and_deviation(audit.distance.mean, audit.distance.deviation)
    lines.append(
        f"{_count_flagged(audit)} rows should be looked at; edit distance {distance} words."
    )
    return lines


def _describe_strongest_leak(audit: BenchmarkAudit) -> str:
    """Tell whether a blind baseline finds true completions, and which one is the best at it.

    A blind baseline sees the choices of a row, but not the text before them. If it finds the true
    one more often than by chance, it is a leak: the benchmark gives true completions away.
    Baselines that compare the choices with each other do not count.

    Returns:
        A sentence without its full stop, such as ``gives true completions away: most words, 61.2%
        of pairs (57.0% - 65.1%; chance 50%, p < 0.001)``.
    """
    tested_baselines = [
        baseline
        for baseline in audit.baselines
        if baseline.family != COMPARES and not math.isnan(baseline.corrected_p_value)
    ]
    if not tested_baselines:
        return (
            f"{audit.documents:,} documents are too few to tell what it gives away; {FEWEST} are"
            " needed"
        )

    if not audit.leaks:
        return (
            "no blind baseline tells true completions from contradictions; the best,"
            f" {_describe_best(tested_baselines)}"
        )
    sentence = f"gives true completions away: {_describe_best(audit.leaks)}"
    num_further = len(audit.leaks) - 1
    if num_further:
        sentence += f"; {plural(num_further, 'other blind baseline')} above chance"
    return sentence


def _describe_best(baselines: Sequence[BlindBaseline]) -> str:
    """Name the best of some baselines with its result.

    Example:
        ``most words, 61.2% of pairs (57.0% - 65.1%; chance 50%, p < 0.001)``
    """
    best = max(baselines, key=lambda baseline: baseline.pairs_won.value)
    return (
        f"{best.name}, {format_number(best.pairs_won.value)} of pairs"
        f" ({best.pairs_won.interval}; chance 50%, {_p_value(best)})"
    )


def _describe_guess_baseline(audit: BenchmarkAudit) -> str:
    """Say how often the choice whose words have the greatest sum of random weights is the true one.

    Such a guess is right in less than 25% of rows of four choices. Every contradiction shares most
    words with the true completion, but differs from it in some words. If those of any contradiction
    have a greater weight, the true completion is not picked.

    Returns:
        A sentence without its full stop, such as ``Guess baseline: 18.0% (15.1% - 20.9%) of rows,
        not 25.0%``.
    """
    sentence = f"Guess baseline: {_with_interval(audit.guess_baseline)} of rows"
    high = audit.guess_baseline.high
    if high is not None and high < audit.even_chance:
        sentence += f", not {format_number(audit.even_chance)}"
    return sentence


def _describe_most_central(audit: BenchmarkAudit) -> str:
    """Say how often the choice that is the most similar to the others is the true completion."""
    central = audit.baseline(CENTRAL)
    sentence = f"Picking the most central choice wins {format_number(central.rows_won.value)}"
    if central.is_above_chance:
        sentence += (
            ": never show a model all of them, or build with choose: {hide_most_central: true}"
        )
    return sentence


def _p_value(baseline: BlindBaseline) -> str:
    """Format the corrected p-value of a baseline, such as ``p = 0.032`` or ``p < 0.001``."""
    if baseline.corrected_p_value < 0.001:
        return "p < 0.001"
    return f"p = {format_number(baseline.corrected_p_value, '.3f')}"


def _with_interval(share: EstimatedShare) -> str:
    """Format a share with its interval, such as ``25.0% (20.1% - 29.9%)``."""
    return f"{format_number(share.value)} ({share.interval})"


def _count_flagged(audit: BenchmarkAudit) -> str:
    """Count the rows with a flag, such as ``12 of 1,036``."""
    # A row with several flags counts once.
    flagged_rows = {flag.index for flag in audit.flags}
    return f"{len(flagged_rows):,} of {audit.rows:,}"


def baseline_table(audit: BenchmarkAudit, name: str) -> ComparisonTable:
    """Tabulate how many pairs each baseline wins, and how often it picks the true completion.

    A pair is the true completion of a row and one of its contradictions. A baseline wins it if it
    gives the true completion the higher score.

    Args:
        audit: The audit.
        name: The benchmark's name for the title.
    """
    # The cells of each row are in this order. A heading that starts with "#" marks a column of
    # numbers. Each interval belongs to the column before it.
    columns = (
        "baseline",
        "kind",
        "#pairs won",
        "#95% interval",
        "#of all choices",
        "#95% interval",
        "verdict",
    )
    rows = [
        (
            baseline.name,
            baseline.family,
            format_number(baseline.pairs_won.value),
            baseline.pairs_won.interval,
            format_number(baseline.rows_won.value),
            baseline.rows_won.interval,
            describe_significance(baseline),
        )
        for baseline in audit.baselines
    ]

    title = (
        f"{name}: {audit.rows:,} rows of {audit.documents:,} documents; baselines on"
        f" {audit.sampled:,} rows"
    )
    chance = (
        f"chance: 50% of pairs, and {_with_interval(audit.guess_baseline)} of rows, the share that"
        " random word weights win"
    )
    return ComparisonTable(title, columns, rows, (chance, *_NOTES, *audit.notes))


def describe_significance(baseline: BlindBaseline) -> str:
    """Tell whether a blind baseline wins more than half of the pairs, or whether it was not tested.

    Example:
        ``above chance by 6.0 points, p = 0.002``. A small effect is called a slight leak.
    """
    # The p-value is NaN if the baseline was not tested.
    if math.isnan(baseline.corrected_p_value):
        return "too few documents to tell"
    if not baseline.is_above_chance:
        return f"not above chance, {_p_value(baseline)}"

    effect = f"above chance by {100 * baseline.effect:.1f} points, {_p_value(baseline)}"
    # The audit asks what a language model could exploit. It scores each choice by itself, so that
    # it cannot compare choices as this baseline does.
    if baseline.family == COMPARES:
        return f"{effect}; not counted"
    if baseline.effect < LEAST_EFFECT:
        return f"slight leak, {effect}"
    return effect


def flag_table(audit: BenchmarkAudit) -> ComparisonTable:
    """Tabulate the reasons to look at rows of a benchmark, the most frequent first.

    Each line has a reason, the number and the share of its rows, and where the first of them are.
    """
    # Sorting puts reasons that are equally frequent in the order of the alphabet.
    counts = Counter(sorted(flag.reason for flag in audit.flags))
    rows = []
    for reason, count in counts.most_common():
        locations = [flag.location for flag in audit.flags if flag.reason == reason]
        first_locations = ", ".join(locations[:_MOST_LOCATIONS])
        rows.append((reason, f"{count:,}", format_number(count / audit.rows), first_locations))
    columns = ("reason", "#rows", "#share", "first")
    return ComparisonTable(f"rows to look at: {_count_flagged(audit)}", columns, rows)


def paper_table(audit: BenchmarkAudit, judged_types: Sequence[str | None] = ()) -> ComparisonTable:
    """Tabulate edit distance and error types next to the paper's figures in tables 2 and 3.

    Args:
        audit: The audit, whose error types are those that the file states.
        judged_types: The error type of each contradiction by a judge; None if its reply cannot be
            used. Empty if no judge was asked.
    """
    # The cells of each row are in this order. The paper's columns are its three benchmarks.
    columns = ("", "#benchmark", "#by judge", *_PAPER_COLUMNS)
    distance = _mean_and_deviation(audit.distance.mean, audit.distance.deviation)
    paper_distances = [_mean_and_deviation(*figures) for figures in PAPER["distances"]]
    # No judge measures distances.
    rows = [("edit distance (words)", distance, "", *paper_distances)]

    counts_by_judge = Counter(filter(None, judged_types))
    other_types = [error_type for error_type in audit.types if error_type not in PAPER["types"]]
    for error_type in (*PAPER["types"], *other_types):
        share = _share_of(error_type, audit.types)
        share_by_judge = _share_of(error_type, counts_by_judge)
        rows.append((error_type, share, share_by_judge, *_paper_shares(error_type)))

    title = f"{audit.distance.pairs:,} contradictions, beside tables 2 and 3 of the paper"
    notes = [f"unscored by the judge: {judged_types.count(None)}"] if judged_types else []
    return ComparisonTable(title, columns, rows, notes)


def _paper_shares(error_type: str) -> list[str]:
    """Format the shares of an error type in the paper's benchmarks; ``-`` for an unknown type."""
    no_shares = [None] * len(_PAPER_COLUMNS)
    return [format_number(share) for share in PAPER["types"].get(error_type, no_shares)]


def _mean_and_deviation(mean: float, deviation: float) -> str:
    """Format a mean and a standard deviation, such as ``2.3 ± 1.4``; ``-`` if there is none."""
    return f"{mean:.1f} ± {deviation:.1f}" if math.isfinite(mean) else "-"


def _share_of(name: str, counts: Mapping[str, int]) -> str:
    """Format the share that a name has in all counts, such as ``25.0%``; empty without counts."""
    return format_number(counts.get(name, 0) / sum(counts.values())) if counts else ""


def property_table(
    properties: Sequence[JudgedProperty], judge: str, num_rows: int
) -> ComparisonTable:
    """Tabulate which share of the contradictions has each property, next to the paper's table 2.

    Args:
        properties: The findings of the judge.
        judge: The name of the judge, for the title.
        num_rows: How many rows were judged.
    """
    # The cells of each row are in this order.
    columns = ("property", "#share", "#95% interval", "#scored", "#unscored", *_PAPER_COLUMNS)
    rows = []
    notes = []
    for finding in properties:
        paper_shares = map(format_number, PAPER["properties"][finding.name])
        rows.append(
            (
                finding.name,
                format_number(finding.share.value),
                finding.share.interval,
                str(finding.scored),
                str(sum(finding.unscored.values())),
                *paper_shares,
            )
        )
        for reason, count in finding.unscored.items():
            notes.append(f"unscored, {finding.name}: {reason}: {count}")

    title = f"contradictions of {num_rows:,} rows, judged by {judge}, beside table 2 of the paper"
    return ComparisonTable(title, columns, rows, notes)
