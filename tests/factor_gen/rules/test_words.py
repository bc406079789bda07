"""Verbs, nouns, properties, phrases and negation, with agreement."""

from __future__ import annotations

import random
from functools import partial

import pytest

from factor_gen.generate.rules import negation, phrases
from factor_gen.generate.rules.swaps import noun
from factor_gen.generate.rules.verbs import antonym
from factor_gen.generate.rules.words import frequency, nouns, verbs
from tests.factor_gen.rules.support import results


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The river rose sharply.", "The river fell sharply."),
        ("The river has risen sharply.", "The river has fallen sharply."),
        ("The river was rising sharply.", "The river was falling sharply."),
        ("She sold the mill.", "She bought the mill."),
        ("She will sell the mill.", "She will buy the mill."),
        ("The mill was sold by her aunt.", "The mill was bought by her aunt."),
        ("The council approved the plan.", "The council rejected the plan."),
        ("They turned on the lamp.", "They turned off the lamp."),
        ("She agreed to leave.", "She refused to leave."),
    ],
)
@pytest.mark.usefixtures("always")
def test_verbs_are_inflected(text: str, expected: str) -> None:
    assert expected in results(antonym, text)


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
    changed = results(antonym, text)
    assert not {
        each
        for each in changed
        if " fell " in each or "drop" in each or "sold" in each or "ule" in each or "Fall" in each
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The buyers left early.", "The sellers left early."),
        ("Her brother was a painter.", "Her sister was a painter."),
        ("There was an increase in rain.", "There was a decrease in rain."),
        ("The prime minister was there.", "The president was there."),
    ],
)
@pytest.mark.usefixtures("always")
def test_nouns_keep_their_number(text: str, expected: str) -> None:
    assert expected in results(noun, text)


@pytest.mark.usefixtures("always")
def test_nouns_in_names_and_compounds_stay() -> None:
    assert results(noun, "The Tarn Oil Company met the oil minister.") == set()
    assert not {each for each in results(noun, "Its central bank met.") if "company" in each}


@pytest.mark.parametrize(
    ("operator", "text", "expected"),
    [
        ("order", "He left before the storm.", "He left after the storm."),
        ("cause", "It opens if the roof is open.", "It opens unless the roof is open."),
        ("cause", "It closed due to the leak.", "It closed despite the leak."),
        ("comparison", "It sold more than 30 boats.", "It sold less than 30 boats."),
        ("adverb", "She always walked home.", "She never walked home."),
        ("place and time", "It grew in early spring.", "It grew in late spring."),
    ],
)
def test_phrases(operator: str, text: str, expected: str, always: None) -> None:
    assert expected in results(partial(phrases.phrase, operator), text)


def test_a_phrase_wants_what_follows(always: None) -> None:
    assert results(partial(phrases.phrase, "comparison"), "It was more than a mill.") == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The mill did not close.", "The mill closed."),
        ("The mill doesn't sell boats.", "The mill sells boats."),
        ("The mill was not sold.", "The mill was sold."),
        ("She won't leave.", "She will leave."),
        ("She cannot leave.", "She can leave."),
    ],
)
def test_denials_are_taken_back(text: str, expected: str) -> None:
    assert results(negation.taken_back, text) == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "The mill did not sell any boats.",
        "She did not stop and rest.",  # nor did she
        "They will not sell or buy boats.",
        "It cannot be said often enough.",
        "She did not sell boats at all.",
        "She did not sell boats except in May.",
        "She may not sell the mill.",  # and may
        "She might not sell the mill.",
    ],
)
def test_denials_that_cannot_be_taken_back_stay(text: str) -> None:
    assert results(negation.taken_back, text) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She bought the mill.", "She did not buy the mill."),
        ("The mill was sold to them.", "The mill was not sold to them."),
        ("The mill will close.", "The mill will not close."),
        ("The mill has closed.", "The mill has not closed."),
    ],
)
def test_denials_are_added(text: str, expected: str) -> None:
    assert expected in results(lambda sentence, rng: negation.denials(sentence), text)


def test_denials_are_added_seldom() -> None:
    text = "The mill will close."
    made = [
        each for seed in range(300) for each in results(negation.added, text, tries=1) if seed == 0
    ]
    sentence_rate = (
        sum(bool(list(negation.added(_read(text), random.Random(seed)))) for seed in range(400))
        / 400
    )
    assert len(made) <= 1
    assert 0.08 < sentence_rate < 0.22


def _read(text: str):  # type: ignore[no-untyped-def]
    from factor_gen.generate.rules.sentence import read
    from tests.factor_gen.rules.support import TAGGER

    return read(TAGGER, "", text)


def test_each_way_is_taken_as_often_as_the_other() -> None:
    common, rare, sentence = "sister", "niece", _read("Her sister met her niece.")
    assert frequency(common) > 2 * frequency(rare)
    ways = {
        (old, new): sum(
            bool(sentence.drawn(random.Random(f"{old}{i}"), old, [new])) for i in range(2000)
        )
        / 2000
        for old, new in ((common, rare), (rare, common))
    }
    assert frequency(common) * ways[common, rare] == pytest.approx(
        frequency(rare) * ways[rare, common], rel=0.1
    )


def test_the_lists_are_large_and_go_both_ways() -> None:
    pairs = {(verb.base, verb.opposite) for each in verbs().values() for verb, _ in each}
    assert len(pairs) >= 600
    assert all((other, base) in pairs for base, other in pairs)
    assert len({form for each in nouns().values() for form, _, _ in each}) >= 500
