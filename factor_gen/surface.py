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
    """A count of what sets true completions apart from contradictions in the chosen rows.

    If the contradictions of a benchmark have the word "not" more often than the true completions,
    or if these are mostly the shortest of their rows, a model can find them without knowing any
    facts. The ledger counts such differences, and chooses each row so that they even out.
    """

    def __init__(self, contradictions: int) -> None:
        """Create a ledger for rows with so many contradictions."""
        self._num_choices = contradictions + 1
        # The ledger counts the rows in which the true completion has each rank, such as that of the
        # shortest choice. If it ties with another choice, both ranks count half a row. A row of
        # four choices has 12 units, so that halves, thirds and quarters are whole numbers.
        # Fractions would be rounded, and not in the same way on every machine.
        self._units_per_row = math.lcm(*range(1, self._num_choices + 1))
        # Of four ranks, each should get 3 of the 12 units.
        self._fair_share = self._units_per_row // self._num_choices

        # How many times more contradictions have each word, summed over the rows.
        self._words = _RunningSums(_NUM_FEATURES)
        # How many units more than its fair share each rank got. Choices are ranked by each
        # statistic, such as their length, and by the alphabet.
        num_rankings = len(STATISTICS) + 1
        self._ranks = _RunningSums(num_rankings * self._num_choices)
        # How many units more than its fair share the centre got, where the true completion is if
        # it is the choice that is most similar to the others.
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
        word_changes = _word_changes(completion, texts)
        added_words = word_changes.changes[selections].sum(axis=1)
        added_ranks = self.rank_changes(completion, texts, selections)
        added_centre = self._units_per_row * is_centred[:, None] - self._fair_share

        # Adding to a sum above 0 makes the ledger less even, and so does taking from one below 0.
        # Both give a product above 0 here, so that the row with the least total is the best.
        added_unevenness = (
            added_words @ self._words.excess(word_changes.numbers)
            + added_ranks @ self._ranks.excess()
            + added_centre @ self._centre.excess()
        )
        best = int(np.argmin(added_unevenness))
        self._words.add(added_words[best], word_changes.numbers)
        self._ranks.add(added_ranks[best])
        self._centre.add(added_centre[best])
        return tuple(selections[best].tolist())

    def rank_changes(self, completion: str, texts: Sequence[str], selections: Ints) -> Ints:
        """Return what each possible row adds to the sums of the true completion's ranks.

        Rank 0 of a row is that of the choice with the least of something, such as characters. If
        the true completion ties with other choices, it has an equal part of all their ranks.

        Args:
            completion: The true completion.
            texts: Its possible contradictions.
            selections: Possible rows, an array (rows, contradictions) of indices of ``texts``.

        Returns:
            An array (rows, rankings * ranks): the units that each rank gets, minus its fair share.

        Example:
            Of four choices, the true completion and another are the shortest. Ranks 0 and 1 get
            half a row each, which is 6 of 12 units, minus the fair 3; ranks 2 and 3 get 0 - 3.
        """
        choices = [completion, *texts]
        # By each of these lists of values, the choices of a row are ranked.
        rankings = [list(map(statistic, choices)) for statistic in STATISTICS.values()]
        alphabet = sorted(choices)
        rankings.append([alphabet.index(text) for text in choices])

        ranks = np.arange(self._num_choices)
        changes = []
        for values in np.array(rankings):
            true_value = values[0]
            # A line for each possible row, with the values of its contradictions.
            false_values = values[1:][selections]
            # With one contradiction below it and one equal to it, the true completion shares the
            # ranks 1 and 2.
            first_rank = (false_values < true_value).sum(axis=1, keepdims=True)
            num_tied = 1 + (false_values == true_value).sum(axis=1, keepdims=True)
            has_rank = (first_rank <= ranks) & (ranks < first_rank + num_tied)
            units_of_rank = self._units_per_row // num_tied
            changes.append(has_rank * units_of_rank - self._fair_share)
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


class _WordChanges(NamedTuple):
    """The words that contradictions have more or less often than the true completion."""

    numbers: Ints
    """The numbers that stand for the words of the true completion and its contradictions."""

    changes: Ints
    """An array (texts, words): how many more times each contradiction has each word."""


def _word_changes(completion: str, texts: Sequence[str]) -> _WordChanges:
    """Compare how often each contradiction and the true completion have each word.

    Pairs of words, shapes of numbers and capitals count as words too. A word is the number that
    stands for it in the ledger.

    Example:
        Against "He did", the contradiction "He did not" has the word "not" once more (1), and the
        pair of "did" and the end of the sentence once less (-1).
    """
    true_counts = _count_features(completion)
    false_counts = [_count_features(text) for text in texts]
    # Unlike a set, a dict keeps the order of first occurrence.
    words = dict.fromkeys(chain(true_counts, *false_counts))

    changes = []
    for counts in false_counts:
        # A counter returns 0 for a word that a text lacks.
        changes.append([counts[word] - true_counts[word] for word in words])
    return _WordChanges(np.array(list(words)), np.array(changes, dtype=np.int64))


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
