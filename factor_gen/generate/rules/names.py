"""Another name of the same kind: out of the text before, or out of the sentence itself."""

import random
import re
from collections.abc import Iterator
from itertools import pairwise

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.pronouns import HE, SHE
from factor_gen.generate.rules.sentence import AGENCIES, Mention, Sentence
from factor_gen.generate.rules.words import WORDS
from factor_gen.records import CIRCUMSTANCE, ENTITY
from factor_gen.text.analysis import NAME, NAMES, ORGANISATION, PERSON, PLACE, Entity
from factor_gen.text.names import (
    FIRST_NAMES,
    NATIONALITIES,
    ORGANISATION_WORDS,
    ORGANISATIONS,
    country_of_city,
    places,
    related,
)
from factor_gen.text.pattern import is_common

_TICKER = re.compile(r"['’]s? \(")  # Tesla's (TSLA.O)
_TRIED = 2  # names of the document for each name
_TITLES = ("Mr", "Mr.", "Mrs", "Mrs.", "Ms", "Ms.", "Dr", "Dr.")


def document_names(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """A person, place or organisation of the text before in the place of one of the sentence."""
    for entity in sentence.entities:
        if entity.kind not in (PERSON, PLACE, ORGANISATION) or not _is_whole(sentence, entity):
            continue
        if not _once(sentence, entity) or (
            entity.kind == PLACE and not _is_a_spot(sentence, entity)
        ):
            continue
        names = list(dict.fromkeys(_fitting(sentence, entity)))
        rng.shuffle(names)
        for name in names[:_TRIED]:
            yield from _renamed(sentence, entity, name)


def swapped_names(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Two names of one kind in the sentence, each in the other's place, if a verb is between them,
    or where one goes *from* and *to* which."""
    names = [each for each in sentence.entities if each.kind in NAMES and _is_whole(sentence, each)]
    for one, other in pairwise(names):
        first, last = sentence.ends.get(one.end), sentence.starts.get(other.start)
        initials = {
            each.text for each in (one, other) if each.text.isupper() and each.kind == ORGANISATION
        }
        if first is None or last is None or not initials <= ORGANISATIONS:
            continue
        if _sort(sentence, one) != _sort(sentence, other) or related(one.text, other.text):
            continue
        start = sentence.starts[one.start]
        is_deed = _is_deed(sentence, first, last) and (
            one.kind != NAME or _are_parties(sentence, one, other)
        )
        if not is_deed and not _is_way(sentence, start, last):
            continue
        if (
            len(list(sentence.occurrences(one.text)))
            == len(list(sentence.occurrences(other.text)))
            == 1
        ):
            yield edit(
                "name swap",
                ENTITY,
                (one.start, one.end, other.text),
                (other.start, other.end, one.text),
            )


def _is_deed(sentence: Sentence, first: int, last: int) -> bool:
    """Whether what stands between the names is what one does to the other."""
    between = range(first + 1, last)
    if (
        not any(sentence.tag(i) in ("VBD", "VBZ", "MD", "VBN") for i in between)
        or len(between) > 15
    ):
        return False
    is_mutual = any(sentence.word(i) in WORDS["symmetric"] for i in (first + 1, last - 1))
    return not is_mutual and not sentence.words & {"met", "meet", "between"}


def _are_parties(sentence: Sentence, one: Entity, other: Entity) -> bool:
    """Whether names of unknown kind are the subject of a past verb and its object: *the Batavi were
    conquered by the Frisii*."""
    i, first, last = (
        sentence.starts[one.start],
        sentence.ends[one.end],
        sentence.starts[other.start],
    )
    between = sentence.small[first + 1 : last]
    return (
        (i == 0 or (i == 1 and sentence.word(0) == "the"))
        and one.text.endswith("s") == other.text.endswith("s")
        and not any(is_common(each.text.lower()) for each in (one, other))
        and sentence.tag(first + 1) in ("VBD", "VBN")
        and len(between) <= 5
        and {",", "and", "or", "as", "in", "not"}.isdisjoint(between)
        and (between[0] not in WORDS["be"] or "by" in between)
    )


def _is_way(sentence: Sentence, start: int, last: int) -> bool:
    """*From Tarn to Vale*; *start* is the first token of one name and *last* that of the other."""
    if sentence.word(start - 1) != "from" or sentence.word(last - 1) != "to" or last - start >= 6:
        return False
    return sentence.is_past and WORDS["both ways"].isdisjoint(
        sentence.words
    )  # a road runs from either to the other


def _sort(sentence: Sentence, entity: Entity) -> tuple[str, str, int, bool]:
    """What two names must have in common to change places."""
    return (
        entity.kind,
        _class(entity.text),
        len(entity.text.split()),
        _has_article(sentence, entity),
    )


def _fitting(sentence: Sentence, entity: Entity) -> Iterator[str]:
    """The names before that may stand for ``entity``: of its kind, as long, with or without an
    article like it."""
    size, article = len(entity.text.split()), _has_article(sentence, entity)
    has_title = sentence.text[: entity.start].rstrip().endswith(_TITLES)
    if entity.kind == PERSON and not _is_person(sentence, entity.text):
        return
    for mention in sentence.mentions:
        name = _as_long(mention, entity.kind, size)
        if (
            name is None
            or mention.kind != entity.kind
            or mention.article != article
            or name == entity.text
        ):
            continue
        if has_title and name in FIRST_NAMES:
            continue  # Mr Anne
        if name.isupper() and len(name) > 3 and is_common(name.lower()):
            continue  # a word in capitals for emphasis
        if (
            entity.text.isupper()
            and entity.kind == ORGANISATION
            and not {name, entity.text} <= ORGANISATIONS
        ):
            continue  # initials may be of anything
        if any(sentence.knows(each) or related(each, entity.text) for each in (name, mention.text)):
            continue
        if (
            (name.isupper() == entity.text.isupper() or (size > 1 and entity.kind == ORGANISATION))
            and (entity.kind != PLACE or _class(name) == _class(entity.text))
            and (entity.kind != PERSON or _may_be(sentence, mention))
        ):
            yield name


def _as_long(mention: Mention, kind: str, size: int) -> str | None:
    """The name, or the surname, if it has ``size`` words; None if not, or if it is no name to be
    used elsewhere."""
    words = mention.text.split()
    if "/" in mention.text:
        return None
    if kind == PERSON and size == 1 and len(words) > 1:
        is_surname = (
            words[-1][0].isupper()
            and len(words[-1]) > 2
            and words[-1] not in ("Jr.", "Sr.", "III", "II")
        )
        return words[-1] if is_surname else None
    unusable = (
        any(each.isdigit() for each in mention.text)
        or any(word in WORDS["titles"] for word in words)
        or (len(words) == 1 and words[0] in ORGANISATION_WORDS - ORGANISATIONS)  # "the Ministry"
        or mention.text.startswith("Ex-")
    )
    return mention.text if len(words) == size and not unusable else None


def _is_person(sentence: Sentence, name: str) -> bool:
    """Whether the name is of two words, or the end of one that is: a word alone may be a
    program."""
    known = [each.text for each in sentence.mentions if each.kind == PERSON]
    return " " in name or any(each.endswith(f" {name}") for each in known)


def _may_be(sentence: Sentence, mention: Mention) -> bool:
    """Whether the pronouns of the sentence allow the person."""
    sex = FIRST_NAMES.get(mention.text.split()[0])
    return not (sex == "f" and sentence.words & (HE | WORDS["male"])) and not (
        sex == "m" and sentence.words & (SHE | WORDS["female"])
    )


def _is_whole(sentence: Sentence, entity: Entity) -> bool:
    """Whether the name stands by itself: not in a title, before or in brackets, joined by a hyphen,
    or ``City, State``."""
    i, j = sentence.starts.get(entity.start), sentence.ends.get(entity.end)
    if (
        i is None
        or j is None
        or sentence.in_title(entity.start, entity.end)
        or entity.text in AGENCIES
    ):
        return False
    before, after, following = (
        sentence.text[entity.start - 1 : entity.start],
        sentence.text[entity.end :],
        sentence.word(j + 1),
    )
    if (
        before in ("-", "/", "@", "#", "(", "&", ".")
        or _TICKER.match(after)
        or after[:1] in ("-", "/", "–", "&", "+")
        or following == "("
        or (following == "and" and entity.kind == ORGANISATION)
        or (sentence.is_capital(j + 1) and after.startswith(f" {sentence.tokens[j + 1].text}"))
    ):
        return False
    if (
        entity.kind == PERSON
        and following in (",", ".", "!", "?")
        and sentence.word(i - 1) in (",", "sir", "lady", "dear", "lord")
    ):
        return False  # said to somebody
    name_ends = {each.end for each in sentence.entities if each.kind in NAMES}
    if entity.kind == PLACE and (
        sentence.tag(j + 1).startswith(
            ("NN", "JJ")
        )  # Hong Kong stocks: a word like a nationality, which few places have
        or (following == "," and sentence.kind_at(j + 2) == PLACE)
        or (i > 1 and sentence.word(i - 1) == "," and sentence.tokens[i - 2].end in name_ends)
    ):
        return False
    is_part = i > 1 and sentence.is_capital(i - 1) and sentence.tag(i - 1).startswith("NN")
    return entity.kind == PERSON or not (
        is_part and sentence.text[sentence.tokens[i - 1].end : entity.start] == " "
    )


def _has_article(sentence: Sentence, entity: Entity) -> bool:
    return sentence.text[max(0, entity.start - 4) : entity.start].lower() == "the "


def _once(sentence: Sentence, entity: Entity) -> bool:
    """Whether the sentence tells what happened once, and of that name alone: what is so here may be
    so elsewhere."""
    i, j = sentence.starts[entity.start], sentence.ends[entity.end]
    beside = {sentence.word(i - 1), sentence.word(j + 1)}
    return (
        sentence.is_past
        and not beside & {"and", "or", "as", "for"}
        and not sentence.words & WORDS["of others too"]
    )


def _is_a_spot(sentence: Sentence, entity: Entity) -> bool:
    """Whether the place is where something is, after a preposition of place: a name may also mean a
    club, a people, or the government that sits there (*Berlin said*), which another name does not
    deny."""
    if sentence.word(sentence.starts[entity.start] - 1) not in WORDS["of place"]:
        return False
    if re.match(r",? ?D\.?C\b", sentence.text[entity.end :]):
        return False
    if entity.text.upper() in sentence.text[: sentence.dateline].upper():
        return False
    people = [
        name for name, country in NATIONALITIES.items() if country and related(country, entity.text)
    ]
    if any(each in sentence.text for each in people):
        return False
    sort = _class(entity.text)
    others = (each.text.title() if each.text.isupper() else each.text for each in sentence.entities)
    # NAIROBI ... Kenya's central bank
    return sort != "country" or all(country_of_city().get(each) != entity.text for each in others)


def _renamed(sentence: Sentence, entity: Entity, name: str) -> Iterator[Edit]:
    """Replaces every mention of the name in the sentence; no edit if one of them is part of a
    longer name."""
    if entity.text.isupper() and len(entity.text) > 3 and entity.kind == PLACE:
        name = name.upper()
    spans = list(sentence.occurrences(entity.text))
    whole = {(each.start, each.end) for each in sentence.entities if _is_whole(sentence, each)}
    if not whole.issuperset(spans):
        return
    yield edit(
        "name",
        CIRCUMSTANCE if entity.kind == PLACE else ENTITY,
        *((start, end, name) for start, end in spans),
    )


def _class(name: str) -> str:
    """What sort of place it is; cities are one sort."""
    sort = places().get(name, "")
    return "city" if "city" in sort or sort == "capital" else sort
