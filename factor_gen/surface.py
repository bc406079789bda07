"""What can be seen of a completion without reading it. The audit asks whether it gives the true one
away; the choice of contradictions takes care that it does not, with a ledger of what the rows
chosen so far give away, in whole numbers."""

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lm_factuality.benchmarks.factor.rows import spaces_before_punctuation

_DOUBLE_SPACE = re.compile(r"\s{2,}")
_PUNCTUATION = re.compile(r"[^\w\s]")
_DIGIT = re.compile(r"\d")
_COMMON = re.compile(r"[A-Za-z0-9\s.,;:!?'\"()$%&/-]")

STATISTICS: Mapping[str, Callable[[str], float]] = {
    "characters": lambda text: len(text),
    "words": lambda text: len(text.split()),
    "spaces before punctuation": lambda text: spaces_before_punctuation(text),
    "double spaces": lambda text: len(_DOUBLE_SPACE.findall(text)),
    "capital letters": lambda text: sum(character.isupper() for character in text),
    "capitalised words": lambda text: sum(word[:1].isupper() for word in text.split()),
    "punctuation marks": lambda text: len(_PUNCTUATION.findall(text)),
    "digits": lambda text: len(_DIGIT.findall(text)),
    "rare characters": lambda text: len(_COMMON.sub("", text)),
    "word length": lambda text: len(text) / max(1, len(text.split())),
}
"""A number for each completion by itself; the baselines choose the greatest, or the least."""


_SLOTS = 1 << 20  # words and pairs of words by hash; collisions only blur the books
_TOKEN = re.compile(r"\w+|[^\w\s]")


class Ledger:
    """The books: how often each word stands in contradictions more than in true completions, and
    how often the true completion takes each place among its row's choices when they are put in
    order. ``contradictions`` of them make a row. What chance alone would leave uneven, one standard
    deviation, is left: books more even than that would give away by the rows already known what the
    next one must be."""

    def __init__(self, contradictions: int) -> None:
        self._words = np.zeros(_SLOTS, dtype=np.int64)
        self._squares = np.zeros(_SLOTS, dtype=np.int64)
        self._choices = contradictions + 1
        self._parts = math.lcm(
            *range(1, self._choices + 1)
        )  # a row in parts that ties divide evenly
        self._places = np.zeros((len(STATISTICS) + 1) * self._choices + 1, dtype=np.int64)
        self._place_squares = np.zeros_like(self._places)

    def enter(
        self, completion: str, texts: Sequence[str], ways: Any, is_centred: Any
    ) -> tuple[int, ...]:
        """The way to make a row that evens the books out the most, which is entered in them.
        ``ways`` is an array (ways, contradictions) of indices of ``texts``; of equally good ones
        the first is taken. ``is_centred`` says of each way whether all its contradictions are edits
        of the true completion alone; where all ways are, it counts for nothing."""
        slots, changes = _changes(completion, texts)
        centre = self._parts * is_centred[:, None] - self._parts // self._choices
        places = np.concatenate([self._taken(completion, texts, ways), centre], axis=1)
        by_text = changes @ _excess(self._words[slots], self._squares[slots])
        cost = by_text[ways].sum(axis=1) + places @ _excess(self._places, self._place_squares)
        best = int(np.argmin(cost))
        way = tuple(int(index) for index in ways[best])
        change = changes[list(way)].sum(axis=0)
        self._words[slots] += change
        self._squares[slots] += change * change
        self._places += places[best]
        self._place_squares += places[best] * places[best]
        return way

    def _taken(self, completion: str, texts: Sequence[str], ways: Any) -> Any:
        """For each way: how much the true completion has of each place above an even share, by each
        surface statistic and by the alphabet; an array (ways, orders * places) of parts of a
        row."""
        values = [
            [statistic(text) for text in (completion, *texts)] for statistic in STATISTICS.values()
        ]
        alphabet = sorted((completion, *texts))
        values.append([alphabet.index(text) for text in (completion, *texts)])
        found = np.full(
            (len(ways), len(values), self._choices), -(self._parts // self._choices), dtype=np.int64
        )
        for order, row in enumerate(np.array(values)):
            false = row[1:][ways]
            below, ties = (false < row[0]).sum(axis=1), 1 + (false == row[0]).sum(axis=1)
            for place in range(self._choices):
                has = (below <= place) & (place < below + ties)
                found[:, order, place] += has * (self._parts // ties)
        return found.reshape(len(ways), -1)


def _excess(sums: Any, squares: Any) -> Any:
    """What of each sum is more than its standard deviation would be by chance, with its sign."""
    return np.sign(sums) * np.maximum(0, np.abs(sums) - np.sqrt(squares).astype(np.int64))


def _changes(completion: str, texts: Sequence[str]) -> tuple[Any, Any]:
    """What each text has more or less of than ``completion``: the slots concerned, and an array
    (texts, slots) of counts."""
    true = _features(completion)
    counts: list[Counter[int]] = []
    for text in texts:
        change = _features(text)
        change.subtract(true)
        counts.append(Counter())
        for name, count in change.items():
            if count:
                counts[-1][zlib.crc32(name.encode("utf-8", "replace")) % _SLOTS] += count
    columns = {
        slot: column
        for column, slot in enumerate(dict.fromkeys(slot for each in counts for slot in each))
    }
    changes = np.zeros((len(texts), len(columns)), dtype=np.int64)
    for row, each in enumerate(counts):
        for slot, count in each.items():
            changes[row, columns[slot]] = count
    return np.fromiter(columns, dtype=np.int64, count=len(columns)), changes


def _features(text: str) -> Counter[str]:
    """Words, pairs of them, and their shapes (digits as one, capitals)."""
    words = _TOKEN.findall(text)
    lower = [word.lower() for word in words]
    found = Counter(lower)
    found.update(f"{one} {other}" for one, other in zip(["", *lower], [*lower, ""], strict=True))
    found.update("#" + _DIGIT.sub("0", word) for word in words if _DIGIT.search(word))
    found.update("^" for word in words if word[:1].isupper())
    return found
