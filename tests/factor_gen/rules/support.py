"""What the tests of the operators share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from factor_gen.generate.rules import negation
from factor_gen.generate.rules.edits import (
    SentenceEdit,
    adjust_articles_and_capitals,
    apply_replacements,
)
from factor_gen.generate.rules.generator import OPERATORS
from factor_gen.generate.rules.sentence import TaggedSentence, tag_sentence
from factor_gen.text.pattern import PatternTagger

TAGGER = PatternTagger()
Operator = Callable[[TaggedSentence, random.Random], Iterable[SentenceEdit]]


def operator(name: str) -> Operator:
    """The operator of that name; ``negation added`` makes every denial."""
    if name == "negation added":
        return lambda sentence, rng: negation.add_negation(
            replace(sentence, offers_all_edits=True), rng
        )
    return OPERATORS[name]


def results(operator: Operator, text: str, prefix: str = "", tries: int = 12) -> set[str]:
    """All that the operator makes of the text over a few seeds."""
    sentence = tag_sentence(TAGGER, prefix, text)
    return {
        apply_replacements(text, adjust_articles_and_capitals(text, edit.replacements))
        for seed in range(tries)
        for edit in operator(sentence, random.Random(seed))
    }


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every chance to change a word, however rare the new one is."""
    monkeypatch.setattr(
        TaggedSentence,
        "draw_substitutes",
        lambda _, rng, old, others: rng.sample(list(others), len(others)),
    )
