"""Pronouns that mean somebody else: of the other sex, or a name in their place.

*We*, *you* and *they*, who may be anybody, and whoever a speaker means are left alone.
"""

import random
from collections import Counter
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence, overlaps
from factor_gen.records import COREFERENCE
from factor_gen.text.analysis import NAMES, ORGANISATION, PERSON
from factor_gen.text.names import FIRST_NAMES

HE = frozenset(["he", "him", "his", "himself"])
SHE = frozenset(["she", "her", "hers", "herself"])
_OTHER_SEX = {
    "he": "she",
    "him": "her",
    "himself": "herself",
    "his": "hers",
    "she": "he",
    "her": "him",
    "hers": "his",
    "herself": "himself",
}
_OTHER_POSSESSIVE = {"his": "her", "her": "his"}


def other_sex(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Make a *she* of every *he*, with *his* and *him*, or the other way round.

    Nothing is changed where something else says which it is.
    """
    men, women = sentence.words & HE, sentence.words & SHE
    people = [name for name in sentence.entities if name.kind == PERSON]
    # In "Angela ... she", the pronoun would contradict the name and not the facts.
    is_named = any(person.text.split()[0] in FIRST_NAMES for person in people)
    # Nobody in particular is meant in "the reader ... he".
    is_somebody = any(name.kind == PERSON and " " in name.text for name in sentence.mentions)
    if bool(men) == bool(women) or is_named or not is_somebody:
        return
    if sentence.place(0).meets("sex is told"):
        return
    if not sentence.drawn(rng, "he" if men else "she", ["she" if men else "he"]):
        return
    changes = []
    for i, word in enumerate(sentence.small):
        if word not in men | women:
            continue
        if not _may_change(sentence, i):
            return
        new = _OTHER_SEX[word]
        if word in _OTHER_POSSESSIVE and sentence.place(i).meets("possessive"):
            new = _OTHER_POSSESSIVE[word]
        changes.append((*sentence.span(i, i + 1), new))
    yield edit("pronoun", COREFERENCE, *changes)


def wrong_person(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Put a person or organisation of the text before in the place of a pronoun.

    It is one that the pronoun hardly means: neither one of the last that were named nor one that
    is named most often.
    """
    for i, word in enumerate(sentence.small):
        if not sentence.place(i).meets("replaceable pronoun"):
            continue
        names = _unlikely_names(sentence, ORGANISATION if word == "it" else PERSON)
        if not names:
            continue
        name = rng.choice(names)
        start, end = sentence.span(i, i + 1)
        is_named = any(known.kind in NAMES and known.start < start for known in sentence.entities)
        if is_named or not _may_change(sentence, i):
            continue
        if word in _OTHER_POSSESSIVE:
            name += "'" if name.endswith("s") else "'s"
        yield edit("pronoun to name", COREFERENCE, (start, end, name))
        return


def _may_change(sentence: Sentence, i: int) -> bool:
    """Whether a pronoun is neither part of a name nor said by somebody."""
    span = sentence.span(i, i + 1)
    return sentence.is_free(*span) and not overlaps(sentence.quotes, *span)


def _unlikely_names(sentence: Sentence, kind: str) -> list[str]:
    """The names of a kind in the text before that a pronoun hardly means."""
    mentions = [mention for mention in sentence.mentions if mention.kind == kind]
    last_words = [mention.text.split()[-1] for mention in mentions]
    counts = Counter(last_words)
    most = max(counts.values(), default=0)
    names = []
    for mention, last in zip(mentions, last_words, strict=True):
        is_likely = counts[last] == most or last in last_words[-2:]
        is_nobody = kind == PERSON and (mention.article or last == mention.text)
        if is_likely or is_nobody or sentence.knows(mention.text):
            continue
        name = last if kind == PERSON else mention.text
        if name[0].isalpha() and len(name) > 2:
            names.append(f"the {name}" if mention.article else name)
    return list(dict.fromkeys(names))


def known_sexes(sentence: Sentence) -> set[str]:
    """The sexes, ``f`` and ``m``, of the people that the sentence means by pronoun or name."""
    sexes = set()
    if sentence.words & HE:
        sexes.add("m")
    if sentence.words & SHE:
        sexes.add("f")
    named = {name.text for name in sentence.entities if name.kind == PERSON}
    people = {mention.text for mention in sentence.mentions if mention.kind == PERSON}
    for person in people | named:
        parts = person.split()
        if parts[0] in FIRST_NAMES and not named.isdisjoint((person, parts[-1])):
            sexes.add(FIRST_NAMES[parts[0]])
    return sexes
