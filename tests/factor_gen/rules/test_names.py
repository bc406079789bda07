"""Names are replaced by others of the document."""

from __future__ import annotations

import pytest

from factor_gen.generate.rules.names import replace_names
from factor_gen.generate.rules.sentence import tag_sentence
from factor_gen.text.names import may_be_same
from tests.factor_gen.rules.support import TAGGER, edited_sentences

PREFIX = (
    "Mary Hollis, director of Tarn Shipping Group, met Peter Lund and Mary Hollis again in Oslo."
    " Anna Berg said Norway had sold the mill to Vale Shipping Group. Peter Lund agreed with Mary"
    " Hollis. "
)
"""A document with three people, two organisations and two places."""


def replace_names_in(text: str, prefix: str = PREFIX) -> set[str]:
    """Return the sentences in which a name of a sentence is replaced by one of the document."""
    return edited_sentences(replace_names, text, prefix)


def test_a_surname_is_the_name_of_a_person_who_was_named_before() -> None:
    sentence = tag_sentence(TAGGER, "Mary Hollis spoke.", "Then Hollis was brief.")

    assert [(name.text, name.kind) for name in sentence.entities] == [("Hollis", "person")]


def test_a_person_is_replaced_by_another_of_the_document() -> None:
    sentences = replace_names_in("Peter Lund bought the mill.")

    assert sentences
    assert sentences <= {"Mary Hollis bought the mill.", "Anna Berg bought the mill."}


def test_a_surname_is_replaced_by_a_surname() -> None:
    assert "Berg bought the mill." in replace_names_in("Lund bought the mill.")


def test_an_organisation_is_not_replaced_by_one_that_shares_a_word() -> None:
    """Both may be names of the same organisation."""
    assert replace_names_in("Tarn Shipping Group bought the mill.") == set()


def test_every_mention_of_a_person_is_replaced() -> None:
    sentences = replace_names_in("Lund said Lund bought it.")

    assert sentences
    assert not [sentence for sentence in sentences if "Lund" in sentence]


def test_a_person_is_not_replaced_by_one_whom_a_pronoun_excludes() -> None:
    sentences = replace_names_in("Lund said he bought the mill.")

    assert "Berg said he bought the mill." not in sentences


@pytest.mark.parametrize(
    ("open_sentence", "closed_sentence"),
    [
        ("She sees Peter Lund.", "She saw Peter Lund."),
        ("She often saw Peter Lund.", "She once saw Peter Lund."),
        ("She saw Peter Lund as well as others.", "She saw Peter Lund then."),
        ("She saw Peter Lund and left.", "She saw Peter Lund, who left."),
        ("She came for Peter Lund.", "She came with Peter Lund."),
        ("She was known as Peter Lund.", "She was not Peter Lund."),
        ("She also bought it from Lund.", "She bought it from Lund."),
        ("Most mills were of Vale Shipping Group.", "The mills were of Bank of Tarn."),
    ],
)
def test_a_name_is_not_replaced_if_the_sentence_may_be_true_of_others_as_well(
    open_sentence: str, closed_sentence: str
) -> None:
    """The second sentence of each case is similar, but cannot be true of others."""
    assert replace_names_in(open_sentence) == set()
    assert replace_names_in(closed_sentence)


def test_a_person_without_a_first_name_in_the_document_is_not_replaced() -> None:
    assert replace_names_in("Mr. Lurk bought the mill.") == set()


@pytest.mark.parametrize("full_name", ["Emma Lurk", "Mrs. Quux Lurk"])
def test_a_person_with_a_first_name_in_the_document_is_replaced(full_name: str) -> None:
    assert replace_names_in("Mr. Lurk bought the mill.", f"{full_name} came. {PREFIX}")


@pytest.mark.parametrize(
    ("name", "other_name"),
    [
        ("Lund", "Peter Lund"),
        ("United States", "U.S."),
        ("World Health Organization", "WHO"),
        ("Britain", "UK"),
    ],
)
def test_two_names_of_one_thing_may_be_the_same_in_either_order(name: str, other_name: str) -> None:
    assert may_be_same(name, other_name)
    assert may_be_same(other_name, name)


def test_names_of_two_people_are_not_the_same() -> None:
    assert not may_be_same("Peter Lund", "Anna Berg")


def test_no_first_name_follows_a_title() -> None:
    prefix = "Mr Oakes met Anne. Mr Hollis met Bertha. "

    sentences = replace_names_in("On Monday Mr Shepherd sold the mill.", prefix)

    assert not [sentence for sentence in sentences if "Mr Anne" in sentence]


PLACES = "They saw Ohio in May. They saw Paris in June. They saw Kenya in July. "
"""A document with a state, a city and a country."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("He lived in Texas then.", "He lived in Ohio then.", id="a state"),
        pytest.param("He stayed in Texas then.", "He stayed in Ohio then.", id="in the past"),
        pytest.param("He was born in Texas then.", "He was born in Ohio then.", id="a birth"),
        pytest.param("He was seen in Texas then.", "He was seen in Ohio then.", id="seen there"),
        pytest.param("He was born in Berlin then.", "He was born in Paris then.", id="a city"),
        pytest.param(
            "He was seen in Madrid on Monday.", "He was seen in Paris on Monday.", id="on a day"
        ),
        pytest.param("He was born in India then.", "He was born in Kenya then.", id="a country"),
        pytest.param("They sold it in Japan then.", "They sold it in Kenya then.", id="a sale"),
    ],
)
def test_a_place_is_replaced_by_one_of_the_same_sort(text: str, expected: str) -> None:
    assert expected in replace_names_in(text, PLACES)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("He lived in Austin, Texas then.", id="a part of a longer name"),
        pytest.param("He lives in Texas then.", id="in the present"),
        pytest.param("He was born in Texas and left.", id="a second verb"),
        pytest.param("He was usually in Texas then.", id="usually, and elsewhere at times"),
        pytest.param("Berlin said that it would wait.", id="a government"),
        pytest.param("Madrid beat them on Monday.", id="a club"),
        pytest.param("The flag of India flew in Chennai, India.", id="named twice"),
        pytest.param("In Japan the Japanese sold it.", id="its people are named"),
    ],
)
def test_a_place_is_not_replaced_where_that_would_make_no_sense_or_no_contradiction(
    text: str,
) -> None:
    assert replace_names_in(text, PLACES) == set()
