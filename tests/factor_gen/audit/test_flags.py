"""Each reason to flag a row."""

from __future__ import annotations

import pytest

from factor_gen.audit.flags import flag_rows
from factor_gen.audit.words import (
    final_punctuation,
    remove_case_and_punctuation,
    word_edit_distance,
)
from lm_factuality.benchmarks.factor.rows import Row, make_row
from tests.factor_gen.audit.rows import row

_LONG = "The old bridge was closed for the winter."


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            row("It rose in May .", "It rose in June.", "It fell in May."),
            {"only the true one has a space before punctuation"},
        ),
        (
            row("It  rose in May.", "It rose in June.", "It fell in May."),
            {"only the true one has double spaces"},
        ),
        (
            row("It rose in May. ", "It rose in June.", "It fell in May."),
            {"only the true one has white space at an end"},
        ),
        (
            row("It rose in May", "It rose in June.", "It fell in May."),
            {"the true one ends in another mark than all others"},
        ),
        (
            row("It rose in May!", "It rose in June.", "It fell in May?"),
            {"the true one ends in another mark than all others"},
        ),
        (
            row("it rose in May.", "It rose in June.", "It fell in May."),
            {"only the true one begins with, or without, a capital"},
        ),
        (
            row("It\u2019s up in May.", "It's up in June.", "It's up in July."),
            {"only the true one has a typographic sign or accent that the others write plainly"},
        ),
        (
            row("The caf\u00e9 rose in May.", "The cafe rose in June.", "The cafe fell in May."),
            {"only the true one has a typographic sign or accent that the others write plainly"},
        ),
        (
            row("In S\u00e3o Tom\u00e9 it fell.", "In Lisbon it fell.", "In Porto it fell."),
            set(),
        ),  # another place, no sign
        (
            row(_LONG, "The old bridge was closed for the summer.", prefix=f"So: {_LONG} "),
            {"the prefix holds the completion"},
        ),
        (row("It rose in May.", "It fell in May.", "It fell in May."), {"identical choices"}),
        (row("It rose in May.", "It rose in May."), {"identical choices", "cannot be scored"}),
        (
            row("It rose in May.", "It fell in May.", "", ""),
            {"cannot be scored"},
        ),  # missing, not identical
        (
            row("It rose in May.", "it rose, in May.", "It fell in May."),
            {"no contradiction: differs in case, space or punctuation alone"},
        ),
        (row("It rose 1.5 in May.", "It rose 15 in May.", "It rose -1.5 in May."), set()),
        (row("It rose in May.", "We sank it in June."), {"edit of more than half of the words"}),
        (
            row("It rose in M\ufffdy.", "It rose in J\ufffdy."),
            {"holds U+FFFD, the sign of text that was decoded wrongly"},
        ),
        (row("It rose in May.", "It rose in June."), set()),
    ],
)
def test_reasons(found: Row, expected: set[str]) -> None:
    assert {flag.reason for flag in flag_rows([found])} == expected


def test_repeated_rows_name_the_first_whatever_the_order_of_choices() -> None:
    first = row("It rose in May.", "It rose in June.")
    (flag,) = flag_rows(
        [
            first,
            make_row(
                "file:7", "d", "A text. ", ("It rose in June.", "It rose in May."), 1, ["", ""]
            ),
        ]
    )
    assert (flag.index, flag.reason) == (1, "repeats another row")


def test_words_and_marks() -> None:
    assert word_edit_distance("a b c d", "a x c") == 2
    assert [final_punctuation(text) for text in ('He said "no."', "no", "no?)", "")] == [
        ".",
        "",
        "?",
        "",
    ]
    assert remove_case_and_punctuation(
        "The U.S.-led, \u201cplan\u201d"
    ) == remove_case_and_punctuation("the US led plan")
    assert remove_case_and_punctuation("at 1:30") != remove_case_and_punctuation("at 130")
