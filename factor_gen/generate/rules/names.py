"""Another name of the same kind out of the text before."""

import random
import re
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import AGENCIES, Sentence, overlaps
from factor_gen.generate.rules.words import WORDS
from factor_gen.records import CIRCUMSTANCE, ENTITY
from factor_gen.text.analysis import ORGANISATION, PERSON, PLACE, Entity
from factor_gen.text.conditions import Place
from factor_gen.text.names import (
    FIRST_NAMES,
    NATIONALITIES,
    ORGANISATION_WORDS,
    ORGANISATIONS,
    country_of_city,
    is_common,
    places,
    related,
)

_MOST_NAMES = 2  # of the document for each name
_SHORTEST_WORD = 4  # letters of a word that is put in capitals for emphasis
_TITLES = ("Mr", "Mr.", "Mrs", "Mrs.", "Ms", "Ms.", "Dr", "Dr.")
_UNUSABLE = re.compile(r"\d|/|\AEx-|\A(?:Jr\.|Sr\.|III|II)\Z")


def document_names(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Put a person, place or organisation of the text before in the place of another."""
    whole = [entity for entity in sentence.entities if _is_whole(sentence, entity)]
    for entity in whole:
        if entity.kind not in (PERSON, PLACE, ORGANISATION):
            continue
        if _place(sentence, entity).meets("so of others"):
            continue  # What is so of one name may be so of another.
        if entity.kind == PLACE and not _is_spot(sentence, entity):
            continue
        names = list(dict.fromkeys(_fitting_names(sentence, entity)))
        rng.shuffle(names)
        # Every mention of the name is replaced, and none if one of them is part of a longer name.
        spans = sentence.occurrences(entity.text)
        if not spans or not {(name.start, name.end) for name in whole}.issuperset(spans):
            continue
        error_type = CIRCUMSTANCE if entity.kind == PLACE else ENTITY
        for name in names[:_MOST_NAMES]:
            new = name.upper() if _is_emphasised(entity.text) and entity.kind == PLACE else name
            yield edit("name", error_type, *((start, end, new) for start, end in spans))


def _place(sentence: Sentence, entity: Entity) -> Place:
    return sentence.place_of(entity.start, entity.end, kind=[entity.kind])


def _is_whole(sentence: Sentence, entity: Entity) -> bool:
    """Whether the name stands by itself and is no part of another, as *City* in *City, State*."""
    is_named = entity.text in AGENCIES or overlaps(sentence.titles, entity.start, entity.end)
    return not is_named and not _place(sentence, entity).meets("no whole name")


def _is_emphasised(name: str) -> bool:
    """Whether the name, which is no initials, is in capitals."""
    return name.isupper() and len(name) >= _SHORTEST_WORD


def _are_known_initials(*names: str) -> bool:
    """Whether those names that are initials, which may be of anything, are of an organisation."""
    return all(name in ORGANISATIONS for name in names if name.isupper())


def _class(name: str) -> str:
    """What sort of place it is; cities are one sort."""
    sort = places().get(name, "")
    return "city" if "city" in sort or sort == "capital" else sort


def _has_article(sentence: Sentence, entity: Entity) -> bool:
    return sentence.text[: entity.start].lower().endswith("the ")


def _is_spot(sentence: Sentence, entity: Entity) -> bool:
    """Whether the place is where something is.

    A name may also mean a club, a people, or the government that sits there (*Berlin said*), which
    another name does not deny.
    """
    if _place(sentence, entity).meets("no spot"):
        return False
    if entity.text.upper() in sentence.text[: sentence.dateline].upper():
        return False
    for people, country in NATIONALITIES.items():
        if country and people in sentence.text and related(country, entity.text):
            return False
    cities = {name.text.title() if name.text.isupper() else name.text for name in sentence.entities}
    countries = {country_of_city().get(city) for city in cities}
    # A city of the country is named too: NAIROBI ... Kenya's central bank.
    return entity.text not in countries or _class(entity.text) != "country"


def _fitting_names(sentence: Sentence, entity: Entity) -> Iterator[str]:
    """The names before the sentence that may stand for one in it.

    They are of its kind, of as many words, and with an article if it has one.
    """
    kind, size = entity.kind, len(entity.text.split())
    is_surname = kind == PERSON and size == 1
    mentions = [mention for mention in sentence.mentions if mention.kind == kind]
    if is_surname and not any(name.text.endswith(f" {entity.text}") for name in mentions):
        return  # A word alone may be a program.
    has_title = sentence.text[: entity.start].rstrip().endswith(_TITLES)
    for mention in mentions:
        name = mention.text.split()[-1] if is_surname else mention.text
        if mention.article != _has_article(sentence, entity) or len(name.split()) != size:
            continue
        if name == entity.text or not _is_usable(name, kind):
            continue
        if has_title and name in FIRST_NAMES:
            continue  # Mr Anne
        names = {name, mention.text}
        if any(sentence.knows(known) or related(known, entity.text) for known in names):
            continue
        is_long_organisation = kind == ORGANISATION and size > 1
        if name.isupper() != entity.text.isupper() and not is_long_organisation:
            continue
        if kind == ORGANISATION and not _are_known_initials(name, entity.text):
            continue
        sex = FIRST_NAMES.get(mention.text.split()[0], "")
        if kind == PERSON and sentence.place(0, sex=[sex]).meets("another sex"):
            continue
        if kind != PLACE or _class(name) == _class(entity.text):
            yield name


def _is_usable(name: str, kind: str) -> bool:
    """Whether a name means the same elsewhere, and is one at all."""
    if name in ORGANISATION_WORDS - ORGANISATIONS:
        return False  # the Ministry
    if _is_emphasised(name) and is_common(name.lower()):
        return False
    if kind == PERSON and (len(name) < 3 or not name.split()[-1][0].isupper()):
        return False
    return not _UNUSABLE.search(name) and WORDS["titles"].isdisjoint(name.split())
