"""The table of section 6.2 of the FACTOR paper (tables 4 and 6), and the metrics that it holds.

Rows are split by whether the model scores the true completion above the false one that it was
tested with (``right``) or not (``wrong``). Of the generations with a mark, the shares of true,
false and neutral ones are taken in both groups. The accuracy is true / (true + false). The
``weighted`` shares mix those of both groups by how often the model is right over all pairs of a
true and a false completion, as in the last rows of table 6. The ``pooled`` shares are of all marked
generations, also of rows that are in neither group.

`lm_factuality.benchmarks.factor_generation.judging` calls `tally_row` for each row, and
`SCORES` says how the tallies of all rows become one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lm_factuality.benchmarks.declaration import SHARE, Score, worst_and_best_of
from lm_factuality.benchmarks.factor_generation.facts import FALSE, MARKS, NEUTRAL, TRUE
from lm_factuality.harness.generation import Doc, Verdict
from lm_factuality.scores.intervals import (
    ClusteredMean,
    Floats,
    pooled_estimate,
    pooled_interval,
)
from lm_factuality.scores.statistics import (
    MEAN,
    TOTAL,
    Aggregation,
    count_present,
    ratio,
)

RIGHT = "right"
WRONG = "wrong"
UNSPLIT = "unsplit"
GROUPS = (RIGHT, WRONG, UNSPLIT)
"""The groups of rows. ``unsplit`` are rows of which no score tells whether the model is right."""

WEIGHTED = "weighted"
POOLED = "pooled"
_GROUPS_OF_SUBSET = {
    RIGHT: (RIGHT,),
    WRONG: (WRONG,),
    WEIGHTED: (RIGHT, WRONG),
    POOLED: GROUPS,
}
"""The groups of rows in each subset that scores are computed of."""

ACCURACY = "accuracy"

_NUM_COUNTS = len(MARKS) + 1
"""The number of counts of a group of rows: one for each mark, and one of unscored generations."""
_NUM_SUMS = _NUM_COUNTS * len(GROUPS) + 2
"""The length of `Sums`. The last two numbers count pairs of completions."""

Sums = Sequence[float]
"""The sums over rows of what `RowTally.to_array` returns.

