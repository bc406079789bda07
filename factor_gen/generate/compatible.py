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
_QUANTITY_NEAR = 40  # characters before or after an edit that are searched for a quantity
_ALMOST_ZERO = 1e-9  # stands for 0: all multiples of 0 are equal, so "over 0" would be no range


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

    side: str
    """Where the words stand: ``before`` or ``after`` the quantity."""
    pattern: re.Pattern[str]
    """Finds the words in the text before or after the quantity, right beside it."""
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

    def overlaps(self, second: "ValueRange") -> bool:
        """Whether both ranges have a value in common.

        *Over 200* and *under 200* have none, but 200 itself is *up to 200*.
        """
        least = max(self.least, second.least)
        most = min(self.most, second.most)
        # The end of a range counts only if the other quantity is exactly this value.
        is_one_exact = self.is_exact or second.is_exact
        return least < most or (least == most and is_one_exact)


def _read_comparators() -> list[Comparator]:
    """Read the comparators from ``comparators.tsv``.

    The columns of the list are the side of the quantity on which the words stand, a regular
    expression for the words, and the factors between the quantity and both ends of the range: 1 and
    infinity for *over*.
    """
    comparators = []
    for side, words, least_factor, most_factor in read_rows(DATA / "comparators.tsv"):
        # The words are right beside the quantity, so at the end of the text before it, or at the
        # start of the text after it.
        expression = rf"(?<!\w)(?:{words})\s*$" if side == "before" else rf"\A(?:{words})"
        pattern = re.compile(expression, re.IGNORECASE)
        comparators.append(Comparator(side, pattern, float(least_factor), float(most_factor)))
    return comparators


_COMPARATORS = _read_comparators()


def compatible_reason(text: str, start: int, end: int, new: str) -> str | None:
    """Tell why an edit of a sentence contradicts nothing: the sentence may be true in both forms.

    Example:
        The edit ``200 -> 300`` of *over 200 boats* gives ``quantities that may both hold``.

    Args:
        text: The sentence before the edit.
        start: Where the edited words start.
        end: Where they end.
        new: The words that replace ``text[start:end]``.

    Returns:
        One of `COMPATIBLE_REASONS`; None if nothing says that both may be true.
    """
    change = TextChange(before=text[:start], old=text[start:end], new=new, after=text[end:])
    features = {
        "old": [change.old],
        "new": [new],
        "before": [change.before[-_NEAR:]],
        "after": [change.after[:_NEAR]],
        "all before": [change.before],
    }
    # A context usually selects tokens of a sentence. The tables of compatible.yaml ask only for
    # these texts and for the change itself, so no tokens are selected.
    context = TokenContext(sentence=change, tables=_TABLES, start=0, end=0, facts=features)
    for reason in COMPATIBLE_REASONS:
        if context.matches(reason):
            return reason
    return None


def _quantities_overlap(change: TextChange) -> bool:
    """Whether a sentence may be true before and after an edit of a quantity.

    Example:
        Both *over 200 boats* and *over 300 boats* are true of 350 boats.

    Args:
        change: An edit of a number, or of a comparator before it, such as *over*.

    Returns:
        Whether the ranges before and after the edit differ and have a value in common. False if the
        edit changes no quantity.
    """
    changes_comparator = any(
        comparator.side == "before" and comparator.pattern.search(change.old)
        for comparator in _COMPARATORS
    )
    changes_number = _QUANTITY.search(f"{change.old} {change.new}")
    if not changes_comparator and not changes_number:
        return False

    old_range = _value_range(change.before, change.old + change.after)
    new_range = _value_range(change.before, change.new + change.after)
    if old_range is None or new_range is None:
        return False
    # With equal ranges, other words differ, as in "5 cats" and "5 dogs".
    return old_range != new_range and old_range.overlaps(new_range)


