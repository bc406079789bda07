"""What a run checks before it loads a model or data, with the command as a user types it."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness import preflight
from lm_factuality.harness.progress import describe_progress
from tests.conftest import REPOSITORY, TASKS

COMMAND = "import sys; from lm_factuality.cli import main; sys.exit(main())"
CHAT = "/v1/chat/completions"
KEY = "right-key-of-test"
Status = Callable[[], int]


class ChatServer(http.server.ThreadingHTTPServer):
    """An OpenAI-compatible chat server that counts requests and keeps their bodies."""

    def __init__(self, status: Status = lambda: 200, key: str = "") -> None:
        """Start on a free port.

        Args:
            status: Returns the HTTP status of the next reply.
            key: The key that requests need; empty if they need none.
        """
        self.status = status
        self.key = key
        self.bodies: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ChatServer

    def do_GET(self) -> None:
        models = [{"id": "m"}]
        self.reply(200, {"data": models}) if self.path == "/v1/models" else self.reply(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        if self.path != CHAT:
            self.reply(404, {"detail": "Not Found"})
        elif self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            self.reply(401, {"error": {"message": "Incorrect API key provided"}})
        elif body["model"] != "m":
            self.reply(404, {"error": {"message": "no such model"}})
        elif (status := self.server.status()) != 200:
            self.reply(status, {"error": {"message": "try later"}})
        else:
            message = {"role": "assistant", "content": "Answer: ALL_CORRECT"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.reply(200, {"choices": [choice]})

    def reply(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing about requests."""


@contextlib.contextmanager
def serving(**options: Any) -> Iterator[ChatServer]:
    """Run a chat server until the context ends."""
    with ChatServer(**options) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def run_command(*words: str, key: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``lm-factuality run`` in a process of its own, without a network."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": key}
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "run", *words],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def chat_words(
    url: str, model: str = "m", task: str = "sample_felm", num_concurrent: int = 1
) -> list[str]:
    """Return the words of a run on a chat server."""
    arguments = f"model={model},num_concurrent={num_concurrent}"
    if url:
        arguments += f",base_url={url}"
    words = ["--model", "local-chat-completions", "--apply_chat_template", "--limit", "3"]
    return [*words, "--tasks", task, "--model_args", arguments]


def completion_words(url: str) -> list[str]:
    """Return the words of a run on a chat server without the option for its template."""
    words = chat_words(url)
    words.remove("--apply_chat_template")
    return words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(chat_words(""), "at which address? Add base_url=", id="no address"),
        pytest.param(chat_words(f"host{CHAT}"), "not a web address", id="no web address"),
        pytest.param(
            chat_words("http://127.0.0.1:9/v1"),
            "write base_url=http://127.0.0.1:9/v1/chat/completions",
            id="address without its path",
        ),
        pytest.param(
            chat_words(f"http://127.0.0.1:9{CHAT}"), "no server answers here", id="no server"
        ),
        pytest.param(
            completion_words("http://h/v1/x"),
            "add --apply_chat_template",
            id="no chat template",
        ),
        pytest.param(
            chat_words("http://h/v1/x", task="sample_factor"),
            "needs log-likelihoods of texts, which chat servers do not give",
            id="task for another kind of model",
        ),
        pytest.param(
            ["--model", "vllm", "--model_args", "pretrained=x", "--tasks", "sample_factor"],
            "the package vllm is not installed; choose another --model, or run pip install"
            " 'lm-factuality[vllm]', which installs vllm",
            id="vllm not installed",
            marks=pytest.mark.skipif(
                preflight.find_spec("vllm") is not None, reason="vllm is installed"
            ),
        ),
        pytest.param(
            ["--model", "hf", "--model_args", "pretrained=gpt2", "--tasks", "sample_factor"],
            "pretrained=gpt2 cannot be loaded",
            id="model not on disk and no network",
        ),
        pytest.param(
            ["--model", "openai-chat-completions", *chat_words("")[2:]],
            "needs a key, but the environment variable OPENAI_API_KEY is not set",
            id="no key for OpenAI",
        ),
    ],
)
def test_impossible_run_ends_with_a_one_line_error(words, message):
    """A traceback would hide what the user has to do."""
    completed = run_command(*words)

    assert completed.returncode == 1
    assert message in completed.stderr
    assert completed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "no key was sent: set OPENAI_API_KEY"),
        ("wrong-key-of-test", "OPENAI_API_KEY is not accepted"),
    ],
)
def test_variable_of_a_rejected_key_is_named_in_one_line(key, message):
    """The name of the variable is printed, and never the key."""
    with serving(key=KEY) as server:
        completed = run_command(*chat_words(server.url + CHAT), key=key)

    assert message in completed.stderr
    assert completed.stderr.count("\n") == 1
    assert "wrong-key-of-test" not in completed.stderr


