"""The blind baselines, which never read a row's prefix.

They look at properties of a choice, at its place, and at how choices compare with each other. A
classifier sees one completion at a time; it learns what true ones have in common from other
documents' rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from factor_gen.audit.records import COMPARES, LEARNED, SURFACE, ChoiceScores
from factor_gen.audit.words import distance
from factor_gen.surface import STATISTICS
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing
from lm_factuality.ground.packages import need
from lm_factuality.scores.statistics import Floats

CLASSIFIER = "classifier"
CENTRAL = "most central (least summed edit distance)"

_WORD = r"\w+|[^\w\s]"
_BUCKETS = 2**18  # for words and for characters each
_STRENGTH = 0.03  # scikit-learn's C


def surface(rows: Sequence[Row]) -> Iterator[ChoiceScores]:
    """Yield the baselines that take the choice with the most or the least of something.

    These are the surface statistics and the sorted order. The places of choices in the file say
    nothing, because a model scores each choice by itself.
    """
    for name, statistic in STATISTICS.items():
        values = [[statistic(choice) for choice in row.choices] for row in rows]
        yield ChoiceScores(f"most {name}", SURFACE, values)
        yield ChoiceScores(f"least {name}", SURFACE, _negative(values))
    ranks = [_ranks(row) for row in rows]
    yield ChoiceScores("first in sorted order", SURFACE, _negative(ranks))
    yield ChoiceScores("last in sorted order", SURFACE, ranks)


def comparing(rows: Sequence[Row]) -> ChoiceScores:
    """Return what comparing the choices of a row finds.

    Spaces before punctuation, which are counted elsewhere, are taken away.
    """
    values = []
    for row in rows:
        choices = normalise_spacing(row).choices
        values.append([-sum(distance(choice, other) for other in choices) for choice in choices])
    return ChoiceScores(CENTRAL, COMPARES, values)


def _negative(values: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[-value for value in values_of_row] for values_of_row in values]


def _ranks(row: Row) -> list[float]:
    order = sorted(set(row.choices))
    return [float(order.index(choice)) for choice in row.choices]


def classifier_scores(rows: Sequence[Row], folds: Sequence[int]) -> ChoiceScores:
    """Return the classifier's scores of all choices.

    A logistic regression tells true completions from contradictions by the word 1- and 2-grams and
    character 2- to 5-grams that a choice has (hashed), and by the surface statistics. Each row is
    scored by what was learned in the other folds; for the test, in the folds before its own.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    features = _features([choice for row in rows for choice in row.choices])
    sizes = np.array([len(row.choices) for row in rows])
    starts = np.cumsum(sizes) - sizes
    gold = starts + np.array([row.gold for row in rows])
    row_of_choice = np.repeat(np.arange(len(rows)), sizes)
    is_true = np.isin(np.arange(len(row_of_choice)), gold)
    fold_of_choice = np.array(folds)[row_of_choice]
    values = np.full(len(row_of_choice), np.nan)
    forward = values.copy()
    for fold in tqdm(sorted(set(folds)), desc="classifier", delay=2, leave=False):
        asked = np.flatnonzero(fold_of_choice == fold)
        for scores, learned in (
            (values, np.flatnonzero(fold_of_choice != fold)),
            (forward, np.flatnonzero(fold_of_choice < fold)),
        ):
            if len(learned):
                scaled = _scaled(features, learned)
                scores[asked] = _learn(scaled[learned], is_true[learned], scaled[asked])
    return ChoiceScores(
        CLASSIFIER, LEARNED, _by_row(values, starts), forward_values=_by_row(forward, starts)
    )


def _by_row(values: Floats, starts: Any) -> list[list[float] | None]:
    """Cut the values of all choices into those of each row; None where they are not numbers."""
    rows = np.split(values, starts[1:])
    return [None if np.isnan(row).any() else row.tolist() for row in rows]


def _features(texts: Sequence[str]) -> tuple[Any, Floats]:
    """Return a sparse matrix of n-grams and a dense one of statistics, with a line per text."""
    vectorizer = need("sklearn.feature_extraction.text", "the audit's classifier", "generate")
    from scipy.sparse import hstack

    common = {
        "n_features": _BUCKETS,
        "norm": None,
        "binary": True,
        "alternate_sign": False,
        "lowercase": False,
    }
    words = vectorizer.HashingVectorizer(
        analyzer="word", ngram_range=(1, 2), token_pattern=_WORD, **common
    )
    characters = vectorizer.HashingVectorizer(analyzer="char", ngram_range=(2, 5), **common)
    grams = hstack([words.transform(texts), characters.transform(texts)], format="csr")
    statistics = [[statistic(text) for statistic in STATISTICS.values()] for text in texts]
    return grams, np.array(statistics, dtype=float)


def _scaled(features: tuple[Any, Floats], learned: Any) -> Any:
    """Join both matrices, the statistics scaled by mean and deviation of what is learned from."""
    from scipy.sparse import csr_matrix, hstack

    grams, statistics = features
    centre = statistics[learned].mean(axis=0)
    deviation = statistics[learned].std(axis=0)
    scaled = (statistics - centre) / np.where(deviation > 0, deviation, 1)
    return hstack([grams, csr_matrix(scaled)], format="csr")


def _learn(features: Any, is_true: Any, asked: Any) -> Floats:
    """Return the scores of the lines ``asked`` by a model that learned from ``features``."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=_STRENGTH, solver="liblinear", dual=True, tol=1e-2, random_state=0, max_iter=200
    )
    return model.fit(features, is_true).decision_function(asked)  # type: ignore[no-any-return]
