"""Send numbered prompts to a server and write the answers, in a process that a test can kill.

Usage: ``python -m tests.judges.run_requests URL STORE COUNT OUT``.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from judges.answers import Request
from judges.backends.openai_http import OpenAIBackend
from judges.config import JudgeConfig
from judges.judge import answer_requests
from judges.store import AnswerStore


def main(url: str, store_path: str, count: str, answers_path: str) -> None:
    """Send the prompts "p0", "p1" and so on, and write one answer per line.

    Args:
        url: The address of the server.
        store_path: The file of the store of answers.
        count: How many prompts to send.
        answers_path: The file that is written when all prompts are answered.
    """
    requests = [Request(f"p{number}") for number in range(int(count))]
    config = JudgeConfig("test", "openai", model="small-judge", base_url=url, concurrency=8)
    with closing(AnswerStore(store_path)) as store, closing(OpenAIBackend(config)) as backend:
        answers = answer_requests(backend, store, requests, "asking")
    lines = [f"{answer.text}\n" for answer in answers]
    Path(answers_path).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
