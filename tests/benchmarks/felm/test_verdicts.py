"""Which segments or claims a judge's output flags, also in outputs that are hard to read."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_factuality.benchmarks.felm.grammar import UnreadableAnswerError
from lm_factuality.benchmarks.felm.verdicts import majority_vote, read_verdict

NUM_UNITS = 4
"""The number of segments or claims that the judge was asked about."""

# The ids that each output flags, of four units.
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

# What chat models write, with the ids that a careful reader takes it for.
CHAT = {
    "### Answer\n2, 3": {2, 3},
    "## Final Answer\nALL_CORRECT": set(),
    "**Final Answer: 2**": {2},
    "\\boxed{2}": {2},
    "After weighing each segment, the wrong one is $\\boxed{2}$.": {2},
    "\\boxed{ALL_CORRECT}": set(),
    "The final answer is: $\\boxed{\\text{ALL\\_CORRECT}}$": set(),
    "Answer: \\boxed{2, 3}": {2, 3},
    "Answer: $\\boxed{\\text{2, 3}}$": {2, 3},
    '{"answer": [2, 3]}': {2, 3},
    '```json\n{"answer": [2, 3]}\n```': {2, 3},
    '{\n  "thought": "Segment 2 has the wrong year.",\n  "answer": [2]\n}': {2},
    '{"answer": []}': set(),
    '{"Answer": "ALL_CORRECT"}': set(),
    '{"answer": "2, 3"}': {2, 3},
    '{"answer": 3}': {3},
    'Here is my verdict.\n```json\n{"answer": ["1", "4"]}\n```': {1, 4},
    "[2, 3]": {2, 3},
    "Answer: None.": set(),
    "Answer: There are no factual errors.": set(),
    "Answer: None of the segments contain factual errors.": set(),
    "Answer: []": set(),
    "Answer: Segments 2 and 3 contain errors.": {2, 3},
    "Answer: segment 2, and segment 4.": {2, 4},
    "Answer: 2 through 4": {2, 3, 4},
    "Answer:\n- Segment 2\n- Segment 3": {2, 3},
    "Answer: 2, 3\n\nExplanation: The dates in these segments are wrong.": {2, 3},
    "Answer: 2\n\nIt means segment 2 contains errors.": {2},
    "Answer: 1, 3\n\nSegment 1: The year is wrong.\nSegment 3: The name is wrong.": {1, 3},
    "Answer: 1, 3. All other segments are accurate.": {1, 3},
    "Answer: ALL_CORRECT\n\nThought: There are no errors.": set(),
    "Thought: Segment 2 misstates the year.\n\nAnswer: 2": {2},
    "Let me restate it.\nQuestion: Who built it?\nSegment 2 names the wrong man.\nAnswer: 2": {2},
    "Sure! Here's my assessment:\n\nAnswer: 2": {2},
    "Answer: 2\nAnswer: 2": {2},
}

# What a careful reader takes verdicts and sentences for.
VERDICTS = {
    "Answer: All segments contain errors.": {1, 2, 3, 4},
    "The answer is 2.": {2},
    "1. Correct\n2. Wrong\n3. Correct\n4. Correct": {2},
    "The second segment is wrong.": {2},
    "Answer: 1 is wrong, 2 is right": {1},
    "Answer: 2, others ALL_CORRECT": {2},
    "Answer:\n1\n2, 3 are wrong too": {1, 2, 3},
    "Answer: 1 (wrong date, 3 (wrong name)": {1, 3},
    "Answer: 2 because it was 4 years later": {2},
    "Answer: 1 - wrong date, 3 - wrong name": {1, 3},
    "Answer: 1: wrong date; 3: wrong name": {1, 3},
    "Answer: 1 because the date is wrong, 3 because the name is wrong": {1, 3},
    "Answer: 1, 2: wrong dates, 4: wrong name": {1, 2, 4},
    "Answer:\n1. The date is wrong\n3. The name is wrong": {1, 3},
    "Answer:\nSegment 1: wrong date\nSegment 3: wrong name": {1, 3},
    "Answer: 2\n1: correct\n2: wrong\n3: correct": {2},
    "Answer: 2. It was May 4, 1990.": {2},
    "Answer: 1: correct, 2: incorrect, 3: correct": {2},
    "Answer: 1 (correct), 2 (not correct)": {2},
    "Answer: 1: 正确, 2: 错误": {2},
    "Answer:\n1. Correct.\n2. Incorrect.\n3. Correct\n4. Correct": {2},
    "Answer: the second one": {2},
    "Answer: Segment 1: no error; Segment 2: error": {2},
    "Answer: 1: correct, 2: correct, 3: no error, 4: true": set(),
    "Answer:\n1) The date is wrong\n3) The name is wrong\nThat is all.": {1, 3},
    "Answer: S2": {2},
    "Answer: All segments are correct except the last one": {4},
    "Answer: {2, 3}": {2, 3},
    "Answer: 2 (segment 1 is imprecise but acceptable)": {2},
    "Answer: 2, 3 are incorrect; 1 and 4 are correct": {2, 3},
    "Answer: ALL_CORRECT\n\n3 of the 4 parties signed it.": set(),
    "Answer: 1\n3-5 days is roughly the limit.": {1},
    "| Segment | Verdict |\n| 1 | ok |\n| 2 | wrong |\n| 3 | ok |\n| 4 | ok |": {2},
    "Answer: 2\n\nSegments 1, 3 and 4 are correct.": {2},
    "Answer: 2\n\nActually, the bridge opened in 1937.": {2},
}

# What chat models write of which there is no one reading.
AMBIGUOUS_CHAT = [
    '{"answer": null}',
    '{"answer": [5]}',
    '{"answer": [2.0]}',
    '{"answer": [2], "answer": [3]}',
    "Answer: 2\n\nAnswer: 3",
    "Answer: 2\n\nWait, segment 3 too.\n\nAnswer: 2, 3",
    "Answer: 2\n\nActually, segment 2 is right.",
    "Answer: 2\n3: it was Rome",
    "Answer: 3 or 4 of them",
    "Answer: 3\nSegment 1 is correct. There is a mistake in segment 2.",
    "Answer: 2\nSegment 3 is wrong as well.",
    "Answer: 2\nThe third segment is wrong as well.",
    "Answer: 2 or 3",
    "Answer: not 2",
    "Answer: 2?",
    "Answer: 2 (possibly)",
    "Answer: all",
    "Answer: Yes",
    "Answer: ALL_CORRECT\n\nSegment 3 gets the year wrong, though.",
    "Answer: ALL_CORRECT (except for segment 3)",
    "Answer: [numbers of the segments]",
    "| Segment | Verdict |\n| 1 | ok |\n| 2 | wrong |",
    "1. The tower was built in 1889.",
]

# Why each of these outputs has no verdict, of four units.
UNREADABLE = {
    "": "empty output",
    "  \n ": "empty output",
    "Answer:": "nothing after",
    "Thought: For segment 2, the number of reac": "no answer line",
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
    "Answer: ALL_CORRECT, 2": "more than ids",
    "Answer: ALL_CORRECT\n2": "taken back",
    "Answer: 2\nALL_CORRECT": "two answers",
    "Answer: ALL_CORRECT except the third segment": "more than ids",
    "ALL_CORRECT, but the second segment is wrong": "more than ids",
    "Answer: ALL_CORRECT is false": "more than ids",
    "Answer: ALL_CORRECT?": "more than ids",
    "Answer: ALL_CORRECT. However, the third is wrong.": "taken back",
    "Answer: ALL_CORRECT (only the date is wrong)": "more than ids",
    "Answer: ALL_CORRECT\nHowever, the date differs.": "taken back",
    "Answer: ALL_CORRECT\nSegment 2 has an error.": "taken back",
    "Answer: none\nBut the second is wrong.": "taken back",
    # ids that are named only later
    "Answer: 2\n\n4": "taken back",
    "Answer: 1\n3. The name is wrong": "taken back",
    "Answer: 1\nSegments 2 and 3 are also wrong.": "taken back",
    "Answer:\n1, 3\n4": "taken back",
    "Answer:\n1\n3,": "more than ids",
    "Answer: 2\n2: correct": "taken back",
    "Answer: 1. 2": "taken back",
    # notes that leave open what they say, or of which unit
    "Answer: 1: correct": "more than ids",
    "Answer: 1: correct, but the name differs": "more than ids",
    "Answer: 2, 3 (correct)": "more than ids",
    "Answer: 1: yes, 2: no": "hedged",
    "Answer: 1. Segment 2 is wrong": "taken back",
    "Answer:\n1. Segment 2 is wrong\n2. Segment 4 is wrong": "more than ids",
    "Answer:\n1. Ada was born in 1990.\n2. She won.\n3. She left.": "more than ids",
    "Thought: I first wrote Answer: 1 but no.\nAnswer: 1\nOn reflection:\nAnswer: 2": "two answers",
    "Answer: 1. The date is wrong. 3. The name is wrong.": "taken back",
    "Answer: 2 (this one is accurate)": "more than ids",
    "Answer: 2. It is accurate.": "taken back",
    "Answer: 2\nThe segment is factually correct.": "taken back",
    "Answer: 2 and 3 are correct": "more than ids",
    "Answer: 1 (Ada wrote it), 2 (she won), 3 (she left), 4 (she died)": "more than ids",
    "Answer: 2/4": "more than ids",
    "Answer: 2 segments": "more than ids",
    "Answer: No. 2 and 3 are fine.": "more than ids",
    "Answer: none of 1, 2": "more than ids",
    "Answer: No errors in segment 1": "more than ids",
    "Answer: ALL_CORRECT\nThe third one has the year off.": "taken back",
    "1.": "no answer line",
    "Answer: I cannot tell": "hedged",
    "I'm sorry, but I can't help with that.": "no answer line",
    "I’m sorry, I cannot judge this.": "no answer line",
    "As an AI language model, I have no access to sources.": "no answer line",
    "<think>The answer is 2. Answer: 2": "thinking without an end",
    "<Thinking>The answer is 2. Answer: 2": "thinking without an end",
}


@pytest.mark.parametrize(("output", "flagged"), READABLE.items(), ids=READABLE)
def test_readable_output_flags_its_segment_ids(output, flagged):
    """The prompt asks for the ids of wrong segments, or for ALL_CORRECT."""
    assert read_verdict(output, NUM_UNITS) == frozenset(flagged)


@pytest.mark.parametrize(("output", "flagged"), [*CHAT.items(), *VERDICTS.items()])
def test_chat_output_is_read_like_a_careful_reader(output, flagged):
    """Chat models rarely keep to the format that the prompt asks for."""
    assert read_verdict(output, NUM_UNITS) == flagged


@pytest.mark.parametrize("output", AMBIGUOUS_CHAT)
def test_an_ambiguous_chat_output_is_unreadable(output):
    """A guess could flag the wrong segment, so the response is left unscored."""
    with pytest.raises(UnreadableAnswerError):
        read_verdict(output, NUM_UNITS)


@pytest.mark.parametrize(("output", "reason"), UNREADABLE.items(), ids=UNREADABLE)
def test_an_unreadable_output_is_refused_with_a_reason(output, reason):
    """Reports count the reasons, which tell how a judge fails."""
    with pytest.raises(UnreadableAnswerError, match=reason):
        read_verdict(output, NUM_UNITS)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Answer: 1, 2", "cut off in the answer"),
        ("Answer: 1 (wrong da", "cut off in the answer"),
        ("Answer: 1 - wrong date, 3 - wro", "cut off in the answer"),
        ("Answer:\n1. Wrong\n3. Wro", "cut off in the answer"),
        ("Answer: 2 because it was", "cut off in the answer"),
        ("Answer:", "cut off"),
        ("Thought: hm", "cut off before the answer"),
    ],
)
def test_output_truncated_within_the_answer_is_unreadable(output, reason):
    """More ids could have followed if the token limit had not ended the output."""
    with pytest.raises(UnreadableAnswerError, match=reason):
        read_verdict(output, NUM_UNITS, is_cut_off=True)


@pytest.mark.parametrize(
    ("output", "flagged"),
    [
        ("Answer: 1, 2\nIt means that", {1, 2}),
        ("Answer:\n1\n3\nThese are", {1, 3}),
    ],
)
def test_output_truncated_after_the_answer_is_read(output, flagged):
    """The token limit ended an explanation behind the answer, which is complete."""
    assert read_verdict(output, NUM_UNITS, is_cut_off=True) == frozenset(flagged)


@pytest.mark.parametrize(
    ("output", "flagged"),
    [
        pytest.param("no answer line", set(), id="no answer"),
        pytest.param("Answer: 0", {NUM_UNITS}, id="0 is the last unit"),
        pytest.param("Answer: 2, 99", {2}, id="ids behind the last are left out"),
        pytest.param("Thought: cut off", set(), id="no answer, cut off"),
        pytest.param("Answer: 1, 2", {1, 2}, id="ids"),
        pytest.param("Not ALL_CORRECT.\nAnswer: 2", set(), id="ALL_CORRECT anywhere counts"),
        pytest.param("**Answer:** 2", set(), id="no markdown"),
        pytest.param(
            "Answer: 1\nIt means that segment 3 is fine", {1, 3}, id="every number counts"
        ),
        pytest.param(f"Answer: 2, {'9' * 5000}", {2}, id="a number of 5000 digits is left out"),
    ],
)
def test_protocol_code_reads_outputs_like_the_authors_script(output, flagged):
    """The script finds a verdict in every output."""
    assert read_verdict(output, NUM_UNITS, "code") == frozenset(flagged)


@pytest.mark.parametrize(
    ("output", "flagged"),
    [
        pytest.param("Answer: 1,3", {1, 3}, id="two ids"),
        pytest.param("Answer: 1", {1}, id="one id"),
        pytest.param(
            "Thought: both dates are wrong.\nAnswer: 2, 4", {2, 4}, id="ids behind a thought"
        ),
        pytest.param("Answer: ALL_CORRECT", set(), id="no wrong segment"),
    ],
)
def test_protocol_paper_reads_the_requested_format(output, flagged):
    """The form is "Answer:" with ids and commas, or ALL_CORRECT, perhaps behind a thought."""
    assert read_verdict(output, NUM_UNITS, "paper") == flagged


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        pytest.param("Answer: segments 1 and 3", "more than ids", id="words"),
        pytest.param("**Answer:** 2", "no answer line", id="markdown"),
        pytest.param("Answer: 2\nAnswer: 3", "two answers", id="two answers"),
        pytest.param("Answer: 5", "id 5; the last is 4", id="id behind the last"),
        pytest.param("Answer: 0, 2", "id 0; the last is 4", id="id before the first"),
        pytest.param("Answer:", "nothing after", id="no id"),
    ],
)
def test_protocol_paper_refuses_any_other_format(output, reason):
    """The paper's prompts ask for ids and no more details. There are four segments."""
    with pytest.raises(UnreadableAnswerError, match=reason):
        read_verdict(output, NUM_UNITS, "paper")


