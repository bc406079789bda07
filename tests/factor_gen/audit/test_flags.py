"""Each reason to flag a row, and what --fix does about it."""

from __future__ import annotations

import pytest

from factor_gen.audit import flags
from factor_gen.audit.fix import fix_row, fix_rows
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            row("It rose in May .", "It rose  in June.", " It fell."),
            ("It rose in May.", "It rose in June.", "It fell."),
        ),
        (row("It rose", "It fell.", "It sank."), ("It rose.", "It fell.", "It sank.")),
        (row("It rose.", "It fell", "It sank"), ("It rose.", "It fell.", "It sank.")),
        (
            row("It rose.", "It fell.", "It sank?"),
            ("It rose.", "It fell.", "It sank?"),
        ),  # which is right cannot be known
        (row("It rose.", "it fell.", "IT sank."), ("It rose.", "It fell.", "It sank.")),
        (
            row("It\u2019s up \u2013 now.", "It's up - soon.", "It's up."),
            ("It's up - now.", "It's up - soon.", "It's up."),
        ),
        (
            row("\u00c9t\u00e9 was hot.", "\u00c9t\u00e9 was cold."),
            ("\u00c9t\u00e9 was hot.", "\u00c9t\u00e9 was cold."),
        ),
    ],
)
def test_what_can_be_mended_is(given: Row, expected: tuple[str, ...]) -> None:
    assert fix_row(given)[0].choices == expected


def test_prefixes_are_mended_and_keep_their_lines() -> None:
    fixed, _ = fix_row(row("It rose.", "It fell.", prefix="One ,  two.\n\nThree ! "))
    assert fixed.prefix == "One, two.\n\nThree! "


def test_what_cannot_be_mended_is_left_out_and_counted() -> None:
    sound = row("It rose in May.", "It rose in June.")
    rows = [
        sound,
        row("It rose in May .", "It rose in May."),  # identical once mended
        row("It rose, in May.", "It rose in May."),
        row(_LONG, "The old bridge was opened for the winter.", prefix=_LONG),
        row("It rose  in May.", "It rose in June."),  # the first once mended
        row("It rose in May.", " ", ""),
    ]
    fixed = fix_rows(rows)
    assert fixed.rows == (sound,)
    assert fixed.indices == (0,)
    assert fixed.dropped == {
        flags.IDENTICAL: 1,
        flags.NO_CONTRADICTION: 1,
        flags.IN_PREFIX: 1,
        flags.REPEATED: 1,
        flags.UNSCORABLE: 1,
    }


def test_words_and_marks() -> None:
    assert distance("a b c d", "a x c") == 2
    assert summed_distances(["a b c", "a b x", "a y c"]) == [2, 3, 3]
    assert [final_mark(text) for text in ('He said "no."', "no", "no?)", "")] == [".", "", "?", ""]
    assert bare("The U.S.-led, \u201cplan\u201d") == bare("the US led plan")
    assert bare("at 1:30") != bare("at 130")
