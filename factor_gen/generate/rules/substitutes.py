"""Verbs, nouns, adverbs and other phrases, each for another of its line in the list."""

import random
from collections.abc import Iterator, Sequence

from factor_gen.generate.rules.edits import SentenceEdit, edit
from factor_gen.generate.rules.sentence import TaggedSentence
from factor_gen.generate.rules.words import (
    ANTONYM,
    FORMS,
    NOUN,
    Listed,
    Substitute,
    by_first_word,
)

_MOST_OTHERS = 2  # edits of one word


def substitutes(
    operator: str, sentence: TaggedSentence, rng: random.Random
) -> Iterator[SentenceEdit]:
    """Replace each word of the operator's lines where another may stand.

    Where two begin with the same word, the longer is meant: *set up*, and not *set*.
    """
    last_end = 0
    for i, word in enumerate(sentence.small):
        if i < last_end:
            continue
        for listed in by_first_word(operator).get(word, ()):
            end = i + len(listed.words)
            is_there = sentence.small[i:end] == listed.words and end >= last_end
            if not is_there or not sentence.may_change(i, end):
                continue
            others = _fitting(operator, sentence, i, end, listed)
            if not others:
                continue
            last_end = end
            span = sentence.span(i, end)
            drawn = sentence.drawn(rng, listed.word.text, [other.text for other in others])
            fitting = [
                new
                for new in drawn
                if operator not in FORMS
                or sentence.contexts.fit(sentence.text, *span, new, in_slot=operator == NOUN)
            ]
            for new in fitting[:_MOST_OTHERS]:
                yield edit(operator, listed.error_type, (*span, new.replace(" ,", ",")))


def _fitting(
    operator: str, sentence: TaggedSentence, i: int, end: int, listed: Listed
) -> list[Substitute]:
    """What may stand for the tokens, by the tables of ``conditions.yaml``.

    Another form of either word elsewhere would be at odds with the change, or say the same.
    """
    rest = {*sentence.small[:i], *sentence.small[end:]}
    others = [
        other
        for other in listed.others
        if other.text not in sentence.text and (other.forms - listed.word.forms).isdisjoint(rest)
    ]
    place = sentence.place(
        i,
        end,
        operator=[operator],
        frame=[listed.frame],
        form=[listed.form],
        others=[other.base for other in others],
    )
    table = operator if operator in FORMS else "phrase"
    is_odd = not listed.word.forms.isdisjoint(rest)
    if is_odd or place.matches(f"refused {table}") or not place.matches(f"fitting {table}"):
        return []
    if operator == ANTONYM and listed.form != form_of(sentence, i, _possible(sentence.small[i])):
        return []
    return others


def form_of(sentence: TaggedSentence, i: int, possible: Sequence[str]) -> str:
    """Tell the form of the verb at token ``i``.

    Args:
        possible: The Penn tags of the forms that have the verb's spelling.

    Returns:
        One of the tags; empty if the token is no verb, or it cannot be told.
    """
    return sentence.place(i, possible=possible).first_result("verb forms") or ""


def _possible(word: str) -> list[str]:
    return [listed.form for listed in by_first_word(ANTONYM)[word]]
