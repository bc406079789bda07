"""What a judge may spend in USD, and how much it may send in a minute.

A judge behind a server (`judges.backends.openai_http`) draws on one `Budget` from all its threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from judges.answers import Answer, Estimate, Request, TokenCounter, Usage
from judges.config import JudgeConfig
from lm_factuality.ground.errors import BackendDown

_LOOK_AGAIN = 0.05  # seconds until a thread asks again whether there is money for its call


class BudgetSpent(Exception):
    """There is no money left for another call, which may cost ``needed`` USD."""

    def __init__(self, needed: float) -> None:
        super().__init__(f"the next call may cost ${needed:.6f}")
        self.needed = needed


class Purse:
    """Money that is never overspent. The judges of a run share one, from any thread."""

    def __init__(self, limit: float | None) -> None:
        """Open a purse that holds ``limit`` USD. None means that there is no limit."""
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
            BudgetSpent: There is no room, and no call is under way that could make any.
        """
        with self._lock:
            if self.limit is not None and self.spent + self._reserved + worst > self.limit:
                if not self._calls_under_way:
                    raise BudgetSpent(worst)
                return False
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


class Pace:
    """Spaces out requests, or tokens, so that no minute sees more than ``per_minute`` of them.

    This is a token bucket that holds nothing: whoever comes is given the next free moment, in the
    order of coming.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_for_one = 60.0 / per_minute if per_minute else 0.0
        self._next_free = 0.0
        self._lock = threading.Lock()

    def book(self, amount: float = 1.0) -> float:
        """Take the next free moment for so many requests or tokens. Returns the seconds to it."""
        with self._lock:
            now = time.monotonic()
            moment = max(now, self._next_free)
            self._next_free = moment + amount * self._seconds_for_one
            return moment - now

    def give_back(self, amount: float) -> None:
        """Free the time of what was booked and not used."""
        with self._lock:
            self._next_free -= amount * self._seconds_for_one


@dataclass
class Bill:
    """What one call has used. It is the worst case until something better is known."""

    cost: float
    """USD."""

    tokens: float
    """Of the prompt and of the answer."""

    prompt_tokens: int | None = None
    """As the server has counted them. None if it has not."""

    completion_tokens: int | None = None

    def waive(self) -> None:
        """Note that the call cost nothing."""
        self.cost = 0.0
        self.tokens = 0.0

    def read(self, answer: Answer) -> None:
        """Note the tokens that the server has counted."""
        self.prompt_tokens = answer.prompt_tokens
        self.completion_tokens = answer.completion_tokens


class Budget:
    """The limits of one judge, and what it has used of them."""

    def __init__(self, config: JudgeConfig, purse: Purse | None = None) -> None:
        """Open the budget of a judge.

        Args:
            config: The judge, with its prices and limits.
            purse: Money shared with other judges. By default the judge has ``max_cost`` to itself.

        Raises:
            ConfigError: The tokenizer cannot be loaded.
        """
        self._config = config
        self._purse = purse or Purse(config.max_cost)
        self.usage = Usage(cost=0.0 if config.prices else None)
        self._prices = config.prices
        self._counter = TokenCounter(config.tokenizer)
        self._requests = Pace(config.requests_per_minute)
        self._tokens = Pace(config.tokens_per_minute)
        self._lock = threading.Lock()

    def estimate(self, requests: Sequence[Request]) -> Estimate:
        """Estimate tokens and cost of asking each request once, with the longest answers."""
        return self._counter.estimate(requests, self._prices.cost if self._prices else None)

    def count(self, **more: float) -> None:
        """Add to the fields of ``usage``."""
        with self._lock:
            self.usage = self.usage.plus(**more)

    @contextmanager
    def call(self, request: Request, pause: Callable[[float], None]) -> Iterator[Bill]:
        """Wait until a request may be sent, and charge for it when the block is over.

        Args:
            request: What is to be sent.
            pause: Sleeps so many seconds. It raises an exception if the call is to be given up.

        Yields:
            The bill, which the caller corrects when it knows better.

        Raises:
            BackendDown: The call could cost more than is left.
        """
        longest = request.decoding.max_tokens
        expected = self._counter.expected(request) + longest
        prices = self._prices
        worst = prices.cost(self._counter.at_most(request), longest) if prices else 0.0
        pause(self._requests.book())
        pause(self._tokens.book(expected))
        try:
            while not self._purse.reserve(worst):
                pause(_LOOK_AGAIN)
        except BudgetSpent as error:
            raise BackendDown(self._no_money(error.needed)) from None
        self.count(calls=1)
        bill = Bill(worst, expected)
        try:
            yield bill
        finally:
            if bill.prompt_tokens is not None:
                completion_tokens = bill.completion_tokens or 0
                self.count(
                    prompt_tokens=bill.prompt_tokens,
                    completion_tokens=completion_tokens,
                )
                bill.tokens = bill.prompt_tokens + completion_tokens
                bill.cost = prices.cost(bill.prompt_tokens, completion_tokens) if prices else 0.0
            self._purse.settle(worst, bill.cost)
            self._tokens.give_back(expected - bill.tokens)
            if prices:
                self.count(cost=bill.cost)

    def _no_money(self, needed: float) -> str:
        """Say who has spent what, and what the next call may cost."""
        limit = self._config.max_cost
        spent = self.usage.cost or 0.0
        share = ""
        if self._purse.limit != limit:
            share = f" (of which this process has ${self._purse.limit:g})"
        earlier = ""
        if self._purse.spent > spent:
            earlier = f" and ${self._purse.spent - spent:.6f} by earlier tasks of the run"
        return (
            f"judge {self._config.name}: max_cost of ${limit:g}{share} leaves no room for another"
            f" call: ${spent:.6f} spent on {self.usage.calls} calls{earlier}, and the next may cost"
            f" ${needed:.6f}; what was answered is kept: run the same command again to go on with"
            " a fresh budget"
        )
