"""Download of cited pages: robots.txt, redirects, pauses between requests, and the cache.

``data fetch-references`` calls `fetch_references`. People chose the pages, but a program requests
them, so it obeys robots.txt (RFC 9309). It requests one document at a time.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import anyio
import httpx
from anyio.from_thread import start_blocking_portal
from pydantic import Field

from lm_factuality.ground.files import locked_folder
from lm_factuality.ground.packages import need
from lm_factuality.retrieval.references.cache import (
    CachedReference,
    FetchedReference,
    ReferenceCache,
)
from lm_factuality.retrieval.references.connection import HttpResponse, Limits, Network
from lm_factuality.retrieval.references.links import DeadLinkError, normalise_url
from lm_factuality.retrieval.references.text import extract_text

if TYPE_CHECKING:
    from protego import Protego

# RFC 9309 asks for at least 500 KiB of a robots.txt, and for five redirects (2.3.1.2).
_ROBOTS_BYTES = 500_000
_ROBOTS_REDIRECTS = 5
# A longer Crawl-delay counts as this many seconds.
_LONGEST_DELAY = 30.0
_SECONDS_PER_DAY = 86_400
# The name of a program, with which a User-Agent begins (RFC 9110, 10.1.5).
_PRODUCT = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_AGENT = (
    "one line of ASCII text with the name of a program first, such as my-lab/1.0 (me@example.org)"
)


@dataclass(frozen=True)
class RequestSettings:
    """The settings with which servers are asked for pages."""

    user_agent: Annotated[str, Field(pattern=f"^{_PRODUCT}[ -~]*$", description=_AGENT)] = (
        "lm-factuality"
    )
    """The header by which servers recognise the program."""

    delay: Annotated[float, Field(ge=0, le=_SECONDS_PER_DAY)] = 1.0
    """The seconds between two requests to a host. Its robots.txt may ask for more."""


def fetch_references(
    urls: Sequence[str],
    cache: ReferenceCache,
    network: Network,
    delay: float,
    *,
    retry_dead: bool = False,
) -> Iterator[FetchedReference]:
    """Fetch the documents of all URLs that are not in the cache.

    A reference is in the cache before it is yielded, so that an interrupted run can be resumed.

    Args:
        urls: The URLs, normalised. Equal ones are fetched once.
        cache: The cache to read and to fill.
        network: The client that sends the requests.
        delay: The seconds between two requests to a host, unless its robots.txt asks for more.
        retry_dead: Whether to fetch links again that are dead in the cache.

    Yields:
        The reference of each distinct URL, which may be dead. Those in the cache come first.

    Raises:
        ConfigError: A library is missing.
        DataError: The cache cannot be read or written, or another run is filling it.
    """
    # A library that is missing is an error before the first request.
    need_libraries()

    missing_urls = []
    for url in dict.fromkeys(urls):
        reference = cache.get(url)
        if reference is None or (reference.is_dead and retry_dead):
            missing_urls.append(url)
        else:
            yield FetchedReference(reference, from_cache=True)
    if not missing_urls:
        return

    busy = "another run is filling this cache; wait until it has ended"
    with locked_folder(cache.folder, busy, "name a folder that can be written: --cache DIR"):
        fetcher = Fetcher(network, delay)
        # The portal cancels a running request if the caller stops the iteration.
        with start_blocking_portal() as portal:
            for url in missing_urls:
                reference = portal.call(fetcher.fetch, url)
                cache.put(reference)
                yield FetchedReference(reference, from_cache=False)


def need_libraries() -> None:
    """Check that the libraries that read robots.txt files and documents are installed.

    Raises:
        ConfigError: A library is missing.
    """
    for library in ("protego", "pypdf", "resiliparse"):
        need(library, "fetching references", "references")


@dataclass
class _Visits:
    """What was requested to fetch one reference."""

    urls: list[str] = field(default_factory=list)
    """The URL of the link, and then the URLs of redirects."""

    last_status: int | None = None
    """The HTTP status of the last response. None without one."""


class Fetcher:
    """Fetches documents one after the other, with a pause between two requests to a host."""

    def __init__(self, network: Network, delay: float) -> None:
        """Create a fetcher that has not sent a request yet."""
        self._network = network
        self._delay = delay
        self._robots = Robots(network)
        # The earliest time (`time.monotonic`) of the next request to each host.
        self._next_request_times: dict[str, float] = {}

    async def fetch(self, url: str) -> CachedReference:
        """Fetch the document of a URL, following redirects, and extract its text.

        Returns:
            The reference with its text, or a dead one with the reason why it has none.
        """
        visits = _Visits()
        try:
            response = await self._follow_redirects(normalise_url(url), visits)
            return _read_reference(url, response, self._network.limits)
        except DeadLinkError as dead_link:
            return CachedReference(
                url,
                kind=dead_link.kind,
                error=str(dead_link),
                final_url=visits.urls[-1] if visits.urls else url,
                status=visits.last_status,
                fetched_at=_now(),
            )

    async def _follow_redirects(self, url: str, visits: _Visits) -> HttpResponse:
        """Request a URL, follow redirects, and return the first response that is not a redirect.

        Args:
            url: A normalised URL.
            visits: Gets each URL that is requested, also if there is no response.

        Raises:
            DeadLinkError: There is no response, or there are too many redirects.
        """
        # Besides the URL itself, as many URLs may be requested as redirects are followed.
        max_urls = 1 + self._network.limits.max_redirects
        while True:
            if url in visits.urls or len(visits.urls) == max_urls:
                raise DeadLinkError("redirects", f"redirects in a loop or too many: {url}")
            visits.urls.append(url)
            response = await self._request(url)
            visits.last_status = response.status
            if response.redirect_url is None:
                return response
            url = response.redirect_url

    async def _request(self, url: str) -> HttpResponse:
        """Request a normalised URL as soon as its host may be asked again.

        Raises:
            DeadLinkError: robots.txt disallows the request, or there is no response.
        """
        crawl_delay = await self._robots.check_allowed(url)
        host = httpx.URL(url).host
        # For a host that was not asked before, the time is in the past, and the wait is 0.
        wait = self._next_request_times.get(host, 0.0) - time.monotonic()
        await anyio.sleep(max(0.0, wait))
        self._next_request_times[host] = time.monotonic() + max(self._delay, crawl_delay)
        return await self._network.get(url, self._network.limits.max_bytes)


def _read_reference(url: str, response: HttpResponse, limits: Limits) -> CachedReference:
    """Extract the text of a response that is not a redirect.

    Args:
        url: The URL of the link, from which redirects may have led to the response.
        response: The response with the document.
        limits: The limits for the extraction of the text.

    Raises:
        DeadLinkError: The status is not 200, or the document has no text.
    """
    # The text of an error page is not the text of the document.
    if response.status != httpx.codes.OK:
        raise DeadLinkError("http", f"status {response.status}")
    extracted = extract_text(response.headers, response.body, limits)
    return CachedReference(
        url,
        text=extracted.text,
        title=extracted.title or None,
        final_url=response.url,
        status=response.status,
        fetched_at=_now(),
        content_type=response.headers.get("Content-Type"),
        sha256=hashlib.sha256(response.body).hexdigest(),
        num_bytes=len(response.body),
        note=extracted.note or None,
    )


def _now() -> str:
    """Return the time in UTC, such as ``2025-06-01T12:00:00+00:00``."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


