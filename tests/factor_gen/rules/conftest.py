"""Fixtures for the tests of the rules."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from factor_gen.generate.rules.sentence import TaggedSentence


@pytest.fixture
def every_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rules take every chance to replace a word.

    Otherwise they replace a common word by a rare one only as often as the rare one is met.
    """

    def draw_all(
        sentence: TaggedSentence, rng: random.Random, old: str, substitutes: Sequence[str]
    ) -> list[str]:
        """Return all substitutes of a word in random order."""
        return rng.sample(list(substitutes), len(substitutes))

    monkeypatch.setattr(TaggedSentence, "draw_substitutes", draw_all)