@pytest.mark.parametrize("name", ["UNSET_KEY_OF_TEST", "not-a-name-1234567890abcdef"])
def test_unset_key_variable_is_refused_before_any_request(name):
    """Some users paste the key in place of the name of its variable, so it is not printed."""
    with serving() as server:
        arguments = {"base_url": server.url + CHAT, "model": "m", "api_key_env": name}
        with pytest.raises(ConfigError, match="environment variable") as refusal:
            preflight.check_server("local-chat-completions", arguments, needs_scores=False)

    assert server.bodies == []
    assert "1234567890abcdef" not in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "model", "message"),
    [
        ("/v2/chat/completions", "m", "should mostly end in /v1/chat/completions"),
        (CHAT, "mm", "the server has m, not model=mm"),
    ],
)
def test_wrong_path_and_wrong_model_give_different_errors(path, model, message):
    """Servers answer both with status 404."""
    with serving() as server:
        arguments = {"base_url": server.url + path, "model": model}
        with pytest.raises(preflight.ModelError, match=message):
            preflight.check_server("local-chat-completions", arguments, needs_scores=False)


def test_error_quotes_a_failing_server():
    """Only the server knows what is wrong with it."""
    with serving(status=lambda: 500) as server:
        arguments = {"base_url": server.url + CHAT, "model": "m"}
        with pytest.raises(preflight.ModelError, match="HTTP 500: try later; see the server's log"):
            preflight.check_server("local-chat-completions", arguments, needs_scores=False)


def test_server_check_costs_one_token_and_under_three_seconds(monkeypatch):
    """The check asks a question before each run, so it must be cheap."""
    monkeypatch.setenv("MY_TEST_KEY", KEY)
    with serving(key=KEY) as server:
        arguments = {"base_url": server.url + CHAT, "model": "m", "api_key_env": "MY_TEST_KEY"}
        start = time.monotonic()

        preflight.check_server("local-chat-completions", arguments, needs_scores=False)

        seconds = time.monotonic() - start

    (body,) = server.bodies
    assert body["max_tokens"] == 1
    assert seconds < 3


