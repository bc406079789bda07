"""From marks to the table of section 6.2 (tables 4 and 6 of the FACTOR paper), and the metrics.

Rows are split by whether the model scored the true completion above the false one that it was
tested with (*right*) or not (*wrong*). Of the generations with a mark, the shares of true, false
and neutral ones are taken in both; the accuracy is true / (true + false). *Weighted* mixes the
shares by how often the model is right over all pairs of a true and a false completion, and takes
the accuracy of the mixture, as in the last rows of table 6. *Pooled* is over all marked
generations, also of rows that are in neither subset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lm_factuality.benchmarks.declaration import SHARE, Score, worst_and_best_of
from lm_factuality.benchmarks.factor_generation.facts import FALSE, MARKS, NEUTRAL, TRUE
from lm_factuality.harness.generation import Doc, Verdict
from lm_factuality.scores.statistics import (
    MEAN,
    TOTAL,
    Aggregation,
    Floats,
    how_many,
    pooled_interval,
    pooled_stderr,
    ratio,
)

RIGHT, WRONG, UNSPLIT = GROUPS = ("right", "wrong", "unsplit")
WEIGHTED, POOLED = "weighted", "pooled"
SUBSETS = (RIGHT, WRONG, WEIGHTED, POOLED)
ACCURACY = "accuracy"


Sums = Sequence[float]
"""What rows add up to: true, false, neutral and unscored generations of each group in turn, the
pairs of completions with scores in which the model is right, and all such pairs."""


class RowTally(NamedTuple):
    """What one row adds to the table. Samples hold it as a list."""

    doc_id: str
    group: str

    counts: Sequence[int]
    """The true, false, neutral and unscored generations."""

    pairs_right: int
    pairs: int

    def sums(self) -> Floats:
        by_group = np.zeros((len(GROUPS), len(self.counts)))
        by_group[GROUPS.index(self.group)] = self.counts
        return np.append(by_group, (self.pairs_right, self.pairs))


def tally_row(doc: Doc, verdict: Verdict) -> RowTally:
    """Return what a document with its scores (``mean_logprob``) and its record add to the table."""
    means, gold = doc["mean_logprob"], doc["gold"]
    true = means[gold] if 0 <= gold < len(means) else None
    beaten = {}
    for index, mean in enumerate(() if doc["problem"] else means):
        if index != gold and None not in (true, mean):
            beaten[index] = true > mean
    group = UNSPLIT
    if doc["contradiction"] in beaten:
        group = RIGHT if beaten[doc["contradiction"]] else WRONG
    counts = [verdict["marks"].count(mark) for mark in (*MARKS, None)]
    return RowTally(doc["doc_id"], group, counts, sum(beaten.values()), len(beaten))


def add(rows: Iterable[RowTally]) -> Sums:
    """Add up rows."""
    totals: Sums = sum((row.sums() for row in rows), np.zeros(14)).tolist()
    return totals


def by_document(rows: Iterable[RowTally]) -> list[Sums]:
    """Return the sums over the rows of each document, which intervals draw whole."""
    sums: dict[str, Floats] = {}
    for row in rows:
        sums[row.doc_id] = sums.get(row.doc_id, 0) + row.sums()
    return [numbers.tolist() for numbers in sums.values()]


def weight_of(sums: Sums) -> float:
    """Return the share of pairs in which the model is right; NaN if no pair has scores."""
    return ratio(sums[12], sums[13])


def marks_of(sums: Sums, subset: str) -> Sequence[float]:
    """Return the true, false and neutral generations of a subset.

    Those of the weighted one are its shares, which are NaN where a subset of any weight has no
    marks.
    """
    right, wrong, unsplit = sums[0:3], sums[4:7], sums[8:11]
    if subset == POOLED:
        return [sum(column) for column in zip(right, wrong, unsplit, strict=True)]
    if subset != WEIGHTED:
        return right if subset == RIGHT else wrong
    shares = [0.0] * len(MARKS)
    weight = weight_of(sums)
    for weight_of_group, counts in ((weight, right), (1 - weight, wrong)):
        if weight_of_group:
            for place, number in enumerate(counts):
                shares[place] += weight_of_group * ratio(number, sum(counts))
    return shares


def score(sums: Sums, subset: str, name: str) -> float:
    """Return the accuracy of a subset, or the share of a mark among its marked generations.

    The accuracy is the share of true generations among the true and the false ones. A score
    without such generations is NaN.
    """
    marks = marks_of(sums, subset)
    if name == ACCURACY:
        return ratio(marks[0], marks[0] + marks[1])
    return ratio(marks[MARKS.index(name)], sum(marks))


def bound(sums: Sums, mark: str) -> float:
    """Return the weighted accuracy if every unscored generation had ``mark``.

    A subset without generations, of which nothing is known, is taken to hold that mark alone;
    where all is neutral, the bound is that of any share, 1 or 0.
    """
    filled = list(sums)
    for start in (0, 4):
        place = start + MARKS.index(mark)
        filled[place] += filled[start + 3]
        if not any(filled[start : start + 3]):
            filled[place] = 1
    accuracy = score(filled, WEIGHTED, ACCURACY)
    return float(mark == TRUE) if math.isnan(accuracy) else accuracy


def why_undefined(sums: Sums) -> str:
    """Say why there is no weighted accuracy; empty if there is one."""
    weight = weight_of(sums)
    if math.isnan(weight):
        return "no pair of a true and a false completion has scores"
    for subset, weight_of_subset in ((RIGHT, weight), (WRONG, 1 - weight)):
        if weight_of_subset and not any(marks_of(sums, subset)):
            return (
                f"the model is {subset} in {weight_of_subset:.1%} of pairs, but no generation of"
                " such a row has a mark"
            )
    is_undefined = math.isnan(score(sums, WEIGHTED, ACCURACY))
    return "no generation is marked true or false" if is_undefined else ""


def sums_of(sample: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return what the row of a sample adds to the scores of its marks."""
    sums = tuple(RowTally(*sample[ACCURACY]).sums().tolist())
    return {score.name: sums for score in _MARK_SCORES}


