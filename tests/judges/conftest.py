"""A server that plays a judge, and a judge that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from judges.answers import Answer, Request
from judges.backends.openai_http import OpenAIBackend
from judges.config import JudgeConfig
from judges.judge import answer_requests
from judges.store import AnswerStore
from tests.judges.server import JudgeServer


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """Run a server whose ``script`` a test can replace."""
    with closing(JudgeServer()) as judge_server:
        yield judge_server


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    """Open an empty store of answers."""
    with closing(AnswerStore(tmp_path / "answers.sqlite")) as answer_store:
        yield answer_store


@pytest.fixture
def config(server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., JudgeConfig]:
    """Return a function that makes the config of a judge behind ``server``.

    Keyword arguments change settings, as in ``config(max_retries=0)``. The environment holds no
    key of the user.
    """
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def make_config(**changes: Any) -> JudgeConfig:
        settings = {
            "name": "test",
            "backend": "openai",
            "model": "small-judge",
            "base_url": server.base_url,
        }
        return JudgeConfig(**{**settings, **changes})

    return make_config


@pytest.fixture
def ask_server(
    config: Callable[..., JudgeConfig], store: AnswerStore
) -> Callable[..., list[Answer]]:
    """Return a function that sends requests to ``server`` and returns the answers in order.

    Keyword arguments change settings of the judge. Afterwards ``ask_server.backend`` is the
    backend of the last call, which has counted tokens and cost.
    """

    def send_requests(requests: list[Request], **changes: Any) -> list[Answer]:
        with closing(OpenAIBackend(config(**changes))) as backend:
            send_requests.backend = backend  # type: ignore[attr-defined]
            return answer_requests(backend, store, requests, "asking")

    return send_requests
