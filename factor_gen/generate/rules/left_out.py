"""One of two things that are named together, left out.

*Reads files and folders* becomes *reads files but not folders*.
"""

import random
from collections.abc import Iterator

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
        span = sentence.span(i, i + 1)
        if word not in ("and", "or") or not sentence.is_free(*span):
            continue
        last = i - 2 if sentence.word(i - 1) == "," else i - 1
        first, end = last, i + 1
        while sentence.tag(first - 1) in _NOUN_PHRASE:
            first -= 1
        while sentence.tag(end) in _NOUN_PHRASE:
            end += 1
        one, two = sentence.place(first, last + 1), sentence.place(i + 1, end)
        is_alike = any(
            one.meets(table) and two.meets(table) for table in ("with article", "bare plural")
        )
        if is_alike and sentence.place(first, end).meets("objects"):
            yield edit(OPERATOR, ENTITY, (*span, "but not"))
