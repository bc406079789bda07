"""What a judge is asked, what comes back, and what it costs: tokens are counted before they are
sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass as settings

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import FORBID, Integer, Number, Text

# of a token: white space, also as tokenizers write it where a server does not decode it
BLANKS = " \t\r\n\u2581\u0120\u010a"


@settings(frozen=True, config=FORBID)
class Decoding:
    """How a model chooses its words. ``seed`` is of the first sample; later ones count up from it.
    ``top_logprobs`` asks for that many alternatives of the first token, with their
    log-probabilities."""

    temperature: Annotated[Number, Field(ge=0, le=10)] = 0.0
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    max_tokens: Annotated[Integer, Field(ge=1)] = 512
    stop: Annotated[
        tuple[Text, ...],
        BeforeValidator(lambda given: (given,) if isinstance(given, str) else given or ()),
    ] = ()
    seed: Annotated[Integer, Field(ge=0)] | None = None
    top_logprobs: Annotated[Integer, Field(ge=0)] = 0

    def to_dict(self) -> dict[str, Any]:
        """The fields as they are hashed and shown: ``top_logprobs`` only where it asks for some, so
        that what has none keeps the key that it had before there was such a field."""
        return {
            name: value for name, value in asdict(self).items() if value or name != "top_logprobs"
        }


@dataclass(frozen=True)
class Request:
    """One prompt. ``subject`` holds what was rendered into it, for backends that read no prose;
    ``sample`` tells apart several answers to the same prompt; ``schema`` is the JSON schema that
    the answer is held to, if it is to any."""

    prompt: str
    decoding: Decoding = field(default_factory=Decoding)
    sample: int = 0
    system: str = ""
    subject: Mapping[str, Any] = field(default_factory=dict, compare=False)
    schema: str = ""

    def key(self, identity: str, with_subject: bool = False) -> str:
        """The name of its answer in a store: a hash of everything that can change it, ``identity``
        being the model's. The subject is part of it ``with_subject``, for a backend that reads it:
        another may be rendered into the same prompt."""
        parts: list[Any] = [
            identity,
            self.system,
            self.prompt,
            self.decoding.to_dict(),
            self.sample,
        ]
        parts += [dict(self.subject)] if with_subject else []
        parts += [self.schema] if self.schema else []
        return hashlib.sha256(
            json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()
        ).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What came back: a text, or the ``error`` why there is none. ``finish_reason`` is ``stop``,
    ``length`` (cut off), ``content_filter`` or what the server says; token counts are those that it
    reports. ``first_token_logprobs`` are the alternatives of the first token that is not white
    space and their natural log-probabilities, most likely first; None if they were not asked for or
    the backend gives none."""

    __pydantic_config__ = FORBID  # where a store reads one

    text: str | None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    first_token_logprobs: tuple[tuple[str, float], ...] | None = None

    @property
    def is_cut_off(self) -> bool:
        return self.finish_reason == "length"


class Backend(Protocol):
    """A way to reach a model. One whose answers depend on the subjects of requests too has
    ``reads_subject = True``."""

    @property
    def identity(self) -> str:
        """Everything that can change an answer besides the request: the kind, the model, its
        revision; never a key."""

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """(number of the request, its answer), each once, in the order in which they come. A
        request that gets none, after the retries that the backend makes, has an answer with
        ``error``. Raises BackendDown: nothing gets through, so that going on would only turn the
        rest into errors."""


