"""Changes after which both sentences may be true: no contradictions, whatever a word list or a
model says.

These are what a comparator leaves open (*over 200*, *over 300*), a time or place within the other
(a day in its month, Wales in Britain), a pronoun that means nobody in particular, and a number or
day that is part of a name. An NLI model passes many of these.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from factor_gen.text.analysis import CARDINALS, DAYS, TENS
from factor_gen.text.lists import rows
from factor_gen.text.names import NATIONALITIES, aliases, countries, geonames

DATA = Path(__file__).parent / "data"
_NUMBER = rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join((*CARDINALS, *TENS))})\b"
_UNITS = "second|minute|hour|day|week|weekend|month|quarter|year|season|decade|century"
_SHAPES = {
    name: re.compile(shape.replace("<units>", _UNITS).replace("<number>", _NUMBER))
    for name, shape in (row[:2] for row in rows(DATA / "shapes.tsv", 2))
}
_PARTS_OF_DATES = ("day", "weekday", "month", "year", "decade", "century")
_QUANTITY = re.compile(rf"(?<![\w.])[$€£¥]?({_NUMBER})", re.IGNORECASE)
_VALUES = {word: float(value) for value, word in enumerate(CARDINALS, 1)}
_VALUES |= {word: 10.0 * value for value, word in enumerate(TENS, 2)}
_NEAR = 60  # characters on either side of a change
_SMALLEST = 1e-9  # in the place of 0, which no factor makes more or less


def _comparator(place: str, words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{words})\s*$" if place == "before" else words, re.IGNORECASE)


# Where a comparator stands, its words, and from and up to which part of the number it is open.
_COMPARATORS = [
    (place, _comparator(place, words), float(least), float(most))
    for place, words, least, most in rows(DATA / "comparators.tsv", 4)
]


class _Change(NamedTuple):
    text: str
    start: int
    old: str
    new: str

    @property
    def before(self) -> str:
        """What stands near before the change."""
        return self.text[max(0, self.start - _NEAR) : self.start]

    @property
    def after(self) -> str:
        """What stands near after the change."""
        end = self.start + len(self.old)
        return self.text[end : end + _NEAR]


def compatible(text: str, start: int, end: int, new: str) -> str | None:
    """Why a change need not contradict the text.

    Args:
        new: What stands in place of ``text[start:end]``.

    Returns:
        A key of `REASONS`; None if nothing says so.
    """
    change = _Change(text, start, text[start:end], new)
    return next((reason for reason, holds in REASONS.items() if holds(change)), None)


def _open_quantities(change: _Change) -> bool:
    """Whether some quantity fits both.

    If one bound of a range moves, the new range overlaps with the old one.
    """
    if _QUANTITY.match(change.old) and _is_bound(change):
        return True
    is_comparator = any(
        place == "before" and words.search(change.old) for place, words, *_ in _COMPARATORS
    )
    if not is_comparator and not _QUANTITY.search(f"{change.old} {change.new}"):
        return False
    rest = change.text[change.start + len(change.old) :]
    changed = change.text[: change.start] + change.new + rest
    old, new = _range(change.text, change.start), _range(changed, change.start)
    if old is None or new is None or old == new:
        return False
    least, most = max(old[0], new[0]), min(old[1], new[1])
    is_one_number = old[0] == old[1] or new[0] == new[1]
    return least < most or (least == most and is_one_number)


def _is_bound(change: _Change) -> bool:
    """Whether the quantity is a bound of a range; *from 5 to 10* may as well be a change."""
    is_between = re.search(r"\bbetween\s[$€£¥]?$", change.before, re.IGNORECASE)
    shape = _SHAPES["after between" if is_between else "first bound"]
    is_from = re.search(r"\bfrom\s[$€£¥]?$", change.before)
    is_first = shape.match(change.after) and not is_from
    return bool(is_first or _SHAPES["second bound"].search(change.before))


def _range(text: str, start: int) -> tuple[float, float] | None:
    """The least and the most that the quantity at or soon after ``start`` may be."""
    quantity = _QUANTITY.search(text, max(0, start - 1), start + 40)
    if quantity is None:
        return None
    written = quantity.group(1).lower()
    before = text[max(0, quantity.start() - 40) : quantity.start()]
    value = _VALUES.get(written) or float(written.replace(",", "")) or _SMALLEST
    for place, words, least, most in _COMPARATORS:
        is_before = place == "before"
        if words.search(before) if is_before else words.match(text, quantity.end()):
            return value * least, value * most
    return value, value


def _time_within(change: _Change) -> bool:
    """Whether all that both dates state is the same, so that one is within the other."""
    old, new = _stated(change.old), _stated(change.new)
    both = old.keys() & new.keys()
    return bool(old and new) and all(old[part] == new[part] for part in both)


def _stated(date: str) -> dict[str, str]:
    """The parts of a date, as far as it states them."""
    parts = {}
    for name in _PARTS_OF_DATES:
        match = _SHAPES[name].search(date)
        if match:
            parts[name] = match.group(1)
    if "month" not in parts:
        parts.pop("day", None)
    if "year" in parts:
        parts["decade"] = parts["year"][:3]
    if "decade" in parts:
        parts["century"] = str(int(parts["decade"][:2]) + 1)
    return parts


def _vague_times(change: _Change) -> bool:
    """Whether both times may hold.

    *Last week* may be part of *last month*. What fell from a year earlier may have fallen from a
    month earlier too.
    """
    if _both_are("base", change):
        return "-" in change.old or _SHAPES["compared"].search(change.before) is not None
    is_counted = _SHAPES["counted"].search(change.before)
    is_dated = change.after.startswith((" later", " ago", " earlier"))
    return not is_counted and not is_dated and _both_are("spell", change)


def _both_are(shape: str, change: _Change) -> bool:
    return all(_SHAPES[shape].fullmatch(words) for words in (change.old, change.new))


@cache
def _regions() -> Mapping[str, frozenset[str]]:
    """The larger places that each place is in."""
    listed = rows(DATA / "regions.tsv", 2)
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


def _place_within(change: _Change) -> bool:
    """Whether a place, or the country of a nationality, is within the other or the same."""
    old, new = (
        (NATIONALITIES.get(name) or name).removeprefix("the ") for name in (change.old, change.new)
    )
    return new in _names_of([old]) or _is_within(old, new) or _is_within(new, old)


def _is_within(part: str, whole: str) -> bool:
    wholes = _around(_names_of([part]))
    wholes |= _around(wholes)
    return not wholes.isdisjoint(_names_of([whole]))


def _names_of(places: Iterable[str]) -> set[str]:
    return set(places).union(*(aliases().get(place, ()) for place in places))


def _around(places: Iterable[str]) -> set[str]:
    return set().union(*(_regions().get(place, ()) for place in places))


def _nobody(change: _Change) -> bool:
    """Whether a pronoun of a writer who means anybody becomes another.

    In a quotation, somebody in particular speaks.
    """
    for quotation in _SHAPES["quoted"].finditer(change.text):
        if quotation.start() < change.start < quotation.end():
            return False
    return _both_are("anybody", change)


def _part_of_name(change: _Change) -> bool:
    """Whether a number cites or names (*[5]*, *Python 3*), or a day is part of a name."""
    if change.old[:1].isdigit():
        return any(_SHAPES[name].search(change.before) for name in ("cited", "named"))
    return change.old in DAYS and _SHAPES["naming"].search(change.before) is not None


REASONS: Mapping[str, Callable[[_Change], bool]] = {
    "part of a name or reference": _part_of_name,
    "a pronoun that means nobody in particular": _nobody,
    "quantities that may both hold": _open_quantities,
    "a time within the other": _time_within,
    "times that may both hold": _vague_times,
    "a place within the other, or the same": _place_within,
}
"""Each reason and the check that finds it, in the order in which they are asked."""
