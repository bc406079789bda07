"""How much of one sequence of stems lies together, or in order, in another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

_LEAST = 4  # words of the narrowest window


def densest_window(needles: Sequence[str], haystack: Sequence[str], width: float) -> float:
    """The largest share of ``needles`` inside one window of ``haystack``, ``width`` times as long as they are."""
    if not needles:
        return 1.0
    counts = Counter(needles)
    size = max(_LEAST, math.ceil(width * len(needles)))
    inside: Counter[str] = Counter()
    found = best = 0
    for position, word in enumerate(haystack):
        if word in counts:
            inside[word] += 1
            found += counts[word] if inside[word] == 1 else 0
        if position >= size and (gone := haystack[position - size]) in counts:
            inside[gone] -= 1
            found -= counts[gone] if not inside[gone] else 0
        best = max(best, found)
    return best / len(needles)


def common_order(needles: Sequence[str], haystack: Sequence[str]) -> float:
    """The share of ``needles`` in the longest subsequence common to both: those that ``haystack`` has in the same order."""
    if not needles:
        return 1.0
    words = np.array(haystack, dtype=object)
    previous = np.zeros(len(words) + 1, dtype=np.int64)
    for needle in needles:
        current = previous.copy()
        current[1:] = np.where(words == needle, previous[:-1] + 1, previous[1:])
        previous = np.maximum.accumulate(current)
    return int(previous[-1]) / len(needles)