def test_protocol_paper_refuses_a_possibly_truncated_answer():
    """ "Answer: 1" may be the beginning of "Answer: 1, 3" or of "Answer: 12"."""
    with pytest.raises(UnreadableAnswerError, match="cut off"):
        read_verdict("Thought: 1 is wrong.\nAnswer: 1", NUM_UNITS, "paper", is_cut_off=True)


# Any notation of ids in any frame, which is what stands around an answer, is read as these ids.
LAST_ID = 30
lists_of_ids = st.lists(st.integers(1, LAST_ID), min_size=1, max_size=8, unique=True).map(sorted)

FULL_WIDTH = str.maketrans("0123456789,", "０１２３４５６７８９，")
NOTATIONS = {
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


@given(st.sampled_from(sorted(NOTATIONS)), st.sampled_from(FRAMES), lists_of_ids)
def test_ids_are_read_in_any_notation_and_context(notation, frame, ids):
    """Models write lists in many ways. "**Answer:** 1 and 3" flags the segments 1 and 3."""
    write_ids = NOTATIONS[notation]
    output = frame.format(write_ids(ids))

    flagged = read_verdict(output, num_units=LAST_ID)

    assert flagged == frozenset(ids), output


@pytest.mark.parametrize(
    "repeated",
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
def test_repeated_text_of_a_megabyte_is_read_in_seconds(repeated):
    """A reader whose time is quadratic would take minutes."""
    output = "Answer: " + repeated * (1_000_000 // len(repeated)) + "x"

    start = time.process_time()
    with suppress(UnreadableAnswerError):
        read_verdict(output, NUM_UNITS)
    seconds = time.process_time() - start

    assert seconds < 30


@pytest.mark.parametrize(
    ("ballots", "unreadable", "flagged"),
    [
        pytest.param([{1}, {1}, {2}], [], {1}, id="two of three"),
        pytest.param([{1}, {2}], [], set(), id="one of two is no majority"),
        pytest.param([{1}, set(), {1, 2}, {2}], [], set(), id="two of four are no majority"),
        pytest.param([{1}, {1}], ["why"], {1}, id="two, and one unreadable"),
        pytest.param([{1}], ["why"], {1}, id="one, and one unreadable"),
    ],
)
def test_the_majority_of_the_readable_outputs_decides(ballots, unreadable, flagged):
    """A segment is flagged if more than half of the outputs flag it."""
    assert majority_vote([frozenset(ballot) for ballot in ballots], unreadable) == flagged


@pytest.mark.parametrize(
    ("unreadable", "reason"),
    [
        pytest.param([], "no output", id="no output"),
        pytest.param(["why"], "why", id="one unreadable output"),
        pytest.param(
            ["why", "x"],
            "none of 2 outputs can be read, the first: why",
            id="two unreadable outputs",
        ),
    ],
)
def test_a_vote_without_readable_outputs_fails_with_their_reason(unreadable, reason):
    """A judge may be asked several times, and the majority decides. Here nobody has a vote."""
    with pytest.raises(UnreadableAnswerError, match=f"^{reason}$"):
        majority_vote([], unreadable)
