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
from itertools import pairwise
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

# So many numbers stand for words and pairs of words. Words that share one blur the ledger a little.
_NUM_FEATURES = 1 << 20
_TOKEN = re.compile(r"\w+|[^\w\s]")


class BalanceLedger:
    """A record of how the true completions of the chosen rows differ from their contradictions.

    It counts how much more often each word is in contradictions than in true completions, and which
    rank the true completion has among the choices of its row when these are sorted, for instance by
    length. A row is added so that these differences become as small as possible.

    A difference of up to one standard deviation counts as none. A more even ledger would give the
    next row away to somebody who knows the earlier ones.
    """

    def __init__(self, contradictions: int) -> None:
        """Create a ledger without rows.

        Args:
            contradictions: How many contradictions a row has.
        """
        self._num_choices = contradictions + 1
        # A row counts as so many parts. Ties divide them without a remainder, so that all sums are
        # whole numbers, which are the same on every machine.
        self._parts = math.lcm(*range(1, self._num_choices + 1))
        # The sums of the words come first, then those of the ranks, last that of the centre.
        num_orders = len(STATISTICS) + 1
        size = _NUM_FEATURES + num_orders * self._num_choices + 1
        # The sums of the changes of all rows, and of their squares for the standard deviation.
        self._sums = np.zeros(size, dtype=np.int64)
        self._squares = np.zeros(size, dtype=np.int64)

    def add_most_even_row(
        self, completion: str, texts: Sequence[str], selections: Ints, is_centred: Bools
    ) -> tuple[int, ...]:
        """Add the row after which the ledger is the most even, and return its contradictions.

        Args:
            completion: The true completion.
            texts: Its possible contradictions.
            selections: The rows to choose from, an array (rows, contradictions) of indices of
                ``texts``. If several are equally good, the first is added.
            is_centred: For each row, whether all its contradictions are edits of the true
                completion alone, so that the true completion is in the centre.

        Returns:
            The indices of the row's contradictions in ``texts``.
        """
        words = _word_changes(completion, texts)
        word_changes = words.changes[selections].sum(axis=1)
        rank_changes = self.rank_changes(completion, texts, selections)
        # Each of the choices should be in the centre of its row equally often.
        centre_changes = self._parts * is_centred[:, None] - self._parts // self._num_choices
        changes = np.concatenate([word_changes, rank_changes, centre_changes], axis=1)
        slots = np.concatenate([words.slots, np.arange(_NUM_FEATURES, len(self._sums))])

        # Chance alone leaves a sum of about one standard deviation.
        sums = self._sums[slots]
        deviation = np.sqrt(self._squares[slots]).astype(np.int64)
        excess = np.sign(sums) * np.maximum(0, np.abs(sums) - deviation)

        # The product is the least if the changes point the other way than the excess.
        best = int(np.argmin(changes @ excess))
        self._sums[slots] += changes[best]
        self._squares[slots] += changes[best] ** 2
        return tuple(selections[best].tolist())

    def rank_changes(self, completion: str, texts: Sequence[str], selections: Ints) -> Ints:
        """Return how the sums of the true completion's ranks change with each possible row.

        The choices of a row are sorted by each surface statistic and by the alphabet. If the true
        completion ties with others, it has an equal share of all their ranks.

        Args:
            completion: The true completion.
            texts: Its possible contradictions.
            selections: Possible rows, an array (rows, contradictions) of indices of ``texts``.

        Returns:
            An array (rows, orders * ranks): the share of each rank above an even one, in parts of
            a row.
        """
        choices = [completion, *texts]
        orders = [list(map(statistic, choices)) for statistic in STATISTICS.values()]
        # The order of the alphabet is one more way to sort them.
        alphabet = sorted(choices)
        orders.append([alphabet.index(text) for text in choices])

        changes = []
        for values in np.array(orders):
            # The true completion comes first among the choices.
            true_value = values[0]
            false_values = values[1:][selections]
            first_rank = (false_values < true_value).sum(axis=1)
            num_tied = 1 + (false_values == true_value).sum(axis=1)
            for rank in range(self._num_choices):
                # Choices that tie share their ranks evenly.
                has_rank = (first_rank <= rank) & (rank < first_rank + num_tied)
                share = has_rank * (self._parts // num_tied)
                changes.append(share - self._parts // self._num_choices)
        return np.stack(changes, axis=1)


class _WordChanges(NamedTuple):
    """The words that contradictions have more or fewer times than the true completion."""

    slots: Ints
    """The numbers of the words that occur in the true completion or a contradiction."""

    changes: Ints
    """An array (texts, slots): how many more times each contradiction has each word."""


def _word_changes(completion: str, texts: Sequence[str]) -> _WordChanges:
    """Count how many more times each contradiction has each word than the true completion.

    Args:
        completion: The true completion.
        texts: Its contradictions.

    Returns:
        The changes of all words that occur in one of the texts.
    """
    true_features = _count_features(completion)
    false_features = [_count_features(text) for text in texts]

    # A dict keeps the order of the first occurrence, unlike a set.
    slots = dict.fromkeys(true_features)
    for features in false_features:
        slots.update(dict.fromkeys(features))

    # A counter returns 0 for a word that a text lacks.
    changes = []
    for features in false_features:
        changes.append([features[slot] - true_features[slot] for slot in slots])
    return _WordChanges(np.array(list(slots)), np.array(changes, dtype=np.int64))


def _count_features(text: str) -> Counter[int]:
    """Count the words of a text, its pairs of words, the shapes of its numbers and its capitals.

    Args:
        text: A completion or a contradiction.

    Returns:
        The counts by the number that stands for each feature.

    Example:
        The features of "In 1985" are "in", "1985", " in", "in 1985", "1985 ", "#0000" and "^".
    """
    words = _TOKEN.findall(text)
    lower_words = [word.lower() for word in words]

    features = list(lower_words)
    # An empty text stands for the beginning and the end of the sentence.
    features += [f"{first} {second}" for first, second in pairwise(["", *lower_words, ""])]
    features += ["#" + _DIGIT.sub("0", word) for word in words if _DIGIT.search(word)]
    features += ["^" for word in words if word[:1].isupper()]
    return Counter(map(_feature_number, features))


@lru_cache(maxsize=1 << 16)
def _feature_number(feature: str) -> int:
    """Return the number that stands for a word or another feature on every machine."""
    return zlib.crc32(feature.encode("utf-8", "replace")) % _NUM_FEATURES
