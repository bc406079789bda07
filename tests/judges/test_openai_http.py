"""The HTTP backend against a real server: faults, limits, money, and servers that are down."""

from __future__ import annotations

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
from judges.backends.server import is_local, require_key
from judges.budget import SpendingLimit
from judges.store import AnswerStore
from lm_factuality.ground.errors import BackendDownError, ConfigError
from tests.judges.server import Act, JudgeServer

KEY = "sk-test-0123456789abcdef"


def prompts(count: int) -> list[Request]:
    return [Request(f"p{number}", Decoding(max_tokens=20)) for number in range(count)]


def expected(requests: list[Request]) -> list[str]:
    return [f"answer to {request.prompt}" for request in requests]


def texts(answers) -> list[str | None]:
    return [answer.text for answer in answers]


# Each of the ten happens to the first try of one request in ten; every second 429 names a time.
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


def test_faults_are_outlived_and_nothing_is_lost(server, ask_server):
    def script(prompt: str, attempt: int) -> Act:
        number = int(prompt[1:])
        if attempt == 0 and number % 10 in FAULTS:
            return FAULTS[number % 10]
        return Act(text=f"answer to {prompt}", delay=0.03 * (number % 7))

    server.script = script
    requests = prompts(100)
    assert texts(ask_server(requests, concurrency=32, timeout=1)) == expected(requests)
    assert all(
        server.attempts[f"p{number}"] == (2 if number % 10 in FAULTS else 1)
        for number in range(100)
    )


@pytest.mark.parametrize(
    "fault", FAULTS.values(), ids=lambda act: f"{act.kind}-{act.status}-{act.text}"
)
def test_a_fault_that_stays_is_an_error_of_that_request_only(server, ask_server, store, fault):
    server.script = lambda prompt, attempt: (
        fault if prompt == "p1" else Act(text=f"answer to {prompt}")
    )
    answers = ask_server(prompts(3), timeout=0.3, max_retries=1)
    assert texts(answers) == ["answer to p0", None, "answer to p2"]
    assert "given up after 2 tries" in answers[1].error
    server.script = lambda prompt, attempt: Act(text="now it works")
    assert texts(ask_server(prompts(3))) == [
        "answer to p0",
        "now it works",
        "answer to p2",
    ]  # errors are not stored


def test_retry_after_is_honoured(server, ask_server):
    def script(prompt: str, attempt: int) -> Act:
        return Act(text="fine") if attempt else Act(status=429, headers={"Retry-After": "1"})

    server.script = script
    ask_server(prompts(1))
    assert server.times[1] - server.times[0] >= 0.95


@pytest.mark.parametrize(
    ("act", "text", "finish_reason"),
    [
        (Act(text="cut", finish_reason="length"), "cut", "length"),
        (Act(text="", finish_reason="length"), "", "length"),
        (Act(text=None, finish_reason="content_filter"), "", "content_filter"),
        (Act(text="well", finish_reason=None), "well", None),
        (
            Act(
                raw=json.dumps(
                    {
                        "choices": [
                            {
                                "message": {"content": "said", "reasoning_content": "thought"},
                                "finish_reason": "stop",
                            }
                        ]
                    }
                ).encode()
            ),
            "said",
            "stop",
        ),
        (
            Act(
                raw=json.dumps(
                    {
                        "choices": [
                            {
                                "message": {"content": None, "refusal": "I will not"},
                                "finish_reason": "stop",
                            }
                        ]
                    }
                ).encode()
            ),
            "I will not",
            "stop",
        ),
        (
            Act(
                raw=b'{"choices": [{"message": {"content": "half \\ud83d pair"}, "finish_reason": "stop"}]}'
            ),
            "half ? pair",
            "stop",
        ),
    ],
)
def test_what_is_an_answer_at_once(server, ask_server, act, text, finish_reason):
    server.script = lambda prompt, attempt: act
    (answer,) = ask_server(prompts(1))
    assert (answer.text, answer.finish_reason, answer.error) == (text, finish_reason, None)
    assert server.attempts["p0"] == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_at_fault_is_not_sent_again(server, ask_server, status):
    server.script = lambda prompt, attempt: (
        Act(status=status, text="too long") if prompt == "p0" else Act(text="fine")
    )
    first, second = ask_server(prompts(2))
    assert first.error == f"refused: HTTP {status}: too long"
    assert second.text == "fine"
    assert server.attempts["p0"] == 1


