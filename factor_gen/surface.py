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
from typing import NamedTuple

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
    """A record of how the true completions of the chosen rows differ from their contradictions.

    It counts how much more often each word is in contradictions than in true completions, and which
    rank the true completion has among the choices of its row when these are sorted, for instance by
    length. A row is added so that these differences become as small as possible.
    """

    def __init__(self, contradictions: int) -> None:
        """Create a ledger for rows with so many contradictions."""
        self._num_choices = contradictions + 1
        # Choices that tie share their ranks: two get half a row each, three get a third. With four
        # choices, a row counts as 12 units, so that all these shares are whole numbers. Fractions
        # would be rounded, and not in the same way on every machine.
        self._units_per_row = math.lcm(*range(1, self._num_choices + 1))
        # If nothing gives the true completions away, each rank has an equal share of the rows.
        self._fair_share = self._units_per_row // self._num_choices

        # By feature, such as a word: how much more often it is in contradictions.
        self._features = _RunningSums(_NUM_FEATURES)
        # By order of the choices (by a statistic or the alphabet) and rank: how much more often
        # than its fair share the true completion has this rank.
        num_orders = len(STATISTICS) + 1
        self._ranks = _RunningSums(num_orders * self._num_choices)
        # How much more often than its fair share the true completion is in the centre of its row.
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
        # How much each possible row (a line of these arrays) would add to each sum (a column).
        features = _feature_changes(completion, texts)
        feature_changes = features.changes[selections].sum(axis=1)
        rank_changes = self.rank_changes(completion, texts, selections)
        centre_changes = self._units_per_row * is_centred[:, None] - self._fair_share

        # A row makes the ledger less even where it adds to a sum that is too great, or takes from
        # one that is too small. The best row does the opposite, and so has the least product.
        added_unevenness = (
            feature_changes @ self._features.excess(features.numbers)
            + rank_changes @ self._ranks.excess()
            + centre_changes @ self._centre.excess()
        )
        best = int(np.argmin(added_unevenness))
        self._features.add(feature_changes[best], features.numbers)
        self._ranks.add(rank_changes[best])
        self._centre.add(centre_changes[best])
        return tuple(selections[best].tolist())

    def rank_changes(self, completion: str, texts: Sequence[str], selections: Ints) -> Ints:
        """Return how much each possible row adds to the sums of the true completion's ranks.

        The choices of a row are sorted in several orders: by each surface statistic, such as the
        length, and by the alphabet. The true completion should have each rank equally often. If it
        ties with other choices, it has an equal share of the ranks of all of them.

        Args:
            completion: The true completion.
            texts: Its possible contradictions.
            selections: Possible rows, an array (rows, contradictions) of indices of ``texts``.

        Returns:
            An array (rows, orders * ranks): the share of each rank minus a fair share, in units.

        Example:
            Of four choices, the true completion and another are the shortest. Ranks 0 and 1 get
            half a row each, which is 6 of 12 units, minus the fair 3; ranks 2 and 3 get 0 - 3.
        """
        choices = [completion, *texts]
        # For each order, the values of the choices by which they are sorted.
        values_by_order = [list(map(statistic, choices)) for statistic in STATISTICS.values()]
        alphabet = sorted(choices)
        values_by_order.append([alphabet.index(text) for text in choices])

        ranks = np.arange(self._num_choices)
        changes = []
        for values in np.array(values_by_order):
            true_value = values[0]
            # A line for each possible row, with the values of its contradictions.
            false_values = values[1:][selections]
            # Ranks begin with 0. With one contradiction below it and one equal to it, the true
            # completion shares the ranks 1 and 2.
            first_rank = (false_values < true_value).sum(axis=1, keepdims=True)
            num_tied = 1 + (false_values == true_value).sum(axis=1, keepdims=True)
            has_rank = (first_rank <= ranks) & (ranks < first_rank + num_tied)
            share = self._units_per_row // num_tied
            changes.append(has_rank * share - self._fair_share)
        return np.concatenate(changes, axis=1)


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

    def excess(self, positions: Ints | slice = _ALL) -> Ints:
        """Return by how much the sums at some positions differ from 0 by more than chance explains.

        Chance explains one standard deviation. If even smaller sums were evened out, somebody who
        knows the earlier rows could foresee the next one.

        Example:
            With a standard deviation of 10, a sum of -14 has an excess of -4, and 7 has none.
        """
        sums = self._sums[positions]
        # The numbers of the rows are independent, so that their variances add up.
        deviations = np.sqrt(self._squares[positions]).astype(np.int64)
        return np.sign(sums) * np.maximum(0, np.abs(sums) - deviations)


class _FeatureChanges(NamedTuple):
    """The features, such as words, that contradictions have more or less often than the truth."""

    numbers: Ints
    """The numbers of the features that occur in the true completion or a contradiction."""

    changes: Ints
    """An array (texts, features): how many more times each contradiction has each feature."""


def _feature_changes(completion: str, texts: Sequence[str]) -> _FeatureChanges:
    """Compare how often each contradiction and the true completion have each feature.

    A feature is a word, a pair of words, a shape of numbers, or a capital.

    Example:
        Against "He did", the contradiction "He did not" has the feature "not" once more (1), and
        the pair of "did" and the end of the sentence once less (-1).
    """
    true_counts = _count_features(completion)
    false_counts = [_count_features(text) for text in texts]
    # A number stands for each feature. Unlike a set, a dict keeps the order of first occurrence.
    numbers = dict.fromkeys(chain(true_counts, *false_counts))

    changes = []
    for counts in false_counts:
        # A counter returns 0 for a feature that a text lacks.
        changes.append([counts[number] - true_counts[number] for number in numbers])
    return _FeatureChanges(np.array(list(numbers)), np.array(changes, dtype=np.int64))


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
