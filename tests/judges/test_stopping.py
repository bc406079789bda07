"""A judge that stops, for whatever reason: calls under way come in and are kept, and nothing that
was answered is asked again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from judges.answers import Decoding, Request
from judges.backends.openai_http import OpenAIBackend
from judges.config import JudgeConfig
from judges.judge import ask
from judges.store import AnswerStore
from lm_factuality.ground.errors import BackendDown
from tests.conftest import REPOSITORY
from tests.judges.server import Act, JudgeServer

PROMPTS = [f"question {number}" for number in range(24)]
STOPS = {
    "no key": Act(status=401, text="who are you?"),
    "a redirect": Act(status=302, headers={"Location": "http://127.0.0.1:1/v1"}, text=""),
    "no quota": Act(
        status=429, raw=b'{"error": {"message": "no money", "code": "insufficient_quota"}}'
    ),
}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    running = JudgeServer()
    yield running
    running.close()


def requests() -> list[Request]:
    return [Request(prompt, Decoding(max_tokens=8)) for prompt in PROMPTS]


@pytest.mark.parametrize("why", STOPS)
def test_calls_under_way_are_kept_when_the_server_stops(why, server, tmp_path):
    """Eight at once; the tenth is refused while others are slow."""
    is_refusing = True

    def script(prompt: str, attempt: int) -> Act:
        if is_refusing and prompt == PROMPTS[9]:
            return STOPS[why]
        return Act(text=f"answer to {prompt}", delay=0.3)

    server.script = script
    config = JudgeConfig("j", "openai", model="m", base_url=server.base_url, concurrency=8)
    with closing(AnswerStore(tmp_path / "answers.sqlite")) as store:
        with closing(OpenAIBackend(config)) as backend, pytest.raises(BackendDown):
            ask(backend, store, requests(), "asking")
        asked = {prompt for prompt in PROMPTS if server.attempts[prompt]} - {PROMPTS[9]}
        kept = store.get_many([each.key(backend.identity, False) for each in requests()])
        assert len(kept) == len(asked) >= 8
        is_refusing = False
        with closing(OpenAIBackend(config)) as backend:
            answers = ask(backend, store, requests(), "asking")
    assert [answer.text for answer in answers] == [f"answer to {prompt}" for prompt in PROMPTS]
    assert {prompt: count for prompt, count in server.attempts.items() if count > 1} == {
        PROMPTS[9]: 2
    }


def test_retries_end_with_the_server(server, tmp_path):
    """A request that would be tried again in a minute does not hold up the end."""

    def script(prompt: str, attempt: int) -> Act:
        if prompt == PROMPTS[3]:
            return Act(status=503, headers={"Retry-After": "60"}, text="")
        return STOPS["no key"] if prompt == PROMPTS[9] else Act(text="yes", delay=0.1)

    server.script = script
    config = JudgeConfig("j", "openai", model="m", base_url=server.base_url, concurrency=8)
    begin = time.monotonic()
    store, backend = AnswerStore(tmp_path / "a.sqlite"), OpenAIBackend(config)
    with closing(store), closing(backend), pytest.raises(BackendDown, match="HTTP 401"):
        ask(backend, store, requests(), "asking")
    assert time.monotonic() - begin < 30


def test_a_pause_in_milliseconds_is_kept(server, tmp_path):
    def script(prompt: str, attempt: int) -> Act:
        return (
            Act(status=429, headers={"Retry-After-Ms": "900", "Retry-After": "60"}, text="")
            if attempt == 0
            else Act(text="yes")
        )

    server.script = script
    config = JudgeConfig("j", "openai", model="m", base_url=server.base_url)
    begin = time.monotonic()
    with (
        closing(AnswerStore(tmp_path / "a.sqlite")) as store,
        closing(OpenAIBackend(config)) as backend,
    ):
        (answer,) = ask(backend, store, requests()[:1], "asking")
    assert answer.text == "yes"
    assert 0.8 < time.monotonic() - begin < 30


def test_counts_of_tokens_that_are_none(server, tmp_path):
    server.script = lambda prompt, attempt: Act(
        text="yes", usage={"prompt_tokens": 10**400, "completion_tokens": -1}
    )
    config = JudgeConfig("j", "openai", model="m", base_url=server.base_url)
    with (
        closing(AnswerStore(tmp_path / "a.sqlite")) as store,
        closing(OpenAIBackend(config)) as backend,
    ):
        (answer,) = ask(backend, store, requests()[:1], "asking")
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("yes", None, None)


# bench/attack interrupts a judge in every run; here one interrupt in many is lost on a busy machine
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_in_one_line_and_nothing_is_asked_twice(server, tmp_path):
    server.script = lambda prompt, attempt: Act(text='{"verdicts": []}', delay=0.4)
    judge = tmp_path / "judge.yaml"
    content = {"backend": "openai", "model": "m", "base_url": server.base_url, "concurrency": 6}
    judge.write_text(yaml.safe_dump(content), encoding="utf-8")
    code = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"
    store = ["--store", str(tmp_path / "answers.sqlite")]
    command = [
        sys.executable,
        "-c",
        code,
        "certify",
        "--judge",
        str(judge),
        "--sample",
        "--setting",
        "segment_vanilla",
        *store,
    ]
    environment = {
        **os.environ,
        "LM_FACTUALITY_HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment, cwd=REPOSITORY
    ) as process:
        deadline = time.monotonic() + 120
        while len(server.bodies) < 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[1]
    assert process.returncode == 130, told
    assert "Traceback" not in told
    last = told.rstrip().splitlines()[-1]
    assert "interrupted" in last
    assert str(Path(judge)) in last
    with closing(AnswerStore(tmp_path / "answers.sqlite")) as kept:
        (count,) = kept._database.execute("SELECT COUNT(*) FROM answers").fetchone()
    assert count == sum(server.attempts.values()) >= 20
