"""The blind baselines, which pick the true completion of a row without reading its prefix.

They look at the surface of the choices, compare the choices of a row with each other, or learn from
the rows of other documents. `factor_gen.audit.audit` calls them.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from factor_gen.audit.records import COMPARES, LEARNED, SURFACE, ChoiceScores
from factor_gen.audit.words import word_edit_distance
from factor_gen.surface import STATISTICS, Bools
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing
from lm_factuality.ground.packages import need
from lm_factuality.scores.intervals import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CLASSIFIER = "classifier"
CENTRAL = "most central (least summed edit distance)"

_WORD = r"\w+|[^\w\s]"
_NUM_HASHES = 2**18  # columns of the matrix for words, and as many for characters
_INVERSE_REGULARISATION = 0.03  # scikit-learn's C


class ChoiceFeatures(NamedTuple):
    """The features of all choices that the classifier learns from. Each choice has one line."""

    ngrams: "csr_matrix"
    """Which word and character n-grams a choice has: a sparse array (choices, hashes) of 0 and 1.
    """

    statistics: Floats
    """The surface statistics, such as the number of words: an array (choices, statistics)."""

    is_true: Bools
    """Whether each choice is a true completion."""


def surface_scores(rows: Sequence[Row]) -> Iterator[ChoiceScores]:
    """Score choices by their surface, such as their number of words or their alphabetical rank.

    For each surface statistic, one baseline prefers the choice with the most, and one the choice
    with the least. The order of the choices in the file is no baseline, because a model scores each
    choice by itself.

    Args:
        rows: The rows, each with its choices: the true completion and its contradictions.

    Yields:
        The scores of each baseline, such as ``most words``.
    """
    for name, statistic in STATISTICS.items():
        values = [list(map(statistic, row.choices)) for row in rows]
        yield ChoiceScores(f"most {name}", SURFACE, values)
        # The greatest score is picked, so that the least needs the opposite sign.
        yield ChoiceScores(f"least {name}", SURFACE, _negate(values))

    ranks = [_alphabetical_ranks(row.choices) for row in rows]
    yield ChoiceScores("first in sorted order", SURFACE, _negate(ranks))
    yield ChoiceScores("last in sorted order", SURFACE, ranks)


def _negate(values_of_rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Negate the scores of all rows, so that the choice with the least gets the greatest."""
    negated = []
    for values in values_of_rows:
        negated.append([-value for value in values])
    return negated


def _alphabetical_ranks(choices: Sequence[str]) -> list[float]:
    """Return each choice's rank in sorted order: ``["b", "a", "b"]`` becomes ``[1, 0, 1]``."""
    order = sorted(set(choices))
    return [float(order.index(choice)) for choice in choices]


def similarity_scores(rows: Sequence[Row]) -> ChoiceScores:
    """Score each choice, true or not, by its similarity to the other choices of its row.

    The score is the negative sum of the edit distances in words. The true completion is often the
    most similar, because each contradiction is an edit of it.
    """
    values = []
    for row in rows:
        # Spacing is normalised so that a choice with "end ." does not seem to have one word more
        # than a choice with "end.". Another baseline counts spaces before punctuation.
        choices = normalise_spacing(row).choices
        scores = []
        for choice in choices:
            distances = [word_edit_distance(choice, alternative) for alternative in choices]
            scores.append(-sum(distances))
        values.append(scores)
    return ChoiceScores(CENTRAL, COMPARES, values)


