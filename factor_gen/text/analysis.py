"""The result of tagging a text: tokens with their parts of speech, names, dates and quantities.

Every tagger returns it. The expressions in ``times.tsv`` find dates, times, durations and
quantities.
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
    """A method that finds the parts of speech and the entities of a text.

    Its result depends on its fingerprint and on the text only.
    """

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The name and the settings of the tagger, with the versions that decide its result."""
        ...

    def analyse(self, text: str) -> Analysis:
        """Find the tokens and the entities of a text."""
        ...

    def names(self, text: str) -> tuple[Entity, ...]:
        """Find only the names, for a text whose words are not edited."""


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
    """Find the dates, times, durations and quantities of a text.

    Args:
        text: The text to search.

    Returns:
        The entities in the order of the text. Where two expressions of ``times.tsv`` match
        overlapping words, the one listed first wins.
    """
    found = (
        Entity(match.group(), *match.span(), kind)
        for kind, pattern in _patterns()
        for match in pattern.finditer(text)
        if match.group()
    )
    return without_overlaps(found)