@settings(frozen=True, config=FORBID)
class Prices:
    """USD for a million tokens."""

    prompt: Annotated[Number, Field(ge=0)]
    completion: Annotated[Number, Field(ge=0)]

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """USD for so many tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


BYTES_A_TOKEN = 3.5  # of UTF-8, for a plan that has no tokenizer
_WRAPPING = 16  # tokens that a chat template puts around a message, at most


@dataclass(frozen=True)
class Usage:
    """``calls`` sent, tries that failed included; ``stored`` answers that were on disk already;
    ``errors`` requests that got no answer; tokens as the server counts them, those of thrown-away
    answers included; ``cost`` in USD, None without prices."""

    calls: int = 0
    stored: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    def plus(self, **more: Any) -> Usage:
        return replace(
            self, **{name: (getattr(self, name) or 0) + each for name, each in more.items()}
        )

    def __str__(self) -> str:
        tokens = f"{self.prompt_tokens + self.completion_tokens:,} tokens"
        return tokens if self.cost is None else f"{tokens}, ${self.cost:.4f}"


@dataclass(frozen=True)
class Estimate:
    """What ``calls`` requests take if each succeeds at once: about so many prompt tokens, at most
    so many generated ones. Both costs, in USD (None without prices), are with all tokens that may
    be generated: ``estimated_cost`` with ``prompt_tokens``, ``max_cost`` with the most that the
    prompts can have, which is what a judge's ``max_cost`` sets aside. ``counted_by`` says how the
    prompt's tokens were counted."""

    calls: int
    prompt_tokens: int
    max_completion_tokens: int
    estimated_cost: float | None
    max_cost: float | None
    counted_by: str

    def __add__(self, other: Estimate) -> Estimate:
        costs = zip(
            (self.estimated_cost, self.max_cost),
            (other.estimated_cost, other.max_cost),
            strict=True,
        )
        about, most = (None if one is None or two is None else one + two for one, two in costs)
        tokens = (
            self.prompt_tokens + other.prompt_tokens,
            self.max_completion_tokens + other.max_completion_tokens,
        )
        return Estimate(self.calls + other.calls, *tokens, about, most, self.counted_by)

    def __mul__(self, times: int) -> Estimate:
        about, most = (cost and cost * times for cost in (self.estimated_cost, self.max_cost))
        tokens = self.prompt_tokens * times, self.max_completion_tokens * times
        return Estimate(self.calls * times, *tokens, about, most, self.counted_by)


class TokenCounter:
    """Counts by a tokenizer of transformers (a name or a folder), or estimates by length in UTF-8
    where none is named."""

    def __init__(self, tokenizer: str | None) -> None:
        """Raises ConfigError if the tokenizer cannot be loaded."""
        self._tokenizer: Any = None
        if tokenizer:
            from transformers import AutoTokenizer

            try:
                self._tokenizer = AutoTokenizer.from_pretrained(tokenizer)
            except (OSError, ValueError) as error:
                advice = "leave it out for an estimate by length"
                raise ConfigError(
                    f"tokenizer {tokenizer}: cannot be loaded: {error}; {advice}"
                ) from error
        self.method = (
            f"tokenizer {tokenizer}" if tokenizer else f"1 token per {BYTES_A_TOKEN} bytes"
        )

    def expected(self, request: Request) -> int:
        texts = (request.system, request.prompt)
        if self._tokenizer is not None:
            return sum(
                len(self._tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts
            )
        return sum(ceil(len(text.encode()) / BYTES_A_TOKEN) for text in texts)

    def at_most(self, request: Request) -> int:
        """No fewer tokens than the server will count: a byte has at most one, and a chat template
        adds a few."""
        if self._tokenizer is not None:
            return self.expected(request) + 2 * _WRAPPING
        return len(request.system.encode()) + len(request.prompt.encode()) + 2 * _WRAPPING

    def estimate(
        self, requests: Sequence[Request], cost: Callable[[float, float], float] | None = None
    ) -> Estimate:
        """Tokens of asking each of ``requests`` once, every answer being as long as it may be, and
        their ``cost`` in USD."""
        expected, most = sum(map(self.expected, requests)), sum(map(self.at_most, requests))
        completion = sum(request.decoding.max_tokens for request in requests)
        about, at_most = (
            (cost(expected, completion), cost(most, completion)) if cost else (None, None)
        )
        return Estimate(len(requests), expected, completion, about, at_most, self.method)


def estimate_of(backend: Backend) -> Callable[[Sequence[Request]], Estimate]:
    """How ``backend`` estimates requests; by length where it has no way of its own."""
    estimate: Callable[[Sequence[Request]], Estimate] = getattr(
        backend, "estimate", TokenCounter(None).estimate
    )
    return estimate
