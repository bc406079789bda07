"""Failures of the evaluated model during a run: waits for busy servers, and errors in one line."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lm_factuality.ground.errors import ModelError, printable
from lm_factuality.ground.http import parse_retry_after, retry_delay
from lm_factuality.ground.packages import first_line, replaced

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

# In a run lm_eval shows the lines of its own loggers alone.
logger = logging.getLogger("lm_eval.evaluator")

_BUSY_STATUSES = (429, 503)  # HTTP: too many requests, service unavailable
_LONGEST_WAIT = 90.0  # seconds that one request waits for a busy server
_LIBRARIES = ("requests", "urllib3", "aiohttp", "httpx")  # of lm_eval's clients of servers

_LOGGED_TRIES = ("API request failed", "Exception:", "Retry attempt")
"""How the lines begin that lm_eval logs about a failed try."""


@contextmanager
def waits_for_busy_server(lm: "TemplateAPI") -> Iterator[None]:
    """Let lm_eval's client of a server wait while the server is busy, within a ``with`` block.

    By itself the client gives up after about three seconds. A request now waits for up to 90 s, or
    as long as the server asks it to. lm_eval's lines on each failed try become one line.

    Args:
        lm: The client.
    """
    waits = _Waits(lm)
    client_logger = logging.getLogger("lm_eval.models.api_models")
    client_logger.addFilter(_is_about_more_than_a_try)
    try:
        with replaced(
            lm, model_call=waits.call(lm.model_call), amodel_call=waits.acall(lm.amodel_call)
        ):
            yield
    finally:
        client_logger.removeFilter(_is_about_more_than_a_try)


def _is_about_more_than_a_try(record: logging.LogRecord) -> bool:
    """Tell whether a line of lm_eval's log is about anything else than one failed try."""
    return not record.getMessage().startswith(_LOGGED_TRIES)


class _Waits:
    """The waits of all requests of one client for its server."""

    def __init__(self, lm: "TemplateAPI") -> None:
        """Begin without having waited."""
        self._url = lm.base_url
        self._is_over = False  # once a request has waited in vain, no other one waits
        self._logged: set[int | None] = set()

    def call(self, model_call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the client's method ``model_call``, which now waits while the server is busy."""

        def call_and_wait(*arguments: Any, **options: Any) -> object:
            deadline = time.monotonic() + _LONGEST_WAIT
            attempt = 0
            while True:
                try:
                    return model_call(*arguments, **options)
                except Exception as error:
                    seconds = self._seconds_to_wait(error, attempt, deadline)
                    if seconds is None:
                        raise
                attempt += 1
                time.sleep(seconds)

        return call_and_wait

    def acall(self, amodel_call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the client's method ``amodel_call``, which now waits while the server is busy."""

        async def call_and_wait(*arguments: Any, **options: Any) -> object:
            deadline = time.monotonic() + _LONGEST_WAIT
            attempt = 0
            while True:
                try:
                    return await amodel_call(*arguments, **options)
                except Exception as error:
                    seconds = self._seconds_to_wait(error, attempt, deadline)
                    if seconds is None:
                        raise
                attempt += 1
                await asyncio.sleep(seconds)

        return call_and_wait

    def _seconds_to_wait(self, error: Exception, attempt: int, deadline: float) -> float | None:
        """Return how long to wait before a request is sent again; None to give up.

        Args:
            error: The error of the last try.
            attempt: The number of tries before it.
            deadline: When the request is to give up, on the monotonic clock.
        """
        status = status_of(error)
        if status not in self._logged:
            self._logged.add(status)
            logger.warning("%s: %s; trying again", self._url, describe_server_error(error))
        if status not in _BUSY_STATUSES or self._is_over:
            return None
        if time.monotonic() > deadline:
            self._is_over = True
            return None
        return retry_delay(attempt, parse_retry_after(_headers_of(error).get("Retry-After")))


@contextmanager
def explained_failures(model: str, base_url: str) -> Iterator[None]:
    """Turn errors of the model within a ``with`` block into one line that says what to do.

    Args:
        model: The model class, from lm_eval's ``--model``.
        base_url: The address of the model's server; empty for a local model.

    Raises:
        ModelError: The device is out of memory, the server does not answer, or the model cannot be
            loaded. Other errors are defects and pass unchanged.
    """
    # Tasks that are left when one has failed would each log a traceback.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        yield
    except Exception as error:
        message = _explain(error, model, base_url)
        if not message:
            raise
        raise ModelError(message) from error


def _explain(error: Exception, model: str, base_url: str) -> str:
    """Return what went wrong and what to do; empty if the error may be a defect of a program."""
    # Classes are compared by name, so that their packages need not be imported here.
    if type(error).__name__ == "OutOfMemoryError":
        return (
            f"{first_line(error)}; take a smaller --batch_size, --model hf-tree in place of hf,"
            " which makes its passes smaller by itself, dtype=bfloat16 in --model_args, or a device"
            " with more memory that is free"
        )
    is_of_client = type(error).__module__.partition(".")[0] in _LIBRARIES
    if base_url and (is_of_client or isinstance(error, TimeoutError)):
        return (
            f"{base_url}: no answer, after several tries: {describe_server_error(error)}; see that"
            " the server is up and not overloaded (fewer num_concurrent in --model_args), and give"
            " the same command again"
        )
    if isinstance(error, ImportError):
        return (
            f"--model {model} cannot be loaded: {first_line(error)}; install that package, or"
            " choose another --model"
        )
    # transformers raises a plain OSError, without a number, for files that it cannot find.
    if type(error) is OSError and error.errno is None:
        return (
            f"--model {model} cannot be loaded: {first_line(error)}; name a checkpoint or tokenizer"
            " on this disk, or one on the Hub where there is a network"
        )
    return ""


def describe_server_error(error: Exception) -> str:
    """Describe the error of a request, such as ``HTTP 429 Too Many Requests``, without its URL."""
    status = status_of(error)
    if status is None:
        return printable(f"{type(error).__name__}: {first_line(error)}")
    response = getattr(error, "response", None)
    # aiohttp's errors have the phrase themselves, those of requests have it in the response.
    phrase = getattr(error, "message", None) or getattr(response, "reason", None) or ""
    return printable(f"HTTP {status} {phrase}".strip())


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error of aiohttp or requests; None if it has none."""
    # aiohttp's errors have the status themselves, those of requests have it in the response.
    response = getattr(error, "response", None)
    return getattr(error, "status", None) or getattr(response, "status_code", None)


def _headers_of(error: Exception) -> Mapping[str, str]:
    """Return the headers of the reply that an error is about; empty if there is no reply."""
    response = getattr(error, "response", None)
    return getattr(error, "headers", None) or getattr(response, "headers", None) or {}
