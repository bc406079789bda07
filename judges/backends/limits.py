"""The limits of a server's use: a sum of money that is never exceeded, what goes out in a minute,
and waits between tries."""

import asyncio
import random
import threading
import time
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from lm_factuality.ground.settings import FORBID, Number

_PATIENCE = 0.05  # seconds between two looks at what is under way


@dataclass(frozen=True, config=FORBID)
class Prices:
    """USD for a million tokens."""

    prompt: Annotated[Number, Field(ge=0)]
    completion: Annotated[Number, Field(ge=0)]

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


class BudgetSpent(Exception):
    def __init__(self, needed: float) -> None:
        super().__init__(f"the next call may cost ${needed:.6f}")
        self.needed = needed


class Purse:
    """``spent`` USD of at most ``limit`` (None: no limit). Several backends, in any threads, may
    draw on one: judges of a run."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.spent = 0.0
        self._reserved = 0.0
        self._under_way = 0
        self._lock = threading.Lock()

    async def reserve(self, worst: float) -> None:
        """Returns when ``worst`` USD are set aside; waits for calls under way, which mostly cost
        less than was set aside. Raises BudgetSpent: nothing is under way that could make room."""
        while True:
            with self._lock:
                if self.limit is None or self.spent + self._reserved + worst <= self.limit:
                    self._reserved += worst
                    self._under_way += 1
                    return
                if not self._under_way:
                    raise BudgetSpent(worst)
            await asyncio.sleep(_PATIENCE)

    def settle(self, worst: float, cost: float) -> None:
        """A call for which ``worst`` was reserved has cost ``cost``."""
        with self._lock:
            self.spent += cost
            self._under_way -= 1
            self._reserved = self._reserved - worst if self._under_way else 0.0


FIRST = 0.5  # seconds, the longest wait before the second try; it doubles from try to try
LONGEST = 30.0  # seconds, the longest wait of our own choosing
LONGEST_ASKED = 120.0  # seconds, the longest that a server's Retry-After is obeyed


def delay(attempt: int, retry_after: float | None = None) -> float:
    """Seconds to wait after try number ``attempt`` (from 0): full jitter under an exponential
    bound; where the server names a time, no less than that, and the jitter on top, so that not all
    come back at once."""
    jitter = random.uniform(0, min(LONGEST, FIRST * 2**attempt))
    return jitter if retry_after is None else min(retry_after, LONGEST_ASKED) + min(jitter, FIRST)


class Pace:
    """Spaces out ``amount`` a minute (requests, or tokens), for the tasks of one event loop. A
    token bucket that holds nothing: whoever comes is given the next free moment, in the order of
    coming, so that no minute sees more than ``per_minute`` and a task that wakes up late does not
    hold back the others."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0

    async def wait(self, amount: float = 1.0) -> None:
        if not self._seconds_each:
            return
        now = time.monotonic()
        ours = max(now, self._next)
        self._next = ours + amount * self._seconds_each
        if ours > now:
            await asyncio.sleep(ours - now)

    def give_back(self, amount: float) -> None:
        self._next -= amount * self._seconds_each
