"""What outputs say, the tricky ones among them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.felm.verdicts import Verdict, read_verdict
from judges.felm.votes import vote

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
    "Answer: 2 because it was 4 years later": {2},
    "Thought: Segment 1 says 1990, it was 1991.\nAnswer: 1": {1},
    "Thought: nothing is wrong.\nAnswer: ALL_CORRECT": set(),
    "Thought: I first wrote Answer: 1 but no.\nAnswer: 1\nOn reflection:\nAnswer: 2": {2},
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
    # models that think aloud or go on
    "<think>Answer: 1?</think>Answer: 4": {4},
    "Answer: 1\n\nQuestion: What else?\nSegments:\n1. This.\n\nYour output:\nAnswer: 2": {1},
}

UNREADABLE = {
    "": "empty output",
    "  \n ": "empty output",
    "Answer:": "nothing after",
    "Thought: For segment 2, the number of reac": "no answer line",
    "The second segment is wrong.": "no answer line",
    "Thought: not everything is ALL_CORRECT here, I would say": "no answer line",
    "第二段有错误。": "no answer line",
    "El segundo segmento es incorrecto.": "no answer line",
    "Answer: 0": "id 0",
    "Answer: 0, 2": "id 0",
    "Answer: 5": "id 5 of 4",
    "Answer: 1, 99": "id 99 of 4",
    "Answer: 3-9": "id 5 of 4",
    "Answer: 12345678901234567890": "id 123456789 of 4",
    "Answer: -1": "no ids",
    "Answer: 1,": "breaks off",
    "Answer: 1, 2 and": "breaks off",
    "Answer: 1 2": "more than ids",
    "Answer: 1.5": "more than ids",
    "Answer: 1 is wrong, 2 is right": "more than ids",
    "Answer: ALL_CORRECT, 2": "ALL_CORRECT and ids",
    "Answer: 2, others ALL_CORRECT": "ALL_CORRECT and ids",
    "Answer: the second one": "no ids",
    "Answer: I cannot tell": "refusal",
    "I'm sorry, but I can't help with that.": "refusal",
    "I’m sorry, I cannot judge this.": "refusal",
    "As an AI language model, I have no access to sources.": "refusal",
    "<think>The answer is 2. Answer: 2": "cut off while thinking",
}


@pytest.mark.parametrize(("output", "flagged"), READABLE.items())
def test_readable_outputs_flag_what_they_say(output: str, flagged: set[int]) -> None:
    assert read_verdict(output, 4) == Verdict(frozenset(flagged))


@pytest.mark.parametrize(("output", "reason"), UNREADABLE.items())
def test_other_outputs_are_unscored_with_a_reason(output: str, reason: str) -> None:
    verdict = read_verdict(output, 4)
    assert verdict.flagged is None
    assert reason in (verdict.reason or "")


@pytest.mark.parametrize(
    ("output", "reason"),
    [("Answer: 1, 2", "may be cut off"), ("Answer:", "cut off"), ("Thought: hm", "cut off before the answer")],
)
def test_a_cut_leaves_no_doubtful_verdict(output: str, reason: str) -> None:
    assert reason in (read_verdict(output, 4, is_cut_off=True).reason or "")


def test_an_answer_before_the_cut_counts() -> None:
    assert read_verdict("Answer: 1, 2\nIt means that", 4, is_cut_off=True) == Verdict(frozenset({1, 2}))


@pytest.mark.parametrize(
    ("output", "flagged"),
    [
        ("no answer line", set()), ("Answer: 0", {4}), ("Answer: 2, 99", {2}), ("Thought: cut off", set()),
        ("Answer: 1, 2", {1, 2}), ("Not ALL_CORRECT.\nAnswer: 2", set()), ("**Answer:** 2", set()),
        ("Answer: 1\nIt means that segment 3 is fine", {1, 3}),
    ],
)  # fmt: skip
def test_protocol_code_reads_as_the_authors_script(output: str, flagged: set[int]) -> None:
    assert read_verdict(output, 4, "code") == Verdict(frozenset(flagged))


@given(ids=st.sets(st.integers(1, 30), min_size=1), separator=st.sampled_from([",", ", ", "; ", " and "]))
def test_what_is_written_is_read(ids: set[int], separator: str) -> None:
    output = f"Thought: something.\nAnswer: {separator.join(map(str, sorted(ids)))}"
    assert read_verdict(output, 30) == Verdict(frozenset(ids))


@given(output=st.text(), num_units=st.integers(1, 40), protocol=st.sampled_from(["paper", "code"]))
def test_any_text_gives_ids_of_units_or_a_reason(output: str, num_units: int, protocol: str) -> None:
    verdict = read_verdict(output, num_units, protocol)
    assert (verdict.flagged is None) == bool(verdict.reason)
    assert verdict.flagged is None or verdict.flagged <= set(range(1, num_units + 1))


@given(st.text(alphabet=st.characters(exclude_categories=("Nd", "No", "Nl"))))
def test_without_a_number_or_all_correct_nothing_is_flagged(text: str) -> None:
    verdict = read_verdict(f"Answer: {text}", 5)
    assert not verdict.flagged


@pytest.mark.parametrize(
    ("ballots", "flagged"),
    [
        ([{1}, {1}, {2}], {1}),
        ([{1}, {2}], set()),
        ([{1}, set(), {1, 2}, {2}], set()),
        ([{1}, None, {1}], {1}),
        ([{1}, None], {1}),
        ([None, None], None),
        ([], None),
    ],
)
def test_the_majority_of_readable_outputs_decides(ballots: list[set[int] | None], flagged: set[int] | None) -> None:
    verdicts = [Verdict(None, "why") if ballot is None else Verdict(frozenset(ballot)) for ballot in ballots]
    assert vote(verdicts).flagged == (None if flagged is None else frozenset(flagged))
