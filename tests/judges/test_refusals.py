"""Options that a server refuses: they are left out, once per run, and results say so."""

from __future__ import annotations

import pytest

from judges.answers import Decoding, Request
from judges.backends.refusals import find_unsupported_option, without_options
from judges.judge import Judge
from judges.verify import Pair, verify
from tests.judges.server import Act, JudgeServer

SCHEMA = '{"type": "object"}'
BODY = {
    "model": "m",
    "messages": [],
    "max_tokens": 512,
    "temperature": 0.0,
    "seed": 1,
    "logprobs": True,
    "top_logprobs": 5,
    "response_format": {"type": "json_schema"},
}

# What servers write, in their own words.
REFUSALS = [
    (
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
        " 'max_completion_tokens' instead.",
        "max_tokens",
    ),
    (
        400,
        "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default"
        " (1) value is supported.",
        "temperature",
    ),
    (403, "You are not allowed to request logprobs from this model.", "logprobs"),
    (
        422,
        '{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not'
        ' permitted"}]}',
        "seed",
    ),
    (400, 'Invalid JSON payload received. Unknown name "seed": Cannot find field.', "seed"),
    (422, "Unexpected keys in the request: {'response_format'}", "response_format"),
    (400, "Invalid schema for response_format 'reply'", "response_format"),
]


@pytest.mark.parametrize(("status", "message", "option"), REFUSALS)
def test_refused_option_is_read_from_the_error_message(status, message, option):
    """Servers have no code for this error."""
    assert find_unsupported_option(status, message, BODY) == option


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "'max_tokens' is too large: 512. This model supports at most 256 tokens."),
        (400, "This model's maximum context length is 2048 tokens. Please reduce the prompt."),
        (429, "seed is not supported right now"),
        (401, "Unknown key"),
        (400, "top_p is not supported"),
        (500, "internal error"),
    ],
)
def test_unrelated_error_drops_no_option(status, message):
    """Without the option, the request would fail again, and the cause could be hidden."""
    assert find_unsupported_option(status, message, BODY) is None


def test_a_refused_limit_of_tokens_is_sent_by_its_other_name():
    """Newer servers of OpenAI take the limit as ``max_completion_tokens`` only."""
    body = without_options({"model": "m", "max_tokens": 512}, options={"max_tokens"})

    assert body == {"model": "m", "max_completion_tokens": 512}


def test_the_limit_of_tokens_is_not_left_out_under_both_names():
    """An answer without a limit could cost any sum."""
    option_to_leave_out = find_unsupported_option(
        status=400,
        message="'max_completion_tokens' is not supported",
        body={"model": "m", "max_completion_tokens": 512},
        left_out={"max_tokens"},
    )

    assert option_to_leave_out is None


def refuse(server: JudgeServer, *options: str) -> None:
    """Let the server refuse options, one at a time, and support every claim without them."""

    def reply(prompt: str, attempt: int) -> Act:
        for option in options:
            if option in server.bodies[-1]:
                return Act(status=400, text=f"Unsupported parameter: '{option}'")
        return Act(text='{"reason": "so", "verdict": "supported", "probability": null}')

    server.script = reply


@pytest.mark.parametrize(
    "option", ["response_format", "seed", "logprobs", "max_tokens", "temperature"]
)
def test_a_judge_asks_again_without_a_refused_option_once_per_run(server, ask_server, option):
    """Only the first request has the option, and it is sent again without it."""
    refuse(server, option)
    decoding = Decoding(temperature=0.5, seed=3, top_logprobs=2)
    requests = [Request(f"p{number}", decoding, schema=SCHEMA) for number in range(20)]

    answers = ask_server(requests, concurrency=1)

    assert [answer.left_out for answer in answers] == [(option,)] * 20
    first_body, *later_bodies = server.bodies
    assert option in first_body
    assert len(later_bodies) == 20
    for body in later_bodies:
        assert option not in body


def test_a_judge_leaves_out_all_options_that_are_refused(server, ask_server):
    """The server refuses one option after another."""
    refuse(server, "response_format", "seed", "logprobs", "max_tokens", "temperature")
    decoding = Decoding(temperature=0.5, seed=3, top_logprobs=2)

    answer = ask_server([Request("p", decoding, schema=SCHEMA)])[0]

    assert answer.left_out == (
        "logprobs",
        "max_tokens",
        "response_format",
        "seed",
        "temperature",
    )
    assert set(server.bodies[-1]) == {"model", "messages", "max_completion_tokens"}
    assert ask_server.backend.usage.calls == 5 + 1  # five refusals and an answer


def test_innocent_option_is_sent_again(server, ask_server):
    """The message blames the seed, but the request fails without it as well."""

    def reply(prompt: str, attempt: int) -> Act:
        if prompt == "p0":
            return Act(status=400, text="seed: the prompt holds an unknown word")
        return Act(text="yes")

    server.script = reply
    decoding = Decoding(seed=3)

    requests = [Request("p0", decoding), Request("p1", decoding)]
    refused_answer, later_answer = ask_server(requests, concurrency=1)

    assert refused_answer.error.startswith("refused: HTTP 400: seed")
    assert refused_answer.left_out is None
    assert later_answer.left_out is None
    assert server.bodies[-1]["seed"] == 3


def test_usage_names_refused_options_in_later_runs(server, config, tmp_path):
    """Readers of results must know that verdicts were not held to the schema."""
    refuse(server, "response_format")
    pairs = [Pair("The mill is old.", ("The mill was built in 1402.",))]

    with Judge.open(config(), store=tmp_path / "answers.sqlite") as judge:
        verifications = verify(judge, pairs)
    with Judge.open(config(), store=tmp_path / "answers.sqlite") as later_judge:
        later_verifications = verify(later_judge, pairs)

    assert [verification.verdict for verification in verifications] == ["supported"]
    assert later_verifications == verifications
    assert judge.usage.refused_options == ("response_format",)
    assert later_judge.usage.refused_options == ("response_format",)
    assert len(server.bodies) == 2  # the refused request, and the one without the option


@pytest.mark.parametrize(
    ("decoding", "seeds"),
    [
        pytest.param(Decoding(temperature=0.7), [0, 1, 2], id="sampled"),
        pytest.param(Decoding(temperature=0.7, seed=5), [5, 6, 7], id="with a seed"),
        pytest.param(Decoding(temperature=0.7, seed="none"), [None] * 3, id="without a seed"),
        pytest.param(Decoding(), [None], id="greedy"),
    ],
)
def test_each_sample_of_a_judge_has_its_own_seed(server, ask_server, decoding, seeds):
    """With one seed for all, a server would return the same sample each time."""
    requests = [Request("p", decoding, sample) for sample in range(len(seeds))]

    ask_server(requests, concurrency=1)

    assert [body.get("seed") for body in server.bodies] == seeds
    assert not any("stop" in body for body in server.bodies)
