"""Requests to a judge's model, its answers, and the tokens and money that they take.

`judges.judge` makes the requests, the backends answer them, and `judges.budget` counts their cost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic.dataclasses
from pydantic import BeforeValidator, Field

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import FORBID, Integer, Number, Text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# White space in a token, including the signs that tokenizers write for a space or a line break.
# Some servers send them undecoded.
BLANKS = " \t\r\n\u2581\u0120\u010a"

# UTF-8 bytes in an average token, for estimates without a tokenizer.
BYTES_PER_TOKEN = 3.5

# The most tokens that a chat template puts around a system message and a prompt.
_MAX_TEMPLATE_TOKENS = 32


def _strings_to_tuple(stop: object) -> object:
    """Return a single stop string as a tuple, and nothing (None or "") as an empty tuple.

    Example:
        ``"END"`` → ``("END",)``
    """
    # A YAML may have one text in place of a list.
    if isinstance(stop, str):
        return (stop,)
    return stop or ()


@pydantic.dataclasses.dataclass(frozen=True, config=FORBID)
class Decoding:
    """The settings by which a model generates an answer."""

    temperature: Annotated[Number, Field(ge=0, le=10)] = 0.0
    """The sampling temperature. 0 takes the most probable token each time."""

    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """The share of the probability mass from which tokens are sampled."""

    max_tokens: Annotated[Integer, Field(ge=1)] = 512
    """The most tokens that an answer may have."""

    stop: Annotated[tuple[Text, ...], BeforeValidator(_strings_to_tuple)] = ()
    """Texts at which an answer ends."""

    seed: Annotated[Integer, Field(ge=0)] | Literal["none"] | None = None
    """The seed of the first sample. The second sample has the next number, and so on.

    None stands for 0 if the temperature is above 0, and for no seed otherwise. ``none`` is no seed.
    """

    top_logprobs: Annotated[Integer, Field(ge=0)] = 0
    """The number of alternatives to the first token to ask for, with their log-probabilities."""

    def seed_of(self, sample: int) -> int | None:
        """Return the seed of a sample, so that the samples of one prompt differ.

        Args:
            sample: The number of the sample, from 0.

        Returns:
            The seed, or None if no seed is sent.
        """
        if self.seed == "none" or (self.seed is None and self.temperature == 0):
            return None
        return (self.seed or 0) + sample

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, as they are hashed into store keys and shown in results."""
        fields = asdict(self)
        # The keys of many stored answers were made before there was this field.
        if not self.top_logprobs:
            del fields["top_logprobs"]
        return fields


@dataclass(frozen=True)
class Request:
    """One prompt that is sent to a model."""

    prompt: str
    """The text of the prompt."""

    decoding: Decoding = field(default_factory=Decoding)
    """How the answer is generated."""

    sample: int = 0
    """The number of the sample, from 0, if several answers to one prompt are wanted."""

    system: str = ""
    """The system message. Empty if there is none."""

    subject: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The variables of the prompt's template, for backends that do not read the prompt itself."""

    schema: str = ""
    """The JSON schema that the answer has to follow. Empty if there is none."""

    def key(self, identity: str, with_subject: bool = False) -> str:
        """Return the key of the answer in a store: a hash of everything that can change it.

        Args:
            identity: The identity of the backend's model.
            with_subject: Whether the backend reads the subject. Two subjects may have the same
                prompt, so the subject is then hashed too.

        Returns:
            A SHA-256 in hexadecimal digits.
        """
        # The order of the parts must never change, or all stored answers would be lost.
        parts: list[Any] = [
            identity,
            self.system,
            self.prompt,
            self.decoding.to_dict(),
            self.sample,
        ]
        if with_subject:
            parts.append(dict(self.subject))
        # Requests without a schema keep the keys that they had before there were schemas.
        if self.schema:
            parts.append(self.schema)
        # With escapes, the keys of prompts that are not ASCII would no longer match stored ones.
        content = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Answer:
    """The answer of a model to a request: a text, or the error because of which there is none."""

    # Stored answers are read with pydantic. An unknown field shows that a file is damaged.
    __pydantic_config__ = FORBID

    text: str | None
    """The text. None if there is an error."""

    finish_reason: str | None = None
    """Why the text ends: ``stop``, ``length`` (cut off), ``content_filter``, or a server's word."""

    prompt_tokens: int | None = None
    """The tokens of the prompt, as the server counted them. None if it did not."""

    completion_tokens: int | None = None
    """The tokens of the text, as the server counted them. None if it did not."""

    error: str | None = None
    """Why there is no text. None if there is one."""

    first_token_logprobs: tuple[tuple[str, float], ...] | None = None
    """The alternatives to the first token that is not white space, most probable first.

    Each has its natural log-probability. None if the server gave none.
    """

    reasoning: str | None = None
    """The thoughts that the server returned apart from the text. They are never read."""

    left_out: tuple[str, ...] | None = None
    """The options of the request that the server refused, so that it was asked without them."""

    @property
    def is_cut_off(self) -> bool:
        """Whether the text reached ``max_tokens`` before its end."""
        return self.finish_reason == "length"

    def to_json(self) -> str:
        """Return the answer as JSON, such as ``{"text": "True", "finish_reason": "stop"}``."""
        # Fields that are None are left out, so that a later field does not change old records.
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps({"text": self.text, **fields}, ensure_ascii=False)


