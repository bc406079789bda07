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

from lm_factuality.benchmarks.declaration import ACCURACY as ACCURACY_MEASURE
from lm_factuality.benchmarks.declaration import SHARE, Score, is_bound
from lm_factuality.benchmarks.factor_generation.facts import FALSE, MARKS, TRUE
from lm_factuality.harness.generation import Doc, JsonObject, Verdict
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


class Counts(NamedTuple):
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

    def all_marked(self, mark: str) -> Counts:
        """Return the counts if every unscored generation had this mark."""
        return self._replace(**{mark: getattr(self, mark) + self.unscored, "unscored": 0})


class RowTally(NamedTuple):
    """What one row adds to the table."""

    doc_id: str
    group: str
    counts: Counts

    pairs_right: int
    """The pairs of completions with scores in which the model is right."""

    pairs: int

    def vector(self) -> list[float]:
        """Return numbers that may be added up over rows: the counts by group, then the pairs."""
        numbers: list[float] = []
        for group in GROUPS:
            numbers += self.counts if group == self.group else Counts()
        return [*numbers, self.pairs_right, self.pairs]


class Totals(NamedTuple):
    """What all rows add up to."""

    right: Counts
    wrong: Counts
    unsplit: Counts
    pairs_right: float
    pairs: float

    @classmethod
    def of(cls, vector: Sequence[float]) -> Totals:
        """Make totals of a sum of ``RowTally.vector``."""
        right, wrong, unsplit = (Counts(*vector[start : start + 4]) for start in (0, 4, 8))
        return cls(right, wrong, unsplit, vector[12], vector[13])

    @property
    def weight(self) -> float:
        """The share of pairs in which the model is right; NaN if no pair has scores."""
        return ratio(self.pairs_right, self.pairs)

    @property
    def parts(self) -> Iterator[tuple[str, float, Counts]]:
        """The subsets that are weighted, each with its weight, without those of no weight."""
        for name, weight, counts in (
            (RIGHT, self.weight, self.right),
            (WRONG, 1 - self.weight, self.wrong),
        ):
            if weight:
                yield name, weight, counts

    def counts(self, subset: str) -> Counts:
        """Return the counts of a subset.

        Those of the weighted one are its shares, which are NaN where a subset of any weight has no
        marks.
        """
        if subset == WEIGHTED:
            parts = list(self.parts)
            return Counts(
                *(sum(weight * counts.score(mark) for _, weight, counts in parts) for mark in MARKS)
            )
        if subset == POOLED:
            return Counts(*map(sum, zip(self.right, self.wrong, self.unsplit, strict=True)))
        return self.right if subset == RIGHT else self.wrong

    def score(self, subset: str, name: str) -> float:
        """Return a score of a subset, from 0 to 1, or NaN where it is not defined."""
        return self.counts(subset).score(name)

    def bound(self, subset: str, mark: str) -> float:
        """Return the accuracy of a subset if every unscored generation had ``mark``.

        For the weighted accuracy, a subset without generations, of which nothing is known, is taken
        to hold that mark alone; where all is neutral, the bound is that of any share, 1 or 0.
        """
        right, wrong, unsplit = (counts.all_marked(mark) for counts in self[:3])
        if subset == WEIGHTED:
            right, wrong = (
                counts if counts.marked else Counts(**{mark: 1}) for counts in (right, wrong)
            )
        filled = self._replace(right=right, wrong=wrong, unsplit=unsplit)
        accuracy = filled.score(subset, ACCURACY)
        if subset == WEIGHTED and math.isnan(accuracy):
            return float(mark == TRUE)
        return accuracy

    def why_undefined(self) -> str:
        """Say why there is no weighted accuracy; empty if there is one."""
        if math.isnan(self.weight):
            return "no pair of a true and a false completion has scores"
        for name, weight, counts in self.parts:
            if not counts.marked:
                return (
                    f"the model is {name} in {weight:.1%} of pairs, but no generation of such a row"
                    " has a mark"
                )
        is_undefined = math.isnan(self.score(WEIGHTED, ACCURACY))
        return "no generation is marked true or false" if is_undefined else ""


