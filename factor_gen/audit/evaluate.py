"""Measures how good each blind baseline is: win rates, accuracies, intervals and tests.

It also finds the rows that belong together, so that no classifier scores a row after it learned
from the row's own document. :mod:`factor_gen.audit.audit` calls it.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import DisjointSet
from tqdm import tqdm

from factor_gen.audit.records import COMPARES, FEWEST, BlindBaseline, ChoiceScores, EstimatedShare
from lm_factuality.benchmarks.factor.metrics import pick_probabilities
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.scores.paired import holm
from lm_factuality.scores.statistics import Floats

_FOLDS = 5
_RESAMPLES = 10_000
_DRAWS = 100_000  # draws of random signs in the randomisation test
_BATCH = 250  # resamples that are drawn together; with 5,000 documents they take 10 MB

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
        rows: The rows that were scored. Rows of documents that share a text count as one
            document's in intervals and tests.
        seed: Decides the bootstrap resamples and the random signs of the tests.

    Returns:
        One result for each baseline, in the order of ``scores``.
    """
    documents = document_groups(rows)
    pair_outcomes = [_outcomes(baseline.values, rows, win_rate) for baseline in scores]
    pick_outcomes = [_outcomes(baseline.values, rows, _pick_share) for baseline in scores]

    # One call, so that both measures of all baselines share their resamples.
    estimates = estimate_shares([*pair_outcomes, *pick_outcomes], documents, seed)
    pair_shares = estimates[: len(scores)]
    pick_shares = estimates[len(scores) :]

    # Scores that were learned from later folds as well would make the test too lenient.
    tested_outcomes = [
        _outcomes(baseline.forward_values or baseline.values, rows, win_rate) for baseline in scores
    ]
    p_values = _p_values(tested_outcomes, documents, seed)
    corrected_p_values = _correct_p_values(scores, p_values)

    baselines = []
    for index, baseline in enumerate(scores):
        baselines.append(
            BlindBaseline(
                baseline.name,
                baseline.family,
                rows=sum(values is not None for values in baseline.values),
                pairs=pair_shares[index],
                picks=pick_shares[index],
                p=p_values[index],
                corrected=corrected_p_values[index],
            )
        )
    return baselines


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
    """Return the probability that the best score, with ties drawn by lot, is the true one's."""
    return pick_probabilities(values)[gold]


def _outcomes(
    values_of_rows: Sequence[Sequence[float] | None],
    rows: Sequence[Row],
    measure: Callable[[Sequence[float], int], float],
) -> list[float]:
    """Apply a measure to the scores of each row; a row without scores gets NaN.

    Args:
        values_of_rows: A baseline's scores of the choices of each row, or None.
        rows: The rows, in the same order.
        measure: Computes an outcome from a row's scores and the index of the true completion.
    """
    outcomes = []
    for values, row in zip(values_of_rows, rows, strict=True):
        outcomes.append(math.nan if values is None else measure(values, row.gold))
    return outcomes


def estimate_shares(
    outcomes: Sequence[Outcomes], documents: Sequence[str], seed: int
) -> list[EstimatedShare]:
    """Estimate the mean of each baseline's outcomes with a 95% bootstrap interval.

    Whole documents are resampled, and all baselines share the resamples. The result is that of
    ``scores.statistics.bootstrap_interval``, but memory does not grow with the number of resamples.

    Args:
        outcomes: The outcomes of each baseline.
        documents: The document group of each row.
        seed: Decides the resamples.

    Returns:
        One estimate for each baseline. Its interval is NaN if all rows are of one document.
    """
    resampled_means = _resample_means(_sum_by_document(outcomes, documents), seed)
    estimates = []
    for values, means in zip(outcomes, resampled_means.T, strict=True):
        scored = [value for value in values if not math.isnan(value)]
        share = sum(scored) / len(scored) if scored else math.nan

        # A resample without any scored row has no mean.
        defined_means = means[np.isfinite(means)]
        low = high = math.nan
        if len(defined_means):
            low, high = np.quantile(defined_means, [0.025, 0.975])
        estimates.append(EstimatedShare(share, float(low), float(high)))
    return estimates


def _sum_by_document(outcomes: Sequence[Outcomes], documents: Sequence[str]) -> DocumentSums:
    """Sum each baseline's outcomes over the rows of each document group.

    Args:
        outcomes: The outcomes of each baseline.
        documents: The document group of each row.

    Returns:
        The sums, with the document groups in the order in which they first appear.
    """
    names = list(dict.fromkeys(documents))
    index_of_name = {name: index for index, name in enumerate(names)}
    document_of_row = np.array([index_of_name[name] for name in documents], dtype=int)

    # The shape is given because an array of no outcomes would lose its second dimension.
    values = np.array(outcomes, dtype=float).reshape(len(outcomes), len(documents)).T
    sums = np.zeros((len(names), len(outcomes)))
    scored_rows = np.zeros_like(sums)
    # Unlike "+=", np.add.at adds every row of a document that has several.
    np.add.at(sums, document_of_row, np.nan_to_num(values))
    np.add.at(scored_rows, document_of_row, ~np.isnan(values))
    return DocumentSums(sums, scored_rows)


