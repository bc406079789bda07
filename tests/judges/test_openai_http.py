"""The HTTP backend against a real server: faults, limits, money, and servers that are down."""

from __future__ import annotations

import base64
import json
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from judges.answers import Decoding, Prices, Request
from judges.backends.openai_http import OpenAIBackend
from judges.backends.server import require_key
from judges.budget import SpendingLimit
from judges.judge import answer_requests
from judges.store import AnswerStore
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.http import is_local
from tests.judges.server import Act, JudgeServer

KEY = "sk-test-0123456789abcdef"


def prompts(count: int) -> list[Request]:
    """Return requests with the prompts "p0", "p1" and so on, for answers of at most 20 tokens."""
    return [Request(f"p{number}", Decoding(max_tokens=20)) for number in range(count)]


def texts(answers) -> list[str | None]:
    """Return the text of each answer, None where there is an error."""
    return [answer.text for answer in answers]


# What the server does wrong, by the last digit of a prompt such as "p23". It does 9 right.
FAULTS = {
    0: Act(status=429),
    1: Act(status=429, headers={"Retry-After": "0.4"}),
    2: Act(status=500),
    3: Act(kind="reset"),
    4: Act(kind="hang"),
    5: Act(kind="truncate", text="half of it"),
    6: Act(text=""),
    7: Act(kind="cut", text="the other half"),
    8: Act(status=503, raw=b"<html>busy</html>"),
}


def test_second_try_recovers_from_each_fault(server, ask_server):
    """A fault of a busy server costs time, but no answer."""

    def fail_nine_of_ten_once(prompt: str, attempt: int) -> Act:
        number = int(prompt[1:])
        if attempt == 0 and number % 10 in FAULTS:
            return FAULTS[number % 10]
        # Delays of different lengths make answers arrive out of order.
        return Act(text=f"answer to {prompt}", delay=0.03 * (number % 7))

    server.script = fail_nine_of_ten_once

    answers = ask_server(prompts(100), concurrency=32, timeout=1)

    assert texts(answers) == [f"answer to p{number}" for number in range(100)]
    for number in range(100):
        num_tries = 2 if number % 10 in FAULTS else 1
        assert server.attempts[f"p{number}"] == num_tries


def fail_second_prompt(fault: Act):
    """Return a script of the server with a lasting fault for "p1", and answers for the others."""

    def script(prompt: str, attempt: int) -> Act:
        if prompt == "p1":
            return fault
        return Act(text=f"answer to {prompt}")

    return script


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Act(status=429), id="too many requests"),
        pytest.param(
            Act(status=429, headers={"Retry-After": "0.4"}),
            id="too many requests, with a time to wait",
        ),
        pytest.param(Act(status=500), id="server error"),
        pytest.param(Act(kind="reset"), id="connection closed"),
        pytest.param(Act(kind="hang"), id="no reply"),
        pytest.param(Act(kind="truncate", text="half of it"), id="JSON breaks off"),
        pytest.param(Act(text=""), id="empty answer"),
        pytest.param(Act(kind="cut", text="the other half"), id="half a body"),
        pytest.param(Act(status=503, raw=b"<html>busy</html>"), id="no JSON"),
    ],
)
def test_lasting_fault_fails_only_its_own_request(server, ask_server, fault):
    """One prompt that a server cannot answer must not end a run of thousands."""
    server.script = fail_second_prompt(fault)

    answer_0, answer_1, answer_2 = ask_server(prompts(3), timeout=0.3, max_retries=1)

    assert answer_0.text == "answer to p0"
    assert answer_1.text is None
    assert "given up after 2 tries" in answer_1.error  # the first one and one retry
    assert answer_2.text == "answer to p2"


def test_a_request_with_an_error_is_sent_again_in_a_later_run(server, ask_server):
    """An error is not stored as an answer, because the server may work by then."""
    server.script = fail_second_prompt(Act(status=500))
    first_answers = ask_server(prompts(3), max_retries=0)

    server.script = lambda prompt, attempt: Act(text="now it works")
    later_answers = ask_server(prompts(3))

    assert texts(first_answers) == ["answer to p0", None, "answer to p2"]
    # The first and the third answer come from the store.
    assert texts(later_answers) == ["answer to p0", "now it works", "answer to p2"]


def test_second_try_waits_as_long_as_the_server_asks(server, ask_server):
    """Some servers make a client wait longer that comes back too early."""

    def refuse_for_a_second(prompt: str, attempt: int) -> Act:
        if attempt == 0:
            return Act(status=429, headers={"Retry-After": "1"})
        return Act(text="fine")

    server.script = refuse_for_a_second

    ask_server(prompts(1))

    first_time, second_time = server.times
    # The header asks for one second, and the clocks may differ a little.
    assert second_time - first_time >= 0.95


