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
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np

from lm_factuality.benchmarks.declaration import ACCURACY as ACCURACY_MEASURE
from lm_factuality.benchmarks.declaration import SHARE, Score, bounds_of
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


class MarkCounts(NamedTuple):
    """Generations by mark; fractions where the counts are mixtures."""

    true: float = 0
    false: float = 0
    neutral: float = 0
    unscored: float = 0

    @property
    def marked(self) -> float:
        return self.true + self.false + self.neutral

    def score(self, name: str) -> float:
        """Return the accuracy, or the share of a mark among the marked generations.

        The accuracy is the share of true generations among the true and the false ones. A score
        without such generations is NaN.
        """
        if name == ACCURACY:
            return ratio(self.true, self.true + self.false)
        return ratio(getattr(self, name), self.marked)


class RowTally(NamedTuple):
    """What one row adds to the table. Samples hold it as a list."""

    doc_id: str
    group: str
    counts: MarkCounts

    pairs_right: int
    """The pairs of completions with scores in which the model is right."""

    pairs: int

    def vector(self) -> Floats:
        """Return numbers that may be added up over rows: the counts by group, then the pairs."""
        by_group = np.zeros((len(GROUPS), len(self.counts)))
        by_group[GROUPS.index(self.group)] = self.counts
        return np.append(by_group, (self.pairs_right, self.pairs))


class Totals(NamedTuple):
    """What all rows add up to."""

    right: MarkCounts
    wrong: MarkCounts
    unsplit: MarkCounts
    pairs_right: float
    pairs: float

    @classmethod
    def of(cls, vector: Sequence[float]) -> Totals:
        """Make totals of a sum of ``RowTally.vector``."""
        groups = (MarkCounts(*vector[start : start + 4]) for start in (0, 4, 8))
        return cls(*groups, *vector[12:])

    @property
    def weight(self) -> float:
        """The share of pairs in which the model is right; NaN if no pair has scores."""
        return ratio(self.pairs_right, self.pairs)

    def counts(self, subset: str) -> MarkCounts:
        """Return the counts of a subset.

        Those of the weighted one are its shares, which are NaN where a subset of any weight has no
        marks.
        """
        if subset == POOLED:
            return MarkCounts(*map(sum, zip(self.right, self.wrong, self.unsplit, strict=True)))
        if subset != WEIGHTED:
            return self.right if subset == RIGHT else self.wrong
        shares = [0.0] * len(MARKS)
        for weight, counts in ((self.weight, self.right), (1 - self.weight, self.wrong)):
            if weight:
                for place, mark in enumerate(MARKS):
                    shares[place] += weight * counts.score(mark)
        return MarkCounts(*shares)

    def score(self, subset: str, name: str) -> float:
        """Return a score of a subset, from 0 to 1, or NaN where it is not defined."""
        return self.counts(subset).score(name)

    def bound(self, mark: str) -> float:
        """Return the weighted accuracy if every unscored generation had ``mark``.

        A subset without generations, of which nothing is known, is taken to hold that mark alone;
        where all is neutral, the bound is that of any share, 1 or 0.
        """
        filled = []
        for counts in (self.right, self.wrong):
            number = getattr(counts, mark) + counts.unscored
            all_marked = counts._replace(**{mark: number})
            filled.append(all_marked if all_marked.marked else MarkCounts(**{mark: 1}))
        right, wrong = filled
        accuracy = self._replace(right=right, wrong=wrong).score(WEIGHTED, ACCURACY)
        return float(mark == TRUE) if math.isnan(accuracy) else accuracy

    def why_undefined(self) -> str:
        """Say why there is no weighted accuracy; empty if there is one."""
        if math.isnan(self.weight):
            return "no pair of a true and a false completion has scores"
        for name, weight in ((RIGHT, self.weight), (WRONG, 1 - self.weight)):
            if weight and not self.counts(name).marked:
                return (
                    f"the model is {name} in {weight:.1%} of pairs, but no generation of such a row"
                    " has a mark"
                )
        is_undefined = math.isnan(self.score(WEIGHTED, ACCURACY))
        return "no generation is marked true or false" if is_undefined else ""


