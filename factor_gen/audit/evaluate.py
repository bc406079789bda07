"""From what baselines say of choices to pairwise win rates, accuracies, intervals and tests; and
which rows belong together, so that none is asked of a model that learned from its document."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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
_HALF = 0.5  # of pairs: what a baseline wins that knows nothing

Array = np.ndarray[Any, np.dtype[np.float64]]
Values = Sequence[float | None]  # one for each row; None: not scored


def evaluate(found: Sequence[Scores], rows: Sequence[Row], seed: int = 0) -> list[Baseline]:
    """How good each baseline is on ``rows``, in order. Rows of documents that share a text are
    taken for one document's."""
    documents = group(rows)
    wins = [_each(each.values, rows, won) for each in found]
    picks = [_each(each.values, rows, lambda values, gold: shares(values)[gold]) for each in found]
    intervals = _intervals([*wins, *picks], documents, seed)
    tested = [_each(each.forward or each.values, rows, won) for each in found]
    baselines = []
    for number, (each, p) in enumerate(zip(found, _p_values(tested, documents, seed), strict=True)):
        scored = [index for index, x in enumerate(wins[number]) if x is not None]
        figures = (
            _mean(wins[number]),
            *intervals[number],
            _mean(picks[number]),
            *intervals[len(found) + number],
            p,
        )
        baselines.append(
            Baseline(
                each.name,
                each.family,
                len(scored),
                len({documents[index] for index in scored}),
                *figures,
            )
        )
    return _corrected(baselines)


def won(values: Sequence[float], gold: int) -> float:
    """The share of the other choices that the true one stands above; a tie is half of one."""
    others = [value for index, value in enumerate(values) if index != gold]
    return sum((values[gold] > value) + (values[gold] == value) / 2 for value in others) / len(
        others
    )


def floor(rows: Sequence[Row], seed: int = 0) -> Floor:
    """What knowing nothing scores among all choices of a row."""
    values = [floor_of(row.choices, row.gold, seed) for row in rows]
    (ends,) = _intervals([values], group(rows), seed)
    return Floor(_mean(values), *ends, _mean([1 / len(row.choices) for row in rows]))


def _each(scores: Sequence[Sequence[float] | None], rows: Sequence[Row], outcome: Any) -> Values:
    return [
        None if values is None else outcome(values, row.gold)
        for values, row in zip(scores, rows, strict=True)
    ]


def _mean(values: Values) -> float:
    scored = [value for value in values if value is not None]
    return sum(scored) / len(scored) if scored else math.nan


def _corrected(baselines: Sequence[Baseline]) -> list[Baseline]:
    corrected: dict[int, float] = {}
    for families in TESTED:
        members = [index for index, each in enumerate(baselines) if each.family in families]
        corrected |= dict.fromkeys(members, math.nan)
        told = [index for index in members if not math.isnan(baselines[index].p)]
        corrected |= dict(zip(told, holm([baselines[index].p for index in told]), strict=True))
    return [replace(each, corrected=corrected.get(index)) for index, each in enumerate(baselines)]


def _by_document(outcomes: Sequence[Values], documents: Sequence[str]) -> tuple[Array, Array]:
    """Sums of values and numbers of rows: arrays (documents, outcomes)."""
    numbers = {document: number for number, document in enumerate(dict.fromkeys(documents))}
    places = np.array([numbers[document] for document in documents], dtype=int)
    values = (
        np.array(outcomes, dtype=float).reshape(len(outcomes), len(documents)).T
    )  # None becomes NaN
    sums, weights = np.zeros((2, len(numbers), len(outcomes)))
    np.add.at(sums, places, np.nan_to_num(values))
    np.add.at(weights, places, ~np.isnan(values))
    return sums, weights


def _intervals(
    outcomes: Sequence[Values], documents: Sequence[str], seed: int
) -> list[tuple[float, float]]:
    """Percentile intervals of all outcomes from the same resamples of whole documents: what
    ``scores.statistics.bootstrap_interval`` does for one, in memory that does not grow with the
    number of resamples. One document alone has no interval."""
    sums, weights = _by_document(outcomes, documents)
    if len(sums) < 2:
        return [(math.nan, math.nan)] * len(outcomes)
    generator = np.random.default_rng(seed)
    even = np.full(len(sums), 1 / len(sums))
    draws = np.empty((_RESAMPLES, len(outcomes)))
    with np.errstate(invalid="ignore", divide="ignore"):
        for start in tqdm(range(0, _RESAMPLES, _AT_ONCE), desc="bootstrap", delay=2, leave=False):
            times = generator.multinomial(len(sums), even, size=_AT_ONCE).astype(float)
            draws[start : start + _AT_ONCE] = (times @ sums) / (times @ weights)
    found = []
    for values in draws.T:
        defined = values[np.isfinite(values)]
        quantiles = np.quantile(defined, [0.025, 0.975]) if len(defined) else (math.nan, math.nan)
        found.append((float(quantiles[0]), float(quantiles[1])))
    return found


def _p_values(wins: Sequence[Values], documents: Sequence[str], seed: int) -> list[float]:
    """For each baseline, how likely so many pairs are won if in every document lot decides whether
    an edit raises or lowers what the baseline says; no number if there are too few documents to
    tell. Choices that are edits of the true one are not exchangeable with it, so lot does not draw
    which of them is true. It draws signs: a document's surplus of pairs over a half is as likely to
    be a deficit of the same size. Rows of one document keep together."""
    sums, weights = _by_document(
        [[None if x is None else x - _HALF for x in each] for each in wins], documents
    )
    observed = sums.sum(axis=0)
    reached = np.zeros(len(wins))
    generator = np.random.default_rng(seed)
    for _ in range(0, _DRAWS, _AT_ONCE):
        signs = generator.integers(0, 2, size=(_AT_ONCE, len(sums)), dtype=np.int8) * 2.0 - 1
        reached += (signs @ sums >= observed - 1e-9).sum(axis=0)
    p_values = (1 + reached) / (1 + _DRAWS)
    told = (weights > 0).sum(axis=0) >= FEWEST
    return [float(p) if is_told else math.nan for p, is_told in zip(p_values, told, strict=True)]


def folds(rows: Sequence[Row], seed: int, count: int = FOLDS) -> list[int]:
    """The fold of each row: its group's, dealt out by lot, lest a row be learned by heart. Fewer
    folds than ``count`` where there are fewer groups."""
    groups = group(rows)
    names = list(dict.fromkeys(groups))
    random.Random(f"{seed}/audit/folds").shuffle(names)
    fold = {name: number % count for number, name in enumerate(names)}
    return [fold[name] for name in groups]


def group(rows: Sequence[Row]) -> list[str]:
    """For each row the name of the documents that it belongs to: those that share a true completion
    or a prefix are one. A prefix that more than half of all documents have is no document's text
    but an instruction, and empty ones are none."""
    joined = DisjointSet(f"document {row.doc_id}" for row in rows)
    documents = len({row.doc_id for row in rows})
    having = Counter(prefix for prefix, _ in {(row.prefix.strip(), row.doc_id) for row in rows})

    for row in rows:
        shared, prefix = [f"completion {row.choices[row.gold].strip()}"], row.prefix.strip()
        shared += [f"prefix {prefix}"] if prefix and 2 * having[prefix] <= documents else []
        for text in shared:
            joined.add(text)
            joined.merge(text, f"document {row.doc_id}")
    return [joined[f"document {row.doc_id}"] for row in rows]
