"""What a judge is asked, what comes back, and what it costs.

Tokens are counted before they are sent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass as settings

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import FORBID, Integer, Number, Text

# White space in a token, also as tokenizers write it where a server does not decode it.
BLANKS = " \t\r\n\u2581\u0120\u010a"


def _as_tuple(stop: Any) -> Any:
    return (stop,) if isinstance(stop, str) else stop or ()


@settings(frozen=True, config=FORBID)
class Decoding:
    """How a model chooses its words."""

    temperature: Annotated[Number, Field(ge=0, le=10)] = 0.0
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    max_tokens: Annotated[Integer, Field(ge=1)] = 512
    stop: Annotated[tuple[Text, ...], BeforeValidator(_as_tuple)] = ()

    seed: Annotated[Integer, Field(ge=0)] | None = None
    """Of the first sample. Later ones count up from it."""

    top_logprobs: Annotated[Integer, Field(ge=0)] = 0
    """Alternatives of the first token to ask for, with their log-probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as they are hashed and shown.

        ``top_logprobs`` is there only where it asks for some, so that what has none keeps the key
        that it had before there was such a field.
        """
        fields = asdict(self)
        if not self.top_logprobs:
            del fields["top_logprobs"]
        return fields


@dataclass(frozen=True)
class Request:
    """One prompt."""

    prompt: str
    decoding: Decoding = field(default_factory=Decoding)

    sample: int = 0
    """Tells apart several answers to the same prompt."""

    system: str = ""

    subject: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What was rendered into the prompt, for backends that read no prose."""

    schema: str = ""
    """The JSON schema that the answer is held to, if it is to any."""

    def key(self, identity: str, with_subject: bool = False) -> str:
        """The name of its answer in a store: a hash of everything that can change it.

        Args:
            identity: The model's.
            with_subject: Whether the backend reads the subject. Another one may be rendered into
                the same prompt.
        """
        parts: list[Any] = [
            identity,
            self.system,
            self.prompt,
            self.decoding.to_dict(),
            self.sample,
        ]
        if with_subject:
            parts.append(dict(self.subject))
        if self.schema:
            parts.append(self.schema)
        content = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What came back: a text, or the ``error`` why there is none."""

    __pydantic_config__ = FORBID  # where a store reads one

    text: str | None

    finish_reason: str | None = None
    """``stop``, ``length`` (cut off), ``content_filter``, or what the server says."""

    prompt_tokens: int | None = None
    """As the server reports them, like ``completion_tokens``."""

    completion_tokens: int | None = None
    error: str | None = None

    first_token_logprobs: tuple[tuple[str, float], ...] | None = None
    """Alternatives of the first token that is not white space, most likely first.

    Each has its natural log-probability. None if they were not asked for or there are none.
    """

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer was longer than ``max_tokens``."""
        return self.finish_reason == "length"


@settings(frozen=True, config=FORBID)
class Prices:
    """USD for a million tokens."""

    prompt: Annotated[Number, Field(ge=0)]
    completion: Annotated[Number, Field(ge=0)]

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """USD for so many tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True)
class Usage:
    """What asking took."""

    calls: int = 0
    """Sent, tries that failed included."""

    stored: int = 0
    """Answers that were on disk already."""

    errors: int = 0
    """Requests that got no answer."""

    prompt_tokens: int = 0
    """As the server counts them, those of answers that were thrown away included."""

    completion_tokens: int = 0

    cost: float | None = None
    """USD. None without prices."""

    def plus(self, **more: Any) -> Usage:
        """With so much more of each."""
        sums = {name: (getattr(self, name) or 0) + number for name, number in more.items()}
        return replace(self, **sums)

    def __str__(self) -> str:
        tokens = f"{self.prompt_tokens + self.completion_tokens:,} tokens"
        return tokens if self.cost is None else f"{tokens}, ${self.cost:.4f}"


@dataclass(frozen=True)
class CostEstimate:
    """What requests take if each succeeds at once."""

    calls: int

    prompt_tokens: int
    """About so many."""

    max_completion_tokens: int

    estimated_cost: float | None
    """USD with ``prompt_tokens`` and all tokens that may be generated. None without prices."""

    max_cost: float | None
    """USD with the most that the prompts can have, which a judge's ``max_cost`` sets aside."""

    counted_by: str
    """How the prompt's tokens were counted."""

    def __add__(self, other: CostEstimate) -> CostEstimate:
        return CostEstimate(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.max_completion_tokens + other.max_completion_tokens,
            _sum(self.estimated_cost, other.estimated_cost),
            _sum(self.max_cost, other.max_cost),
            self.counted_by,
        )

    def __mul__(self, times: int) -> CostEstimate:
        return CostEstimate(
            self.calls * times,
            self.prompt_tokens * times,
            self.max_completion_tokens * times,
            self.estimated_cost and self.estimated_cost * times,
            self.max_cost and self.max_cost * times,
            self.counted_by,
        )


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


BYTES_IN_TOKEN = 3.5  # of UTF-8, where there is no tokenizer
_WRAPPING = 32  # tokens that a chat template puts around two messages, at most


class TokenCounter:
    """Counts by a tokenizer of transformers, or by length in UTF-8 where none is named."""

    def __init__(self, tokenizer: str | None) -> None:
        """Load the tokenizer of this name or in this folder.

        Raises:
            ConfigError: The tokenizer cannot be loaded.
        """
        self._tokenizer: Any = None
        self.method = f"1 token per {BYTES_IN_TOKEN} bytes"
        if not tokenizer:
            return
        from transformers import AutoTokenizer

        self.method = f"tokenizer {tokenizer}"
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(tokenizer)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self.method}: cannot be loaded: {error}; leave it out for an estimate by length"
            ) from error

    def expected_tokens(self, request: Request) -> int:
        """The tokens of a request's prompt, about."""
        return sum(map(self._count, (request.system, request.prompt)))

    def max_tokens(self, request: Request) -> int:
        """No fewer tokens than the server will count.

        A byte has at most one, and a chat template adds a few.
        """
        if self._tokenizer is not None:
            return self.expected_tokens(request) + _WRAPPING
        return len((request.system + request.prompt).encode()) + _WRAPPING

    def estimate(
        self, requests: Sequence[Request], cost: Callable[[float, float], float] | None = None
    ) -> CostEstimate:
        """Estimate asking each request once, every answer being as long as it may be.

        Args:
            requests: What is to be asked.
            cost: Of prompt and completion tokens, in USD. None without prices.
        """
        expected = sum(map(self.expected_tokens, requests))
        completion = sum(request.decoding.max_tokens for request in requests)
        estimated_cost = max_cost = None
        if cost:
            estimated_cost = cost(expected, completion)
            max_cost = cost(sum(map(self.max_tokens, requests)), completion)
        return CostEstimate(
            len(requests), expected, completion, estimated_cost, max_cost, self.method
        )

    def _count(self, text: str) -> int:
        if self._tokenizer is None:
            return ceil(len(text.encode()) / BYTES_IN_TOKEN)
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
