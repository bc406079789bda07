"""Asking: once each, in order, and nothing lost whatever happens."""

from __future__ import annotations

import os
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
from judges.config import JudgeConfig
from judges.judge import answer_requests
from judges.store import AnswerStore
from lm_factuality.ground.errors import BackendDownError
from tests.conftest import REPOSITORY
from tests.judges.server import Act, answer_to_prompt


class Echo(Backend):
    """A backend that begins with the last request, and answers "a" with "a, sample 0".

    Before each answer it calls ``before_answer`` with the number of answers given so far.
    """

    identity = "echo"

    def __init__(self, before_answer: Callable[[int], None] = lambda count: None) -> None:
        self.before_answer = before_answer
        self.sent: list[str] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        for number, request in reversed(list(enumerate(requests))):
            self.before_answer(len(self.sent))
            self.sent.append(request.prompt)
            yield number, Answer(f"{request.prompt}, sample {request.sample}", "stop")


def answer_texts(backend, store, requests, **options) -> list[str | None]:
    """The texts of the answers to ``requests``, in their order; None where there is an error."""
    answers = answer_requests(backend, store, requests, "asking", **options)
    return [answer.text for answer in answers]


def prompts(count: int) -> list[Request]:
    """Requests with the prompts "p0", "p1" and so on."""
    return [Request(f"p{number}") for number in range(count)]


def test_identical_requests_are_sent_once_and_answered_in_order(store):
    """Nobody pays for the same answer twice."""
    requests = [Request("a"), Request("b"), Request("a"), Request("a"), Request("c")]
    backend = Echo()

    texts = answer_texts(backend, store, requests)

    assert texts == ["a, sample 0", "b, sample 0", "a, sample 0", "a, sample 0", "c, sample 0"]
    assert sorted(backend.sent) == ["a", "b", "c"]


def test_requests_differing_in_sample_or_decoding_are_all_sent(store):
    requests = [
        Request("a"),
        Request("a", sample=1),
        Request("a", Decoding(max_tokens=9)),
    ]
    backend = Echo()

    texts = answer_texts(backend, store, requests)

    assert texts == ["a, sample 0", "a, sample 1", "a, sample 0"]
    assert backend.sent == ["a", "a", "a"]


def test_stored_answers_are_not_asked_for_again(store):
    """A user who repeats a run must not pay for it again."""
    requests = [Request("a"), Request("b"), Request("a"), Request("a", sample=1)]
    answer_texts(Echo(), store, requests)
    later_backend = Echo()
    stored_counts = []

    texts = answer_texts(later_backend, store, requests, on_stored=stored_counts.append)

    assert texts == ["a, sample 0", "b, sample 0", "a, sample 0", "a, sample 1"]
    assert later_backend.sent == []
    assert sum(stored_counts) == 3  # the second request for "a" is the same as the first


def test_first_run_reports_that_no_answer_was_stored(store):
    """Commands print how many answers came from the store and cost nothing."""
    reported_counts = []

    answer_texts(Echo(), store, [Request("a"), Request("b")], on_stored=reported_counts.append)

    assert sum(reported_counts) == 0


def test_the_key_of_a_request_never_changes():
    """With other keys, the answers in the stores of users would not be found again."""
    all_settings = Decoding(temperature=0.7, top_p=0.9, max_tokens=7, stop=("END",), seed=3)
    request_with_defaults = Request("p")
    request_with_all_settings = Request("p é", all_settings, sample=2, system="Be brief.")

    key_of_defaults = request_with_defaults.key("openai:host/v1:chat:m")
    key_of_all_settings = request_with_all_settings.key("openai:host/v1:chat:m")

    # The first version of the suite computed these keys.
    assert key_of_defaults == "0057913a1c2b4efcb342361303ed3821b0965ab0d86cfe6b312ab461ea144eeb"
    assert key_of_all_settings == "53a081f24328a4f027a477e6ac590ec46e2e0dc0c9ee7ac800fa9cda3c09a7a0"


def test_the_number_of_log_probabilities_is_part_of_the_key():
    """An answer with five log-probabilities cannot stand for one with six."""
    key_of_none = Request("p").key("judge")
    key_of_five = Request("p", Decoding(top_logprobs=5)).key("judge")
    key_of_six = Request("p", Decoding(top_logprobs=6)).key("judge")

    assert key_of_none != key_of_five
    assert key_of_none != key_of_six
    assert key_of_five != key_of_six


class SubjectReader(Echo):
    """A backend that reads the claim of a request's subject, not the prompt."""

    identity = "reader"
    reads_subject = True

    def answer(self, requests):
        for number, request in enumerate(requests):
            self.sent.append(request.prompt)
            yield number, Answer(request.subject["claim"], "stop")


