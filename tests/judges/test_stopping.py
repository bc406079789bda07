"""A judge that stops, for whatever reason: calls under way come in and are kept, and nothing that
was answered is asked again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from judges.answers import Decoding, Request
from judges.store import AnswerStore
from lm_factuality.ground.errors import BackendDownError
from tests.conftest import REPOSITORY
from tests.judges.server import Act

PROMPTS = [f"question {number}" for number in range(24)]
REQUESTS = [Request(prompt, Decoding(max_tokens=8)) for prompt in PROMPTS]
REFUSED = PROMPTS[9]
STOPS = {
    "no key": Act(status=401, text="who are you?"),
    "a redirect": Act(status=302, headers={"Location": "http://127.0.0.1:1/v1"}, text=""),
    "no quota": Act(
        status=429, raw=b'{"error": {"message": "no money", "code": "insufficient_quota"}}'
    ),
}


@pytest.mark.parametrize("why", STOPS)
def test_calls_under_way_are_kept_when_the_server_stops(why, server, ask_server, store):
    """Eight at once; the tenth is refused while others are slow."""
    is_refusing = True

    def script(prompt: str, attempt: int) -> Act:
        if is_refusing and prompt == REFUSED:
            return STOPS[why]
        return Act(text=f"answer to {prompt}", delay=0.3)

    server.script = script
    with pytest.raises(BackendDownError):
        ask_server(REQUESTS, concurrency=8)
    identity = ask_server.backend.identity
    kept = store.get_many([request.key(identity) for request in REQUESTS])
    assert len(kept) == len(set(server.attempts) - {REFUSED}) >= 8
    is_refusing = False
    answers = ask_server(REQUESTS, concurrency=8)
    assert [answer.text for answer in answers] == [f"answer to {prompt}" for prompt in PROMPTS]
    asked_twice = {prompt for prompt, count in server.attempts.items() if count > 1}
    assert asked_twice == {REFUSED}


def test_retries_end_with_the_server(server, ask_server):
    """A request that would be tried again in a minute does not hold up the end."""

    def script(prompt: str, attempt: int) -> Act:
        if prompt == PROMPTS[3]:
            return Act(status=503, headers={"Retry-After": "60"}, text="")
        return STOPS["no key"] if prompt == REFUSED else Act(text="yes", delay=0.1)

    server.script = script
    begin = time.monotonic()
    with pytest.raises(BackendDownError, match="HTTP 401"):
        ask_server(REQUESTS, concurrency=8)
    assert time.monotonic() - begin < 30


def test_counts_of_tokens_that_are_none(server, ask_server):
    impossible = {"prompt_tokens": 10**400, "completion_tokens": -1}
    server.script = lambda prompt, attempt: Act(text="yes", usage=impossible)
    (answer,) = ask_server(REQUESTS[:1])
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
    options = ["--judge", str(judge), "--store", str(tmp_path / "answers.sqlite")]
    command = [sys.executable, "-c", code, "certify", "--sample", "--setting", "segment_vanilla"]
    environment = {
        **os.environ,
        "LM_FACTUALITY_HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        [*command, *options], stderr=subprocess.PIPE, text=True, env=environment, cwd=REPOSITORY
    ) as process:
        deadline = time.monotonic() + 120
        while len(server.bodies) < 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    last_line = errors.rstrip().splitlines()[-1]
    assert "interrupted" in last_line
    assert str(Path(judge)) in last_line
    with closing(AnswerStore(tmp_path / "answers.sqlite")) as store:
        (count,) = store._database.execute("SELECT COUNT(*) FROM answers").fetchone()
    assert count == sum(server.attempts.values()) >= 20
