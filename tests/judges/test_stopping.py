"""A judge that stops: calls under way come in and are kept, and nothing is asked again."""

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
from tests.judges.server import Act, Script, answer_to_prompt

WRONG_KEY = Act(status=401, text="who are you?")
REDIRECT = Act(status=302, headers={"Location": "http://127.0.0.1:1/v1"}, text="")
NO_QUOTA = Act(status=429, raw=b'{"error": {"message": "no money", "code": "insufficient_quota"}}')


def questions(count: int) -> list[Request]:
    """Return requests with the prompts "question 0", "question 1" and so on."""
    return [Request(f"question {number}", Decoding(max_tokens=8)) for number in range(count)]


def refuse_question_9(refusal: Act) -> Script:
    """Return a script of a server that answers all other questions after 0.3 seconds."""

    def script(prompt: str, attempt: int) -> Act:
        if prompt == "question 9":
            return refusal
        return Act(text=f"answer to {prompt}", delay=0.3)

    return script


refusals = pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(WRONG_KEY, id="wrong key"),
        pytest.param(REDIRECT, id="redirect"),
        pytest.param(NO_QUOTA, id="no quota"),
    ],
)


@refusals
def test_pending_answers_are_kept_after_a_refusal(refusal, server, ask_server, store):
    """The server bills the calls that are under way when the refusal arrives."""
    server.script = refuse_question_9(refusal)

    with pytest.raises(BackendDownError):
        ask_server(questions(24), concurrency=8)

    identity = ask_server.backend.identity
    kept_prompts = {
        request.prompt for request in questions(24) if store.get_many([request.key(identity)])
    }
    assert kept_prompts == set(server.attempts) - {"question 9"}
    # The first eight questions are sent at once, before the refused one.
    assert len(kept_prompts) >= 8


@refusals
def test_only_the_refused_request_is_sent_again_in_a_later_run(refusal, server, ask_server):
    """After the user has corrected the key, no answer is paid for twice."""
    server.script = refuse_question_9(refusal)
    with pytest.raises(BackendDownError):
        ask_server(questions(24), concurrency=8)
    server.script = answer_to_prompt

    answers = ask_server(questions(24), concurrency=8)

    texts = [answer.text for answer in answers]
    assert texts == [f"answer to question {number}" for number in range(24)]
    repeated_prompts = [prompt for prompt, count in server.attempts.items() if count > 1]
    assert repeated_prompts == ["question 9"]


def test_waiting_retry_does_not_delay_the_end(server, ask_server):
    """The run ends before the 60 seconds that one request would have to wait."""

    def script(prompt: str, attempt: int) -> Act:
        if prompt == "question 3":
            return Act(status=503, headers={"Retry-After": "60"}, text="")  # seconds
        if prompt == "question 9":
            return WRONG_KEY
        return Act(text="yes", delay=0.1)

    server.script = script
    start = time.monotonic()

    with pytest.raises(BackendDownError, match="HTTP 401"):
        ask_server(questions(24), concurrency=8)

    assert time.monotonic() - start < 30


def test_impossible_counts_of_tokens_are_ignored(server, ask_server):
    """Such a count would make the sum of all tokens meaningless."""
    impossible_usage = {"prompt_tokens": 10**400, "completion_tokens": -1}
    server.script = lambda prompt, attempt: Act(text="yes", usage=impossible_usage)

    answer = ask_server([Request("question")])[0]

    assert answer.text == "yes"
    assert answer.prompt_tokens is None
    assert answer.completion_tokens is None


@pytest.fixture
def certify_process(server, tmp_path):
    """Start ``lm-factuality certify`` with a judge behind ``server``, as a process of its own."""
    judge = {"backend": "openai", "model": "m", "base_url": server.base_url, "concurrency": 6}
    judge_path = tmp_path / "judge.yaml"
    judge_path.write_text(yaml.safe_dump(judge), encoding="utf-8")
    start_command = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"
    options = ["--judge", str(judge_path), "--store", str(tmp_path / "answers.sqlite")]
    arguments = ["certify", "--sample", "--setting", "segment_vanilla", *options]
    environment = {
        **os.environ,
        "LM_FACTUALITY_HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-c", start_command, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=REPOSITORY,
    ) as process:
        yield process


def count_stored_answers(path: Path) -> int:
    """Count the answers in a store."""
    with closing(AnswerStore(path)) as store:
        (count,) = store._database.execute("SELECT COUNT(*) FROM answers").fetchone()
    return count


# bench/attack interrupts a judge in every run. Here one interrupt in many is lost on a busy machine.
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_ends_with_one_line_and_keeps_every_answer(server, certify_process, tmp_path):
    """A user who stops a run must not lose what it has paid for."""
    server.script = lambda prompt, attempt: Act(text='{"verdicts": []}', delay=0.4)
    deadline = time.monotonic() + 120
    while len(server.bodies) < 20 and time.monotonic() < deadline:
        time.sleep(0.05)

    certify_process.send_signal(signal.SIGINT)
    _, errors = certify_process.communicate(timeout=60)

    assert certify_process.returncode == 130, errors  # as shells report an interrupt
    assert "Traceback" not in errors
    last_line = errors.rstrip().splitlines()[-1]
    assert "interrupted" in last_line
    assert str(tmp_path / "judge.yaml") in last_line
    request_count = sum(server.attempts.values())
    assert count_stored_answers(tmp_path / "answers.sqlite") == request_count >= 20
