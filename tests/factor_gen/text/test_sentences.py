"""Where sentences begin and end at numbers, brackets and the marks of lists."""

from __future__ import annotations

import pytest

from factor_gen.text.sentences import sentence_spans


def split(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        pytest.param(
            "(Sparc Ultra 10, Pentium II, 450.) I'm calling this the slow way.",
            ["(Sparc Ultra 10, Pentium II, 450.)", "I'm calling this the slow way."],
            id="a bracket that closes after a number",
        ),
        pytest.param(
            "It rose to 450. It then fell.",
            ["It rose to 450.", "It then fell."],
            id="a number at the end",
        ),
        pytest.param(
            'It rained (we stayed.) "They left," she said.',
            ["It rained (we stayed.)", '"They left," she said.'],
            id="a quote follows",
        ),
        pytest.param(
            "(d) If it has a file, read it. Those (the notices) stay.",
            ["If it has a file, read it.", "Those (the notices) stay."],
            id="a bracket that marks a list item",
        ),
    ],
)
def test_a_number_or_a_bracket_does_not_hide_the_end_of_a_sentence(
    text: str, sentences: list[str]
) -> None:
    """The library that splits texts takes such a full stop for part of an abbreviation."""
    assert split(text) == sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "See No. 5 and Fig. 3 of vol. 2, pp. 5-6, for it.",
        "The value (see Sec. 4.) is small.",
        "They bought a shop (Acme Inc.) Monday.",
        "He met a man (called J.) Smith of Oslo.",
    ],
)
def test_a_number_or_a_bracket_ends_no_sentence(sentence: str) -> None:
    """The full stop after "No" or "Inc" belongs to the abbreviation."""
    assert split(sentence) == [sentence]


@pytest.mark.parametrize("start", ["(US)", "1. FC"])
def test_lookalikes_of_list_markers_belong_to_the_sentence(start: str) -> None:
    """ "(US)" is an abbreviation, and "1. FC" begins the name of a football club."""
    [first, *_] = split(f"{start} Selmouth is old.")

    assert first.startswith(start)


@pytest.mark.parametrize("mark", ["- ", "* ", "\u2022 ", "3. ", "(a) "])
def test_list_markers_belong_to_no_sentence(mark: str) -> None:
    """A model could recognise a completion by a list marker."""
    assert split(f"{mark}The rope is long. It is old.") == ["The rope is long.", "It is old."]


def test_a_line_of_brackets_takes_time_in_proportion_to_its_length() -> None:
    """The line has 20,000 brackets. With a time by the square of it, the test would not end."""
    assert len(split("(a.) " * 20_000 + "It ended here.")) >= 1
