"""What the operators of the rules make of sentences, and which sentences they leave unchanged."""

from __future__ import annotations

import pytest

from factor_gen.generate.rules.generator import OPERATORS
from factor_gen.text.analysis import ORGANISATION, PLACE
from tests.factor_gen.cases import cases_by_key
from tests.factor_gen.rules.support import TAGGER, edited_sentences

CASES = "rules/operators.yaml"

pytestmark = pytest.mark.usefixtures("every_chance")


@pytest.mark.parametrize(("name", "text", "expected"), cases_by_key(CASES, "changes"))
def test_operator_can_make_the_expected_sentence(name: str, text: str, expected: str) -> None:
    """Random numbers choose among the edits, so 60 seeds are tried."""
    assert expected in edited_sentences(OPERATORS[name], text, num_seeds=60)


@pytest.mark.parametrize(("name", "text", "expected"), cases_by_key(CASES, "only change"))
def test_operator_makes_only_the_expected_sentence(name: str, text: str, expected: str) -> None:
    """The sentence leaves no choice to the random numbers."""
    assert edited_sentences(OPERATORS[name], text, num_seeds=1) == {expected}


@pytest.mark.parametrize(("name", "text"), cases_by_key(CASES, "unchanged"))
def test_an_operator_leaves_a_sentence_unchanged(name: str, text: str) -> None:
    """Any edit of these sentences would be no English, or no contradiction."""
    assert edited_sentences(OPERATORS[name], text) == set()


@pytest.mark.parametrize(("name", "text", "wrong_words"), cases_by_key(CASES, "stays"))
def test_operator_makes_no_sentence_with_the_wrong_words(
    name: str, text: str, wrong_words: str
) -> None:
    """Each case has words that an edit of its sentence must not lead to.

    For "It visited three towns: Tarn, Vale and Moor.", this is "towns", since another number would
    not match the list.
    """
    # The rules may take names for a replacement from here.
    prefix = "Vale Group sold it to Moor Group in Berlin. "

    sentences = edited_sentences(OPERATORS[name], text, prefix)

    wrong_sentences = [sentence for sentence in sentences if wrong_words in sentence]
    assert wrong_sentences == []


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("He grew up in the town of Tarn near a lake.", "Tarn", PLACE),
        ("They met on the island of Vale Moor again.", "Vale Moor", PLACE),
        ("She ran the Tarn Library for years.", "Tarn Library", ORGANISATION),
        ("She ran the Vale Observatory for years.", "Vale Observatory", ORGANISATION),
        ("She ran the Moor Conservatory for years.", "Moor Conservatory", ORGANISATION),
    ],
)
def test_kind_of_name_is_inferred_from_nearby_words(text: str, name: str, kind: str) -> None:
    """A name is replaced by one of the same kind, such as a place by a place."""
    entities = TAGGER.analyse(text).entities

    assert (name, kind) in {(entity.text, entity.kind) for entity in entities}
