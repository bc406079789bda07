"""What a tagger says of a text: its tokens with their parts of speech, and the names, dates and
quantities in it. Dates, times, durations and quantities are found by the expressions in
``times.tsv``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

from factor_gen.text.lists import DATA, LISTS, rows

PERSON, PLACE, ORGANISATION, NATIONALITY, NAME = (
    "person",
    "place",
    "organisation",
    "nationality",
    "name",
)
DATE, TIME, DURATION = "date", "time", "duration"
MONEY, PERCENT, ORDINAL, NUMBER = "money", "percent", "ordinal", "number"
NAMES = (PERSON, PLACE, ORGANISATION, NAME)
MONTHS = LISTS["month names"]
SHORT_MONTHS = LISTS["short months"]
DAYS = LISTS["day names"]
CARDINALS = LISTS["cardinals"]
TENS = LISTS["tens"]
_PART = re.compile(r"<[a-z ]+>")


class Token(NamedTuple):
    """A word or mark at ``text[start:end]``, with its tag of the Penn treebank."""

    text: str
    start: int
    end: int
    tag: str = ""


class Entity(NamedTuple):
    """A name, date or quantity at ``text[start:end]``; ``kind`` is one of those above."""

    text: str
    start: int
    end: int
    kind: str


def without_overlaps(found: Iterable[Entity]) -> list[Entity]:
    """Those of ``found`` that overlap none before them in ``found``, in the order of the text."""
    kept: list[Entity] = []
    taken: set[int] = set()
    for each in found:
        span = range(each.start, each.end)
        if taken.isdisjoint(span):
            taken.update(span)
            kept.append(each)
    return sorted(kept, key=lambda entity: entity.start)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A text with its tokens and its entities, both in order; entities do not overlap."""

    text: str
    tokens: tuple[Token, ...]
    entities: tuple[Entity, ...]


class Tagger(Protocol):
    """Finds parts of speech and entities. What it finds depends on ``fingerprint`` and the text
    alone.
    """

    @property
    def fingerprint(self) -> Mapping[str, Any]: ...

    def analyse(self, text: str) -> Analysis: ...

    def names(self, text: str) -> tuple[Entity, ...]:
        """The names alone, for a text whose words nobody edits."""


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    parts: dict[str, str] = {}
    found = []
    for name, pattern in rows(DATA / "times.tsv"):
        filled = _PART.sub(
            lambda part: parts.get(part[0]) or f"(?:{'|'.join(LISTS[part[0][1:-1]])})", pattern
        )
        if _PART.fullmatch(name):
            parts[name] = f"(?:{filled})"
        else:
            found.append((name, re.compile(filled)))
    return tuple(found)


def times_and_quantities(text: str) -> list[Entity]:
    """The dates, times, durations and quantities of a text, in order. Where two shapes overlap, the
    one listed first wins.
    """
    found = (
        Entity(match.group(), *match.span(), kind)
        for kind, pattern in _patterns()
        for match in pattern.finditer(text)
        if match.group()
    )
    return without_overlaps(found)
