"""What a model may write, and what is read in it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factor_gen.generate.llm.parse import Contradictions, candidates_of_reply, parse_numbered_answer
from factor_gen.generate.llm.spacing import copy_spacing, split_tokens, token_distance
from factor_gen.records import ENTITY, LINK
from judges.answers import Answer
from judges.typed import read_reply

COMPLETION = "The granite came from the quarries of Selmouth and was carried up the river by barge."
DUNWICK = COMPLETION.replace("Selmouth", "Dunwick")
ONE = ({"Selmouth": "Dunwick"}, DUNWICK)


def reply(*entries, finish_reason="stop"):
    """A judge's reply of entries ({old: new}, contradiction), or of an answer."""
    if entries and isinstance(entries[0], str | None):
        answer = Answer(entries[0], finish_reason)
    else:
        items = [
            {
                "edits": [{"old": old, "new": new} for old, new in edits.items()],
                "contradiction": text,
            }
            for edits, text in entries
        ]
        answer = Answer(json.dumps({"contradictions": items}), finish_reason)
    return read_reply(answer, Contradictions, {})


def read(*entries, completion=COMPLETION, kind=ENTITY, finish_reason="stop"):
    found = candidates_of_reply(reply(*entries, finish_reason=finish_reason), completion, kind)
    return [(each.text, each.edit) for each in found.candidates], dict(found.lost)


def test_plans_and_contradictions_are_read():
    sandstone = COMPLETION.replace("granite", "sandstone")
    assert read(ONE, ({"granite": "sandstone"}, sandstone)) == (
        [(DUNWICK, "Selmouth -> Dunwick"), (sandstone, "granite -> sandstone")],
        {},
    )


def test_what_may_hold_beside_the_completion_is_counted_by_reason():
    completion = "The granite came from over 200 quarries in Wales and went up the river by barge."
    wider, more = completion.replace("Wales", "Britain"), completion.replace("200", "300")
    both = more.replace("granite", "marble")
    assert read(({"Wales": "Britain"}, wider), ({"200": "300"}, more), completion=completion) == (
        [],
        {"llm: a place within the other, or the same": 1, "llm: quantities that may both hold": 1},
    )
    found = read(({"200": "300", "granite": "marble"}, both), completion=completion)
    assert found == ([(both, "200 -> 300; granite -> marble")], {})


@pytest.mark.parametrize(
    "entry",
    [
        ({" selmouth ": "Dunwick "}, f" {DUNWICK}\n"),
        ({"Selmouth": "Dunwick", "": "x"}, DUNWICK),
        ({"Selmouth": "Dunwick"}, DUNWICK.replace(".", " .")),
    ],
)
def test_what_models_do_to_words(entry):
    assert read(entry) == ([(DUNWICK, f"{next(iter(entry[0])).strip()} -> Dunwick")], {})


@pytest.mark.parametrize(
    "entries",
    [
        [({f"a{number}": "b" for number in range(20_000)}, DUNWICK)],
        [({"river": "stream"}, "mule " * 60_000)],
        [({"barge": "mule " * 60_000}, DUNWICK)],
        [({"barge " * 60_000: "mule"}, DUNWICK)],
        [ONE] * 1_000,
        ['{"contradictions": [' * 20_000],
    ],
)
def test_long_replies_are_read_at_once(entries):
    """Anything may come of a model; what it costs to read grows with its length."""
    start = time.process_time()
    found, lost = read(*entries)
    assert time.process_time() - start < 2
    assert len(found) <= 1
    assert lost


def test_no_more_are_taken_than_were_asked_for():
    entries = [
        ({"Selmouth": place}, COMPLETION.replace("Selmouth", place))
        for place in ("Dunwick", "Marrick", "Tellby")
    ]
    found = candidates_of_reply(reply(*entries), COMPLETION, ENTITY, most=2)
    assert [each.edit for each in found.candidates] == [
        "Selmouth -> Dunwick",
        "Selmouth -> Marrick",
    ]
    assert dict(found.lost) == {"llm: more than were asked for": 1}


