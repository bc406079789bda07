"""Ctrl-C while ``check`` works: the same command continues, and asks nothing twice."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.check.test_bad_input import supported_reply
from tests.conftest import REPOSITORY
from tests.judges.server import Act, JudgeServer
from tests.retrieval.test_search import Answer, SearchRequest, searxng_hits

NUM_CLAIMS = 24
CONCURRENCY = 2
START = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"
# A busy machine may start a process slowly, and another test interrupts commands as well.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="needs signals"),
]


@pytest.fixture
def judge_server() -> Iterator[JudgeServer]:
    """Run a server that takes a while to say of a claim that it is supported."""

    def reply(prompt: str, attempt: int) -> Act:
        """Say that the claims of a prompt are supported."""
        return Act(text=supported_reply(prompt), delay=0.3)

    with closing(JudgeServer(reply)) as server:
        yield server


@pytest.fixture
def answers(tmp_path) -> Path:
    """Write answers of one claim, and a document about each, so that each claim is a request."""
    documents = tmp_path / "documents"
    documents.mkdir()
    rows = []
    for number in range(NUM_CLAIMS):
        claim = f"Mill{number} was built in {1400 + number}."
        (documents / f"{number}.txt").write_text(claim, encoding="utf-8")
        rows.append(json.dumps({"answer": claim}))
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def start(arguments: Sequence[str], home: Path) -> subprocess.Popen[str]:
    """Start ``lm-factuality`` as a process of its own."""
    environment = {**os.environ, "LM_FACTUALITY_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=REPOSITORY,
    )


def interrupt_and_continue(
    arguments: Sequence[str], home: Path, count_requests: Callable[[], int]
) -> None:
    """Start a command, press Ctrl-C after six requests, and run it again to its end."""
    process = start(arguments, home)
    deadline = time.monotonic() + 120
    while count_requests() < 6 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    last_line = errors.rstrip().splitlines()[-1]
    assert "interrupted" in last_line
    assert shlex.join(arguments) in last_line
    assert count_requests() < NUM_CLAIMS
    again = start(arguments, home)
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors


def test_judging_continues_after_ctrl_c_without_asking_again(answers, judge_server, tmp_path):
    """Only the two requests that are under way at Ctrl-C may be sent twice."""
    judge = {"backend": "openai", "model": "small-judge", "base_url": judge_server.base_url}
    judge_path = tmp_path / "gpt.yaml"
    judge_path.write_text(yaml.safe_dump({**judge, "concurrency": CONCURRENCY}), encoding="utf-8")
    out = tmp_path / "out"
    command = ["check", str(answers), "--knowledge", str(tmp_path / "documents")]
    command += ["--judge", str(judge_path), "--out", str(out)]

    interrupt_and_continue(command, tmp_path / "home", lambda: len(judge_server.bodies))

    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert len(judge_server.attempts) == NUM_CLAIMS
    assert NUM_CLAIMS <= len(judge_server.bodies) <= NUM_CLAIMS + CONCURRENCY
    assert summary["claims"]["supported"] == NUM_CLAIMS


def test_searching_continues_after_ctrl_c_without_searching_again(answers, service, tmp_path):
    """Only the two searches that are under way at Ctrl-C may be sent twice."""

    def reply(_request: SearchRequest) -> Answer:
        """Answer after a while."""
        time.sleep(0.3)
        return Answer(searxng_hits())

    service.script = reply
    settings = {"service": "searxng", "url": service.url(), "concurrency": CONCURRENCY}
    search_path = tmp_path / "search.yaml"
    search_path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = ["check", str(answers), "--search", str(search_path)]

    interrupt_and_continue(command, tmp_path / "home", lambda: len(service.requests))

    queries = {request.query for request in service.requests}
    assert len(queries) == NUM_CLAIMS
    assert NUM_CLAIMS <= len(service.requests) <= NUM_CLAIMS + CONCURRENCY
