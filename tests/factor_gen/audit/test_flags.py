"""Each reason to flag a row."""

from __future__ import annotations

import pytest

from factor_gen.audit import flags
from factor_gen.audit.flags import flag_rows
from factor_gen.audit.words import bare, distance, final_mark, summed_distances
from lm_factuality.benchmarks.factor.rows import Row, make_row
from tests.factor_gen.audit.rows import row

_LONG = "The old bridge was closed for the winter."


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            row("It rose in May .", "It rose in June.", "It fell in May."),
            {flags.SPACED_PUNCTUATION},
        ),
        (row("It  rose in May.", "It rose in June.", "It fell in May."), {flags.DOUBLE_SPACES}),
        (row("It rose in May. ", "It rose in June.", "It fell in May."), {flags.SPACE_AT_ENDS}),
        (row("It rose in May", "It rose in June.", "It fell in May."), {flags.OTHER_END}),
        (row("It rose in May!", "It rose in June.", "It fell in May?"), {flags.OTHER_END}),
        (row("it rose in May.", "It rose in June.", "It fell in May."), {flags.OTHER_CAPITAL}),
        (row("It\u2019s up in May.", "It's up in June.", "It's up in July."), {flags.OTHER_SIGNS}),
        (
            row("The caf\u00e9 rose in May.", "The cafe rose in June.", "The cafe fell in May."),
            {flags.OTHER_SIGNS},
        ),
        (
            row("In S\u00e3o Tom\u00e9 it fell.", "In Lisbon it fell.", "In Porto it fell."),
            set(),
        ),  # another place, no sign
        (
            row(_LONG, "The old bridge was closed for the summer.", prefix=f"So: {_LONG} "),
            {flags.IN_PREFIX},
        ),
        (row("It rose in May.", "It fell in May.", "It fell in May."), {flags.IDENTICAL}),
        (row("It rose in May.", "It rose in May."), {flags.IDENTICAL, flags.UNSCORABLE}),
        (
            row("It rose in May.", "It fell in May.", "", ""),
            {flags.UNSCORABLE},
        ),  # missing, not identical
        (row("It rose in May.", "it rose, in May.", "It fell in May."), {flags.NO_CONTRADICTION}),
        (row("It rose 1.5 in May.", "It rose 15 in May.", "It rose -1.5 in May."), set()),
        (row("It rose in May.", "We sank it in June."), {flags.LARGE_EDIT}),
        (row("It rose in M\ufffdy.", "It rose in J\ufffdy."), {flags.DAMAGED}),
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
    assert (flag.index, flag.reason, flag.detail) == (1, flags.REPEATED, "file:2")


def test_words_and_marks() -> None:
    assert distance("a b c d", "a x c") == 2
    assert summed_distances(["a b c", "a b x", "a y c"]) == [2, 3, 3]
    assert [final_mark(text) for text in ('He said "no."', "no", "no?)", "")] == [".", "", "?", ""]
    assert bare("The U.S.-led, \u201cplan\u201d") == bare("the US led plan")
    assert bare("at 1:30") != bare("at 130")
