"""Another name of the same kind out of the text before."""

import random
import re
from collections.abc import Iterable, Iterator

from factor_gen.generate.compatible import is_within
from factor_gen.generate.rules.edits import SentenceEdit, edit
from factor_gen.generate.rules.sentence import AGENCIES, TaggedSentence, overlaps
from factor_gen.records import CIRCUMSTANCE, ENTITY
from factor_gen.text.analysis import PERSON, PLACE, Entity
from factor_gen.text.conditions import TokenContext
from factor_gen.text.names import FIRST_NAMES, places, related

_MOST_NAMES = 2  # of the document for each name


def document_names(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Put a person, place or organisation of the text before in the place of another.

    Every mention of the name is replaced, and none if one of them is part of a longer name.
    """
    whole = [entity for entity in sentence.entities if _is_whole(sentence, entity)]
    spans_of_whole = {(name.start, name.end) for name in whole}
    for entity in whole:
        if _place(sentence, entity).matches("kept names") or not _is_spot(sentence, entity):
            continue
        names = list(dict.fromkeys(_fitting_names(sentence, entity)))
        rng.shuffle(names)
        mentions = re.finditer(rf"(?<!\w){re.escape(entity.text)}(?!\w)", sentence.text)
        spans = [mention.span() for mention in mentions]
        if not spans or not spans_of_whole.issuperset(spans):
            continue
        error_type = CIRCUMSTANCE if entity.kind == PLACE else ENTITY
        for name in names[:_MOST_NAMES]:
            yield edit("name", error_type, *((start, end, name) for start, end in spans))


def _place(sentence: TaggedSentence, entity: Entity, **facts: Iterable[object]) -> TokenContext:
    kind, name = [entity.kind], [entity.text]
    return sentence.place_of(entity.start, entity.end, kind=kind, name=name, **facts)


def _is_whole(sentence: TaggedSentence, entity: Entity) -> bool:
    """Whether the name stands by itself and is no part of another, as *City* in *City, State*."""
    is_named = entity.text in AGENCIES or overlaps(sentence.titles, entity.start, entity.end)
    return not is_named and not _place(sentence, entity).matches("no whole name")


def _is_spot(sentence: TaggedSentence, entity: Entity) -> bool:
    """Whether neither the dateline nor another name says in which place something is.

    *NAIROBI ... Kenya's central bank* and *In Japan the Japanese* would be at odds with a change.
    """
    if entity.kind != PLACE:
        return True
    others = [name.text for name in sentence.entities if name.text != entity.text]
    others = [name.title() if name.isupper() else name for name in others]
    is_dated = entity.text.upper() in sentence.text[: sentence.dateline].upper()
    return not is_dated and not any(is_within(name, entity.text) for name in others)


def _fitting_names(sentence: TaggedSentence, entity: Entity) -> Iterator[str]:
    """The names before the sentence that may stand for one in it.

    They are of its kind, of as many words, and with an article if it has one.
    """
    size = len(entity.text.split())
    is_surname = entity.kind == PERSON and size == 1
    has_article = sentence.text[: entity.start].lower().endswith("the ")
    mentions = [mention for mention in sentence.mentions if mention.kind == entity.kind]
    if is_surname and not any(name.text.endswith(f" {entity.text}") for name in mentions):
        return  # A word alone may be a program.
    for mention in mentions:
        name = mention.text.split()[-1] if is_surname else mention.text
        is_alike = (
            mention.article == has_article
            and len(name.split()) == size
            and name.isupper() == entity.text.isupper()
            and _class(name) == _class(entity.text)
        )
        if not is_alike or _is_named(sentence, mention.text):
            continue
        sex = FIRST_NAMES.get(mention.text.split()[0], "")
        place = _place(sentence, entity, new=[name], new_words=name.split(), sex=[sex])
        if not place.matches("unfit names"):
            yield name


def _class(name: str) -> str:
    """What sort of place it is; cities are one sort."""
    sort = places().get(name, "")
    return "city" if "city" in sort or sort == "capital" else sort


def _is_named(sentence: TaggedSentence, name: str) -> bool:
    """Whether the sentence names the same: a part of the name, or another name for it."""
    capitals = {word for word in name.split() if word[0].isupper()}
    if not capitals.isdisjoint(token.text for token in sentence.tokens):
        return True
    return any(related(name, entity.text) for entity in sentence.entities)
