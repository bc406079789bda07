"""Changes after which both sentences may be true: no contradictions, whatever a word list or a
model says.

What a comparator leaves open (*over 200*, *over 300*), a time or place within the other (a day in
its month, Wales in Britain), a pronoun that means nobody in particular, a number or day that is
part of a name. An NLI model passes many of these."""

import re
from collections.abc import Callable, Mapping
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
_QUANTITY = re.compile(rf"(?<![\w.])[$€£¥]?({_NUMBER})", re.IGNORECASE)
_WORDS = {word: float(n) for n, word in enumerate(CARDINALS, 1)} | {
    word: 20.0 + 10 * n for n, word in enumerate(TENS)
}
_OPEN = [
    (
        place,
        re.compile(rf"(?<!\w)(?:{words})\s*$" if place == "before" else words, re.IGNORECASE),
        float(least),
        float(most),
    )
    for place, words, least, most in rows(DATA / "comparators.tsv", 4)
]


class _Change(NamedTuple):
    text: str
    start: int
    new: str
    old: str
    before: str  # what stands near it
    after: str


def compatible(text: str, start: int, end: int, new: str) -> str | None:
    """Why ``new`` in place of ``text[start:end]`` need not contradict ``text``: a key of
    ``REASONS``; None if nothing says so."""
    change = _Change(
        text, start, new, text[start:end], text[max(0, start - 60) : start], text[end : end + 60]
    )
    return next((reason for reason, holds in REASONS.items() if holds(change)), None)


def _open_quantities(change: _Change) -> bool:
    """Whether some quantity fits both. Of a range, one bound moves: it overlaps with the old
    one."""
    if _QUANTITY.match(change.old) and _is_bound(change):
        return True
    is_comparator = any(
        place == "before" and words.search(change.old) for place, words, *_ in _OPEN
    )
    if not is_comparator and not _QUANTITY.search(f"{change.old} {change.new}"):
        return False
    changed = (
        change.text[: change.start] + change.new + change.text[change.start + len(change.old) :]
    )
    one, other = (_left_open(text, change.start) for text in (change.text, changed))
    if one is None or other is None or one == other:
        return False
    least, most = max(one[0], other[0]), min(one[1], other[1])
    return least < most or (least == most and (one[0] == one[1] or other[0] == other[1]))


def _is_bound(change: _Change) -> bool:
    """Whether the quantity is a bound of a range; *from 5 to 10* may as well be a change."""
    shape = (
        "after between"
        if re.search(r"\bbetween\s[$€£¥]?$", change.before, re.IGNORECASE)
        else "first bound"
    )
    is_first = _SHAPES[shape].match(change.after) and not re.search(
        r"\bfrom\s[$€£¥]?$", change.before
    )
    return bool(is_first or _SHAPES["second bound"].search(change.before))


def _left_open(text: str, start: int) -> tuple[float, float] | None:
    """From and up to what the quantity at or soon after ``start`` goes."""
    found = _QUANTITY.search(text, max(0, start - 1), start + 40)
    if found is None:
        return None
    word, before = found.group(1).lower(), text[max(0, found.start() - 40) : found.start()]
    value = _WORDS.get(word) or float(word.replace(",", "")) or 1e-9
    for place, words, least, most in _OPEN:
        if words.search(before) if place == "before" else words.match(text, found.end()):
            return value * least, value * most
    return value, value


def _time_within(change: _Change) -> bool:
    """Whether all that both dates fix is the same, so that one is within the other."""
    one, other = _fixed(change.old), _fixed(change.new)
    return (
        bool(one)
        and bool(other)
        and all(one[part] == other[part] for part in one.keys() & other.keys())
    )


def _fixed(text: str) -> dict[str, str]:
    """The day, day of the week, month, year, decade and century of a date, as far as it says
    them."""
    names = ("day", "weekday", "month", "year", "decade", "century")
    found = {name: match.group(1) for name in names if (match := _SHAPES[name].search(text))}
    if "month" not in found:
        found.pop("day", None)
    if year := found.get("year"):
        found["decade"] = year[:3]
    if decade := found.get("decade"):
        found["century"] = str(int(decade[:2]) + 1)
    return found


def _vague_times(change: _Change) -> bool:
    """*Last week* may be part of *last month*; what fell from a year earlier may have fallen from a
    month earlier too."""
    if all(_SHAPES["base"].fullmatch(each) for each in (change.old, change.new)):
        return "-" in change.old or _SHAPES["compared"].search(change.before) is not None
    is_counted = _SHAPES["counted"].search(change.before) or change.after.startswith(
        (" later", " ago", " earlier")
    )
    return not is_counted and all(
        _SHAPES["spell"].fullmatch(each) for each in (change.old, change.new)
    )


@cache
def _regions() -> Mapping[str, frozenset[str]]:
    """The larger places that each place is in."""
    listed = rows(DATA / "regions.tsv", 2)
    continents = {code: name for code, name, *_ in listed if len(code) == 2}
    found = {name: {continents.get(code, "")} for name, (code, _) in countries().items()}
    states = {code: each["name"] for code, each in geonames().get_us_states().items()}
    found |= {name: {"United States"} for name in states.values() if name not in found}
    for whole, *members in listed:
        for member in members:
            found.setdefault(member, set()).add(whole)
    nations = {each["iso"]: each["name"] for each in geonames().get_countries().values()}
    for city in sorted(geonames().get_cities().values(), key=lambda each: int(each["population"])):
        state = states.get(city.get("admin1code", "")) if city["countrycode"] == "US" else None
        if city["name"] not in countries():
            found[city["name"]] = {
                nations.get(city["countrycode"], ""),
                state or "",
                *found.get(city["name"], ()),
            }
    return {name: frozenset(wholes - {""}) for name, wholes in found.items()}


def _place_within(change: _Change) -> bool:
    """Whether one place, or the country of a nationality, is within the other, or another name of
    it."""
    one, other = (
        (NATIONALITIES.get(each) or each).removeprefix("the ") for each in (change.old, change.new)
    )
    return other in aliases().get(one, ()) or _is_within(one, other) or _is_within(other, one)


def _is_within(part: str, whole: str) -> bool:
    wholes = {
        above for its in (part, *aliases().get(part, ())) for above in _regions().get(its, ())
    }
    wholes |= {above for each in wholes for above in _regions().get(each, ())}
    return bool(wholes & {whole, *aliases().get(whole, ())})


def _nobody(change: _Change) -> bool:
    """*We* of a writer who means anybody, for *you* or *they*: in a quotation somebody in
    particular speaks."""
    quoted = any(
        found.start() < change.start < found.end()
        for found in _SHAPES["quoted"].finditer(change.text)
    )
    return not quoted and all(
        _SHAPES["anybody"].fullmatch(each) for each in (change.old, change.new)
    )


def _part_of_name(change: _Change) -> bool:
    """A number that cites or names (*[5]*, *realloc(3)*, *Python 3*), or a day that a name has in
    it (*Black Friday*)."""
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
