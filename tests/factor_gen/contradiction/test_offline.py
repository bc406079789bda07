"""The check by rules: which edits exclude the sentence before them, with and without WordNet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from factor_gen.contradiction import offline, wordnet
from factor_gen.contradiction.compatible import compatible_reason
from factor_gen.contradiction.offline import OfflineCheck, why_not_exclusive
from factor_gen.contradiction.stage import ContradictionStage
from factor_gen.records import ENTITY, Candidate, Example
from tests.factor_gen.cases import cases_by_key

TABLE = "contradiction/offline.yaml"
EXCLUSIVE, BY_WORDNET = "exclusive", "exclusive by WordNet"
CASES = cases_by_key(TABLE)

needs_wordnet = pytest.mark.skipif(
    wordnet.find_wordnet() is None, reason="needs Debian's wordnet-base"
)


def is_accepted(text: str, old: str, new: str) -> bool:
    """Whether the check accepts an edit of a sentence."""
    edited = text.replace(old, new, 1)
    return compatible_reason(text, edited) is None and why_not_exclusive(text, edited) is None


def forget_wordnet() -> None:
    """Forget what was found out with or without WordNet."""
    wordnet.find_wordnet.cache_clear()
    offline._are_words_exclusive.cache_clear()


@pytest.fixture
def without_wordnet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take WordNet away from the check."""
    monkeypatch.setattr(wordnet, "FOLDERS", ())
    forget_wordnet()
    yield
    monkeypatch.undo()
    forget_wordnet()


@pytest.mark.parametrize(
    ("kind", "text", "old", "new"),
    [case for case in CASES if case[0] not in (EXCLUSIVE, BY_WORDNET)],
)
def test_compatible_edit_is_rejected(kind: str, text: str, old: str, new: str) -> None:
    assert not is_accepted(text, old, new)


@pytest.mark.usefixtures("without_wordnet")
@pytest.mark.parametrize(
    ("kind", "text", "old", "new"), [case for case in CASES if case[0] == EXCLUSIVE]
)
def test_words_of_our_lists_exclude_each_other(kind: str, text: str, old: str, new: str) -> None:
    assert is_accepted(text, old, new)


@needs_wordnet
@pytest.mark.parametrize(
    ("kind", "text", "old", "new"), [case for case in CASES if case[0] == BY_WORDNET]
)
def test_wordnet_knows_further_words_that_exclude_each_other(
    kind: str, text: str, old: str, new: str
) -> None:
    assert is_accepted(text, old, new)


@pytest.mark.usefixtures("without_wordnet")
def test_without_wordnet_only_words_of_our_lists_exclude_each_other() -> None:
    """Our lists have the months, and only WordNet knows that a lion is no tiger."""
    another_month = Candidate("The lion slept in May.", ENTITY, "June -> May", "llm")
    another_animal = Candidate("The tiger slept in June.", ENTITY, "lion -> tiger", "llm")
    candidates = (another_month, another_animal)
    example = Example("a", "", "The lion slept in June.", (ENTITY,), candidates)

    [checked] = ContradictionStage(OfflineCheck()).run([example])

    [checked_month, checked_animal] = checked.candidates
    assert checked_month.rejected == ""
    assert checked_animal.rejected == "nothing shows that the words exclude each other"


@pytest.mark.usefixtures("without_wordnet")
def test_the_fingerprint_says_that_there_is_no_wordnet() -> None:
    assert OfflineCheck().fingerprint["wordnet"] is False
