"""Pronouns of the other sex.

*We*, *you* and *they*, who may be anybody, and whoever a speaker means are left alone.
"""

import random
from collections.abc import Iterator

from factor_gen.generate.rules.edits import SentenceEdit, edit
from factor_gen.generate.rules.sentence import TaggedSentence, overlaps
from factor_gen.generate.rules.words import LISTS
from factor_gen.records import COREFERENCE
from factor_gen.text.analysis import PERSON
from factor_gen.text.names import FIRST_NAMES

_HE, _SHE = LISTS["he"], LISTS["she"]
_OTHER_SEX = dict(zip((*_HE, *_SHE), (*_SHE, *_HE), strict=True))
_OTHER_POSSESSIVE = {"his": "her", "her": "his"}


def other_sex(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Make a *she* of every *he*, with *his* and *him*, or the other way round.

    Nothing is changed where something else says which it is.
    """
    people = [name for name in sentence.entities if name.kind == PERSON]
    # In "Angela ... she", the pronoun would contradict the name and not the facts.
    is_named = any(person.text.split()[0] in FIRST_NAMES for person in people)
    # Nobody in particular is meant in "the reader ... he".
    is_somebody = any(name.kind == PERSON and " " in name.text for name in sentence.mentions)
    if is_named or not is_somebody or sentence.place(0).matches("sex is told"):
        return
    pronouns = [i for i, word in enumerate(sentence.small) if word in _OTHER_SEX]
    if not pronouns:
        return
    subject = "he" if sentence.small[pronouns[0]] in _HE else "she"
    if not sentence.drawn(rng, subject, [_OTHER_SEX[subject]]):
        return
    changes = []
    for i in pronouns:
        span, word = sentence.span(i, i + 1), sentence.small[i]
        if not sentence.is_free(*span) or overlaps(sentence.quotes, *span):
            return
        new = _OTHER_SEX[word]
        if word in _OTHER_POSSESSIVE and sentence.place(i).matches("possessive"):
            new = _OTHER_POSSESSIVE[word]
        changes.append((*span, new))
    yield edit("pronoun", COREFERENCE, *changes)