@pydantic.dataclasses.dataclass(frozen=True, config=FORBID)
class Prices:
    """The prices of a server, in USD for a million tokens."""

    prompt: Annotated[Number, Field(ge=0)]
    """The price of a million tokens in prompts."""

    completion: Annotated[Number, Field(ge=0)]
    """The price of a million tokens in answers."""

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Return the cost of a number of tokens in USD."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


def parse_prices(text: str) -> Prices:
    """Parse the value of ``--prices``.

    Example:
        ``0.15,0.60`` are 0.15 USD for a million tokens of prompts, and 0.60 for those of answers.

    Raises:
        ConfigError: The text is not two numbers.
    """
    try:
        prompt, completion = (float(number) for number in text.split(","))
        return Prices(prompt=prompt, completion=completion)
    except ValueError as error:
        raise ConfigError(
            f"--prices {text}: expected the USD for a million tokens of prompts and of answers,"
            " such as 0.15,0.60"
        ) from error


@dataclass(frozen=True)
class Usage:
    """The calls, tokens and money that a judge has used."""

    calls: int = 0
    """The calls that were sent, including those that failed and were repeated."""

    stored: int = 0
    """The answers that were in the store already."""

    errors: int = 0
    """The requests that got no answer."""

    prompt_tokens: int = 0
    """The tokens of prompts as the server counted them, also of answers that were rejected."""

    completion_tokens: int = 0
    """The tokens of answers as the server counted them, also of those that were rejected."""

    cost: float | None = None
    """The cost in USD. None if the judge has no prices."""

    shared_prompt_tokens: int = 0
    """An estimate of the tokens of prompts that stand in a beginning shared by all of a step.

    Servers with a prefix cache process them once.
    """

    refused_options: tuple[str, ...] = ()
    """The options, such as ``seed``, without which some answers were given, as the server refused
    them."""

    def plus(self, **increments: float) -> Usage:
        """Return a copy with amounts added to some fields.

        Example:
            ``usage.plus(calls=1, cost=0.02)`` has one call and 2 cents more.
        """
        # Only the cost can be None. It then counts as 0.
        sums: dict[str, Any] = {
            name: (getattr(self, name) or 0) + increment for name, increment in increments.items()
        }
        return replace(self, **sums)

    def __str__(self) -> str:
        """Return the tokens and the cost for a progress line: ``1,200 tokens, $0.0300``."""
        tokens = f"{self.prompt_tokens + self.completion_tokens:,} tokens"
        if self.shared_prompt_tokens:
            tokens += f" ({self.shared_prompt_tokens:,} of them in shared beginnings of prompts)"
        return tokens if self.cost is None else f"{tokens}, ${self.cost:.4f}"


