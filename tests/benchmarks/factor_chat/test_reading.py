"""What an answer says: a word that was offered, or a reason."""

import math

import pytest

from lm_factuality.benchmarks.factor_chat.metrics import word_probabilities
from lm_factuality.benchmarks.factor_chat.reading import NoClearAnswerError, read_word
from lm_factuality.harness.outputs import WordAnswer

TRUE_FALSE, LETTERS = ("True", "False"), ("A", "B", "C", "D")
NONE = "none of True, False alone"
HEDGED = "hedged"


def read(text, words):
    """Return the index of the word, or the reason why none can be read."""
    try:
        return read_word(text, words)
    except NoClearAnswerError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("True", 0),
        ("False", 1),
        (" true.", 0),
        ("FALSE!", 1),
        ("**True**", 0),
        ('"False"', 1),
        ("`True`", 0),
        ("Answer: False", 1),
        ("The answer is True.", 0),
        ("My final answer is: **False**.", 1),
        ("<think>False? No.</think>\n\nTrue", 0),
        ("True, because the text says so.", 0),
        ("False. It is not true that it fell.", 1),
        ("False, it was a baker.", 1),
        ("The keeper was a sailor.\n\nFalse", 1),
        ("Let me see.\nAnswer: True", 0),
        ("True.\nAnswer: True", 0),
        ("", "an empty answer"),
        (" \n ", "an empty answer"),
        ("<think>True", "thinking without an end"),
        ("I'm sorry, but I cannot tell.", HEDGED),
        ("Maybe", HEDGED),
        ("Yes", 0),
        ("Not true", 1),
        ("Truest", NONE),
        ("True or False", HEDGED),
        ("Mostly true", HEDGED),
        ("Cannot be determined", HEDGED),
        ("The statement is false.", 1),
        ("False (the number is 19)", 1),
        ("\\boxed{False}", 1),
        ("**Answer:** True", 0),
        ('{"answer": "False"}', 1),
        ("The team was right to leave.", NONE),
        ("True\n\nActually, false.", "an answer that is taken back"),
        ("True / False", NONE),
        ("It is true that the keeper was a baker", NONE),
        ("True\nFalse", "two answers that differ"),
        ("Answer: True\nAnswer: False", "two answers that differ"),
        ("True, but the date is wrong.", "an answer that is taken back"),
        ("True. Nothing speaks for it, however.", "an answer that is taken back"),
    ],
)
def test_true_and_false_are_read_strictly(text, expected):
    assert read(text, TRUE_FALSE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", 1),
        ("b", 1),
        ("(C)", 2),
        ("D. The keeper was not a baker.", 3),
        ("A) The keeper", 0),
        ("Answer: **B**", 1),
        ("The answer is C.", 2),
        ("A sailor kept it.", "none of A, B, C, D alone"),
        ("E", "none of A, B, C, D alone"),
        ("A and B", "none of A, B, C, D alone"),
        ("A\nB", "two answers that differ"),
        ("Version C is true.", 2),
        ("The correct answer is B", 1),
        ("Option C", 2),
        ("A, B and C have the wrong year, so the answer is D.", 3),
        ("Either A or C", HEDGED),
    ],
)
def test_letters_are_read_strictly(text, expected):
    assert read(text, LETTERS) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (WordAnswer((math.log(0.3), math.log(0.1))), (0.75, 0.25)),
        (
            WordAnswer((-2000.0, -2000.0 + math.log(3))),
            (0.25, 0.75),
        ),  # too small for a float, and comparable all the same
        (WordAnswer((math.log(0.2), None)), (1, 0)),
        (WordAnswer(None, "False"), (0, 1)),
    ],
)
def test_probabilities_are_those_of_the_words_alone(answer, expected):
    assert word_probabilities(answer, TRUE_FALSE) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (WordAnswer(None, "", "HTTP 500"), "HTTP 500"),
        (WordAnswer(None, "Perhaps"), HEDGED),
        (WordAnswer((None, None)), "no probability of any of True, False"),
        (WordAnswer((math.nan, -1.0)), "no probability of any of True, False"),
        (WordAnswer((-1.0, math.nan)), "no probability of any of True, False"),
    ],
)
def test_an_answer_without_a_clear_word_is_refused_with_a_reason(answer, reason):
    with pytest.raises(NoClearAnswerError, match=f"^{reason}$"):
        word_probabilities(answer, TRUE_FALSE)


def test_a_long_answer_is_read_in_a_short_time():
    for text in (
        "True " * 20_000,
        "*" * 100_000,
        " " * 100_000 + "True",
        "(" * 100_000,
        "answer " * 20_000,
        "\n" * 100_000,
    ):
        read(text, TRUE_FALSE)


def test_the_last_line_answers_where_the_whole_text_does_not():
    assert read_word("The tower is tall\nThis is wrong.", ("True", "False")) == 1
