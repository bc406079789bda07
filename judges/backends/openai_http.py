"""Any OpenAI-compatible HTTP server, through the ``openai`` client: many requests at once, none
lost."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio.from_thread import BlockingPortal, start_blocking_portal

from judges.answers import Answer, Estimate, Request, TokenCounter, Usage
from judges.backends import server
from judges.backends.limits import BudgetSpent, Pace, Purse, delay
from lm_factuality.ground.errors import BackendDown

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

GIVEN_UP_IN_A_ROW = 8  # requests; then the server counts as down
_TRIES_TO_CONNECT = 3  # as long as nothing has been answered
_LAST_WORDS = 2.0  # seconds after total_timeout for calls under way, which are paid for
_WHEN_INTERRUPTED = 20.0  # seconds after Ctrl-C for the same; a second one ends the wait


class _Ending:
    """How one lot of requests comes to an end: no new call is begun once ``stop`` was called, and
    those that are under way (``calling``) are let come in, for they are paid for."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.calling: set[asyncio.Task[None] | None] = set()
        self.failures: list[Exception] = []

    def stop(self, failure: Exception | None = None) -> None:
        self.failures += [failure] if failure is not None else []
        self.event.set()

    async def wait(
        self, workers: Sequence[asyncio.Task[None]], seconds: float | None, grace: float
    ) -> bool:
        """Until all ``workers`` are done, or ``stop`` and ``grace`` seconds; at most ``seconds``.
        Whether these were over."""
        if not workers:
            return False
        stopped = asyncio.ensure_future(self.event.wait())
        everything = asyncio.ensure_future(asyncio.wait(workers))
        try:
            done, _ = await asyncio.wait(
                [everything, stopped], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            self.event.set()
            for worker in workers:
                if worker not in self.calling:
                    worker.cancel()
            await asyncio.wait(workers, timeout=grace if done else _LAST_WORDS)
            return not done
        finally:
            for task in (*workers, stopped, everything):
                task.cancel()
            await asyncio.gather(*workers, stopped, everything, return_exceptions=True)


class OpenAIBackend:
    """A model behind chat completions or completions; ``config`` says where and within which
    limits. The client lives in a thread with an event loop of its own, from the first request until
    ``close``. A call whose outcome is unknown (timed out, cut off, or without a count of its
    tokens) counts at its worst case towards ``max_cost``."""

    def __init__(self, config: JudgeConfig, purse: Purse | None = None) -> None:
        """``purse`` is money shared with other backends (default: ``max_cost``). Raises
        ConfigError: no such tokenizer."""
        self._config = config
        self._key = server.find_key(config)
        self._faults = server.Faults(config, self._key)
        self._count = TokenCounter(config.tokenizer)
        self._requests = Pace(config.requests_per_minute)
        self._tokens = Pace(config.tokens_per_minute)
        self._purse = purse or Purse(config.max_cost)
        self.usage = Usage(
            cost=0.0 if config.prices else None
        )  # what was sent and what it cost since the backend was opened
        self._client: AsyncOpenAI | None = None
        self._lock = threading.Lock()
        self._thread = contextlib.ExitStack()
        self._portal: BlockingPortal | None = None
        self._answered = self._given_up_in_a_row = 0

    @property
    def identity(self) -> str:
        """Server, path, kind of endpoint and model, and a hash of what else is sent."""
        url = urlsplit(self._config.base_url)
        name = f"openai:{url.netloc}{url.path.rstrip('/')}:{self._config.endpoint}:{self._config.model}"  # noqa: E501
        if not self._config.extra_body:
            return name
        extra = json.dumps(dict(self._config.extra_body), sort_keys=True)
        return f"{name}:{hashlib.sha256(extra.encode()).hexdigest()[:16]}"

    def estimate(self, requests: Sequence[Request]) -> Estimate:
        """Tokens and cost of asking each of ``requests`` once, every answer being as long as it may
        be."""
        return self._count.estimate(
            requests, self._config.prices.cost if self._config.prices else None
        )

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See :class:`judges.answers.Backend`. An interrupt is raised after what had arrived has
        been given out. Raises BackendDown: the server cannot be reached or refuses everybody,
        ``max_cost`` is reached, ``total_timeout`` is over, or eight requests in a row were given
        up. Raises ConfigError: there is no key for a server that is not a local one."""
        server.require_key(self._config)
        return self._stream(requests)

    def close(self) -> None:
        """Cancels what is under way, closes the connections and ends the thread; a later request
        starts a new one."""
        with self._lock:
            portal, self._portal = self._portal, None
            client, self._client = self._client, None
        if portal is not None:
            if client is not None:
                portal.start_task_soon(client.close).result(10)
            portal.call(portal.stop, True)
            self._thread.close()

    def _stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """The answers as they come; then the exception, if there is one. If the caller stops early,
        what is under way is cancelled. After a KeyboardInterrupt it is let come in and given out,
        so that it can be saved; then the interrupt goes on."""
        arrived: queue.SimpleQueue[tuple[int, Answer] | None] = queue.SimpleQueue()
        ending = _Ending()

        async def run() -> None:
            try:
                await self._answer_all(requests, arrived.put, ending)
            finally:
                arrived.put(None)

        with self._lock, _uninterrupted():
            if self._portal is None:
                self._portal = self._thread.enter_context(start_blocking_portal())
            portal, future = self._portal, self._portal.start_task_soon(run)
        try:
            yield from iter(arrived.get, None)
        except KeyboardInterrupt:
            if ending.calling:
                logger.warning(
                    "interrupted: waiting for %d calls under way (Ctrl-C again leaves them)",
                    len(ending.calling),
                )
            portal.start_task_soon(ending.stop)
            try:
                yield from iter(lambda: arrived.get(timeout=_WHEN_INTERRUPTED), None)
            except queue.Empty:
                logger.warning("calls under way did not come in within %.0f s", _WHEN_INTERRUPTED)
            finally:
                future.cancel()
            raise
        except BaseException:
            future.cancel()
            raise
        future.result()

    async def _answer_all(
        self,
        requests: Sequence[Request],
        put: Callable[[tuple[int, Answer]], None],
        ending: _Ending,
    ) -> None:
        waiting = iter(enumerate(requests))

        async def work() -> None:
            for number, request in waiting:
                try:
                    answer = await self._answer_one(request, ending)
                    put((number, answer))
                    self._judge_the_server(answer)
                except Exception as failure:  # noqa: BLE001  raised below, when what is under way has come in
                    ending.stop(failure)
                if (
                    ending.event.is_set()
                ):  # what was under way is paid for and has come in; nothing new is begun
                    return

        self._connect()
        workers = [
            asyncio.create_task(work()) for _ in range(min(self._config.concurrency, len(requests)))
        ]
        is_over = await ending.wait(workers, self._config.total_timeout, self._config.timeout)
        for failure in ending.failures:
            raise (
                BackendDown(self._no_money(failure))
                if isinstance(failure, BudgetSpent)
                else failure
            )
        if is_over:
            limit = f"total_timeout of {self._config.total_timeout:g} s is over"
            raise BackendDown(f"judge {self._config.name}: {limit}; {server.AGAIN}")

    def _no_money(self, error: BudgetSpent) -> str:
        purse, ours = self._purse, self.usage.cost or 0.0
        share = (
            f" (of which this process has ${purse.limit:g})"
            if purse.limit != self._config.max_cost
            else ""
        )
        others = (
            f" and ${purse.spent - ours:.6f} by earlier tasks of the run"
            if purse.spent > ours
            else ""
        )
        return (
            f"judge {self._config.name}: max_cost of ${self._config.max_cost:g}{share} leaves no"
            f" room for another call: ${ours:.6f} spent on {self.usage.calls} calls{others}, and"
            f" the next may cost ${error.needed:.6f}; what was answered is kept: run the same"
            " command again to go on with a fresh budget"
        )

    def _connect(self) -> None:
        if self._client is None:
            from openai import AsyncOpenAI, DefaultAioHttpClient

            for name in ("httpx", "httpx2"):  # a line for every call, at INFO
                logging.getLogger(name).setLevel(logging.WARNING)
            url = self._config.base_url
            by_proxy, hooks = not server.is_local(url), server.hooks(url, self._key)
            http = DefaultAioHttpClient(
                trust_env=by_proxy, follow_redirects=False, event_hooks=hooks
            )
            # Without a timeout: ours is of the whole try.
            self._client = AsyncOpenAI(
                base_url=url,
                api_key=self._key or "none",
                max_retries=0,
                timeout=None,
                http_client=http,
            )

    async def _answer_one(self, request: Request, ending: _Ending) -> Answer:
        """The answer, or after all retries one with an error; an exception where no other request
        will fare better."""
        attempt = 0
        while True:
            try:
                return await self._try(request, ending)
            except server.TryAgain as failure:
                if failure.unreachable and not self._answered and attempt + 1 >= _TRIES_TO_CONNECT:
                    where = f"judge {self._config.name}: {self._config.base_url} cannot be reached"
                    raise BackendDown(
                        f"{where}: {failure}; is the server running? {server.AGAIN}"
                    ) from None
                if ending.event.is_set():
                    raise asyncio.CancelledError from None  # another try would be a new call
                if attempt >= self._config.max_retries:
                    self._given_up_in_a_row += 1
                    return Answer(None, error=f"{failure} (given up after {attempt + 1} tries)")
                wait = delay(attempt, failure.retry_after)
                logger.debug("%s; trying again in %.1f s", failure, wait)
            await asyncio.sleep(wait)
            attempt += 1

    async def _try(self, request: Request, ending: _Ending) -> Answer:
        """One call: an answer, or one with an error if the server finds fault with this request."""
        from aiohttp import ClientError
        from openai import APIConnectionError, APIStatusError

        config = self._config
        expected = self._count.expected(request) + request.decoding.max_tokens
        prices = config.prices
        worst = (
            prices.cost(self._count.at_most(request), request.decoding.max_tokens)
            if prices
            else 0.0
        )
        await self._requests.wait()
        await self._tokens.wait(expected)
        await self._purse.reserve(worst)
        cost, used = worst, float(expected)  # unless something better is known
        self.usage = self.usage.plus(calls=1)
        assert self._client is not None
        ending.calling.add(asyncio.current_task())
        try:
            content = server.to_body(
                request, config.model, config.endpoint, config.max_tokens_name, config.extra_body
            )
            call = self._client.post(server.PATHS[config.endpoint], cast_to=str, body=content)
            answer = server.read_reply(
                await asyncio.wait_for(call, config.timeout), config.endpoint
            )
            cost, used = self._count_tokens(answer.prompt_tokens, answer.completion_tokens) or (
                cost,
                used,
            )
        except server.BadReply as error:
            cost, used = self._count_tokens(error.prompt_tokens, error.completion_tokens) or (
                cost,
                used,
            )
            raise server.TryAgain(self._faults.quoted(str(error))) from None
        except APIStatusError as error:
            cost, used = 0.0, 0.0
            return await self._faults.of_status(error, self._client)
        except asyncio.TimeoutError:
            raise server.TryAgain(f"no answer within {config.timeout:g} s") from None
        except (APIConnectionError, ClientError, OSError) as error:
            failure = self._faults.of_connection(error)
            cost, used = (0.0, 0.0) if failure.unreachable else (cost, used)
            raise failure from None
        finally:
            ending.calling.discard(asyncio.current_task())
            self._purse.settle(worst, cost)
            if prices:
                self.usage = self.usage.plus(cost=cost)
            self._tokens.give_back(expected - used)
        alternatives = answer.first_token_logprobs
        if alternatives is not None:
            alternatives = tuple(
                (self._faults.hidden(token), logprob) for token, logprob in alternatives
            )
        text = self._faults.hidden(answer.text or "")
        return dataclasses.replace(answer, text=text, first_token_logprobs=alternatives)

    def _judge_the_server(self, answer: Answer) -> None:
        if answer.error is None:
            self._answered += 1
            self._given_up_in_a_row = 0
            return
        self.usage = self.usage.plus(errors=1)
        if self._given_up_in_a_row >= GIVEN_UP_IN_A_ROW:
            self._given_up_in_a_row = 0
            where, why = (
                f"judge {self._config.name}: {self._config.base_url}",
                f"the last: {answer.error}",
            )
            raise BackendDown(
                f"{where}: {GIVEN_UP_IN_A_ROW} requests in a row got no answer, {why};"
                f" {server.AGAIN}"
            )

    def _count_tokens(
        self, prompt: int | None, completion: int | None
    ) -> tuple[float, float] | None:
        """(USD, tokens) of a call whose tokens the server has counted."""
        if prompt is None:
            return None
        completion = completion or 0
        self.usage = self.usage.plus(prompt_tokens=prompt, completion_tokens=completion)
        return self._config.prices.cost(prompt, completion) if self._config.prices else 0.0, float(
            prompt + completion
        )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block is over: in the middle of it, it would leave a thread behind
    that nothing ends."""
    came: list[tuple[int, FrameType | None]] = []
    if threading.current_thread() is not threading.main_thread():  # where no signal comes
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])
