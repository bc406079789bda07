"""The stage ``types``: for which error types a sentence has something to edit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factor_gen.records import Example
from factor_gen.settings import TypesSettings
from factor_gen.types import TypesStage

STAGE = TypesStage(TypesSettings())


@pytest.mark.parametrize(
    ("text", "further_types"),
    [
        pytest.param("The mill burned.", set(), id="no other type"),
        pytest.param("The mill burned in Norway.", {"circumstance"}, id="place"),
        pytest.param("The mill burned on Monday.", {"circumstance"}, id="date"),
        pytest.param("The mill sold nine boats.", {"circumstance"}, id="number"),
        pytest.param("The mill paid $400.", {"circumstance"}, id="amount of money"),
        pytest.param("The mill burned quickly.", {"circumstance"}, id="adverb"),
        pytest.param("The family sold the mill.", set(), id="no adverb"),
        pytest.param("The family owned it.", {"coreference"}, id="pronoun"),
        pytest.param(
            "The mill sold us the house.", set(), id="no pronoun for anything in the text"
        ),
        pytest.param("The mill burned because of the storm.", {"link"}, id="cause"),
    ],
)
def test_a_sentence_has_the_types_of_its_words(text: str, further_types: set[str]) -> None:
    """Each sentence has a noun and a verb, so all have the types entity and predicate."""
    [example] = STAGE.run([Example("1", completion=text)])

    assert set(example.types) == {"entity", "predicate", *further_types}


def test_the_settings_choose_the_types_and_their_order() -> None:
    """The sentence has other types as well, such as circumstance for its date."""
    stage = TypesStage(TypesSettings(types=("link", "entity")))
    text = "The mill burned because of the storm on Monday."

    [example] = stage.run([Example("1", completion=text)])

    assert example.types == ("link", "entity")


def test_a_sentence_without_words_is_dropped() -> None:
    [example] = STAGE.run([Example("1", completion="!?")])

    assert example.unused == "types: nothing to edit"


def test_unused_document_passes_unchanged() -> None:
    """The build reports at its end why an earlier stage dropped the document."""
    unused = Example("1", unused="select: no sentence")

    assert STAGE.run([unused]) == [unused]


def test_the_fingerprint_names_what_decides_the_types() -> None:
    """If the fingerprint changes, shards of an earlier build are made again."""
    stage = TypesStage(TypesSettings(types=("link", "entity"), tagger="pattern"))

    assert stage.fingerprint.keys() == {"types", "tagger", "links"}
    assert stage.fingerprint["types"] == ["link", "entity"]
    assert stage.fingerprint["tagger"]["tagger"] == "pattern"
    # This is a checksum of the list of words, such as "because", that make a link.
    assert re.fullmatch("[0-9a-f]{64}", stage.fingerprint["links"])


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_the_stage_returns_an_example_for_any_text(text: str) -> None:
    """No text in a corpus may end a build with an error."""
    examples = STAGE.run([Example("1", prefix=text, completion=text)])

    assert len(examples) == 1