def reply_with_message(**message: str | None) -> Act:
    """Reply with the fields of a message, such as ``content``, as servers write it."""
    choice = {"message": message, "finish_reason": "stop"}
    return Act(raw=json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize(
    ("act", "text", "finish_reason"),
    [
        pytest.param(Act(text="cut", finish_reason="length"), "cut", "length", id="cut off"),
        pytest.param(
            Act(text="", finish_reason="length"),
            "<think>",
            "length",
            id="cut off in hidden thoughts",
        ),
        pytest.param(
            Act(text=None, finish_reason="content_filter"), "", "content_filter", id="filtered"
        ),
        pytest.param(Act(text="well", finish_reason=None), "well", None, id="no finish reason"),
        pytest.param(
            reply_with_message(content="said", reasoning_content="thought"),
            "said",
            "stop",
            id="with a thought",
        ),
        pytest.param(
            reply_with_message(content=None, refusal="I will not"),
            "I will not",
            "stop",
            id="refusal",
        ),
        pytest.param(
            reply_with_message(content="half \ud83d pair"),
            "half \ufffd pair",
            "stop",
            id="half of a pair of surrogates",
        ),
    ],
)
def test_readable_answer_is_accepted_at_once(server, ask_server, act, text, finish_reason):
    """An answer that was paid for is kept even if it is cut off, filtered or a refusal."""
    server.script = lambda prompt, attempt: act

    answer = ask_server(prompts(1))[0]

    assert answer.text == text
    assert answer.finish_reason == finish_reason
    assert answer.error is None
    assert server.attempts["p0"] == 1


def reply_with(**fields: object) -> Act:
    """Reply with fields of a choice, besides a text that says yes."""
    choice = {"message": {"content": "yes"}, "finish_reason": "stop", **fields}
    return Act(raw=json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize(
    ("finish_reason", "stored"),
    [("stop\ud800", "stop\ufffd"), ("st\0op", "st\ufffdop"), ("\u202estop", "stop")],
    ids=["half of a pair of surrogates", "zero", "direction"],
)
def test_every_text_of_a_reply_can_be_stored(server, ask_server, finish_reason, stored):
    """A reply may hold characters that UTF-8 or a terminal cannot take.

    They become the replacement character, so that the answer is stored and not asked for again.
    """
    server.script = lambda prompt, attempt: reply_with(finish_reason=finish_reason)

    answer = ask_server(prompts(1))[0]

    assert answer.finish_reason == stored
    assert ask_server(prompts(1)) == [answer]


def test_a_long_finish_reason_is_cut(server, ask_server):
    """The reason is written into every results file, so it is cut at 200 characters."""
    server.script = lambda prompt, attempt: reply_with(finish_reason="a" * 3_000_000)

    answer = ask_server(prompts(1))[0]

    assert answer.finish_reason == "a" * 200


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (1_000_001, "a text of 1,000,001 bytes, expected at most 1,000,000"),
        (33_000_000, "a reply of more than 32,000,000 bytes"),
    ],
)
def test_overlong_text_is_an_error_and_not_retried(server, ask_server, length, reason):
    """A judge that repeats itself without end must not fill the store or be paid twice."""
    server.script = lambda prompt, attempt: Act(text="a" * length)

    answer = ask_server(prompts(1))[0]

    assert answer.text is None
    assert answer.error == reason
    assert server.attempts["p0"] == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_faulty_request_is_not_sent_again(server, ask_server, status):
    """The server would refuse the same request again, for example a prompt that is too long."""
    server.script = lambda prompt, attempt: (
        Act(status=status, text="too long") if prompt == "p0" else Act(text="fine")
    )

    refused_answer, other_answer = ask_server(prompts(2))

    assert refused_answer.error == f"refused: HTTP {status}: too long"
    assert other_answer.text == "fine"
    assert server.attempts["p0"] == 1


def test_long_message_without_spaces_is_cut(server, ask_server):
    """The reason of each unscored row is shown in reports: 300 characters are enough."""
    server.script = lambda prompt, attempt: Act(status=400, text="x" * 400)

    answer = ask_server(prompts(1))[0]

    assert answer.error == f"refused: HTTP 400: {'x' * 300}..."


NO_QUOTA_BODY = b'{"error": {"message": "pay first", "code": "insufficient_quota"}}'


@pytest.mark.parametrize(
    ("act", "message"),
    [
        pytest.param(
            Act(status=401), "see that the environment variable named by api_key_env", id="no key"
        ),
        pytest.param(
            Act(status=403),
            "see that the environment variable named by api_key_env",
            id="key without rights",
        ),
        pytest.param(Act(status=404), "check model, and base_url", id="no such model"),
        pytest.param(Act(status=429, raw=NO_QUOTA_BODY), "pay first", id="no quota"),
    ],
)
def test_server_refusing_every_request_is_down_at_once(
    server, ask_server, monkeypatch, act, message
):
    """A wrong key or model fails for all prompts, so the run ends before it sends them."""
    monkeypatch.setenv("MY_KEY", KEY)
    server.script = lambda prompt, attempt: act

    with pytest.raises(BackendDownError, match=message):
        ask_server(prompts(50), api_key_env="MY_KEY", concurrency=2)

    # Two requests may be under way when the first is refused.
    assert sum(server.attempts.values()) <= 2