These are four numbers for each group of rows (true, false, neutral and unscored generations), the
pairs of completions in which the model is right, and all pairs of completions with scores.
"""


class RowTally(NamedTuple):
    """The numbers that one row adds to the table. Samples hold it as a list."""

    doc_id: str

    group: str
    """One of `GROUPS`."""

    counts: Sequence[int]
    """The number of true, false, neutral and unscored generations."""

    pairs_right: int
    """The number of contradictions that the model scores below the true completion."""

    pairs: int
    """The number of contradictions that have a score, if the true completion has one."""

    def to_array(self) -> Floats:
        """Return the numbers of the row in the order of `Sums`, so that rows can be added."""
        counts_by_group = np.zeros((len(GROUPS), len(self.counts)))
        # A row adds to the counts of its own group alone.
        counts_by_group[GROUPS.index(self.group)] = self.counts
        return np.append(counts_by_group, (self.pairs_right, self.pairs))


def tally_row(doc: Doc, record: Verdict) -> RowTally:
    """Count the generations and the pairs of completions of one row.

    Args:
        doc: The document of the row, with the model's scores of its choices. ``contradiction`` is
            the index of the contradiction with which the model was tested.
        record: The judge's marks of the row's generations, None for an unscored one.

    Returns:
        The counts, and the group of the row: ``right`` if the model scores the true completion
        above this contradiction.
    """
    is_won_by_contradiction = _pairs_won(doc)
    # None if the contradiction or the true completion has no score.
    is_won = is_won_by_contradiction.get(doc["contradiction"])
    group = {None: UNSPLIT, True: RIGHT, False: WRONG}[is_won]

    # Unscored generations have the mark None.
    counts = [record["marks"].count(mark) for mark in (*MARKS, None)]
    return RowTally(
        doc["doc_id"],
        group,
        counts,
        pairs_right=sum(is_won_by_contradiction.values()),
        pairs=len(is_won_by_contradiction),
    )


def _pairs_won(doc: Doc) -> dict[int, bool]:
    """Compare the true completion of a row with each contradiction by the model's scores.

    Example:
        If the means per token are ``[-2, -3, -1]`` and choice 0 is true, ``{1: True, 2: False}``.

    Args:
        doc: The document of the row. Its ``mean_logprob`` has the mean log-probability per token of
            each choice, and ``problem`` says why the row cannot be scored, if it cannot.

    Returns:
        Whether the true completion is likelier, by the index of the contradiction. Pairs without a
        score are left out, and a tie is not won.
    """
    means = doc["mean_logprob"]
    gold = doc["gold"]
    has_gold = 0 <= gold < len(means)
    # Without the score of the true completion, there is no pair.
    if doc["problem"] or not has_gold or means[gold] is None:
        return {}

    pairs_won = {}
    for index, mean in enumerate(means):
        if index != gold and mean is not None:
            pairs_won[index] = means[gold] > mean
    return pairs_won


def sum_tallies(rows: Iterable[RowTally]) -> Sums:
    """Add up the tallies of all rows.

    Returns:
        Four sums for each group of rows (true, false, neutral and unscored generations), then the
        number of pairs of completions in which the model is right, and of all pairs (see `Sums`).
    """
    # Without rows, all sums are 0.
    totals = sum((row.to_array() for row in rows), np.zeros(_NUM_SUMS))
    sums: Sums = totals.tolist()
    return sums


def sums_by_document(rows: Iterable[RowTally]) -> list[Sums]:
    """Return the sums over the rows of each document.

    Documents are the clusters of intervals, since the rows of one document are alike.
    """
    # Documents keep the order in which they first occur.
    arrays: dict[str, Floats] = {}
    for row in rows:
        arrays[row.doc_id] = arrays.get(row.doc_id, 0) + row.to_array()
    return [array.tolist() for array in arrays.values()]


def counts_by_group(sums: Sums) -> dict[str, list[float]]:
    """Return the numbers of true, false, neutral and unscored generations, by group of rows.

    Example:
        ``{"right": [8, 1, 2, 0], "wrong": [1, 4, 1, 0], "unsplit": [0, 0, 0, 1]}``
    """
    # The last two sums count pairs of completions. All others are four numbers for each group.
    counts = np.reshape(sums[:-2], (len(GROUPS), _NUM_COUNTS)).tolist()
    return dict(zip(GROUPS, counts, strict=True))


def share_of_pairs_right(sums: Sums) -> float:
    """Return the share of pairs of a true and a false completion in which the model is right.

    It scores the true one above the false one in these. The share is NaN if no pair has scores.
    """
    # The last two sums are the numbers of such pairs and of all pairs.
    *_, pairs_right, pairs = sums
    return ratio(pairs_right, pairs)


def numbers_by_mark(sums: Sums, subset: str) -> dict[str, float]:
    """Return the number of true, false and neutral generations in a subset of rows.

    Args:
        sums: The sums over rows.
        subset: One of these:

            - ``right``: the rows in which the model scores the true completion above the false one
            - ``wrong``: the other rows with scores
            - ``pooled``: all rows
            - ``weighted``: right and wrong rows, mixed by how often the model is right

    Returns:
        The numbers by mark or, for ``weighted``, the shares by mark. Unscored generations have no
        mark and are left out.
    """
    if subset == WEIGHTED:
        return _weighted_shares(sums)

    numbers = dict.fromkeys(MARKS, 0.0)
    counts = counts_by_group(sums)
    for group in _GROUPS_OF_SUBSET[subset]:
        *counts_of_marks, _ = counts[group]
        for mark, count in zip(MARKS, counts_of_marks, strict=True):
            numbers[mark] += count
    return numbers


def _weighted_shares(sums: Sums) -> dict[str, float]:
    """Average the shares of true, false and neutral generations in right and in wrong rows.

    A row is right if the model scores its true completion above the false one. The average is
    weighted as in table 6 of the paper (see `_weights_of_groups`).

    Returns:
        The shares by mark. They are NaN if a group has a weight, but no marked generation.
    """
    shares = dict.fromkeys(MARKS, 0.0)
    for group, weight in _weights_of_groups(sums).items():
        # If the model is right in all pairs, the marks of wrong rows do not matter.
        if not weight:
            continue
        counts = numbers_by_mark(sums, group)
        num_marked = sum(counts.values())
        for mark, count in counts.items():
            # A share of no marked generation is NaN.
            shares[mark] += weight * ratio(count, num_marked)
    return shares


def _weights_of_groups(sums: Sums) -> dict[str, float]:
    """Return the weights of right and of wrong rows in weighted shares.

    Example:
        If the model is right in 3 of 4 pairs of completions, ``{"right": 0.75, "wrong": 0.25}``.
    """
    share_of_pairs = share_of_pairs_right(sums)
    return {RIGHT: share_of_pairs, WRONG: 1 - share_of_pairs}


def subset_score(sums: Sums, subset: str, name: str) -> float:
    """Return the accuracy in a subset of rows, or the share of a mark among its generations.

    Args:
        sums: The sums over rows.
        subset: ``right``, ``wrong``, ``pooled`` or ``weighted`` (see `numbers_by_mark`).
        name: ``accuracy``, the share of true generations among true and false ones, or a mark.

    Returns:
        A share from 0 to 1. NaN if there is no generation of which it could be a share.
    """
    marks = numbers_by_mark(sums, subset)
    if name == ACCURACY:
        return ratio(marks[TRUE], marks[TRUE] + marks[FALSE])
    return ratio(marks[name], sum(marks.values()))


def accuracy_bound(sums: Sums, mark: str) -> float:
    """Return the accuracy that there would be if all unscored generations had the same mark.

    Args:
        sums: The sums over rows.
        mark: ``true`` for the best case, ``false`` for the worst.

    Returns:
        A share from 0 to 1. If all generations are neutral, it is 1 or 0, since any accuracy is
        possible.
    """
    *_, pairs_right, pairs = sums
    filled_sums: list[float] = []
    for counts in counts_by_group(sums).values():
        filled_sums += _move_unscored_to_mark(mark, counts)
    # The pairs of completions do not depend on the judge.
    filled_sums += (pairs_right, pairs)
    accuracy = subset_score(filled_sums, WEIGHTED, ACCURACY)
    if math.isnan(accuracy):
        # All generations are neutral, or no pair has scores.
        return 1.0 if mark == TRUE else 0.0
    return accuracy


def _move_unscored_to_mark(mark: str, counts: Sequence[float]) -> list[float]:
    """Count the unscored generations of a group of rows as if all had the same mark.

    Example:
        The counts ``[5, 2, 1, 3]`` of true, false, neutral and unscored generations become
        ``[8, 2, 1, 0]`` for the mark ``true``.
    """
    *marked_counts, num_unscored = counts
    index = MARKS.index(mark)
    marked_counts[index] += num_unscored
    # A group without any generation gets one, since shares of none would not be defined.
    if not any(marked_counts):
        marked_counts[index] = 1
    return [*marked_counts, 0]


def why_undefined(sums: Sums) -> str:
    """Return why the weighted accuracy is not defined, or an empty text if it is.

    The accuracy weights right rows by the share of pairs in which the model is right, and wrong
    rows by the rest. So it needs a pair with scores, a marked generation in each group with a
    weight above 0, and a generation that is true or false.

    Args:
        sums: The sums over rows.

    Returns:
        The reason, such as ``the model is wrong in 25.0% of pairs, but no generation of such a row
        has a mark``.
    """
    if math.isnan(share_of_pairs_right(sums)):
        return "no pair of a true and a false completion has scores"

    for group, weight in _weights_of_groups(sums).items():
        has_marks = any(numbers_by_mark(sums, group).values())
        # If the model is right in all pairs, wrong rows have no weight and need no marks.
        if weight and not has_marks:
            return (
                f"the model is {group} in {weight:.1%} of pairs, but no generation of such a row"
                " has a mark"
            )

    if math.isnan(subset_score(sums, WEIGHTED, ACCURACY)):
        return "no generation is marked true or false"
    return ""


def pooled_counts(sample: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return what the row of a sample adds to each score of marks, in the order of `Sums`."""
    # Samples hold the tally of a row as the value of every score of marks.
    row = RowTally(*sample[ACCURACY])
    counts = tuple(row.to_array().tolist())
    return {score.name: counts for score in _MARK_SCORES}


