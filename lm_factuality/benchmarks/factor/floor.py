"""What a model that knows nothing scores on a row: the floor under its accuracy.

Among four choices that is 25% only where they have nothing to do with each other. Edits of one sentence leave that sentence
between them: it is the likeliest only if each edit happens to make it less likely, one time in eight for edits of different
words.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

LOTS = 20  # drawings of word weights
_BYTES = 3  # of a weight

Ints = np.ndarray[Any, np.dtype[np.int64]]


def shares(values: Sequence[float]) -> list[float]:
    """How likely each choice is to be picked by who picks the greatest value, ties broken by lot."""
    picked = [value == max(values) for value in values]
    return [is_best / sum(picked) for is_best in picked]


def floor_of(choices: Sequence[str], gold: int, seed: int = 0) -> float:
    """How often word weights drawn by lot pick the true one of ``choices``: each word has one random weight in all rows, and the
    choice with the greatest sum is picked. The mean over ``LOTS`` drawings."""
    zero = np.zeros(LOTS, dtype=np.int64)
    sums = np.array([sum((_weights(word, seed) for word in choice.split()), zero) for choice in choices])
    return float(np.mean([shares(each)[gold] for each in sums.T.tolist()]))


@lru_cache(maxsize=1 << 16)
def _weights(word: str, seed: int) -> Ints:
    digest = hashlib.blake2b(f"{seed}/{word}".encode("utf-8", "replace"), digest_size=_BYTES * LOTS).digest()
    parts = np.frombuffer(digest, dtype=np.uint8).reshape(LOTS, _BYTES).astype(np.int64)
    found: Ints = parts @ 256 ** np.arange(_BYTES) - 256**_BYTES // 2
    return found  # whole numbers, lest the order of words break a tie
