"""Nouns, each for one of its kind or its opposite."""

import random
from collections.abc import Iterable, Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.pronouns import known_sexes
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import WORDS, nouns
from factor_gen.records import ENTITY

_MOST_OTHERS = 2  # edits of one noun


def noun(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Replace each noun by others of its line in the list."""
    for i, word in enumerate(sentence.small):
        for words, tag, others in nouns().get(word, ()):
            end = i + len(words)
            if sentence.small[i:end] != words or not _may_change(sentence, i, end, tag):
                continue
            span = sentence.span(i, end)
            new_words = []
            for other in others:
                added = _stems(other.split(" ")) - _stems(words)
                is_new = added.isdisjoint(_stems(sentence.words))
                if is_new and sentence.contexts.fit(sentence.text, *span, other, in_slot=True):
                    new_words.append(other)
            for new in sentence.drawn(rng, " ".join(words), new_words)[:_MOST_OTHERS]:
                yield edit("noun", ENTITY, (*span, new))
            break


def _may_change(sentence: Sentence, i: int, end: int, tag: str) -> bool:
    """Whether the tokens are a noun that no other word of the sentence depends on."""
    if not sentence.may_change(i, end) or sentence.place(i, end, number=[tag]).meets("no noun"):
        return False
    rest = (*sentence.small[:i], *sentence.small[end:])
    if not _stems(rest).isdisjoint(_stems(sentence.small[i:end])):
        return False  # The noun is said again and would be at odds with itself.
    last = sentence.small[end - 1]
    sex = "m" if last in WORDS["male"] else "f" if last in WORDS["female"] else ""
    return sex not in known_sexes(sentence)


def _stems(words: Iterable[str]) -> set[str]:
    return {word.rstrip("s") for word in words}
