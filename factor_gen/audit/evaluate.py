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

from factor_gen.audit.records import FEWEST, TESTED, Baseline, Floor, Scores
from lm_factuality.benchmarks.factor.metrics import floor_of, shares
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.scores.paired import holm

FOLDS = 5
_RESAMPLES = 10_000
_DRAWS = 100_000  # of the randomisation test
_AT_ONCE = 250  # resamples drawn together: with 5,000 documents 10 MB

Array = np.ndarray[Any, np.dtype[np.float64]]
Outcomes = Sequence[float]
"""One for each row; NaN: not scored."""


def evaluate(scores: Sequence[Scores], rows: Sequence[Row], seed: int = 0) -> list[Baseline]:
    """Return how good each baseline is on ``rows``, in order.

    Rows of documents that share a text are taken for one document's.
    """
    documents = group(rows)
    wins = [_outcomes(baseline.values, rows, won) for baseline in scores]
    picks = [_outcomes(baseline.values, rows, _picked) for baseline in scores]
    tested = [_outcomes(baseline.forward or baseline.values, rows, won) for baseline in scores]
    intervals = _intervals([*wins, *picks], documents, seed)
    p_values = _p_values(tested, documents, seed)
    corrected = _correct([baseline.family for baseline in scores], p_values)
    baselines = []
    for number, baseline in enumerate(scores):
        outcomes = zip(documents, wins[number], strict=True)
        scored = [document for document, outcome in outcomes if not math.isnan(outcome)]
        wins_low, wins_high = intervals[number]
        low, high = intervals[len(scores) + number]
        baselines.append(
            Baseline(
                name=baseline.name,
                family=baseline.family,
                rows=len(scored),
                documents=len(set(scored)),
                wins=_mean(wins[number]),
                wins_low=wins_low,
                wins_high=wins_high,
                accuracy=_mean(picks[number]),
                low=low,
                high=high,
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


def _picked(values: Sequence[float], gold: int) -> float:
    return shares(values)[gold]


def floor(rows: Sequence[Row], seed: int = 0) -> Floor:
    """Return what knowing nothing scores among all choices of a row."""
    values = [floor_of(row.choices, row.gold, seed) for row in rows]
    ((low, high),) = _intervals([values], group(rows), seed)
    even = _mean([1 / len(row.choices) for row in rows])
    return Floor(_mean(values), low, high, even)


def _outcomes(
    scores: Sequence[Sequence[float] | None],
    rows: Sequence[Row],
    outcome: Callable[[Sequence[float], int], float],
) -> Outcomes:
    return [
        math.nan if values is None else outcome(values, row.gold)
        for values, row in zip(scores, rows, strict=True)
    ]


def _mean(outcomes: Outcomes) -> float:
    scored = [outcome for outcome in outcomes if not math.isnan(outcome)]
    return sum(scored) / len(scored) if scored else math.nan


def _correct(families: Sequence[str], p_values: Sequence[float]) -> list[float | None]:
    """Correct the p-values by Holm, those of each group of families together.

    Returns:
        None for a family that is not tested, NaN where there are too few documents to tell.
    """
    corrected: list[float | None] = [None] * len(families)
    for tested_together in TESTED:
        places = [place for place, family in enumerate(families) if family in tested_together]
        # NaN comes last in the order of p-values, and stays what it is
        defined = [place for place in places if not math.isnan(p_values[place])]
        corrected_together = holm([p_values[place] for place in defined])
        for place in places:
            corrected[place] = math.nan
        for place, p_value in zip(defined, corrected_together, strict=True):
            corrected[place] = p_value
    return corrected


def _by_document(outcomes: Sequence[Outcomes], documents: Sequence[str]) -> tuple[Array, Array]:
    """Return the sums of outcomes and the numbers of scored rows: arrays (documents, outcomes)."""
    first = {document: number for number, document in enumerate(dict.fromkeys(documents))}
    places = np.array([first[document] for document in documents], dtype=int)
    values = np.array(outcomes, dtype=float).reshape(len(outcomes), len(documents)).T
    sums, weights = np.zeros((2, len(first), len(outcomes)))
    np.add.at(sums, places, np.nan_to_num(values))
    np.add.at(weights, places, ~np.isnan(values))
    return sums, weights


def _intervals(
    outcomes: Sequence[Outcomes], documents: Sequence[str], seed: int
) -> list[tuple[float, float]]:
    """Return percentile intervals of all outcomes from the same resamples of whole documents.

    It does what ``scores.statistics.bootstrap_interval`` does for one outcome, in memory that does
    not grow with the number of resamples. One document alone has no interval.
    """
    sums, weights = _by_document(outcomes, documents)
    if len(sums) < 2:
        return [(math.nan, math.nan)] * len(outcomes)
    generator = np.random.default_rng(seed)
    even = np.full(len(sums), 1 / len(sums))
    means = np.empty((_RESAMPLES, len(outcomes)))
    with np.errstate(invalid="ignore", divide="ignore"):
        for start in tqdm(range(0, _RESAMPLES, _AT_ONCE), desc="bootstrap", delay=2, leave=False):
            times = generator.multinomial(len(sums), even, size=_AT_ONCE).astype(float)
            means[start : start + _AT_ONCE] = (times @ sums) / (times @ weights)
    intervals = []
    for values in means.T:
        defined = values[np.isfinite(values)]
        low, high = np.quantile(defined, [0.025, 0.975]) if len(defined) else (math.nan, math.nan)
        intervals.append((float(low), float(high)))
    return intervals


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
    p_or_nan: list[float] = np.where(has_enough, p_values, math.nan).tolist()
    return p_or_nan


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
