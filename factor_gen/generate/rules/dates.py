"""The operator that changes dates: years, months, days, weekdays, centuries and seasons.

The lists of ``dates.yaml`` say which parts of a date are changed, and to what.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit, sample_up_to
from factor_gen.generate.rules.numbers import keeps_order, ordinal_suffix
from factor_gen.generate.rules.sentence import Span, TaggedSentence
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import DATE, DAYS, MONTHS, SHORT_MONTHS, TIME, Entity
from lm_factuality.ground.packages import load_yaml


class DatePart(NamedTuple):
    """A part of a date that is a number, as ``dates.yaml`` lists it."""

    name: str
    """The name of the part, such as ``year``."""
    pattern: str
    """A regular expression that finds the number in a date."""
    same_kind: str
    """A regular expression that finds all numbers of this kind in a text, such as all years."""
    steps: Sequence[int]
    """The differences between a new number and the old one, such as -4 to 4 years."""
    least: int
    """The smallest new number."""
    most: int
    """The largest new number."""


_LISTS = load_yaml(__package__, "data/dates.yaml")
_PARTS = [DatePart(same_kind=part.pop("alike"), **part) for part in _LISTS["parts"]]
_CALENDAR_WORDS: Sequence[Sequence[str]] = _LISTS["sets"]  # such as the weekdays
_BEFORE_CALENDAR_WORD = "(?i:last |next |this |previous |past |coming )?"
_LAST_DAYS: Mapping[str, int] = _LISTS["days"]
_LONGEST_SHORT_NAME = 3  # characters of a month's name in _LAST_DAYS
_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)}|{'|'.join(SHORT_MONTHS)})\b")
_AMBIGUOUS_MONTHS = ("May", "March")  # They may also be a verb and a name.
_DAY_NUMBER = re.compile(r"(?<![\d,])\b([12]?\d|3[01])(st|nd|rd|th)?\b(?![\d:])")
_MOST_DAYS_AWAY = 9
_USUAL_VALUES = 2
_date_edit = partial(make_edit, "date", CIRCUMSTANCE)


def change_dates(sentence: TaggedSentence, rng: Random) -> Iterator[SentenceEdit]:
    """Change the parts of each date in a sentence.

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
        if entity.kind not in (DATE, TIME) or sentence.is_in_title(entity):
            continue
        context = sentence.context_of_characters(
            entity.start, entity.end, facts={"date": [entity.text]}
        )
        # The table "no date" of conditions.yaml has dates whose change may contradict nothing. For
        # instance, a shop that is open "since 1983" is also open "since 1985".
        if context.matches("no date"):
            continue

        yield from _change_number(sentence, entity, rng)
        # The table "one of two dates" has dates such as "Monday and Tuesday". They must not be
        # changed one by one.
        if not context.matches("one of two dates"):
            yield from _change_calendar_word(sentence, entity, rng)
        yield from _change_month_and_day(sentence, entity, rng)


def _change_number(sentence: TaggedSentence, date: Entity, rng: Random) -> Iterator[SentenceEdit]:
    """Change the decade, era, year or century of a date: ``1921`` becomes ``1923``.

    Args:
        sentence: The sentence to edit.
        date: The date in it.
        rng: The random numbers to draw with.
    """
    found_part = _find_numbered_part(date.text)
    if found_part is None:
        return
    part, match = found_part
    span = _span_in_sentence(date, match.span())
    # The table "no year" of conditions.yaml rules out the year of a citation, as in "Adams (1972)".
    context = sentence.context_of_characters(*span, facts={"part": [part.name]})
    if context.matches("no year"):
        return
    old = match.group()
    for number in _draw_earlier_and_later(sentence, part, _digits_of(old), rng):
        yield _date_edit(Replacement(*span, _write_like(old, number)))


def _find_numbered_part(date: str) -> tuple[DatePart, re.Match[str]] | None:
    """Find the part of a date that is a number, and where it is; None if there is none.

    Of several parts, it is the first of the list: *the 1980s* has a decade, and no year.
    """
    for part in _PARTS:
        match = re.search(part.pattern, date)
        if match:
            return part, match
    return None


