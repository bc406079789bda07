"""Which error types a sentence has something to edit for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factor_gen.records import Example
from factor_gen.settings import TypesSettings
from factor_gen.types import TypesStage

STAGE = TypesStage(TypesSettings())


def types_of(text: str) -> set[str]:
    return set(STAGE.run([Example("1", "", text)])[0].types)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The mill burned.", {"entity", "predicate"}),
        ("The mill burned in Norway.", {"entity", "predicate", "circumstance"}),
        ("The mill burned on Monday.", {"entity", "predicate", "circumstance"}),
        ("The mill sold nine boats.", {"entity", "predicate", "circumstance"}),
        ("The mill paid $400.", {"entity", "predicate", "circumstance"}),
        ("The mill burned quickly.", {"entity", "predicate", "circumstance"}),
        ("She owned the mill.", {"entity", "predicate", "coreference"}),
        ("The mill burned because of the storm.", {"entity", "predicate", "link"}),
    ],
)
def test_types(text: str, expected: set[str]) -> None:
    assert types_of(text) == expected


def test_the_order_and_choice_are_the_settings() -> None:
    stage = TypesStage(TypesSettings(types=("link", "entity")))
    found = stage.run([Example("1", "", "The mill burned because of the storm on Monday.")])
    assert found[0].types == ("link", "entity")


def test_nothing_to_edit_is_a_reason() -> None:
    assert STAGE.run([Example("1", "", "!?")])[0].unused == "types: nothing to edit"


def test_unused_examples_pass() -> None:
    unused = Example("1", unused="select: no sentence")
    assert STAGE.run([unused]) == [unused]


def test_the_fingerprint_names_tagger_and_lists() -> None:
    assert set(STAGE.fingerprint) == {"types", "tagger", "links"}
    assert STAGE.fingerprint["tagger"]["tagger"] == "pattern"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    assert len(STAGE.run([Example("1", text, text)])) == 1