def _resample_means(document_sums: DocumentSums, seed: int) -> Floats:
    """Compute each baseline's mean outcome in bootstrap resamples of the documents.

    Returns:
        An array (resamples, baselines). A mean is NaN if a resample has no scored row, and all are
        NaN if there are fewer than two documents.
    """
    sums, scored_rows = document_sums
    documents, baselines = sums.shape
    means = np.full((_RESAMPLES, baselines), np.nan)
    if documents < 2:
        return means

    generator = np.random.default_rng(seed)
    probabilities = np.full(documents, 1 / documents)
    with np.errstate(invalid="ignore", divide="ignore"):
        for start in tqdm(range(0, _RESAMPLES, _BATCH), desc="bootstrap", delay=2):
            # How often each document is drawn in each resample of the batch.
            counts = generator.multinomial(documents, probabilities, size=_BATCH).astype(float)
            means[start : start + _BATCH] = (counts @ sums) / (counts @ scored_rows)
    return means


def _p_values(win_rates: Sequence[Outcomes], documents: Sequence[str], seed: int) -> list[float]:
    """Test whether each baseline wins more than half of the pairs, by random signs of documents.

    A document's surplus is the sum of its rows' win rates above a half. If an edit is as likely to
    raise the baseline's score as to lower it, then a surplus is as likely as a deficit of the same
    size. The test does not permute which choice is true, because contradictions are edits of the
    true completion and so not exchangeable with it.

    Args:
        win_rates: The win rates of each baseline.
        documents: The document group of each row. All its rows get the same sign.
        seed: Decides the signs.

    Returns:
        One-sided p-values; NaN if a baseline scored fewer documents than `FEWEST`.
    """
    # A baseline that knows nothing wins half of the pairs.
    surpluses = np.array(win_rates, dtype=float) - 0.5
    document_sums = _sum_by_document(surpluses, documents)  # type: ignore[arg-type]
    observed = document_sums.sums.sum(axis=0)

    reached = np.zeros(len(win_rates))
    generator = np.random.default_rng(seed)
    size = (_BATCH, len(document_sums.sums))
    for _ in range(0, _DRAWS, _BATCH):
        signs = generator.integers(0, 2, size=size, dtype=np.int8) * 2.0 - 1
        # The tolerance keeps rounding from hiding draws that equal the observed surplus.
        reached += (signs @ document_sums.sums >= observed - 1e-9).sum(axis=0)

    p_values = (1 + reached) / (1 + _DRAWS)
    scored_documents = (document_sums.scored_rows > 0).sum(axis=0)
    return np.where(scored_documents >= FEWEST, p_values, math.nan).tolist()  # type: ignore[no-any-return]


def _correct_p_values(scores: Sequence[ChoiceScores], p_values: Sequence[float]) -> list[float]:
    """Correct the p-values for the number of baselines by Holm's method.

    Args:
        scores: The baselines. Those that compare the choices do not count against the benchmark.
        p_values: The p-value of each; NaN if it was not tested.

    Returns:
        The corrected p-values. Those of baselines that do not count or were not tested stay as
        they are.
    """
    corrected = list(p_values)
    counted = []
    for index, baseline in enumerate(scores):
        if baseline.family != COMPARES and not math.isnan(p_values[index]):
            counted.append(index)

    adjusted = holm([p_values[index] for index in counted])
    for index, p_value in zip(counted, adjusted, strict=True):
        corrected[index] = p_value
    return corrected


def assign_folds(rows: Sequence[Row], seed: int) -> list[int]:
    """Assign each row to one of five folds of the cross-validation, at random.

    Args:
        rows: The rows. All rows of documents that share a text get the same fold.
        seed: Decides the assignment.

    Returns:
        The fold of each row, from 0 to 4. There are fewer folds if there are fewer documents.
    """
    groups = document_groups(rows)
    names = list(dict.fromkeys(groups))
    random.Random(f"{seed}/audit/folds").shuffle(names)
    fold_of_group = {name: index % _FOLDS for index, name in enumerate(names)}
    return [fold_of_group[name] for name in groups]


def document_groups(rows: Sequence[Row]) -> list[str]:
    """Return for each row the name of its document group, i.e. of all documents that share a text.

    Documents are in one group if they share a true completion or a prefix. A prefix that more than
    half of all documents have is an instruction and joins nothing; neither does an empty one.
    """
    groups = DisjointSet(f"document {row.doc_id}" for row in rows)
    prefixes_by_document = {(row.prefix.strip(), row.doc_id) for row in rows}
    documents_with_prefix = Counter(prefix for prefix, _ in prefixes_by_document)
    document_count = len({row.doc_id for row in rows})

    for row in rows:
        texts = [f"completion {row.choices[row.gold].strip()}"]
        prefix = row.prefix.strip()
        if prefix and documents_with_prefix[prefix] <= document_count / 2:
            texts.append(f"prefix {prefix}")
        # Two documents that are joined to the same text end up in one group.
        for text in texts:
            groups.add(text)
            groups.merge(text, f"document {row.doc_id}")
    return [groups[f"document {row.doc_id}"] for row in rows]
