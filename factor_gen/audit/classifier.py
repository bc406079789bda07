"""A classifier that sees one completion at a time: what can be learned of true ones from other documents' rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from factor_gen.audit.records import LEARNED, Scores
from factor_gen.surface import STATISTICS
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.packages import need

CLASSIFIER = "classifier"

_WORD = r"\w+|[^\w\s]"
_BUCKETS = 2**18  # for words and for characters each
_STRENGTH = 0.03  # scikit-learn's C

Array = np.ndarray[Any, np.dtype[np.float64]]


def classifier_scores(rows: Sequence[Row], folds: Sequence[int]) -> Scores:
    """The classifier's scores of all choices, each row scored by what was learned in the other folds; for the test, in those
    before its own. A logistic regression tells true completions from contradictions by the word 1- and 2-grams and character 2-
    to 5-grams that a choice has (hashed), and by the surface statistics. Raises ConfigError: scikit-learn is not installed."""
    features = _features([choice for row in rows for choice in row.choices])
    sizes = np.array([len(row.choices) for row in rows])
    starts = np.cumsum(sizes) - sizes
    gold = starts + np.array([row.gold for row in rows])
    owner = np.repeat(np.arange(len(rows)), sizes)
    fold_of_row = np.array(folds)
    values, forward = np.full(len(owner), np.nan), np.full(len(owner), np.nan)
    for fold in tqdm(sorted(set(folds)), desc="classifier", delay=2, leave=False):
        asked = np.flatnonzero((fold_of_row == fold)[owner])
        for into, from_rows in ((values, fold_of_row != fold), (forward, fold_of_row < fold)):
            if from_rows.any():
                learned = np.flatnonzero(from_rows[owner])
                into[asked] = _pooled(_scaled(features, learned), learned, np.isin(learned, gold[from_rows]), asked)
    return Scores(CLASSIFIER, LEARNED, _by_row(values, starts, sizes), forward=_by_row(forward, starts, sizes))


def _by_row(values: Array, starts: Any, sizes: Any) -> list[list[float] | None]:
    found = [values[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    return [None if np.isnan(each).any() else each.tolist() for each in found]


def _features(texts: Sequence[str]) -> tuple[Any, Array]:
    """(a sparse matrix of n-grams, a dense one of statistics), a line for each text."""
    HashingVectorizer = need("sklearn.feature_extraction.text", "the audit's classifier", "generate").HashingVectorizer
    from scipy.sparse import hstack

    common = {"n_features": _BUCKETS, "norm": None, "binary": True, "alternate_sign": False, "lowercase": False}
    words = HashingVectorizer(analyzer="word", ngram_range=(1, 2), token_pattern=_WORD, **common)
    characters = HashingVectorizer(analyzer="char", ngram_range=(2, 5), **common)
    grams = hstack([words.transform(texts), characters.transform(texts)], format="csr")
    statistics = [[statistic(text) for statistic in STATISTICS.values()] for text in texts]
    return grams, np.array(statistics, dtype=float)


def _scaled(features: tuple[Any, Array], learned: Any) -> Any:
    """One sparse matrix of both, statistics by the mean and deviation of what is learned from."""
    from scipy.sparse import csr_matrix, hstack

    grams, statistics = features
    centre, deviation = statistics[learned].mean(axis=0), statistics[learned].std(axis=0)
    return hstack([grams, csr_matrix((statistics - centre) / np.where(deviation > 0, deviation, 1))], format="csr")


def _pooled(features: Any, learned: Any, is_true: Any, asked: Any) -> Array:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_STRENGTH, solver="liblinear", dual=True, tol=1e-2, random_state=0, max_iter=200)
    model.fit(features[learned], is_true)
    scores: Array = model.decision_function(features[asked])
    return scores