def add(tallies: Iterable[RowTally | Sequence[float]]) -> Totals:
    """Add up rows, or sums of rows."""
    return Totals.of(_sum([row.vector() if isinstance(row, RowTally) else row for row in tallies]))


def by_document(tallies: Iterable[RowTally]) -> list[list[float]]:
    """Return the sums over the rows of each document, which intervals draw whole."""
    vectors: dict[str, list[list[float]]] = defaultdict(list)
    for tally in tallies:
        vectors[tally.doc_id].append(tally.vector())
    return [_sum(rows) for rows in vectors.values()]


def _sum(vectors: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip([0.0] * 14, *vectors, strict=True)]


def tally_row(doc: Doc, verdict: Verdict) -> RowTally:
    """Return what a document with its scores (``mean_logprob``) and its record add to the table."""
    means: Sequence[float | None] = doc.get("mean_logprob") or [None] * len(doc["choices"])
    true = means[doc["gold"]] if 0 <= doc["gold"] < len(means) else None
    beaten = {}
    for index, mean in enumerate(means):
        if index != doc["gold"] and true is not None and mean is not None and not doc["problem"]:
            beaten[index] = true > mean
    groups = {True: RIGHT, False: WRONG, None: UNSPLIT}
    counts = Counts(*(verdict["marks"].count(mark) for mark in (*MARKS, None)))
    group = groups[beaten.get(doc["contradiction"])]
    return RowTally(doc["doc_id"], group, counts, sum(beaten.values()), len(beaten))


def sums(sample: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return what a row adds to the scores of its marks, as ``Totals`` adds it up."""
    doc_id, group, counts, *pairs = sample[ACCURACY]
    vector = tuple(RowTally(doc_id, group, Counts(*counts), *pairs).vector())
    names = [score.name for score in SCORES if score.name.startswith((ACCURACY, *MARKS))]
    return {name: vector for name in names if not is_bound(name)}


def _score(name: str, value: Callable[[Totals], float], **about: Any) -> Score:
    """Declare a score that follows from the totals."""

    def value_of(rows: Sequence[RowTally]) -> float:
        return value(add(rows))

    def stderr_of(rows: Sequence[RowTally]) -> float:
        # Without a value there is no error of it, though draws may happen to have one.
        if math.isnan(value_of(rows)):
            return math.nan
        return pooled_stderr(by_document(rows), lambda vector: value(Totals.of(vector)))

    return Score(name, Aggregation(value_of, stderr_of), **about)


def _scores() -> Iterator[Score]:
    labels = {
        ACCURACY: "True of true and false",
        "true": "True",
        "false": "False",
        "neutral": "Neither",
    }
    better = {"false": False, "neutral": None}
    for subset in SUBSETS:
        for score in (ACCURACY, *MARKS):
            value = methodcaller("score", subset, score)
            is_weighted = subset == WEIGHTED
            yield _score(
                score if is_weighted else f"{score}_{subset}",
                value,
                measure=ACCURACY_MEASURE if score == ACCURACY else SHARE,
                label=labels[score] if is_weighted else "",
                higher=better.get(score, True),
                note="weighted as in section 6 of the paper"
                if is_weighted and score == ACCURACY
                else "",
            )
    for bound, mark in zip(Score(ACCURACY, MEAN).bounds(), (FALSE, TRUE), strict=True):
        of_totals = _score("", methodcaller("bound", WEIGHTED, mark)).aggregation
        yield replace(bound, aggregation=Aggregation(of_totals.value))
    yield _score("pairs_right", attrgetter("weight"), measure=SHARE)
    yield Score("factor_acc", MEAN, ACCURACY_MEASURE)
    yield Score("unscored", TOTAL, higher=False)
    yield Score("without_fact", Aggregation(how_many), higher=False)


SCORES = tuple(_scores())


def row_metrics(doc: Doc, verdict: Verdict) -> JsonObject:
    """Return the tally of one row, under the name of every score that it is part of."""
    right = doc["factor_acc"]
    return {
        **dict.fromkeys([score.name for score in SCORES], tally_row(doc, verdict)),
        "factor_acc": None if right is None else Outcome(right, doc["doc_id"]),
        "unscored": verdict["marks"].count(None),
        "without_fact": doc["no_fact"] or None,
    }
