"""Contradictions in the answers of a model: what is read, and what is refused for which reason."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factor_gen.generate.llm.parse import (
    Contradictions,
    ReplyCandidates,
    candidates_of_reply,
    parse_numbered_answer,
)
from factor_gen.generate.llm.spacing import copy_spacing, split_tokens, token_distance
from factor_gen.records import ENTITY, LINK
from judges.answers import Answer
from judges.typed import read_reply

COMPLETION = "The granite came from the quarries of Selmouth and was carried up the river by barge."
DUNWICK_SENTENCE = (
    "The granite came from the quarries of Dunwick and was carried up the river by barge."
)
"""A contradiction of `COMPLETION`, in which the place is another."""


def write_item(edits: Mapping[str, str], contradiction: str) -> dict[str, Any]:
    """Return a contradiction in the form that a model is asked for.

    Args:
        edits: The plan: the new words by the words of the completion that they replace.
        contradiction: The sentence.
    """
    edit_items = [{"old": old, "new": new} for old, new in edits.items()]
    return {"edits": edit_items, "contradiction": contradiction}


def write_answer(*items: Mapping[str, Any]) -> str:
    """Return the answer of a model that writes these contradictions."""
    return json.dumps({"contradictions": items})


def parse(
    answer: str,
    completion: str = COMPLETION,
    error_type: str = ENTITY,
    finish_reason: str = "stop",
    most: int | None = None,
) -> ReplyCandidates:
    """Return the contradictions in the answer of a model.

    Args:
        answer: The text of the answer.
        completion: The sentence that the model was asked to edit.
        error_type: The error type that it was asked for.
        finish_reason: Why the model stopped, as the server says.
        most: How many contradictions are taken. All by default.
    """
    reply = read_reply(Answer(answer, finish_reason), Contradictions, {})
    return candidates_of_reply(reply, completion, error_type, most)


def edits_of(parsed: ReplyCandidates) -> dict[str, str]:
    """Return the recorded edit of each contradiction, by its text."""
    return {candidate.text: candidate.edit for candidate in parsed.candidates}


DUNWICK_ITEM = write_item({"Selmouth": "Dunwick"}, DUNWICK_SENTENCE)


def test_contradictions_are_read_with_their_edits() -> None:
    sandstone = (
        "The sandstone came from the quarries of Selmouth and was carried up the river by barge."
    )
    sandstone_item = write_item({"granite": "sandstone"}, sandstone)

    parsed = parse(write_answer(DUNWICK_ITEM, sandstone_item))

    assert edits_of(parsed) == {
        DUNWICK_SENTENCE: "Selmouth -> Dunwick",
        sandstone: "granite -> sandstone",
    }
    assert parsed.lost == {}


WALES_SENTENCE = "The granite came from over 200 quarries in Wales and went up the river by barge."


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        pytest.param(
            "Wales", "Britain", "a place within the other, or the same", id="a wider place"
        ),
        pytest.param("200", "300", "quantities that may both hold", id="over 200 and over 300"),
    ],
)
def test_an_edit_that_may_be_true_beside_the_completion_is_refused(
    old: str, new: str, reason: str
) -> None:
    item = write_item({old: new}, WALES_SENTENCE.replace(old, new))

    parsed = parse(write_answer(item), WALES_SENTENCE)

    assert parsed.candidates == ()
    assert parsed.lost == {f"llm: {reason}": 1}


def test_an_edit_that_may_be_true_is_taken_together_with_one_that_contradicts() -> None:
    text = "The marble came from over 300 quarries in Wales and went up the river by barge."
    item = write_item({"200": "300", "granite": "marble"}, text)

    parsed = parse(write_answer(item), WALES_SENTENCE)

    assert edits_of(parsed) == {text: "200 -> 300; granite -> marble"}


@pytest.mark.parametrize(
    ("edits", "contradiction", "recorded_edit"),
    [
        pytest.param(
            {" selmouth ": "Dunwick "},
            f" {DUNWICK_SENTENCE}\n",
            "selmouth -> Dunwick",
            id="other white space and capitals",
        ),
        pytest.param(
            {"Selmouth": "Dunwick", "": "x"},
            DUNWICK_SENTENCE,
            "Selmouth -> Dunwick",
            id="an edit of nothing",
        ),
        pytest.param(
            {"Selmouth": "Dunwick"},
            DUNWICK_SENTENCE.replace(".", " ."),
            "Selmouth -> Dunwick",
            id="a space before the full stop",
        ),
    ],
)
def test_small_faults_of_models_are_mended(
    edits: Mapping[str, str], contradiction: str, recorded_edit: str
) -> None:
    parsed = parse(write_answer(write_item(edits, contradiction)))

    assert edits_of(parsed) == {DUNWICK_SENTENCE: recorded_edit}
    assert parsed.lost == {}


MANY_EDITS = {f"a{number}": "b" for number in range(20_000)}
MANY_MULES = "mule " * 60_000


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(write_answer(write_item(MANY_EDITS, DUNWICK_SENTENCE)), id="20,000 edits"),
        pytest.param(
            write_answer(write_item({"river": "stream"}, MANY_MULES)), id="a long sentence"
        ),
        pytest.param(
            write_answer(write_item({"barge": MANY_MULES}, DUNWICK_SENTENCE)), id="long new words"
        ),
        pytest.param(
            write_answer(write_item({"barge " * 60_000: "mule"}, DUNWICK_SENTENCE)),
            id="long old words",
        ),
        pytest.param(write_answer(*[DUNWICK_ITEM] * 1_000), id="1,000 contradictions"),
        pytest.param('{"contradictions": [' * 20_000, id="deeply nested JSON"),
    ],
)
def test_a_long_answer_is_read_within_two_seconds(answer: str) -> None:
    """A model may write anything, and the time must not grow with the square of its length."""
    start = time.process_time()
    parsed = parse(answer)
    seconds = time.process_time() - start

    assert seconds < 2
    assert len(parsed.candidates) <= 1
    assert parsed.lost


def test_no_more_contradictions_are_taken_than_were_asked_for() -> None:
    items = []
    for place in ("Dunwick", "Marrick", "Tellby"):
        items.append(write_item({"Selmouth": place}, COMPLETION.replace("Selmouth", place)))

    parsed = parse(write_answer(*items), most=2)

    assert list(edits_of(parsed).values()) == ["Selmouth -> Dunwick", "Selmouth -> Marrick"]
    assert parsed.lost == {"llm: more than were asked for": 1}


@pytest.mark.parametrize("edits", [{"not carried": "carried"}, {"not": ""}])
def test_words_may_be_removed(edits: Mapping[str, str]) -> None:
    item = write_item(edits, "The granite was carried by barge.")

    parsed = parse(write_answer(item), "The granite was not carried by barge.")

    assert list(edits_of(parsed)) == ["The granite was carried by barge."]
    assert parsed.lost == {}


@pytest.mark.parametrize(
    ("edits", "contradiction", "reason"),
    [
        ({}, DUNWICK_SENTENCE, "no plan"),
        ({"": "Dunwick"}, DUNWICK_SENTENCE, "no plan"),
        ({"Selmouth": "Dunwick"}, " ", "no contradiction after the plan"),
        ({"Tellby": "Dunwick"}, DUNWICK_SENTENCE, "planned words not in the completion"),
        pytest.param(
            {"Sel": "Dunwick"},
            DUNWICK_SENTENCE,
            "planned words not in the completion",
            id="only a part of a word is in the completion",
        ),
        ({"Selmouth": "Tellby"}, DUNWICK_SENTENCE, "planned words not in the contradiction"),
        ({"Selmouth": "Selmouth"}, COMPLETION, "same as the completion"),
        ({"Selmouth": "Dunwick"}, COMPLETION.replace(".", " ."), "same as the completion"),
        (
            {"Selmouth": "Dunwick"},
            f"{DUNWICK_SENTENCE}\nThis one changes the place.",
            "more than one line",
        ),
        ({"Selmouth": "Dunwick"}, f"{DUNWICK_SENTENCE}\x85So.", "more than one line"),
        (
            {"Selmouth": "Dunwick"},
            DUNWICK_SENTENCE.removesuffix("."),
            "another end than the completion",
        ),
        (
            {"Selmouth": "Dunwick"},
            DUNWICK_SENTENCE.replace(".", "!"),
            "another end than the completion",
        ),
        (
            {"Selmouth": "Dunwick"},
            DUNWICK_SENTENCE.replace(".", " (false)."),
            "quotes or brackets changed without a plan",
        ),
        ({"Selmouth": "Dunwick"}, f"{DUNWICK_SENTENCE}<|im_end|>", "stray characters"),
        (
            {"Selmouth": "Dunwick"},
            DUNWICK_SENTENCE.replace("granite", "gra\ufffdnite"),
            "stray characters",
        ),
        (
            {"barge": "mule"},
            COMPLETION.replace(
                "barge.", "mule, and it took the men of the whole valley most of a summer."
            ),
            "too far from the completion",
        ),
    ],
)
def test_a_contradiction_that_cannot_be_used_is_counted_by_its_reason(
    edits: Mapping[str, str], contradiction: str, reason: str
) -> None:
    parsed = parse(write_answer(write_item(edits, contradiction)), error_type=LINK)

    assert parsed.candidates == ()
    assert parsed.lost == {f"llm: {reason}": 1}


@pytest.mark.parametrize(
    ("answer", "finish_reason", "reason"),
    [
        ('{"contradictions": []}', "stop", "none to be made"),
        ("I'm sorry, but I can't write false statements.", "stop", "no JSON object"),
        (
            '{"contradictions": [{"edits": []}]}',
            "stop",
            "wrong form: contradictions.N.contradiction: Field required",
        ),
        ("", "content_filter", "content filter"),
        ("<think>Let me", "length", "thinking without an end"),
        ('{"contradictions": [{"edits": [', "length", "cut off"),
    ],
)
def test_an_answer_without_contradictions_is_counted_by_its_reason(
    answer: str, finish_reason: str, reason: str
) -> None:
    parsed = parse(answer, finish_reason=finish_reason)

    assert parsed.candidates == ()
    assert parsed.lost == {f"llm: {reason}": 1}


@pytest.mark.parametrize(
    ("completion", "written", "expected"),
    [
        ("He ran , then he sat .", "He walked, then he sat.", "He walked , then he sat ."),
        ("He ran, then he sat.", "He walked , then he sat .", "He walked, then he sat."),
        ("He  ran \u201cfar\u201d.", 'He walked "far".', "He walked \u201cfar\u201d."),
        ("It\u2019s 5.6% of $1,200 .", "It's 7.8% of $1,200.", "It\u2019s 7.8% of $1,200 ."),
        ("The pre-war house stood.", "The post war house stood.", "The post war house stood."),
        ("Prior to noon it rained.", "After noon it rained.", "After noon it rained."),
        (
            "Rain fell , and snow .",
            "Rain fell, and hail, and snow.",
            "Rain fell , and hail , and snow .",
        ),
        ("The house (old) stood.", "The house (new) stood.", "The house (new) stood."),
        (
            "It rose by 3 p.m. , he said .",
            "It fell by 3 p.m., he said.",
            "It fell by 3 p.m. , he said .",
        ),
        ("They left at 10:30.", "They left at 11:45.", "They left at 11:45."),
    ],
)
def test_words_that_were_not_edited_are_spaced_as_in_the_completion(
    completion: str, written: str, expected: str
) -> None:
    assert copy_spacing(written, completion) == expected


@given(st.text(max_size=60))
def test_the_tokens_of_a_text_and_the_space_before_them_make_the_text_again(text: str) -> None:
    joined = "".join(token.space + token.text for token in split_tokens(text))

    # No token follows the white space at the end.
    assert joined == text.rstrip()


@given(st.text(max_size=60))
def test_a_text_that_gets_its_own_spacing_stays_the_same(text: str) -> None:
    assert copy_spacing(text, text) == text.strip()


FEW_CHARACTERS = st.text(alphabet="ab1., -(\n", max_size=30)
"""Texts of few different characters, so that two of them have words in common."""


@given(FEW_CHARACTERS, FEW_CHARACTERS)
def test_copied_spacing_changes_no_words(contradiction: str, completion: str) -> None:
    assert token_distance(contradiction, copy_spacing(contradiction, completion)) == 0


@given(FEW_CHARACTERS, FEW_CHARACTERS)
def test_a_double_space_can_only_come_from_the_completion(
    contradiction: str, completion: str
) -> None:
    if "  " in copy_spacing(contradiction, completion):
        assert "  " in completion or "\n" in completion


@given(st.text(), st.text(), st.sampled_from(["stop", "length"]))
def test_no_answer_breaks_the_parser(answer: str, completion: str, finish_reason: str) -> None:
    parsed = parse(answer, completion, finish_reason=finish_reason)

    check_candidates(parsed, completion)


@given(st.text(), st.text(), st.sampled_from(["stop", "length"]))
def test_no_contradiction_breaks_the_parser(text: str, completion: str, finish_reason: str) -> None:
    item = write_item({completion[:5]: text[:5]}, text + completion)

    parsed = parse(write_answer(item), completion, finish_reason=finish_reason)

    check_candidates(parsed, completion)


def check_candidates(parsed: ReplyCandidates, completion: str) -> None:
    """Check what holds of every answer: contradictions are other lines, and reasons are ours."""
    for candidate in parsed.candidates:
        assert "\n" not in candidate.text
        assert candidate.text != completion
    for reason in parsed.lost:
        assert reason.startswith("llm: ")


@pytest.mark.parametrize(
    ("answer", "items"),
    [
        pytest.param(
            'Sure.\n1. Pronoun: she Change: "she" to "he" and "her" to "his".'
            " Contradiction: He left. "
            '2. Change: "left" to "stayed". Contradiction: She stayed.',
            [
                write_item({"she": "he", "her": "his"}, "He left."),
                write_item({"left": "stayed"}, "She stayed."),
            ],
            id="two contradictions",
        ),
        pytest.param(
            '1. Change: "a" to "b". Contradiction:',
            [write_item({"a": "b"}, "")],
            id="a plan without a sentence",
        ),
        pytest.param("NA", [], id="none to be made"),
        pytest.param("<think>1. Change: x</think>NA", [], id="none after thinking"),
    ],
)
def test_numbered_contradictions_of_the_papers_form_are_read(
    answer: str, items: list[dict[str, Any]]
) -> None:
    parsed = parse_numbered_answer(Answer(answer))

    assert parsed.problem == ""
    assert parsed.value == Contradictions.model_validate({"contradictions": items})


@pytest.mark.parametrize("answer", ["I cannot do that.", ""])
def test_an_answer_without_numbered_contradictions_is_refused(answer: str) -> None:
    parsed = parse_numbered_answer(Answer(answer))

    assert parsed.problem == "no numbered contradiction"
    assert parsed.value is None
