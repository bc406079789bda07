"""The operator that changes dates: years, months, days, weekdays, centuries and seasons.

The lists of ``dates.yaml`` say which parts of a date are changed, and to what.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit, sample_up_to
from factor_gen.generate.rules.numbers import ordinal_suffix
from factor_gen.generate.rules.sentence import Span, TaggedSentence, overlaps_any
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import DATE, DAYS, MONTHS, SHORT_MONTHS, TIME, Entity
from lm_factuality.ground.packages import load_yaml


class DatePart(NamedTuple):
    """A part of a date that is a number, as ``dates.yaml`` lists it."""

    name: str
    """The name of the part, such as ``year``."""
    pattern: str
    """A regular expression that finds the number in a date."""
    alike: str
    """A regular expression that finds all numbers of this kind in a sentence."""
    steps: Sequence[int]
    """The differences between a new number and the old one, such as -4 to 4 years."""
    least: int
    """The smallest new number."""
    most: int
    """The largest new number."""


_LISTS = load_yaml(__package__, "data/dates.yaml")
_PARTS = [DatePart(**part) for part in _LISTS["parts"]]
_LAST_DAYS: Mapping[str, int] = _LISTS["days"]
_LONGEST_SHORT_NAME = 3  # characters of a month's name in _LAST_DAYS
_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)}|{'|'.join(SHORT_MONTHS)})\b")
_AMBIGUOUS_MONTHS = ("May", "March")  # They are also a verb and a name.
_DAY_NUMBER = re.compile(r"(?<![\d,])\b([12]?\d|3[01])(st|nd|rd|th)?\b(?![\d:])")
_MOST_DAYS_AWAY = 9
_USUAL_VALUES = 2


def change_dates(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Change the parts of each date: *on May 5, 1985* becomes *on May 7, 1985*.

    Example:
        *It burned in 1921* becomes *It burned in 1923*.
        *It opens on Monday* becomes *It opens on Thursday*.

    Args:
        sentence: The sentence to edit.
        rng: The random numbers that decide on the new dates.

    Yields:
        Edits of one part of a date, or of its month and day together.
    """
    for entity in sentence.entities:
        is_title = overlaps_any(sentence.titles, Span(entity.start, entity.end))
        if entity.kind not in (DATE, TIME) or is_title:
            continue
        context = sentence.context_of_characters(entity.start, entity.end, date=[entity.text])
        # Table "no date" of conditions.yaml: "since 1985" may hold as well as "since 1983".
        if context.matches("no date"):
            continue
        for replacement in _replace_number(sentence, entity, rng):
            yield make_edit("date", CIRCUMSTANCE, replacement)
        # Table "one of two dates": "Monday and Tuesday" are not changed one by one.
        if not context.matches("one of two dates"):
            for replacement in _replace_name(sentence, entity, rng):
                yield make_edit("date", CIRCUMSTANCE, replacement)
        for replacements in _replace_month_and_day(sentence, entity, rng):
            yield make_edit("date", CIRCUMSTANCE, *replacements)


def _replace_number(
    sentence: TaggedSentence, date: Entity, rng: random.Random
) -> Iterator[Replacement]:
    """Replace the year, decade or century of a date: ``1921`` becomes ``1923``.

    Args:
        sentence: The sentence to edit.
        date: The date in it.
        rng: The random numbers to draw with.

    Yields:
        Replacements of the first part of `_PARTS` that the date has.
    """
    for part in _PARTS:
        match = re.search(part.pattern, date.text)
        if match is None:
            continue
        span = _span_in_sentence(date, match.span())
        context = sentence.context_of_characters(*span, part=[part.name])
        # Table "no year" of conditions.yaml: the year of a citation, as in "Adams (1972)".
        if context.matches("no year"):
            return
        old = match.group()
        for number in _draw_numbers(sentence, part, _digits_of(old), rng):
            # "10,500 BC" has a comma, and "19th century" an ending.
            digits = f"{number:,}" if "," in old else str(number)
            suffix = ordinal_suffix(number) if old[-1].isalpha() else ""
            yield Replacement(*span, digits + suffix)
        # A decade such as "the 1980s" is not changed as a year again.
        return


def _draw_numbers(
    sentence: TaggedSentence, part: DatePart, value: int, rng: random.Random
) -> list[int]:
    """Draw new numbers for a part of a date, such as one earlier and one later year.

    Args:
        sentence: The sentence. Its `extra_values` ask for more numbers.
        part: The part of the date.
        value: The number that the date has.
        rng: The random numbers to draw with.

    Returns:
        The numbers. Each is on the same side as the old number of all others of the sentence, so
        that *from 1931 to 1934* stays in order.
    """
    used_numbers = {_digits_of(match.group()) for match in re.finditer(part.alike, sentence.text)}
    used_numbers.discard(value)
    # An era such as "500 BC" is moved by centuries, and "480 BC" by decades.
    unit = 1
    if part.name == "era" and value % 10 == 0:
        unit = 10 if value % 100 else 100

    possible = []
    for step in part.steps:
        number = value + step * unit
        is_in_order = all((number < used) == (value < used) for used in used_numbers)
        if part.least <= number <= part.most and number not in used_numbers and is_in_order:
            possible.append(number)
    earlier = [number for number in possible if number < value]
    later = [number for number in possible if number > value]

    # One number from each side, in a random order.
    drawn = [rng.choice(numbers) for numbers in rng.sample((earlier, later), 2) if numbers]
    remaining = [number for number in possible if number not in drawn]
    return drawn + sample_up_to(rng, remaining, sentence.extra_values)


