"""Any OpenAI-compatible HTTP server, through the ``openai`` client: many requests at once.

Threads ask; the thread of the caller hands out answers as they come. Nothing that was paid for is
lost: when asking ends early, calls under way are let come in.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from judges.answers import Answer, CostEstimate, Request, Usage
from judges.backends import Backend, server
from judges.budget import Budget, SpendingLimit
from lm_factuality.ground.errors import BackendDownError

if TYPE_CHECKING:
    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

GIVEN_UP_IN_A_ROW = 8  # requests; then the server counts as down
FIRST = 0.5  # seconds, the longest wait before the second try; it doubles from try to try
LONGEST = 30.0  # seconds, the longest wait of our own choosing
LONGEST_ASKED = 120.0  # seconds, the longest that a server's Retry-After is obeyed
_TRIES_TO_CONNECT = 3  # as long as nothing has been answered
_LAST_WORDS = 2.0  # seconds after total_timeout for calls under way, which are paid for
_WHEN_INTERRUPTED = 20.0  # seconds after Ctrl-C for the same; a second one ends the wait


class OpenAIBackend(Backend):
    """A model behind chat completions or completions.

    A call whose outcome is unknown (timed out, cut off, or without a count of its tokens) counts
    at its worst case towards ``max_cost``.
    """

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Prepare to ask a server; nothing is sent.

        Args:
            config: Where the server is, and the limits of its use.
            spending_limit: The limit that several judges share. By default the judge has
                ``max_cost`` to itself.

        Raises:
            ConfigError: There is no such tokenizer.
        """
        self._config = config
        self._server = server.Server(config)
        self._budget = Budget(config, spending_limit)
        self._lock = threading.Lock()
        self._has_answered = False
        self._given_up_in_a_row = 0

    @property
    def identity(self) -> str:
        """Server, path, kind of endpoint and model, and a hash of what else is sent."""
        config = self._config
        url = urlsplit(config.base_url)
        name = f"openai:{url.netloc}{url.path.rstrip('/')}:{config.endpoint}:{config.model}"
        if not config.extra_body:
            return name
        extra = json.dumps(dict(config.extra_body), sort_keys=True)
        return f"{name}:{hashlib.sha256(extra.encode()).hexdigest()[:16]}"

    @property
    def usage(self) -> Usage:
        """What was sent and what it cost since the backend was opened."""
        return self._budget.usage

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Tokens and cost of asking each request once, every answer being as long as it may be."""
        return self._budget.estimate(requests)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `judges.backends.Backend`. An interrupt is raised after calls under way have come in.

        Raises:
            BackendDownError: The server cannot be reached or refuses everybody, ``max_cost`` is
                reached, ``total_timeout`` is over, or eight requests in a row were given up.
            ConfigError: There is no key for a server that is not a local one.
        """
        server.require_key(self._config)
        return self._ask_all(requests)

    def close(self) -> None:
        """Close the connections; a later request makes new ones."""
        self._server.close()

    def _ask_all(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """The answers as they come; then the failure that ended it, if one did."""
        limit = self._config.total_timeout
        self._server.connect()
        lot = _Lot(requests)
        try:
            lot.start(self._work, min(self._config.concurrency, len(requests)))
            yield from lot.arrivals(limit)
            if lot.workers:
                over = f"total_timeout of {limit:g} s is over; {server.AGAIN}"
                lot.stop(BackendDownError(f"judge {self._config.name}: {over}"))
                yield from lot.arrivals(_LAST_WORDS)
        except KeyboardInterrupt:
            lot.stop()
            logger.warning("interrupted: waiting for calls under way (Ctrl-C again leaves them)")
            yield from lot.arrivals(_WHEN_INTERRUPTED)
            raise
        finally:
            lot.stop()
        for failure in lot.failures:
            raise failure

    def _work(self, lot: _Lot) -> None:
        """Ask what is waiting, one request after the other, until nothing is or the lot stops."""
        for number, request in lot.requests():
            answer = self._answer(request, lot)
            lot.arrived.put((number, answer))
            self._judge_the_server(answer)

    def _answer(self, request: Request, lot: _Lot) -> Answer:
        """The answer, or after all retries one with an error.

        Raises:
            BackendDownError: No other request will fare better.
            _Stopped: The lot has stopped before there was an answer.
        """
        config = self._config
        attempt = 0
        while True:
            try:
                with self._budget.metered_call(request, lot.pause) as bill:
                    return self._server.call(request, bill)
            except server.TryAgain as error:
                failure = error
            attempt += 1
            if failure.is_unreachable and not self._has_answered and attempt >= _TRIES_TO_CONNECT:
                raise BackendDownError(
                    f"judge {config.name}: {config.base_url} cannot be reached: {failure}; is the"
                    f" server running? {server.AGAIN}"
                )
            if attempt > config.max_retries and not lot.stopped.is_set():
                with self._lock:
                    self._given_up_in_a_row += 1
                return Answer(None, error=f"{failure} (given up after {attempt} tries)")
            wait = delay(attempt - 1, failure.retry_after)
            logger.debug("%s; trying again in %.1f s", failure, wait)
            lot.pause(wait)

    def _judge_the_server(self, answer: Answer) -> None:
        """Count answers and errors.

        Raises:
            BackendDownError: So many requests in a row were given up that the server is gone.
        """
        if answer.error is None:
            self._has_answered = True
            self._given_up_in_a_row = 0
            return
        self._budget.add_usage(errors=1)
        if self._given_up_in_a_row >= GIVEN_UP_IN_A_ROW:
            self._given_up_in_a_row = 0
            raise BackendDownError(
                f"judge {self._config.name}: {self._config.base_url}: {GIVEN_UP_IN_A_ROW} requests"
                f" in a row got no answer, the last: {answer.error}; {server.AGAIN}"
            )


class _Stopped(Exception):
    """Asking has ended, and this request was not under way."""


class _Lot:
    """Requests that threads work on, and how their work comes to an end.

    No new call is begun once ``stop`` was called. Calls under way come in, for they are paid for.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self.failures: list[Exception] = []
        self._waiting = deque(enumerate(requests))
        self.arrived: queue.SimpleQueue[tuple[int, Answer] | None] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self.workers = 0  # threads that have not ended yet, as far as ``arrivals`` has seen

    def start(self, work: Callable[[_Lot], None], threads: int) -> None:
        """Have so many threads do ``work``. An exception in one of them stops the lot."""

        def run() -> None:
            try:
                work(self)
            except _Stopped:
                pass
            except Exception as failure:  # noqa: BLE001  raised by the thread of the caller
                self.stop(failure)
            finally:
                self.arrived.put(None)

        for _ in range(threads):
            # A daemon does not hold up the end of the program when it is left behind.
            threading.Thread(target=run, daemon=True).start()
            self.workers += 1

    def stop(self, failure: Exception | None = None) -> None:
        """Begin no new call. ``failure`` is why, if something went wrong."""
        if failure is not None:
            self.failures.append(failure)
        self.stopped.set()

    def pause(self, seconds: float) -> None:
        """Wait. Raises _Stopped if the lot is stopped before the time is over."""
        if self.stopped.wait(seconds):
            raise _Stopped

    def requests(self) -> Iterator[tuple[int, Request]]:
        """Take what is waiting, with its number."""
        while not self.stopped.is_set():
            try:
                numbered = self._waiting.popleft()
            except IndexError:
                return
            yield numbered

    def arrivals(self, seconds: float | None) -> Iterator[tuple[int, Answer]]:
        """The answers as they come, until all threads have ended or the time is over."""
        deadline = time.monotonic() + (threading.TIMEOUT_MAX if seconds is None else seconds)
        while self.workers and (remaining := deadline - time.monotonic()) > 0:
            try:
                arrival = self.arrived.get(timeout=min(remaining, threading.TIMEOUT_MAX))
            except queue.Empty:
                return
            if arrival is None:
                self.workers -= 1
            else:
                yield arrival


def delay(attempt: int, retry_after: float | None = None) -> float:
    """Seconds to wait after try number ``attempt`` (from 0).

    The bound doubles from try to try, with full jitter below it. Where the server names a time, it
    is no less than that, and the jitter on top, so that not all requests come back at once.
    """
    jitter = random.uniform(0, min(LONGEST, FIRST * 2**attempt))
    if retry_after is None:
        return jitter
    return min(retry_after, LONGEST_ASKED) + min(jitter, FIRST)
