"""Names out of the document, and pronouns of the other sex."""

from __future__ import annotations

import pytest

from factor_gen.generate.rules import pronouns
from factor_gen.generate.rules.names import replace_names
from factor_gen.generate.rules.sentence import tag_sentence
from factor_gen.text.names import may_be_same
from tests.factor_gen.rules.support import TAGGER, results

PREFIX = (
    "Mary Hollis, director of Tarn Shipping Group, met Peter Lund and Mary Hollis again in Oslo. "
    "Anna Berg said Norway had sold the mill to Vale Shipping Group. Peter Lund agreed with Mary Hollis. "
)


def test_a_surname_is_the_person_named_before() -> None:
    sentence = tag_sentence(TAGGER, "Mary Hollis spoke.", "Then Hollis was brief.")
    assert [(name.text, name.kind) for name in sentence.entities] == [("Hollis", "person")]


def test_a_person_of_the_document() -> None:
    found = results(replace_names, "Peter Lund bought the mill.", PREFIX)
    assert found <= {"Mary Hollis bought the mill.", "Anna Berg bought the mill."}
    assert found


def test_a_surname_for_a_surname() -> None:
    assert "Berg bought the mill." in results(replace_names, "Lund bought the mill.", PREFIX)


def test_an_organisation_shares_no_word_with_another() -> None:
    assert results(replace_names, "Tarn Shipping Group bought the mill.", PREFIX) == set()


def test_all_mentions_change() -> None:
    found = results(replace_names, "Lund said Lund bought it.", PREFIX)
    assert found
    assert all("Lund" not in each for each in found)


def test_the_pronouns_of_the_sentence_rule_people_out() -> None:
    assert "Berg said he bought the mill." not in results(
        replace_names, "Lund said he bought the mill.", PREFIX
    )


@pytest.mark.parametrize(
    ("stays", "changes"),
    [
        ("She sees Peter Lund.", "She saw Peter Lund."),  # he may be seen as well
        ("She often saw Peter Lund.", "She once saw Peter Lund."),
        ("She saw Peter Lund as well as others.", "She saw Peter Lund then."),
        ("She saw Peter Lund and left.", "She saw Peter Lund, who left."),
        ("She came for Peter Lund.", "She came with Peter Lund."),
        ("She was known as Peter Lund.", "She was not Peter Lund."),
        ("She also bought it from Lund.", "She bought it from Lund."),
        ("Most mills were of Vale Shipping Group.", "The mills were of Bank of Tarn."),
    ],
)
def test_what_may_be_so_of_others_stays(stays: str, changes: str) -> None:
    assert results(replace_names, stays, PREFIX) == set()
    assert results(replace_names, changes, PREFIX)


def test_a_person_has_two_names() -> None:
    assert results(replace_names, "Mr. Lurk bought the mill.", PREFIX) == set()  # by no other name
    assert results(replace_names, "Mr. Lurk bought the mill.", f"Emma Lurk came. {PREFIX}")
    assert results(replace_names, "Mr. Lurk bought the mill.", f"Mrs. Quux Lurk came. {PREFIX}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lund", "Peter Lund"),
        ("United States", "U.S."),
        ("World Health Organization", "WHO"),
        ("Britain", "UK"),
    ],
)
def test_names_of_the_same_thing(one: str, other: str) -> None:
    assert may_be_same(one, other)
    assert may_be_same(other, one)


def test_names_of_two_things() -> None:
    assert not may_be_same("Peter Lund", "Anna Berg")


def test_no_first_name_after_a_title() -> None:
    prefix = "Mr Oakes met Anne. Mr Hollis met Bertha. "
    assert not {
        each
        for each in results(replace_names, "On Monday Mr Shepherd sold the mill.", prefix)
        if "Mr Anne" in each
    }


@pytest.mark.parametrize(
    ("stays", "changes", "expected"),
    [
        ("He lived in Austin, Texas then.", "He lived in Texas then.", "He lived in Ohio then."),
        ("He lives in Texas then.", "He stayed in Texas then.", "He stayed in Ohio then."),
        (
            "He was born in Texas and left.",
            "He was born in Texas then.",
            "He was born in Ohio then.",
        ),
        (
            "He was usually in Texas then.",
            "He was seen in Texas then.",
            "He was seen in Ohio then.",
        ),
        (
            "Berlin said that it would wait.",
            "He was born in Berlin then.",
            "He was born in Paris then.",
        ),  # a government
        (
            "Madrid beat them on Monday.",
            "He was seen in Madrid on Monday.",
            "He was seen in Paris on Monday.",
        ),  # a club
        (
            "The flag of India flew in Chennai, India.",
            "He was born in India then.",
            "He was born in Kenya then.",
        ),
        (
            "In Japan the Japanese sold it.",
            "They sold it in Japan then.",
            "They sold it in Kenya then.",
        ),
    ],
)
def test_a_place_of_the_same_sort_where_it_is_one(stays: str, changes: str, expected: str) -> None:
    prefix = "They saw Ohio in May. They saw Paris in June. They saw Kenya in July. "
    assert results(replace_names, stays, prefix) == set()
    assert expected in results(replace_names, changes, prefix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He said his boat had left him.", "She said her boat had left her."),
        ("She said her boat had left her.", "He said his boat had left him."),
        ("They warned her about her boat.", "They warned him about his boat."),
    ],
)
def test_pronouns_agree_all_through(text: str, expected: str, always: None) -> None:
    assert results(pronouns.swap_pronouns, text, PREFIX) == {expected}
    assert (
        results(pronouns.swap_pronouns, text, "A sailor had one. ") == set()
    )  # nobody in particular
    assert results(pronouns.swap_pronouns, text, "Mr. Lurk had one. ") == set()


@pytest.mark.parametrize(
    "text",
    ["He loved his wife.", "He met her.", "Peter Lund said he left.", "“He left,” they said."],
)
def test_pronouns_stay_where_something_else_tells(text: str, always: None) -> None:
    assert results(pronouns.swap_pronouns, text, PREFIX) == set()
