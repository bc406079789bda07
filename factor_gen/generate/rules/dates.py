"""Another date of the same shape: year, month, day, weekday, century, quarter, season, hour."""

import random
import re
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.numbers import suffix
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import DATA
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import DATE, DAYS, MONTHS, ORDINALS, SHORT_MONTHS, TIME, Entity
from factor_gen.text.lists import rows

_OPEN = re.compile(
    r"\b(?:by|before|after|until|till|since)\s(?:the\s)?(?:early\s|late\s|mid-)?$", re.IGNORECASE
)  # another may hold too
_YEAR = re.compile(r"(?<!\d[-–/])\b(?:1[0-9]\d\d|20\d\d)\b")
_LEAP_DAY = re.compile(r"\bFeb\w*\.? 29\b|\b29(?:th)? Feb")
_DECADE = re.compile(r"\b(?:1[0-9]|20)\d0(?=s\b)")
_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)}|{'|'.join(SHORT_MONTHS)})\b")
_DAY_NUMBER = re.compile(r"(?<![\d,])\b([12]?\d|3[01])(?=(?:st|nd|rd|th)?\b)(?![\d:])")
_CENTURY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)(?=[\s-]century)")
_NTH = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_HOUR = re.compile(r"\b(1[0-2]|[1-9])(?=(?::\d\d)?\s?(?:a|p)\.?m)")
_LENGTH = {
    month[:3]: days
    for month, days in zip(MONTHS, (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True)
}
_SETS = rows(DATA / "dates.tsv", 2)
_TIMES = {word for members in _SETS for word in members} | {"night", "noon", "day"}
_ERA = r"(?:BCE?|CE|AD|B\.\s?C\.(?:E\.)?|A\.\s?D\.|C\.E\.)"
_IN_ERA = re.compile(rf"(?<![-–/\d])(\d[\d,]*)(?=\s{_ERA}(?!\w))|(?<=AD )\d+|(?<=A\.D\. )\d+")
# The Sunday Times, the December solstice, the 2010 version; not the 5th century BC
_NAMED = re.compile(rf"\s(?:(?!{_ERA}(?!\w))[A-Z]|(?:solstice|equinox|version|edition|release)\b)")
_CITED = re.compile(
    r"\((?:[^()]*[A-Z][^()]*, )?(?:\d{4}[a-z]?, )*$"
)  # Farris (1983), (Adams, 1972, 1986)
_HALF_DAY = {"a.m.": "p.m.", "p.m.": "a.m.", "am": "pm", "pm": "am"}


def dates(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """One change for each date and time that has a part to change."""
    for entity in sentence.entities:
        named = _NAMED.match(sentence.text, entity.end)
        is_open = _OPEN.search(sentence.text[max(0, entity.start - 20) : entity.start])
        is_joined = _DECADE.search(entity.text) and {"and", "or"} & {
            *sentence.text[max(0, entity.start - 9) : entity.end + 9].split()
        }
        is_left = is_open or is_joined  # in the 1960s and 1970s
        if (
            entity.kind in (DATE, TIME)
            and not named
            and not is_left
            and not sentence.in_title(entity.start, entity.end)
        ):
            for start, end, new in _changes(sentence, entity, rng):
                yield edit("date", CIRCUMSTANCE, (entity.start + start, entity.start + end, new))


def _changes(
    sentence: Sentence, entity: Entity, rng: random.Random
) -> Iterator[tuple[int, int, str]]:
    text = entity.text
    # a date with a weekday beside it would no longer be that day
    beside = sentence.text[max(0, entity.start - 14) : entity.start]
    dated = any(beside.rstrip(", ").endswith(day) for day in DAYS)
    decade = _DECADE.search(text)
    in_era = _IN_ERA.search(text)
    year = None if decade or in_era else _YEAR.search(text)
    month = _MONTH.search(text)
    if decade:
        near = [int(decade.group()) + step for step in (-20, -10, 10, 20)]
        for new in sentence.some(rng, [each for each in near if each <= 2010] or near):
            yield decade.start(), decade.end(), str(new)
    if in_era and not re.search(r"\d[-–/]$", sentence.text[: entity.start + in_era.start()]):
        for new in sentence.some(rng, _near_in_era(sentence, in_era.group())):
            yield in_era.start(), in_era.end(), f"{new:,}" if "," in in_era.group() else str(new)
    is_cited = _CITED.search(sentence.text, max(0, entity.start - 120), entity.start)
    is_span = year and re.match(r"[-–/]\d", sentence.text[entity.start + year.end() :])
    if year and not is_span and not is_cited and not _LEAP_DAY.search(text):
        for changed in _other_years(sentence, int(year.group()), rng):
            yield year.start(), year.end(), str(changed)
    if month and not dated:
        yield from _month_or_day(sentence, text, month, rng)
    century = _CENTURY.search(text)
    if century:
        value = int(century.group(1))
        near = [each for each in (value - 2, value - 1, value + 1, value + 2) if 2 <= each <= 21]
        others = [
            int(each.group(1))
            for each in _NTH.finditer(sentence.text)
            if each.group(1) != century.group(1)
        ]
        near = [
            each
            for each in near
            if all((each < other) == (value < other) and each != other for other in others)
        ]
        for new in sentence.some(rng, near):  # none for the 24th, which is of fiction
            yield century.start(), century.end(), f"{new}{suffix(new)}"
    elif text.endswith("century") and text.split()[0] in ORDINALS[1:]:
        word, at = text.split()[0], ORDINALS.index(text.split()[0])
        for other in sentence.some(
            rng, [each for each in ORDINALS[max(1, at - 2) : at + 3] if each not in sentence.words]
        ):
            yield 0, len(word), other
    if entity.kind == TIME:
        yield from _other_hour(text, rng)
    yield from _of_a_set(sentence, entity, rng)


def _near_in_era(sentence: Sentence, old: str) -> list[int]:
    """Years near one before or after the year 1, as round as it, each on the same side of the
    sentence's other such years."""
    year = int(old.replace(",", ""))
    step = 100 if year % 100 == 0 else 10 if year % 10 == 0 else 1
    others = [int(each.group().replace(",", "")) for each in _IN_ERA.finditer(sentence.text)]
    near = [year + step * steps for steps in (-4, -3, -2, -1, 1, 2, 3, 4)]
    return [
        each
        for each in near
        if each > 0 and all((each < other) == (year < other) for other in others if other != year)
    ]


def _other_hour(text: str, rng: random.Random) -> Iterator[tuple[int, int, str]]:
    hour = _HOUR.search(text)
    if hour:
        value = int(hour.group())
        hours = [
            each for each in range(1, 13) if each != value and len(str(each)) == len(str(value))
        ]
        yield hour.start(), hour.end(), str(rng.choice(hours))
        for one, other in _HALF_DAY.items():
            if text.endswith(one):
                yield len(text) - len(one), len(text), other


def _other_years(sentence: Sentence, year: int, rng: random.Random) -> list[int]:
    """A year up to four before and one up to four after, by chance in which order.

    Each stands to the sentence's other years as the old one does."""
    others = [int(each) for each in _YEAR.findall(sentence.text) if int(each) != year]
    new = [year + step for step in (-4, -3, -2, -1, 1, 2, 3, 4)]
    fit = [
        each
        for each in new
        if all((each < other) == (year < other) and each != other for other in others)
    ]
    before, after = [each for each in fit if each < year], [each for each in fit if each > year]
    found = [rng.choice(side) for side in rng.sample((before, after), 2) if side]
    spare = [each for each in fit if each not in found] if sentence.spare else []
    return [*found, *rng.sample(spare, min(2, len(spare)))]


def _month_or_day(
    sentence: Sentence, text: str, month: re.Match[str], rng: random.Random
) -> Iterator[tuple[int, int, str]]:
    day = next((each for each in _DAY_NUMBER.finditer(text) if len(each.group(1)) <= 2), None)
    known = set(_MONTH.findall(sentence.text))
    number = int(day.group(1)) if day else 1
    names = MONTHS if month.group() in MONTHS else SHORT_MONTHS
    fit = [
        each
        for each in names
        if each not in known | {"Sept", "Sep"} and _LENGTH[each[:3]] >= number
    ]
    if month.group() not in ("May", "March") and fit:
        for name in sentence.some(rng, fit):
            yield *month.span(), name
    if day and 1 <= number <= 31:
        following = day.end()
        has_suffix = text[following : following + 2] in ("st", "nd", "rd", "th")
        near = [
            each
            for each in range(max(1, number - 9), min(_LENGTH[month.group()[:3]], number + 9) + 1)
            if each != number
            and len(str(each)) == len(str(number))
            and not re.search(rf"\b{each}\b", sentence.text)
        ]
        for place, new in enumerate(rng.sample(near, min(2, len(near)))):
            end, written = (
                following + (2 if has_suffix else 0),
                f"{new}{suffix(new)}" if has_suffix else str(new),
            )
            fit = [each for each in fit if _LENGTH[each[:3]] >= new]
            if place == 0 and fit and month.group() not in ("May", "March"):  # the whole date
                first, last = sorted(
                    [(day.start(), end, written), (*month.span(), rng.choice(fit))]
                )
                yield first[0], last[1], f"{first[2]}{text[first[1] : last[0]]}{last[2]}"
            else:
                yield day.start(), end, written


def _is_one_of_two(sentence: Sentence, entity: Entity) -> bool:
    """Whether the day or time is joined to another: *Monday and Tuesday*, *night and morning*."""
    after = re.match(r" (?:and|or|to|through) (?:the )?(\w+)", sentence.text[entity.end :])
    before = re.search(r"(\w+) (?:and|or|to|through) (?:on |the )?$", sentence.text[: entity.start])
    return any(found is not None and found.group(1) in _TIMES for found in (after, before))


def _of_a_set(
    sentence: Sentence, entity: Entity, rng: random.Random
) -> Iterator[tuple[int, int, str]]:
    text = entity.text
    first, _, rest = text.partition(" ")
    last = (
        rest or text
        if first.lower() in ("last", "next", "this", "previous", "past", "coming")
        else text
    )
    plain = last[:-1] if last[:-1] in DAYS else last
    name = plain.replace("-", " ")
    if _is_one_of_two(sentence, entity):
        return
    for members in _SETS:
        if name in members:
            others = [each for each in members if each not in sentence.text and each != name]
            for new in rng.sample(others, min(2, len(others))):
                start = len(text) - len(last)
                yield start, start + len(plain), new.replace(" ", "-") if "-" in plain else new