def test_a_long_message_is_cut_even_where_it_has_no_spaces(server, ask_server):
    server.script = lambda prompt, attempt: Act(status=400, text="x" * 400)
    (answer,) = ask_server(prompts(1))
    assert answer.error == f"refused: HTTP 400: {'x' * 300}..."


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (Act(status=401), r"see that the environment variable named by api_key_env"),
        (Act(status=403), r"see that the environment variable named by api_key_env"),
        (Act(status=404), r"check model, and base_url"),
        (Act(status=400, text="response_format is not supported"), "set schema: false"),
        (
            Act(
                status=429, raw=b'{"error": {"message": "pay first", "code": "insufficient_quota"}}'
            ),
            "pay first",
        ),
    ],
)
def test_a_server_that_refuses_everybody_is_down_at_once(
    server, ask_server, monkeypatch, act, says
):
    monkeypatch.setenv("MY_KEY", KEY)
    server.script = lambda prompt, attempt: act
    with pytest.raises(BackendDownError, match=says):
        ask_server(prompts(50), api_key_env="MY_KEY", concurrency=2)
    assert sum(server.attempts.values()) <= 2


def test_a_server_that_does_not_run_is_down_within_seconds(ask_server):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(BackendDownError, match="cannot be reached.*is the server running"):
        ask_server(prompts(100), base_url=f"http://127.0.0.1:{port}/v1", concurrency=4)
    assert time.monotonic() - start < 5


def test_eight_given_up_in_a_row_and_the_rest_is_not_tried(server, ask_server, store):
    server.script = lambda prompt, attempt: (
        Act(text="fine") if int(prompt[1:]) < 5 else Act(status=500)
    )
    with pytest.raises(BackendDownError, match="8 requests in a row"):
        ask_server(prompts(100), max_retries=0, concurrency=1)
    assert sum(server.attempts.values()) == 5 + 8
    assert texts(ask_server(prompts(5))) == ["fine"] * 5
    assert sum(server.attempts.values()) == 5 + 8  # what was answered before is kept


def test_total_timeout_ends_it_and_keeps_what_came(server, ask_server):
    server.script = lambda prompt, attempt: Act(text="fine") if prompt == "p0" else Act(kind="hang")
    with pytest.raises(BackendDownError, match="total_timeout of 0.5 s"):
        ask_server(prompts(3), total_timeout=0.5)
    assert texts(ask_server(prompts(1))) == ["fine"]
    assert server.attempts["p0"] == 1


def test_the_budget_is_never_exceeded(server, ask_server):
    """A call costs 10 + 5 tokens, at worst 35 + 20 (p10 has three bytes), at a USD a token."""
    server.script = lambda prompt, attempt: Act(text="fine", delay=0.02)
    prices = {"prices": Prices(1e6, 1e6)}
    with pytest.raises(
        BackendDownError,
        match=r"max_cost of \$200 leaves no room.*\$150.0+ is spent.*may cost \$55",
    ):
        ask_server(prompts(30), **prices, max_cost=200, concurrency=8)
    assert sum(server.attempts.values()) == 10  # the 11th would begin at 150, and 150 + 55 > 200
    assert ask_server.backend.usage.cost == 150
    with pytest.raises(BackendDownError):
        ask_server(prompts(30), **prices, max_cost=200, concurrency=8)
    assert max(server.attempts.values()) == 1  # the next run goes on where this one ended


def test_backends_with_one_purse_spend_no_more_than_one(server, config, tmp_path: Path):
    """At once and one after the other; a call costs 15, at worst 34 + 20."""
    server.script = lambda prompt, attempt: Act(text="fine", delay=0.02)
    spending_limit = SpendingLimit(200)
    changed = config(prices=Prices(1e6, 1e6), max_cost=200, concurrency=4)

    def spend(letter: str) -> float:
        requests = [
            Request(f"{letter}{number % 10}", Decoding(max_tokens=20)) for number in range(30)
        ]
        with closing(OpenAIBackend(changed, spending_limit)) as backend:
            with pytest.raises(BackendDownError, match=r"max_cost of \$200 leaves no"):
                list(backend.answer(requests))
            return backend.usage.cost

    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(spend, "ab")) == spending_limit.spent == 150
    with (
        closing(OpenAIBackend(changed, spending_limit)) as backend,
        pytest.raises(BackendDownError, match=r"\$150.0+ is spent"),
    ):
        list(backend.answer(prompts(1)))
    assert len(server.bodies) == 10


def test_what_may_have_been_billed_counts_towards_the_budget(server, ask_server):
    server.script = lambda prompt, attempt: Act(kind="hang")
    with pytest.raises(BackendDownError, match=r"\$54.0+ is spent"):
        ask_server(prompts(1), prices=Prices(1e6, 1e6), max_cost=100, timeout=0.2)
    server.script = lambda prompt, attempt: Act(status=500) if attempt < 2 else Act(text="fine")
    ask_server([Request("q", Decoding(max_tokens=20))], prices=Prices(1e6, 1e6), max_cost=100)
    assert ask_server.backend.usage.cost == 15


