"""Replies that have a type: what is read, what is not, and the one more try."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answers import Answer, Request
from judges.judge import Judge
from judges.typed import (
    Reply,
    json_schema_of,
    longest_retry_request,
    numbering_problem,
    read_reply,
    retry_request,
)
from judges.verify import SupportReply
from tests.judges.server import Act


class Names(Reply):
    names: list[str]


def names(text: str | None, **fields) -> tuple[list[str] | None, str]:
    found = read_reply(Answer(text, **{"finish_reason": "stop", **fields}), Names, {})
    return (found.value.names if found.value else None), found.problem


@pytest.mark.parametrize(
    "text",
    [
        '{"names": ["Ada", "Bea"]}',
        ' \n{"names": ["Ada", "Bea"]}\n',
        'Here they are:\n```json\n{"names": ["Ada", "Bea"]}\n```\nI hope this helps!',
        '```\n{"names": ["Ada", "Bea"]}\n```',
        'Sure! {"names": ["Ada", "Bea"]} Is that all?',
        '["Ada", "Bea"]',
        '<think>{"names": []}</think>{"names": ["Ada", "Bea"]}',
    ],
)
def test_the_object_is_found(text):
    assert names(text) == (["Ada", "Bea"], "")


def test_what_no_file_can_hold_is_replaced():
    found, problem = names('{"names": ["\\ud800 Ada", "\\ud83d\\ude00"]}')
    assert (found, problem) == (["? Ada", "\U0001f600"], "")


@pytest.mark.parametrize("letter", ["a", "\u3400", "\U0001f600"])
def test_no_second_question_is_longer_than_the_longest(letter):
    """A model calls a field what it likes, and its name is in the reason."""
    request = Request("Who?")
    for text in (letter * 9000, json.dumps({letter * 9000: 1}, ensure_ascii=False)):
        again = retry_request(request, read_reply(Answer(text, "stop"), Names, {}))
        assert len(again.prompt.encode()) <= len(longest_retry_request(request).prompt.encode())
    assert len(names(json.dumps({"names": [], letter * 9000: 1}))[1]) <= 320


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer("I'm sorry, I cannot do that.", "stop"), "no JSON object"),
        (Answer("- Ada\n- Bea", "stop"), "no JSON object"),
        (Answer('{"names": ["Ada", ', "length"), "cut off"),
        (Answer('{"names": ["Ada"]', "stop"), "no JSON object"),
        (
            Answer('{"names": ["Ada"], "refusal": "none"}', "stop"),
            "wrong form: refusal: Extra inputs are not permitted",
        ),
        (Answer('{"names": "Ada"}', "stop"), "wrong form: names: Input should be a valid list"),
        (
            Answer('{"names": ["Ada", 3]}', "stop"),
            "wrong form: names.N: Input should be a valid string",
        ),
        (Answer('{"refusal": "I cannot."}', "stop"), "wrong form: names: Field required"),
        (Answer('{"names": []}\n{"names": ["Ada"]}', "stop"), "no JSON object"),
        (Answer("<think>Ada, or", "length"), "thinking without an end"),
        (Answer("", "content_filter"), "content filter"),
        (Answer(" ", "stop"), "empty answer"),
        (Answer(None, error="gone"), "judge error: gone"),
        (Answer('{"names": ' + "[" * 100_000, "stop"), "no JSON object"),
        (Answer('{"names": ' + "9" * 6000 + "}", "stop"), "no JSON object"),
    ],
)
def test_the_rest_has_a_problem(answer, problem):
    found = read_reply(answer, Names, {})
    assert (found.value, found.problem) == (None, problem)


def test_a_check_looks_beyond_the_type():
    found = read_reply(
        Answer('{"names": ["Ada"]}', "stop"),
        Names,
        {"count": 2},
        lambda reply, about: f"{about['count']} names",
    )
    assert (found.value, found.problem) == (None, "2 names")


@given(st.text())
def test_every_text_has_a_value_or_a_problem(text):
    found = read_reply(Answer(text, "stop"), Names, {})
    assert (found.value is None) == bool(found.problem)


@pytest.mark.parametrize(
    ("numbers", "is_whole", "problem"),
    [
        ([2, 1, 3], True, ""),
        ([3], False, ""),
        ([0, 1], False, "fact 0 of 3"),
        ([1, 4, 4], True, "fact 4 of 3"),
        ([3, 1, 3, 1], True, "fact 3, 1 twice"),
        ([2], True, "no fact 1, 3"),
    ],
)
def test_numbers_are_those_of_the_list(numbers, is_whole, problem):
    assert numbering_problem(numbers, 3, "fact", is_whole) == problem


class _Item(Reply):
    title: int


class _Items(Reply):
    items: list[_Item]


def test_schemas_are_strict():
    schema = json.loads(json_schema_of(_Items))
    inner = schema["$defs"]["_Item"]
    assert schema["required"] == ["items"]
    assert inner["required"] == ["title"]
    assert schema["additionalProperties"] is inner["additionalProperties"] is False
    assert json.loads(json_schema_of(SupportReply))["required"] == [
        "reason",
        "verdict",
        "probability",
    ]
    assert inner["properties"] == {"title": {"type": "integer"}}


def test_a_schema_has_the_reason_before_the_verdict():
    """Servers that hold a model to a schema make it write the fields in this order."""
    assert list(json.loads(json_schema_of(SupportReply))["properties"]) == [
        "reason",
        "verdict",
        "probability",
    ]


def test_the_schema_is_part_of_what_names_an_answer():
    assert (
        Request("p").key("j")
        == Request("p", schema="").key("j")
        != Request("p", schema="{}").key("j")
    )


def test_the_question_is_put_again_with_the_reason():
    read = read_reply(Answer("- Ada", "stop"), Names, {})
    again = retry_request(Request("Who?", schema="{}"), read).prompt
    assert again.startswith("Who?\n")
    assert "- Ada" in again
    assert "no JSON object" in again


SUBJECTS = [
    {"kind": "verify", "claim": claim, "passages": ["p"]}
    for claim in ("right at once", "right then", "never right")
]


def _model(prompt: str, attempt: int) -> Act:
    is_again = "It cannot be used" in prompt
    if "right at once" in prompt or ("right then" in prompt and is_again):
        return Act(text='{"reason": "so", "verdict": "supported", "probability": null}')
    return Act(text="It is supported.")


@pytest.mark.parametrize("schema", [True, False])
def test_a_reply_that_cannot_be_used_is_asked_for_once_more(server, config, tmp_path, schema):
    server.script = _model
    with Judge.open(config(schema=schema), store=tmp_path / "a.sqlite") as judge:
        for _ in range(2):
            found = [
                each for (each,) in judge.ask_typed("verify", SupportReply, SUBJECTS, "asking")
            ]
            assert [each.value.verdict if each.value else each.problem for each in found] == [
                "supported",
                "supported",
                "no JSON object",
            ]
            assert judge.usage.calls == 5  # the second round comes from the store
    sent = [body.get("response_format") for body in server.bodies]
    assert all((each is not None) == schema for each in sent)
    if schema:
        assert sent[0]["json_schema"]["schema"] == json.loads(json_schema_of(SupportReply))


def test_a_second_question_that_fails_does_not_hide_why_it_was_asked(server, config, tmp_path):
    server.script = lambda prompt, attempt: (
        Act(status=400, text="too long") if "once more" in prompt else Act(text="Hm.")
    )
    subject = {"kind": "verify", "claim": "a", "passages": ["p"]}
    with Judge.open(config(), store=tmp_path / "a.sqlite") as judge:
        ((found,),) = judge.ask_typed("verify", SupportReply, [subject], "asking")
    assert found.problem.startswith(
        "no JSON object; asked once more: judge error: refused: HTTP 400"
    )
