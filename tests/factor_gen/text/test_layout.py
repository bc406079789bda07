"""Layout: broken paragraphs become lines again, and code and tables are recognised."""

from __future__ import annotations

import csv
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factor_gen.text.layout import find_verbatim_lines, unwrap

HARBOUR = (
    "The harbour of Osk was dug by hand between 1820 and 1832, and the sailors who had lived on the"
    " island before that time carried the stones from the old quarry to the two long piers, one"
    " after the other, until the sea was still."
)
"""A paragraph of one long sentence."""

KEEPER = (
    "Every autumn its keeper (a retired sailor, as most keepers were) paints the lamp of the"
    " southern pier white, which takes him four days; nobody has ever asked him why. It is said"
    " that the first keeper began with it after a storm in which seven ships were lost."
)
"""A paragraph of two sentences."""


def wrap(text: str, width: int = 72, first_indent: str = "", indent: str = "") -> str:
    """Break a paragraph into lines.

    Args:
        text: The paragraph.
        width: The greatest number of characters in a line.
        first_indent: What the first line begins with, such as the mark of a list.
        indent: What all other lines begin with.
    """
    lines = textwrap.wrap(text, width, initial_indent=first_indent, subsequent_indent=indent)
    return "\n".join(lines)


@pytest.mark.parametrize("width", [60, 72, 78, 100])
def test_each_broken_paragraph_becomes_a_line(width: int) -> None:
    """A sentence over several lines would be taken for several pieces."""
    text = f"Osk\n\n{wrap(HARBOUR, width)}\n\n{wrap(KEEPER, width)}\n"

    assert unwrap(text) == f"Osk\n\n{HARBOUR}\n\n{KEEPER}\n"


THREE_INDENTED_PARAGRAPHS = "\n".join(
    [
        wrap(HARBOUR),
        wrap(KEEPER, first_indent="    "),
        wrap(HARBOUR, first_indent="    "),
    ]
)
"""Paragraphs that nothing but the indent of their first line separates."""

NUMBERED_ITEMS = "\n".join(
    [
        wrap(HARBOUR, first_indent=" 1. ", indent="    "),
        wrap(KEEPER, first_indent=" 2. ", indent="    "),
    ]
)
"""A numbered list of two paragraphs."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            wrap(HARBOUR, first_indent="    "), f"    {HARBOUR}", id="first line indented"
        ),
        pytest.param(
            THREE_INDENTED_PARAGRAPHS,
            f"{HARBOUR}\n    {KEEPER}\n    {HARBOUR}",
            id="paragraphs without empty lines between",
        ),
        pytest.param(
            wrap(HARBOUR, first_indent="   ", indent="   "),
            f"   {HARBOUR}",
            id="all lines indented",
        ),
        pytest.param(NUMBERED_ITEMS, f" 1. {HARBOUR}\n 2. {KEEPER}", id="numbered list"),
        pytest.param(f"Osk\n===\n{wrap(HARBOUR)}", f"Osk\n===\n{HARBOUR}", id="underlined heading"),
        pytest.param(f"# Osk\n{wrap(HARBOUR)}", f"# Osk\n{HARBOUR}", id="Markdown heading"),
        pytest.param(wrap(HARBOUR).replace("\n", "\r\n"), HARBOUR, id="carriage returns"),
        pytest.param(
            f"{wrap(HARBOUR)}\n\nWhat the island keeps of its old plans and letters is told in the"
            " file\n.gitmodules of the house.",
            f"{HARBOUR}\n\nWhat the island keeps of its old plans and letters is told in the"
            " file .gitmodules of the house.",
            id="a line that begins with a dot",
        ),
    ],
)
def test_a_paragraph_of_any_shape_becomes_a_line(text: str, expected: str) -> None:
    """Manuals indent, number and underline their paragraphs."""
    assert unwrap(text) == expected


def test_an_item_of_a_list_does_not_become_a_part_of_the_line_before_it() -> None:
    """The asterisk shows that an item begins, though the line before it is broken."""
    text = (
        "* The harbour of Osk was dug by hand between 1820 and 1832, and the\n"
        "  sailors who had lived on the island carried the stones to the piers.\n"
        "* Every autumn its keeper paints the lamp of the southern pier white.\n"
    )

    assert unwrap(text) == (
        "* The harbour of Osk was dug by hand between 1820 and 1832, and the"
        " sailors who had lived on the island carried the stones to the piers.\n"
        "* Every autumn its keeper paints the lamp of the southern pier white.\n"
    )


def test_an_item_begins_a_line_even_if_its_own_lines_are_not_indented() -> None:
    """It is uncertain whether such lines belong to the item, so they are not looked at here."""
    text = (
        "* The harbour of Osk was dug by hand between 1820 and 1832, and the\n"
        "  sailors who had lived on the island carried the stones to the piers.\n"
        "* Every autumn its keeper paints the lamp of the southern pier white, and\n"
        "nobody has ever asked him why."
    )

    assert unwrap(text).startswith(
        "* The harbour of Osk was dug by hand between 1820 and 1832, and the"
        " sailors who had lived on the island carried the stones to the piers.\n"
        "* Every autumn"
    )


VERSE = """The keeper climbed the stair at night
  and lit the lamp beside the sea,
