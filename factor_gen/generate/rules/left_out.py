"""One of two things that are named together, left out.

*Reads files and folders* becomes *reads files but not folders*.
"""

import random
from collections.abc import Iterator

from factor_gen.generate.rules.conditions import Place
from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import WORDS
from factor_gen.records import ENTITY

OPERATOR = "left out"
_NOUN_PHRASE = ("DT", "PRP$", "JJ", "NN", "NNS", "NNP", "NNPS")


def left_out(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Write *but not* for each *and* and *or* between two objects that are named alike."""
    if not WORDS["taken together"].isdisjoint(sentence.words):
        return
    for i, word in enumerate(sentence.small):
        if word not in ("and", "or") or not sentence.is_free(*sentence.span(i, i + 1)):
            continue
        last = i - 2 if sentence.word(i - 1) == "," else i - 1
        first, end = last, i + 1
        while sentence.tag(first - 1) in _NOUN_PHRASE:
            first -= 1
        while sentence.tag(end) in _NOUN_PHRASE:
            end += 1
        both = Place(sentence, first, last + 1), Place(sentence, i + 1, end)
        are_alike = any(
            all(thing.meets(table) for thing in both) for table in ("with article", "bare plural")
        )
        if are_alike and Place(sentence, first, end).meets("objects"):
            yield edit(OPERATOR, ENTITY, (*sentence.span(i, i + 1), "but not"))
