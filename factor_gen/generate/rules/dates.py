"""Another date of the same shape: year, month, day, weekday, century, quarter, season, hour."""

import random
import re
from collections.abc import Iterator, Sequence

from factor_gen.generate.rules.conditions import Place
from factor_gen.generate.rules.edits import Edit, Replacement, edit
from factor_gen.generate.rules.numbers import suffix
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import DATA
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import DATE, DAYS, MONTHS, SHORT_MONTHS, TIME, Entity
from factor_gen.text.lists import rows

_YEAR = re.compile(r"(?<!\d[-–/])\b(?:1[0-9]\d\d|20\d\d)\b")
_DECADE = re.compile(r"\b(?:1[0-9]|20)\d0(?=s\b)")
_LAST_DECADE = 2010
_YEARS_NEAR = (-4, -3, -2, -1, 1, 2, 3, 4)
_ERA = r"(?:BCE?|CE|AD|B\.\s?C\.(?:E\.)?|A\.\s?D\.|C\.E\.)"
_IN_ERA = re.compile(rf"(?<![-–/\d])(\d[\d,]*)(?=\s{_ERA}(?!\w))|(?<=AD )\d+|(?<=A\.D\. )\d+")
_CENTURY = re.compile(r"\b\d{1,2}(?:st|nd|rd|th)(?=[\s-]century)")
_NTH = re.compile(r"\b\d{1,2}(?:st|nd|rd|th)\b")
_FIRST_CENTURY, _LAST_CENTURY = 2, 21
_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)}|{'|'.join(SHORT_MONTHS)})\b")
_OFTEN_NO_MONTHS = ("May", "March")
_DAY_NUMBER = re.compile(r"(?<![\d,])\b([12]?\d|3[01])(st|nd|rd|th)?\b(?![\d:])")
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_OF = {month[:3]: days for month, days in zip(MONTHS, _MONTH_LENGTHS, strict=True)}
_HOUR = re.compile(r"\b(1[0-2]|[1-9])(?=(?::\d\d)?\s?(?:a|p)\.?m)")
_SETS = rows(DATA / "dates.tsv", 2)


