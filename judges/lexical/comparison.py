"""A claim beside its passages: which of its words, numbers, dates and names they hold, and where
they disagree.

Dates are compared in one form, whatever order they are written in: ``5 May 1990`` is ``May 5,
1990`` is ``1990-05-05``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, groupby

from judges.lexical.words import MONTH_NAMES, MONTHS, NEGATIONS, Passage, Text, Word, fold, read

_NUMBER_OF = {month[:3]: number for number, month in enumerate(MONTHS, 1)}
_MONTH = rf"(?P<month>{MONTH_NAMES})\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_PATTERNS = tuple(
    re.compile(rf"(?<![\w-]){pattern}(?!\w)", re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})",
        rf"{_DAY}(?: of)? {_MONTH},?(?: {_YEAR})?",
        rf"{_MONTH} {_DAY}(?:,? {_YEAR})?",
        rf"{_MONTH},?(?: of)? {_YEAR}",
    )
)


@dataclass(frozen=True, order=True)
class Date:
    """A month with its day, its year, or both; 0 is what the text leaves out. Years alone are
    numbers, not dates."""

    year: int
    month: int
    day: int

    def agrees(self, other: Date) -> bool:
        """Whether ``other`` says at least what this says: each part of this is the same there."""
        return (
            self.year in (0, other.year)
            and self.month in (0, other.month)
            and self.day in (0, other.day)
        )

    def __str__(self) -> str:
        parts = (str(self.day or ""), MONTHS[self.month - 1].capitalize(), str(self.year or ""))
        return " ".join(part for part in parts if part)


@lru_cache(4096)
def find_dates(text: str) -> tuple[Date, ...]:
    """The dates of ``text`` in the order in which they stand; days above 31 and months above 12 are
    none."""
    folded = fold(text)
    found: list[tuple[int, Date]] = []
    taken = [False] * len(folded)
    for pattern in _PATTERNS:
        for match in pattern.finditer(folded):
            if any(taken[match.start() : match.end()]):
                continue
            parts = match.groupdict()
            month = parts["month"].lower()
            number = int(month) if month.isdigit() else _NUMBER_OF[month[:3]]
            date = Date(int(parts.get("year") or 0), number, int(parts.get("day") or 0))
            if 1 <= number <= len(MONTHS) and date.day <= 31:
                found.append((match.start(), date))
                taken[match.start() : match.end()] = [True] * (match.end() - match.start())
    return tuple(date for _, date in sorted(found))


@dataclass(frozen=True)
class Comparison:
    """What the features are made of; of a claim without content words everything is covered."""

    claim_text: str
    passages: Sequence[Passage]

    @cached_property
    def claim(self) -> Text:
        return read(self.claim_text)

    @cached_property
    def covered(self) -> tuple[bool, ...]:
        """For each content word of the claim whether any passage has it."""
        known = frozenset[str]().union(*(passage.words.stems for passage in self.passages))
        return tuple(word.stem in known for word in self.claim.content)

    @cached_property
    def missing(self) -> tuple[Word, ...]:
        """The content words of the claim that no passage has."""
        return tuple(
            word
            for word, covered in zip(self.claim.content, self.covered, strict=True)
            if not covered
        )

    @cached_property
    def dates(self) -> tuple[Date, ...]:
        return find_dates(self.claim_text)

    @cached_property
    def missing_dates(self) -> tuple[Date, ...]:
        """The dates of the claim that no passage has, or only with another or no day, month or
        year."""
        known = [date for passage in self.passages for date in find_dates(passage.text)]
        return tuple(date for date in self.dates if not any(date.agrees(other) for other in known))

    @cached_property
    def names(self) -> tuple[tuple[Word, ...], ...]:
        """The names of the claim: capitalised content words that stand next to each other."""
        runs = groupby(self.claim.words, key=lambda word: (word.sentence, word.is_name))
        return tuple(tuple(words) for (_, is_name), words in runs if is_name)

    @cached_property
    def missing_names(self) -> tuple[tuple[Word, ...], ...]:
        """The names of which no passage has a single word, or not all of their words beside each
        other."""
        return tuple(
            name
            for name in self.names
            if not any(_has_name(passage.words, name) for passage in self.passages)
        )

    @cached_property
    def closest_sentence(self) -> tuple[Word, ...]:
        """The sentence of the passages with most of the claim's content words; the first of
        several."""
        wanted = self.claim.stems
        sentences = [sentence for passage in self.passages for sentence in passage.words.sentences]
        return max(
            sentences, key=lambda words: len(wanted & {word.stem for word in words}), default=()
        )

    @cached_property
    def negation_differs(self) -> bool:
        """Whether the claim is negated and its closest sentence is not, or that sentence negates a
        word that the claim affirms."""
        if any(word.stem in NEGATIONS for word in self.claim.words):
            return not any(word.stem in NEGATIONS for word in self.closest_sentence)
        return bool(_negated(self.closest_sentence) & self.claim.stems)

    @cached_property
    def about(self) -> frozenset[str]:
        """The stems of the names of what the passages are about."""
        return frozenset[str]().union(*(passage.name for passage in self.passages))

    @cached_property
    def namesakes(self) -> tuple[Passage, ...]:
        """The passages, if their titles name different things whose names share a word; then it is
        unclear of which the claim speaks."""
        titles = {passage.title: passage for passage in self.passages if passage.title}
        return (
            tuple(titles.values())
            if any(a.name & b.name for a, b in combinations(titles.values(), 2))
            else ()
        )


def _has_name(text: Text, name: tuple[Word, ...]) -> bool:
    """Whether all words of ``name`` stand within a stretch of ``text`` one word longer than it (a
    middle name)."""
    wanted = {word.stem for word in name}
    if not wanted <= text.stems:
        return False
    size = len(name) + 1
    return any(
        wanted <= set(text.sequence[start : start + size]) for start in range(len(text.sequence))
    )


def _negated(words: Sequence[Word]) -> set[str]:
    """The stems of the first content word behind each negation."""
    found: set[str] = set()
    waiting = False
    for word in words:
        if waiting and word.is_content:
            found.add(word.stem)
            waiting = False
        waiting = waiting or word.stem in NEGATIONS
    return found