def test_subject_is_part_of_the_key_if_the_backend_reads_it(store):
    """A local classifier reads the claim and not the prompt."""
    requests = [
        Request("the same prompt", subject={"claim": "a", "passages": ("p",)}),
        Request("the same prompt", subject={"claim": "b", "passages": ("p",)}),
        Request("the same prompt", subject={"claim": "a", "passages": ("p",)}),
    ]
    backend = SubjectReader()
    later_backend = SubjectReader()

    texts = answer_texts(backend, store, requests)
    later_texts = answer_texts(later_backend, store, requests)

    assert texts == ["a", "b", "a"]
    assert later_texts == ["a", "b", "a"]
    assert len(backend.sent) == 2  # the claims a and b
    assert later_backend.sent == []


class FailingOnce(Echo):
    """A backend with an error for the second of several requests, and none for a single one."""

    def answer(self, requests):
        for number, answer in super().answer(requests):
            yield number, Answer(None, error="no") if number == 1 else answer


def test_answers_with_errors_are_returned_and_asked_again(store):
    """The next run asks again, when the server may work."""
    requests = [Request("p0"), Request("p1"), Request("p2")]
    backend = FailingOnce()

    first_texts = answer_texts(backend, store, requests)
    second_texts = answer_texts(backend, store, requests)

    assert first_texts == ["p0, sample 0", None, "p2, sample 0"]
    assert second_texts == ["p0, sample 0", "p1, sample 0", "p2, sample 0"]
    # The backend begins with the last request. The second run sends only "p1".
    assert backend.sent == ["p2", "p1", "p0", "p1"]


@pytest.mark.parametrize(
    "error", [BackendDownError("gone"), KeyboardInterrupt(), RuntimeError("a bug")], ids=repr
)
def test_answers_before_an_error_are_kept(store, error):
    """Whatever ends a run, the answers that it paid for stay."""

    def fail_after_two(count: int) -> None:
        if count == 2:
            raise error

    requests = [Request("p0"), Request("p1"), Request("p2"), Request("p3")]
    first_backend = Echo(before_answer=fail_after_two)
    with pytest.raises(type(error)):
        answer_texts(first_backend, store, requests)
    later_backend = Echo()

    texts = answer_texts(later_backend, store, requests)

    assert texts == ["p0, sample 0", "p1, sample 0", "p2, sample 0", "p3, sample 0"]
    # The backend begins with the last request.
    assert first_backend.sent == ["p3", "p2"]
    assert later_backend.sent == ["p1", "p0"]


class InterruptedStore(AnswerStore):
    """A store where the user presses Ctrl-C at the third answer, as soon as ``has_arrived``."""

    put_count = 0
    has_arrived: Callable[[], bool]

    def put(self, key, answer, model=""):
        self.put_count += 1
        if self.put_count == 3:
            wait_until(self.has_arrived, seconds=10)
            time.sleep(0.05)
            raise KeyboardInterrupt
        return super().put(key, answer, model)


def interrupt_run(config: JudgeConfig, store_path: Path, *, num_prompts: int, num_received: int):
    """Send prompts, and press Ctrl-C when so many answers are received and only two are stored."""
    with (
        closing(OpenAIBackend(config)) as backend,
        closing(InterruptedStore(store_path)) as interrupted_store,
    ):
        # The server counts 10 tokens for each prompt that it answers.
        interrupted_store.has_arrived = lambda: backend.usage.prompt_tokens >= 10 * num_received
        with pytest.raises(KeyboardInterrupt):
            answer_requests(backend, interrupted_store, prompts(num_prompts), "asking")


def hang_on_p19(prompt: str, attempt: int) -> Act:
    """Play a server that answers all prompts but "p19"."""
    if prompt == "p19":
        return Act(kind="hang")
    return answer_to_prompt(prompt, attempt)


def test_interrupt_while_storing_loses_no_received_answer(
    server, config, tmp_path: Path, monkeypatch
):
    """Answers that reached this process are paid for, so Ctrl-C stores them first."""
    seconds_to_wait_for_p19 = 0.5
    monkeypatch.setattr(
        "judges.backends.openai_http._GRACE_AFTER_INTERRUPT", seconds_to_wait_for_p19
    )
    judge_config = config(concurrency=20)
    store_path = tmp_path / "answers.sqlite"
    server.script = hang_on_p19
    interrupt_run(judge_config, store_path, num_prompts=20, num_received=19)
    server.script = answer_to_prompt

    with closing(OpenAIBackend(judge_config)) as backend, closing(AnswerStore(store_path)) as store:
        texts = answer_texts(backend, store, prompts(20))

    assert texts == [f"answer to p{number}" for number in range(20)]
    sent_again = [prompt for prompt, attempts in server.attempts.items() if attempts > 1]
    assert sent_again == ["p19"]


def test_estimate_counts_tokens_and_sends_nothing(server, config):
    requests = [Request("seven l", Decoding(max_tokens=100)), Request("p0")]

    with closing(OpenAIBackend(config())) as backend:
        estimate = backend.estimate(requests)

    # A token of a prompt has 3.5 bytes as a rule. The prompts have 7 and 2 bytes.
    assert estimate.prompt_tokens == 2 + 1
    assert estimate.max_completion_tokens == 100 + 512  # 512 is the default
    assert not server.attempts