@pytest.mark.parametrize("edits", [{"not carried": "carried"}, {"not": ""}])
def test_words_may_be_taken_out(edits):
    found, lost = read(
        (edits, "The granite was carried by barge."),
        completion="The granite was not carried by barge.",
    )
    assert ([text for text, _ in found], lost) == (["The granite was carried by barge."], {})


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (({}, DUNWICK), "no plan"),
        (({"": "Dunwick"}, DUNWICK), "no plan"),
        (({"Selmouth": "Dunwick"}, " "), "no contradiction after the plan"),
        (({"Tellby": "Dunwick"}, DUNWICK), "planned words not in the completion"),
        (({"Sel": "Dunwick"}, DUNWICK), "planned words not in the completion"),  # no whole word
        (({"Selmouth": "Tellby"}, DUNWICK), "planned words not in the contradiction"),
        (({"Selmouth": "Selmouth"}, COMPLETION), "same as the completion"),
        (({"Selmouth": "Dunwick"}, COMPLETION.replace(".", " .")), "same as the completion"),
        (
            ({"Selmouth": "Dunwick"}, f"{DUNWICK}\nThis one changes the place."),
            "more than one line",
        ),
        (({"Selmouth": "Dunwick"}, f"{DUNWICK}\x85So."), "more than one line"),
        (({"Selmouth": "Dunwick"}, DUNWICK[:-1]), "another end than the completion"),
        (({"Selmouth": "Dunwick"}, f"{DUNWICK[:-1]}!"), "another end than the completion"),
        (
            ({"Selmouth": "Dunwick"}, f"{DUNWICK[:-1]} (false)."),
            "quotes or brackets changed without a plan",
        ),
        (({"Selmouth": "Dunwick"}, f"{DUNWICK}<|im_end|>"), "stray characters"),
        (
            ({"Selmouth": "Dunwick"}, DUNWICK.replace("granite came", "gra\ufffdnite came")),
            "stray characters",
        ),
        (
            (
                {"barge": "mule"},
                f"{COMPLETION[:-6]}mule, and it took the men of the whole valley most of a summer.",
            ),
            "too far from the completion",
        ),
    ],
)
def test_what_cannot_be_used_is_counted_by_reason(entry, reason):
    assert read(entry, kind=LINK) == ([], {f"llm: {reason}": 1})


@pytest.mark.parametrize(
    ("text", "finish_reason", "lost"),
    [
        ('{"contradictions": []}', "stop", "llm: none to be made"),
        ("I'm sorry, but I can't write false statements.", "stop", "llm: no JSON object"),
        (
            '{"contradictions": [{"edits": []}]}',
            "stop",
            "llm: wrong form: contradictions.N.contradiction: Field required",
        ),
        ("", "content_filter", "llm: content filter"),
        ("<think>Let me", "length", "llm: thinking without an end"),
        ('{"contradictions": [{"edits": [', "length", "llm: cut off"),
    ],
)
def test_a_reply_without_contradictions_says_why(text, finish_reason, lost):
    assert read(text, finish_reason=finish_reason) == ([], {lost: 1})


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
def test_what_was_not_edited_is_spaced_as_the_completion(completion, written, expected):
    assert copy_spacing(written, completion) == expected


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_copy_is_the_completion_whatever_it_holds(one, other):
    assert "".join(each.space + each.text for each in split_tokens(one)) == one[: len(one.rstrip())]
    assert copy_spacing(one, one) == one.strip()


@given(*[st.text(alphabet="ab1., -(\n", max_size=30)] * 2)
def test_spacing_changes_no_words(one, other):
    assert token_distance(one, copy_spacing(one, other)) == 0
    assert "  " not in copy_spacing(one, other) or "  " in other or "\n" in other


@given(st.text(), st.text(), st.sampled_from(["stop", "length"]))
def test_no_answer_breaks_the_parser(answer, completion, finish_reason):
    for read_one in (
        reply(answer, finish_reason=finish_reason),
        reply(({completion[:5]: answer[:5]}, answer + completion), finish_reason=finish_reason),
    ):
        found = candidates_of_reply(read_one, completion, ENTITY)
        assert all(reason.startswith("llm: ") for reason in found.lost)
        assert all("\n" not in each.text and each.text != completion for each in found.candidates)


@pytest.mark.parametrize(
    ("text", "found", "problem"),
    [
        ("NA", [], ""),
        ("I cannot do that.", None, "no numbered contradiction"),
        ("", None, "no numbered contradiction"),
        (
            'Sure.\n1. Pronoun: she Change: "she" to "he" and "her" to "his". Contradiction: He left. '
            '2. Change: "left" to "stayed". Contradiction: She stayed.',
            [([("she", "he"), ("her", "his")], "He left."), ([("left", "stayed")], "She stayed.")],
            "",
        ),
        ('1. Change: "a" to "b". Contradiction:', [([("a", "b")], "")], ""),
        ("<think>1. Change: x</think>NA", [], ""),
    ],
)
def test_numbered_answers(text, found, problem):
    read = parse_numbered_answer(Answer(text))
    assert read.problem == problem
    entries = read.value and [
        ([(edit.old, edit.new) for edit in each.edits], each.contradiction)
        for each in read.value.contradictions
    ]
    assert entries == found
