"""A change of what a sentence does not assert contradicts nothing."""

from __future__ import annotations

import pytest

from factor_gen.generate.rules import asserted
from factor_gen.generate.rules.asserted import UNASSERTED_REASONS, unasserted_reason
from factor_gen.generate.rules.edits import Replacement, make_edit
from factor_gen.generate.rules.sentence import tag_sentence
from tests.factor_gen.cases import table
from tests.factor_gen.rules.support import TAGGER

TABLE = "rules/asserted.yaml"
CASES = [
    (reason, case["refused"], case["allowed"])
    for reason, cases in table(TABLE).items()
    for case in cases
]


def why(text: str, operator: str, error_type: str, old: str, new: str) -> str | None:
    start = text.index(old)
    change = make_edit(operator, error_type, Replacement(start, start + len(old), new))
    return unasserted_reason(tag_sentence(TAGGER, "", text), change)


@pytest.mark.parametrize(("reason", "refused", "allowed"), CASES)
def test_what_is_not_asserted_is_not_changed(
    reason: str, refused: list[str], allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why(*refused) == reason
    assert why(*allowed) is None
    monkeypatch.setattr(
        asserted, "UNASSERTED_REASONS", [name for name in UNASSERTED_REASONS if name != reason]
    )
    assert why(*refused) is None, "another reason refuses it too, so that the case proves nothing"


def test_what_only_seems_so_is_a_denial() -> None:
    change = ("She smiled as if she owned a boat.", "noun", "entity", "boat", "ship")
    assert why(*change) == "part of a denial"


def test_every_reason_has_a_case() -> None:
    assert set(table(TABLE)) == set(UNASSERTED_REASONS)