def classifier_scores(rows: Sequence[Row], folds: Sequence[int]) -> ChoiceScores:
    """Score all choices with a classifier that learned from the rows of other folds.

    A logistic regression tells true completions from contradictions by hashed word 1- and 2-grams,
    character 2- to 5-grams, and the surface statistics. It sees one choice at a time, and not to
    which row it belongs.

    Args:
        rows: The rows to score.
        folds: The fold of each row.

    Returns:
        The scores of each row after learning from all other folds. The field ``forward_values`` has
        the scores after learning from the folds with lower numbers only.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    features = _extract_features(rows)
    # All choices of a row are in the fold of the row.
    sizes = [len(row.choices) for row in rows]
    fold_of_choice = np.repeat(folds, sizes)

    scores = np.full(len(fold_of_choice), np.nan)
    forward_scores = np.full(len(fold_of_choice), np.nan)
    for fold in tqdm(sorted(set(folds)), desc="classifier", delay=2, leave=False):
        # No choice is scored by a classifier that was trained on it.
        is_tested = fold_of_choice == fold
        scores[is_tested] = _train_and_score(features, ~is_tested, is_tested)
        is_earlier = fold_of_choice < fold
        # The first fold has no earlier one to learn from, so that its scores stay NaN.
        if is_earlier.any():
            forward_scores[is_tested] = _train_and_score(features, is_earlier, is_tested)

    values = _split_by_row(scores, sizes)
    forward_values = _split_by_row(forward_scores, sizes)
    return ChoiceScores(CLASSIFIER, LEARNED, values, forward_values)


def _extract_features(rows: Sequence[Row]) -> ChoiceFeatures:
    """Extract what the classifier learns from: n-grams and surface statistics of all choices."""
    vectorizers = need("sklearn.feature_extraction.text", "the audit's classifier", "generate")
    from scipy.sparse import hstack

    # Each n-gram has a column, which its hash gives. A choice has 1 in the columns of its n-grams,
    # also of those that it has twice, and 0 elsewhere.
    options = {
        "n_features": _NUM_HASHES,
        "norm": None,
        "binary": True,
        "alternate_sign": False,
        "lowercase": False,
    }
    words = vectorizers.HashingVectorizer(
        analyzer="word", ngram_range=(1, 2), token_pattern=_WORD, **options
    )
    characters = vectorizers.HashingVectorizer(analyzer="char", ngram_range=(2, 5), **options)
    choices = list(chain.from_iterable(row.choices for row in rows))
    ngrams = hstack([words.transform(choices), characters.transform(choices)], format="csr")

    statistics = np.empty((len(choices), len(STATISTICS)))
    for column, statistic in enumerate(STATISTICS.values()):
        statistics[:, column] = [statistic(choice) for choice in choices]
    is_true = [index == row.gold for row in rows for index in range(len(row.choices))]
    return ChoiceFeatures(ngrams, statistics, np.array(is_true))


def _train_and_score(features: ChoiceFeatures, in_training: Bools, in_test: Bools) -> Floats:
    """Train the classifier on some choices and score others.

    Args:
        features: The features of all choices.
        in_training: For each choice, whether the classifier is trained on it.
        in_test: For each choice, whether it is scored.

    Returns:
        One score for each scored choice, greater for choices that look true.
    """
    from scipy.sparse import csr_matrix, hstack
    from sklearn.linear_model import LogisticRegression

    statistics = _scale_statistics(features.statistics, in_training)
    inputs = hstack([features.ngrams, csr_matrix(statistics)], format="csr")
    model = LogisticRegression(
        C=_INVERSE_REGULARISATION,
        solver="liblinear",
        dual=True,
        tol=1e-2,
        random_state=0,
        max_iter=200,
    )
    model.fit(inputs[in_training], features.is_true[in_training])
    return model.decision_function(inputs[in_test])  # type: ignore[no-any-return]


def _scale_statistics(statistics: Floats, in_training: Bools) -> Floats:
    """Bring all surface statistics to about the scale of the n-grams, which are 0 or 1.

    Otherwise a length of 200 characters would count for much more than a word.

    Args:
        statistics: An array (choices, statistics).
        in_training: For each choice, whether the classifier is trained on it. Only these choices
            decide the scale, so that nothing is learned of the others.
    """
    mean = statistics[in_training].mean(axis=0)
    deviation = statistics[in_training].std(axis=0)
    # A statistic that is always the same has no deviation to divide by.
    return (statistics - mean) / np.where(deviation > 0, deviation, 1)  # type: ignore[no-any-return]


def _split_by_row(scores: Floats, sizes: Sequence[int]) -> list[list[float] | None]:
    """Split the scores of all choices into one list for each row.

    Args:
        scores: The score of each choice, or NaN.
        sizes: How many choices each row has.

    Returns:
        The scores of each row; None for a row whose choices were not scored.
    """
    scores_of_rows = []
    # Where the choices of each row end, except for the last row.
    row_ends = np.cumsum(sizes)[:-1]
    for row_scores in np.split(scores, row_ends):
        # All choices of a row are in one fold, so that all scores are NaN or none is.
        is_scored = not np.isnan(row_scores).any()
        scores_of_rows.append(row_scores.tolist() if is_scored else None)
    return scores_of_rows
