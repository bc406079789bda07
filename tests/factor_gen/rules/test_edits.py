"""Articles, capital letters, and the record of an edit."""

from __future__ import annotations

import pytest

from factor_gen.generate.rules.edits import (
    Replacement,
    adjust_articles_and_capitals,
    apply_replacements,
    describe_replacements,
    indefinite_article,
    make_edit,
)


def changed(text: str, old: str, new: str) -> str:
    start = text.index(old)
    return apply_replacements(
        text,
        adjust_articles_and_capitals(
            text, make_edit("x", "entity", Replacement(start, start + len(old), new)).replacements
        ),
    )


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("It saw an increase.", "increase", "drop", "It saw a drop."),
        ("It saw a drop.", "drop", "increase", "It saw an increase."),
        ("A drop came.", "drop", "increase", "An increase came."),
        ("She left.", "She", "he", "He left."),
        ("Then she left.", "she", "he", "Then he left."),
        ("It was a union.", "union", "user", "It was a user."),
        ("“After rain it flooded.”", "After", "before", "“Before rain it flooded.”"),
    ],
)
def test_what_goes_with_an_edit(text: str, old: str, new: str, expected: str) -> None:
    assert changed(text, old, new) == expected


@pytest.mark.parametrize(
    ("word", "article"),
    [
        ("hour", "an"),
        ("house", "a"),
        ("university", "a"),
        ("uncle", "an"),
        ("8%", "an"),
        ("18-year", "an"),
        ("180", "a"),
        ("11,000", "an"),
        ("U.S.", "a"),
        ("FBI", "an"),
        ("NASA", "a"),
        ("NBA", "an"),
        ("Ukrainian", "a"),
        ("Ugandan", "a"),
        ("umbrella", "an"),
        ("usual", "a"),
        ("hourly", "an"),
        ("heir", "an"),
        ("XML", "an"),
        ("UN", "a"),
        ("one-day", "a"),
        ("European", "a"),
        ("Italian", "an"),
    ],
)
def test_articles(word: str, article: str) -> None:
    assert indefinite_article(word) == article


def test_the_record_joins_several_replacements() -> None:
    text = "He sold his boat."
    assert (
        describe_replacements(
            text,
            make_edit(
                "x", "coreference", Replacement(8, 11, "her"), Replacement(0, 2, "She")
            ).replacements,
        )
        == "He -> She; his -> her"
    )