def add(rows: Iterable[RowTally]) -> Totals:
    """Add up rows."""
    return Totals.of(sum((row.vector() for row in rows), np.zeros(14)).tolist())


def by_document(rows: Iterable[RowTally]) -> list[Floats]:
    """Return the sums over the rows of each document, which intervals draw whole."""
    sums: dict[str, Floats] = {}
    for row in rows:
        sums[row.doc_id] = sums.get(row.doc_id, 0) + row.vector()
    return list(sums.values())


def tally_row(doc: Doc, verdict: Verdict) -> RowTally:
    """Return what a document with its scores (``mean_logprob``) and its record add to the table."""
    beaten = {}
    for index, mean in enumerate(() if doc["problem"] else doc["mean_logprob"]):
        true = doc["mean_logprob"][doc["gold"]]
        if index != doc["gold"] and None not in (true, mean):
            beaten[index] = true > mean
    group = UNSPLIT
    if doc["contradiction"] in beaten:
        group = RIGHT if beaten[doc["contradiction"]] else WRONG
    counts = MarkCounts(*(verdict["marks"].count(mark) for mark in (*MARKS, None)))
    return RowTally(doc["doc_id"], group, counts, sum(beaten.values()), len(beaten))


def sums(sample: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return what a row adds to the scores of its marks, as ``Totals`` adds it up."""
    doc_id, group, counts, *pairs = sample[ACCURACY]
    vector = tuple(RowTally(doc_id, group, MarkCounts(*counts), *pairs).vector().tolist())
    return dict.fromkeys((score.name for score in _MARK_SCORES), vector)


def aggregation_of(value: Callable[[Totals], float]) -> Aggregation:
    """Return the aggregation of rows to a value of their totals."""

    def value_of(rows: Sequence[RowTally]) -> float:
        return value(add(rows))

    def value_of_sums(vector: Sequence[float]) -> float:
        return value(Totals.of(vector))

    # Without a value there is no error of it, though draws may happen to have one.
    def stderr_of(rows: Sequence[RowTally]) -> float:
        if math.isnan(value_of(rows)):
            return math.nan
        return pooled_stderr(by_document(rows), value_of_sums)

    def interval_of(rows: Sequence[RowTally]) -> tuple[float, float] | None:
        ends = pooled_interval(by_document(rows), value_of_sums)
        return None if math.isnan(ends[0] + value_of(rows)) else ends

    return Aggregation(value_of, stderr_of, interval_of)


def _mark_scores() -> Iterator[Score]:
    """The accuracy and the shares of marks in each subset; tables show the weighted ones."""
    for subset in SUBSETS:
        for name, label, higher in (
            (ACCURACY, "True of true and false", True),
            (TRUE, "True", True),
            (FALSE, "False", False),
            (NEUTRAL, "Neither", None),
        ):
            aggregation = aggregation_of(methodcaller("score", subset, name))
            measure = ACCURACY_MEASURE if name == ACCURACY else SHARE
            if subset != WEIGHTED:
                yield Score(f"{name}_{subset}", aggregation, measure, higher=higher)
                continue
            note = "weighted as in section 6 of the paper" if name == ACCURACY else ""
            yield Score(name, aggregation, measure, label, higher, note=note)


_MARK_SCORES = tuple(_mark_scores())
SCORES = (
    *_MARK_SCORES,
    *(
        Score(name, Aggregation(aggregation_of(methodcaller("bound", mark)).value))
        for name, mark in bounds_of(ACCURACY, FALSE, TRUE).items()
    ),
    Score("pairs_right", aggregation_of(attrgetter("weight")), SHARE),
    Score("factor_acc", MEAN, ACCURACY_MEASURE),
    Score("unscored", TOTAL, higher=False),
    Score("without_fact", Aggregation(how_many), higher=False),
)
