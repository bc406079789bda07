"""What can be seen of a completion without reading it.

The audit asks whether it gives the true one away. The choice of contradictions takes care that it
does not, with a ledger of what the rows chosen so far give away, in whole numbers.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

import numpy as np

from lm_factuality.benchmarks.factor.rows import spaces_before_punctuation

_DOUBLE_SPACE = re.compile(r"\s{2,}")
_PUNCTUATION = re.compile(r"[^\w\s]")
_DIGIT = re.compile(r"\d")
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
"""A number for each completion by itself; the baselines choose the greatest, or the least."""


_SLOTS = 1 << 20
"""Numbers that stand for words and pairs of words. Those that share one only blur the ledger."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


class Ledger:
    """What the rows chosen so far give away.

    It counts how often each word stands in contradictions more than in true completions, and how
    often the true completion takes each place among its row's choices when they are put in order.
    One standard deviation, which chance alone would leave, is left uneven: a ledger more even than
    that would give away by the rows already known what the next one must be.
    """

    def __init__(self, contradictions: int) -> None:
        """Begin without rows.

        Args:
            contradictions: How many make a row.
        """
        self._choices = contradictions + 1
        # a row in parts that ties divide evenly
        self._parts = math.lcm(*range(1, self._choices + 1))
        # first for the words, then for the places
        size = _SLOTS + (len(STATISTICS) + 1) * self._choices + 1
        self._sums = np.zeros(size, dtype=np.int64)
        self._squares = np.zeros(size, dtype=np.int64)

    def enter(
        self, completion: str, texts: Sequence[str], ways: Any, is_centred: Any
    ) -> tuple[int, ...]:
        """Enter a row, made in the way that evens the ledger out the most.

        Args:
            completion: The true completion.
            texts: Contradictions of it.
            ways: An array (ways, contradictions) of indices of ``texts``. Of equally good ways the
                first is taken.
            is_centred: For each way whether all its contradictions are edits of the true completion
                alone. Where all ways are, it counts for nothing.

        Returns:
            The way that was taken.
        """
        words, changes_of_text = _changes(completion, texts)
        changes = changes_of_text[ways].sum(axis=1)
        places = self.places(completion, texts, ways)
        centre = self._parts * is_centred[:, None] - self._parts // self._choices
        slots = np.concatenate([words, np.arange(_SLOTS, len(self._sums))])
        changes = np.concatenate([changes, places, centre], axis=1)
        # what of each sum is more than its standard deviation by chance
        sums = self._sums[slots]
        deviation = np.sqrt(self._squares[slots]).astype(np.int64)
        excess = np.sign(sums) * np.maximum(0, np.abs(sums) - deviation)
        best = int(np.argmin(changes @ excess))
        self._sums[slots] += changes[best]
        self._squares[slots] += changes[best] ** 2
        return tuple(ways[best].tolist())

    def places(self, completion: str, texts: Sequence[str], ways: Any) -> Any:
        """Return how much the true completion has of each place above an even share.

        The places are those by each surface statistic and by the alphabet.

        Returns:
            An array (ways, orders * places) of parts of a row.
        """
        choices = [completion, *texts]
        values = [[statistic(text) for text in choices] for statistic in STATISTICS.values()]
        alphabet = sorted(choices)
        values.append([alphabet.index(text) for text in choices])
        shares = []
        for order in np.array(values):
            false = order[1:][ways]
            below = (false < order[0]).sum(axis=1)
            ties = 1 + (false == order[0]).sum(axis=1)
            for place in range(self._choices):
                has_place = (below <= place) & (place < below + ties)
                shares.append(has_place * (self._parts // ties) - self._parts // self._choices)
        return np.stack(shares, axis=1)


def _changes(completion: str, texts: Sequence[str]) -> tuple[Any, Any]:
    """Return what each text has more or less of than ``completion``.

    Returns:
        The slots concerned, and an array (texts, slots) of counts.
    """
    true, *false = (_features(text) for text in (completion, *texts))
    slots = list(dict.fromkeys(chain(true, *false)))
    changes = [[features[slot] - true[slot] for slot in slots] for features in false]
    return np.array(slots), np.array(changes, dtype=np.int64)


def _features(text: str) -> Counter[int]:
    """Count words, pairs of them, and their shapes (digits as one, capitals), by their slots."""
    words = _TOKEN.findall(text)
    lower = [word.lower() for word in words]
    names = [*lower, *map(" ".join, pairwise(["", *lower, ""]))]
    names += ["#" + _DIGIT.sub("0", word) for word in words if _DIGIT.search(word)]
    names += ["^" for word in words if word[:1].isupper()]
    return Counter(map(_slot, names))


@lru_cache(maxsize=1 << 16)
def _slot(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "replace")) % _SLOTS
