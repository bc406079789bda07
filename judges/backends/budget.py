"""A sum of money that is never exceeded: a call begins only when its worst case fits beside those under way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """USD for a million tokens."""

    prompt: float
    completion: float

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """In USD."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


class BudgetSpent(Exception):
    """The next call might cost more than is left."""

    def __init__(self, needed: float) -> None:
        super().__init__(f"the next call may cost ${needed:.6f}")
        self.needed = needed


class Budget:
    """``spent`` USD of at most ``limit`` (None: no limit), for the tasks of one event loop."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.spent = 0.0
        self._reserved = 0.0
        self._under_way = 0
        self._settled = asyncio.Event()

    async def reserve(self, worst: float) -> None:
        """Returns when ``worst`` USD are set aside; waits for calls under way, which mostly cost less than was set aside.

        Raises:
            BudgetSpent: nothing is under way that could make room.
        """
        while self.limit is not None and self.spent + self._reserved + worst > self.limit:
            if not self._under_way:
                raise BudgetSpent(worst)
            self._settled.clear()
            await self._settled.wait()
        self._reserved += worst
        self._under_way += 1

    def settle(self, worst: float, cost: float) -> None:
        """A call for which ``worst`` was reserved has cost ``cost``."""
        self.spent += cost
        self._under_way -= 1
        self._reserved = self._reserved - worst if self._under_way else 0.0
        self._settled.set()
