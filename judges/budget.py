"""The limits of a judge behind a server: USD in a run, and requests and tokens in a minute.

The threads of `judges.backends.openai_http` share one `Budget` and wait here before each call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from judges.answers import Answer, CostEstimate, Request, TokenCounter, Usage
from judges.config import JudgeConfig
from lm_factuality.ground.errors import BackendDownError

# Seconds until a thread asks again whether there is money for its call.
_RETRY_SECONDS = 0.05
# A count of tokens of more than so many times the most that a request can have is not believed.
_CREDIBLE_EXCESS = 100


class SpendingLimit:
    """A limit in USD that is never exceeded. Judges and threads of a run share one.

    Attributes:
        limit_usd: The limit. None means that there is no limit.
        spent: The USD that finished calls have cost.
    """

    def __init__(self, limit_usd: float | None) -> None:
        """Start with nothing spent and a limit in USD. None means that there is no limit."""
        self.limit_usd = limit_usd
        self.spent = 0.0
        self._reserved = 0.0
        self._calls_under_way = 0
        self._lock = threading.Lock()

    def reserve(self, max_cost: float) -> bool:
        """Set money aside for a call, if enough is left.

        Args:
            max_cost: The most that the call can cost, in USD.

        Returns:
            Whether the money was set aside. If not, try again later: `settle` may free some, since
            most calls cost less than was set aside for them.

        Raises:
            BackendDownError: Too little is left, and no call is under way that could free some.
        """
        # The lock makes the check and the reservation one step for other threads.
        with self._lock:
            total_cost = self.spent + self._reserved + max_cost
            if self.limit_usd is None or total_cost <= self.limit_usd:
                self._reserved += max_cost
                self._calls_under_way += 1
                return True

            if self._calls_under_way:
                return False
            raise BackendDownError(
                f"max_cost of ${self.limit_usd:g} leaves no room for another call:"
                f" ${self.spent:.6f} is spent, and the next may cost ${max_cost:.6f}; what was"
                " answered is kept: run the same command again to go on with a fresh budget"
            )

    def settle(self, reserved_cost: float, cost: float) -> None:
        """Record the cost of a finished call and free the rest of the money set aside for it.

        Args:
            reserved_cost: The USD that `reserve` set aside.
            cost: The USD that the call has cost.
        """
        with self._lock:
            self.spent += cost
            self._calls_under_way -= 1
            if self._calls_under_way:
                self._reserved -= reserved_cost
            else:
                # Subtracting floats would leave a remainder of about 1e-17.
                self._reserved = 0.0


def shared_spending_limit(
    limits: MutableMapping[str, SpendingLimit], config: JudgeConfig, num_processes: int = 1
) -> SpendingLimit:
    """Return the limit that all judges with the same configuration share.

    Args:
        limits: The limits so far, to which a new one is added.
        config: The configuration of the judge. Without ``max_cost``, there is no limit.
        num_processes: How many processes of a run divide ``max_cost`` evenly.
    """
    # A configuration holds mappings, so it cannot be the key of a dictionary.
    key = repr(config)
    if key not in limits:
        max_cost = None if config.max_cost is None else config.max_cost / num_processes
        limits[key] = SpendingLimit(max_cost)
    return limits[key]


class RateLimiter:
    """Spreads requests, or tokens, evenly over time.

    It is a token bucket without a reserve: callers get the next free moment in the order in which
    they come, and unused time is not saved up.
    """

    def __init__(self, per_minute: float | None) -> None:
        """Allow a number of requests or tokens per minute. None means that there is no limit."""
        self._seconds_per_unit = 60.0 / per_minute if per_minute else 0.0
        self._next_free = 0.0
        self._lock = threading.Lock()

    def reserve(self, amount: float = 1.0) -> float:
        """Reserve the next free moment.

        Args:
            amount: The number of requests or tokens that will be sent then.

        Returns:
            The seconds to wait until that moment.
        """
        with self._lock:
            now = time.monotonic()
            # If the next free moment lies in the past, the request is sent at once.
            send_time = max(now, self._next_free)
            self._next_free = send_time + amount * self._seconds_per_unit
            return send_time - now

    def release(self, amount: float) -> None:
        """Free the time of requests or tokens that were reserved but not used."""
        with self._lock:
            self._next_free -= amount * self._seconds_per_unit


@dataclass
class Bill:
    """What the sender of a call reports about its use.

    If it reports nothing, the call is charged at the most that it could cost.
    """

    answer: Answer = field(default=Answer(None))
    """An answer with the numbers of tokens that the server counted, if it did."""

    is_free: bool = False
    """Whether the call cost nothing, such as one that never reached the server."""


class _Tokens(NamedTuple):
    """Numbers of tokens of a call."""

    prompt: int
    """The tokens of the prompt."""

    completion: int
    """The tokens of the answer."""


class Budget:
    """The limits of one judge, and what it has used of them.

    Attributes:
        usage: The calls, tokens and USD used until now.
    """

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Open the budget of a judge.

        Args:
            config: The settings of the judge, with its prices and limits.
            spending_limit: The limit that several judges share. By default the judge has
                ``max_cost`` to itself.

        Raises:
            ConfigError: The tokenizer cannot be loaded.
        """
        self._spending_limit = spending_limit or SpendingLimit(config.max_cost)
        self.usage = Usage(cost=0.0 if config.prices else None)
        self._prices = config.prices
        self._token_counter = TokenCounter(config.tokenizer)
        self._request_rate = RateLimiter(config.requests_per_minute)
        self._token_rate = RateLimiter(config.tokens_per_minute)
        self._lock = threading.Lock()

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Estimate the tokens and the cost of asking each request once."""
        return self._token_counter.estimate(requests, self._prices)

    def add_usage(self, **increments: float) -> None:
        """Add amounts to fields of ``usage``, as in ``add_usage(calls=1)``. Safe in threads."""
        with self._lock:
            self.usage = self.usage.plus(**increments)

    @contextmanager
    def metered_call(self, request: Request, pause: Callable[[float], None]) -> Iterator[Bill]:
        """Wait until the limits allow a request, and charge for it when the ``with`` block ends.

        Example:
            ``with budget.metered_call(request, time.sleep) as bill: bill.answer = send(request)``

        Args:
            request: The request that the block sends.
            pause: Sleeps for a number of seconds. An exception that it raises, for example because
                the user pressed Ctrl-C, ends the wait and is passed on.

        Yields:
            The bill, in which the block notes the answer. Without a note the call is charged at the
            most that it could cost.

        Raises:
            BackendDownError: The call could cost more than is left.
        """
        # The rate needs a likely number of tokens, and the limit on money the highest possible one.
        max_tokens = _Tokens(self._token_counter.max_tokens(request), request.decoding.max_tokens)
        expected_tokens = self._token_counter.expected_tokens(request) + max_tokens.completion

        # The pauses come first, so that no money is set aside while the call waits.
        pause(self._request_rate.reserve())
        pause(self._token_rate.reserve(expected_tokens))
        while not self._spending_limit.reserve(self._cost(*max_tokens)):
            pause(_RETRY_SECONDS)

        # Calls that fail count too, for the server has seen them.
        self.add_usage(calls=1)
        bill = Bill()
        try:
            yield bill
        finally:
            self._charge(bill, expected_tokens, max_tokens)

    def _cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of a number of tokens in USD, 0 if the judge has no prices."""
        return self._prices.cost(prompt_tokens, completion_tokens) if self._prices else 0.0

    def _charge(self, bill: Bill, expected_tokens: int, max_tokens: _Tokens) -> None:
        """Charge for a finished call, and free what was reserved for it but not used.

        A number of tokens that the server did not count is charged at its maximum, so that the
        limit on money is never exceeded.

        Args:
            bill: What is known about the use of the call.
            expected_tokens: The tokens that were reserved in the rate limit.
            max_tokens: The most tokens that the call can have. Their price was reserved.
        """
        reserved_cost = self._cost(*max_tokens)
        if bill.is_free:
            self._spending_limit.settle(reserved_cost, 0.0)
            self._token_rate.release(expected_tokens)
            return

        # Every prompt has tokens, and so has every text.
        least_completion = 1 if bill.answer.text else 0
        prompt_tokens = _credible_count(bill.answer.prompt_tokens, 1, max_tokens.prompt)
        completion_tokens = _credible_count(
            bill.answer.completion_tokens, least_completion, max_tokens.completion
        )
        charged = _Tokens(
            max_tokens.prompt if prompt_tokens is None else prompt_tokens,
            max_tokens.completion if completion_tokens is None else completion_tokens,
        )
        cost = self._cost(*charged)
        self._spending_limit.settle(reserved_cost, cost)
        # Without counts of the server, the expected tokens are the best estimate for the rate.
        if prompt_tokens is not None and completion_tokens is not None:
            self._token_rate.release(expected_tokens - sum(charged))

        self.add_usage(prompt_tokens=prompt_tokens or 0, completion_tokens=completion_tokens or 0)
        # Without prices the cost stays None, since 0 would be wrong.
        if self._prices:
            self.add_usage(cost=cost)


def _credible_count(count: int | None, least: int, most: int) -> int | None:
    """Return a server's count of tokens if it can be true, otherwise None.

    Servers may exceed the most tokens that a request allows, for example by thoughts, and charge
    for them. A count of more than 100 times as many is a mistake.
    """
    if count is None or not least <= count <= _CREDIBLE_EXCESS * most:
        return None
    return count
