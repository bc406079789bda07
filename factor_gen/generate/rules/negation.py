"""A sentence denied, or its denial taken back."""

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from factor_gen.generate.rules.edits import SentenceEdit, edit
from factor_gen.generate.rules.sentence import TaggedSentence
from factor_gen.generate.rules.substitutes import form_of
from factor_gen.generate.rules.words import WORDS, inflect
from factor_gen.records import PREDICATE
from factor_gen.text.pattern import lemmas

ADDED = 0.15
"""How often a denial is offered of a sentence in which there is enough else to change.

Few true sentences have a *not*, so few false ones shall.
"""

_DO_FORMS = {"do": "VBP", "does": "VBZ", "did": "VBD"}
_CLIPPED = {"wo": "will", "ca": "can", "sha": "shall"}
_FARTHEST_ORDER = 40  # tokens before an order, as in "to see the yard, open the gate"
_FORBIDDEN = "do not {word} | never {word}"


class Denial(NamedTuple):
    """A way to deny a sentence."""

    i: int
    """The token that is replaced."""
    new: str
    """With *not*, such as *did not rise*."""
    in_time: str
    """In other words, such as *never rose*."""


def taken_back(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Make *rose* of *did not rise*, and *can* of *cannot*."""
    for i, word in enumerate(sentence.small):
        is_denial = word == "cannot" or word in WORDS["not"]
        if not is_denial or sentence.place(i).matches("kept denials"):
            continue
        first, end = i - 1, i + 1
        helper = sentence.place(i).value_at("word", first)
        if word == "cannot":
            first, affirmed = i, "can"
        elif helper in _DO_FORMS:
            end, verb = i + 2, sentence.place(i).value_at("word", i + 1)
            affirmed = inflect(verb, _DO_FORMS[helper]) if verb in lemmas(verb) else ""
        else:
            affirmed = _CLIPPED.get(helper, helper) if helper in WORDS["auxiliaries"] else ""
        if affirmed:
            yield edit("negation removed", PREDICATE, (*sentence.span(first, end), affirmed))


def added(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Make *did not rise* of *rose*, and *will not* of *will*; seldom, see `ADDED`."""
    possible = denials(sentence)
    if not sentence.every:
        possible = [rng.choice(possible)] if rng.random() < ADDED and possible else []
    for denial in possible:
        span = sentence.span(denial.i, denial.i + 1)
        yield edit("negation added", PREDICATE, (*span, denial.new))


def in_time(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Put each denial in other words where nothing else is left: *is no longer*, *was never*."""
    if not sentence.spare or sentence.place(0).matches("no second denial"):
        return
    for denial in denials(sentence):
        span = sentence.span(denial.i, denial.i + 1)
        yield edit("negation in time", PREDICATE, (*span, denial.in_time))


@lru_cache(maxsize=1)  # Two operators ask for them, one after the other.
def denials(sentence: TaggedSentence) -> list[Denial]:
    """Find each way in which the sentence can be denied."""
    found = [(i, _FORBIDDEN) for i in _orders(sentence)]
    # "To see the list, the button is not used" would deny the purpose.
    if sentence.tokens and not sentence.place(0).matches("purpose"):
        found += [(i, _denial(sentence, i)) for i in range(len(sentence.tokens))]
    ways = []
    for i, denial in found:
        if denial:
            word = sentence.small[i]
            filled = denial.format(word=word, base="".join(lemmas(word)[:1]))
            ways.append(Denial(i, *filled.split(" | ")))
    return ways


def _orders(sentence: TaggedSentence) -> Iterator[int]:
    """The verbs that order something: *press the key*, also after *to change it,*."""
    starts = [0]
    opening = sentence.small[:_FARTHEST_ORDER]
    if "," in opening and sentence.place(0).matches("begins with to"):
        starts.append(opening.index(",") + 1)
    for i in starts:
        word = sentence.place(i).value_at("word", i)
        if word in lemmas(word) and sentence.place(i).matches("orders"):
            yield i


def _denial(sentence: TaggedSentence, i: int) -> str:
    """How the verb at a token is denied: a result of the table ``denials``.

    Returns:
        The result; empty if it is no verb, or its denial does not deny the sentence.
    """
    place, tag = sentence.place(i), sentence.tokens[i].tag
    end = i + 2 if place.matches("before manner") else i + 1
    denial = sentence.place(i, end).first_result("denials")
    if not denial or place.matches("kept statements"):
        return ""
    if "{base}" in denial:
        word = sentence.small[i]
        base = "".join(lemmas(word)[:1])
        if not base or inflect(base, tag) != word:
            return ""
        if tag == "VBD":
            # A participle, perhaps, as in "the houses sold in May were old".
            is_both = inflect(base, "VBN") == word and place.matches("participle")
            if is_both or form_of(sentence, i, ("VBD", "VBN")) != "VBD":
                return ""
        elif base in WORDS["verbs without do"]:
            return ""
    return denial
