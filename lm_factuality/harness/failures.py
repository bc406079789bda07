"""Failures of the evaluated model during a run: waits for busy servers, and errors in one line."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lm_factuality.ground.errors import ModelError, printable
from lm_factuality.ground.http import parse_retry_after, retry_delay
from lm_factuality.ground.packages import first_line, replaced

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI
    from tenacity import RetryCallState

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
    client_logger.addFilter(_is_not_about_failed_try)
    try:
        with replaced(
            lm,
            model_call=waits.retry_while_busy(lm.model_call),
            amodel_call=waits.retry_while_busy(lm.amodel_call),
        ):
            yield
    finally:
        client_logger.removeFilter(_is_not_about_failed_try)


def _is_not_about_failed_try(record: logging.LogRecord) -> bool:
    """Tell whether a line of lm_eval's log is about anything else than one failed try."""
    return not record.getMessage().startswith(_LOGGED_TRIES)


class _Waits:
    """The waits of all requests of one client for its server."""

    def __init__(self, lm: "TemplateAPI") -> None:
        """Prepare for the first error of the client's server."""
        self._url = lm.base_url
        self._is_over = False  # whether a request has waited in vain, so that none waits any more
        self._logged: set[int | None] = set()  # the HTTP statuses of errors that were logged

    def retry_while_busy(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method of the client, so that it waits and tries again while the server is busy.

        Args:
            call: The method, sync or async, which sends a request.
        """
        # Only clients of servers need this package, which lm_eval installs with them.
        import tenacity

        retry = tenacity.retry(
            retry=tenacity.retry_if_exception(self._retries_after),
            stop=self._give_up_after_long_wait,
            wait=_seconds_to_wait,
            reraise=True,
        )
        return retry(call)

    def _retries_after(self, error: BaseException) -> bool:
        """Tell whether a request is sent again after an error, because the server is busy.

        Args:
            error: The error, which is logged. After other errors, the client itself tries again.
        """
        # An interrupt by the user is no error.
        if not isinstance(error, Exception):
            return False
        self._log_first_of_status(error)
        return status_of(error) in _BUSY_STATUSES

    def _log_first_of_status(self, error: Exception) -> None:
        """Log an error of the server, unless one with the same HTTP status was logged before."""
        status = status_of(error)
        if status not in self._logged:
            self._logged.add(status)
            logger.warning("%s: %s; trying again", self._url, describe_server_error(error))

    def _give_up_after_long_wait(self, state: "RetryCallState") -> bool:
        """Tell whether a request gives up. Once one has waited too long, all others give up too."""
        if (state.seconds_since_start or 0) > _LONGEST_WAIT:
            self._is_over = True
        return self._is_over


def _seconds_to_wait(state: "RetryCallState") -> float:
    """Return how long a request waits after its last try has failed."""
    error = state.outcome.exception() if state.outcome else None
    headers = _from_reply(error, "headers", "headers") or {}
    return retry_delay(state.attempt_number - 1, parse_retry_after(headers.get("Retry-After")))


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
    # When a request to a server fails, asyncio would log a traceback for each other request that is
    # still open. It may do so after this block, so the level stays.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        yield
    except Exception as error:
        message = _explain(error, model, base_url)
        if not message:
            raise
        raise ModelError(message) from error


def _explain(error: Exception, model: str, base_url: str) -> str:
    """Explain an error of the evaluated model in one line that says what to do.

    Args:
        error: The error.
        model: The model class, from lm_eval's ``--model``.
        base_url: The address of the model's server; empty for a local model.

    Returns:
        The line; empty if the error may be a defect of a program, which needs a traceback.
    """
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
    phrase = _from_reply(error, "message", "reason") or ""
    return printable(f"HTTP {status} {phrase}".strip())


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error of aiohttp or requests, such as 429; None without one."""
    status: int | None = _from_reply(error, "status", "status_code")
    return status


def _from_reply(error: BaseException | None, aiohttp_name: str, requests_name: str) -> Any:  # noqa: ANN401
    """Return what an error says about the server's reply; None if there was no reply.

    Args:
        error: An error of aiohttp, which has attributes such as ``status`` itself, or one of
            requests, which has a ``response`` with attributes such as ``status_code``.
        aiohttp_name: The name of the attribute in aiohttp.
        requests_name: Its name in requests.
    """
    response = getattr(error, "response", None)
    return getattr(error, aiohttp_name, None) or getattr(response, requests_name, None)
