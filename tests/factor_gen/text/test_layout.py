"""Paragraphs that were broken at a width become lines again, and all else keeps its lines; code and
tables are known."""

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

ONE = (
    "The harbour of Osk was dug by hand between 1820 and 1832, and the sailors who had lived on the island before that time "
    "carried the stones from the old quarry to the two long piers, one after the other, until the sea was still."
)
TWO = (
    "Every autumn its keeper (a retired sailor, as most keepers were) paints the lamp of the southern pier white, which takes "
    "him four days; nobody has ever asked him why. It is said that the first keeper began with it after a storm in which "
    "seven ships were lost."
)


def wrapped(text: str, width: int = 72, **keys: str) -> str:
    return "\n".join(textwrap.wrap(text, width, **keys))  # type: ignore[call-overload]


@pytest.mark.parametrize("width", [60, 72, 78, 100])
def test_paragraphs_are_lines_again(width: int) -> None:
    assert (
        unwrap(f"Osk\n\n{wrapped(ONE, width)}\n\n{wrapped(TWO, width)}\n")
        == f"Osk\n\n{ONE}\n\n{TWO}\n"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(wrapped(ONE, initial_indent="    "), f"    {ONE}", id="first line indented"),
        pytest.param(
            "\n".join(
                [wrapped(ONE), *(wrapped(each, initial_indent="    ") for each in (TWO, ONE))]
            ),
            f"{ONE}\n    {TWO}\n    {ONE}",
            id="first lines alone indented, nothing between",
        ),
        pytest.param(
            wrapped(ONE, initial_indent="   ", subsequent_indent="   "),
            f"   {ONE}",
            id="all indented",
        ),
        pytest.param(
            wrapped(ONE, initial_indent="* ", subsequent_indent="  ")
            + "\n"
            + wrapped(TWO, initial_indent="* "),
            None,
            id="items: see below",
        ),
        pytest.param(
            wrapped(ONE, initial_indent=" 1. ", subsequent_indent="    ")
            + "\n"
            + wrapped(TWO, initial_indent=" 2. ", subsequent_indent="    "),
            f" 1. {ONE}\n 2. {TWO}",
            id="numbered items",
        ),
        pytest.param(f"Osk\n===\n{wrapped(ONE)}", f"Osk\n===\n{ONE}", id="heading"),
        pytest.param(f"# Osk\n{wrapped(ONE)}", f"# Osk\n{ONE}", id="heading with a mark"),
        pytest.param(wrapped(ONE).replace("\n", "\r\n"), ONE, id="carriage returns"),
        pytest.param(
            f"{wrapped(ONE)}\n\nWhat the island keeps of its old plans and letters is told in the file\n.gitmodules of the house.",
            f"{ONE}\n\nWhat the island keeps of its old plans and letters is told in the file .gitmodules of the house.",
            id="a dot first",
        ),
    ],
)
def test_the_shape_of_a_paragraph(given: str, expected: str | None) -> None:
    if expected is None:
        assert unwrap(given).startswith(f"* {ONE}\n* ")
    else:
        assert unwrap(given) == expected


VERSE = """The keeper climbed the stair at night
  and lit the lamp beside the sea,
And all the ships that saw the light
  came home to where they ought to be."""
ADDRESS = "The Harbour Office\n12 Pier Road\nOsk\nThe Island"
TABLE = "name      depth   built\nnorth     12 m    1820\nsouth     14 m    1832"
OPTIONS = "-v, --verbose   tell what is being done while it is being done and more\n-q, --quiet     tell nothing at all, not even where something is wrong"
CODE = "    for (i = 0; i < n; i++) {\n        // walk over all the piers of the harbour one after another\n        walk(i);\n    }"
FENCED = "```\nThe output of the lamp is a line of words that goes on\nand on until the end.\n```"
NAMES = "north_pier\nsouth_pier\nlamp_house"


@pytest.mark.parametrize(
    "kept", [VERSE, ADDRESS, TABLE, OPTIONS, CODE, FENCED, NAMES], ids=str.split
)
def test_what_is_no_paragraph_keeps_its_lines(kept: str) -> None:
    text = unwrap(f"{wrapped(ONE)}\n\n{kept}\n\n{wrapped(TWO)}")
    assert text == f"{ONE}\n\n{kept}\n\n{TWO}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "One line.",
        f"{ONE}\n{TWO}\n{ONE}",
        f"Headline of the day\n{ONE}\n\n{TWO}",
        f"{VERSE}\n\n{VERSE}",
        ADDRESS,
        "a\tb\nc\td  \n",
    ],
)
def test_texts_that_were_not_broken_come_back_as_they_are(text: str) -> None:
    assert unwrap(text) == text


def test_news_keeps_its_lines(shared: Path) -> None:
    csv.field_size_limit(sys.maxsize)
    with (shared / "data" / "factor" / "news_factor.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        texts = [row["full_prefix"] + row["completion"] for row in csv.DictReader(file)]
    assert sum(unwrap(text) == text for text in texts) >= 0.99 * len(texts)


@pytest.mark.parametrize(
    ("end", "start", "joined"),
    [
        ("light", "house", "light house"),
        ("light-", "house", "light-house"),
        ("har-", "bour", "harbour"),
        ("1820 -", "1832", "1820 - 1832"),
    ],
)
def test_hyphens_at_the_end_of_a_line(end: str, start: str, joined: str) -> None:
    text = unwrap(
        f"{wrapped(ONE)}\n\nThe keeper of the piers of the old island of Osk lives near the {end}\n{start} with his dog."
    )
    assert text.endswith(f"near the {joined} with his dog.")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Prose.\n\n```c\nint a;\nWords here.\n```\nProse.", "..####."),
        ("For example::\n\n  The words of it.\n\n  More of it.\n\nProse again.", "..#.#.."),
        (f"Prose.\n\n{CODE}", "..####"),
        (f"{TABLE}\n\nProse.", "###.."),
        ("| a | b |\n|---|---|\n| c | d |", "###"),
        ("  +-----+\n  | Osk |\n  +-----+", "###"),
        (
            "Osk\n---\nProse it is.  Two spaces follow it.\nProse it is.  Two spaces follow it.",
            ".#..",
        ),
        ("$ make install\n$ make test", "##"),
        ("The price is $4, or 5% less [1], and so on.", "."),
    ],
)
def test_code_and_tables_are_known(text: str, code: str) -> None:
    lines = text.split("\n")
    verbatim_lines = find_verbatim_lines(lines)
    found = "".join(
        "#" if index in verbatim_lines and line.strip() else "." for index, line in enumerate(lines)
    )
    assert found == code


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
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
                ONE,
            ]
        ),
        max_size=60,
    )
)
def test_no_word_is_lost(parts: list[str]) -> None:
    text = " ".join(parts)
    assert unwrap(text).split() == text.split()


@pytest.mark.parametrize(
    "piece",
    [
        "a\n",
        "a  b\n",
        "|\n",
        "word word word word word word word\n",
        "(" * 70 + "\n",
        " " * 70 + "a\n",
    ],
)
def test_a_megabyte_takes_seconds_at_most(piece: str) -> None:
    start = time.process_time()
    unwrap(wrapped(ONE) + "\n" + piece * (1_000_000 // len(piece)))
    unwrap(
        wrapped(ONE) + "\n" + piece.replace("\n", " ") * (1_000_000 // len(piece)) + "\nand so on"
    )
    assert time.process_time() - start < 8
