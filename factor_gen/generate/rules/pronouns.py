"""Pronouns that mean somebody else: of the other sex, or a name in their place.

*We*, *you* and *they*, who may be anybody, and whoever a speaker means are left alone.
"""

import random
from collections import Counter
from collections.abc import Iterator

from factor_gen.generate.rules.conditions import Place
from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.records import COREFERENCE
from factor_gen.text.analysis import NAMES, ORGANISATION, PERSON
from factor_gen.text.names import FIRST_NAMES

HE = frozenset(["he", "him", "his", "himself"])
SHE = frozenset(["she", "her", "hers", "herself"])
_OTHER_SEX = {
    "he": "she",
    "him": "her",
    "himself": "herself",
    "she": "he",
    "hers": "his",
    "herself": "himself",
}


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
    if Place(sentence, 0, 0).meets("sex is told"):
        return
    if not sentence.drawn(rng, "he" if men else "she", ["she" if men else "he"]):
        return
    changes = []
    for i, word in enumerate(sentence.small):
        if word not in men | women:
            continue
        if not _may_change(sentence, i):
            return
        is_possessive = Place(sentence, i, i + 1).meets("possessive")
        ambiguous = {
            "his": "her" if is_possessive else "hers",
            "her": "his" if is_possessive else "him",
        }
        new = {**_OTHER_SEX, **ambiguous}[word]
        if sentence.is_capital(i):
            new = new.capitalize()
        changes.append((*sentence.span(i, i + 1), new))
    yield edit("pronoun", COREFERENCE, *changes)


def wrong_person(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Put a person or organisation of the text before in the place of a pronoun.

    It is one that the pronoun hardly means: neither one of the last that were named nor one that
    is named most often.
    """
    names_of = {
        "it": _unlikely_names(sentence, ORGANISATION),
        **dict.fromkeys(("he", "she", "his", "her"), _unlikely_names(sentence, PERSON)),
    }
    for i, word in enumerate(sentence.small):
        names = names_of.get(word)
        if not names or not Place(sentence, i, i + 1).meets("replaceable pronoun"):
            continue
        name = rng.choice(names)
        start, end = sentence.span(i, i + 1)
        is_named = any(known.kind in NAMES and known.start < start for known in sentence.entities)
        if is_named or not _may_change(sentence, i):
            continue
        if word in ("his", "her"):
            name += "'" if name.endswith("s") else "'s"
        yield edit("pronoun to name", COREFERENCE, (start, end, name))
        return


def _may_change(sentence: Sentence, i: int) -> bool:
    """Whether a pronoun is neither part of a name nor said by somebody."""
    start, end = sentence.span(i, i + 1)
    is_spoken = any(first <= start < last for first, last in sentence.quotes)
    return sentence.is_free(start, end) and not is_spoken


def _unlikely_names(sentence: Sentence, kind: str) -> list[str]:
    """The names of a kind in the text before that a pronoun hardly means."""
    mentions = [mention for mention in sentence.mentions if mention.kind == kind]
    counts = Counter(mention.text.split()[-1] for mention in mentions)
    most = max(counts.values(), default=0)
    likely = {name for name, count in counts.items() if count == most}
    likely |= {mention.text.split()[-1] for mention in mentions[-2:]}
    names = []
    for mention in mentions:
        last = mention.text.split()[-1]
        is_nobody = kind == PERSON and (mention.article or last == mention.text)
        if last in likely or sentence.knows(mention.text) or is_nobody:
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
    people = [mention.text for mention in sentence.mentions if mention.kind == PERSON]
    named = {name.text for name in sentence.entities if name.kind == PERSON}
    for person in (*people, *named):
        first, last = person.split()[0], person.split()[-1]
        if first in FIRST_NAMES and not named.isdisjoint((person, last)):
            sexes.add(FIRST_NAMES[first])
    return sexes
