"""Typical lengths of judges' answers and the time that servers take, for estimates.

The plans of judges and of runs are made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from judges import LEXICAL
from judges.answers import BYTES_PER_TOKEN, Request
from judges.backends.lexical import LexicalBackend
from judges.config import load_judge_config

SECONDS_PER_REQUEST = 0.5
"""The assumed time of a server until its answer begins."""

TOKENS_PER_SECOND = 50.0
"""The assumed speed at which a server writes one answer."""

ASSUMED_SPEED = f"{SECONDS_PER_REQUEST} s per request and {TOKENS_PER_SECOND:g} tokens/s per answer"


def seconds_of_server(num_requests: int, answer_tokens: int, concurrency: int) -> float:
    """Return how long a server of the assumed speed takes.

    Args:
        num_requests: The number of requests.
        answer_tokens: The tokens of all answers.
        concurrency: How many requests are under way at once.
    """
    seconds = num_requests * SECONDS_PER_REQUEST + answer_tokens / TOKENS_PER_SECOND
    return seconds / max(1, concurrency)


def typical_answer_tokens(requests: Sequence[Request]) -> int:
    """Return how many tokens the answers of a model to some requests typically have.

    The offline judge gives its answers in the same form, with one sentence as the reason, and they
    are measured. An answer that it cannot give counts with the most tokens that it may have.
    """
    backend = LexicalBackend(load_judge_config(LEXICAL))
    num_tokens = 0
    for request, arrival in zip(requests, backend.answer(requests), strict=True):
        longest = request.decoding.max_tokens
        text = arrival.answer.text
        length = longest if text is None else ceil(len(text.encode()) / BYTES_PER_TOKEN)
        num_tokens += min(length, longest)
    return num_tokens
