"""Answers are split into claims, which know their place; what states nothing is no claim."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from lm_factuality.benchmarks.biographies.decompose import is_abstention
from lm_factuality.check.claims import split_answer
from tests.ground.test_linear import Repetition, is_linear

ANSWERS = sorted((Path(__file__).parent / "answers").glob("*.md"))


def texts(answer: str) -> list[str]:
    """Return the texts of the claims of an answer."""
    return [claim.text for claim in split_answer(answer)]


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        pytest.param(
            "Ada was born in 1900 and died in 1950. She sang.",
            ["Ada was born in 1900.", "Ada died in 1950.", "She sang."],
            id="facts of a sentence",
        ),
        pytest.param(
            "If water is heated and stirred, it moved.",
            ["If water is heated and stirred, it moved."],
            id="a condition stays whole",
        ),
        pytest.param(
            'Ada said, "I cannot sing" in 1900.',
            ['Ada said, "I cannot sing" in 1900.'],
            id="quoted I",
        ),
        pytest.param(
            "If you want to boil water, heat it to 100 °C.",
            ["If you want to boil water, heat it to 100 °C."],
            id="a condition that is no offer",
        ),
        pytest.param(
            "However, scientists continue to look for it.",
            ["However, scientists continue to look for it."],
            id="an unknown verb after a lead",
        ),
        pytest.param(
            "There are 8 billion people.", ["There are 8 billion people."], id="people in the world"
        ),
        pytest.param("Beach v. Lind is a case.", ["Beach v. Lind is a case."], id="abbreviation"),
        pytest.param("Plants need light.", ["Plants need light."], id="an unknown verb"),
        pytest.param("Paris", ["Paris"], id="a short answer"),
        pytest.param("# Life\n\nAda sang.", ["Ada sang."], id="a heading"),
        pytest.param("**Life**\nAda sang.", ["Ada sang."], id="a bold title"),
        pytest.param("Early life\n\nAda sang.", ["Ada sang."], id="a plain title"),
        pytest.param(
            "**Ada was a singer.**\n\nBo sang.", ["Ada was a singer.", "Bo sang."], id="bold"
        ),
        pytest.param("Ada sang.\n---\nBo sang.", ["Ada sang.", "Bo sang."], id="a rule"),
        pytest.param("Ada was\na singer.", ["Ada was a singer."], id="a wrapped line"),
        pytest.param("*Example: Bo.*\n\nAda sang.", ["Ada sang."], id="a name of an example"),
        pytest.param("> Ada sang.", ["Ada sang."], id="a quotation"),
        pytest.param("Run:\n```\nAda was here.\n```\nBo sang.", ["Bo sang."], id="fenced code"),
        pytest.param("Bo sang.\n\n    x = is(1)\n", ["Bo sang."], id="indented code"),
        pytest.param(
            "Bo sang.\n\n    Ada sang too.\n", ["Bo sang.", "Ada sang too."], id="indented prose"
        ),
        pytest.param("<think>Is it?</think>Ada sang.", ["Ada sang."], id="a thought"),
        pytest.param("Ada sang.\\n\\nBo sang.", ["Ada sang.", "Bo sang."], id="escaped breaks"),
        pytest.param(
            "[Ada](https://a.org/b_(c)) *sang* `x_y` &amp; 2*3 [1][2].",
            ["Ada sang x_y & 2*3."],
            id="markup",
        ),
        pytest.param(
            "It is not possible to travel faster than light.",
            ["It is not possible to travel faster than light."],
            id="an impossibility is no refusal",
        ),
        pytest.param(
            "Le pont a été construit en 1900.", ["Le pont a été construit en 1900."], id="French"
        ),
    ],
)
def test_answer_is_split_into_the_expected_claims(answer, claims):
    """A claim states one thing that can be looked up, so headings and code are no claims."""
    assert texts(answer) == claims


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        pytest.param(
            "The largest cities are:\n- Oslo\n- **Bergen** – the old capital\n",
            ["The largest cities are Oslo.", "The largest cities are Bergen – the old capital."],
            id="phrases after a verb",
        ),
        pytest.param(
            "It has three parts:\n1. the head\n2. The tail is long.\n",
            ["It has three parts: the head.", "The tail is long."],
            id="phrases after a noun",
        ),
        pytest.param(
            "## Symptoms\n• Fever\n• High pressure\n",
            ["Symptoms: Fever.", "Symptoms: High pressure."],
            id="phrases below a heading",
        ),
        pytest.param(
            "- **Climate**: The city is mild. It rains.\n",
            ["Climate: The city is mild.", "It rains."],
            id="a label and sentences",
        ),
        pytest.param(
            "## 2. Types\n1. **Early**\n   - Fever\n   - It is mild.\n",
            ["Types: Early: Fever.", "It is mild."],
            id="nested lists",
        ),
        pytest.param(
            "Norway\nCapital: Oslo\nCurrency: krone\n\nSweden\nCapital: Stockholm\nCurrency: krona",
            [
                "Norway: Capital: Oslo.",
                "Norway: Currency: krone.",
                "Sweden: Capital: Stockholm.",
                "Sweden: Currency: krona.",
            ],
            id="lines of labels",
        ),
        pytest.param(
            "## Calvin cycle\n\nThis stage is dark. It is slow.",
            ["Calvin cycle: This stage is dark.", "It is slow."],
            id="a pronoun after a heading",
        ),
        pytest.param(
            "**Cats.** The two kinds differ. They are old.",
            ["Cats: The two kinds differ.", "They are old."],
            id="a pronoun after a bold title in the line",
        ),
        pytest.param(
            "There are plants that learn, including:\n- moss\n- For example, some ferns can learn.",
            ["There are plants that learn, including moss.", "Some ferns can learn."],
            id="a lead within a word and one before a sentence",
        ),
        pytest.param("## Apollo 11 crew\n- Fever", ["Apollo 11 crew: Fever."], id="a number"),
        pytest.param("## Illness\n### Summary\n- Fever", ["Fever."], id="an empty title"),
        pytest.param(
            "1. **Illness**\n   - **Examples**\n     - Fever", ["Illness: Fever."], id="in a list"
        ),
        pytest.param(
            "Rules:\n- No tanks\n",
            ["Rules: No tanks."],
            id="a negation is kept",
        ),
    ],
)
def test_list_item_fragment_is_joined_to_its_introduction(answer, claims):
    """ "Oslo" alone cannot be checked, and "The largest cities are Oslo" can."""
    assert texts(answer) == claims


def test_table_cell_is_joined_to_its_row_and_column_names():
    """A cell alone does not say what it is about, and an empty cell says nothing."""
    answer = (
        "| Country | Capital | In the EU | Note |\n|---|---|---|---|\n"
        "| **Norway** | Oslo | ❌ | – |\n| Sweden | Stockholm | ✅ | |\n"
    )

    assert texts(answer) == [
        "Norway, Capital: Oslo.",
        "Norway, In the EU: No.",
        "Sweden, Capital: Stockholm.",
        "Sweden, In the EU: Yes.",
    ]


@pytest.mark.parametrize(
    ("text_above", "claims"),
    [
        ("## Europe", ["Europe: Norway, Capital: Oslo.", "Europe: Sweden, Capital: Stockholm."]),
        ("Here are the kingdoms:", ["The kingdoms: Norway, Capital: Oslo."]),
        ("Table 2: Kingdoms", ["Kingdoms: Norway, Capital: Oslo."]),
        ("The table below lists some kingdoms.", ["Some kingdoms: Norway, Capital: Oslo."]),
        ("The table shows that Ada sang.", ["The table shows that Ada sang."]),
        ("## Summary", ["Norway, Capital: Oslo."]),
    ],
)
def test_table_cell_is_joined_to_the_table_introduction(text_above, claims):
    """A cell such as "Capital: Oslo" may depend on what the table is about."""
    table = "| Country | Capital |\n|---|---|\n| Norway | Oslo |\n| Sweden | Stockholm |"

    first_claims = texts(f"{text_above}\n\n{table}")[: len(claims)]

    assert first_claims == claims


def test_table_introduction_does_not_apply_after_the_table():
    """The line before a table belongs to its rows, but not to a list after the table."""
    answer = "Kingdoms:\n\n| Country | Capital |\n|---|---|\n| Norway | Oslo |\n\n- Fever\n"

    assert texts(answer) == ["Kingdoms: Norway, Capital: Oslo.", "Fever."]


def test_year_in_a_table_is_joined_to_its_column_name():
    """A number such as "1969" alone does not say that it is a year."""
    assert texts("| Year | Event |\n|--|--|\n| 1969 | Moon landing |") == [
        "Year 1969, Event: Moon landing."
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "Sure!",
        "Great question!",
        "Here is an overview of the town.",
        "Let me know if you need more details.",
        "I hope this helps!",
        "If you have any questions, please ask.",
        "Would you like more?",
        "It depends.",
        "However, I can provide you with an example.",
        "I'm sorry, but I cannot say when.",
        "The documents do not say when it opened.",
        "Please consult your doctor.",
        "Two techniques deserve a note.",
    ],
)
def test_sentence_without_a_statement_is_no_claim(sentence):
    """As claims, such sentences would lower the share of supported claims."""
    assert texts(f"{sentence}\n\nAda was a singer.") == ["Ada was a singer."]
    assert texts(sentence) == []


@pytest.mark.parametrize("words", ["Please note that", "It's worth noting that", "For example,"])
def test_remark_to_the_reader_is_removed_from_a_claim(words):
    """No document says such words."""
    assert texts(f"{words} Ada was a singer.") == ["Ada was a singer."]


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_a_claim_knows_its_place_in_a_long_answer(path):
    """The page of a check marks each claim at its place in the answer."""
    answer = path.read_text(encoding="utf-8")

    claims = split_answer(answer)

    assert len(claims) >= 13
    for claim in claims:
        place = answer[claim.start : claim.end]
        # A claim may begin with words of a heading above it, so only its last word is compared.
        last_word = re.findall(r"\w+", claim.text.lower())[-1]
        # In tables, "yes" and "no" stand for signs such as ✅.
        assert last_word in place.lower() or last_word in ("yes", "no")
        assert "```" not in place


def test_places_are_right_with_windows_line_ends_and_thoughts():
    """A line end of Windows has two characters, and a thought before the answer is removed."""
    answer = "<think>Hm.</think># Life\r\n\r\n- *Ada* sang &amp; danced.\r\n- Bo sat.\r\n"

    places = [answer[claim.start : claim.end] for claim in split_answer(answer)]

    assert places == ["Ada* sang &amp; danced.", "Bo sat."]


def test_refusals_are_distinguished_from_answers():
    """Refusals and empty answers have no claims, and are counted apart from answers."""
    assert is_abstention("I'm sorry, but I can't help with that.")
    assert is_abstention("")
    assert not is_abstention("Ada sang.")


PIECES = (
    "> ",
    "[",
    "[a](",
    "a|",
    "- a\n",
    "\n",
    "`",
    "<",
    "| a | b |\n",
    "*a _b ",
    "A: b\n",
    "It is. ",
)


@pytest.mark.parametrize("piece", PIECES)
def test_splitting_an_answer_takes_linear_time(piece):
    """Otherwise a hostile answer could stop a check for hours."""
    assert is_linear(split_answer, Repetition(piece), scale=3)


def test_an_answer_of_one_megabyte_is_split_in_half_a_minute():
    """Many open brackets and stars must not make the time grow with the square of the length."""
    one_megabyte = "Ada [was](x) a **singer**, if " * 33_000
    start = time.process_time()

    split_answer(one_megabyte)

    seconds = time.process_time() - start
    assert seconds < 30


def test_bold_title_of_a_list_item_is_no_claim():
    """The title only names what the item is about."""
    claims = split_answer("1. **Final selection.** Three completions are kept.")

    assert [claim.text for claim in claims] == ["Three completions are kept."]


def test_short_first_sentence_of_a_list_item_is_a_claim():
    """It is no title, since it is a whole sentence."""
    claims = split_answer("1. It floats. It sinks in oil.")

    assert [claim.text for claim in claims] == ["It floats.", "It sinks in oil."]
