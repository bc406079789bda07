"""Another date of the same shape: year, month, day, weekday, century, quarter, season, hour."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from factor_gen.generate.rules.edits import Edit, Replacement, edit
from factor_gen.generate.rules.numbers import suffix
from factor_gen.generate.rules.sentence import Sentence, overlaps
from factor_gen.generate.rules.words import DATA
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import DATE, DAYS, MONTHS, SHORT_MONTHS, TIME, Entity
from factor_gen.text.lists import rows

_ERA = r"(?:BCE?|CE|AD|B\.\s?C\.(?:E\.)?|A\.\s?D\.|C\.E\.)"
_DECADE = re.compile(r"\b(?:1[0-9]|20)\d0(?=s\b)")
_IN_ERA = re.compile(rf"(?<![-–/\d])(\d[\d,]*)(?=\s{_ERA}(?!\w))|(?<=AD )\d+|(?<=A\.D\. )\d+")
_YEAR = re.compile(r"(?<!\d[-–/])\b(?:1[0-9]\d\d|20\d\d)\b")
_CENTURY = re.compile(r"\b\d{1,2}(?:st|nd|rd|th)(?=[\s-]century)")
_NTH = re.compile(r"\b\d{1,2}(?:st|nd|rd|th)\b")
_NEAR = (-4, -3, -2, -1, 1, 2, 3, 4)


class _Part(NamedTuple):
    """A part of a date that is a number."""

    pattern: re.Pattern[str]
    alike: re.Pattern[str]
    """Finds the numbers of the sentence to which a new one stands as the old one does."""
    steps: Sequence[int]
    """How far from the old number the new one may be."""
    least: int
    most: int


_PARTS: Mapping[str, _Part] = {
    "decade": _Part(_DECADE, _DECADE, (-20, -10, 10, 20), 0, 2010),
    "era": _Part(_IN_ERA, _IN_ERA, _NEAR, 1, 100_000),
    "year": _Part(_YEAR, _YEAR, _NEAR, 0, 10_000),
    "century": _Part(_CENTURY, _NTH, (-2, -1, 1, 2), 2, 21),
}
"""The parts by name; of a date the first that it has is changed."""

_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)}|{'|'.join(SHORT_MONTHS)})\b")
_OFTEN_NO_MONTHS = ("May", "March")
_DAY_NUMBER = re.compile(r"(?<![\d,])\b([12]?\d|3[01])(st|nd|rd|th)?\b(?![\d:])")
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_OF = {month[:3]: days for month, days in zip(MONTHS, _MONTH_LENGTHS, strict=True)}
_HOUR = re.compile(r"\b(1[0-2]|[1-9])(?=(?::\d\d)?\s?(?:a|p)\.?m)")
_SETS = rows(DATA / "dates.tsv")


def dates(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Change each part of each date and time by itself."""
    for entity in sentence.entities:
        is_titled = overlaps(sentence.titles, entity.start, entity.end)
        if entity.kind not in (DATE, TIME) or is_titled:
            continue
        place = sentence.place_of(entity.start, entity.end, date=[entity.text])
        if place.meets("no date"):
            continue
        changes = [*_other_number(sentence, entity, rng), *_other_day(sentence, entity, rng)]
        if entity.kind == TIME:
            changes += _other_hour(entity.text, rng)
        if not place.meets("one of two dates"):
            changes += _other_of_set(sentence, entity.text, rng)
        for start, end, new in changes:
            yield edit("date", CIRCUMSTANCE, (entity.start + start, entity.start + end, new))


# The steps below find changes of a date, in characters of its own text.


