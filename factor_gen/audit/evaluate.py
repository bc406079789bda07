"""How good each blind baseline is: pairwise win rates, accuracies, intervals and tests.

It also says which rows belong together, so that no row is asked of a classifier that learned from
the row's own document. :mod:`factor_gen.audit.audit` calls it.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import DisjointSet
from tqdm import tqdm

from factor_gen.audit.records import COMPARES, FEWEST, BlindBaseline, ChoiceScores, EstimatedShare
from lm_factuality.benchmarks.factor.metrics import pick_probabilities
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.scores.paired import holm
from lm_factuality.scores.statistics import Floats

FOLDS = 5
_RESAMPLES = 10_000
_DRAWS = 100_000  # of the randomisation test
_AT_ONCE = 250  # resamples drawn together: with 5,000 documents 10 MB

Outcomes = Sequence[float]
"""One for each row; NaN: not scored."""


def evaluate(
    scores: Sequence[ChoiceScores], rows: Sequence[Row], seed: int = 0
) -> list[BlindBaseline]:
    """Return how good each baseline is on ``rows``, in order.

    Rows of documents that share a text are taken for one document's.
    """
    documents = group(rows)
    wins = [_outcomes(baseline.values, rows, won) for baseline in scores]
    picks = [
        _outcomes(baseline.values, rows, lambda values, gold: pick_probabilities(values)[gold])
        for baseline in scores
    ]
    tested = [_outcomes(baseline.forward or baseline.values, rows, won) for baseline in scores]
    estimates = estimate([*wins, *picks], documents, seed)
    p_values = _p_values(tested, documents, seed)
    # Holm's correction is of those that count against the file and can be tested
    corrected = list(p_values)
    counted = [
        number
        for number, baseline in enumerate(scores)
        if baseline.family != COMPARES and not math.isnan(p_values[number])
    ]
    for number, p_value in zip(counted, holm([p_values[n] for n in counted]), strict=True):
        corrected[number] = p_value
    baselines = []
    for number, baseline in enumerate(scores):
        baselines.append(
            BlindBaseline(
                baseline.name,
                baseline.family,
                rows=sum(not math.isnan(outcome) for outcome in wins[number]),
                pairs=estimates[number],
                picks=estimates[len(scores) + number],
                p=p_values[number],
                corrected=corrected[number],
            )
        )
    return baselines


def won(values: Sequence[float], gold: int) -> float:
    """Return the share of the other choices below the true one; a tie counts half."""
    points = 0.0
    for index, value in enumerate(values):
        if index != gold:
            points += (values[gold] > value) + (values[gold] == value) / 2
    return points / (len(values) - 1)


def _outcomes(
    scores: Sequence[Sequence[float] | None],
    rows: Sequence[Row],
    outcome: Callable[[Sequence[float], int], float],
) -> Outcomes:
    return [
        math.nan if values is None else outcome(values, row.gold)
        for values, row in zip(scores, rows, strict=True)
    ]


def _by_document(outcomes: Sequence[Outcomes], documents: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the sums of outcomes and the numbers of scored rows: arrays (documents, outcomes)."""
    first = {document: number for number, document in enumerate(dict.fromkeys(documents))}
    places = np.array([first[document] for document in documents], dtype=int)
    values = np.array(outcomes, dtype=float).reshape(len(outcomes), len(documents)).T
    sums, weights = np.zeros((2, len(first), len(outcomes)))
    np.add.at(sums, places, np.nan_to_num(values))
    np.add.at(weights, places, ~np.isnan(values))
    return sums, weights


def estimate(
    outcomes: Sequence[Outcomes], documents: Sequence[str], seed: int
) -> list[EstimatedShare]:
    """Return the mean of each baseline's outcomes with its percentile interval.

    All intervals are of the same resamples of whole documents. It does what
    ``scores.statistics.bootstrap_interval`` does for one outcome, in memory that does not grow with
    the number of resamples. One document alone has no interval.
    """
    sums, weights = _by_document(outcomes, documents)
    means = np.full((_RESAMPLES, len(outcomes)), np.nan)
    if len(sums) > 1:
        generator = np.random.default_rng(seed)
        even = np.full(len(sums), 1 / len(sums))
        with np.errstate(invalid="ignore", divide="ignore"):
            for start in tqdm(range(0, _RESAMPLES, _AT_ONCE), desc="bootstrap", delay=2):
                times = generator.multinomial(len(sums), even, size=_AT_ONCE).astype(float)
                means[start : start + _AT_ONCE] = (times @ sums) / (times @ weights)
    estimates = []
    for values, resampled in zip(outcomes, means.T, strict=True):
        scored = [value for value in values if not math.isnan(value)]
        defined = resampled[np.isfinite(resampled)]
        low, high = np.quantile(defined, [0.025, 0.975]) if len(defined) else (math.nan, math.nan)
        value = sum(scored) / len(scored) if scored else math.nan
        estimates.append(EstimatedShare(value, float(low), float(high)))
    return estimates


def _p_values(wins: Sequence[Outcomes], documents: Sequence[str], seed: int) -> list[float]:
    """Test each baseline's wins against a half by random signs of documents.

    Choices that are edits of the true one are not exchangeable with it, so lot does not draw which
    of them is true. It draws signs: a document's surplus of pairs over a half is as likely to be a
    deficit of the same size if lot decides whether an edit raises or lowers what the baseline says.
    Rows of one document keep together.

    Returns:
        The one-sided p-values; NaN where there are too few documents to tell.
    """
    # what a baseline wins that knows nothing is a half
    surpluses: Any = np.array(wins, dtype=float) - 0.5
    sums, weights = _by_document(surpluses, documents)
    observed = sums.sum(axis=0)
    reached = np.zeros(len(wins))
    generator = np.random.default_rng(seed)
    for _ in range(0, _DRAWS, _AT_ONCE):
        signs = generator.integers(0, 2, size=(_AT_ONCE, len(sums)), dtype=np.int8) * 2.0 - 1
        reached += (signs @ sums >= observed - 1e-9).sum(axis=0)
    p_values = (1 + reached) / (1 + _DRAWS)
    has_enough = (weights > 0).sum(axis=0) >= FEWEST
    return np.where(has_enough, p_values, math.nan).tolist()  # type: ignore[no-any-return]


def folds(rows: Sequence[Row], seed: int, count: int = FOLDS) -> list[int]:
    """Return the fold of each row, which it shares with all rows of its documents.

    There are fewer folds than ``count`` where there are fewer groups of documents.
    """
    groups = group(rows)
    names = list(dict.fromkeys(groups))
    random.Random(f"{seed}/audit/folds").shuffle(names)
    fold_of_group = {name: number % count for number, name in enumerate(names)}
    return [fold_of_group[name] for name in groups]


def group(rows: Sequence[Row]) -> list[str]:
    """Return for each row the name of the documents that it belongs to.

    Documents that share a true completion or a prefix are one. A prefix that more than half of all
    documents have is no document's text but an instruction, and an empty one is none.
    """
    joined = DisjointSet(f"document {row.doc_id}" for row in rows)
    documents = len({row.doc_id for row in rows})
    prefixes = {(row.prefix.strip(), row.doc_id) for row in rows}
    documents_with = Counter(prefix for prefix, _ in prefixes)
    for row in rows:
        texts = [f"completion {row.choices[row.gold].strip()}"]
        prefix = row.prefix.strip()
        if prefix and 2 * documents_with[prefix] <= documents:
            texts.append(f"prefix {prefix}")
        for text in texts:
            joined.add(text)
            joined.merge(text, f"document {row.doc_id}")
    return [joined[f"document {row.doc_id}"] for row in rows]