def _digits_of(text: str) -> int:
    """Read the digits of a text as one number: 19 for ``19th``."""
    return int(re.sub(r"\D", "", text))


def _replace_name(
    sentence: TaggedSentence, date: Entity, rng: random.Random
) -> Iterator[Replacement]:
    """Replace a weekday, season, part of the day or quarter: *Monday* becomes *Thursday*.

    Args:
        sentence: The sentence to edit.
        date: The date in it, which may begin with a word such as *last*.
        rng: The random numbers to draw with.

    Yields:
        Up to two replacements by names that the sentence does not have.
    """
    for names in _LISTS["sets"]:
        pattern = rf"(?i:last |next |this |previous |past |coming )?({'|'.join(names)})s?"
        match = re.fullmatch(pattern, date.text.replace("-", " "))
        if match is None:
            continue
        span = _span_in_sentence(date, match.span(1))
        # A name that the sentence has elsewhere would say the same thing twice.
        other_names = [name for name in names if name not in sentence.text]
        for name in sample_up_to(rng, other_names, _USUAL_VALUES):
            # "third-quarter profit"
            new = name.replace(" ", "-") if "-" in date.text else name
            yield Replacement(*span, new)


def _replace_month_and_day(
    sentence: TaggedSentence, date: Entity, rng: random.Random
) -> Iterator[list[Replacement]]:
    """Replace the month of a date, the day, or both: *July 14* becomes *June 16*.

    Args:
        sentence: The sentence to edit.
        date: The date in it.
        rng: The random numbers to draw with.

    Yields:
        The replacements of one edit. The first edit of the day changes the month as well.
    """
    month = _MONTH.search(date.text)
    day = _DAY_NUMBER.search(date.text)
    # With its weekday before it, a changed date would no longer be on that day.
    has_weekday = sentence.text[: date.start].rstrip(", ").endswith(tuple(DAYS))
    if month is None or has_weekday:
        return
    month_span = _span_in_sentence(date, month.span())
    day_number = int(day[1]) if day else 1
    # The month alone is changed first.
    new_months = _other_months(sentence, month.group(), day_number)
    for new_month in sample_up_to(rng, new_months, 1 + sentence.extra_values):
        yield [Replacement(*month_span, new_month)]
    if day is None:
        return

    # Then the day is changed.
    day_span = _span_in_sentence(date, day.span())
    new_days = _other_days(sentence, month.group(), day[1])
    for new_day in sample_up_to(rng, new_days, _USUAL_VALUES):
        suffix = ordinal_suffix(new_day) if day[2] else ""
        replacements = [Replacement(*day_span, f"{new_day}{suffix}")]
        months_with_day = [name for name in new_months if _last_day(name) >= new_day]
        if months_with_day:
            replacements.append(Replacement(*month_span, rng.choice(months_with_day)))
        # The second edit keeps the month.
        new_months = []
        yield replacements


def _other_months(sentence: TaggedSentence, month: str, day: int) -> list[str]:
    """List the months that may replace the month of a date.

    Args:
        sentence: The sentence, of which no other month is taken.
        month: The name of the month, in full or short.
        day: The day of the date, which the new month must have.
    """
    if month in _AMBIGUOUS_MONTHS:
        return []
    # The short names of September are never chosen, because there are two.
    used = {*_MONTH.findall(sentence.text), "Sept", "Sep"}
    names = MONTHS if month in MONTHS else SHORT_MONTHS
    return [name for name in names if name not in used and _last_day(name) >= day]


def _other_days(sentence: TaggedSentence, month: str, day: str) -> list[int]:
    """List the days of the same month that may replace the day of a date.

    Args:
        sentence: The sentence, of which no other number is taken.
        month: The name of the month, in full or short.
        day: The day in digits. A new day has as many digits.
    """
    number = int(day)
    first = max(1, number - _MOST_DAYS_AWAY)
    last = min(_last_day(month), number + _MOST_DAYS_AWAY)
    days = []
    for new_day in range(first, last + 1):
        # A day that the sentence has elsewhere would say the same thing twice.
        is_used = new_day == number or re.search(rf"\b{new_day}\b", sentence.text)
        if not is_used and len(str(new_day)) == len(day):
            days.append(new_day)
    return days


def _last_day(month: str) -> int:
    """Return the last day of a month, 28 for February."""
    return _LAST_DAYS[month[:_LONGEST_SHORT_NAME]]


def _span_in_sentence(date: Entity, span: tuple[int, int]) -> Span:
    """Return the characters of the sentence for characters of a date in it."""
    start, end = span
    return Span(date.start + start, date.start + end)
