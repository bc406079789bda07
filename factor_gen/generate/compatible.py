"""Edits that contradict nothing, because the sentence may be true before and after them.

Both generators leave these out, since a word list, a language model or an NLI model takes many of
them for contradictions: *over 200* and *over 300*, *in Wales* and *in Britain*.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from factor_gen.text.analysis import CARDINALS, TENS
from factor_gen.text.conditions import Tables, TokenContext
from factor_gen.text.lists import WORDS, read_rows
from factor_gen.text.names import NATIONALITIES, aliases, countries, geonames

DATA = Path(__file__).parent / "data"

COMPATIBLE_REASONS = (
    "part of a name or reference",
    "a pronoun that means nobody in particular",
    "quantities that may both hold",
    "a time within the other",
    "times that may both hold",
    "a place within the other, or the same",
)
"""Why a sentence may be true both before and after an edit.

Each reason is the name of a table of ``compatible.yaml``. The first one that matches counts.
"""

_NUMBER = rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join((*CARDINALS, *TENS))})\b"
_QUANTITY = re.compile(rf"(?<![\w.])[$€£¥]?({_NUMBER})", re.IGNORECASE)
_VALUES = {word: float(value) for value, word in enumerate(CARDINALS, 1)}
_VALUES |= {word: 10.0 * value for value, word in enumerate(TENS, 2)}
_DATE_PARTS = {name: re.compile(pattern) for name, pattern in read_rows(DATA / "dates.tsv")}
_NEAR = 60  # characters on either side of an edit
_QUANTITY_NEAR = 40  # characters around a quantity in which it or its comparator stands
_ALMOST_ZERO = 1e-9  # stands for 0, of which a factor makes no range


class TextChange(NamedTuple):
    """An edit of a sentence: ``new`` in the place of ``old``."""

    before: str
    """The text before the edited words."""
    old: str
    new: str
    after: str
    """The text after the edited words."""


class Comparator(NamedTuple):
    """Words beside a quantity that make it a range, such as *over* or *or more*."""

    is_before: bool
    """Whether the words stand before the quantity and not after it."""
    pattern: re.Pattern[str]
    least_factor: float
    """The least value of the range, as a multiple of the quantity."""
    most_factor: float
    """The greatest value of the range, as a multiple of the quantity."""


class ValueRange(NamedTuple):
    """The values that a quantity may have: 200 to infinity for *over 200*."""

    least: float
    most: float

    @property
    def is_exact(self) -> bool:
        """Whether the quantity has one value, as without a comparator."""
        return self.least == self.most


def _read_comparators() -> list[Comparator]:
    """Read the list ``comparators.tsv``."""
    comparators = []
    for position, words, least, most in read_rows(DATA / "comparators.tsv"):
        is_before = position == "before"
        expression = rf"(?<!\w)(?:{words})\s*$" if is_before else words
        pattern = re.compile(expression, re.IGNORECASE)
        comparators.append(Comparator(is_before, pattern, float(least), float(most)))
    return comparators


_COMPARATORS = _read_comparators()


def compatible_reason(text: str, start: int, end: int, new: str) -> str | None:
    """Tell why a sentence may be true both before and after an edit.

    Args:
        text: The sentence before the edit.
        start: Where the edited words start.
        end: Where they end.
        new: The words that replace ``text[start:end]``.

    Returns:
        One of `COMPATIBLE_REASONS`; None if nothing says that both may be true.
    """
    change = TextChange(text[:start], text[start:end], new, text[end:])
    # The features that the tables of compatible.yaml ask for.
    facts = {
        "old": [change.old],
        "new": [new],
        "before": [change.before[-_NEAR:]],
        "after": [change.after[:_NEAR]],
        "all before": [change.before],
    }
    # The tables look at these texts alone, and at no tokens.
    context = TokenContext(change, _TABLES, 0, 0, facts)
    # Each reason is the name of a table of compatible.yaml.
    for reason in COMPATIBLE_REASONS:
        if context.matches(reason):
            return reason
    return None


def _quantities_overlap(change: TextChange) -> bool:
    """Whether one quantity satisfies both texts: 350 is *over 200* and *over 300*.

    Args:
        change: An edit of a number, or of a comparator such as *over*.

    Returns:
        Whether the ranges before and after the edit differ and have a value in common.
    """
    has_comparator = any(
        comparator.is_before and comparator.pattern.search(change.old)
        for comparator in _COMPARATORS
    )
    # The edit is of other words.
    if not has_comparator and not _QUANTITY.search(f"{change.old} {change.new}"):
        return False
    old_range = _value_range(change.before, change.old + change.after)
    new_range = _value_range(change.before, change.new + change.after)
    if old_range is None or new_range is None or old_range == new_range:
        return False

    least = max(old_range.least, new_range.least)
    most = min(old_range.most, new_range.most)
    # 200 itself is "up to 200", but "over 200" and "under 200" have no value in common.
    is_one_exact = old_range.is_exact or new_range.is_exact
    return least < most or (least == most and is_one_exact)


def _value_range(before: str, after: str) -> ValueRange | None:
    """Find the quantity at a position of a text, and the values that it may have.

    Example:
        ``_value_range("sold over ", "200 boats")`` is from 200 to infinity.

    Args:
        before: The text before the position.
        after: The text after it, which begins with the quantity or has it soon.

    Returns:
        The range; None if there is no quantity.
    """
    position = len(before)
    text = before + after
    quantity = _QUANTITY.search(text, max(0, position - 1), position + _QUANTITY_NEAR)
    if quantity is None:
        return None
    # The number is in digits or in words.
    number = quantity.group(1).lower()
    is_in_words = number in _VALUES
    value = _VALUES[number] if is_in_words else float(number.replace(",", ""))
    value = value or _ALMOST_ZERO

    # A comparator such as "over" stands right before the quantity, and "or more" right after it.
    text_before = text[max(0, quantity.start() - _QUANTITY_NEAR) : quantity.start()]
    for comparator in _COMPARATORS:
        if comparator.is_before:
            match = comparator.pattern.search(text_before)
        else:
            match = comparator.pattern.match(text, quantity.end())
        if match:
            return ValueRange(value * comparator.least_factor, value * comparator.most_factor)
    return ValueRange(value, value)


def _dates_agree(change: TextChange) -> bool:
    """Whether one date lies within the other, as *May 1985* within *the 1980s*.

    Args:
        change: An edit of a date.

    Returns:
        Whether the dates are equal in each part that both state.
    """
    old_parts = _parts_of_date(change.old)
    new_parts = _parts_of_date(change.new)
    # The edit is not of a date.
    if not old_parts or not new_parts:
        return False
    common_parts = old_parts.keys() & new_parts.keys()
    return all(old_parts[part] == new_parts[part] for part in common_parts)


def _parts_of_date(date: str) -> dict[str, str]:
    """Read the parts that a date states or implies.

    Example:
        *May 1985* has the month ``May``, the year ``1985``, the decade ``198`` and the century
        ``20``.

    Args:
        date: The text of a date.

    Returns:
        The parts by name, such as ``year``; none if the text is no date.
    """
    parts = {}
    for name, pattern in _DATE_PARTS.items():
        match = pattern.search(date)
        if match:
            parts[name] = match.group(1)
    # A number without a month is no day.
    if "month" not in parts:
        parts.pop("day", None)
    # 1985 is in the decade 198, which is in the 20th century.
    if "year" in parts:
        parts["decade"] = parts["year"][:3]
    if "decade" in parts:
        parts["century"] = str(int(parts["decade"][:2]) + 1)
    return parts


def is_within(part: str, whole: str) -> bool:
    """Whether a place lies within another one, or is the same.

    Example:
        *Houston* is within *Texas* and within *America*, and *Spanish* within *Europe*.

    Args:
        part: The name of a place, or a nationality, which stands for its country.
        whole: The name of the place that may be larger.
    """
    names = _names_of_place(part)
    regions = _regions_of(names)
    # A city is in a country, which is in a continent.
    larger_regions = _regions_of(regions)
    return not _names_of_place(whole).isdisjoint(names | regions | larger_regions)


def _names_of_place(name: str) -> frozenset[str]:
    """Return a place with its aliases, or the country of a nationality: *Kyiv* and *Kiev*."""
    country = NATIONALITIES.get(name) or name
    place = country.removeprefix("the ")
    return frozenset({place}).union(aliases().get(place, ()))


def _regions_of(places: Iterable[str]) -> set[str]:
    """Return the larger places that contain one of some places directly."""
    regions: set[str] = set()
    for place in places:
        regions.update(_regions_by_place().get(place, ()))
    return regions


@cache
def _regions_by_place() -> Mapping[str, set[str]]:
    """Collect the larger places that contain each place directly.

    Returns:
        The larger places by name: *Texas* and *United States* for *Houston*.
    """
    regions: dict[str, set[str]] = defaultdict(set)
    listed_regions = read_rows(DATA / "regions.tsv")
    # The lines that begin with a code, such as "EU", name a continent.
    continents = {line[0]: line[1] for line in listed_regions if len(line[0]) == 2}
    for country, continent_code in countries().items():
        # The list has no name for the continent Antarctica.
        if continent_code in continents:
            regions[country].add(continents[continent_code])

    for state in geonames().get_us_states().values():
        # Georgia is a country too, which comes first.
        if state["name"] not in regions:
            regions[state["name"]].add("United States")
    for line in listed_regions:
        for member in line[1:]:
            regions[member].add(line[0])
    for city, region in _regions_of_cities():
        regions[city].add(region)
    return dict(regions)


def _regions_of_cities() -> Iterator[tuple[str, str]]:
    """Find the country of each city, and the state of each city of the United States.

    Yields:
        The name of a city and of one place in which it lies.
    """
    nations = {nation["iso"]: nation["name"] for nation in geonames().get_countries().values()}
    states = geonames().get_us_states()
    for city in geonames().get_cities().values():
        # Singapore is a country too.
        if city["name"] in countries():
            continue
        country_code = city["countrycode"]
        if country_code in nations:
            yield city["name"], nations[country_code]
        if country_code == "US" and city["admin1code"] in states:
            yield city["name"], states[city["admin1code"]]["name"]


_TABLES = Tables(
    __package__,
    "data/compatible.yaml",
    {**WORDS, "number": frozenset([_NUMBER])},
    {
        "open quantities": lambda context: (_quantities_overlap(context.sentence),),
        "time within": lambda context: (_dates_agree(context.sentence),),
        "place within": lambda context: (
            is_within(context.sentence.old, context.sentence.new),
            is_within(context.sentence.new, context.sentence.old),
        ),
    },
)