def test_tokens_are_counted(server, ask_server):
    server.script = lambda prompt, attempt: Act(text="") if attempt == 0 else Act(text="fine")
    ask_server(prompts(4))
    usage = ask_server.backend.usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.cost) == (
        8,
        80,
        40,
        None,
    )


@pytest.mark.parametrize("caps", [{"requests_per_minute": 600}, {"tokens_per_minute": 600 * 21}])
def test_caps_hold(server, ask_server, caps):
    """Ten a second: of 12 requests, the last goes out 1.1 s after the first; p0 to p11 are a token
    each, and 20 for the answer."""
    server.script = lambda prompt, attempt: Act(
        text="fine", usage={"prompt_tokens": 1, "completion_tokens": 20}
    )
    ask_server(prompts(12), concurrency=12, **caps)
    times = sorted(server.times)
    for first, last in zip(times, times[5:], strict=False):
        assert last - first >= 0.5 - 0.06
    assert times[-1] - times[0] < 2.5


def test_what_is_sent(server, ask_server):
    plain = Request("p", Decoding(max_tokens=7))
    rich = Request("p", Decoding(0.7, 0.9, 7, ("END",), 3), sample=2, system="Be brief.")
    ask_server([plain])
    ask_server(
        [rich],
        extra_body={"top_k": 4, "temperature": None},
        max_tokens_name="max_completion_tokens",
    )
    ask_server([rich], endpoint="completions")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "p"}]
    assert server.bodies == [
        {"model": "small-judge", "messages": messages[1:], "max_tokens": 7, "temperature": 0.0},
        {
            "model": "small-judge",
            "messages": messages,
            "max_completion_tokens": 7,
            "top_p": 0.9,
            "stop": ["END"],
            "seed": 5,
            "top_k": 4,
        },
        {
            "model": "small-judge",
            "prompt": "Be brief.\n\np",
            "max_tokens": 7,
            "temperature": 0.7,
            "top_p": 0.9,
            "stop": ["END"],
            "seed": 5,
        },
    ]
    assert server.paths == ["/v1/chat/completions"] * 2 + ["/v1/completions"]


def chat_token(token: object, logprob: object, *others: tuple[object, object]) -> dict[str, object]:
    top = [{"token": other, "logprob": value, "bytes": None} for other, value in others]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": top}


BLANK, TRUE = (
    chat_token("\n", -0.1, ("True", -9)),
    chat_token(" True", -0.3, ("False", -2), (" True", -0.3), ("true", -1)),
)
IN_ORDER = ((" True", -0.3), ("true", -1.0), ("False", -2.0))


@pytest.mark.parametrize(
    ("endpoint", "logprobs", "found"),
    [
        ("chat", {"content": [BLANK, TRUE, BLANK]}, IN_ORDER),
        (
            "chat",
            {"content": [chat_token("True", -0.3)]},
            (("True", -0.3),),
        ),  # no alternatives but itself
        (
            "chat",
            {
                "content": [
                    chat_token("True", -0.3, ("False", None), ("\ud800", -1), ("No", float("-inf")))
                ]
            },
            (("True", -0.3), ("?", -1.0)),
        ),
        (
            "chat",
            {"content": [chat_token("Hm", -0.3, ("True", -2)), TRUE]},
            None,
        ),  # tokens of a thought that is not in the text
        ("chat", {"content": [{"token": "True"}]}, None),
        ("chat", {"content": [chat_token(3, -0.3)]}, None),
        ("chat", None, None),
        (
            "completions",
            {
                "tokens": ["\n", " True"],
                "token_logprobs": [-0.1, -0.3],
                "top_logprobs": [{"\n": -0.1}, {"False": -2, " True": -0.3, "true": -1}],
            },
            IN_ORDER,
        ),
        (
            "completions",
            {"tokens": ["\u0120True"], "token_logprobs": [-3], "top_logprobs": [{"False": -2}]},
            (("False", -2.0), ("\u0120True", -3.0)),
        ),
        (
            "completions",
            {"tokens": ["True"], "token_logprobs": [-0.3], "top_logprobs": [None]},
            (("True", -0.3),),
        ),
        ("completions", {"content": [TRUE]}, IN_ORDER),  # some servers send this form for both
    ],
)
def test_the_first_word_s_log_probabilities(server, ask_server, endpoint, logprobs, found):
    server.script = lambda prompt, attempt: Act(text=" True.", logprobs=logprobs)
    (answer,) = ask_server(
        [Request("p", Decoding(max_tokens=7, top_logprobs=5))], endpoint=endpoint
    )
    assert (answer.text, answer.error) == (" True.", None)
    assert answer.first_token_logprobs == found
    sent = {key: value for key, value in server.bodies[0].items() if "logprobs" in key}
    assert sent == (
        {"logprobs": True, "top_logprobs": 5} if endpoint == "chat" else {"logprobs": 5}
    )
    assert server.attempts == {"p": 1}


