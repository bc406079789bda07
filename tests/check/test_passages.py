"""Documents are cut into passages along sentences, and table rows stay whole."""

from __future__ import annotations

import itertools
import time

import pytest

from lm_factuality.check.passages import cut_into_passages, unwrap_lines


def sentence(number: int, num_words: int = 20) -> str:
    """Return a sentence of so many words, which begins with its number in words."""
    return " ".join([f"Sentence{number}", *["word"] * (num_words - 1)]) + "."


def test_a_short_text_is_one_passage():
    """A sentence alone often does not say what it is about, as "It thawed." shows."""
    assert cut_into_passages("It froze. It thawed.") == ["It froze. It thawed."]


def test_consecutive_passages_overlap_by_one_sentence():
    """A passage has room for four sentences of 20 words."""
    one, two, three, four, five, six, seven = [
        sentence(number, num_words=20) for number in range(1, 8)
    ]

    passages = cut_into_passages(f"{one} {two} {three} {four} {five} {six} {seven}")

    assert passages == [f"{one} {two} {three} {four}", f"{four} {five} {six} {seven}"]


def test_every_sentence_shares_a_passage_with_its_predecessor():
    """Only the sentence before it may say what "It" in a sentence is."""
    sentences = [sentence(number, num_words=7 * number % 50 + 2) for number in range(1, 60)]

    passages = cut_into_passages(" ".join(sentences))

    for former, latter in itertools.pairwise(sentences):
        # A longer sentence is not repeated.
        if len(former.split()) <= 40:
            assert any(f"{former} {latter}" in passage for passage in passages)


def test_a_table_row_within_a_text_is_a_passage_of_its_own():
    """Rows of a table do not explain each other."""
    text = "Prices follow.\n\nitem: Rope\nprice: 3\n\nitem: Sail\nprice: 40\n\nThey may change."

    passages = cut_into_passages(text)

    assert passages == [
        "Prices follow.",
        "item: Rope\nprice: 3",
        "item: Sail\nprice: 40",
        "They may change.",
    ]


def test_table_row_document_is_one_passage():
    """The other cells say something about the name in the first cell."""
    row = f"name: Ada\nnote: {sentence(1, num_words=60)}\n\n{sentence(2, num_words=60)}"

    assert cut_into_passages(row, is_row=True) == [row]


def test_a_row_with_a_long_text_is_cut():
    """Twenty sentences of 20 words are more than a passage has room for."""
    row = "text: " + " ".join(sentence(number, num_words=20) for number in range(20))

    assert len(cut_into_passages(row, is_row=True)) > 1


@pytest.mark.parametrize(
    ("block", "lines"),
    [
        (
            "The library at the harbour is open on every day of\nthe week.",
            ["The library at the harbour is open on every day of the week."],
        ),
        (
            "Opening hours\nThe library opens at nine.",
            ["Opening hours", "The library opens at nine."],
        ),
        ("- rope\n- sail", ["- rope", "- sail"]),
        (
            "It was built for the harbour and its boats in 1840.\nIt burned down in 1852.",
            ["It was built for the harbour and its boats in 1840.", "It burned down in 1852."],
        ),
        ("  \n", []),
    ],
)
def test_only_lines_broken_within_a_sentence_are_joined(block, lines):
    """Text files break lines at a width, but line breaks after headings and in lists are kept."""
    assert unwrap_lines(block) == lines


@pytest.mark.parametrize("text", ["word " * 5000, "x" * 5000, "\u6f22" * 5000])
def test_text_without_sentence_ends_is_cut(text):
    """A judge cannot read a passage of any length."""
    passages = cut_into_passages(text)

    assert max(map(len, passages)) <= 1300
    assert "".join(passages).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    "text", ["x" * 5_000_000, "a. " * 500_000, "a: b\n" * 500_000, "\n \n" * 500_000]
)
def test_a_huge_text_takes_little_time(text):
    """People index whole folders, and one file must not take hours."""
    start = time.process_time()

    cut_into_passages(text)

    assert time.process_time() - start < 20


@pytest.mark.parametrize("text", ["", " \n\n "])
def test_an_empty_text_has_no_passages(text):
    assert cut_into_passages(text) == []
    assert cut_into_passages(text, is_row=True) == []
