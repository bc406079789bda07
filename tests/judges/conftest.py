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
    running = JudgeServer()
    yield running
    running.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    with closing(AnswerStore(tmp_path / "answers.sqlite")) as opened:
        yield opened


@pytest.fixture
def config(server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., JudgeConfig]:
    """A config that points at ``server``; no key in the environment."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def make(**changes: Any) -> JudgeConfig:
        return JudgeConfig(
            **{
                "name": "test",
                "backend": "openai",
                "model": "small-judge",
                "base_url": server.base_url,
                **changes,
            }
        )

    return make


@pytest.fixture
def ask_server(
    config: Callable[..., JudgeConfig], store: AnswerStore
) -> Callable[..., list[Answer]]:
    """Asks ``server`` with a config of these changes; leaves the backend of the last call in
    ``ask_server.backend``."""

    def run(requests: list[Request], **changes: Any) -> list[Answer]:
        with closing(OpenAIBackend(config(**changes))) as backend:
            run.backend = backend  # type: ignore[attr-defined]
            return answer_requests(backend, store, requests, "asking")

    return run