def count_rows_with_score(rows: Iterable[RowTally], subset: str, name: str) -> int:
    """Count the rows that have a generation with a part in a score.

    Args:
        rows: The tallies of all rows.
        subset: ``right``, ``wrong``, ``pooled`` or ``weighted`` (see `numbers_by_mark`).
        name: ``accuracy``, in which neutral generations have no part, or a mark, whose share is
            that of all marked generations.
    """
    groups = _GROUPS_OF_SUBSET[subset]
    # A row counts true and false generations first, then neutral and unscored ones.
    num_counts = 2 if name == ACCURACY else 3
    return sum(row.group in groups and any(row.counts[:num_counts]) for row in rows)


def count_rows_with_pairs(rows: Iterable[RowTally]) -> int:
    """Count the rows in which a true and a false completion both have scores."""
    return sum(row.pairs > 0 for row in rows)


def aggregate_sums(
    score_of_sums: Callable[[Sums], float], count_rows: Callable[[Sequence[RowTally]], int] = len
) -> Aggregation:
    """Return how tallies of rows become a score, its standard error and its interval.

    Errors are clustered by document.

    Args:
        score_of_sums: Computes the score from the sums over rows.
        count_rows: Counts the rows that have a part in the score.
    """
    estimate = partial(_estimate_score, score_of_sums)
    return Aggregation(
        value=lambda rows: score_of_sums(sum_tallies(rows)),
        stderr=lambda rows: estimate(rows).stderr,
        interval=lambda rows, low, high: pooled_interval(
            sums_by_document(rows), score_of_sums, low, high
        ),
        rows=count_rows,
        clusters=lambda rows: estimate(rows).num_clusters,
    )


