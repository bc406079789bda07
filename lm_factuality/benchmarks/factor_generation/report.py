"""The scores as a JSON object and as the table that the command prints."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.factor_generation.marks import FALSE, MARKS, TRUE
from lm_factuality.benchmarks.factor_generation.tally import (
    ACCURACY,
    GROUPS,
    POOLED,
    RIGHT,
    SUBSETS,
    UNSPLIT,
    WEIGHTED,
    WRONG,
    Record,
    Totals,
    add,
    by_document,
    tally_row,
)
from lm_factuality.ground.console import interval, shown
from lm_factuality.ground.statistics import defined, interval_of, pooled_interval

COLUMNS = (
    "subset",
    "#rows",
    "#generations",
    "#unscored",
    "#neutral",
    "#true (T)",
    "#false (F)",
    "#T/(T+F)",
    "#95% interval",
    "#worst / best",
)
_NAMES = {RIGHT: "right", WRONG: "wrong", WEIGHTED: "all (weighted)", POOLED: "all (pooled)"}


def to_summary(docs: Sequence[Mapping[str, Any]], verdicts: Sequence[Record]) -> dict[str, Any]:
    """``subsets`` (right, wrong, weighted, pooled), each with counts, shares, accuracy, its 95% interval (bootstrap over
    documents) and its value if every unscored generation were false, or true; how often the model is right over all
    ``pairs``; how many ``rows`` were judged; how many generations are ``unscored``, and why; and why the weighted accuracy is
    ``not_defined``, None if it is."""
    tallies = [tally_row(doc, verdict) for doc, verdict in zip(docs, verdicts, strict=True)]
    totals, documents = add(tallies), by_document(tallies)
    reasons = Counter(reason for verdict in verdicts for reason in verdict["reasons"] if reason is not None)
    without = Counter(str(doc["no_fact"]) for doc in docs if doc["no_fact"])
    groups = Counter(tally.group for tally in tallies if sum(tally.counts))
    return {
        "subsets": {subset: _subset(subset, totals, documents, groups) for subset in SUBSETS},
        "pairs": {"right": int(totals.pairs_right), "all": int(totals.pairs), "share_right": defined(totals.weight)},
        "rows": {
            "all": len(docs),
            "judged": sum(groups.values()),
            "without_fact": dict(without.most_common()),
            "unsplit": groups[UNSPLIT],
        },
        "unscored": {"generations": sum(reasons.values()), "reasons": dict(reasons.most_common())},
        "not_defined": totals.why_undefined() or None,
    }


def _subset(subset: str, totals: Totals, documents: Sequence[Sequence[float]], groups: Mapping[str, int]) -> dict[str, Any]:
    has_own = subset in GROUPS
    counts = totals.counts(subset if has_own else POOLED)
    found: dict[str, Any] = {"rows": groups.get(subset, 0) if has_own else sum(groups.values())}
    if subset != WEIGHTED:  # whose shares are no counts
        found |= {name: int(value) for name, value in counts._asdict().items()}
    accuracy = defined(totals.score(subset, ACCURACY))
    ends = interval_of(pooled_interval(documents, lambda totals: Totals.of(totals).score(subset, ACCURACY)))
    worst, best = (
        totals.bound(mark) if subset == WEIGHTED else defined(totals.bounded(mark).score(subset, ACCURACY))
        for mark in (FALSE, TRUE)
    )
    return found | {
        "shares": {mark: defined(totals.score(subset, mark)) for mark in MARKS},
        "accuracy": accuracy,
        "interval": None if accuracy is None else ends,
        "worst": worst,
        "best": best,
    }


def to_table(summary: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]:
    """(columns, rows, notes)."""
    rows = [_row(_NAMES[subset], summary["subsets"][subset]) for subset in SUBSETS]
    pairs, kinds, unscored = summary["pairs"], summary["rows"], summary["unscored"]
    notes = [
        f"Right: the model's mean log-probability per token is higher for the true completion than for the false one; so in "
        f"{shown(pairs['share_right'])} of {pairs['all']} pairs, by which 'weighted' weighs.",
        "Intervals: percentile bootstrap over documents. Worst / best: if every unscored generation were false, or true.",
        "A judge that reads no prompt, such as the lexical one, knows the row's own two wordings alone: to it a generation that "
        "states or violates the fact in other words is neutral.",
    ]
    if summary["not_defined"]:
        notes.append(f"No weighted accuracy: {summary['not_defined']}.")
    if kinds["without_fact"]:
        notes.append(f"Rows without a minimal fact: {_listed(kinds['without_fact'])}")
    if kinds["unsplit"]:
        notes.append(f"Rows of which it is not known whether the model is right: {kinds['unsplit']}, in 'pooled' alone")
    if unscored["reasons"]:
        notes.append(f"Unscored generations: {_listed(unscored['reasons'])}")
    return COLUMNS, rows, notes


def _row(name: str, subset: Mapping[str, Any]) -> list[str]:
    counts = [str(sum(subset[each] for each in (*MARKS, "unscored"))), str(subset["unscored"])] if TRUE in subset else ["", ""]
    shares = subset["shares"]
    return [
        name,
        str(subset["rows"]),
        *counts,
        *(shown(shares[mark]) for mark in ("neutral", TRUE, FALSE)),
        shown(subset["accuracy"]),
        interval(subset["interval"]),
        f"{shown(subset['worst'])} / {shown(subset['best'])}",
    ]


def _listed(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{count} {reason}" for reason, count in counts.items())
