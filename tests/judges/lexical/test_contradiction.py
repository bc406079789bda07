"""The rules by which the lexical judge finds that a passage contradicts a claim."""

from __future__ import annotations

import pytest

from judges.lexical.contradiction import find_contradiction
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
def test_a_sentence_that_differs_in_one_detail_contradicts_the_claim(claim, deciding_words):
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
def test_a_sentence_that_is_the_same_or_about_something_else_contradicts_nothing(claim):
    assert find_contradiction(claim, [PASSAGE]) is None


def test_a_passage_that_says_the_claim_outweighs_one_that_differs():
    passages = [ParsedPassage("The bridge opened in 1869."), PASSAGE]

    assert find_contradiction("The bridge opened in 1870.", passages) is None


def test_support_is_decided_on_one_passage_at_a_time():
    halves = [
        ParsedPassage("Ida Holm painted ships in Lund.", "Ida Holm"),
        ParsedPassage("The town of Arnby has a harbour and a theatre.", "Arnby"),
    ]

    finding = find_verdict(load_lexical_model(), "Ida Holm lived in the town of Arnby.", halves)

    assert finding.verdict == "not_found"


def test_a_number_of_a_long_sentence_about_more_does_not_contradict_a_short_claim():
    claim = "The score of the first model is 94.8."
    passage = (
        "The score of the first model is higher than that of the second by 2.9%, but the other"
        " metric shows that it is less factual than the second by 4.8% on all data."
    )

    assert find_contradiction(claim, [ParsedPassage(passage)]) is None
