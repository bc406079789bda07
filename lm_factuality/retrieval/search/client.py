"""One request to a search service: what is sent, what comes back, and what failures mean.

`lm_factuality.retrieval.search.service` calls a `SearchClient` from several threads.
"""

import logging
import time
from collections.abc import Mapping
from contextlib import closing

import httpx

from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.http import RetryableError, is_local, parse_retry_after
from lm_factuality.ground.replies import KeyMask
from lm_factuality.retrieval.references.connection import tls_context
from lm_factuality.retrieval.search.config import SearchConfig
from lm_factuality.retrieval.search.response import FoundPage

RESUME_HINT = "results so far are kept: run the same command again to continue"
_MAX_BYTES = 20_000_000
_MAX_QUOTED = 200  # characters of a server's message
_MAX_QUOTED_BODY = 80  # characters of an answer that is not JSON
_HEADERS = {"Accept": "application/json", "User-Agent": "lm-factuality"}

# HTTP statuses below 500 after which the same request may succeed, such as 429 (too many requests).
_RETRIED_STATUSES = (408, 409, 425, 429)
# HTTP statuses that every request would get, with what to do.
_FATAL_STATUSES: Mapping[int, str] = {
    401: "see that the environment variable named by key_env holds the key of the service",
    402: "see the account of the service",
    403: (
        "see that the environment variable named by key_env holds the key of the service; SearXNG"
        " answers so unless search.formats of its settings.yml lists json"
    ),
    404: "check url in the YAML of the service",
    405: "check request: method in the YAML of the service",
}


class FailedSearchError(Exception):
    """A query got no results that can be used, and trying again would not help."""


class RetryableSearchError(RetryableError, FailedSearchError):
    """A query got no results, but the same request may succeed later."""


class SearchClient:
    """The HTTP client of one search service. Any number of threads may call it at once."""

    def __init__(self, config: SearchConfig) -> None:
        """Look up the key, and open a client. Nothing is sent.

        Raises:
            ConfigError: The environment variable with the key is not set.
        """
        self._config = config
        self._key = config.find_key()
        self._key_mask = KeyMask(self._key)
        # httpx logs the address of every call, which may hold the key as a parameter.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._client = httpx.Client(
            verify=tls_context(),
            timeout=config.timeout,
            headers=_HEADERS,
            # Following a redirect would send the key to a server that nobody named.
            follow_redirects=False,
            # A local service is not reached through the proxies of the environment.
            trust_env=not is_local(config.url),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def search(self, query: str) -> list[FoundPage]:
        """Send one query to the service, without retries.

        Returns:
            The results, at most as many as the configuration says.

        Raises:
            RetryableSearchError: The same request may succeed later.
            FailedSearchError: The service refuses this query, or its answer has another form.
            BackendDownError: No request can succeed.
        """
        body = self._send(query)
        try:
            content = parse_json(body, refuse_repeated_keys=False)
        except ValueError as error:
            beginning = self._key_mask.mask_text(body)[:_MAX_QUOTED_BODY]
            raise RetryableSearchError(
                self._shorten_without_key(f"an answer that is not JSON ({error}): {beginning!r}")
            ) from None
        try:
            pages = self._config.response.read(self._key_mask.mask_json(content))
        except ValueError as error:
            raise FailedSearchError(self._shorten_without_key(str(error))) from None
        return pages[: self._config.results]

    def _send(self, query: str) -> str:
        """Send one query and return the body of the answer, which may hold the key of the service.

        Raises:
            RetryableSearchError: There is no whole answer, or its status is temporary.
            FailedSearchError: The service refuses this query.
            BackendDownError: Every query would fail in the same way.
        """
        timeout = self._config.timeout
        try:
            request = self._make_request(query)
            with closing(self._client.send(request, stream=True)) as response:
                body = _read_body(response, timeout)
        except httpx.ConnectError as error:
            reason = self._shorten_without_key(f"connection failed: {error}")
            raise RetryableSearchError(reason, is_unreachable=True) from None
        except httpx.TimeoutException:
            raise RetryableSearchError(f"no answer within {timeout:g} s") from None
        # A key with a line break, for example, is no header. Its error would quote the key.
        except (httpx.RequestError, httpx.InvalidURL, ValueError) as error:
            raise RetryableSearchError(self._shorten_without_key(f"no answer: {error}")) from None

        text = body.decode("utf-8", "replace")
        if response.status_code != httpx.codes.OK:
            self._raise_for_status(response, text)
        return text

    def _make_request(self, query: str) -> httpx.Request:
        """Make the request for a query.

        Raises:
            FailedSearchError: A template of the configuration cannot be rendered.
        """
        try:
            rendered = self._config.request.render(query, self._key, self._config.results)
        except ValueError as error:
            raise FailedSearchError(self._shorten_without_key(str(error))) from None
        return self._client.build_request(
            rendered.method,
            self._config.url,
            params=rendered.params,
            json=rendered.json,
            headers=rendered.headers,
        )

    def _raise_for_status(self, response: httpx.Response, text: str) -> None:
        """Decide what an HTTP status other than 200 means for this query and for the others.

        Raises:
            RetryableSearchError: The status is temporary, such as 429 or 503.
            BackendDownError: Every query would fail in the same way.
            FailedSearchError: The service refuses this query alone.
        """
        status = response.status_code
        problem = f"HTTP {status}"
        # An error in HTML is a page for people, which is long and adds little to the status.
        if not text.lstrip().startswith("<"):
            problem = self._shorten_without_key(f"{problem}: {text}")
        if status in _RETRIED_STATUSES or status >= 500:
            seconds = parse_retry_after(response.headers.get("Retry-After"))
            raise RetryableSearchError(problem, seconds)
        advice = self._fatal_advice(response)
        if not advice:
            raise FailedSearchError(f"refused: {problem}")
        raise BackendDownError(f"{self._config.url}: {problem}; {advice}; {RESUME_HINT}")

    def _fatal_advice(self, response: httpx.Response) -> str:
        """Return what to do about a status that every query would get, or else an empty text."""
        if response.status_code >= 400:
            return _FATAL_STATUSES.get(response.status_code, "")
        target = self._shorten_without_key(response.headers.get("Location", "nowhere"))
        return f"it redirects to {target}, which is not followed; change url"

    def _shorten_without_key(self, text: str) -> str:
        """Shorten a message to one line, and take the key of the service out of it."""
        line = " ".join(self._key_mask.mask_text(text).split())
        return line if len(line) <= _MAX_QUOTED else f"{line[:_MAX_QUOTED]} ..."


def _read_body(response: httpx.Response, seconds: float) -> bytes:
    """Download a body of limited size within a limited time.

    The timeout of httpx starts anew with every byte, so a slow server could hold a thread for ever.

    Raises:
        RetryableSearchError: The time is over.
        FailedSearchError: The body is too long.
    """
    deadline = time.monotonic() + seconds
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise FailedSearchError(f"an answer of more than {_MAX_BYTES:,} bytes")
        if time.monotonic() > deadline:
            raise RetryableSearchError(f"no whole answer within {seconds:g} s")
    return bytes(body)