def dates(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Change each part of each date and time by itself."""
    for entity in sentence.entities:
        if entity.kind not in (DATE, TIME) or sentence.in_title(entity.start, entity.end):
            continue
        place = Place.of_characters(sentence, entity.start, entity.end, date=entity.text)
        if place.meets("no date"):
            continue
        for start, end, new in _changes(sentence, entity, rng):
            yield edit("date", CIRCUMSTANCE, (entity.start + start, entity.start + end, new))


def _changes(sentence: Sentence, entity: Entity, rng: random.Random) -> Iterator[Replacement]:
    """The changes of a date, in characters of its own text."""
    text = entity.text
    decade, in_era, century = _DECADE.search(text), _IN_ERA.search(text), _CENTURY.search(text)
    year = None if decade or in_era else _YEAR.search(text)
    if decade:
        value = int(decade.group())
        near = [value + step for step in (-20, -10, 10, 20)]
        fitting = _in_order(sentence, _DECADE, value, near)
        for new in sentence.some(rng, [new for new in fitting if new <= _LAST_DECADE] or fitting):
            yield Replacement(*decade.span(), str(new))
    dated = in_era or year
    if dated:
        start, end = dated.span()
        if Place.of_characters(sentence, entity.start + start, entity.start + end).meets("no year"):
            in_era = year = None
    if in_era:
        value = _number(in_era.group())
        step = 100 if value % 100 == 0 else 10 if value % 10 == 0 else 1
        near = [value + step * steps for steps in _YEARS_NEAR if value + step * steps > 0]
        for new in sentence.some(rng, _in_order(sentence, _IN_ERA, value, near)):
            written = f"{new:,}" if "," in in_era.group() else str(new)
            yield Replacement(*in_era.span(), written)
    if year:
        for new in _other_years(sentence, int(year.group()), rng):
            yield Replacement(*year.span(), str(new))
    yield from _other_month_or_day(sentence, entity, rng)
    if century:
        value = _number(century.group())
        near = [value + step for step in (-2, -1, 1, 2)]
        near = [new for new in near if _FIRST_CENTURY <= new <= _LAST_CENTURY]
        for new in sentence.some(rng, _in_order(sentence, _NTH, value, near)):
            yield Replacement(*century.span(), f"{new}{suffix(new)}")
    if entity.kind == TIME:
        yield from _other_hour(text, rng)
    yield from _other_of_set(sentence, entity, rng)


def _in_order(
    sentence: Sentence, pattern: re.Pattern[str], value: int, near: Sequence[int]
) -> list[int]:
    """The numbers that stand to the sentence's others of the pattern as the value does."""
    others = {_number(match.group()) for match in pattern.finditer(sentence.text)} - {value}
    return [
        new
        for new in near
        if new not in others and all((new < other) == (value < other) for other in others)
    ]


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def _other_years(sentence: Sentence, year: int, rng: random.Random) -> list[int]:
    """A year up to four before and one up to four after, in any order."""
    near = [year + step for step in _YEARS_NEAR]
    fitting = _in_order(sentence, _YEAR, year, near)
    before = [new for new in fitting if new < year]
    after = [new for new in fitting if new > year]
    years = [rng.choice(side) for side in rng.sample((before, after), 2) if side]
    left = [new for new in fitting if new not in years]
    return [*years, *rng.sample(left, min(sentence.more_values, len(left)))]


def _other_month_or_day(
    sentence: Sentence, entity: Entity, rng: random.Random
) -> Iterator[Replacement]:
    """Another month, another day of the month, and both at once."""
    text = entity.text
    month, day = _MONTH.search(text), _DAY_NUMBER.search(text)
    weekdays = tuple(DAYS)
    if not month or sentence.text[: entity.start].rstrip(", ").endswith(weekdays):
        return  # With its weekday before it, the date would no longer be that day.
    number = int(day.group(1)) if day else 1
    months: list[str] = []
    if month.group() not in _OFTEN_NO_MONTHS:
        used = {*_MONTH.findall(sentence.text), "Sept", "Sep"}
        names = MONTHS if month.group() in MONTHS else SHORT_MONTHS
        months = [name for name in names if name not in used and _DAYS_OF[name[:3]] >= number]
    for name in sentence.some(rng, months):
        yield Replacement(*month.span(), name)
    if not day or not number:
        return
    last = min(_DAYS_OF[month.group()[:3]], number + 9)
    days = [
        new
        for new in range(max(1, number - 9), last + 1)
        if new != number
        and len(str(new)) == len(str(number))
        and not re.search(rf"\b{new}\b", sentence.text)
    ]
    for place, new in enumerate(rng.sample(days, min(2, len(days)))):
        written = f"{new}{suffix(new)}" if day.group(2) else str(new)
        changed = Replacement(*day.span(), written)
        months = [name for name in months if _DAYS_OF[name[:3]] >= new]
        if place == 0 and months:
            other_month = Replacement(*month.span(), rng.choice(months))
            first, second = sorted([changed, other_month])
            between = text[first.end : second.start]
            yield Replacement(first.start, second.end, f"{first.new}{between}{second.new}")
        else:
            yield changed


def _other_hour(text: str, rng: random.Random) -> Iterator[Replacement]:
    hour = _HOUR.search(text)
    if hour:
        hours = [str(new) for new in range(1, 13)]
        size = len(hour.group())
        same_size = [new for new in hours if new != hour.group() and len(new) == size]
        yield Replacement(*hour.span(), rng.choice(same_size))


def _other_of_set(sentence: Sentence, entity: Entity, rng: random.Random) -> Iterator[Replacement]:
    """Another weekday, season, part of the day or quarter of the year."""
    if Place.of_characters(sentence, entity.start, entity.end).meets("one of two dates"):
        return
    name = re.sub(r"\A(?:last|next|this|previous|past|coming) ", "", entity.text, flags=re.I)
    start = len(entity.text) - len(name)
    name = name[:-1] if name[:-1] in DAYS else name  # Mondays
    plain = name.replace("-", " ")
    for members in _SETS:
        if plain in members:
            others = [new for new in members if new not in sentence.text and new != plain]
            for new in rng.sample(others, min(2, len(others))):
                written = new.replace(" ", "-") if "-" in name else new
                yield Replacement(start, start + len(name), written)
