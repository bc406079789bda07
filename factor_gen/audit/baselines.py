"""The blind baselines: properties of a choice, its place, how choices compare with each other, and
a classifier that sees one completion at a time, which learns what true ones have in common from
other documents' rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from factor_gen.audit.records import COMPARES, LEARNED, SURFACE, Scores
from factor_gen.audit.words import summed_distances
from factor_gen.surface import STATISTICS
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing
from lm_factuality.ground.packages import need

CLASSIFIER = "classifier"
CENTRAL = "most central (least summed edit distance)"

_WORD = r"\w+|[^\w\s]"
_BUCKETS = 2**18  # for words and for characters each
_STRENGTH = 0.03  # scikit-learn's C

Array = np.ndarray[Any, np.dtype[np.float64]]


def surface(rows: Sequence[Row]) -> Iterator[Scores]:
    """Most and least of every statistic, first and last in sorted order, and each place in the file
    where choices have places. In the authors' columns they have none: the true completion has its
    own, and whoever asks a model shuffles the choices."""
    for name, statistic in STATISTICS.items():
        values = [[statistic(choice) for choice in row.choices] for row in rows]
        yield Scores(f"most {name}", SURFACE, values)
        yield Scores(f"least {name}", SURFACE, [_negative(each) for each in values])
    ranks = [_ranks(row) for row in rows]
    yield Scores("first in sorted order", SURFACE, [_negative(each) for each in ranks])
    yield Scores("last in sorted order", SURFACE, ranks)
    if len({row.gold for row in rows}) > 1:
        for place in range(max(len(row.choices) for row in rows)):
            sizes = [len(row.choices) for row in rows]
            picked = [
                [float(index == place) for index in range(size)] if place < size else None
                for size in sizes
            ]
            yield Scores(f"choice {place + 1} in the file", SURFACE, picked)


def comparing(rows: Sequence[Row]) -> Iterator[Scores]:
    """What comparing the choices of a row finds; spaces before punctuation, which are counted
    elsewhere, taken away."""
    clean = [normalise_spacing(row).choices for row in rows]
    yield Scores(CENTRAL, COMPARES, [_negative(summed_distances(choices)) for choices in clean])


def _negative(values: Sequence[float]) -> list[float]:
    return [-value for value in values]


def _ranks(row: Row) -> list[float]:
    order = {text: float(rank) for rank, text in enumerate(sorted(set(row.choices)))}
    return [order[choice] for choice in row.choices]


def classifier_scores(rows: Sequence[Row], folds: Sequence[int]) -> Scores:
    """The classifier's scores of all choices, each row scored by what was learned in the other
    folds; for the test, in those before its own. A logistic regression tells true completions from
    contradictions by the word 1- and 2-grams and character 2- to 5-grams that a choice has
    (hashed), and by the surface statistics. Raises ConfigError: scikit-learn is not installed."""
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
                into[asked] = _pooled(
                    _scaled(features, learned), learned, np.isin(learned, gold[from_rows]), asked
                )
    return Scores(
        CLASSIFIER, LEARNED, _by_row(values, starts, sizes), forward=_by_row(forward, starts, sizes)
    )


def _by_row(values: Array, starts: Any, sizes: Any) -> list[list[float] | None]:
    found = [values[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    return [None if np.isnan(each).any() else each.tolist() for each in found]


def _features(texts: Sequence[str]) -> tuple[Any, Array]:
    """(a sparse matrix of n-grams, a dense one of statistics), a line for each text."""
    HashingVectorizer = need(
        "sklearn.feature_extraction.text", "the audit's classifier", "generate"
    ).HashingVectorizer
    from scipy.sparse import hstack

    common = {
        "n_features": _BUCKETS,
        "norm": None,
        "binary": True,
        "alternate_sign": False,
        "lowercase": False,
    }
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
    return hstack(
        [grams, csr_matrix((statistics - centre) / np.where(deviation > 0, deviation, 1))],
        format="csr",
    )


def _pooled(features: Any, learned: Any, is_true: Any, asked: Any) -> Array:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=_STRENGTH, solver="liblinear", dual=True, tol=1e-2, random_state=0, max_iter=200
    )
    model.fit(features[learned], is_true)
    scores: Array = model.decision_function(features[asked])
    return scores
