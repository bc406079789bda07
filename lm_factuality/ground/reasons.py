"""Why items are unscored: reasons counted by what they have in common, and their cures, declared where reasons are named."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_cures: dict[str, str] = {}  # by a text that reasons hold
_PLACE = re.compile(r"^(?:choice|question|window|row|sentence) \d+(?: of \d+)?: ")
_NUMBER = re.compile(r"\d[\d,.]*")


def curable(reason: str, cure: str) -> str:
    """``reason``, which from now on is known to be cured by ``cure``, as are all reasons that hold it."""
    _cures[reason] = cure
    return reason


class Reason(NamedTuple):
    """``items`` are unscored for a reason like this ``example``; ``cure`` is empty where none is known."""

    items: int
    example: str
    cure: str

    def __str__(self) -> str:
        return f"{self.items} × {self.example}{self.cure and f': {self.cure}'}"


def reasons_of(given: Iterable[str | None]) -> list[Reason]:
    """The reasons that differ in more than numbers and places, the most frequent first; None stands for an item with a score."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for each in given:
        if each:
            said = " ".join(_PLACE.sub("", each).split())
            counts[kind := _NUMBER.sub("0", said)] += 1
            examples.setdefault(kind, said if len(said) <= _LONGEST else f"{said[:_LONGEST]} ...")
    return [Reason(count, examples[kind], cure_of(examples[kind])) for kind, count in counts.most_common()]


def cure_of(reason: str) -> str:
    """What cures ``reason``, by the longest known one that it holds; empty where none is."""
    return max(((len(known), cure) for known, cure in _cures.items() if known in reason), default=(0, ""))[1]


_LONGEST = 160  # characters of an example
