"""Replies that have a type: what is read, what is not, and the one more try."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from judges.answers import Answer, Request
from judges.claims import CheckReply
from judges.judge import Judge
from judges.typed import (
    ParsedReply,
    Reply,
    is_worth_retrying,
    json_schema_of,
    longest_retry_request,
    numbering_problem,
    read_reply,
    retry_request,
    schema_to_send,
)
from judges.verify import SupportReply
from lm_factuality.benchmarks.biographies.matrix import FactReply
from tests.judges.server import Act


class Names(Reply):
    names: list[str]


def read_names(text: str) -> ParsedReply[Names]:
    """Read ``text`` as the whole answer to a question for names."""
    return read_reply(Answer(text, "stop"), Names, {})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"names": ["Ada", "Bea"]}', id="bare"),
        pytest.param(' \n{"names": ["Ada", "Bea"]}\n', id="with blank space"),
        pytest.param(
            'Here they are:\n```json\n{"names": ["Ada", "Bea"]}\n```\nI hope this helps!',
            id="fenced in a sentence",
        ),
        pytest.param('```\n{"names": ["Ada", "Bea"]}\n```', id="fenced"),
        pytest.param('Sure! {"names": ["Ada", "Bea"]} Is that all?', id="in a sentence"),
        pytest.param('["Ada", "Bea"]', id="only the list"),
        pytest.param('<think>{"names": []}</think>{"names": ["Ada", "Bea"]}', id="after a thought"),
    ],
)
def test_json_object_is_found_in_the_reply(text):
    """Models often write polite words, code fences or thoughts around the JSON."""
    reply = read_names(text)

    assert reply.value.names == ["Ada", "Bea"]
    assert reply.problem == ""


def test_a_lone_surrogate_is_replaced():
    """A file in UTF-8 cannot hold one half of a pair of surrogates."""
    lone_surrogate = "\\ud800"
    whole_pair = "\\ud83d\\ude00"

    reply = read_names(f'{{"names": ["{lone_surrogate} Ada", "{whole_pair}"]}}')

    assert reply.value.names == ["\N{REPLACEMENT CHARACTER} Ada", "\N{GRINNING FACE}"]
    assert reply.problem == ""


@pytest.mark.parametrize(
    "letter",
    [
        pytest.param("a", id="one byte"),
        pytest.param("\u3400", id="three bytes"),
        pytest.param("\U0001f600", id="four bytes"),
    ],
)
def test_second_question_with_a_long_quotation_has_bounded_length(letter):
    """A budget sets aside the cost of the longest second question before it is sent."""
    request = Request("Who?")
    reply = read_names(letter * 9000)

    second_request = retry_request(request, reply)

    longest = longest_retry_request(request)
    assert len(second_request.prompt.encode()) <= len(longest.prompt.encode())


@pytest.mark.parametrize(
    "letter",
    [
        pytest.param("a", id="one byte"),
        pytest.param("\u3400", id="three bytes"),
        pytest.param("\U0001f600", id="four bytes"),
    ],
)
def test_second_question_with_a_long_field_name_has_bounded_length(letter):
    """The name of an unknown field is quoted in the reason why a reply was refused."""
    request = Request("Who?")
    reply = read_names(json.dumps({letter * 9000: 1}, ensure_ascii=False))

    second_request = retry_request(request, reply)

    longest = longest_retry_request(request)
    assert len(second_request.prompt.encode()) <= len(longest.prompt.encode())


@pytest.mark.parametrize("letter", ["a", "\u3400", "\U0001f600"])
def test_a_problem_with_a_long_field_name_is_shortened_to_300_characters(letter):
    """A model may invent a field name of any length, and reports show the problem."""
    reply = read_names(json.dumps({"names": [], letter * 9000: 1}))

    assert len(reply.problem) == len("wrong form: ") + 300


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(
            Answer("I'm sorry, I cannot do that.", "stop"), "no JSON object", id="refusal"
        ),
        pytest.param(Answer("- Ada\n- Bea", "stop"), "no JSON object", id="list of lines"),
        pytest.param(Answer('{"names": ["Ada", ', "length"), "cut off", id="cut off"),
        pytest.param(Answer('{"names": ["Ada"]', "stop"), "no JSON object", id="not closed"),
        pytest.param(
            Answer('{"names": ["Ada"], "refusal": "none"}', "stop"),
            "wrong form: refusal: Extra inputs are not permitted",
            id="unknown field",
        ),
        pytest.param(
            Answer('{"names": "Ada"}', "stop"),
            "wrong form: names: Input should be a valid list",
            id="no list",
        ),
        pytest.param(
            Answer('{"names": ["Ada", 3]}', "stop"),
            "wrong form: names.N: Input should be a valid string",
            id="wrong item",
        ),
        pytest.param(
            Answer('{"refusal": "I cannot."}', "stop"),
            "wrong form: names: Field required",
            id="missing field",
        ),
        pytest.param(
            Answer('{"names": []}\n{"names": ["Ada"]}', "stop"), "no JSON object", id="two objects"
        ),
        pytest.param(Answer("<think>Ada, or", "length"), "thinking without an end", id="thinking"),
        pytest.param(Answer("", "content_filter"), "content filter", id="content filter"),
        pytest.param(Answer(" ", "stop"), "empty answer", id="empty"),
        pytest.param(Answer(None, error="gone"), "judge error: gone", id="error"),
        pytest.param(
            Answer('{"names": ' + "[" * 100_000, "stop"), "repeats itself to the end", id="too deep"
        ),
        pytest.param(
            Answer('{"names": ' + "9" * 6000 + "}", "stop"), "no JSON object", id="huge number"
        ),
    ],
)
def test_unreadable_answer_has_a_problem(answer, problem):
    """The problem is the reason with which the row is reported as unscored."""
    reply = read_reply(answer, Names, {})

    assert reply.value is None
    assert reply.problem == problem


def test_repetitive_reply_gets_no_second_question():
    """The model would most likely repeat itself again, and the user would pay for it."""
    reply = read_names('{"names": ["Ada' + '", "Ada' * 40)

    assert reply.problem == "repeats itself to the end"
    assert not is_worth_retrying(reply)


def test_truncated_reply_gets_a_second_question():
    reply = read_names('{"names": ["Ada", "Bea", "Cleo')

    assert is_worth_retrying(reply)


def test_custom_check_can_refuse_a_well_typed_reply():
    """Some errors are seen only with the question, such as one name too few."""

    def check_count(reply: Names, subject: dict) -> str:
        if len(reply.names) == subject["count"]:
            return ""
        return f"expected {subject['count']} names"

    answer = Answer('{"names": ["Ada"]}', finish_reason="stop")
    reply = read_reply(answer, Names, {"count": 2}, check_count)

    assert reply.value is None
    assert reply.problem == "expected 2 names"


@given(st.text())
def test_every_text_has_either_a_value_or_a_problem(text):
    """Results show the value of a reply, or else the problem with it."""
    reply = read_names(text)

    if reply.value is None:
        assert reply.problem != ""
    else:
        assert reply.problem == ""


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        pytest.param([2, 1, 3], "", id="all three"),
        pytest.param([1, 4, 4], "fact 4 of 3", id="beyond the last"),
        pytest.param([3, 1, 3, 1], "fact 3, 1 twice", id="twice"),
        pytest.param([2], "no fact 1, 3", id="missing"),
    ],
)
def test_a_reply_about_all_of_three_facts_must_number_each_once(numbers, problem):
    """A verdict is matched to its fact by number."""
    assert numbering_problem(numbers, count=3, noun="fact", must_be_complete=True) == problem


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        pytest.param([3], "", id="one of three"),
        pytest.param([0, 1], "fact 0 of 3", id="below the first"),
    ],
)
def test_a_reply_about_some_of_three_facts_may_leave_out_numbers(numbers, problem):
    """A verdict is matched to its fact by number."""
    assert numbering_problem(numbers, count=3, noun="fact", must_be_complete=False) == problem


@pytest.mark.parametrize(
    ("count", "problem"),
    [
        pytest.param(10, "no fact 1, 2, 3, 4, 5, 6, 7, 8, 9, 10", id="ten"),
        pytest.param(11, "no fact 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...", id="eleven"),
    ],
)
def test_at_most_ten_missing_numbers_are_listed(count, problem):
    """The problem becomes part of a prompt, and a reply may miss hundreds of facts."""
    assert numbering_problem([], count, noun="fact") == problem


def test_missing_numbers_are_listed_in_their_order():
    """The second question tells the judge which facts its reply left out."""
    numbers = [1, 3, 4, 5, 6, 7, 8, 9, 11]

    assert numbering_problem(numbers, count=11, noun="fact") == "no fact 2, 10"


@pytest.mark.parametrize(
    ("reply_text", "quote"),
    [
        pytest.param("a" * 2000, "a" * 2000, id="2000 characters"),
        pytest.param("a" * 2001, "a" * 2000 + " ...", id="2001 characters"),
    ],
)
def test_a_second_question_quotes_the_first_2000_characters_of_the_reply(reply_text, quote):
    second_request = retry_request(Request("Who?"), read_names(reply_text))

    assert f"Your reply to this was:\n{quote}\n\n" in second_request.prompt


def test_a_reply_cannot_be_changed():
    """Replies are shared between rows that asked the same question."""
    reply = read_names('{"names": ["Ada"]}').value

    with pytest.raises(ValidationError, match="frozen"):
        reply.names = []


def test_a_schema_requires_all_fields_and_permits_no_others():
    """The strict mode of OpenAI refuses a schema that does not say both."""

    class Person(Reply):
        name: str

    class People(Reply):
        people: list[Person]

    schema = json.loads(json_schema_of(People))

    assert schema["required"] == ["people"]
    assert schema["additionalProperties"] is False
    person_schema = schema["$defs"]["Person"]
    assert person_schema["required"] == ["name"]
    assert person_schema["additionalProperties"] is False


def test_a_schema_requires_fields_that_have_a_default():
    """The strict mode of OpenAI knows no optional fields."""

    class Verdict(Reply):
        verdict: str
        probability: float | None = None

    schema = json.loads(json_schema_of(Verdict))

    assert schema["required"] == ["verdict", "probability"]


def test_a_field_called_title_stays_in_the_schema():
    """Pydantic adds a key "title" to each field, and the suite removes only that."""

    class Book(Reply):
        title: int

    schema = json.loads(json_schema_of(Book))

    assert schema["properties"] == {"title": {"type": "integer"}}


def test_a_schema_has_the_reason_before_the_verdict():
    """A model writes the fields in this order, and a reason helps only a verdict that follows it."""
    schema = json.loads(json_schema_of(SupportReply))

    assert list(schema["properties"]) == ["reason", "verdict", "probability"]


def test_the_schema_is_part_of_the_key_of_an_answer():
    """A schema changes what a model answers, so answers with and without one are kept apart."""
    key_without_schema = Request("Who?").key("judge")
    key_with_schema = Request("Who?", schema="{}").key("judge")

    assert key_with_schema != key_without_schema


def test_an_empty_schema_does_not_change_the_key_of_an_answer():
    """Stores from before there were schemas stay valid."""
    key_without_schema = Request("Who?").key("judge")
    key_with_empty_schema = Request("Who?", schema="").key("judge")

    assert key_with_empty_schema == key_without_schema


def test_the_second_question_quotes_the_reply_and_its_problem():
    """A model mends its reply more often if it is told what was wrong."""
    reply = read_names("- Ada")

    second_request = retry_request(Request("Who?", schema="{}"), reply)

    assert second_request.prompt.startswith("Who?\n")
    assert "- Ada" in second_request.prompt
    assert "no JSON object" in second_request.prompt


def claim_subject(claim: str) -> dict:
    """Return the variables of the prompt "verify" for this claim."""
    return {"kind": "verify", "claim": claim, "passages": ["p"]}


def script_of_usable_replies(*, at_once: str = "", when_asked_again: str = ""):
    """Return a script of the server, which replies to claims in JSON or with "It is supported."

    Args:
        at_once: The claim about which the first reply is JSON.
        when_asked_again: The claim about which only the second reply is JSON.
    """

    def reply_to_prompt(prompt: str, attempt: int) -> Act:
        is_second_question = "It cannot be used" in prompt
        is_usable_at_once = at_once != "" and at_once in prompt
        is_usable_now = is_second_question and when_asked_again != "" and when_asked_again in prompt
        if is_usable_at_once or is_usable_now:
            return Act(text='{"reason": "so", "verdict": "supported", "probability": null}')
        return Act(text="It is supported.")

    return reply_to_prompt


@pytest.fixture
def open_judge(config, tmp_path):
    """Return a function that opens a judge behind the server: ``open_judge(schema=False)``."""

    def open_with_settings(**settings):
        return Judge.open(config(**settings), store=tmp_path / "answers.sqlite")

    return open_with_settings


@pytest.mark.parametrize("schema", [True, False])
def test_an_unusable_reply_is_asked_for_once_more(server, open_judge, schema):
    """A second question often saves a verdict, and more of them could cost without end."""
    server.script = script_of_usable_replies(
        at_once="right at once", when_asked_again="right later"
    )
    claims = ["right at once", "right later", "never right"]
    subjects = [claim_subject(claim) for claim in claims]

    with open_judge(schema=schema) as judge:
        replies_by_claim = judge.ask_typed("verify", SupportReply, subjects, "asking")

    right_at_once, right_later, never_right = [replies[0] for replies in replies_by_claim]
    assert right_at_once.value.verdict == "supported"
    assert right_later.value.verdict == "supported"
    assert never_right.value is None
    assert never_right.problem == "no JSON object"
    first_questions = 3
    second_questions = 2
    assert judge.usage.calls == first_questions + second_questions


@pytest.mark.parametrize("schema", [True, False])
def test_second_replies_come_from_the_store_when_a_run_is_repeated(server, open_judge, schema):
    """A repeated run must be free."""
    server.script = script_of_usable_replies(when_asked_again="right later")
    subjects = [claim_subject("right later"), claim_subject("never right")]

    with open_judge(schema=schema) as judge:
        first_replies = judge.ask_typed("verify", SupportReply, subjects, "asking")
        calls_of_first_run = judge.usage.calls
        later_replies = judge.ask_typed("verify", SupportReply, subjects, "asking")

    assert later_replies == first_replies
    assert calls_of_first_run == 4  # two questions, and each of them once more
    assert judge.usage.calls == calls_of_first_run


def test_the_schema_is_sent_with_the_first_and_the_second_question(server, open_judge):
    server.script = script_of_usable_replies(when_asked_again="right later")

    with open_judge(schema=True) as judge:
        judge.ask_typed("verify", SupportReply, [claim_subject("right later")], "asking")

    first_body, second_body = server.bodies
    schema = schema_to_send(json_schema_of(SupportReply))
    assert first_body["response_format"]["json_schema"]["schema"] == schema
    assert second_body["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize("reply_type", [SupportReply, CheckReply, FactReply])
def test_a_server_is_sent_no_defaults_and_no_descriptions(reply_type):
    """Some servers refuse schemas with such keywords."""
    sent_schema = json.dumps(schema_to_send(json_schema_of(reply_type)))

    assert '"default"' not in sent_schema
    assert '"description"' not in sent_schema


@pytest.mark.parametrize("verdict", ["Supported", "SUPPORTED", " supported "])
def test_a_verdict_is_read_in_any_case(verdict):
    """Models that are given no schema write verdicts in capitals and with blanks."""
    answer = Answer(json.dumps({"reason": "so", "verdict": verdict}))

    reply = read_reply(answer, SupportReply, {})

    assert reply.value.verdict == "supported"


def test_unknown_verdict_is_refused():
    """To read "unsupported" as "not_supported" would be a guess."""
    answer = Answer(json.dumps({"reason": "so", "verdict": "unsupported"}))

    reply = read_reply(answer, SupportReply, {})

    assert reply.value is None
    assert reply.problem.startswith("wrong form: verdict")


def test_disabled_schema_is_not_sent(server, open_judge):
    """Servers that know no ``response_format`` refuse the request."""
    server.script = script_of_usable_replies(when_asked_again="right later")

    with open_judge(schema=False) as judge:
        judge.ask_typed("verify", SupportReply, [claim_subject("right later")], "asking")

    first_body, second_body = server.bodies
    assert "response_format" not in first_body
    assert "response_format" not in second_body


def test_a_failing_second_question_keeps_the_first_problem(server, open_judge):
    """The user needs to know both why the first reply was unusable and what failed then."""

    def fail_the_second_question(prompt: str, attempt: int) -> Act:
        if "once more" in prompt:
            return Act(status=400, text="too long")
        return Act(text="Hm.")

    server.script = fail_the_second_question

    with open_judge() as judge:
        replies_by_claim = judge.ask_typed("verify", SupportReply, [claim_subject("a")], "asking")

    reply = replies_by_claim[0][0]
    assert reply.problem.startswith(
        "no JSON object; asked once more: judge error: refused: HTTP 400"
    )
