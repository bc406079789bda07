"""A sentence denied, or its denial taken back."""

from __future__ import annotations

import random
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.verbs import form_of
from factor_gen.generate.rules.words import DATA, inflect
from factor_gen.records import PREDICATE
from factor_gen.text.lists import word_set
from factor_gen.text.tags import BE, NOT, lemmas

ADDED = 0.15
"""How often a denial is offered of a sentence in which there is enough else to change: few true sentences have a *not*, and few
false ones shall."""

_AUXILIARIES = BE | frozenset(["has", "have", "had", "will", "would", "can", "could", "may", "might", "must", "should"])
_DO_FORMS = {"do": "VBP", "does": "VBZ", "did": "VBD"}
_CLIPPED = {"wo": "will", "ca": "can", "sha": "shall"}
# words that only stand in denied sentences, or only in others
_DENIED_ONLY = word_set(DATA, "denied only")
_AFFIRMED_ONLY = word_set(DATA, "affirmed only")


def taken_back(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """*Did not rise* becomes *rose*, *cannot* becomes *can*."""
    for i, word in enumerate(sentence.small):
        token = sentence.tokens[i]
        if word == "cannot" and sentence.is_free(token.start, token.end) and not _later(sentence, i, _DENIED_ONLY):
            yield edit("negation removed", PREDICATE, (token.start, token.end, "can"))
        if (
            word not in NOT
            or i == 0
            or not sentence.is_free(token.start, token.end)
            or _later(sentence, i, _DENIED_ONLY)
        ):
            continue
        if sentence.word(i + 1) in ("only", "just", "even", "all", "every", "that", "be", "to", "least", ","):
            continue
        helper = sentence.tokens[i - 1]
        small = helper.text.lower()
        if small in _DO_FORMS and sentence.tag(i + 1) in ("VB", "VBP", "NN") and lemmas(sentence.word(i + 1), "VERB"):
            verb = sentence.tokens[i + 1]
            if verb.text.islower() and verb.text in lemmas(verb.text, "VERB"):
                yield edit(
                    "negation removed", PREDICATE, (helper.start, verb.end, inflect(verb.text, _DO_FORMS[small]))
                )
        elif small in _AUXILIARIES or small in _CLIPPED:
            new = _CLIPPED.get(small, helper.text)
            yield edit("negation removed", PREDICATE, (helper.start, token.end, new))


def added(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """*Rose* becomes *did not rise*, *will* becomes *will not*; seldom, see ``ADDED``."""
    if rng.random() < ADDED:
        found = list(denials(sentence))
        if found:
            yield rng.choice(found)


def denials(sentence: Sentence) -> Iterator[Edit]:
    """Each way to deny the sentence."""
    for i, word in enumerate(sentence.small):
        token = sentence.tokens[i]
        if not sentence.is_free(token.start, token.end) or not token.text.islower():
            continue
        if (
            _later(sentence, i, _AFFIRMED_ONLY)
            or _before(sentence, i, _AFFIRMED_ONLY)
            or _clause_is_fronted(sentence, i)
        ):
            continue
        if _is_explained(sentence, i):
            continue
        following, next_word = sentence.tag(i + 1), sentence.word(i + 1)
        if _takes_not(word, sentence.tag(i), following, next_word):
            yield edit("negation added", PREDICATE, (token.start, token.end, f"{word} not"))
        elif (
            sentence.tag(i) == "VBD"
            and word not in BE
            and word not in ("had", "did", "said", "told", "added")
            and _is_plain(sentence, i)
        ):
            base = lemmas(word, "VERB")
            if base and inflect(base[0], "VBD") == word:
                yield edit("negation added", PREDICATE, (token.start, token.end, f"did not {base[0]}"))


def _takes_not(word: str, tag: str, following: str, next_word: str) -> bool:
    """Whether the word is an auxiliary, or a form of *be* that a predicate follows."""
    if word in ("is", "are", "was", "were"):
        return following in ("VBG", "VBN", "DT", "JJ") or next_word in ("expected", "likely")
    if word in ("has", "have", "had"):
        return following == "VBN"
    return word in ("will", "would", "could", "should") and tag == "MD" and following == "VB"


def _is_plain(sentence: Sentence, i: int) -> bool:
    """Whether the past tense there is beyond doubt: a pronoun or a name before it, an object or preposition after it."""
    possible = ("VBD", "VBN")
    before = sentence.tag(i - 1)
    return (
        form_of(sentence, i, possible) == "VBD"
        and before in ("PRP", "NNP", "NNS", "NN")
        and sentence.tag(i + 1) not in ("VBN", "RB")
    )


def _clause(sentence: Sentence, i: int, step: int) -> Iterator[str]:
    at = i + step
    while 0 <= at < len(sentence.tokens) and sentence.word(at) not in (",", ".", ";", ":"):
        yield sentence.word(at)
        at += step


def _later(sentence: Sentence, i: int, words: frozenset[str]) -> bool:
    return any(word in words for word in _clause(sentence, i, 1))


def _before(sentence: Sentence, i: int, words: frozenset[str]) -> bool:
    return any(word in words for word in _clause(sentence, i, -1))


def _is_explained(sentence: Sentence, i: int) -> bool:
    """Whether a participle after the clause says how it came about, which a denial would not fit: *rose, lifted by*."""
    at = i + 1
    while at < len(sentence.tokens) and sentence.word(at) not in (",", ".", ";", ":"):
        at += 1
    return sentence.word(at) == "," and sentence.tag(at + 1) in ("VBN", "VBG", "VBD")


def _clause_is_fronted(sentence: Sentence, i: int) -> bool:
    """Whether the verb stands before its subject, as in a question or *said the minister*."""
    return (
        i == 0
        or sentence.word(i - 1) == "there"
        or sentence.tag(i - 1) in ("WRB", ",", "IN", "DT", "``", "''")
        or sentence.word(i - 1) in ('"', "”", "“")
    )