def test_estimate_states_the_expected_and_the_highest_cost(config):
    """With ``--dry-run``, users see the price of a run before they agree to it."""
    prices = Prices(prompt=2.0, completion=8.0)  # USD for a million tokens
    requests = [Request("seven l", Decoding(max_tokens=100)), Request("p0")]

    with closing(OpenAIBackend(config(prices=prices))) as backend:
        estimate = backend.estimate(requests)

    # The two prompts have 3 tokens as a rule, and the answers at most 612.
    assert estimate.estimated_cost == pytest.approx((3 * 2.0 + 612 * 8.0) / 1e6)
    # At most, each of the 9 bytes is a token, and the chat template adds 32 tokens to each prompt.
    assert estimate.max_cost == pytest.approx(((9 + 2 * 32) * 2.0 + 612 * 8.0) / 1e6)


def test_a_backend_without_an_estimate_counts_bytes():
    """A token has 3.5 bytes as a rule."""
    requests = [Request("seven l"), Request("p0")]

    estimate = Echo().estimate(requests)

    assert estimate.prompt_tokens == 2 + 1  # of 7 and of 2 bytes


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until ``condition()`` holds, and fail if it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


StartRun = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start_run(server, tmp_path: Path) -> Iterator[StartRun]:
    """Return a function that starts a process which sends prompts to the server, 8 at a time.

    The processes of a test share the store ``answers.sqlite``. Each writes its answers to the file
    ``out``, one on a line.
    """
    processes = []

    def start(num_prompts: int, out: str) -> subprocess.Popen[bytes]:
        arguments = [server.base_url, tmp_path / "answers.sqlite", str(num_prompts), tmp_path / out]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.judges.run_requests", *arguments], cwd=REPOSITORY
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def finish_run(process: subprocess.Popen[bytes], out: Path) -> list[str]:
    """Wait until a process has finished, and return the answers that it wrote."""
    assert process.wait(60) == 0
    return out.read_text().splitlines()


def hang_from_p100(prompt: str, attempt: int) -> Act:
    """Play a server that answers "p0" to "p99" and never replies to later prompts."""
    if int(prompt.removeprefix("p")) >= 100:
        return Act(kind="hang")
    return answer_to_prompt(prompt, attempt)


@pytest.fixture
def killed_run(server, start_run, tmp_path: Path) -> None:
    """Kill a process with 200 prompts when "p0" to "p99" are answered and 8 calls are under way."""
    server.script = hang_from_p100
    identity = f"openai:127.0.0.1:{server.port}/v1:chat:small-judge"
    keys = [request.key(identity) for request in prompts(200)]
    process = start_run(num_prompts=200, out="killed.txt")
    with closing(AnswerStore(tmp_path / "answers.sqlite")) as store:
        wait_until(lambda: len(store.get_many(keys)) == 100)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed.txt").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_killed_run_resumes_without_repeating_finished_calls(
    killed_run, server, start_run, tmp_path: Path
):
    """The killed run had 200 prompts, of which "p0" to "p99" were answered."""
    server.script = answer_to_prompt

    resumed_run = start_run(num_prompts=200, out="resumed.txt")
    answers = finish_run(resumed_run, tmp_path / "resumed.txt")

    assert answers == [f"answer to p{number}" for number in range(200)]
    assert [server.attempts[f"p{number}"] for number in range(100)] == [1] * 100
    # Besides the 200 prompts, only the calls under way at the kill are sent again: 8 at most.
    assert 200 < len(server.bodies) <= 208


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_finished_run_sends_nothing_again(server, start_run, tmp_path: Path):
    """Two processes have the same prompts, one after the other."""
    first_run = start_run(num_prompts=200, out="first.txt")
    first_answers = finish_run(first_run, tmp_path / "first.txt")

    second_run = start_run(num_prompts=200, out="second.txt")
    second_answers = finish_run(second_run, tmp_path / "second.txt")

    assert second_answers == first_answers
    assert len(server.bodies) == 200


def hang_on_first_attempt(prompt: str, attempt: int) -> Act:
    """Play a server that replies to a prompt only if it is sent again."""
    if attempt == 0:
        return Act(kind="hang")
    return answer_to_prompt(prompt, attempt)


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_process_takes_over_requests_of_a_killed_process(server, start_run, tmp_path: Path):
    """A claim on a request must end with its process, or the second process would wait forever."""
    server.script = hang_on_first_attempt
    first_process = start_run(num_prompts=3, out="first.txt")
    wait_until(lambda: len(server.bodies) == 3)
    second_process = start_run(num_prompts=3, out="second.txt")

    # The second process waits for the first, which has claimed the three requests.
    time.sleep(1.5)
    assert second_process.poll() is None
    assert len(server.bodies) == 3

    first_process.kill()
    first_process.wait()
    answers = finish_run(second_process, tmp_path / "second.txt")
    assert answers == ["answer to p0", "answer to p1", "answer to p2"]
