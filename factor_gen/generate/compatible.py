"""Changes after which both sentences may be true.

They are no contradictions, whatever a word list or a model says. These are what a comparator leaves
open (*over 200*, *over 300*), a time or place within the other (a day in its month, Wales in
Britain), a pronoun that means nobody in particular, and a number or day that is part of a name. An
NLI model passes many of these.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from factor_gen.text.analysis import CARDINALS, TENS
from factor_gen.text.conditions import Tables, TokenContext
from factor_gen.text.lists import WORDS, rows
from factor_gen.text.names import NATIONALITIES, aliases, countries, geonames

DATA = Path(__file__).parent / "data"
REASONS = (
    "part of a name or reference",
    "a pronoun that means nobody in particular",
    "quantities that may both hold",
    "a time within the other",
    "times that may both hold",
    "a place within the other, or the same",
)
"""Each is a table of ``compatible.yaml``, in the order in which they are asked."""

_NUMBER = rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join((*CARDINALS, *TENS))})\b"
_QUANTITY = re.compile(rf"(?<![\w.])[$€£¥]?({_NUMBER})", re.IGNORECASE)
_VALUES = {word: float(value) for value, word in enumerate(CARDINALS, 1)}
_VALUES |= {word: 10.0 * value for value, word in enumerate(TENS, 2)}
_PARTS_OF_DATES = {name: re.compile(shape) for name, shape in rows(DATA / "dates.tsv")}
_NEAR = 60  # characters on either side of a change
_SMALLEST = 1e-9  # in the place of 0, which no factor makes more or less


def _comparator(place: str, words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{words})\s*$" if place == "before" else words, re.IGNORECASE)


# Where a comparator stands, its words, and from and up to which part of the number it is open.
_COMPARATORS = [
    (place, _comparator(place, words), float(least), float(most))
    for place, words, least, most in rows(DATA / "comparators.tsv")
]


class TextChange(NamedTuple):
    """``new`` in place of ``old``, which stands between two other texts."""

    before: str
    old: str
    new: str
    after: str


def compatible(text: str, start: int, end: int, new: str) -> str | None:
    """Why a change need not contradict the text.

    Args:
        new: What stands in place of ``text[start:end]``.

    Returns:
        One of `REASONS`; None if nothing says so.
    """
    change = TextChange(text[:start], text[start:end], new, text[end:])
    facts = {
        "old": [change.old],
        "new": [new],
        "before": [change.before[-_NEAR:]],
        "after": [change.after[:_NEAR]],
        "all before": [change.before],
    }
    context = TokenContext(change, _TABLES, 0, 0, facts)
    return next((reason for reason in REASONS if context.matches(reason)), None)


def _open_quantities(change: TextChange) -> bool:
    """Whether some quantity fits both; see `compatible.yaml` for the bounds of a range."""
    is_comparator = any(
        place == "before" and words.search(change.old) for place, words, *_ in _COMPARATORS
    )
    if not is_comparator and not _QUANTITY.search(f"{change.old} {change.new}"):
        return False
    old, new = (_range(change.before, written + change.after) for written in change[1:3])
    if old is None or new is None or old == new:
        return False
    least, most = max(old[0], new[0]), min(old[1], new[1])
    is_one_number = old[0] == old[1] or new[0] == new[1]
    return least < most or (least == most and is_one_number)


def _range(before: str, after: str) -> tuple[float, float] | None:
    """The least and the most that the quantity that begins or soon follows may be."""
    start, text = len(before), before + after
    quantity = _QUANTITY.search(text, max(0, start - 1), start + 40)
    if quantity is None:
        return None
    written = quantity.group(1).lower()
    value = _VALUES.get(written) or float(written.replace(",", "")) or _SMALLEST
    for place, words, least, most in _COMPARATORS:
        if place == "before":
            is_there = words.search(text[max(0, quantity.start() - 40) : quantity.start()])
        else:
            is_there = words.match(text, quantity.end())
        if is_there:
            return value * least, value * most
    return value, value


def _time_within(change: TextChange) -> bool:
    """Whether all that both dates state is the same, so that one is within the other."""
    old, new = _stated(change.old), _stated(change.new)
    both = old.keys() & new.keys()
    return bool(old and new) and all(old[part] == new[part] for part in both)


def _stated(date: str) -> dict[str, str]:
    """The parts of a date, as far as it states them."""
    parts = {}
    for name, shape in _PARTS_OF_DATES.items():
        match = shape.search(date)
        if match:
            parts[name] = match.group(1)
    if "month" not in parts:
        parts.pop("day", None)
    if "year" in parts:
        parts["decade"] = parts["year"][:3]
    if "decade" in parts:
        parts["century"] = str(int(parts["decade"][:2]) + 1)
    return parts


@cache
def _regions() -> Mapping[str, frozenset[str]]:
    """The larger places that each place is in."""
    listed = rows(DATA / "regions.tsv")
    continents = {code: name for code, name, *_ in listed if len(code) == 2}
    regions = {name: {continents.get(code, "")} for name, code in countries().items()}
    states = {code: state["name"] for code, state in geonames().get_us_states().items()}
    for state in states.values():
        regions.setdefault(state, {"United States"})
    for whole, *members in listed:
        for member in members:
            regions.setdefault(member, set()).add(whole)
    nations = {nation["iso"]: nation["name"] for nation in geonames().get_countries().values()}
    for city in geonames().get_cities().values():
        if city["name"] not in countries():
            country = city["countrycode"]
            state = states.get(city["admin1code"], "") if country == "US" else ""
            regions.setdefault(city["name"], set()).update((nations.get(country, ""), state))
    return {name: frozenset(wholes - {""}) for name, wholes in regions.items()}


def is_within(part: str, whole: str) -> bool:
    """Whether a place, or the country of a nationality, is within another or the same."""
    names, names_of_whole = map(_names_of, ([_country_of(part)], [_country_of(whole)]))
    around = _around(names)
    return not names_of_whole.isdisjoint({*names, *around, *_around(around)})


def _country_of(name: str) -> str:
    return (NATIONALITIES.get(name) or name).removeprefix("the ")


def _names_of(places: Iterable[str]) -> set[str]:
    return set(places).union(*(aliases().get(place, ()) for place in places))


def _around(places: Iterable[str]) -> set[str]:
    return set().union(*(_regions().get(place, ()) for place in places))


_TABLES = Tables(
    __package__,
    "data/compatible.yaml",
    {**WORDS, "number": frozenset([_NUMBER])},
    {
        "open quantities": lambda place: (_open_quantities(place.sentence),),
        "time within": lambda place: (_time_within(place.sentence),),
        "place within": lambda place: (
            is_within(place.sentence.old, place.sentence.new),
            is_within(place.sentence.new, place.sentence.old),
        ),
    },
)
