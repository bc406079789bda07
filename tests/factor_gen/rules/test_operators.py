"""What operators make of sentences, and which sentences they leave alone."""

from __future__ import annotations

import pytest

from factor_gen.text.analysis import ORGANISATION, PLACE
from tests.factor_gen.cases import cases_by_key
from tests.factor_gen.rules.support import TAGGER, operator, results

CASES = "rules/operators.yaml"


@pytest.fixture(autouse=True)
def every_chance(always: None) -> None:
    """Let each operator take every chance that it has."""


@pytest.mark.parametrize(("name", "text", "expected"), cases_by_key(CASES, "changes"))
def test_an_operator_changes_a_sentence(name: str, text: str, expected: str) -> None:
    assert expected in results(operator(name), text, tries=60)


@pytest.mark.parametrize(("name", "text", "expected"), cases_by_key(CASES, "only change"))
def test_an_operator_changes_a_sentence_in_one_way(name: str, text: str, expected: str) -> None:
    assert results(operator(name), text, tries=1) == {expected}


@pytest.mark.parametrize(("name", "text"), cases_by_key(CASES, "unchanged"))
def test_an_operator_leaves_a_sentence_alone(name: str, text: str) -> None:
    assert results(operator(name), text) == set()


@pytest.mark.parametrize(("name", "text", "wrong"), cases_by_key(CASES, "stays"))
def test_an_operator_makes_nothing_wrong(name: str, text: str, wrong: str) -> None:
    prefix = "Vale Group sold it to Moor Group in Berlin. "
    changed = results(operator(name), text, prefix)
    assert not [sentence for sentence in changed if wrong in sentence]


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
def test_the_words_of_a_name_tell_its_kind(text: str, name: str, kind: str) -> None:
    assert (name, kind) in {(entity.text, entity.kind) for entity in TAGGER.analyse(text).entities}