def rows_behind(rows: Iterable[RowTally], subset: str, name: str) -> int:
    """Count the rows of a subset with a generation that `score` is of."""
    groups = {POOLED: GROUPS, WEIGHTED: (RIGHT, WRONG)}.get(subset, (subset,))
    marks = 2 if name == ACCURACY else 3
    return sum(row.group in groups and any(row.counts[:marks]) for row in rows)


def rows_with_pairs(rows: Iterable[RowTally]) -> int:
    """Count the rows with a pair of completions that have scores."""
    return sum(row.pairs > 0 for row in rows)


def aggregation_of(
    value: Callable[[Sums], float], count: Callable[[Sequence[RowTally]], int] = len
) -> Aggregation:
    """Return the aggregation of rows to a value of their sums, of which ``count`` have a part."""

    def value_of(rows: Sequence[RowTally]) -> float:
        return value(add(rows))

    # Without a value there is no error of it, though draws may happen to have one.
    def stderr_of(rows: Sequence[RowTally]) -> float:
        return math.nan if math.isnan(value_of(rows)) else pooled_stderr(by_document(rows), value)

    def interval_of(rows: Sequence[RowTally]) -> tuple[float, float] | None:
        ends = pooled_interval(by_document(rows), value)
        return None if math.isnan(ends[0] + value_of(rows)) else ends

    return Aggregation(value_of, stderr_of, interval_of, count)


def _mark_scores() -> Iterator[Score]:
    """The accuracy and the shares of marks in each subset; tables show the weighted ones."""
    for subset in SUBSETS:
        for name, label, higher in (
            (ACCURACY, "True of true and false", True),
            (TRUE, "True", True),
            (FALSE, "False", False),
            (NEUTRAL, "Neither", None),
        ):
            aggregation = aggregation_of(
                partial(score, subset=subset, name=name),
                partial(rows_behind, subset=subset, name=name),
            )
            if subset != WEIGHTED:
                yield Score(f"{name}_{subset}", aggregation, SHARE, higher_is_better=higher)
                continue
            note = "weighted as in section 6 of the paper" if name == ACCURACY else ""
            yield Score(name, aggregation, SHARE, label, higher, note=note)


_MARK_SCORES = tuple(_mark_scores())
SCORES = (
    *_MARK_SCORES,
    *(
        Score(name, Aggregation(aggregation_of(partial(bound, mark=mark)).value))
        for name, mark in worst_and_best_of(ACCURACY, FALSE, TRUE).items()
    ),
    Score("pairs_right", aggregation_of(weight_of, rows_with_pairs), SHARE),
    Score("factor_acc", MEAN, SHARE),
    Score("unscored", TOTAL, higher_is_better=False),
    Score("without_fact", Aggregation(how_many), higher_is_better=False),
)
