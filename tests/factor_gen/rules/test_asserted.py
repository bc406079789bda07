"""Parts of a sentence that it does not assert, so that a change of them contradicts nothing."""

from __future__ import annotations

from itertools import chain

import pytest

from factor_gen.generate.rules import asserted
from factor_gen.generate.rules.asserted import UNASSERTED_REASONS, unasserted_reason
from factor_gen.generate.rules.edits import Replacement, make_edit
from factor_gen.generate.rules.sentence import tag_sentence
from tests.factor_gen.cases import table
from tests.factor_gen.rules.support import TAGGER

TABLE = "rules/asserted.yaml"
"""By reason, edits that are refused for it and similar ones that are allowed."""


def list_refused() -> list[tuple[str, list[str]]]:
    """Return the reason and the refused edit of each case of `TABLE`."""
    refused = []
    for reason, cases in table(TABLE).items():
        refused.extend((reason, case["refused"]) for case in cases)
    return refused


def list_allowed() -> list[list[str]]:
    """Return the allowed edit of each case of `TABLE`."""
    return [case["allowed"] for case in chain.from_iterable(table(TABLE).values())]


def reason_to_refuse(text: str, operator: str, error_type: str, old: str, new: str) -> str | None:
    """Return why an edit of a sentence is refused, or None if it is allowed.

    Args:
        text: The sentence.
        operator: The operator that makes the edit.
        error_type: The error type of the edit.
        old: The words that it replaces.
        new: The new words.
    """
    start = text.index(old)
    edit = make_edit(operator, error_type, Replacement(start, start + len(old), new))
    return unasserted_reason(tag_sentence(TAGGER, "", text), edit)


@pytest.mark.parametrize(("reason", "refused"), list_refused())
def test_edit_of_unasserted_words_is_refused(reason: str, refused: list[str]) -> None:
    """A change of a question or of somebody's hope, for instance, makes no sentence less true."""
    text, operator, error_type, old, new = refused

    assert reason_to_refuse(text, operator, error_type, old, new) == reason


@pytest.mark.parametrize("allowed", list_allowed())
def test_edit_of_asserted_words_is_allowed(allowed: list[str]) -> None:
    """A rule that refuses too much would leave nothing to edit."""
    text, operator, error_type, old, new = allowed

    assert reason_to_refuse(text, operator, error_type, old, new) is None


@pytest.mark.parametrize(("reason", "refused"), list_refused())
def test_an_edit_is_allowed_without_the_reason_that_refuses_it(
    reason: str, refused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other reason refuses it, which would hide that the first does not work any more."""
    text, operator, error_type, old, new = refused
    other_reasons = [name for name in UNASSERTED_REASONS if name != reason]
    monkeypatch.setattr(asserted, "UNASSERTED_REASONS", other_reasons)

    assert reason_to_refuse(text, operator, error_type, old, new) is None


def test_words_after_as_if_are_part_of_a_denial() -> None:
    """She owned no boat, and so no ship either."""
    text = "She smiled as if she owned a boat."

    assert reason_to_refuse(text, "noun", "entity", "boat", "ship") == "part of a denial"


def test_every_reason_has_a_case() -> None:
    """A new reason must come with an example."""
    assert set(table(TABLE)) == set(UNASSERTED_REASONS)
