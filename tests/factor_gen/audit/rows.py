"""Rows for tests of the audit, in which only planted leaks give the true completion away."""

from __future__ import annotations

import random
from collections.abc import Callable

from lm_factuality.benchmarks.factor.rows import Row, make_row

_NOUNS = ("bridge", "market", "school", "chapel", "tunnel", "harbor", "museum", "garden")
_PLACES = ("Avelin", "Bremont", "Corvale", "Dunmere", "Eastrow", "Farholt", "Gildern", "Harwick")
_VERBS = ("opened", "closed", "leased", "bought", "mapped", "fenced", "rented", "staked")

Change = Callable[[list[str], random.Random], list[str]]
"""Changes the choices of a row, the true completion first, with the random numbers of the row."""


def synthetic_rows(
    count: int = 150, change: Change | None = None, share_changed: float = 0.7
) -> list[Row]:
    """Return rows whose four choices are drawn in the same way, each row of another document.

    Args:
        count: The number of rows.
        change: Plants a leak in the choices of a row. None leaves all rows clean.
        share_changed: The share of rows in which the leak is planted.
    """
    rows = []
    for number in range(count):
        rng = random.Random(f"row {number}")
        choices: list[str] = []
        while len(choices) < 4:
            sentence = _draw_sentence(rng)
            if sentence not in choices:
                choices.append(sentence)
        if change is not None and rng.random() < share_changed:
            choices = change(choices, rng)
        prefix = " ".join(_draw_sentence(rng) for _ in range(6)) + " "
        # The first line of a file is its header.
        location = f"file:{number + 2}"
        rows.append(make_row(location, f"document {number}", prefix, choices, 0, [""] * 4))
    return rows


def _draw_sentence(rng: random.Random) -> str:
    """Draw a sentence. All sentences have the same number of words."""
    noun = rng.choice(_NOUNS)
    place = rng.choice(_PLACES)
    verb = rng.choice(_VERBS)
    day = rng.randrange(10, 29)
    return (
        f"In the spring of that year the old {noun} near {place} was {verb} on day {day} by the"
        " council."
    )


def edit_completion(edit: Callable[[str], str]) -> Change:
    """Return a change that edits the true completion only."""
    return lambda choices, _: [edit(choices[0]), *choices[1:]]


def edit_contradictions(edit: Callable[[str], str]) -> Change:
    """Return a change that edits all contradictions."""
    return lambda choices, _: [choices[0], *map(edit, choices[1:])]


def factor_row(
    completion: str,
    *contradictions: str,
    prefix: str = "A text. ",
    doc_id: str = "d",
    gold: int = 0,
) -> Row:
    """Return a row of a FACTOR benchmark.

    Args:
        completion: Its first choice, which is true by default.
        contradictions: Its other choices.
        prefix: The text before the choices.
        doc_id: The id of its document.
        gold: The index of the true choice.
    """
    choices = (completion, *contradictions)
    return make_row("file:2", doc_id, prefix, choices, gold, [""] * len(choices))
