"""One of two things that are named together, left out: *reads files and folders* becomes *reads
files but not folders*."""

import random
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import WORDS
from factor_gen.records import ENTITY
from factor_gen.text.analysis import FINITE

OPERATOR = "left out"
_INSIDE = ("DT", "PRP$", "JJ", "NN", "NNS", "NNP", "NNPS")
_NOUNS = ("NN", "NNS", "NNP", "NNPS")
_VERBS = (*FINITE, "VB", "VBG", "VBN")


def left_out(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """*But not* for each *and* and *or* between two noun phrases alike, objects of a verb before
    them."""
    if not WORDS["taken together"].isdisjoint(sentence.words):
        return
    for i, word in enumerate(sentence.small):
        if word not in ("and", "or") or not sentence.is_free(*sentence.span(i, i + 1)):
            continue
        last = i - 2 if sentence.word(i - 1) == "," else i - 1
        first, end = last, i + 1
        while sentence.tag(first - 1) in _INSIDE:
            first -= 1
        while sentence.tag(end) in _INSIDE:
            end += 1
        if not _are_alike(sentence, first, last, i + 1, end - 1) or not _are_objects(
            sentence, first, end
        ):
            continue
        start = sentence.tokens[i].start
        yield edit(OPERATOR, ENTITY, (start, start + len(word), "but not"))


def _are_alike(sentence: Sentence, first: int, last: int, start: int, end: int) -> bool:
    """Whether both are noun phrases, each with an article or possessive, or both plurals without:
    no pair of adjectives."""
    if not (
        0 <= first <= last
        and start <= end
        and sentence.tag(last) in _NOUNS
        and sentence.tag(end) in _NOUNS
    ):
        return False
    articles = sentence.tag(first) in ("DT", "PRP$"), sentence.tag(start) in ("DT", "PRP$")
    are_plural = sentence.tag(last) == sentence.tag(end) == "NNS"
    return all(articles) or (are_plural and not any(articles))


def _are_objects(sentence: Sentence, first: int, end: int) -> bool:
    before, after = sentence.word(first - 1), sentence.word(end)
    governed = sentence.tag(first - 1) in (*_VERBS, "IN", "TO") and before not in (
        "like",
        "as",
        "than",
    )
    has_verb = any(sentence.tag(at) in (*FINITE, "VB") for at in range(first))
    ends = after in (".", ",", ";", ")", "") or sentence.tag(end) in ("IN", "TO")
    return (
        governed
        and has_verb
        and ends
        and not any(sentence.tag(at) in FINITE for at in sentence.clause(end))
    )
