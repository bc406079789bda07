"""What outputs say, the tricky ones among them."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_factuality.benchmarks.felm.grammar import UnreadableAnswerError
from lm_factuality.benchmarks.felm.verdicts import majority_vote, read_verdict

READABLE = {
    "Answer: 1,2": {1, 2},
    "Answer: 1, 3": {1, 3},
    "Answer: 1;2": {1, 2},
    "Answer: 1 and 4": {1, 4},
    "Answer: 1, 2, and 4.": {1, 2, 4},
    "Answer: [1, 2]": {1, 2},
    "Answer: (2)": {2},
    "Answer: #2, #3": {2, 3},
    "Answer: Segments 1 and 3": {1, 3},
    "Answer: segment 1, segment 3": {1, 3},
    "Answer: claim 2": {2},
    "Answer: 2-4": {2, 3, 4},
    "Answer: 1 to 3": {1, 2, 3},
    "Answer:\n2, 3": {2, 3},
    "answer: 2": {2},
    "ANSWER : 2": {2},
    "Final answer: 2": {2},
    "Answer: 1,2\nIt means that segments 1,2 contain errors.": {1, 2},
    "Answer: 2 (the year is wrong)": {2},
    "Answer: 2. The year is 1990.": {2},
    "Thought: Segment 1 says 1990, it was 1991.\nAnswer: 1": {1},
    "Thought: nothing is wrong.\nAnswer: ALL_CORRECT": set(),
    "Answer: ALL_CORRECT": set(),
    'Answer: "ALL_CORRECT"': set(),
    "Answer: ALL_CORRECT.": set(),
    "Answer: all correct": set(),
    "Answer: All segments are correct.": set(),
    "Answer: none": set(),
    "Answer: No errors": set(),
    "ALL_CORRECT": set(),
    "1, 3": {1, 3},
    "3": {3},
    # markdown
    "**Answer:** 1, 3": {1, 3},
    "**Answer**: 2": {2},
    "### Answer: 3": {3},
    "- Answer: 3": {3},
    "> Answer: 3": {3},
    "`Answer: 2`": {2},
    "```\nAnswer: 2\n```": {2},
    "Answer: **2**, **3**": {2, 3},
    "Answer: ALL\\_CORRECT": set(),
    # other languages and widths
    "答案：1，2": {1, 2},
    "答え：３": {3},
    "Respuesta: 2": {2},
    "Réponse : 2": {2},
    "Antwort: ALL_CORRECT": set(),
    "Ответ: 1, 2": {1, 2},
    "思考：第二段有错误。\n答案：2": {2},
    # ids with notes, on one line or one a line
    "Answer: 1 (wrong date), 3 (wrong name)": {1, 3},
    "Answer: 1 (wrong date) and 3 (wrong name).": {1, 3},
    "Answer:\n1\n3": {1, 3},
    "Answer:\n- 1\n- 3": {1, 3},
    "Answer:\n* 1,\n* 3": {1, 3},
    "Answer:\n2\n\n4": {2, 4},
    "Answer: 1, 3\n1. The date is wrong\n3. The name is wrong": {1, 3},
    "Answer: 1, 2\nSegments 1 and 2 are wrong.": {1, 2},
    "Answer: 2 (it was 1990, not 1991)": {2},
    "Answer: 2 (the year (1990) is wrong)": {2},
    "Answer: 1 (the correct year is 1990)": {1},
    # what may follow ALL_CORRECT
    "Answer: ALL_CORRECT. Every fact holds.": set(),
    "Answer: ALL_CORRECT (no errors found)": set(),
    "Answer: ALL_CORRECT because every fact holds": set(),
    "Answer: ALL_CORRECT\nEvery fact holds.": set(),
    # models that think aloud or go on
    "<THINKING>Answer: 1?</Thinking>Answer: 4": {4},
    "<think>Answer: 1?</think>Answer: 4": {4},
    "Answer: 1\n\nQuestion: What else?\nSegments:\n1. This.\n\nYour output:\nAnswer: 2": {1},
}

# What chat models write: the ids that a careful reader takes it for, None where there is no one
# reading.
CHAT = [
    ("### Answer\n2, 3", {2, 3}),
    ("## Final Answer\nALL_CORRECT", set()),
    ("**Final Answer: 2**", {2}),
    ("\\boxed{2}", {2}),
    ("After weighing each segment, the wrong one is $\\boxed{2}$.", {2}),
    ("\\boxed{ALL_CORRECT}", set()),
    ("The final answer is: $\\boxed{\\text{ALL\\_CORRECT}}$", set()),
    ("Answer: \\boxed{2, 3}", {2, 3}),
    ("Answer: $\\boxed{\\text{2, 3}}$", {2, 3}),
    ('{"answer": [2, 3]}', {2, 3}),
    ('```json\n{"answer": [2, 3]}\n```', {2, 3}),
    ('{\n  "thought": "Segment 2 has the wrong year.",\n  "answer": [2]\n}', {2}),
    ('{"answer": []}', set()),
    ('{"Answer": "ALL_CORRECT"}', set()),
    ('{"answer": "2, 3"}', {2, 3}),
    ('{"answer": 3}', {3}),
    ('Here is my verdict.\n```json\n{"answer": ["1", "4"]}\n```', {1, 4}),
    ('{"answer": null}', None),
    ('{"answer": [5]}', None),
    ('{"answer": [2.0]}', None),
    ('{"answer": [2], "answer": [3]}', None),
    ("[2, 3]", {2, 3}),
    ("Answer: None.", set()),
    ("Answer: There are no factual errors.", set()),
    ("Answer: None of the segments contain factual errors.", set()),
    ("Answer: []", set()),
    ("Answer: Segments 2 and 3 contain errors.", {2, 3}),
    ("Answer: segment 2, and segment 4.", {2, 4}),
    ("Answer: 2 through 4", {2, 3, 4}),
    ("Answer:\n- Segment 2\n- Segment 3", {2, 3}),
    ("Answer: 2, 3\n\nExplanation: The dates in these segments are wrong.", {2, 3}),
    ("Answer: 2\n\nIt means segment 2 contains errors.", {2}),
    ("Answer: 1, 3\n\nSegment 1: The year is wrong.\nSegment 3: The name is wrong.", {1, 3}),
    ("Answer: 1, 3. All other segments are accurate.", {1, 3}),
    ("Answer: ALL_CORRECT\n\nThought: There are no errors.", set()),
    ("Thought: Segment 2 misstates the year.\n\nAnswer: 2", {2}),
    ("Let me restate it.\nQuestion: Who built it?\nSegment 2 names the wrong man.\nAnswer: 2", {2}),
    ("Sure! Here's my assessment:\n\nAnswer: 2", {2}),
    ("Answer: 2\nAnswer: 2", {2}),
    ("Answer: 2\n\nWait, segment 3 too.\n\nAnswer: 2, 3", {2, 3}),
    ("Answer: 2\n\nAnswer: 3", None),
    ("Answer: 2\nSegment 3 is wrong as well.", None),
    ("Answer: 2\nThe third segment is wrong as well.", None),
    ("Answer: 2 or 3", None),
    ("Answer: not 2", None),
    ("Answer: 2?", None),
    ("Answer: 2 (possibly)", None),
    ("Answer: all", None),
    ("Answer: All segments contain errors.", None),
    ("Answer: Yes", None),
    ("Answer: ALL_CORRECT\n\nSegment 3 gets the year wrong, though.", None),
    ("Answer: ALL_CORRECT (except for segment 3)", None),
    ("Answer: [numbers of the segments]", None),
    ("The answer is 2.", None),
    ("1. Correct\n2. Wrong\n3. Correct\n4. Correct", None),
    ("| Segment | Verdict |\n| 1 | ok |\n| 2 | wrong |", None),
    ("1. The tower was built in 1889.", None),
]

UNREADABLE = {
    "": "empty output",
    "  \n ": "empty output",
    "Answer:": "nothing after",
    "Thought: For segment 2, the number of reac": "no answer line",
    "The second segment is wrong.": "no answer line",
    "Thought: not everything is ALL_CORRECT here, I would say": "no answer line",
    "第二段有错误。": "no answer line",
    "El segundo segmento es incorrecto.": "no answer line",
    "Answer: 0": "id 0; the last is 4",
    "Answer: 0, 2": "id 0",
    "Answer: 5": "id 5; the last is 4",
    "Answer: 1, 99": "id 99; the last is 4",
    "Answer: 3-9": "id 9; the last is 4",
    "Answer: 12345678901234567890": "id 123456789; the last is 4",
    "Answer: -1": "more than ids",
    "Answer: 1,": "more than ids",
    "Answer: 1, 2 and": "more than ids",
    "Answer: 1 2": "more than ids",
    "Answer: 1.5": "more than ids",
    "Answer: 1 is wrong, 2 is right": "more than ids",
    "Answer: ALL_CORRECT, 2": "more than ids",
    "Answer: 2, others ALL_CORRECT": "more than ids",
    "Answer: ALL_CORRECT\n2": "more than ids",
    "Answer: 2\nALL_CORRECT": "two answers",
    "Answer: ALL_CORRECT except the third segment": "more than ids",
    "ALL_CORRECT, but the second segment is wrong": "more than ids",
    "Answer: All segments are correct except the last one": "more than ids",
    "Answer: ALL_CORRECT is false": "more than ids",
    "Answer: ALL_CORRECT?": "more than ids",
    "Answer: ALL_CORRECT. However, the third is wrong.": "more than ids",
    "Answer: ALL_CORRECT (only the date is wrong)": "more than ids",
    "Answer: ALL_CORRECT\nHowever, the date differs.": "more than ids",
    "Answer: ALL_CORRECT\nSegment 2 has an error.": "more than ids",
    "Answer: none\nBut the second is wrong.": "more than ids",
    # ids that are named only later
    "Answer: 2\n\n4": "more than ids",
    "Answer: 1\n3. The name is wrong": "more than ids",
    "Answer: 1\nSegments 2 and 3 are also wrong.": "more than ids",
    "Answer:\n1, 3\n4": "more than ids",
    "Answer:\n1\n2, 3 are wrong too": "more than ids",
    "Answer:\n1\n3,": "more than ids",
    "Answer: 2\n2: correct": "more than ids",
    "Answer: 1. 2": "more than ids",
    "Answer: 1 (wrong date, 3 (wrong name)": "more than ids",
    # notes that leave open what they say, or of which unit
    "Answer: 1: correct": "more than ids",
    "Answer: 1: correct, but the name differs": "more than ids",
    "Answer: 2, 3 (correct)": "more than ids",
    "Answer: 1: yes, 2: no": "more than ids",
    "Answer: 1. Segment 2 is wrong": "more than ids",
    "Answer:\n1. Segment 2 is wrong\n2. Segment 4 is wrong": "more than ids",
    "Answer:\n1. Ada was born in 1990.\n2. She won.\n3. She left.": "more than ids",
    # notes on the ids are no part of the grammar, but in brackets
    "Answer: 2 because it was 4 years later": "more than ids",
    "Thought: I first wrote Answer: 1 but no.\nAnswer: 1\nOn reflection:\nAnswer: 2": "two answers",
    "Answer: 1 - wrong date, 3 - wrong name": "more than ids",
    "Answer: 1: wrong date; 3: wrong name": "more than ids",
    "Answer: 1. The date is wrong. 3. The name is wrong.": "more than ids",
    "Answer: 1 because the date is wrong, 3 because the name is wrong": "more than ids",
    "Answer: 1, 2: wrong dates, 4: wrong name": "more than ids",
    "Answer:\n1. The date is wrong\n3. The name is wrong": "more than ids",
    "Answer:\n1) The date is wrong\n3) The name is wrong\nThat is all.": "more than ids",
    "Answer:\nSegment 1: wrong date\nSegment 3: wrong name": "more than ids",
    "Answer: 2\n1: correct\n2: wrong\n3: correct": "more than ids",
    "Answer: 2. It was May 4, 1990.": "more than ids",
    "Answer: 1: correct, 2: incorrect, 3: correct": "more than ids",
    "Answer: Segment 1: no error; Segment 2: error": "more than ids",
    "Answer: 1 (correct), 2 (not correct)": "more than ids",
    "Answer: 1: 正确, 2: 错误": "more than ids",
    "Answer:\n1. Correct.\n2. Incorrect.\n3. Correct\n4. Correct": "more than ids",
    "Answer: 1: correct, 2: correct, 3: no error, 4: true": "more than ids",
    "Answer: 2 (this one is accurate)": "more than ids",
    "Answer: 2. It is accurate.": "more than ids",
    "Answer: 2\nThe segment is factually correct.": "more than ids",
    "Answer: 2 and 3 are correct": "more than ids",
    "Answer: 1 (Ada wrote it), 2 (she won), 3 (she left), 4 (she died)": "more than ids",
    "Answer: 2/4": "more than ids",
    "Answer: 2 segments": "more than ids",
    "Answer: No. 2 and 3 are fine.": "more than ids",
    "Answer: none of 1, 2": "more than ids",
    "Answer: No errors in segment 1": "more than ids",
    "Answer: ALL_CORRECT\nThe third one has the year off.": "more than ids",
    "1.": "no answer line",
    "Answer: the second one": "more than ids",
    "Answer: I cannot tell": "more than ids",
    "I'm sorry, but I can't help with that.": "no answer line",
    "I’m sorry, I cannot judge this.": "no answer line",
    "As an AI language model, I have no access to sources.": "no answer line",
    "<think>The answer is 2. Answer: 2": "thinking without an end",
    "<Thinking>The answer is 2. Answer: 2": "thinking without an end",
}


def assert_unread(output: str, reason: str, is_cut_off: bool = False) -> None:
    with pytest.raises(UnreadableAnswerError, match=reason):
        read_verdict(output, 4, is_cut_off=is_cut_off)


@pytest.mark.parametrize(("output", "flagged"), READABLE.items())
def test_readable_outputs_flag_what_they_say(output: str, flagged: set[int]) -> None:
    assert read_verdict(output, 4) == frozenset(flagged)


@pytest.mark.parametrize(("output", "flagged"), CHAT)
def test_chat_models_are_read_as_a_careful_reader_does(
    output: str, flagged: set[int] | None
) -> None:
    if flagged is None:
        assert_unread(output, reason=".")
    else:
        assert read_verdict(output, 4) == flagged


@pytest.mark.parametrize(("output", "reason"), UNREADABLE.items())
def test_other_outputs_are_unscored_with_a_reason(output: str, reason: str) -> None:
    assert_unread(output, reason)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Answer: 1, 2", "cut off in the answer"),
        ("Answer: 1 (wrong da", "cut off in the answer"),
        ("Answer: 1 - wrong date, 3 - wro", "more than ids"),
        ("Answer:\n1. Wrong\n3. Wro", "more than ids"),
        ("Answer:", "cut off"),
        ("Thought: hm", "cut off before the answer"),
    ],
)
def test_a_cut_leaves_no_doubtful_verdict(output: str, reason: str) -> None:
    assert_unread(output, reason, is_cut_off=True)


def test_an_answer_before_the_cut_counts() -> None:
    assert read_verdict("Answer: 1, 2\nIt means that", 4, is_cut_off=True) == frozenset({1, 2})
    assert read_verdict("Answer: 2 because it was", 4, is_cut_off=True) == frozenset({2})
    assert read_verdict("Answer:\n1\n3\nThese are", 4, is_cut_off=True) == frozenset({1, 3})


@pytest.mark.parametrize(
    ("output", "flagged"),
    [
        ("no answer line", set()),
        ("Answer: 0", {4}),
        ("Answer: 2, 99", {2}),
        ("Thought: cut off", set()),
        ("Answer: 1, 2", {1, 2}),
        ("Not ALL_CORRECT.\nAnswer: 2", set()),
        ("**Answer:** 2", set()),
        ("Answer: 1\nIt means that segment 3 is fine", {1, 3}),
        (f"Answer: 2, {'9' * 5000}", {2}),
    ],
)
def test_protocol_code_reads_as_the_authors_script(output: str, flagged: set[int]) -> None:
    assert read_verdict(output, 4, "code") == frozenset(flagged)


# Outputs from a grammar: some way to name ids, inside some way to write an answer, with what the
# reading has to be.
NUM_UNITS = 30
ids_of_units = st.lists(st.integers(1, NUM_UNITS), min_size=1, max_size=8, unique=True).map(sorted)

FULL_WIDTH = str.maketrans("0123456789,", "０１２３４５６７８９，")
LISTS = {
    "commas": lambda ids: ",".join(map(str, ids)),
    "spaced": lambda ids: ", ".join(map(str, ids)),
    "semicolons": lambda ids: "; ".join(map(str, ids)),
    "and": lambda ids: " and ".join(map(str, ids)),
    "bold": lambda ids: ", ".join(f"**{number}**" for number in ids),
    "brackets": lambda ids: f"[{', '.join(map(str, ids))}]",
    "full width": lambda ids: ",".join(map(str, ids)).translate(FULL_WIDTH),
    "words": lambda ids: ", ".join(f"segment {number}" for number in ids),
    "bracketed notes": lambda ids: ", ".join(f"{number} (wrong date)" for number in ids),
    "lines": lambda ids: "\n" + "\n".join(map(str, ids)),
}
FRAMES = (
    "Answer: {}",
    "Thought: something is wrong.\nAnswer: {}",
    "**Answer:** {}",
    "### Final answer: {}",
    "> Answer: {}",
    "答案：{}",
    "Respuesta: {}",
    "Ответ: {}",
    "<think>Answer: ALL_CORRECT</think>Answer: {}",
    "Let me restate it.\nQuestion: What else?\nSegments:\nThis.\nAnswer: {}",
    "Answer: {}\nThese are wrong.",
    "Answer: {}\n\nQuestion: And what else?\nAnswer: ALL_CORRECT",
)


@given(st.sampled_from(sorted(LISTS)), st.sampled_from(FRAMES), ids_of_units)
def test_ids_are_read_however_they_are_written(name: str, frame: str, ids: list[int]) -> None:
    output = frame.format(LISTS[name](ids))
    assert read_verdict(output, NUM_UNITS) == frozenset(ids), output


@pytest.mark.parametrize(
    "piece",
    [
        "1, ",
        "1 - a, ",
        "1 (",
        "\n",
        " ",
        "1",
        "{",
        "*",
        "\\boxed{",
        "\n- 1",
        '{"answer": [1]}',
        "\nQuestion",
        "Answer: 1\n",
    ],
)
def test_a_megabyte_is_read_at_once(piece: str) -> None:
    began = time.perf_counter()
    with suppress(UnreadableAnswerError):
        read_verdict("Answer: " + piece * (1_000_000 // len(piece)) + "x", 5)
    assert time.perf_counter() - began < 10  # a quadratic reader takes minutes


@pytest.mark.parametrize(
    ("ballots", "flagged"),
    [
        ([{1}, {1}, {2}], {1}),
        ([{1}, {2}], set()),
        ([{1}, set(), {1, 2}, {2}], set()),
        ([{1}, None, {1}], {1}),
        ([{1}, None], {1}),
    ],
)
def test_the_majority_of_readable_outputs_decides(
    ballots: list[set[int] | None], flagged: set[int]
) -> None:
    readable = [frozenset(ballot) for ballot in ballots if ballot is not None]
    reasons = ["why" for ballot in ballots if ballot is None]
    assert majority_vote(readable, reasons) == flagged


@pytest.mark.parametrize(
    ("reasons", "reason"),
    [
        ([], "no output"),
        (["why"], "why"),
        (["why", "x"], "none of 2 outputs can be read, the first: why"),
    ],
)
def test_without_readable_outputs_there_is_only_a_reason(reasons: list[str], reason: str) -> None:
    with pytest.raises(UnreadableAnswerError, match=f"^{reason}$"):
        majority_vote([], reasons)
