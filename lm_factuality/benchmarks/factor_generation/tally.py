"""From marks to the table of section 6.2 (tables 4 and 6 of the FACTOR paper), and the metrics.

Rows are split by whether the model scored the true completion above the false one that it was
tested with (*right*) or not (*wrong*). Of the generations with a mark, the shares of true, false
and neutral ones are taken in both; the accuracy is true / (true + false). *Weighted* mixes the
shares by how often the model is right over all pairs of a true and a false completion, and takes
the accuracy of the mixture, as in the last rows of table 6. *Pooled* is over all marked
generations, also of rows that are in neither subset."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

from lm_factuality.benchmarks.declaration import ACCURACY as _ACCURACY
from lm_factuality.benchmarks.declaration import SHARE, Score, bounds_of
from lm_factuality.benchmarks.factor_generation.facts import FALSE, MARKS, TRUE
from lm_factuality.scores.statistics import (
    MEAN,
    TOTAL,
    Aggregation,
    Outcome,
    how_many,
    pooled_stderr,
    ratio,
)

RIGHT, WRONG, UNSPLIT = GROUPS = ("right", "wrong", "unsplit")
WEIGHTED, POOLED = "weighted", "pooled"
SUBSETS = (RIGHT, WRONG, WEIGHTED, POOLED)
ACCURACY = "accuracy"
KINDS = (ACCURACY, *MARKS)  # of scores, in each subset


class Counts(NamedTuple):
    """Generations by mark; fractions where the counts are mixtures."""

    true: float = 0
    false: float = 0
    neutral: float = 0
    unscored: float = 0

    @property
    def marked(self) -> float:
        return self.true + self.false + self.neutral

    @property
    def accuracy(self) -> float:
        """True generations among those that are true or false; NaN if there are none."""
        return ratio(self.true, self.true + self.false)

    def share(self, mark: str) -> float:
        """Of the marked generations; NaN if there are none."""
        return ratio(getattr(self, mark), self.marked)

    def all_marked(self, mark: str) -> Counts:
        """As if every unscored generation had this mark."""
        return self._replace(**{mark: getattr(self, mark) + self.unscored, "unscored": 0})


class RowTally(NamedTuple):
    """One row: its generations' marks and, over its pairs of completions that have scores, how
    often the model was right."""

    doc_id: str
    group: str
    counts: Counts
    pairs_right: int
    pairs: int

    def vector(self) -> list[float]:
        """Numbers that may be added up over rows: the counts of each group, then the pairs."""
        counts = [
            value
            for group in GROUPS
            for value in (self.counts if group == self.group else Counts())
        ]
        return [*counts, self.pairs_right, self.pairs]


class Totals(NamedTuple):
    right: Counts
    wrong: Counts
    unsplit: Counts
    pairs_right: float
    pairs: float

    @classmethod
    def of(cls, vector: Sequence[float]) -> Totals:
        """From a sum of ``RowTally.vector``."""
        *counts, pairs_right, pairs = vector
        size = len(Counts._fields)
        right, wrong, unsplit = (
            Counts(*counts[start : start + size]) for start in range(0, len(counts), size)
        )
        return cls(right, wrong, unsplit, pairs_right, pairs)

    @property
    def weight(self) -> float:
        """The share of pairs in which the model is right; NaN if no pair has scores."""
        return ratio(self.pairs_right, self.pairs)

    def counts(self, subset: str) -> Counts:
        """The counts of a subset; of the weighted one its shares, which are NaN where a subset of
        any weight has no marks."""
        if subset == WEIGHTED:
            parts = [
                (weight, each)
                for weight, each in ((self.weight, self.right), (1 - self.weight, self.wrong))
                if weight
            ]
            return Counts(
                *(sum(weight * each.share(mark) for weight, each in parts) for mark in MARKS)
            )
        if subset == POOLED:
            return Counts(*map(sum, zip(self.right, self.wrong, self.unsplit, strict=True)))
        return self.right if subset == RIGHT else self.wrong

    def score(self, subset: str, score: str) -> float:
        """The accuracy, or the share of a mark, as a number from 0 to 1; NaN where it is not
        defined."""
        counts = self.counts(subset)
        return counts.accuracy if score == ACCURACY else counts.share(score)

    def bounded(self, mark: str) -> Totals:
        """The totals if every unscored generation had this mark."""
        right, wrong, unsplit = (
            each.all_marked(mark) for each in (self.right, self.wrong, self.unsplit)
        )
        return self._replace(right=right, wrong=wrong, unsplit=unsplit)

    def bound(self, mark: str) -> float:
        """The weighted accuracy if every unscored generation had ``mark`` (true or false). A subset
        without generations, of which nothing is known, is taken to hold that mark alone; where all
        is neutral, the bound is that of any share, 1 or 0."""
        filled, alone = self.bounded(mark), Counts(unscored=1).all_marked(mark)
        right, wrong = (each if each.marked else alone for each in (filled.right, filled.wrong))
        found = filled._replace(right=right, wrong=wrong).score(WEIGHTED, ACCURACY)
        return float(mark == TRUE) if math.isnan(found) else found

    def why_undefined(self) -> str:
        """Why there is no weighted accuracy; empty if there is one."""
        if math.isnan(self.weight):
            return "no pair of a true and a false completion has scores"
        for weight, counts, name in (
            (self.weight, self.right, RIGHT),
            (1 - self.weight, self.wrong, WRONG),
        ):
            if weight and not counts.marked:
                return (
                    f"the model is {name} in {weight:.1%} of pairs, but no generation of such a row"
                    " has a mark"
                )
        return (
            "no generation is marked true or false"
            if math.isnan(self.score(WEIGHTED, ACCURACY))
            else ""
        )


_NONE: tuple[float, ...] = (0,) * (len(GROUPS) * len(Counts._fields) + 2)


def add(tallies: Iterable[RowTally | Sequence[float]]) -> Totals:
    """Add up rows, or sums of rows."""
    vectors = [row.vector() if isinstance(row, RowTally) else row for row in tallies]
    return Totals.of([sum(column) for column in zip(_NONE, *vectors, strict=True)])


def by_document(tallies: Iterable[RowTally]) -> list[list[float]]:
    """The sums over the rows of each document, which intervals draw whole."""
    sums: dict[str, list[float]] = defaultdict(lambda: [*_NONE])
    for tally in tallies:
        sums[tally.doc_id] = [
            ours + theirs for ours, theirs in zip(sums[tally.doc_id], tally.vector(), strict=True)
        ]
    return list(sums.values())


def tally_row(doc: Mapping[str, Any], verdict: Mapping[str, Any]) -> RowTally:
    """What a document with its scores (``mean_logprob`` of every choice) and the verdict on it add
    to the table."""
    means: Sequence[float | None] = doc.get("mean_logprob") or [None] * len(doc["choices"])
    true = means[doc["gold"]] if 0 <= doc["gold"] < len(means) else None
    beaten = {
        index: true > mean
        for index, mean in enumerate(means)
        if index != doc["gold"] and true is not None and mean is not None and not doc["problem"]
    }
    marks = verdict["marks"]
    counts = Counts(*(marks.count(mark) for mark in (*MARKS, None)))
    pair = beaten.get(doc["contradiction"])
    group = UNSPLIT if pair is None else RIGHT if pair else WRONG
    return RowTally(doc["doc_id"], group, counts, sum(beaten.values()), len(beaten))


_SCORES = {
    score if subset == WEIGHTED else f"{score}_{subset}": (subset, score)
    for subset in SUBSETS
    for score in KINDS
}


def row_metrics(doc: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The tally of one row, under the name of every score that it is part of; ``doc`` holds what
    the scores say of it."""
    tally = tally_row(doc, verdict)
    right = doc["factor_acc"]
    return {
        **dict.fromkeys(_SCORES, tally),
        **bounds_of(ACCURACY, tally, tally),
        "pairs_right": tally,
        "factor_acc": None if right is None else Outcome(right, doc["doc_id"]),
        "unscored": verdict["marks"].count(None),
        "without_fact": doc["no_fact"] or None,
    }