@dataclass(frozen=True)
class CostEstimate:
    """The calls, tokens and money that requests will take if each succeeds at once."""

    calls: int
    """The number of calls."""

    prompt_tokens: int
    """The expected tokens of the prompts."""

    max_completion_tokens: int
    """The tokens of the answers if each is as long as it may be."""

    estimated_cost: float | None
    """The cost in USD of ``prompt_tokens`` and ``completion_tokens``. None without prices."""

    max_cost: float | None
    """The cost in USD with the most tokens that the prompts can have. None without prices.

    A judge sets this amount aside before it sends a request.
    """

    counted_by: str
    """How the tokens of the prompts were counted, such as ``tokenizer gpt2``."""

    completion_tokens: int = 0
    """The tokens that the answers typically have."""


class TokenCounter:
    """Counts the tokens of requests before they are sent.

    Attributes:
        counting_method: How it counts, for a user: ``tokenizer gpt2`` or
            ``1 token per 3.5 bytes``.
    """

    def __init__(self, tokenizer_name: str | None) -> None:
        """Load a tokenizer of transformers.

        Args:
            tokenizer_name: The tokenizer's name on the Hub, or its folder. None or an empty name
                estimates the number of tokens from the length of the text.

        Raises:
            ConfigError: The tokenizer cannot be loaded.
        """
        self._tokenizer: PreTrainedTokenizerBase | None = None
        self.counting_method = f"1 token per {BYTES_PER_TOKEN} bytes"
        if not tokenizer_name:
            return

        # Importing transformers takes seconds, so it waits until a tokenizer is needed.
        from transformers import AutoTokenizer

        self.counting_method = f"tokenizer {tokenizer_name}"
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(tokenizer_name)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self.counting_method}: cannot be loaded: {error}; leave it out for an"
                " estimate by length"
            ) from error

    def expected_tokens(self, request: Request) -> int:
        """Return the tokens that the system message and the prompt probably have."""
        return self.count(request.system) + self.count(request.prompt)

    def max_tokens(self, request: Request) -> int:
        """Return the most tokens that a server may count for all that a request sends.

        That includes the schema of the reply, and what the server's chat template adds.
        """
        if self._tokenizer is not None:
            sent_tokens = self.expected_tokens(request) + self.count(request.schema)
        else:
            # No tokenizer makes more than one token of a byte.
            sent_tokens = len((request.system + request.prompt + request.schema).encode())
        return sent_tokens + _MAX_TEMPLATE_TOKENS

    def estimate(self, requests: Sequence[Request], prices: Prices | None = None) -> CostEstimate:
        """Estimate the tokens and the cost of asking each request once.

        Args:
            requests: The requests.
            prices: The prices of the server. None leaves the costs of the estimate None.

        Returns:
            The estimate, with the cost that is expected and the highest that the server may charge.
        """
        # The offline judge, whose answers are measured, uses the classes of this module.
        from judges.estimates import typical_answer_tokens

        prompt_tokens = sum(self.expected_tokens(request) for request in requests)
        completion_tokens = typical_answer_tokens(requests)
        # A model stops at `max_tokens`, so no answer is longer.
        max_completion_tokens = sum(request.decoding.max_tokens for request in requests)

        estimated_cost = None
        max_cost = None
        if prices is not None:
            max_prompt_tokens = sum(self.max_tokens(request) for request in requests)
            estimated_cost = prices.cost(prompt_tokens, completion_tokens)
            max_cost = prices.cost(max_prompt_tokens, max_completion_tokens)
        return CostEstimate(
            calls=len(requests),
            prompt_tokens=prompt_tokens,
            max_completion_tokens=max_completion_tokens,
            estimated_cost=estimated_cost,
            max_cost=max_cost,
            counted_by=self.counting_method,
            completion_tokens=completion_tokens,
        )

    def count(self, text: str) -> int:
        """Return the tokens of a text: by the tokenizer, or by its length in UTF-8 without one."""
        if self._tokenizer is None:
            return ceil(len(text.encode()) / BYTES_PER_TOKEN)
        # Tokens such as <s> are counted with the chat template.
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