def test_stopped_server_is_down_within_seconds(ask_server):
    """A user who forgot to start the server must not wait for the tries of 100 requests."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        free_port = free_socket.getsockname()[1]
    begin = time.monotonic()

    with pytest.raises(BackendDownError, match="cannot be reached.*is the server running"):
        ask_server(prompts(100), base_url=f"http://127.0.0.1:{free_port}/v1", concurrency=4)

    assert time.monotonic() - begin < 5


def fail_from_the_sixth(prompt: str, attempt: int) -> Act:
    """Play a server that answers the prompts p0 to p4, and breaks down then."""
    if prompt in ("p0", "p1", "p2", "p3", "p4"):
        return Act(text="fine")
    return Act(status=500)


def test_a_server_is_down_after_eight_failed_requests_in_a_row(server, ask_server):
    """If a server breaks down during a run, the user must not wait for 100 requests to fail."""
    server.script = fail_from_the_sixth

    with pytest.raises(BackendDownError, match="8 requests in a row"):
        ask_server(prompts(100), max_retries=0, concurrency=1)

    num_answered = 5
    assert sum(server.attempts.values()) == num_answered + 8


def test_answers_before_an_outage_are_kept(server, ask_server):
    """The answers are paid for, so their requests are not sent again."""
    server.script = fail_from_the_sixth
    with pytest.raises(BackendDownError):
        ask_server(prompts(100), max_retries=0, concurrency=1)
    num_sent = sum(server.attempts.values())

    answers = ask_server(prompts(5))

    assert texts(answers) == ["fine", "fine", "fine", "fine", "fine"]
    assert sum(server.attempts.values()) == num_sent


def test_answers_before_the_total_timeout_are_kept(server, ask_server):
    """The time ran out for the run, not for the answers that it already paid for."""

    def answer_only_the_first(prompt: str, attempt: int) -> Act:
        return Act(text="fine") if prompt == "p0" else Act(kind="hang")

    server.script = answer_only_the_first
    with pytest.raises(BackendDownError, match="total_timeout of 0.5 s"):
        ask_server(prompts(3), total_timeout=0.5)

    answers_of_next_run = ask_server(prompts(1))

    assert texts(answers_of_next_run) == ["fine"]
    assert server.attempts["p0"] == 1


# Prices are in USD for a million tokens, so every token costs 1 USD. A call costs 10 + 5 USD,
# because the server counts 10 tokens of the prompt and 5 of the answer.
#
# Before a call is sent, the most that it can cost is set aside: 2 USD for the bytes of a prompt
# such as "p0" (3 for "p10"), 32 for the chat template, and 20 for the longest answer.
DOLLAR_A_TOKEN = Prices(prompt=1e6, completion=1e6)


@pytest.fixture
def slow_server(server):
    """Let the server answer after 20 ms, so that several calls are under way at once."""
    server.script = lambda prompt, attempt: Act(text="fine", delay=0.02)
    return server


def test_the_budget_is_never_exceeded(slow_server, ask_server):
    """A call is sent only if the most that it can cost still fits the budget."""
    requests = [Request(f"p{number}", Decoding(max_tokens=20)) for number in range(10, 40)]

    with pytest.raises(BackendDownError) as raised:
        ask_server(requests, prices=DOLLAR_A_TOKEN, max_cost=200, concurrency=8)

    # Each call may cost 55 USD, for 3 bytes, 32 tokens of the template and 20 of the answer. It
    # costs 15 USD, so that after ten calls only 50 of 200 USD are left.
    assert len(slow_server.bodies) == 10
    assert ask_server.backend.usage.cost == 10 * 15
    assert "max_cost of $200 leaves no room for another call" in str(raised.value)
    assert "$150.000000 is spent, and the next may cost $55.000000" in str(raised.value)


def test_no_more_requests_than_threads_are_sent_before_their_answers_are_kept(server, config):
    """If a run is killed, it loses the answers that it has paid for and not yet kept."""
    num_threads = 3
    with closing(OpenAIBackend(config(concurrency=num_threads))) as backend:
        answers = backend.answer(prompts(20))
        next(answers)
        next(answers)  # asking for the second answer says that the first is kept
        time.sleep(0.5)  # the threads could send more requests meanwhile
        num_sent = sum(server.attempts.values())
        later_answers = list(answers)

    num_kept = 1
    assert num_sent == num_kept + num_threads
    assert len(later_answers) == 20 - 2


def test_later_run_continues_after_an_exhausted_budget(slow_server, ask_server):
    """A user raises the budget step by step, and pays for no prompt twice."""
    with pytest.raises(BackendDownError, match="leaves no room"):
        ask_server(prompts(30), prices=DOLLAR_A_TOKEN, max_cost=200, concurrency=8)
    with pytest.raises(BackendDownError, match="leaves no room"):
        ask_server(prompts(30), prices=DOLLAR_A_TOKEN, max_cost=200, concurrency=8)

    # Each run has a budget for ten calls of 15 USD.
    assert len(slow_server.attempts) == 20
    assert set(slow_server.attempts.values()) == {1}


def spend_until_the_limit(config, spending_limit: SpendingLimit, letter: str) -> float:
    """Ask until the spending limit is reached, and return what this backend has spent, in USD.

    Args:
        config: The config of the backend.
        spending_limit: The limit, which other backends may share.
        letter: Begins the prompts, so that two backends have different ones.
    """
    requests = [Request(f"{letter}{number % 10}", Decoding(max_tokens=20)) for number in range(30)]
    with closing(OpenAIBackend(config, spending_limit)) as backend:
        with pytest.raises(BackendDownError, match=r"max_cost of \$200 leaves no"):
            list(backend.answer(requests))
        return backend.usage.cost


def test_backends_with_one_spending_limit_share_the_budget(slow_server, config):
    """Judges of one run, such as the members of a panel, spend one sum together."""
    spending_limit = SpendingLimit(200)
    limited_config = config(prices=DOLLAR_A_TOKEN, max_cost=200, concurrency=4)

    with ThreadPoolExecutor(2) as threads:
        futures = [
            threads.submit(spend_until_the_limit, limited_config, spending_limit, letter)
            for letter in ("a", "b")
        ]
    costs = [future.result() for future in futures]

    # After ten calls of 15 USD, another may cost 54, and only 50 of 200 USD are left.
    assert sum(costs) == 10 * 15
    assert spending_limit.spent == 10 * 15


def test_later_backend_has_the_rest_of_a_shared_spending_limit(slow_server, config):
    """The members of a panel of judges are asked one after the other."""
    spending_limit = SpendingLimit(200)
    limited_config = config(prices=DOLLAR_A_TOKEN, max_cost=200)
    # Ten calls cost 15 USD each. Another may cost 54 USD, and 50 are left.
    cost_of_first_backend = spend_until_the_limit(limited_config, spending_limit, "a")
    assert cost_of_first_backend == 150

    with (
        closing(OpenAIBackend(limited_config, spending_limit)) as later_backend,
        pytest.raises(BackendDownError, match=r"\$150.000000 is spent"),
    ):
        list(later_backend.answer([Request("p0", Decoding(max_tokens=20))]))

    assert len(slow_server.bodies) == 10  # all of the first backend


def test_call_without_an_answer_counts_as_billed(server, ask_server):
    """A server may bill an answer that the client no longer waited for."""
    server.script = lambda prompt, attempt: Act(kind="hang")

    # 2 tokens of the prompt, 32 of the chat template and 20 of the answer: the most that is billed.
    with pytest.raises(BackendDownError, match=r"\$54.0+ is spent"):
        ask_server(prompts(1), prices=DOLLAR_A_TOKEN, max_cost=100, timeout=0.2)


def test_call_with_a_server_error_costs_nothing(server, ask_server):
    """Servers do not bill a call that ends with HTTP 500."""
    server.script = lambda prompt, attempt: Act(status=500) if attempt < 2 else Act(text="fine")

    ask_server(prompts(1), prices=DOLLAR_A_TOKEN, max_cost=100)

    assert ask_server.backend.usage.cost == 10 + 5  # the tokens of the one successful call


# What a server may send in place of the counts of 10 and 5 tokens, and the cost of the call in USD.
# A prompt such as "p0" has at most 34 tokens, and its answer 20.
USAGES = {
    "nothing": (None, 54),
    "no completion tokens": ({"prompt_tokens": 10}, 30),
    "no prompt tokens": ({"completion_tokens": 5}, 39),
    "null": ({"prompt_tokens": None, "completion_tokens": 5}, 39),
    "negative": ({"prompt_tokens": 10, "completion_tokens": -5}, 30),
    "not finite": ({"prompt_tokens": 10, "completion_tokens": float("nan")}, 30),
    "infinite": ({"prompt_tokens": float("inf"), "completion_tokens": 5}, 39),
    "a text": ({"prompt_tokens": "10", "completion_tokens": 5}, 39),
    "true": ({"prompt_tokens": True, "completion_tokens": True}, 54),
    "zero": ({"prompt_tokens": 0, "completion_tokens": 0}, 54),
    "absurd": ({"prompt_tokens": 10**9, "completion_tokens": 10**400}, 54),
    "a list": ([1, 2], 54),
}


@pytest.mark.parametrize(("usage", "cost"), USAGES.values(), ids=USAGES)
def test_uncounted_tokens_cost_the_maximum(server, ask_server, usage, cost):
    """An unusable count must never make a call look cheaper than it may have been."""
    server.script = lambda prompt, attempt: Act(text="fine", usage=usage)

    ask_server(prompts(1), prices=DOLLAR_A_TOKEN, max_cost=100)

    assert ask_server.backend.usage.cost == cost


def test_excess_tokens_are_paid_for(server, ask_server):
    usage = {"prompt_tokens": 10, "completion_tokens": 50}
    server.script = lambda prompt, attempt: Act(text="fine", usage=usage)
    request = Request("p", Decoding(max_tokens=20))

    ask_server([request], prices=DOLLAR_A_TOKEN, max_cost=100)

    assert ask_server.backend.usage.cost == 10 + 50


def test_server_without_completion_counts_stays_within_the_budget(server, ask_server):
    """Each answer then counts as if it had the most tokens that were asked for, which is 20."""
    server.script = lambda prompt, attempt: Act(text="fine", usage={"prompt_tokens": 10})

    with pytest.raises(BackendDownError, match=r"max_cost of \$1\.2 leaves no room"):
        ask_server(prompts(100), prices=Prices(prompt=1000, completion=1000), max_cost=1.2)

    # Each call counts as (10 + 20) / 1000 = 0.03 USD. After 39 calls, 1.17 of 1.20 USD are spent,
    # and the next call may cost (3 + 32 + 20) / 1000 = 0.055 USD.
    assert sum(server.attempts.values()) == 39


@pytest.mark.parametrize("status", [408, 504])
def test_call_with_a_gateway_timeout_counts_as_billed(server, ask_server, status):
    """The model behind a gateway may have finished the answer, which is then billed."""
    server.script = lambda prompt, attempt: Act(status=status)

    ask_server(prompts(1), prices=DOLLAR_A_TOKEN, max_cost=100, max_retries=0)

    # 2 tokens of the prompt, 32 of the chat template and 20 of the answer: the most that is billed.
    assert ask_server.backend.usage.cost == 2 + 32 + 20


def test_the_tokens_of_every_try_are_counted(server, ask_server):
    """The empty first answers were billed as well."""
    server.script = lambda prompt, attempt: Act(text="") if attempt == 0 else Act(text="fine")

    ask_server(prompts(4))

    usage = ask_server.backend.usage
    assert usage.calls == 8  # four requests, each tried twice
    assert usage.prompt_tokens == 8 * 10  # the server counts 10 and 5 tokens each time
    assert usage.completion_tokens == 8 * 5
    assert usage.cost is None


@pytest.mark.parametrize(
    "rate_limit",
    [
        pytest.param({"requests_per_minute": 600}, id="requests"),
        # A prompt such as "p0" has 1 token, and its answer has 20.
        pytest.param({"tokens_per_minute": 600 * (1 + 20)}, id="tokens"),
    ],
)
def test_requests_and_tokens_per_minute_are_limited(server, ask_server, rate_limit):
    """Hosted servers refuse all requests of a client that exceeds its rate."""
    usage = {"prompt_tokens": 1, "completion_tokens": 20}
    server.script = lambda prompt, attempt: Act(text="fine", usage=usage)

    ask_server(prompts(12), concurrency=12, **rate_limit)

    # 600 requests in a minute are ten in a second, so that five take half a second, and all twelve
    # 1.1 seconds. A busy machine may measure 0.06 seconds less, and take twice the time.
    times = sorted(server.times)
    for time_sent, time_of_fifth_later in zip(times, times[5:], strict=False):
        assert time_of_fifth_later - time_sent >= 0.5 - 0.06
    assert times[-1] - times[0] < 2.5


def test_a_plain_request_is_sent_as_a_chat_of_one_message(server, ask_server):
    """Only what the config sets is sent, because servers refuse settings unknown to them."""
    ask_server([Request("p", Decoding(max_tokens=7))])

    assert server.paths == ["/v1/chat/completions"]
    assert server.bodies == [
        {
            "model": "small-judge",
            "messages": [{"role": "user", "content": "p"}],
            "max_tokens": 7,
            "temperature": 0.0,
        }
    ]


def test_settings_of_a_request_and_of_the_config_are_sent(server, ask_server):
    """Newer models of OpenAI need another name for the limit, and refuse a temperature."""
    request = Request(
        "p",
        Decoding(temperature=0.7, top_p=0.9, max_tokens=7, stop=("END",), seed=3),
        sample=2,
        system="Be brief.",
    )

    ask_server(
        [request],
        extra_body={"top_k": 4, "temperature": None},  # None leaves a setting out
        max_tokens_name="max_completion_tokens",
    )

    assert server.paths == ["/v1/chat/completions"]
    assert server.bodies == [
        {
            "model": "small-judge",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "p"},
            ],
            "max_completion_tokens": 7,
            "top_k": 4,
            "top_p": 0.9,
            "stop": ["END"],
            "seed": 3 + 2,  # of the third sample
        }
    ]


def test_the_completions_endpoint_gets_one_text(server, ask_server):
    """This endpoint has no messages, so the system text stands before the prompt."""
    request = Request(
        "p",
        Decoding(temperature=0.7, top_p=0.9, max_tokens=7, stop=("END",), seed=3),
        sample=2,
        system="Be brief.",
    )

    ask_server([request], endpoint="completions")

    assert server.paths == ["/v1/completions"]
    assert server.bodies == [
        {
            "model": "small-judge",
            "prompt": "Be brief.\n\np",
            "max_tokens": 7,
            "temperature": 0.7,
            "top_p": 0.9,
            "stop": ["END"],
            "seed": 3 + 2,  # of the third sample
        }
    ]


def chat_token(
    token: object, logprob: object, alternatives: dict[str, float | None] | None = None
) -> dict:
    """Describe a token of an answer as the chat endpoint does.

    Args:
        token: The token.
        logprob: Its log-probability.
        alternatives: The log-probabilities of tokens that could stand in its place.
    """
    top_logprobs = [
        {"token": alternative, "logprob": value, "bytes": None}
        for alternative, value in (alternatives or {}).items()
    ]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": top_logprobs}


@pytest.mark.parametrize(
    ("tokens", "expected_logprobs"),
    [
        pytest.param(
            [
                chat_token("\n", -0.1, {"True": -9}),
                chat_token(" True", -0.3, {"False": -2, " True": -0.3, "true": -1}),
                chat_token("\n", -0.1, {"True": -9}),
            ],
            ((" True", -0.3), ("true", -1.0), ("False", -2.0)),
            id="after a line break",
        ),
        pytest.param([chat_token("True", -0.3)], (("True", -0.3),), id="no alternatives"),
        pytest.param(
            [chat_token("True", -0.3, {"False": None, "No": float("-inf"), "Yes": -1})],
            (("True", -0.3), ("Yes", -1.0)),
            id="alternatives without a finite number",
        ),
        pytest.param(
            [chat_token("True", -0.3, {"\ud800": -1})],
            (("True", -0.3), ("\ufffd", -1.0)),
            id="half of a pair of surrogates",
        ),
        pytest.param(
            [chat_token("Hm", -0.3, {"True": -2}), chat_token(" True", -0.3, {"False": -2})],
            None,
            id="tokens of a thought that is not in the text",
        ),
        pytest.param([{"token": "True"}], None, id="no number"),
        pytest.param([chat_token(3, -0.3)], None, id="token is no text"),
    ],
)
def test_the_log_probabilities_of_the_first_word_are_read_from_a_chat(
    server, ask_server, tokens, expected_logprobs
):
    """A verdict by log-probabilities reads the first token that is not blank."""
    server.script = lambda prompt, attempt: Act(text=" True.", logprobs={"content": tokens})

    (answer,) = ask_server([Request("p", Decoding(max_tokens=7, top_logprobs=5))])

    assert answer.text == " True."
    assert answer.error is None
    assert answer.first_token_logprobs == expected_logprobs
    assert server.attempts == {"p": 1}


def test_a_reply_without_log_probabilities_is_an_answer(server, ask_server):
    """Some servers ignore the option, and the text is still paid for."""
    server.script = lambda prompt, attempt: Act(text=" True.", logprobs=None)

    (answer,) = ask_server([Request("p", Decoding(max_tokens=7, top_logprobs=5))])

    assert answer.text == " True."
    assert answer.error is None
    assert answer.first_token_logprobs is None
    assert server.attempts == {"p": 1}


@pytest.mark.parametrize(
    ("logprobs", "expected_logprobs"),
    [
        pytest.param(
            {
                "tokens": ["\n", " True"],
                "token_logprobs": [-0.1, -0.3],
                "top_logprobs": [{"\n": -0.1}, {"False": -2, " True": -0.3, "true": -1}],
            },
            ((" True", -0.3), ("true", -1.0), ("False", -2.0)),
            id="after a line break",
        ),
        pytest.param(
            {"tokens": ["\u0120True"], "token_logprobs": [-3], "top_logprobs": [{"False": -2}]},
            (("False", -2.0), ("\u0120True", -3.0)),
            id="byte-level token with a mark for the blank",
        ),
        pytest.param(
            {"tokens": ["True"], "token_logprobs": [-0.3], "top_logprobs": [None]},
            (("True", -0.3),),
            id="no alternatives",
        ),
        pytest.param(
            {"content": [chat_token(" True", -0.3, {"False": -2})]},
            ((" True", -0.3), ("False", -2.0)),
            id="the form of the chat endpoint",
        ),
    ],
)
def test_the_log_probabilities_of_the_first_word_are_read_from_a_completion(
    server, ask_server, logprobs, expected_logprobs
):
    """vLLM and llama.cpp write them in other forms than the chat endpoint does."""
    server.script = lambda prompt, attempt: Act(text=" True.", logprobs=logprobs)
    request = Request("p", Decoding(max_tokens=7, top_logprobs=5))

    (answer,) = ask_server([request], endpoint="completions")

    assert answer.text == " True."
    assert answer.error is None
    assert answer.first_token_logprobs == expected_logprobs
    assert server.attempts == {"p": 1}


@pytest.mark.parametrize(
    ("endpoint", "settings"),
    [("chat", {"logprobs": True, "top_logprobs": 5}), ("completions", {"logprobs": 5})],
)
def test_each_endpoint_gets_its_own_log_probability_option(server, ask_server, endpoint, settings):
    server.script = lambda prompt, attempt: Act(text=" True.")

    ask_server([Request("p", Decoding(max_tokens=7, top_logprobs=5))], endpoint=endpoint)

    body = server.bodies[0]
    sent_settings = {key: value for key, value in body.items() if "logprobs" in key}
    assert sent_settings == settings


SPELLINGS = {
    "as it is": KEY,
    "unicode escapes": "".join(f"\\u{ord(character):04x}" for character in KEY),
    "URL-encoded": "".join(f"%{ord(character):02X}" for character in KEY),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 within other text": base64.b64encode(f"user:{KEY}.".encode()).decode(),
    "split by white space": " \n".join(KEY),
}


def repeat_in_all_fields(spelling: str) -> Act:
    """Reply with a spelling of the key in every field that is stored."""
    choice = {
        "message": {"content": f"It is {spelling}.", "reasoning_content": spelling},
        "finish_reason": spelling,
        "logprobs": {"content": [chat_token(spelling, -0.1)]},
    }
    return Act(raw=json.dumps({spelling: 1, "choices": [choice]}).encode())


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("kind", ["reply", "refusal", "no JSON", "no choices"])
def test_key_is_removed_in_every_spelling(server, ask_server, monkeypatch, spelling, kind):
    """Servers and proxies repeat a key in their messages, sometimes encoded."""
    monkeypatch.setenv("MY_KEY", KEY)
    acts = {
        "reply": repeat_in_all_fields(spelling),
        "refusal": Act(status=400, text=spelling),
        "no JSON": Act(raw=spelling.encode()),
        "no choices": Act(raw=json.dumps({"error": spelling}).encode()),
    }
    server.script = lambda prompt, attempt: acts[kind]

    (answer,) = ask_server(prompts(1), api_key_env="MY_KEY", max_retries=0)

    texts_of_answer = f"{answer.text} {answer.finish_reason} {answer.reasoning} {answer.error}"
    assert "***" in texts_of_answer
    # The first 20 characters of a key would already help a thief.
    assert spelling[:20] not in repr(answer)


def repeat_the_key(prompt: str, attempt: int) -> Act:
    """Play a server that repeats the user's key in an answer and in two kinds of errors."""
    if prompt == "p0":
        return Act(text=f"{KEY} is your key", logprobs={"content": [chat_token(KEY, -0.1)]})
    if prompt == "p1":
        return Act(status=400, text=f"{KEY} is wrong")
    return Act(status=401, text=f"{KEY} is unknown")