class Robots:
    """The rules in the robots.txt file of each origin, which is requested once."""

    def __init__(self, network: Network) -> None:
        """Remember the client, with which robots.txt files will be requested."""
        self._network = network
        # A robots.txt may have rules for a program: my-lab of my-lab/1.0 (me@example.org).
        self._program = re.findall(_PRODUCT, network.user_agent)[0]
        self._rules: dict[str, Protego] = {}

    async def check_allowed(self, url: str) -> float:
        """Check that a site's robots.txt allows a request, and return the delay that it demands.

        Returns:
            The seconds between two requests to the origin, from 0 to 30.

        Raises:
            DeadLinkError: robots.txt disallows the request or cannot be read.
        """
        robots_url = str(httpx.URL(url).join("/robots.txt"))
        if robots_url not in self._rules:
            try:
                self._rules[robots_url] = await self._fetch_rules(robots_url)
            except DeadLinkError as error:
                # Without the file nobody knows whether the page may be fetched, so it is not.
                raise DeadLinkError(
                    error.kind, f"{robots_url}, which may say no, cannot be read: {error}"
                ) from None

        # Protego obeys the rules for this program, or else those for all programs.
        rules = self._rules[robots_url]
        if not rules.can_fetch(url, self._program):
            raise DeadLinkError("robots", f"{robots_url} does not allow it to {self._program}")
        return min(rules.crawl_delay(self._program) or 0.0, _LONGEST_DELAY)

    async def _fetch_rules(self, robots_url: str) -> Protego:
        """Request a robots.txt file, following redirects, and parse its rules.

        Returns:
            The rules. They allow everything if there is no file.

        Raises:
            DeadLinkError: The server has an error or sends no response.
        """
        from protego import Protego

        url: str | None = robots_url
        num_requests = 0
        while url is not None and num_requests <= _ROBOTS_REDIRECTS:
            response = await self._network.get(url, _ROBOTS_BYTES)
            if response.status == httpx.codes.OK:
                return Protego.parse(response.body.decode("utf-8", "replace"))
            if response.status >= httpx.codes.INTERNAL_SERVER_ERROR:
                # RFC 9309: while a server has errors, everything is disallowed.
                raise DeadLinkError("robots", f"status {response.status}")
            url = response.redirect_url
            num_requests += 1

        # RFC 9309: status 4xx and too many redirects mean that there is no file.
        return Protego.parse("")
