"""What a judge may spend in USD, and how much it may send in a minute.

A judge behind a server (`judges.backends.openai_http`) draws on one `Budget` from all its threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from judges.answers import Answer, CostEstimate, Request, TokenCounter, Usage
from judges.config import JudgeConfig
from lm_factuality.ground.errors import BackendDownError

_LOOK_AGAIN = 0.05  # seconds until a thread asks again whether there is money for its call


class SpendingLimit:
    """Money that is never overspent. The judges of a run share one, from any thread."""

    def __init__(self, limit: float | None) -> None:
        """Open a spending_limit that holds ``limit`` USD. None means that there is no limit."""
        self.limit = limit
        self.spent = 0.0
        self._reserved = 0.0
        self._calls_under_way = 0
        self._lock = threading.Lock()

    def reserve(self, worst: float) -> bool:
        """Set aside what a call costs at worst, in USD.

        Returns:
            Whether there was room. If not, calls under way will mostly cost less than was set
            aside for them, so it is worth asking again.

        Raises:
            BackendDownError: There is no room, and no call is under way that could make any.
        """
        with self._lock:
            if self.limit is not None and self.spent + self._reserved + worst > self.limit:
                if self._calls_under_way:
                    return False
                raise BackendDownError(
                    f"max_cost of ${self.limit:g} leaves no room for another call: "
                    f"${self.spent:.6f} is spent, and the next may cost ${worst:.6f}; what was"
                    " answered is kept: run the same command again to go on with a fresh budget"
                )
            self._reserved += worst
            self._calls_under_way += 1
            return True

    def settle(self, worst: float, cost: float) -> None:
        """Record that a call, for which ``worst`` was set aside, has cost ``cost`` USD."""
        with self._lock:
            self.spent += cost
            self._calls_under_way -= 1
            # No call under way means nothing reserved: sums of floats would leave a remainder.
            self._reserved = self._reserved - worst if self._calls_under_way else 0.0


class RateLimiter:
    """Spaces out requests, or tokens, so that no minute sees more than ``per_minute`` of them.

    This is a token bucket that holds nothing: whoever comes is given the next free moment, in the
    order of coming.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_for_one = 60.0 / per_minute if per_minute else 0.0
        self._next_free = 0.0
        self._lock = threading.Lock()

    def reserve(self, amount: float = 1.0) -> float:
        """Take the next free moment for so many requests or tokens. Returns the seconds to it."""
        with self._lock:
            now = time.monotonic()
            moment = max(now, self._next_free)
            self._next_free = moment + amount * self._seconds_for_one
            return moment - now

    def release(self, amount: float) -> None:
        """Free the time of what was booked and not used."""
        with self._lock:
            self._next_free -= amount * self._seconds_for_one


@dataclass
class Bill:
    """What is known about the use of one call, which counts at its worst case without it."""

    answer: Answer | None = None
    """The tokens as the server has counted them, if it has."""

    is_free: bool = False


class Budget:
    """The limits of one judge, and what it has used of them."""

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Open the budget of a judge.

        Args:
            config: The judge, with its prices and limits.
            spending_limit: The limit that several judges share. By default the judge has
                ``max_cost`` to itself.

        Raises:
            ConfigError: The tokenizer cannot be loaded.
        """
        self._spending_limit = spending_limit or SpendingLimit(config.max_cost)
        self.usage = Usage(cost=0.0 if config.prices else None)
        self._prices = config.prices
        self._counter = TokenCounter(config.tokenizer)
        self._requests = RateLimiter(config.requests_per_minute)
        self._tokens = RateLimiter(config.tokens_per_minute)
        self._lock = threading.Lock()

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Estimate tokens and cost of asking each request once, with the longest answers."""
        return self._counter.estimate(requests, self._prices.cost if self._prices else None)

    def add_usage(self, **more: float) -> None:
        """Add to the fields of ``usage``."""
        with self._lock:
            self.usage = self.usage.plus(**more)

    @contextmanager
    def metered_call(self, request: Request, pause: Callable[[float], None]) -> Iterator[Bill]:
        """Wait until a request may be sent, and charge for it when the block is over.

        Args:
            request: What is to be sent.
            pause: Sleeps so many seconds. It raises an exception if the call is to be given up.

        Yields:
            The bill, in which the caller notes what it knows.

        Raises:
            BackendDownError: The call could cost more than is left.
        """
        longest = request.decoding.max_tokens
        expected = self._counter.expected_tokens(request) + longest
        prices = self._prices
        worst = prices.cost(self._counter.max_tokens(request), longest) if prices else 0.0
        pause(self._requests.reserve())
        pause(self._tokens.reserve(expected))
        while not self._spending_limit.reserve(worst):
            pause(_LOOK_AGAIN)
        self.add_usage(calls=1)
        bill = Bill()
        try:
            yield bill
        finally:
            used: float = 0 if bill.is_free else expected
            cost = 0.0 if bill.is_free else worst
            if bill.answer is not None and bill.answer.prompt_tokens is not None:
                prompt_tokens = bill.answer.prompt_tokens
                completion_tokens = bill.answer.completion_tokens or 0
                self.add_usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
                used = prompt_tokens + completion_tokens
                cost = prices.cost(prompt_tokens, completion_tokens) if prices else 0.0
            self._spending_limit.settle(worst, cost)
            self._tokens.release(expected - used)
            if prices:
                self.add_usage(cost=cost)