def test_the_key_is_sent_to_the_server(server, ask_server, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)

    ask_server(prompts(1), api_key_env="MY_KEY")

    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_key_repeated_by_the_server_is_neither_stored_nor_shown(
    server, config, tmp_path: Path, monkeypatch, caplog
):
    """Stores, logs and results are shared, so that none of them may hold a key."""
    monkeypatch.setenv("MY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server.script = repeat_the_key
    key_config = config(api_key_env="MY_KEY")

    with (
        closing(AnswerStore(tmp_path / "key.sqlite")) as store,
        closing(OpenAIBackend(key_config)) as backend,
    ):
        answers = answer_requests(backend, store, prompts(2), "asking")
        with pytest.raises(BackendDownError, match="is unknown") as error:
            answer_requests(backend, store, prompts(3), "asking")
        outputs = [backend.identity, repr(answers), str(error.value)]

    log = [record.getMessage() for record in caplog.records]
    files = [path.read_text(errors="replace") for path in tmp_path.iterdir() if path.is_file()]
    for output in [*outputs, json.dumps(key_config.describe()), *log, *files]:
        assert KEY not in output


HOSTED = "https://api.example.com/v1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"base_url": HOSTED, "api_key_env": "NO_SUCH_KEY"},
            "NO_SUCH_KEY is not set",
            id="its variable is not set",
        ),
        pytest.param(
            {"base_url": HOSTED},
            "name the environment variable that holds it by api_key_env",
            id="no variable is named",
        ),
        pytest.param(
            {"base_url": "http://api.openai.com/v1"},
            "name the environment variable",
            id="OpenAI without encryption",
        ),
        pytest.param(
            {"base_url": "https://api.openai.com.example.com/v1"},
            "name the environment variable",
            id="a host that only begins like OpenAI's",
        ),
        pytest.param(
            {"base_url": "https://api.openai.com/v1", "api_key_env": "NO_SUCH_KEY"},
            "NO_SUCH_KEY is not set",
            id="OpenAI with a variable that is not set",
        ),
    ],
)
def test_a_hosted_server_needs_its_key_before_anything_is_sent(
    config, monkeypatch, changes, message
):
    """The key of OpenAI is in the environment, and must not go to another host."""
    hosted_config = config(**changes)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    with pytest.raises(ConfigError, match=message) as error:
        list(OpenAIBackend(hosted_config).answer(prompts(1)))

    assert KEY not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "expected_key"),
    [
        pytest.param({"base_url": "https://api.openai.com/v1"}, KEY, id="OpenAI"),
        pytest.param({}, "", id="another server"),
        pytest.param(
            {"api_key_env": "OPENAI_API_KEY", "base_url": "https://api.example.com/v1"},
            KEY,
            id="another server, named",
        ),
    ],
)
def test_openai_key_is_sent_only_to_openai_by_default(config, monkeypatch, changes, expected_key):
    """Without this rule the key would go to any server that a config names."""
    changed_config = config(**changes)
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")

    assert require_key(changed_config) == expected_key


