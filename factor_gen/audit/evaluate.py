"""Measures how good each blind baseline is: win rates, accuracies, intervals and tests.

It also finds the rows that belong together, so that no classifier scores a row after it learned
from the row's own document. :mod:`factor_gen.audit.audit` calls it.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from factor_gen.audit.records import COMPARES, FEWEST, BlindBaseline, ChoiceScores, EstimatedShare
from lm_factuality.benchmarks.factor.metrics import pick_probabilities
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.scores.intervals import Floats, number_clusters
from lm_factuality.scores.paired import holm

_FOLDS = 5
_DRAWS = 100_000  # draws of random signs in the randomisation test
_BATCH = 250  # draws that are made together; with 5,000 documents they take 10 MB

Outcomes = Sequence[float]
"""One value in 0..1 for each row; NaN if the baseline did not score the row."""


class DocumentSums(NamedTuple):
    """The outcomes summed by document group. Both arrays are (document groups, baselines)."""

    sums: Floats
    """Sum of the outcomes of the scored rows."""
    scored_rows: Floats
    """How many rows were scored."""


def evaluate_baselines(
    scores: Sequence[ChoiceScores], rows: Sequence[Row], seed: int = 0
) -> list[BlindBaseline]:
    """Measure how often each blind baseline prefers the true completion, and test the result.

    Args:
        scores: The scores that each baseline gives to the choices of all rows.
        rows: The rows that were scored. In intervals and tests, documents that share a text count
            as one.
        seed: Decides the random signs of the tests.

    Returns:
        One result for each baseline, in the order of ``scores``.
    """
    documents = document_groups(rows)
    p_values = _test_by_random_signs(_win_rates_to_test(scores, rows), documents, seed)
    # Of many baselines, some seem above chance by accident.
    corrected_p_values = _correct_p_values(scores, p_values)

    baselines = []
    for baseline, p_value, corrected in zip(scores, p_values, corrected_p_values, strict=True):
        win_rates = _outcomes(baseline.values, rows, win_rate)
        pick_shares = _outcomes(baseline.values, rows, _pick_share)
        baselines.append(
            BlindBaseline(
                baseline.name,
                baseline.family,
                rows=sum(values is not None for values in baseline.values),
                pairs_won=EstimatedShare.of(win_rates, documents),
                rows_won=EstimatedShare.of(pick_shares, documents),
                p_value=p_value,
                corrected_p_value=corrected,
            )
        )
    return baselines


def _win_rates_to_test(scores: Sequence[ChoiceScores], rows: Sequence[Row]) -> Floats:
    """Return the win rates that the test looks at, an array (rows, baselines).

    The test assumes that the rates of different documents are independent. The rates of a
    classifier that learned from all other documents are not: it may be right or wrong about many
    documents for the same reason. So the test looks at other scores of the classifier,
    ``forward_values``. For these, the rows are divided into fifths, and the classifier scores each
    fifth after it learned from the earlier fifths only.
    """
    win_rates = np.empty((len(rows), len(scores)))
    for column, baseline in enumerate(scores):
        tested_values = baseline.forward_values or baseline.values
        win_rates[:, column] = _outcomes(tested_values, rows, win_rate)
    return win_rates


def win_rate(values: Sequence[float], gold: int) -> float:
    """Return the share of contradictions that score below the true completion; a tie counts half.

    Args:
        values: A baseline's scores of the choices of one row.
        gold: The index of the true completion.

    Example:
        ``win_rate([1, 2, 0, 1], gold=0)`` is 0.5: one contradiction of three is below, one ties.
    """
    contradictions = [value for index, value in enumerate(values) if index != gold]
    wins = sum(value < values[gold] for value in contradictions)
    ties = contradictions.count(values[gold])
    return (wins + ties / 2) / len(contradictions)


def _pick_share(values: Sequence[float], gold: int) -> float:
    """Return the probability that a baseline picks the true completion of a row.

    It picks the choice with the best score. Several with the best score are equally likely.
    """
    return pick_probabilities(values)[gold]


def _outcomes(
    values_of_rows: Sequence[Sequence[float] | None],
    rows: Sequence[Row],
    measure: Callable[[Sequence[float], int], float],
) -> list[float]:
    """Measure how well a baseline does in each row, from 0 to 1; NaN for a row without scores.

    Args:
        values_of_rows: A baseline's scores of the choices of each row, or None.
        rows: The rows, in the same order.
        measure: Computes the outcome of a row from its scores and the index of the true completion,
            such as `win_rate`.
    """
    return [
        math.nan if values is None else measure(values, row.gold)
        for values, row in zip(values_of_rows, rows, strict=True)
    ]


def _sum_by_document(values: Floats, documents: Sequence[str]) -> DocumentSums:
    """Sum values of each baseline over the rows of each document group.

    Args:
        values: An array (rows, baselines); NaN if a baseline did not score a row.
        documents: The document group of each row.

    Example:
        One baseline has the values 1, 0.5 and NaN, and all three rows are of one document. The sum
        is then 1.5, of two scored rows.
    """
    group_of_row = number_clusters(documents)
    num_groups = len(set(documents))
    sums = np.zeros((num_groups, values.shape[1]))
    scored_rows = np.zeros_like(sums)
    # Unlike "+=", np.add.at adds every row of a group that has several.
    np.add.at(sums, group_of_row, np.nan_to_num(values))
    np.add.at(scored_rows, group_of_row, ~np.isnan(values))
    return DocumentSums(sums, scored_rows)


def _test_by_random_signs(win_rates: Floats, documents: Sequence[str], seed: int) -> list[float]:
    """Test by random signs whether each baseline wins more than half of the pairs.

    A row's surplus is its win rate minus a half, and a document's is the sum of those of its rows.
    If a baseline knows nothing, a surplus of -0.3 is as likely as one of 0.3. So the test gives all
    surpluses random signs, again and again, and counts how often their total is as high as the real
    one. If that is rare, the real total is no accident.

    The test does not shuffle the choices of a row, because contradictions are edits of the true
    completion, and differ from it even if nothing gives it away.

    Args:
        win_rates: The win rates, an array (rows, baselines); NaN for a row without scores.
        documents: The document group of each row. All rows of a group get the same sign.
        seed: Decides the signs.

    Returns:
        One-sided p-values; NaN if a baseline scored fewer documents than `FEWEST`.
    """
    surpluses = _sum_by_document(win_rates - 0.5, documents)
    num_as_high = _count_totals_as_high(surpluses.sums, seed)
    # The real signs count as one more draw, so that no p-value is 0.
    p_values = (1 + num_as_high) / (1 + _DRAWS)
    # A p-value from a few documents would mean little.
    num_scored_documents = (surpluses.scored_rows > 0).sum(axis=0)
    tested: list[float] = np.where(num_scored_documents >= FEWEST, p_values, math.nan).tolist()
    return tested


def _count_totals_as_high(surpluses: Floats, seed: int) -> Floats:
    """Count the random draws of signs after which a baseline's total is as high as the real total.

    These draws are the core of a permutation test. If a baseline knows nothing, each surplus is as
    likely to be negative as to be positive, so a total with random signs is as likely as the real
    one.

    Args:
        surpluses: The surplus of each document group, an array (document groups, baselines).
        seed: Decides the signs.

    Returns:
        The number of draws for each baseline, of `_DRAWS`.
    """
    real_totals = surpluses.sum(axis=0)
    num_as_high = np.zeros(len(real_totals))
    generator = np.random.default_rng(seed)
    for _ in range(0, _DRAWS, _BATCH):
        # 0 and 1 become the signs -1 and 1: an array (draws, document groups).
        bits = generator.integers(0, 2, size=(_BATCH, len(surpluses)), dtype=np.int8)
        totals = (bits * 2.0 - 1) @ surpluses
        # A total that equals the real one may seem smaller by a rounding error.
        is_as_high = totals >= real_totals - 1e-9
        num_as_high += is_as_high.sum(axis=0)
    return num_as_high


def _correct_p_values(scores: Sequence[ChoiceScores], p_values: Sequence[float]) -> list[float]:
    """Correct the p-values for the number of baselines by Holm's method.

    Baselines that compare the choices of a row are left out, since a language model, which scores
    each choice by itself, cannot do what they do. Their p-values stay as they are.

    Args:
        scores: The baselines.
        p_values: The p-value of each; NaN if it was not tested.
    """
    corrected = np.array(p_values, dtype=float)
    compares_choices = np.array([baseline.family == COMPARES for baseline in scores], dtype=bool)
    needs_correction = ~compares_choices & ~np.isnan(corrected)
    corrected[needs_correction] = holm(corrected[needs_correction].tolist())
    return corrected.tolist()  # type: ignore[no-any-return]


def assign_folds(rows: Sequence[Row], seed: int) -> list[int]:
    """Assign each row at random to a fold of the cross-validation, from 0 to 4.

    All rows of documents that share a text get the same fold. With fewer than five groups of such
    documents, there are fewer folds.
    """
    group_of_row = document_groups(rows)
    groups = list(dict.fromkeys(group_of_row))
    random.Random(f"{seed}/audit/folds").shuffle(groups)
    # Dealing out the shuffled groups gives folds with equal numbers of them.
    fold_of_group = {group: index % _FOLDS for index, group in enumerate(groups)}
    return [fold_of_group[group] for group in group_of_row]


def document_groups(rows: Sequence[Row]) -> list[str]:
    """Return the document group of each row, i.e. the documents that share texts with its own.

    Two documents are in one group if rows of theirs have the same true completion or the same
    prefix. A prefix of more than half of all documents is an instruction, such as "Complete the
    text:". It does not count, and neither does an empty one.

    Returns:
        The name of the group of each row. It is the same for all rows of a group.

    Example:
        If documents a and b share a completion, and b and c a prefix, all three are one group.
    """
    instructions = _find_instructions(rows)
    # A document is merged with its own texts, and so with all documents that have one of them. The
    # words before an id or a text keep those of different kinds apart.
    groups = DisjointSet(f"document {row.doc_id}" for row in rows)
    for row in rows:
        texts = [f"completion {row.choices[row.gold].strip()}"]
        prefix = row.prefix.strip()
        if prefix and prefix not in instructions:
            texts.append(f"prefix {prefix}")
        for text in texts:
            groups.add(text)
            groups.merge(text, f"document {row.doc_id}")
    return [groups[f"document {row.doc_id}"] for row in rows]


def _find_instructions(rows: Sequence[Row]) -> set[str]:
    """Return the prefixes that more than half of all documents have, without spaces at the ends."""
    documents_by_prefix = defaultdict(set)
    for row in rows:
        documents_by_prefix[row.prefix.strip()].add(row.doc_id)
    num_documents = len({row.doc_id for row in rows})
    return {
        prefix
        for prefix, documents in documents_by_prefix.items()
        if len(documents) > num_documents / 2
    }
