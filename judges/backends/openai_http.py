"""A judge behind an OpenAI-compatible HTTP server, which is sent many requests at once.

`judges.judge` opens an `OpenAIBackend`. Its threads send the requests, and the caller's thread
hands out the answers as they arrive.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
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
from lm_factuality.ground.http import RetryableError, retry_delay

if TYPE_CHECKING:
    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

_MAX_FAILURES_IN_A_ROW = 8  # requests without an answer; then the server counts as down
_MAX_TRIES_TO_CONNECT = 3  # as long as the server has not answered at all
_GRACE_AFTER_TIMEOUT = 2.0  # seconds in which calls under way, which are paid for, may still finish
_GRACE_AFTER_INTERRUPT = 20.0  # seconds for the same after Ctrl-C; a second Ctrl-C ends them
_NO_TIME_LIMIT = threading.TIMEOUT_MAX / 2  # seconds, below the longest wait that a queue allows


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
        self._has_answered = False
        self._failures_in_a_row = 0
        # Threads that add 1 at once could lose a failure.
        self._lock = threading.Lock()

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
        # The fields of extra_body may be long, and their order makes no difference.
        extra_body = json.dumps(dict(config.extra_body), sort_keys=True)
        digest = hashlib.sha256(extra_body.encode()).hexdigest()[:16]
        return f"{name}:{digest}"

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
            KeyboardInterrupt: The user pressed Ctrl-C. The answers to calls under way come first.
        """
        self._server.connect()
        work_queue = _WorkQueue(requests)
        # More threads than requests would have nothing to do.
        num_threads = min(self._config.concurrency, len(requests))
        try:
            work_queue.start(self._answer_from_queue, num_threads)
            yield from self._answers_until_timeout(work_queue)
        except KeyboardInterrupt:
            # No new call begins, but those under way are paid for.
            work_queue.stop()
            logger.warning("interrupted: waiting for calls under way (Ctrl-C again leaves them)")
            yield from work_queue.arriving_answers(_GRACE_AFTER_INTERRUPT)
            raise
        finally:
            # The caller may stop reading before all answers have arrived.
            work_queue.stop()

        # A thread that finds the server to be down leaves its exception here.
        if work_queue.failures:
            raise work_queue.failures[0]

    def _answers_until_timeout(self, work_queue: _WorkQueue) -> Iterator[NumberedAnswer]:
        """Yield answers as they arrive, and stop the work when ``total_timeout`` is over."""
        time_limit = self._config.total_timeout
        yield from work_queue.arriving_answers(time_limit)
        # All threads have ended, so the time was enough.
        if not work_queue.running_threads:
            return

        reason = f"total_timeout of {time_limit:g} s is over; {server.RESUME_HINT}"
        work_queue.stop(BackendDownError(f"judge {self._config.name}: {reason}"))
        yield from work_queue.arriving_answers(_GRACE_AFTER_TIMEOUT)

    def _answer_from_queue(self, work_queue: _WorkQueue) -> None:
        """Answer the waiting requests one after another. Each thread runs this.

        Args:
            work_queue: Holds the requests that no thread has taken yet, and gets the answers.

        Raises:
            BackendDownError: No further request can succeed.
            _StoppedError: The work was stopped while this thread waited.
        """
        for number, request in work_queue.take_requests():
            answer = self._answer_with_retries(request, work_queue)
            work_queue.deliver(NumberedAnswer(number, answer))
            if answer.error is None:
                # Setting a value is one step for other threads, so it needs no lock.
                self._has_answered = True
                self._failures_in_a_row = 0
            else:
                self._budget.add_usage(errors=1)
                self._check_failures(answer.error)

    def _answer_with_retries(self, request: Request, work_queue: _WorkQueue) -> Answer:
        """Send one request until it is answered or has used up its retries.

        Args:
            request: The prompt and its decoding parameters.
            work_queue: Ends the pauses between two tries when the work is stopped.

        Returns:
            The answer, or one with ``error`` after the last try.

        Raises:
            BackendDownError: No other request can succeed either.
            _StoppedError: The work was stopped before there was an answer.
        """
        unsupported_options: set[str] = set()
        num_tries = 0
        while True:
            num_tries += 1
            try:
                return self._call_server(request, unsupported_options, work_queue)
            except RetryableError as error:
                self._check_connection(error, num_tries)
                # After a stop it is unknown whether a retry would have succeeded, so the request
                # is not reported as failed.
                if work_queue.is_stopped:
                    raise _StoppedError from None
                if num_tries > self._config.max_retries:
                    with self._lock:
                        self._failures_in_a_row += 1
                    return Answer(None, error=f"{error} (given up after {num_tries} tries)")

                # The pauses become longer and longer.
                seconds = retry_delay(num_tries - 1, error.retry_after)
                logger.debug("%s; trying again in %.1f s", error, seconds)
                work_queue.pause(seconds)

    def _call_server(
        self, request: Request, unsupported_options: set[str], work_queue: _WorkQueue
    ) -> Answer:
        """Send one request, and send it again without each option that the server does not support.

        Args:
            request: The prompt and its decoding parameters.
            unsupported_options: The options to leave out. Those that this call finds are added.
            work_queue: Ends the wait for the limits of the budget when the work is stopped.

        Raises:
            RetryableError: The same request may succeed later.
            BackendDownError: No other request can succeed either.
            _StoppedError: The work was stopped before there was an answer.
        """
        while True:
            try:
                with self._budget.metered_call(request, work_queue.pause) as bill:
                    return self._server.call(request, bill, unsupported_options)
            except server.UnsupportedOptionError as error:
                unsupported_options.add(error.option)

    def _check_connection(self, failure: RetryableError, tries: int) -> None:
        """Give up on a server that has never answered, because it is probably not running.

        Args:
            failure: Why the last try failed.
            tries: How many tries of the request have failed.

        Raises:
            BackendDownError: Three tries could not connect.
        """
        if self._has_answered or not failure.is_unreachable or tries < _MAX_TRIES_TO_CONNECT:
            return
        raise BackendDownError(
            f"judge {self._config.name}: {self._config.base_url} cannot be reached: {failure};"
            f" is the server running? {server.RESUME_HINT}"
        ) from None

    def _check_failures(self, last_error: str) -> None:
        """Give up on a server that no longer answers.

        Args:
            last_error: Why the last request got no answer.

        Raises:
            BackendDownError: Too many requests in a row used up their retries.
        """
        if self._failures_in_a_row < _MAX_FAILURES_IN_A_ROW:
            return
        # A later attempt to use this backend starts counting anew.
        self._failures_in_a_row = 0
        raise BackendDownError(
            f"judge {self._config.name}: {self._config.base_url}: {_MAX_FAILURES_IN_A_ROW}"
            f" requests in a row got no answer, the last: {last_error}; {server.RESUME_HINT}"
        )


