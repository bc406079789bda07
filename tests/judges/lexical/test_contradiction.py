"""The rules by which the lexical judge finds that a passage contradicts a claim."""

from __future__ import annotations

import pytest

from judges.lexical.contradiction import find_contradiction, find_doubt
from judges.lexical.model import load_lexical_model
from judges.lexical.verdicts import find_verdict
from judges.lexical.words import ParsedPassage

PASSAGE = ParsedPassage(
    "The bridge opened in 1870 and is built of stone. It was designed by Otto Berg of Lund."
    " The bridge is not open to lorries. Vale beat Norbury in the final on 3 May."
    " Clean the filter every 6 weeks before you start the pump. The old pump is unsafe in winter."
    " The gate is closed on Sunday by the guard.",
    "Old Bridge",
)


@pytest.mark.parametrize(
    ("claim", "deciding_words"),
    [
        pytest.param("The Old Bridge opened in 1871.", ("1870",), id="year"),
        pytest.param("Clean the filter every 8 weeks.", ("6",), id="number"),
        pytest.param("Vale beat Norbury in the final on 3 June.", ("May",), id="month"),
        pytest.param("The gate is closed on Monday by the guard.", ("Sunday",), id="weekday"),
        pytest.param("Clean the filter every 6 months.", ("weeks",), id="unit"),
        pytest.param("The bridge was designed by Ida Holm of Lund.", ("Otto", "Berg"), id="name"),
        pytest.param("The bridge is open to lorries.", ("not", "open"), id="negation too few"),
        pytest.param("The bridge is not built of stone.", ("built",), id="negation too many"),
        pytest.param("Clean the filter after you start the pump.", ("before",), id="opposite word"),
        pytest.param("The old pump is safe in winter.", ("unsafe",), id="denying prefix"),
        pytest.param(
            "Norbury beat Vale in the final on 3 May.", ("Vale", "Norbury"), id="order of names"
        ),
    ],
)
def test_sentence_with_one_different_detail_contradicts_the_claim(claim, deciding_words):
    """The words that decide are shown to the user in the passage."""
    contradiction = find_contradiction(claim, [ParsedPassage("Nothing else."), PASSAGE])

    assert contradiction is not None
    assert contradiction.passage == 1
    assert contradiction.deciding_words == deciding_words


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param("The bridge opened in 1870.", id="the same"),
        pytest.param("The theatre opened in 1871.", id="another subject"),
        pytest.param("The bridge was painted by a sailor in 1871.", id="another event"),
        pytest.param("Ida Holm opened the bridge in 1871.", id="another name and number"),
        pytest.param("The bridge opened and is built of wood.", id="other words without opposite"),
    ],
)
def test_identical_and_unrelated_sentences_contradict_nothing(claim):
    """A wrong "contradicted" costs more trust than a missed one."""
    assert find_contradiction(claim, [PASSAGE]) is None


def test_supporting_passage_outweighs_a_contradicting_passage():
    """The contradicting passage may be about another bridge."""
    contradicting_passage = ParsedPassage("The bridge opened in 1869.")
    supporting_passage = ParsedPassage("The bridge opened in 1870 and is built of stone.")

    contradiction = find_contradiction(
        "The bridge opened in 1870.", [contradicting_passage, supporting_passage]
    )

    assert contradiction is None


def test_support_is_decided_on_one_passage_at_a_time():
    """Half of the words in each of two passages do not make the claim true."""
    halves = [
        ParsedPassage("Ida Holm painted ships in Lund.", "Ida Holm"),
        ParsedPassage("The town of Arnby has a harbour and a theatre.", "Arnby"),
    ]

    finding = find_verdict(load_lexical_model(), "Ida Holm lived in the town of Arnby.", halves)

    assert finding.verdict == "not_found"


def test_unrelated_numbers_of_a_long_sentence_contradict_nothing():
    """The 2.9% and 4.8% are differences and no scores."""
    claim = "The score of the first model is 94.8."
    passage = (
        "The score of the first model is higher than that of the second by 2.9%, but the other"
        " metric shows that it is less factual than the second by 4.8% on all data."
    )

    assert find_contradiction(claim, [ParsedPassage(passage)]) is None


def test_a_claim_about_a_woman_is_not_contradicted_by_a_sentence_about_a_man():
    """The sentence is about someone else, however alike the words."""
    passage = ParsedPassage("He died at Lund in 1806, in a rented room.", "Otto Berg")

    assert find_contradiction("She died at Lund in 1856, in a rented room.", [passage]) is None


def test_contradicting_an_unnamed_person_requires_all_other_words():
    """ "She" may be anyone, so that only the same words show that the sentence is about her."""
    passage = ParsedPassage("She died of typhus at Lund in 1806, in a rented room.", "Ida Holm")

    same_words = find_contradiction("She died of typhus at Lund in 1856, in a room.", [passage])
    another_word = find_contradiction("She died of gout at Lund in 1856, in a room.", [passage])

    assert same_words is not None
    assert another_word is None


@pytest.mark.parametrize(
    ("claim", "doubt"),
    [
        pytest.param(
            "The gate is closed on Sunday by the porter.",
            "the passage has guard where the claim has porter",
            id="another word in the same sentence",
        ),
        pytest.param("The gate is closed by the guard.", "", id="words left out"),
        pytest.param("On Sunday the guard shuts the gate.", "", id="other words and another order"),
        pytest.param("The Old Bridge was designed by Otto Berg.", "", id="name in the title"),
    ],
)
def test_different_words_in_one_place_raise_a_doubt(claim, doubt):
    """ "Porter" in the place of "guard" may be another name for him, or a mistake."""
    assert find_doubt(claim, PASSAGE) == doubt


@pytest.mark.parametrize(
    ("claim", "doubt"),
    [
        ("The model solves 48.8% of its problems.", "the passage does not have the number 48.8"),
        ("One model solves the problems.", ""),
        (
            "Sampling is an ineffective strategy for problems.",
            "the passage has effective where the claim has ineffective",
        ),
    ],
)
def test_missing_numbers_and_opposites_raise_doubts(claim, doubt):
    """A doubt keeps a claim from being supported by the words around it."""
    passage = ParsedPassage(
        "The model solves 28.8% of the problems, and sampling is a surprisingly effective strategy."
    )

    assert find_doubt(claim, passage) == doubt


def test_doubted_claim_is_not_found_despite_shared_words():
    """One verb turns the meaning, though all other words agree."""
    passage = ParsedPassage("Soren Abel supported the newspaper Morning Post of Aarby.", "Abel")
    claim = "Soren Abel criticised the newspaper Morning Post of Aarby."

    finding = find_verdict(load_lexical_model(), claim, [passage])

    assert finding.verdict == "not_found"
    assert finding.reason == "the passage has supported where the claim has criticised"


def test_supporting_passage_outweighs_a_doubt():
    """The second passage says the claim word for word."""
    passages = [
        ParsedPassage("The gate is closed on Sunday by the porter.", "Gate"),
        ParsedPassage("The gate is closed on Sunday by the guard.", "Gate"),
    ]

    finding = find_verdict(
        load_lexical_model(), "The gate is closed on Sunday by the guard.", passages
    )

    assert (finding.verdict, finding.passage) == ("supported", 1)
