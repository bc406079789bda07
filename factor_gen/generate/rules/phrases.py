"""Adverbs, comparisons, prepositions and link words: a phrase of a list for another of its line."""

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import DATA, grouped
from factor_gen.text.lists import rows


class Phrase(NamedTuple):
    """A phrase of the list."""

    words: tuple[str, ...]
    error_type: str
    follows: str
    """What must follow the phrase: a value of `follows` in `conditions.yaml`."""
    others: tuple[str, ...]
    """The phrases that may stand for it."""


def phrase(operator: str, sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Replace each phrase of the operator where what stands around it lets the other one stand."""
    last_end = -1
    phrases = _phrases(operator)
    for i, word in enumerate(sentence.small):
        for listed in phrases.get(word, ()) if i >= last_end else ():
            end = i + len(listed.words)
            if sentence.small[i:end] != listed.words or not sentence.may_change(i, end):
                continue
            place = sentence.place(i, end, operator=[operator], follows=[listed.follows])
            if place.meets("refused phrases") or not place.meets("fitting phrases"):
                continue
            last_end = max(last_end, end)
            for new in sentence.drawn(rng, " ".join(listed.words), listed.others):
                if new not in sentence.text:
                    span = sentence.span(i, end)
                    yield edit(operator, listed.error_type, (*span, new.replace(" ,", ",")))
                    break


@cache
def _phrases(operator: str) -> Mapping[str, tuple[Phrase, ...]]:
    """The phrases of an operator by their first word, the longest first.

    A phrase with ``=`` before it in the list only stands for others.
    """
    phrases = []
    for name, error_type, follows, *members in rows(DATA / "phrases.tsv"):
        for member in members:
            if name != operator or member.startswith("="):
                continue
            others = tuple(other.removeprefix("=") for other in members if other != member)
            phrases.append(Phrase(tuple(member.split(" ")), error_type, follows, others))
    phrases.sort(key=lambda listed: -len(listed.words))
    return grouped((listed.words[0], listed) for listed in phrases)
