"""Nouns, each for one of its kind or its opposite."""

import random
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.pronouns import known_sexes
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import DATA, WORDS, nouns
from factor_gen.records import ENTITY
from factor_gen.text.analysis import MONEY, NUMBER, PERCENT
from factor_gen.text.lists import entries

SET_PHRASES = entries(DATA / "set_phrases.txt")  # two words that are the name of a thing
_NEAR = 30  # tokens within which words of direction are taken to speak of the same thing


def keeps_sense(sentence: Sentence, i: int, old: str) -> bool:
    """Whether no word near token ``i`` says the same as the ``old`` word: up and down are said
    twice in such sentences (*rose ... to a new high*), and a change of one would leave the sentence
    at odds with itself."""
    first = old.split(" ")[0].lower()
    same = (
        WORDS["up"] if first in WORDS["up"] else WORDS["down"] if first in WORDS["down"] else None
    )
    if same is None:
        return True
    if (
        sentence.words & {"from", "compared", "versus"}
        and sum(each.kind in (MONEY, NUMBER, PERCENT) for each in sentence.entities) > 1
    ):
        return False  # the amounts themselves say which way it went
    near = sentence.small[max(0, i - _NEAR) : i] + sentence.small[i + 1 : i + 1 + _NEAR]
    return not any(word in same for word in near)


def noun(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """A noun for another of its line in the list."""
    for i, word in enumerate(sentence.small):
        for words, tag, others in nouns().get(word, ()):
            end = i + len(words)
            if sentence.small[i:end] != words or not _is_noun(sentence, i, end, tag):
                continue
            if _is_said_again(sentence, i, end) or _sex_is_told(sentence, words[-1]):
                continue
            fit = [
                each
                for each in others
                if not _heard(each, words, sentence) and sentence.takes(i, end, each, in_slot=True)
            ]
            old = " ".join(words)
            for new in sentence.drawn(rng, old, fit)[:2]:
                if keeps_sense(sentence, i, old):
                    yield edit("noun", ENTITY, (*sentence.span(i, end), new))
            break


def _is_said_again(sentence: Sentence, i: int, end: int) -> bool:
    """Whether a word of the edit, in either number, stands elsewhere too: the one changed would be
    at odds with the other."""
    stems = {word.rstrip("s") for word in sentence.small[i:end]}
    return any(word.rstrip("s") in stems for word in (*sentence.small[:i], *sentence.small[end:]))


def _sex_is_told(sentence: Sentence, word: str) -> bool:
    """Whether a pronoun or a first name says of what sex the man or woman is that the noun
    means."""
    sex = "m" if word in WORDS["male"] else "f" if word in WORDS["female"] else None
    return sex is not None and sex in known_sexes(sentence)


def _heard(new: str, old: tuple[str, ...], sentence: Sentence) -> bool:
    """Whether a word of the new noun, in either number, is in the sentence already."""
    stems = {word.rstrip("s") for word in new.split(" ")} - {word.rstrip("s") for word in old}
    return any(word.rstrip("s") in stems for word in sentence.words)


def _is_noun(sentence: Sentence, i: int, end: int, tag: str) -> bool:
    """Whether the tokens are a noun there: tagged so, and governed as one."""
    before, governor, following = sentence.tag(i - 1), sentence.word(i - 1), sentence.tag(end)
    last, is_plural = sentence.small[end - 1], tag == "NNS"
    return not (
        not sentence.is_free(*sentence.span(i, end))
        or (i > 0 and sentence.tokens[i].text != sentence.small[i])
        or sentence.is_joined(i, end, "-", "/")
        or (
            governor in ("", ",", '"', "“") and sentence.word(end) in (",", "!", "?")
        )  # said to somebody
        or not sentence.tag(end - 1).startswith("NN")
        or (sentence.tag(end - 1) == "NNS") != is_plural
        or before in ("TO", "MD", "PRP", "WP", "WDT")
        or governor in ("to", "not", "n't", ")", "chief", "vice", "deputy")
        or f"{last} {sentence.word(end)}"
        in SET_PHRASES  # *defeat by* and *victory over* are no opposites
        or f"{governor} {sentence.small[i]}" in SET_PHRASES
        or (following == "JJ" and last in ("official", "executive"))
        # COVID-19 pandemic, Apple store
        or (i > 1 and sentence.tokens[i - 1].text[:1].isupper() and governor not in ("the", "a"))
        # a compound has a meaning of its own: oil company, bank holiday, top official
        or following.startswith("NN")
        or sentence.word(end) == "'"
        or (before.startswith("NN") and governor != "%")
        # at home, by train, in part: set phrases
        or (governor in ("at", "by", "on", "in") and not is_plural and end - i == 1)
        or (sentence.kind_at(i) and end - i == 1)
    )
