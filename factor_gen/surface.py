"""The surface of completions: what can be seen of them without reading them.

The audit asks whether the surface gives the true completion away. The stage ``choose`` keeps a
`BalanceLedger` of it, so that the rows of a benchmark give away as little as possible.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_factuality.benchmarks.factor.rows import spaces_before_punctuation

_DOUBLE_SPACE = re.compile(r"\s{2,}")
_PUNCTUATION = re.compile(r"[^\w\s]")
_DIGIT = re.compile(r"\d")
# Characters of a typical English sentence. All others count as rare.
_COMMON = re.compile(r"[A-Za-z0-9\s.,;:!?'\"()$%&/-]")

STATISTICS: Mapping[str, Callable[[str], float]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "spaces before punctuation": spaces_before_punctuation,
    "double spaces": lambda text: len(_DOUBLE_SPACE.findall(text)),
    "capital letters": lambda text: sum(character.isupper() for character in text),
    "capitalised words": lambda text: sum(word[:1].isupper() for word in text.split()),
    "punctuation marks": lambda text: len(_PUNCTUATION.findall(text)),
    "digits": lambda text: len(_DIGIT.findall(text)),
    "rare characters": lambda text: len(_COMMON.sub("", text)),
    "word length": lambda text: len(text) / max(1, len(text.split())),
}
"""The surface statistics by name. Each gives a number for a completion by itself.

