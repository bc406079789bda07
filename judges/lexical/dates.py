"""Dates in one form, whatever order they are written in: ``5 May 1990`` is ``May 5, 1990`` is ``1990-05-05``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from judges.lexical.words import MONTHS, fold

_NUMBER_OF = {month[:3]: number for number, month in enumerate(MONTHS, 1)}
_MONTH = "(?P<month>" + "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS) + r"|sept)\.?"
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
    """A month with its day, its year, or both; 0 is what the text leaves out. Years alone are numbers, not dates."""

    year: int
    month: int
    day: int

    def agrees(self, other: Date) -> bool:
        """Whether ``other`` says at least what this says: each part of this is the same there."""
        return all(mine in (0, theirs) for mine, theirs in zip(self._parts, other._parts, strict=True))

    @property
    def _parts(self) -> tuple[int, int, int]:
        return self.year, self.month, self.day

    def __str__(self) -> str:
        parts = (str(self.day or ""), MONTHS[self.month - 1].capitalize(), str(self.year or ""))
        return " ".join(part for part in parts if part)


def find_dates(text: str) -> list[Date]:
    """The dates of ``text`` in the order in which they stand; days above 31 and months above 12 are none."""
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
    return [date for _, date in sorted(found)]
