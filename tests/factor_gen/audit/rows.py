"""Rows in which the true completion is one of four drawn alike, so that nothing gives it away but
what a test plants."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from lm_factuality.benchmarks.factor.rows import Row, make_row

_NOUNS = ("bridge", "market", "school", "chapel", "tunnel", "harbor", "museum", "garden")
_PLACES = ("Avelin", "Bremont", "Corvale", "Dunmere", "Eastrow", "Farholt", "Gildern", "Harwick")
_VERBS = ("opened", "closed", "leased", "bought", "mapped", "fenced", "rented", "staked")

Change = Callable[[list[str], random.Random], list[str]]


def synthetic(
    count: int = 150,
    change: Change | None = None,
    share: float = 0.7,
) -> list[Row]:
    """Rows of as many documents. ``change`` gets the texts of a ``share`` of rows, the true one
    first, and plants a leak."""
    rows = []
    for number in range(count):
        dice = random.Random(f"row {number}")
        texts: list[str] = []
        while len(texts) < 4:
            if (text := _sentence(dice)) not in texts:
                texts.append(text)
        if change is not None and dice.random() < share:
            texts = change(texts, dice)
        prefix = " ".join(_sentence(dice) for _ in range(6)) + " "
        place = f"file:{number + 2}"
        rows.append(make_row(place, f"document {number}", prefix, texts, 0, [""] * 4))
    return rows


def _sentence(dice: random.Random) -> str:
    noun, place, verb, day = (
        dice.choice(_NOUNS),
        dice.choice(_PLACES),
        dice.choice(_VERBS),
        dice.randrange(10, 29),
    )
    return f"In the spring of that year the old {noun} near {place} was {verb} on day {day} by the council."


def on_true(edit: Callable[[str], str]) -> Change:
    """The change that edits the true completion alone."""
    return lambda texts, _: [edit(texts[0]), *texts[1:]]


def on_false(edit: Callable[[str], str]) -> Change:
    """The change that edits all contradictions."""
    return lambda texts, _: [texts[0], *map(edit, texts[1:])]


def row(
    completion: str,
    *contradictions: str,
    prefix: str = "A text. ",
    doc_id: str = "d",
    gold: int = 0,
) -> Row:
    """One row."""
    choices: Sequence[str] = (completion, *contradictions)
    return make_row("file:2", doc_id, prefix, choices, gold, [""] * len(choices))
