"""Helpers for the tests of the rules' operators."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from factor_gen.generate.rules.edits import (
    SentenceEdit,
    adjust_articles_and_capitals,
    apply_replacements,
)
from factor_gen.generate.rules.sentence import TaggedSentence, tag_sentence
from factor_gen.text.pattern import PatternTagger

TAGGER = PatternTagger()

Operator = Callable[[TaggedSentence, random.Random], Iterable[SentenceEdit]]
"""Makes edits of a sentence, with random numbers that decide which."""


def edited_sentences(
    operator: Operator, text: str, prefix: str = "", num_seeds: int = 12
) -> set[str]:
    """Return the sentences that an operator makes of a sentence.

    Args:
        operator: The operator.
        text: The sentence.
        prefix: The text before it.
        num_seeds: How many seeds are tried. Each makes other random numbers.
    """
    sentence = tag_sentence(TAGGER, prefix, text)
    sentences = set()
    for seed in range(num_seeds):
        for edit in operator(sentence, random.Random(seed)):
            replacements = adjust_articles_and_capitals(text, edit.replacements)
            sentences.add(apply_replacements(text, replacements))
    return sentences