def _estimate_score(
    score_of_sums: Callable[[Sums], float], rows: Sequence[RowTally]
) -> ClusteredMean:
    """Return a score with its variance over documents, NaN if there is none."""
    no_estimate = ClusteredMean(math.nan, math.nan, 0, 0)
    return pooled_estimate(sums_by_document(rows), score_of_sums) or no_estimate


# The name of each score of a subset, its label in tables, and whether more of it is better. It is
# neither good nor bad if a generation is neutral.
_LABELS = (
    (ACCURACY, "True of true and false", True),
    (TRUE, "True", True),
    (FALSE, "False", False),
    (NEUTRAL, "Neither", None),
)


def _scores_of_marks() -> Iterator[Score]:
    """Make the accuracy and the share of each mark in each subset of rows.

    Yields:
        The scores, such as ``accuracy`` and ``accuracy_right``. Only those of the weighted subset
        have a label, with which tables show them.
    """
    for subset in _GROUPS_OF_SUBSET:
        for name, label, higher_is_better in _LABELS:
            aggregation = aggregate_sums(
                score_of_sums=partial(subset_score, subset=subset, name=name),
                count_rows=partial(count_rows_with_score, subset=subset, name=name),
            )
            # The accuracy in the rows that the model has right, for example, is accuracy_right.
            score = Score(f"{name}_{subset}", aggregation, SHARE, higher_is_better=higher_is_better)
            if subset == WEIGHTED:
                # The accuracy is the headline, so tables explain it.
                note = "weighted as in section 6 of the paper" if name == ACCURACY else ""
                score = replace(score, name=name, label=label, note=note)
            yield score


def _bounds_of_accuracy() -> Iterator[Score]:
    """Make the worst and the best case of the accuracy, which have no standard error."""
    for name, mark in worst_and_best_of(ACCURACY, FALSE, TRUE).items():
        aggregation = aggregate_sums(partial(accuracy_bound, mark=mark))
        yield Score(name, Aggregation(aggregation.value))


_MARK_SCORES = tuple(_scores_of_marks())
SCORES = (
    *_MARK_SCORES,
    *_bounds_of_accuracy(),
    Score("pairs_right", aggregate_sums(share_of_pairs_right, count_rows_with_pairs), SHARE),
    Score("factor_acc", MEAN, SHARE),
    Score("unscored", TOTAL, higher_is_better=False),
    Score("without_fact", Aggregation(count_present), higher_is_better=False),
)
