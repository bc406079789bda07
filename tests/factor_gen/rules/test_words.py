"""The lists of the rules, and how often a word of them is changed."""

from __future__ import annotations

import random

import pytest

from factor_gen.generate.rules import negation
from factor_gen.generate.rules.sentence import TaggedSentence, tag_sentence
from factor_gen.generate.rules.words import DATA, word_frequency
from factor_gen.text.lists import read_rows
from tests.factor_gen.cases import cases_by_key
from tests.factor_gen.rules.support import TAGGER, operator, results


@pytest.mark.parametrize(
    "text",
    [
        "The rise surprised them.",  # a noun
        "It bought back the mill.",  # a phrasal verb of another meaning
        "The price rose after the other price fell.",  # the opposite is there already
        "The company predicts sales will fall.",  # a clause, no object
        "He said “The Rising Tide” closes.",  # a title
        "The price rose to a new high.",  # would be at odds with "high"
    ],
)
@pytest.mark.usefixtures("always")
def test_verbs_that_stay(text: str) -> None:
    changed = results(operator("antonym"), text)
    opposites = (" fell ", "drop", "sold", "ule", "Fall")
    assert not [sentence for sentence in changed if any(word in sentence for word in opposites)]


@pytest.mark.usefixtures("always")
def test_a_noun_in_a_compound_stays() -> None:
    changed = results(operator("noun"), "Its central bank met.")
    assert not [sentence for sentence in changed if "company" in sentence]


def test_denials_are_added_seldom() -> None:
    sentence = tag_sentence(TAGGER, "", "The mill will close.")
    added = [list(negation.add_negation(sentence, random.Random(seed))) for seed in range(400)]
    assert 0.08 < sum(map(bool, added)) / 400 < 0.22


@pytest.mark.parametrize(("text", "verb", "expected"), cases_by_key("rules/qualified.yaml"))
def test_a_verb_is_qualified_in_a_dependent_clause_or_by_its_subject(
    text: str, verb: str, expected: bool
) -> None:
    sentence = tag_sentence(TAGGER, "", text)
    assert (
        sentence.context_of_tokens(sentence.lowercase_words.index(verb)).matches("qualified")
        is expected
    )


@pytest.mark.parametrize(
    ("old", "other", "every", "share"),
    [
        ("mill", "house", False, 1.0),  # the commoner word is always taken
        ("house", "mill", False, None),  # the rarer one as often as it is met
        ("bought", "sold", False, None),
        ("mill", "zzqxv", False, None),  # a word nobody knows
        ("zzqxv", "mill", False, 1.0),
        ("mill", "zzqxv", True, 1.0),  # where there is little else to change
    ],
)
def test_a_word_gives_way_to_another_as_often_as_that_is_met(
    old: str, other: str, every: bool, share: float | None
) -> None:
    sentence = TaggedSentence("It is a mill.", (), (), (), offers_all_edits=every)
    drawn = [sentence.draw_substitutes(random.Random(seed), old, [other]) for seed in range(4000)]
    expected = min(1.0, word_frequency(other) / word_frequency(old)) if share is None else share
    assert drawn.count([other]) / 4000 == pytest.approx(expected, abs=0 if share else 0.03)


@pytest.mark.parametrize("name", ["substitutes.tsv", "set_phrases.txt", "fixed_phrases.txt"])
def test_no_line_is_twice_in_a_list(name: str) -> None:
    lines = read_rows(DATA / name)
    assert sorted(set(lines)) == sorted(lines)
