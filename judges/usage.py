"""What judging has cost so far, and what it may cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from judges.answers import Request

BYTES_A_TOKEN = 3.5  # of UTF-8, for a plan that has no tokenizer


@dataclass(frozen=True)
class Usage:
    """``calls`` sent, tries that failed included; ``stored`` answers that were on disk already; ``errors`` requests that got no
    answer; tokens as the server counts them, those of thrown-away answers included; ``cost`` in USD, None without prices."""

    calls: int = 0
    stored: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    def __str__(self) -> str:
        tokens = f"{self.prompt_tokens + self.completion_tokens:,} tokens"
        return tokens if self.cost is None else f"{tokens}, ${self.cost:.4f}"


@dataclass(frozen=True)
class Estimate:
    """What ``calls`` requests take if each succeeds at once: about so many prompt tokens, at most so many generated ones.

    Both costs, in USD (None without prices), are with all tokens that may be generated: ``estimated_cost`` with
    ``prompt_tokens``, ``max_cost`` with the most that the prompts can have, which is what a judge's ``max_cost`` sets aside.
    ``counted_by`` says how the prompt's tokens were counted.
    """

    calls: int
    prompt_tokens: int
    max_completion_tokens: int
    estimated_cost: float | None = None
    max_cost: float | None = None
    counted_by: str = f"1 token per {BYTES_A_TOKEN} bytes"


class Counts(Protocol):
    """A backend that keeps count of what it sends, and can say beforehand."""

    @property
    def usage(self) -> Usage:
        """Since it was opened."""

    def estimate(self, requests: Sequence[Request]) -> Estimate:
        """Of asking each of ``requests`` once."""


def rough_tokens(text: str) -> int:
    """The tokens of ``text``, estimated from its length in UTF-8 and rounded up."""
    return ceil(len(text.encode()) / BYTES_A_TOKEN)


def rough_estimate(requests: Sequence[Request]) -> Estimate:
    """The estimate for a backend that counts nothing."""
    return Estimate(
        calls=len(requests),
        prompt_tokens=sum(rough_tokens(request.system) + rough_tokens(request.prompt) for request in requests),
        max_completion_tokens=sum(request.decoding.max_tokens for request in requests),
    )