@pytest.mark.parametrize("variable", [None, "none"])
def test_excluded_key_is_not_sent(variable, monkeypatch):
    """A server of one's own must not get the key for OpenAI."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(key=KEY) as server:
        arguments = {"base_url": server.url + CHAT, "model": "m", "api_key_env": variable}
        # The server refuses the request, as it has no key.
        with pytest.raises(preflight.ModelError, match="HTTP 401"):
            preflight.check_server("local-chat-completions", arguments, needs_scores=False)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_run_waits_ten_seconds_for_a_busy_server(concurrency):
    """Providers answer with status 429 if requests come too fast."""
    request_times: list[float] = []

    def status() -> int:
        request_times.append(time.monotonic())
        # The first request is that of the check before the run, the second the first question.
        is_busy = len(request_times) < 3 or request_times[-1] - request_times[1] < 10
        return 429 if is_busy else 200

    with serving(status=status) as server:
        completed = run_command(*chat_words(server.url + CHAT, num_concurrent=concurrency))

    assert completed.returncode == 0, completed.stderr
    assert "Traceback" not in completed.stderr
    assert completed.stderr.count("HTTP 429 Too Many Requests; trying again") == 1


@pytest.mark.parametrize("concurrency", [1, 8])
def test_server_failure_during_a_run_prints_no_traceback(concurrency):
    """The first request is that of the check before the run, and all later ones fail."""

    def status() -> int:
        is_check_before_run = len(server.bodies) == 1
        return 200 if is_check_before_run else 500

    with serving(status=status) as server:
        completed = run_command(*chat_words(server.url + CHAT, num_concurrent=concurrency))

    assert completed.returncode == 1
    assert "no answer, after several tries: HTTP 500 Internal Server Error" in completed.stderr
    assert "Traceback" not in completed.stderr


def test_ctrl_c_prints_the_command_to_continue(tmp_path):
    """The printed command lacks ``--fresh``, which would delete the answers that are kept."""
    interrupted = threading.Event()

    def status() -> int:
        if len(server.bodies) > 8:
            interrupted.wait(60)
        return 200

    environment = {**os.environ, "LM_FACTUALITY_HOME": str(tmp_path), "OPENAI_API_KEY": ""}
    with serving(status=status) as server:
        words = [*chat_words(server.url + CHAT, num_concurrent=4), "--limit", "20", "--fresh"]
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "run", *words],
            cwd=REPOSITORY,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Four requests are under way at once.
        while len(server.bodies) < 8 + 4 and process.poll() is None:
            time.sleep(0.1)

        process.send_signal(signal.SIGINT)

        _, log = process.communicate(timeout=60)
        interrupted.set()

    printed_command = log.rpartition("To continue:")[2]
    assert process.returncode == 130
    assert f"answers are kept in {tmp_path / 'model_answers.sqlite'}. To continue:" in log
    assert "--fresh" not in printed_command
    assert "CancelledError" not in log
    assert "Traceback" not in log


def test_too_little_disk_space_for_results_is_refused(tmp_path, monkeypatch):
    """A run would otherwise end when it writes, after hours."""
    monkeypatch.setattr(preflight, "_LEAST_FREE_BYTES", 10**18)

    with pytest.raises(DataError, match="free some space, or choose another folder"):
        preflight.check_disk_space(tmp_path)


WRITE_TO_A_FULL_DISK = """
import sys
from lm_factuality.ground.errors import run_with_exit_code

def write():
    with open("/dev/full", "w") as file:
        file.write("x" * 99999)

