"""An event loop in a thread of its own, and what its coroutines give out, as an iterator on this side."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_LAST_WORDS = 2.0  # seconds that a cancelled coroutine has


class LoopThread:
    """Starts with the first coroutine and runs until ``close``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Result], timeout: float) -> Result:
        """The result of ``coroutine``, for which ``timeout`` seconds are waited."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running()).result(timeout)

    def stream(self, produce: Callable[[Callable[[Item], None]], Coroutine[Any, Any, None]]) -> Iterator[Item]:
        """What the coroutine ``produce(put)`` puts, as it comes; then its exception, if it ends with one.

        If the caller stops early, it is cancelled. After a KeyboardInterrupt what it had put is still given out, so that it
        can be saved; then the interrupt goes on.
        """
        items: queue.SimpleQueue[tuple[Item] | None] = queue.SimpleQueue()

        async def run() -> None:
            try:
                await produce(lambda item: items.put((item,)))
            finally:
                items.put(None)

        future = asyncio.run_coroutine_threadsafe(run(), self._running())
        try:
            while (boxed := items.get()) is not None:
                yield boxed[0]
        except BaseException as error:
            future.cancel()
            if isinstance(error, KeyboardInterrupt):
                while (boxed := _soon(items)) is not None:
                    yield boxed[0]
            raise
        future.result()

    def close(self) -> None:
        """Ends the thread; a later coroutine starts a new one."""
        with self._lock:
            if self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


def _soon(items: queue.SimpleQueue[tuple[Item] | None]) -> tuple[Item] | None:
    try:
        return items.get(timeout=_LAST_WORDS)
    except queue.Empty:
        return None
