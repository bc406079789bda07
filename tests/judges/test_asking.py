"""Asking: once each, in order, and nothing lost whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from judges.answers import Answer, Decoding, Prices, Request
from judges.backends import Backend
from judges.backends.openai_http import OpenAIBackend
from judges.judge import answer_requests
from judges.store import AnswerStore
from lm_factuality.ground.errors import BackendDownError
from tests.conftest import REPOSITORY
from tests.judges.server import Act, JudgeServer


class Echo(Backend):
    """A backend that answers in reverse order, and does ``trouble`` before the answer number
    ``at``."""

    identity = "echo"

    def __init__(self, at: int = -1, trouble: Callable[[], None] = lambda: None) -> None:
        self.at, self.trouble = at, trouble
        self.sent: list[str] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        for number, request in reversed(list(enumerate(requests))):
            if len(self.sent) == self.at:
                self.trouble()
            self.sent.append(request.prompt)
            yield number, Answer(f"{request.prompt}/{request.sample}", "stop")


def quietly(backend, store, requests, **options) -> list[str | None]:
    return [
        answer.text for answer in answer_requests(backend, store, requests, "asking", **options)
    ]


def prompts(count: int) -> list[Request]:
    return [Request(f"p{number}") for number in range(count)]


def test_order_is_kept_and_identical_requests_are_sent_once(store):
    backend, stored = Echo(), []
    requests = [
        Request("a"),
        Request("b"),
        Request("a"),
        Request("a", sample=1),
        Request("b", Decoding(max_tokens=9)),
    ]
    for _ in range(2):
        assert quietly(backend, store, requests, on_stored=stored.append) == [
            "a/0",
            "b/0",
            "a/0",
            "a/1",
            "b/0",
        ]
    assert sorted(backend.sent) == ["a", "a", "b", "b"]
    assert sum(stored) == 4  # all of the second time


def test_keys_are_what_they_were_before_log_probabilities():
    """Whoever has answers on disk is not to pay for them again."""
    rich = Decoding(0.7, 0.9, 7, ("END",), 3)
    keys = [
        request.key("openai:host/v1:chat:m")
        for request in (Request("p"), Request("p é", rich, 2, "Be brief."))
    ]
    assert keys == [
        "0057913a1c2b4efcb342361303ed3821b0965ab0d86cfe6b312ab461ea144eeb",
        "53a081f24328a4f027a477e6ac590ec46e2e0dc0c9ee7ac800fa9cda3c09a7a0",
    ]
    asking = [
        Request("p", Decoding(top_logprobs=count)).key("openai:host/v1:chat:m") for count in (5, 6)
    ]
    assert len({*keys, *asking}) == 4


def test_a_subject_is_part_of_the_key_where_the_backend_reads_it(store):
    class Reader(Echo):
        identity, reads_subject = "reader", True

        def answer(self, requests):
            for number, request in enumerate(requests):
                self.sent.append(request.prompt)
                yield number, Answer(request.subject["claim"], "stop")

    requests = [
        Request("the same", subject={"claim": claim, "passages": ("p",)})
        for claim in ("a", "b", "a")
    ]
    for backend, sent in ((Reader(), 2), (Reader(), 0)):
        assert quietly(backend, store, requests) == ["a", "b", "a"]
        assert len(backend.sent) == sent


def test_answers_with_errors_are_returned_and_asked_again(store):
    class Failing(Echo):
        def answer(self, requests):
            for number, answer in super().answer(requests):
                yield number, Answer(None, error="no") if number == 1 else answer

    failing = Failing()
    assert quietly(failing, store, prompts(3)) == ["p0/0", None, "p2/0"]
    assert quietly(failing, store, prompts(3)) == ["p0/0", "p1/0", "p2/0"]  # alone, it is number 0
    assert failing.sent == ["p2", "p1", "p0", "p1"]


def _raise(error: BaseException) -> Callable[[], None]:
    def trouble() -> None:
        raise error

    return trouble


@pytest.mark.parametrize(
    "error", [BackendDownError("gone"), KeyboardInterrupt(), RuntimeError("a bug")]
)
def test_what_came_before_an_error_is_kept(store, error):
    with pytest.raises(type(error)):
        quietly(Echo(3, _raise(error)), store, prompts(8))
    second = Echo()
    assert quietly(second, store, prompts(8)) == [f"p{number}/0" for number in range(8)]
    assert second.sent == ["p4", "p3", "p2", "p1", "p0"]


def test_an_interrupt_while_storing_loses_nothing_that_had_arrived(
    server, config, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("judges.backends.openai_http._GRACE_AFTER_INTERRUPT", 0.5)  # seconds
    server.script = lambda prompt, attempt: (
        Act(kind="hang") if prompt == "p19" else Act(text="fine")
    )

    class Interrupted(AnswerStore):
        puts = 0

        def put(self, key, answer, model=""):
            self.puts += 1
            if self.puts == 3:
                deadline = time.monotonic() + 10
                while (
                    backend.usage.prompt_tokens < 190 and time.monotonic() < deadline
                ):  # 19 of them have arrived
                    time.sleep(0.01)
                time.sleep(0.05)
                raise KeyboardInterrupt
            return super().put(key, answer, model)

    with closing(OpenAIBackend(config(concurrency=20))) as backend:
        with closing(Interrupted(tmp_path / "i.sqlite")) as store, pytest.raises(KeyboardInterrupt):
            answer_requests(backend, store, prompts(20), "asking")
        server.script = lambda prompt, attempt: Act(text="fine")
        with closing(AnswerStore(tmp_path / "i.sqlite")) as store:
            assert quietly(backend, store, prompts(20)) == ["fine"] * 20
    assert server.attempts == {f"p{number}": 2 if number == 19 else 1 for number in range(20)}


def test_an_estimate_sends_nothing_and_says_what_asking_costs(server, config):
    priced = config(prices=Prices(2.0, 8.0))
    requests = [Request("seven l", Decoding(max_tokens=100)), *prompts(3)]
    with closing(OpenAIBackend(priced)) as backend:
        estimate = backend.estimate(requests)
    assert estimate.prompt_tokens == 2 + 3 * 1  # 7 bytes and 2, 3.5 a token
    assert estimate.max_completion_tokens == 100 + 3 * 512
    assert estimate.estimated_cost == pytest.approx((5 * 2 + 1636 * 8) / 1e6)
    most = 13 + 4 * 32  # tokens of the prompts: one a byte, and 32 for each chat template
    assert estimate.max_cost == pytest.approx((most * 2 + 1636 * 8) / 1e6)
    assert not server.attempts
    assert Echo().estimate(requests).prompt_tokens == 5  # it has no estimate of its own


def _start(server: JudgeServer, store: Path, count: int, out: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.judges.run_requests",
        server.base_url,
        str(store),
        str(count),
        str(out),
    ]
    return subprocess.Popen(command, cwd=REPOSITORY)


def _wait_until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_killed_at_half_and_started_again_no_finished_call_is_repeated(server, tmp_path: Path):
    """The server stops answering at half, so that what is finished and what is under way are known
    when the kill comes."""
    path, count = tmp_path / "a.sqlite", 200
    half = {f"p{number}" for number in range(count // 2)}
    server.script = lambda prompt, attempt: (
        Act(text=f"to {prompt}") if prompt in half else Act(kind="hang")
    )
    first = _start(server, path, count, tmp_path / "first.txt")
    try:
        with closing(AnswerStore(path)) as store:
            keys = [request.key(_identity(server)) for request in prompts(count)]
            _wait_until(lambda: len(store.get_many(keys)) == count // 2)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert not (tmp_path / "first.txt").exists()
    server.script = lambda prompt, attempt: Act(text=f"to {prompt}")
    for name in ("second.txt", "third.txt"):
        assert _start(server, path, count, tmp_path / name).wait(60) == 0
        assert (tmp_path / name).read_text() == "".join(
            f"to p{number}\n" for number in range(count)
        )
    assert all(server.attempts[prompt] == 1 for prompt in half)
    under_way = [prompt for prompt, attempts in server.attempts.items() if attempts == 2]
    assert 0 < len(under_way) <= 8  # those that the kill struck in flight
    assert len(server.attempts) == count


def _identity(server: JudgeServer) -> str:
    return f"openai:127.0.0.1:{server.port}/v1:chat:small-judge"


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_one_of_two_processes_is_killed_and_the_other_takes_over(server, tmp_path: Path):
    server.script = lambda prompt, attempt: (
        Act(kind="hang") if attempt == 0 else Act(text=f"to {prompt}")
    )
    first = _start(server, tmp_path / "a.sqlite", 8, tmp_path / "one.txt")
    try:
        _wait_until(lambda: len(server.attempts) == 8)
        second = _start(server, tmp_path / "a.sqlite", 8, tmp_path / "two.txt")
        time.sleep(1.5)
        assert second.poll() is None  # waits
        assert set(server.attempts.values()) == {1}
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert second.wait(30) == 0
    assert (tmp_path / "two.txt").read_text() == "".join(f"to p{number}\n" for number in range(8))