def sums(sample: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """What a row adds to the scores of its marks, as ``Totals`` adds it up."""
    doc_id, group, counts, *pairs = sample[ACCURACY]
    return dict.fromkeys(_SCORES, tuple(RowTally(doc_id, group, Counts(*counts), *pairs).vector()))


def _of_totals(value: Callable[[Totals], float]) -> Aggregation:
    def stderr(rows: Sequence[RowTally]) -> float:
        # Without a value there is no error of it, though draws may happen to have one.
        return (
            math.nan
            if math.isnan(value(add(rows)))
            else pooled_stderr(by_document(rows), lambda sums: value(Totals.of(sums)))
        )

    return Aggregation(lambda rows: value(add(rows)), stderr)


_LABELS = {
    "accuracy": "True of true and false",
    "true": "True",
    "false": "False",
    "neutral": "Neither",
}
_HIGHER = {"false": False, "neutral": None}


def _scores() -> Iterator[Score]:
    for name, (subset, score) in _SCORES.items():
        note = "weighted as in section 6 of the paper" if name == ACCURACY else ""
        measure, higher = _ACCURACY if score == ACCURACY else SHARE, _HIGHER.get(score, True)
        aggregation = _of_totals(methodcaller("score", subset, score))
        yield Score(name, aggregation, measure, _LABELS.get(name, ""), higher, note=note)
    for bound, mark in zip(Score(ACCURACY, MEAN).bounds(), (FALSE, TRUE), strict=True):
        without_stderr = Aggregation(_of_totals(methodcaller("bound", mark)).value)
        yield replace(bound, aggregation=without_stderr)
    yield Score("pairs_right", _of_totals(attrgetter("weight")), SHARE)
    yield Score("factor_acc", MEAN, _ACCURACY)
    yield Score("unscored", TOTAL, higher=False)
    yield Score("without_fact", Aggregation(how_many), higher=False)


SCORES = tuple(_scores())