def _other_number(sentence: Sentence, entity: Entity, rng: random.Random) -> Iterator[Replacement]:
    """Another year, decade or century, on the same side of the sentence's others."""
    for name, part in _PARTS.items():
        match = part.pattern.search(entity.text)
        if match is None:
            continue
        start, end = match.span()
        place = sentence.place_of(entity.start + start, entity.start + end, part=[name])
        if place.meets("no year"):
            return
        old = match.group()
        value = _number(old)
        others = {_number(other.group()) for other in part.alike.finditer(sentence.text)} - {value}
        scale = 1
        if name == "era" and value % 10 == 0:
            scale = 10 if value % 100 else 100  # as round as it
        near = []
        for new in (value + step * scale for step in part.steps):
            is_in_order = all((new < other) == (value < other) for other in others)
            if part.least <= new <= part.most and new not in others and is_in_order:
                near.append(new)
        if name == "year":
            chosen = _before_and_after(value, near, rng, sentence.spare)
        else:
            chosen = sentence.some(rng, near)
        for new in chosen:
            written = f"{new:,}" if "," in old else str(new)
            yield Replacement(start, end, written + (suffix(new) if old[-1].isalpha() else ""))
        return


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def _before_and_after(year: int, near: list[int], rng: random.Random, spare: int) -> list[int]:
    """One year before and one after, in any order, and ``spare`` more."""
    before = [new for new in near if new < year]
    after = [new for new in near if new > year]
    years = [rng.choice(side) for side in rng.sample((before, after), 2) if side]
    rest = [new for new in near if new not in years]
    return [*years, *rng.sample(rest, min(spare, len(rest)))]


def _other_day(sentence: Sentence, entity: Entity, rng: random.Random) -> Iterator[Replacement]:
    """Another month, another day of the month, and both at once."""
    text = entity.text
    month, day = _MONTH.search(text), _DAY_NUMBER.search(text)
    if not month or sentence.text[: entity.start].rstrip(", ").endswith(tuple(DAYS)):
        return  # With its weekday before it, the date would no longer be that day.
    number = int(day.group(1)) if day else 1
    months: list[str] = []
    if month.group() not in _OFTEN_NO_MONTHS:
        used = {*_MONTH.findall(sentence.text), "Sept", "Sep"}
        names = MONTHS if month.group() in MONTHS else SHORT_MONTHS
        months = [name for name in names if name not in used and _DAYS_OF[name[:3]] >= number]
    for name in sentence.some(rng, months):
        yield Replacement(*month.span(), name)
    if not day:
        return
    days = [
        new
        for new in range(max(1, number - 9), min(_DAYS_OF[month.group()[:3]], number + 9) + 1)
        if new != number
        and len(str(new)) == len(str(number))
        and not re.search(rf"\b{new}\b", sentence.text)
    ]
    for i, new in enumerate(rng.sample(days, min(2, len(days)))):
        changed = Replacement(*day.span(), f"{new}{suffix(new)}" if day.group(2) else str(new))
        months = [name for name in months if _DAYS_OF[name[:3]] >= new]
        if i or not months:
            yield changed
            continue
        first, last = sorted([changed, Replacement(*month.span(), rng.choice(months))])
        between = text[first.end : last.start]
        yield Replacement(first.start, last.end, f"{first.new}{between}{last.new}")


def _other_hour(text: str, rng: random.Random) -> Iterator[Replacement]:
    hour = _HOUR.search(text)
    if hour:
        old = hour.group()
        hours = [str(new) for new in range(1, 13)]
        same_size = [new for new in hours if new != old and len(new) == len(old)]
        yield Replacement(*hour.span(), rng.choice(same_size))


def _other_of_set(sentence: Sentence, text: str, rng: random.Random) -> Iterator[Replacement]:
    """Another weekday, season, part of the day or quarter of the year."""
    for members in _SETS:
        pattern = rf"(?i:last |next |this |previous |past |coming )?({'|'.join(members)})s?"
        match = re.fullmatch(pattern, text.replace("-", " "))
        if match is None:
            continue
        old = match.group(1)
        others = [new for new in members if new not in sentence.text and new != old]
        for new in rng.sample(others, min(2, len(others))):
            yield Replacement(*match.span(1), new.replace(" ", "-") if "-" in text else new)
