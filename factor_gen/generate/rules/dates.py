"""Another date of the same shape: year, month, day, weekday, century, quarter, season."""

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, edit
from factor_gen.generate.rules.numbers import suffix
from factor_gen.generate.rules.sentence import TaggedSentence, overlaps
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import DATE, DAYS, MONTHS, SHORT_MONTHS, TIME, Entity
from lm_factuality.ground.packages import load_yaml


class DatePart(NamedTuple):
    """A part of a date that is a number."""

    name: str
    pattern: str
    alike: str
    """Finds the numbers of the sentence to which a new one stands as the old one does."""
    steps: Sequence[int]
    """How far from the old number the new one may be."""
    least: int
    most: int


_TABLES = load_yaml(__package__, "data/dates.yaml")
_PARTS = [DatePart(**part) for part in _TABLES["parts"]]
_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)}|{'|'.join(SHORT_MONTHS)})\b")
_OFTEN_NO_MONTHS = ("May", "March")
_DAY_NUMBER = re.compile(r"(?<![\d,])\b([12]?\d|3[01])(st|nd|rd|th)?\b(?![\d:])")


def dates(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Change each part of each date and time by itself."""
    for entity in sentence.entities:
        is_titled = overlaps(sentence.titles, entity.start, entity.end)
        if entity.kind not in (DATE, TIME) or is_titled:
            continue
        place = sentence.place_of(entity.start, entity.end, date=[entity.text])
        if place.matches("no date"):
            continue
        changes = [*_other_number(sentence, entity, rng)]
        if not place.matches("one of two dates"):
            changes += _other_of_set(sentence, entity.text, rng)
        together = [*([change] for change in changes), *_other_day(sentence, entity, rng)]
        for replacements in together:
            shifted = [
                (entity.start + start, entity.start + end, new) for start, end, new in replacements
            ]
            yield edit("date", CIRCUMSTANCE, *shifted)


# The steps below find changes of a date, in characters of its own text.


def _other_number(
    sentence: TaggedSentence, entity: Entity, rng: random.Random
) -> Iterator[Replacement]:
    """Another year, decade or century, on the same side of the sentence's others.

    One is before and one after the old, in any order, and `Sentence.spare` more may be either.
    """
    for part in _PARTS:
        match = re.search(part.pattern, entity.text)
        if match is None:
            continue
        start, end = match.span()
        place = sentence.place_of(entity.start + start, entity.start + end, part=[part.name])
        if place.matches("no year"):
            return
        old = match.group()
        value = _number(old)
        alike = re.finditer(part.alike, sentence.text)
        others = {_number(other.group()) for other in alike} - {value}
        scale = 1
        if part.name == "era" and value % 10 == 0:
            scale = 10 if value % 100 else 100  # as round as it
        near = []
        for new in (value + step * scale for step in part.steps):
            is_in_order = all((new < other) == (value < other) for other in others)
            if part.least <= new <= part.most and new not in others and is_in_order:
                near.append(new)
        before = [new for new in near if new < value]
        after = [new for new in near if new > value]
        numbers = [rng.choice(side) for side in rng.sample((before, after), 2) if side]
        rest = [new for new in near if new not in numbers]
        for new in (*numbers, *rng.sample(rest, min(sentence.spare, len(rest)))):
            written = f"{new:,}" if "," in old else str(new)
            yield Replacement(start, end, written + (suffix(new) if old[-1].isalpha() else ""))
        return


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def _other_day(
    sentence: TaggedSentence, entity: Entity, rng: random.Random
) -> Iterator[list[Replacement]]:
    """Another month, another day of the month, and both at once."""
    month, day = _MONTH.search(entity.text), _DAY_NUMBER.search(entity.text)
    if not month or sentence.text[: entity.start].rstrip(", ").endswith(tuple(DAYS)):
        return  # With its weekday before it, the date would no longer be that day.
    number = int(day[1]) if day else 1
    days_of = _TABLES["days"]
    months: list[str] = []
    if month.group() not in _OFTEN_NO_MONTHS:
        used = {*_MONTH.findall(sentence.text), "Sept", "Sep"}
        names = MONTHS if month.group() in MONTHS else SHORT_MONTHS
        months = [name for name in names if name not in used and days_of[name[:3]] >= number]
    for name in sentence.some(rng, months):
        yield [Replacement(*month.span(), name)]
    if not day:
        return
    days = []
    for new in range(max(1, number - 9), min(days_of[month.group()[:3]], number + 9) + 1):
        is_used = new == number or re.search(rf"\b{new}\b", sentence.text)
        if not is_used and len(str(new)) == len(day[1]):
            days.append(new)
    for new in rng.sample(days, min(2, len(days))):
        changes = [Replacement(*day.span(), f"{new}{suffix(new)}" if day[2] else str(new))]
        months = [name for name in months if days_of[name[:3]] >= new]
        if months:
            changes.append(Replacement(*month.span(), rng.choice(months)))
            months = []
        yield changes


def _other_of_set(sentence: TaggedSentence, text: str, rng: random.Random) -> Iterator[Replacement]:
    """Another weekday, season, part of the day or quarter of the year."""
    for members in _TABLES["sets"]:
        pattern = rf"(?i:last |next |this |previous |past |coming )?({'|'.join(members)})s?"
        match = re.fullmatch(pattern, text.replace("-", " "))
        if match is None:
            continue
        others = [new for new in members if new not in sentence.text]
        for new in rng.sample(others, min(2, len(others))):
            yield Replacement(*match.span(1), new.replace(" ", "-") if "-" in text else new)