def test_a_blank_key_is_no_key(config, monkeypatch):
    """A shell script that exports an empty variable is told so, and not "HTTP 401"."""
    openai_config = config(base_url="https://api.openai.com/v1")
    monkeypatch.setenv("OPENAI_API_KEY", " \n")

    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        require_key(openai_config)


@pytest.mark.parametrize(
    ("key_variable", "authorization"), [(None, None), ("MY_KEY", f"Bearer {KEY}")]
)
def test_settings_of_the_openai_client_in_the_environment_are_not_sent(
    server, ask_server, monkeypatch, key_variable, authorization
):
    """The client library reads them by itself, and they would reach another host."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, f"{name}-secret")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "Authorization: Bearer custom-secret\nX-Mine: custom-secret"
    )
    monkeypatch.setenv("MY_KEY", KEY)
    server.script = lambda prompt, attempt: Act(text="fine")

    answers = ask_server(prompts(1), api_key_env=key_variable)

    assert texts(answers) == ["fine"]
    (headers,) = server.headers
    assert headers.get("authorization") == authorization
    assert "secret" not in json.dumps(headers)


@pytest.fixture
def other_server():
    """Run a second server, to which the first redirects."""
    with closing(JudgeServer()) as judge_server:
        yield judge_server


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(server, other_server, ask_server, monkeypatch, status):
    """The host of a redirect would get the key and the prompts; ``***`` hides the key."""
    monkeypatch.setenv("MY_KEY", KEY)
    target = f"{other_server.base_url}/chat/completions"
    server.script = lambda prompt, attempt: Act(
        status=status, headers={"Location": f"{target}/{KEY}"}
    )

    with pytest.raises(
        BackendDownError,
        match=rf"redirects to {target}/\*\*\*, which is not followed.*change base_url",
    ):
        ask_server(prompts(3), api_key_env="MY_KEY", concurrency=1)

    assert len(server.bodies) == 1
    assert other_server.bodies == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("http://localhost:8000/v1", True, id="localhost"),
        pytest.param("http://127.0.0.1/v1", True, id="loopback"),
        pytest.param("http://[::1]:8000/v1", True, id="loopback, IPv6"),
        pytest.param("http://10.1.2.3/v1", True, id="private network"),
        pytest.param("http://gpu-box:8000/v1", True, id="name without a domain"),
        pytest.param("https://api.openai.com/v1", False, id="public name"),
        pytest.param("http://8.8.8.8/v1", False, id="public address"),
    ],
)
def test_an_address_without_a_public_host_is_local(url, expected):
    """A server of one's own needs no key, and one on the public network does."""
    assert is_local(url) is expected


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"model": "other"}, id="model"),
        pytest.param({"base_url": "http://127.0.0.1:9/v1"}, id="server"),
        pytest.param({"endpoint": "completions"}, id="endpoint"),
        pytest.param({"extra_body": {"top_k": 1}}, id="extra body"),
    ],
)
def test_settings_affecting_answers_are_part_of_the_identity(config, changes):
    """Answers are stored under the identity, so other settings must not find them."""
    assert OpenAIBackend(config(**changes)).identity != OpenAIBackend(config()).identity


def test_different_extra_bodies_have_different_identities(config):
    """Answers are stored under the identity, and the extra body can change them."""
    one_candidate = OpenAIBackend(config(extra_body={"top_k": 1}))
    two_candidates = OpenAIBackend(config(extra_body={"top_k": 2}))

    assert one_candidate.identity != two_candidates.identity


def test_request_rate_is_no_part_of_the_identity(config):
    """A user may change the pace of a run without paying for its answers again."""
    hurried_backend = OpenAIBackend(config(concurrency=3, timeout=9, max_retries=0))

    assert hurried_backend.identity == OpenAIBackend(config()).identity