def test_the_key_is_sent_and_found_nowhere_else(
    server, config, tmp_path: Path, monkeypatch, caplog
):
    from judges.judge import answer_requests

    monkeypatch.setenv("MY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server.script = lambda prompt, attempt: (
        Act(text=f"{KEY} is your key", logprobs={"content": [chat_token(KEY, -0.1)]})
        if prompt == "p0"
        else Act(status=400, text=f"{KEY} is wrong")
    )
    said = []
    with (
        closing(AnswerStore(tmp_path / "key.sqlite")) as store,
        closing(OpenAIBackend(config(api_key_env="MY_KEY"))) as backend,
    ):
        said += [
            backend.identity,
            *map(repr, answer_requests(backend, store, prompts(2), "asking")),
        ]
        server.script = lambda prompt, attempt: Act(status=401, text=f"{KEY} is unknown")
        with pytest.raises(BackendDownError, match="is unknown") as caught:
            answer_requests(backend, store, prompts(3), "asking")
        said += [str(caught.value), json.dumps(config(api_key_env="MY_KEY").describe())]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    said += [record.getMessage() for record in caplog.records]
    said += [
        file.read_bytes().decode(errors="replace") for file in tmp_path.iterdir() if file.is_file()
    ]
    assert not [text for text in said if KEY in text]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"api_key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY is not set"),
        ({}, "name the environment variable that holds it by api_key_env"),
        ({"base_url": "http://api.openai.com/v1"}, "name the environment variable"),  # no TLS
        ({"base_url": "https://api.openai.com.example.com/v1"}, "name the environment variable"),
        (
            {"base_url": "https://api.openai.com/v1", "api_key_env": "NO_SUCH_KEY"},
            "NO_SUCH_KEY is not set",
        ),
    ],
)
def test_a_hosted_server_needs_its_key_before_anything_is_sent(config, monkeypatch, changes, says):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    hosted = config(**{"base_url": "https://api.example.com/v1", **changes})
    with pytest.raises(ConfigError, match=says) as caught:
        list(OpenAIBackend(hosted).answer(prompts(1)))
    assert KEY not in str(caught.value)


def test_openai_s_key_is_for_openai_unless_it_is_named(config, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    assert require_key(config(base_url="https://api.openai.com/v1")) == KEY
    assert require_key(config()) == ""
    assert (
        require_key(config(api_key_env="OPENAI_API_KEY", base_url="https://api.example.com/v1"))
        == KEY
    )
    monkeypatch.setenv("OPENAI_API_KEY", " \n")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        require_key(config(base_url="https://api.openai.com/v1"))


@pytest.mark.parametrize("variable", [None, "MY_KEY"])
def test_what_openai_s_client_takes_from_the_environment_is_sent_to_nobody_else(
    server, ask_server, monkeypatch, variable
):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, f"{name}-secret")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "Authorization: Bearer custom-secret\nX-Mine: custom-secret"
    )
    monkeypatch.setenv("MY_KEY", KEY)
    server.script = lambda prompt, attempt: Act(text="fine")
    assert texts(ask_server(prompts(1), api_key_env=variable)) == ["fine"]
    (sent,) = server.headers
    assert sent.get("authorization") == (f"Bearer {KEY}" if variable else None)
    assert "secret" not in json.dumps(sent)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(server, ask_server, monkeypatch, status):
    monkeypatch.setenv("MY_KEY", KEY)
    elsewhere = JudgeServer()
    target = f"{elsewhere.base_url}/chat/completions"
    headers = {"Location": f"{target}/{KEY}"}
    server.script = lambda prompt, attempt: Act(status=status, headers=headers)
    try:
        with pytest.raises(
            BackendDownError,
            match=rf"redirects to {target}/\*\*\*, which is not followed.*change base_url",
        ):
            ask_server(prompts(3), api_key_env="MY_KEY", concurrency=1)
        assert (len(server.bodies), elsewhere.bodies) == (1, [])
    finally:
        elsewhere.close()


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://gpu-box:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_local_servers(url, local):
    assert is_local(url) is local


def test_identity_tells_models_apart_and_holds_no_more_than_that(config):
    names = [
        OpenAIBackend(config(**changes)).identity
        for changes in (
            {},
            {"model": "other"},
            {"base_url": "http://127.0.0.1:9/v1"},
            {"endpoint": "completions"},
            {"extra_body": {"top_k": 1}},
            {"extra_body": {"top_k": 2}},
        )
    ]
    assert len(set(names)) == 6
    assert OpenAIBackend(config(concurrency=3, timeout=9, max_retries=0)).identity == names[0]