And all the ships that saw the light
  came home to where they ought to be."""
ADDRESS = "The Harbour Office\n12 Pier Road\nOsk\nThe Island"
TABLE = "name      depth   built\nnorth     12 m    1820\nsouth     14 m    1832"
OPTIONS = (
    "-v, --verbose   tell what is being done while it is being done and more\n"
    "-q, --quiet     tell nothing at all, not even where something is wrong"
)
CODE = """\
    for (i = 0; i < n; i++) {
        // walk over all the piers of the harbour one after another
        walk(i);
    }"""
FENCED_TEXT = (
    "```\nThe output of the lamp is a line of words that goes on\nand on until the end.\n```"
)
IDENTIFIERS = "north_pier\nsouth_pier\nlamp_house"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(VERSE, id="verse"),
        pytest.param(ADDRESS, id="address"),
        pytest.param(TABLE, id="table"),
        pytest.param(OPTIONS, id="options of a command"),
        pytest.param(CODE, id="code"),
        pytest.param(FENCED_TEXT, id="text between fences"),
        pytest.param(IDENTIFIERS, id="identifiers"),
    ],
)
def test_non_paragraph_block_keeps_its_lines(block: str) -> None:
    """Joined lines of a verse or a table would make a false sentence."""
    text = f"{wrap(HARBOUR)}\n\n{block}\n\n{wrap(KEEPER)}"

    assert unwrap(text) == f"{HARBOUR}\n\n{block}\n\n{KEEPER}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("\n", id="an empty line"),
        pytest.param("One line.", id="one line"),
        pytest.param(f"{HARBOUR}\n{KEEPER}\n{HARBOUR}", id="paragraphs as lines"),
        pytest.param(f"Headline of the day\n{HARBOUR}\n\n{KEEPER}", id="a headline"),
        pytest.param(f"{VERSE}\n\n{VERSE}", id="verse"),
        pytest.param(ADDRESS, id="address"),
        pytest.param("a\tb\nc\td  \n", id="tabs and spaces at the end"),
    ],
)
def test_text_without_line_breaks_stays_unchanged(text: str) -> None:
    """Most corpora have whole paragraphs as lines."""
    assert unwrap(text) == text


def test_the_published_news_keep_their_lines(shared: Path) -> None:
    """The authors' texts were not broken, and 99% of them must stay as they are."""
    csv.field_size_limit(sys.maxsize)
    path = shared / "data" / "factor" / "news_factor.csv"
    with path.open(encoding="utf-8", newline="") as file:
        texts = [row["full_prefix"] + row["completion"] for row in csv.DictReader(file)]

    num_unchanged = sum(unwrap(text) == text for text in texts)

    assert num_unchanged >= 0.99 * len(texts)


@pytest.mark.parametrize(
    ("line_end", "line_start", "joined"),
    [
        pytest.param("light", "house", "light house", id="no hyphen"),
        pytest.param("light-", "house", "light-house", id="the hyphen of a compound"),
        pytest.param("har-", "bour", "harbour", id="the hyphen of a broken word"),
        pytest.param("1820 -", "1832", "1820 - 1832", id="a dash"),
    ],
)
def test_line_end_hyphen_within_a_word_is_removed(
    line_end: str, line_start: str, joined: str
) -> None:
    """The hyphen of a compound or a dash is part of the text, and stays."""
    broken = (
        f"The keeper of the piers of the old island of Osk lives near the {line_end}\n"
        f"{line_start} with his dog."
    )

    # The first paragraph shows at which width the text was broken.
    unwrapped = unwrap(f"{wrap(HARBOUR)}\n\n{broken}")

    assert unwrapped.endswith(f"near the {joined} with his dog.")


