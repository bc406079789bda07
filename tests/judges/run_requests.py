"""Asks a server COUNT prompts and writes the answers: ``python -m tests.judges.run_requests URL
STORE COUNT OUT``."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from judges.answers import Request
from judges.backends.openai_http import OpenAIBackend
from judges.config import JudgeConfig
from judges.judge import answer_requests
from judges.store import AnswerStore

if __name__ == "__main__":
    url, path, count, out = sys.argv[1:]
    requests = [Request(f"p{number}") for number in range(int(count))]
    config = JudgeConfig("test", "openai", model="small-judge", base_url=url, concurrency=8)
    with closing(AnswerStore(path)) as store, closing(OpenAIBackend(config)) as backend:
        answers = answer_requests(backend, store, requests, "asking")
    Path(out).write_text("".join(f"{answer.text}\n" for answer in answers), encoding="utf-8")