def _write_like(old: str, number: int) -> str:
    """Write a number in the form of another one.

    Example:
        2,000 becomes ``2,000`` like ``10,500``, and 21 becomes ``21st`` like ``19th``.
    """
    digits = f"{number:,}" if "," in old else str(number)
    suffix = ordinal_suffix(number) if old[-1].isalpha() else ""
    return digits + suffix


def _draw_earlier_and_later(
    sentence: TaggedSentence, part: DatePart, value: int, rng: Random
) -> list[int]:
    """Draw an earlier and a later number for a part of a date, in a random order.

    Args:
        sentence: The sentence. Its `extra_values` is how many further numbers are drawn.
        part: The part of the date, such as its year.
        value: The number that the date has.
        rng: The random numbers to draw with.

    Returns:
        The numbers. The earlier or the later one is missing if none is possible.
    """
    possible = _possible_numbers(sentence.text_with_prefix, part, value)
    earlier = [number for number in possible if number < value]
    later = [number for number in possible if number > value]
    drawn = []
    # Chance decides which of the two comes first.
    for numbers in rng.sample([earlier, later], 2):
        if numbers:
            drawn.append(rng.choice(numbers))
    # Further numbers are drawn if little else of the sentence can be edited.
    remaining = [number for number in possible if number not in drawn]
    return drawn + sample_up_to(rng, remaining, sentence.extra_values)