sys.exit(run_with_exit_code("lm-factuality", write))
"""


def test_command_on_a_full_disk_ends_with_a_one_line_error():
    """Writing to ``/dev/full`` fails as on a full disk."""
    completed = subprocess.run(
        [sys.executable, "-c", WRITE_TO_A_FULL_DISK], capture_output=True, text=True, check=False
    )

    assert completed.returncode == 1
    assert "the disk is full; free some space" in completed.stderr
    assert completed.stderr.count("\n") == 1


class EstimatedRun(NamedTuple):
    """The estimate of a dry run, and what the same run without ``--dry-run`` sends."""

    num_requests: int
    """The estimated number of requests."""

    num_prompt_tokens: int
    """The estimated number of tokens in all prompts."""

    num_sent_by_dry_run: int
    """The number of requests of the dry run."""

    sent_prompts: list[str]
    """The prompts that are sent, without that of the check before the run."""


@pytest.fixture(scope="module")
def estimated_run() -> EstimatedRun:
    """Estimate a run of two tasks with three rows each, and do it."""
    with serving() as server:
        words = chat_words(server.url + CHAT, task="sample_felm,sample_factor_chat")
        planned = run_command(*words, "--dry-run", "--prices", "1,2")
        num_sent_by_dry_run = len(server.bodies)
        run_command(*words)
        _check_before_the_run, *sent = server.bodies

    (total,) = [line for line in planned.stdout.splitlines() if "all tasks" in line]
    _all, _tasks, _num_rows, num_requests, num_prompt_tokens, *_ = total.replace(",", "").split()
    prompts = ["".join(message["content"] for message in body["messages"]) for body in sent]
    return EstimatedRun(int(num_requests), int(num_prompt_tokens), num_sent_by_dry_run, prompts)


def test_a_dry_run_sends_nothing(estimated_run):
    """A user decides by the dry run whether they can pay for the real one."""
    assert estimated_run.num_sent_by_dry_run == 0


def test_dry_run_states_how_many_requests_are_sent(estimated_run):
    """A server without log-probabilities may be asked the first 4 questions of a task twice."""
    num_repeated_at_most = 2 * 4
    num_sent = len(estimated_run.sent_prompts)

    assert num_sent - num_repeated_at_most <= estimated_run.num_requests <= num_sent


def test_dry_run_estimate_is_close_to_the_sent_tokens(estimated_run):
    """The tokenizer of a server is unknown, so the estimate takes 3.5 bytes for a token."""
    num_bytes = sum(len(prompt.encode()) for prompt in estimated_run.sent_prompts)

    assert estimated_run.num_prompt_tokens == pytest.approx(num_bytes / 3.5, rel=0.25)


@pytest.fixture
def run_constant_model(tmp_path):
    """Return a function that runs a model with a constant answer, and returns its two responses.

    A file of settings names a cache, which all runs of a test share.
    """

    def run_model(answer: str) -> list[str]:
        settings = {
            "model": "constant-answer",
            "model_args": {"answer": answer},
            "tasks": ["sample_felm"],
            "limit": 2,
            "batch_size": 1,
            "use_cache": str(tmp_path / "cache"),
            "output_path": str(tmp_path / f"results_{answer}"),
        }
        (tmp_path / "run.yaml").write_text(json.dumps(settings))
        run_command("--config", str(tmp_path / "run.yaml"), "--log_samples")
        (samples_path,) = (tmp_path / f"results_{answer}").rglob("samples_*.jsonl")
        samples = [json.loads(line) for line in samples_path.read_text().splitlines()]
        return [sample["resps"][0][0] for sample in samples]

    return run_model


def test_cache_from_a_config_file_is_separate_for_each_model(run_constant_model):
    """Otherwise the second model would get the cached answers of the first."""
    responses_of_first_model = run_constant_model(answer="ALL_CORRECT")
    responses_of_second_model = run_constant_model(answer="1")

    assert responses_of_first_model == ["ALL_CORRECT", "ALL_CORRECT"]
    assert responses_of_second_model == ["1", "1"]


def test_a_dry_run_loads_no_model():
    """Counting requests needs only the tokenizer and the data."""
    checkpoint = TASKS / "sample" / "models" / "smaller"
    words = [
        "--model",
        "hf",
        "--model_args",
        f"pretrained={checkpoint}",
        "--tasks",
        "sample_factor",
    ]

    completed = run_command(*words, "--limit", "2", "--dry-run")

    assert "sample_factor" in completed.stdout
    assert "Loading weights" not in completed.stderr


@pytest.mark.parametrize(
    ("num_answered", "line"),
    [
        (0, "none of 90 requests answered in 60 s"),
        (30, "30 of 90 requests answered in 60 s, 30.0 a minute, about 2 min left"),
        (90, "90 of 90 requests answered in 60 s, 90.0 a minute, about 0 s left"),
    ],
)
def test_progress_states_a_rate_and_the_remaining_time(num_answered, line):
    """A rate of 0 has no remaining time."""
    assert describe_progress(num_answered, 90, 60.0) == line