A blind baseline picks the completion with the greatest number, or the least.
"""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# How many numbers stand for words and pairs of words. Two words may share a number: that blurs the
# ledger a little.
_NUM_FEATURES = 1 << 20
_TOKEN = re.compile(r"\w+|[^\w\s]")
# The positions of all sums.
_ALL = slice(None)


class BalanceLedger:
    """A count of what sets true completions apart from contradictions in the chosen rows.

    If the contradictions of a benchmark have the word "not" more often than the true completions,
    or if the true completions are mostly the shortest choices of their rows, a model can find them
    without knowing any facts. The ledger counts such differences in three ways, and chooses each
    row so that the sums stay near 0:

    - Features: how many times more often contradictions have each word, pair of words and so on.
    - Ranks: how often the true completion has each rank among the choices of its row. The choices
      are ranked by each surface statistic, such as their length, and by the alphabet.
    - Centre: how often the true completion is the choice that is most similar to the others.

    Ranks and the centre are counted in *units*. A row of four choices has 12 units, because a half,
    a third and a quarter of 12 are whole numbers. (Fractions would be rounded, and not in the same
    way on every machine.) The true completion of a row gives all units of the row to its rank, or
    half of them to each of two ranks if it ties with another choice. The fair share of each of four
    ranks is 3 units of a row. The sums count the units above the fair shares.
    """

    def __init__(self, contradictions: int) -> None:
        """Create a ledger for rows with so many contradictions."""
        self._num_choices = contradictions + 1
        self._units_per_row = math.lcm(*range(1, self._num_choices + 1))
        self._fair_share = self._units_per_row // self._num_choices

        num_rankings = len(STATISTICS) + 1
        self._features = _RunningSums(_NUM_FEATURES)
        self._ranks = _RunningSums(num_rankings * self._num_choices)
        self._centre = _RunningSums(1)

    def add_most_even_row(
        self, completion: str, texts: Sequence[str], selections: Ints, is_centred: Bools
    ) -> tuple[int, ...]:
        """Choose the possible row that evens out the earlier rows best, and add it to the ledger.

        For example, if contradictions had "not" more often than true completions in earlier rows, a
        row whose true completion has "not" is the best one.

        Args:
            completion: The true completion.
            texts: Its possible contradictions.
            selections: The rows to choose from, an array (rows, contradictions) of indices of
                ``texts``. If several are equally good, the first is added.
            is_centred: For each row, whether the true completion is in its centre, i.e. has more
                in common with the contradictions than they have with each other.

        Returns:
            The indices in ``texts`` of the contradictions of the row that was added.
        """
        # What each possible row (a line of these arrays) would add to each sum (a column).
        feature_changes = _feature_changes(completion, texts)
        features = feature_changes.features
        added_features = feature_changes.changes[selections].sum(axis=1)
        added_ranks = self.rank_changes(completion, texts, selections)
        added_centre = self._units_per_row * is_centred[:, None] - self._fair_share

        unevenness_of_features = self._features.added_unevenness(added_features, features)
        unevenness_of_ranks = self._ranks.added_unevenness(added_ranks)
        unevenness_of_centre = self._centre.added_unevenness(added_centre)
        best = int(np.argmin(unevenness_of_features + unevenness_of_ranks + unevenness_of_centre))
        self._features.add(added_features[best], features)
        self._ranks.add(added_ranks[best])
        self._centre.add(added_centre[best])
        return tuple(selections[best].tolist())

    def rank_changes(self, completion: str, texts: Sequence[str], selections: Ints) -> Ints:
        """Return what each possible row adds to the sums of the true completion's ranks.

        Args:
            completion: The true completion.
            texts: Its possible contradictions.
            selections: Possible rows, an array (rows, contradictions) of indices of ``texts``.

        Returns:
            An array (rows, rankings * ranks): the units that each rank gets, minus its fair share.
        """
        choices = [completion, *texts]
        # The values of all choices by which each ranking orders them.
        rankings = [list(map(statistic, choices)) for statistic in STATISTICS.values()]
        alphabet = sorted(choices)
        rankings.append([alphabet.index(text) for text in choices])

        changes = []
        for true_value, *false_values in rankings:
            # An array (rows, contradictions).
            values_of_rows = np.array(false_values)[selections]
            changes.append(self._units_of_ranks(true_value, values_of_rows) - self._fair_share)
        return np.concatenate(changes, axis=1)

    def _units_of_ranks(self, true_value: float, false_values: NDArray[Any]) -> Ints:
        """Return how many units each rank gets from the true completion of each possible row.

        Rank 0 is the rank of the choice with the least value. If the true completion ties with
        other choices, it shares out its units equally among the ranks of all of them.

        Args:
            true_value: The value of the true completion, such as its number of characters.
            false_values: The values of the contradictions, an array (rows, contradictions).

        Returns:
            An array (rows, ranks).

        Example:
            The true value 40 and the false values ``[[40, 55, 60]]`` give ``[[6, 6, 0, 0]]``: the
            ranks 0 and 1 get half of the 12 units each.
        """
        first_rank = (false_values < true_value).sum(axis=1, keepdims=True)
        num_tied = 1 + (false_values == true_value).sum(axis=1, keepdims=True)
        ranks = np.arange(self._num_choices)
        has_rank = (first_rank <= ranks) & (ranks < first_rank + num_tied)
        return has_rank * (self._units_per_row // num_tied)  # type: ignore[no-any-return]


class _RunningSums:
    """Sums to which each row of a benchmark adds a number. They should stay near 0."""

    def __init__(self, size: int) -> None:
        """Create so many sums, all of which are 0."""
        self._sums = np.zeros(size, dtype=np.int64)
        # The sums of the squares of the numbers that were added.
        self._squares = np.zeros(size, dtype=np.int64)

    def add(self, numbers: Ints, positions: Ints | slice = _ALL) -> None:
        """Add one number to each of the sums at some positions."""
        self._sums[positions] += numbers
        self._squares[positions] += numbers**2

    def added_unevenness(self, additions: Ints, positions: Ints | slice = _ALL) -> Ints:
        """Return how much less even each possible row would make the sums at some positions.

        A row makes a sum less even if it adds to a sum above 0, or takes from a sum below 0. Sums
        within one standard deviation of 0 do not count, because chance explains them. If they were
        evened out too, somebody who knows the earlier rows could foresee the next one.

        Args:
            additions: What each row would add to these sums, an array (rows, sums).
            positions: The positions of the sums.

        Example:
            With a standard deviation of 10, a sum of -14 differs by -4 more than chance explains. A
            row that takes 3 from it adds an unevenness of -3 * -4 = 12.
        """
        sums = self._sums[positions]
        # The numbers of the rows are independent, so that their variances add up.
        deviations = np.sqrt(self._squares[positions]).astype(np.int64)
        excess = np.sign(sums) * np.maximum(0, np.abs(sums) - deviations)
        return additions @ excess  # type: ignore[no-any-return]


class _FeatureChanges(NamedTuple):
    """The features, such as words, that contradictions have more or less often."""

    features: Ints
    """The features of the true completion and its contradictions, each a number."""

    changes: Ints
    """An array (texts, features): how many more times each contradiction has each feature."""


def _feature_changes(completion: str, texts: Sequence[str]) -> _FeatureChanges:
    """Compare how often each contradiction and the true completion have each feature.

    Example:
        Against "He did", the contradiction "He did not" has the word "not" once more (1), and the
        pair of "did" and the end of the sentence once less (-1).
    """
    true_counts = _count_features(completion)
    false_counts = [_count_features(text) for text in texts]
    # Unlike a set, a dict keeps the order of first occurrence.
    features = dict.fromkeys(chain(true_counts, *false_counts))

    changes = []
    for counts in false_counts:
        # A counter returns 0 for a feature that a text lacks.
        changes.append([counts[feature] - true_counts[feature] for feature in features])
    return _FeatureChanges(np.array(list(features)), np.array(changes, dtype=np.int64))


def _count_features(text: str) -> Counter[int]:
    """Count the features of a text: words, pairs of words, shapes of numbers, and capitals.

    Returns:
        The counts by the number that stands for each feature.

    Example:
        The features of "In 1985" are "in", "1985", " in", "in 1985", "1985 ", "#0000" and "^".
    """
    # Punctuation marks count as words too.
    words = _TOKEN.findall(text)
    lower_words = [word.lower() for word in words]
    # An empty text stands for the beginning and the end of the sentence.
    word_pairs = pairwise(["", *lower_words, ""])

    features = list(lower_words)
    features += [f"{first} {second}" for first, second in word_pairs]
    # All numbers of four digits have the shape "#0000".
    features += ["#" + _DIGIT.sub("0", word) for word in words if _DIGIT.search(word)]
    # Each capitalised word adds the same feature.
    features += ["^" for word in words if word[:1].isupper()]
    return Counter(map(_feature_number, features))


@lru_cache(maxsize=1 << 16)
def _feature_number(feature: str) -> int:
    """Return the number that stands for a word or another feature on every machine."""
    return zlib.crc32(feature.encode("utf-8", "replace")) % _NUM_FEATURES
