"""Caps on what is sent in a minute."""

from __future__ import annotations

import asyncio
import time


class Pace:
    """Spaces out ``amount`` a minute (requests, or tokens), for the tasks of one event loop.

    A token bucket that holds nothing: whoever comes is given the next free moment, in the order of coming, so that no minute
    sees more than ``per_minute`` and a task that wakes up late does not hold back the others.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0

    async def wait(self, amount: float = 1.0) -> None:
        """Returns when ``amount`` more may be sent."""
        if not self._seconds_each:
            return
        now = time.monotonic()
        ours = max(now, self._next)
        self._next = ours + amount * self._seconds_each
        if ours > now:
            await asyncio.sleep(ours - now)

    def give_back(self, amount: float) -> None:
        """``amount`` that was waited for was not used."""
        self._next -= amount * self._seconds_each