@pytest.mark.parametrize(
    ("text", "verbatim_lines"),
    [
        pytest.param(
            "Prose.\n\n```c\nint a;\nWords here.\n```\nProse.", [2, 3, 4, 5], id="between fences"
        ),
        pytest.param(
            "For example::\n\n  The words of it.\n\n  More of it.\n\nProse again.",
            [2, 4],
            id="announced by two colons",
        ),
        pytest.param(f"Prose.\n\n{CODE}", [2, 3, 4, 5], id="code"),
        pytest.param(f"{TABLE}\n\nProse.", [0, 1, 2], id="columns"),
        pytest.param("| a | b |\n|---|---|\n| c | d |", [0, 1, 2], id="Markdown table"),
        pytest.param("  +-----+\n  | Osk |\n  +-----+", [0, 1, 2], id="frame"),
        pytest.param(
            "Osk\n---\nProse it is.  Two spaces follow it.\nProse it is.  Two spaces follow it.",
            [1],
            id="underline of a heading, and sentences that end alike",
        ),
        pytest.param("$ make install\n$ make test", [0, 1], id="commands"),
        pytest.param("The price is $4, or 5% less [1], and so on.", [], id="prose with symbols"),
    ],
)
def test_the_lines_of_code_and_tables_are_found(text: str, verbatim_lines: list[int]) -> None:
    """No sentence is selected from code and tables."""
    lines = text.split("\n")

    found_lines = find_verbatim_lines(lines)

    # Empty lines between others may be counted or not.
    assert sorted(index for index in found_lines if lines[index].strip()) == verbatim_lines


PIECES = st.sampled_from(
    [
        "Osk",
        "the",
        "pier",
        "- ",
        "  ",
        "\n",
        "\n\n",
        "```",
        "::",
        "|",
        "a.",
        "\u2028",
        "\t",
        HARBOUR,
    ]
)
"""Words, and the signs by which blocks of a text are told apart."""


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=60))
def test_unwrapping_loses_no_words(pieces: list[str]) -> None:
    """Only white space may change."""
    text = " ".join(pieces)

    assert unwrap(text).split() == text.split()


MAX_SECONDS = 8
"""How long a megabyte may take. If the time grew with the square of the length, it took minutes."""

PIECES_OF_A_MEGABYTE = [
    pytest.param("a\n", id="short lines"),
    pytest.param("a  b\n", id="columns"),
    pytest.param("|\n", id="bars"),
    pytest.param("word word word word word word word\n", id="words"),
    pytest.param("(" * 70 + "\n", id="brackets"),
    pytest.param(" " * 70 + "a\n", id="spaces"),
]


def seconds_to_unwrap(text: str) -> float:
    """Return how long a text takes after a paragraph that was broken, in seconds of the CPU."""
    start = time.process_time()
    unwrap(f"{wrap(HARBOUR)}\n{text}")
    return time.process_time() - start


@pytest.mark.parametrize("piece", PIECES_OF_A_MEGABYTE)
def test_a_megabyte_of_lines_takes_seconds_at_most(piece: str) -> None:
    """If the time grew with the square of the length, it would take minutes."""
    text = piece * (1_000_000 // len(piece))

    assert seconds_to_unwrap(text) < MAX_SECONDS


@pytest.mark.parametrize("piece", PIECES_OF_A_MEGABYTE)
def test_a_line_of_a_megabyte_takes_seconds_at_most(piece: str) -> None:
    """If the time grew with the square of the length, it would take minutes."""
    line = piece.replace("\n", " ") * (1_000_000 // len(piece))

    assert seconds_to_unwrap(f"{line}\nand so on") < MAX_SECONDS


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"{HARBOUR[:-1]}.[15]", id="a citation at its end"),
        pytest.param(f"{KEEPER}   {HARBOUR}   {KEEPER}", id="three spaces after sentences"),
    ],
)
def test_prose_is_no_code_and_no_table(line: str) -> None:
    """A long line with unusual signs may be a sentence."""
    assert find_verbatim_lines([line]) == set()
