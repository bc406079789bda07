"""A judge behind an OpenAI-compatible HTTP server, which is sent many requests at once.

`judges.judge` opens an `OpenAIBackend`. Its threads send the requests, and the caller's thread
hands out the answers as they arrive.
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
from judges.backends import Backend, NumberedAnswer, server
from judges.budget import Budget, SpendingLimit
from lm_factuality.ground.errors import BackendDownError

if TYPE_CHECKING:
    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

FIRST_DELAY = 0.5  # seconds: the longest wait before the second try; it doubles from try to try
MAX_DELAY = 30.0  # seconds: the longest wait between two tries, unless the server asks for more
MAX_RETRY_AFTER = 120.0  # seconds: the longest Retry-After of a server that is obeyed
_MAX_FAILURES_IN_A_ROW = 8  # requests without an answer; then the server counts as down
_MAX_TRIES_TO_CONNECT = 3  # as long as the server has not answered at all
_GRACE_AFTER_TIMEOUT = 2.0  # seconds in which calls under way, which are paid for, may still finish
_GRACE_AFTER_INTERRUPT = 20.0  # seconds for the same after Ctrl-C; a second Ctrl-C ends them


class OpenAIBackend(Backend):
    """A model behind the endpoint for chat completions or for completions.

    A call whose tokens are unknown, for example because it timed out, counts towards ``max_cost``
    with the highest price that it can have.
    """

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Prepare to call a server; nothing is sent.

        Args:
            config: The judge: its server, and the limits of its use.
            spending_limit: The limit that several judges share. By default the judge has
                ``max_cost`` to itself.

        Raises:
            ConfigError: The tokenizer of the judge cannot be loaded.
        """
        self._config = config
        self._server = server.Server(config)
        self._budget = Budget(config, spending_limit)
        self._lock = threading.Lock()
        self._has_answered = False
        self._failures_in_a_row = 0

    @property
    def identity(self) -> str:
        """Name the server, its endpoint and model, and a hash of ``extra_body`` if there is one.

        Example: ``openai:localhost:8000/v1:chat:Qwen/Qwen2.5-7B-Instruct``.
        """
        config = self._config
        # Two servers may serve different models under the same name, so the address is part of it.
        url = urlsplit(config.base_url)
        name = f"openai:{url.netloc}{url.path.rstrip('/')}:{config.endpoint}:{config.model}"
        if not config.extra_body:
            return name
        # The fields may be long, and their order makes no difference.
        extra_body = json.dumps(dict(config.extra_body), sort_keys=True)
        return f"{name}:{hashlib.sha256(extra_body.encode()).hexdigest()[:16]}"

    @property
    def usage(self) -> Usage:
        """Return what was sent since the backend was opened, and what it cost."""
        return self._budget.usage

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Estimate the tokens and the cost of requests if every answer is as long as allowed."""
        return self._budget.estimate(requests)

    def answer(self, requests: Sequence[Request]) -> Iterator[NumberedAnswer]:
        """Send requests to the server from several threads.

        Args:
            requests: The prompts, each with its decoding parameters.

        Returns:
            The answers, in the order in which they arrive. A KeyboardInterrupt is raised only
            after the calls under way have finished, because they are paid for.

        Raises:
            BackendDownError: The server cannot be reached or refuses everybody, ``max_cost`` is
                reached, ``total_timeout`` is over, or eight requests in a row got no answer.
            ConfigError: The server is not local, and there is no key for it.
        """
        server.require_key(self._config)
        return self._answer_in_threads(requests)

    def close(self) -> None:
        """Close the connections; a later request makes new ones."""
        self._server.close()

    def _answer_in_threads(self, requests: Sequence[Request]) -> Iterator[NumberedAnswer]:
        """Start the threads, and yield the answers as they arrive.

        Yields:
            One answer per request, unless the work ends early.

        Raises:
            BackendDownError: ``total_timeout`` is over, or a thread has found the server to be
                down.
        """
        time_limit = self._config.total_timeout
        self._server.connect()
        work_queue = _WorkQueue(requests)
        try:
            # More threads than requests would have nothing to do.
            num_threads = min(self._config.concurrency, len(requests))
            work_queue.start(self._answer_from_queue, num_threads)
            yield from work_queue.arriving_answers(time_limit)

            if work_queue.running_threads:
                reason = f"total_timeout of {time_limit:g} s is over; {server.RESUME_HINT}"
                work_queue.stop(BackendDownError(f"judge {self._config.name}: {reason}"))
                yield from work_queue.arriving_answers(_GRACE_AFTER_TIMEOUT)
        except KeyboardInterrupt:
            # Answers that arrive now are paid for, so they are still handed out and stored.
            work_queue.stop()
            logger.warning("interrupted: waiting for calls under way (Ctrl-C again leaves them)")
            yield from work_queue.arriving_answers(_GRACE_AFTER_INTERRUPT)
            raise
        # Also reached when the caller stops reading before all answers have arrived.
        finally:
            work_queue.stop()

        if work_queue.failures:
            raise work_queue.failures[0]

    def _answer_from_queue(self, work_queue: _WorkQueue) -> None:
        """Answer the waiting requests one after another. Each thread runs this.

        Args:
            work_queue: Loses the requests that this thread takes, and receives their answers.

        Raises:
            BackendDownError: No further request can succeed.
            _StoppedError: The work was stopped while this thread waited.
        """
        for number, request in work_queue.take_requests():
            answer = self._answer_with_retries(request, work_queue)
            work_queue.deliver(NumberedAnswer(number, answer))
            self._record_outcome(answer)

    def _answer_with_retries(self, request: Request, work_queue: _WorkQueue) -> Answer:
        """Send one request until it is answered or has used up its retries.

        Args:
            request: The prompt and its decoding parameters.
            work_queue: Wakes this thread from its waits when the work is stopped.

        Returns:
            The answer, or one with ``error`` after the last try.

        Raises:
            BackendDownError: No other request can succeed either.
            _StoppedError: The work was stopped before there was an answer.
        """
        config = self._config
        tries = 0
        while True:
            try:
                with self._budget.metered_call(request, work_queue.pause) as bill:
                    return self._server.call(request, bill)
            except server.RetryableError as error:
                failure = error
            tries += 1

            # A server that has never answered is probably not running.
            is_absent = failure.is_unreachable and not self._has_answered
            if is_absent and tries >= _MAX_TRIES_TO_CONNECT:
                raise BackendDownError(
                    f"judge {config.name}: {config.base_url} cannot be reached: {failure}; is the"
                    f" server running? {server.RESUME_HINT}"
                )
            # Once the work is stopped, the pause below ends this request instead.
            if tries > config.max_retries and not work_queue.is_stopped:
                with self._lock:
                    self._failures_in_a_row += 1
                return Answer(None, error=f"{failure} (given up after {tries} tries)")

            seconds = retry_delay(tries - 1, failure.retry_after)
            logger.debug("%s; trying again in %.1f s", failure, seconds)
            work_queue.pause(seconds)

    def _record_outcome(self, answer: Answer) -> None:
        """Count an answer or a failure, and give up on a server that no longer answers.

        Raises:
            BackendDownError: Eight requests in a row were given up.
        """
        if answer.error is None:
            self._has_answered = True
            self._failures_in_a_row = 0
            return

        self._budget.add_usage(errors=1)
        if self._failures_in_a_row >= _MAX_FAILURES_IN_A_ROW:
            # A later attempt to use this backend starts counting anew.
            self._failures_in_a_row = 0
            raise BackendDownError(
                f"judge {self._config.name}: {self._config.base_url}: {_MAX_FAILURES_IN_A_ROW}"
                f" requests in a row got no answer, the last: {answer.error}; {server.RESUME_HINT}"
            )


def retry_delay(attempt: int, retry_after: float | None = None) -> float:
    """Choose how long to wait before a request is tried again.

    The wait is random ("full jitter"), so that requests that failed together do not return
    together. Its upper bound doubles with every try.

    Args:
        attempt: The number of tries before the last one: 0 after the first try.
        retry_after: Seconds that the server asks to wait. The wait is no shorter, up to 120 s.

    Returns:
        Seconds.
    """
    jitter = random.uniform(0, min(MAX_DELAY, FIRST_DELAY * 2**attempt))
    if retry_after is None:
        return jitter
    return min(retry_after, MAX_RETRY_AFTER) + min(jitter, FIRST_DELAY)


class _StoppedError(Exception):
    """The work was stopped before a request was sent."""


class _WorkQueue:
    """Requests that several threads answer, and the answers that they have received so far.

    After `stop` no new call begins. Calls under way still deliver their answers, because they are
    paid for.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        """Queue all requests; no thread works on them yet."""
        self.failures: list[Exception] = []
        self.running_threads = 0  # as far as ``arriving_answers`` has seen
        self._waiting_requests = deque(enumerate(requests))
        self._stopped = threading.Event()
        # A thread that ends puts None.
        self._arrivals: queue.SimpleQueue[NumberedAnswer | None] = queue.SimpleQueue()

    @property
    def is_stopped(self) -> bool:
        """Return whether no new call may begin."""
        return self._stopped.is_set()

    def start(self, work: Callable[[_WorkQueue], None], num_threads: int) -> None:
        """Start threads that do the work. An exception in one of them stops the others.

        Args:
            work: Takes requests and delivers answers until no request waits. Each thread calls it
                once.
            num_threads: How many threads to start.
        """

        def run_thread() -> None:
            """Do the work, and report how it ended."""
            try:
                work(self)
            except _StoppedError:
                pass
            except Exception as failure:  # noqa: BLE001  the caller's thread raises it
                self.stop(failure)
            finally:
                self._arrivals.put(None)

        for _ in range(num_threads):
            # A daemon thread does not keep the program alive if it is left behind.
            threading.Thread(target=run_thread, daemon=True).start()
            self.running_threads += 1

    def stop(self, failure: Exception | None = None) -> None:
        """Let no new call begin, and record the failure that is the reason, if there is one."""
        if failure is not None:
            self.failures.append(failure)
        self._stopped.set()

    def pause(self, seconds: float) -> None:
        """Wait for some seconds.

        Raises:
            _StoppedError: The work was stopped before the time was over.
        """
        if self._stopped.wait(seconds):
            raise _StoppedError

    def take_requests(self) -> Iterator[tuple[int, Request]]:
        """Remove waiting requests one by one, until none is left or the work is stopped.

        Yields:
            The position of each request in the original sequence, and the request.
        """
        while not self.is_stopped:
            try:
                numbered_request = self._waiting_requests.popleft()
            except IndexError:
                return
            yield numbered_request

    def deliver(self, answer: NumberedAnswer) -> None:
        """Hand an answer over to the thread that reads `arriving_answers`."""
        self._arrivals.put(answer)

    def arriving_answers(self, seconds: float | None) -> Iterator[NumberedAnswer]:
        """Wait for answers, until all threads have ended or the time is over.

        Args:
            seconds: The time limit. None means no limit.

        Yields:
            The answers, in the order in which they arrive.
        """
        time_limit = threading.TIMEOUT_MAX if seconds is None else seconds
        deadline = time.monotonic() + time_limit
        while self.running_threads:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            try:
                arrival = self._arrivals.get(timeout=min(remaining, threading.TIMEOUT_MAX))
            except queue.Empty:
                return

            if arrival is None:
                self.running_threads -= 1
            else:
                yield arrival