def _value_range(before: str, after: str) -> ValueRange | None:
    """Find the quantity at a position of a text, and the values that it may have.

    Example:
        ``_value_range("sold over ", "200 boats")`` is from 200 to infinity.

    Args:
        before: The text before the position.
        after: The text after it. The quantity is in its first `_QUANTITY_NEAR` characters.

    Returns:
        The range; None if there is no quantity.
    """
    text = before + after
    position = len(before)
    # The character before the position may be a currency sign, which belongs to the quantity.
    quantity = _QUANTITY.search(text, max(0, position - 1), position + _QUANTITY_NEAR)
    if quantity is None:
        return None

    value = _value_of_number(quantity.group(1))
    comparator = _find_comparator(text, quantity)
    if comparator is None:
        return ValueRange(value, value)
    return ValueRange(value * comparator.least_factor, value * comparator.most_factor)


def _value_of_number(number: str) -> float:
    """Read a number in digits or in words: 1200 for ``1,200``, and 2 for ``Two``.

    Returns:
        The value; instead of 0, a value that is almost zero.
    """
    word = number.lower()
    if word in _VALUES:
        return _VALUES[word]
    return float(number.replace(",", "")) or _ALMOST_ZERO


def _find_comparator(text: str, quantity: re.Match[str]) -> Comparator | None:
    """Find the words that make a quantity a range: *over* in *over 200*, *or more* in *5 or more*.

    Args:
        text: The sentence.
        quantity: The match of the quantity in it.

    Returns:
        The first comparator of the list that stands right before or right after the quantity.
    """
    start, end = quantity.span()
    # Only the nearest words matter. The text after the quantity needs no cut, because the patterns
    # match at its beginning alone.
    text_beside = {"before": text[:start][-_QUANTITY_NEAR:], "after": text[end:]}
    for comparator in _COMPARATORS:
        if comparator.pattern.search(text_beside[comparator.side]):
            return comparator
    return None


def _dates_agree(change: TextChange) -> bool:
    """Whether one date lies within the other, as *May 1985* within *the 1980s*.

    Args:
        change: An edit of a date.

    Returns:
        Whether the dates are equal in each part that both state. Dates such as *Monday* and *1985*,
        which have no part in common, agree too. False if one of the texts is no date.
    """
    # "May 1985" and "the 1980s" have the decade in common.
    old_parts = _parts_of_date(change.old)
    new_parts = _parts_of_date(change.new)
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
    for country, continent in _continents_of_countries():
        regions[country].add(continent)
    # So far, only the countries have regions.
    for state in geonames().get_us_states().values():
        # The name of a state and a country, such as Georgia, means the country.
        if state["name"] not in regions:
            regions[state["name"]].add("United States")
    for region, *members in read_rows(DATA / "regions.tsv"):
        for member in members:
            regions[member].add(region)
    for city, region in _regions_of_cities():
        regions[city].add(region)
    return dict(regions)


def _continents_of_countries() -> Iterator[tuple[str, str]]:
    """Find the continent of each country.

    Yields:
        The names of a country and of its continent, such as *France* and *Europe*.
    """
    # Lines such as "EU  Europe" name a continent. All others begin with the name of a region, which
    # is longer than the code of a continent.
    rows = read_rows(DATA / "regions.tsv")
    continents = {row[0]: row[1] for row in rows if len(row[0]) == 2}
    for country, continent_code in countries().items():
        # The list has no name for the continent Antarctica.
        if continent_code in continents:
            yield country, continents[continent_code]


def _regions_of_cities() -> Iterator[tuple[str, str]]:
    """Find the country of each city, and the state of each city of the United States.

    Yields:
        The name of a city and of one place in which it lies.
    """
    countries_by_code = {
        country["iso"]: country["name"] for country in geonames().get_countries().values()
    }
    states_by_code = geonames().get_us_states()
    for city in geonames().get_cities().values():
        name = city["name"]
        # The name of a city and a country, such as Singapore, means the country.
        if name in countries():
            continue
        country = countries_by_code.get(city["countrycode"])
        if country:
            yield name, country
        # The cities of other countries may have the codes of American states.
        state = states_by_code.get(city["admin1code"])
        if country == "United States" and state:
            yield name, state["name"]


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