def _possible_numbers(text: str, part: DatePart, value: int) -> list[int]:
    """List the numbers that may replace the number of a date, such as years near its year.

    The numbers of a text keep their order: in *from 1931 to 1934*, 1931 may become 1933, but
    neither 1934 nor 1935. A number that the text has twice is not replaced, because a reader would
    see that one of them is wrong.

    Args:
        text: The sentence with the text before it.
        part: The part of the date, such as its year.
        value: The number of the date.
    """
    numbers_in_text = [_digits_of(match.group()) for match in re.finditer(part.same_kind, text)]
    if numbers_in_text.count(value) > 1:
        return []
    other_numbers = set(numbers_in_text) - {value}

    step_size = _years_of_step(value) if part.name == "era" else 1
    new_numbers = [value + step * step_size for step in part.steps]
    # If the text has "the 1980s", 1981 may become 1983, but not 1979.
    decade = value // 10
    if part.name == "year" and f"{decade}0s" in text:
        new_numbers = [number for number in new_numbers if number // 10 == decade]
    return [
        number
        for number in new_numbers
        if part.least <= number <= part.most and keeps_order(value, number, other_numbers)
    ]


def _years_of_step(year: int) -> int:
    """Return by how many years a year of an era moves, so that a round year stays round.

    Example:
        100 for *500 BC*, 10 for *480 BC*, and 1 for *44 BC*.
    """
    return next(unit for unit in (100, 10, 1) if year % unit == 0)


def _digits_of(text: str) -> int:
    """Read the digits of a text as one number: 19 for ``19th``."""
    return int(re.sub(r"\D", "", text))


def _change_calendar_word(
    sentence: TaggedSentence, date: Entity, rng: Random
) -> Iterator[SentenceEdit]:
    """Change a weekday, season, part of the day or quarter: *Monday* becomes *Thursday*.

    Args:
        sentence: The sentence to edit.
        date: The date in it, which may begin with a word such as *last*.
        rng: The random numbers to draw with.

    Yields:
        At most two edits. Each puts a word into the sentence that the sentence does not have yet.
    """
    # "Third-quarter" is listed as "third quarter".
    date_text = date.text.replace("-", " ")
    for words in _CALENDAR_WORDS:
        any_word = "|".join(words)
        match = re.fullmatch(rf"{_BEFORE_CALENDAR_WORD}({any_word})s?", date_text)
        if match is None:
            continue
        # If the text before has such a word too, the new one may be at odds with it.
        if re.search(rf"\b(?:{any_word})\b", sentence.prefix_end):
            continue
        span = _span_in_sentence(date, match.span(1))
        # "Monday and Tuesday" must not become "Tuesday and Tuesday".
        new_words = [word for word in words if word not in sentence.text]
        for word in sample_up_to(rng, new_words, _USUAL_VALUES):
            # "Third-quarter" becomes "first-quarter", again with its hyphen.
            new = word.replace(" ", "-") if "-" in date.text else word
            yield _date_edit(Replacement(*span, new))


def _change_month_and_day(
    sentence: TaggedSentence, date: Entity, rng: Random
) -> Iterator[SentenceEdit]:
    """Change the month of a date, the day, or both: *July 14* becomes *June 16*.

    Args:
        sentence: The sentence to edit.
        date: The date in it.
        rng: The random numbers to draw with.

    Yields:
        Edits of the month, then one edit of the day and the month, then one edit of the day.
    """
    month = _find_changeable_month(sentence, date)
    if month is None:
        return
    day = _DAY_NUMBER.search(date.text)
    # A date without a day, such as "May 1985", may be in any month, since each has a first day.
    new_months = _possible_months(sentence, month.group(), day=int(day[1]) if day else 1)
    month_span = _span_in_sentence(date, month.span())
    for new_month in sample_up_to(rng, new_months, 1 + sentence.extra_values):
        yield _date_edit(Replacement(*month_span, new_month))
    if day is None:
        return

    day_span = _span_in_sentence(date, day.span())
    new_days = _possible_days(sentence, month.group(), day[1])
    should_change_month = True
    for new_day in sample_up_to(rng, new_days, _USUAL_VALUES):
        # "3rd" becomes "5th", and "3" becomes "5".
        replacements = [Replacement(*day_span, _write_like(day.group(), new_day))]
        months_with_day = [name for name in new_months if _last_day(name) >= new_day]
        if should_change_month and months_with_day:
            replacements.append(Replacement(*month_span, rng.choice(months_with_day)))
        should_change_month = False
        yield _date_edit(*replacements)


def _find_changeable_month(sentence: TaggedSentence, date: Entity) -> re.Match[str] | None:
    """Find the month in a date. None if there is none, or if it has to stay the same.

    Args:
        sentence: The sentence.
        date: The date in it.
    """
    # With its weekday before it, a changed date would no longer be on that day.
    has_weekday = sentence.text[: date.start].rstrip(", ").endswith(tuple(DAYS))
    month = _MONTH.search(date.text)
    if month is None or has_weekday:
        return None
    # If the text mentions the month twice, as "Dec. 21" and "December", a reader would see that one
    # of them is wrong.
    short_name = month.group()[:_LONGEST_SHORT_NAME]
    num_mentions = len(re.findall(rf"\b{short_name}", sentence.text_with_prefix))
    return month if num_mentions <= 1 else None


def _possible_months(sentence: TaggedSentence, month: str, day: int) -> list[str]:
    """List the months that may replace the month of a date.

    Args:
        sentence: The sentence. Months that it mentions are left out.
        month: The name of the month, in full or short.
        day: The day of the date, which the new month must have.

    Returns:
        The names, in full if the old one is. There are none for *May* and *March*, which may be
        verbs, and *March* also a name.
    """
    if month in _AMBIGUOUS_MONTHS:
        return []
    # The short names of September are never chosen, because there are two.
    used = {*_MONTH.findall(sentence.text), "Sept", "Sep"}
    names = MONTHS if month in MONTHS else SHORT_MONTHS
    return [name for name in names if name not in used and _last_day(name) >= day]


def _possible_days(sentence: TaggedSentence, month: str, day: str) -> list[int]:
    """List the days of the same month that may replace the day of a date.

    Args:
        sentence: The sentence. Numbers that it has are left out.
        month: The name of the month, in full or short.
        day: The day in digits. A new day has as many digits, and is at most nine days away.
    """
    old_day = int(day)
    first = max(1, old_day - _MOST_DAYS_AWAY)
    last = min(_last_day(month), old_day + _MOST_DAYS_AWAY)
    # "May 3 and May 5" must not become "May 5 and May 5".
    used_numbers = {day, *re.findall(r"\b\d+\b", sentence.text)}
    nearby_days = set(map(str, range(first, last + 1)))
    return sorted(int(new) for new in nearby_days - used_numbers if len(new) == len(day))


def _last_day(month: str) -> int:
    """Return the last day of a month, 28 for February."""
    return _LAST_DAYS[month[:_LONGEST_SHORT_NAME]]


def _span_in_sentence(date: Entity, span: tuple[int, int]) -> Span:
    """Return the characters of the sentence for characters of a date in it."""
    start, end = span
    return Span(date.start + start, date.start + end)