class _StoppedError(Exception):
    """The work was stopped before a request was sent."""


class _WorkQueue:
    """Requests that several threads answer, and the answers that they have received so far.

    A thread takes its next request only once an earlier answer has been read. So if the process is
    killed, no more answers than there are threads are lost. After `stop` no new call begins. Calls
    under way still deliver their answers, because they are paid for.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        """Queue all requests; no thread works on them yet."""
        self.failures: list[Exception] = []
        # Started threads whose last answer `arriving_answers` has not read yet.
        self.running_threads = 0
        self._waiting_requests = deque(enumerate(requests))
        self._stopped = threading.Event()
        # One permit lets a thread take one request. Each answer that was read adds one.
        self._permits = threading.Semaphore(0)
        # Each thread puts None after its last answer.
        self._arrivals: queue.SimpleQueue[NumberedAnswer | None] = queue.SimpleQueue()

    @property
    def is_stopped(self) -> bool:
        """Return whether no new call may begin."""
        return self._stopped.is_set()

    def start(self, answer_requests: Callable[[_WorkQueue], None], num_threads: int) -> None:
        """Start threads that answer the requests. An exception in one of them stops the others.

        Args:
            answer_requests: Takes requests from this queue and delivers answers to it until no
                request waits. Each thread calls it once.
            num_threads: How many threads to start.
        """
        self._permits.release(num_threads)
        for _ in range(num_threads):
            # A daemon thread does not keep the program alive if it is left behind.
            threading.Thread(target=self._run_thread, args=(answer_requests,), daemon=True).start()
            self.running_threads += 1

    def _run_thread(self, answer_requests: Callable[[_WorkQueue], None]) -> None:
        """Answer requests in a thread. If that raises an exception, all threads stop."""
        try:
            answer_requests(self)
        except _StoppedError:
            pass
        except Exception as failure:  # noqa: BLE001  the caller's thread finds it in `failures`
            self.stop(failure)
        finally:
            # None in place of an answer tells `arriving_answers` that the thread has ended.
            self._arrivals.put(None)

    def stop(self, failure: Exception | None = None) -> None:
        """Let no new call begin, and record the failure that is the reason, if there is one."""
        if failure is not None:
            self.failures.append(failure)
        self._stopped.set()
        # A thread that waits for a permit ends, and passes the permit on to the next one.
        self._permits.release()

    def pause(self, seconds: float) -> None:
        """Wait for some seconds.

        Raises:
            _StoppedError: The work was stopped before the time was over.
        """
        if self._stopped.wait(seconds):
            raise _StoppedError

    def take_requests(self) -> Iterator[tuple[int, Request]]:
        """Take waiting requests one by one, until none is left or the work is stopped.

        A thread waits here until it may take another request.

        Yields:
            The position of each request in the original sequence, and the request.
        """
        while True:
            self._permits.acquire()
            if self.is_stopped:
                break
            try:
                numbered_request = self._waiting_requests.popleft()
            except IndexError:
                # Other threads have taken all requests.
                break
            yield numbered_request
        # This thread takes no further request. It passes its permit on, so that the next thread
        # that waits for a permit ends as well.
        self._permits.release()

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
        # Waiting for longer than _NO_TIME_LIMIT, which is years, would raise an OverflowError.
        time_limit = _NO_TIME_LIMIT if seconds is None else min(seconds, _NO_TIME_LIMIT)
        deadline = time.monotonic() + time_limit
        while self.running_threads:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            try:
                arrival = self._arrivals.get(timeout=remaining)
            except queue.Empty:
                return

            # None stands for the end of a thread.
            if arrival is None:
                self.running_threads -= 1
                continue
            try:
                yield arrival
            finally:
                # The caller has read the answer, so a thread may take another request.
                self._permits.release()
