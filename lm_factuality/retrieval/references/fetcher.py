"""Documents from their links to their texts: robots.txt and redirects.

Pages that people cited are each asked for once, but by a program, so it keeps to robots.txt (RFC
9309). One document is asked for at a time.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import anyio
import httpx
from anyio.from_thread import start_blocking_portal
from pydantic import Field

from lm_factuality.ground.files import locked_folder
from lm_factuality.ground.packages import need
from lm_factuality.retrieval.references.cache import CachedReference, ReferenceCache
from lm_factuality.retrieval.references.connection import HttpResponse, Limits, Network
from lm_factuality.retrieval.references.links import DeadLinkError, normalise
from lm_factuality.retrieval.references.text import extract_text

if TYPE_CHECKING:
    from protego import Protego

# RFC 9309 asks for at least 500 KiB of a robots.txt, and for five redirects (2.3.1.2).
_ROBOTS_BYTES = 500_000
_ROBOTS_REDIRECTS = 5
# Seconds of a Crawl-delay that are kept to.
_LONGEST_DELAY = 30.0
_DAY = 86_400
# The token that begins a User-Agent (RFC 9110, 10.1.5).
_PRODUCT = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_AGENT = (
    "one line of ASCII text with the name of a program first, such as my-lab/1.0 (me@example.org)"
)


@dataclass(frozen=True)
class Manners:
    """How servers are asked."""

    user_agent: Annotated[str, Field(pattern=f"^{_PRODUCT}[ -~]*$", description=_AGENT)] = (
        "lm-factuality"
    )
    delay: Annotated[float, Field(ge=0, le=_DAY)] = 1.0
    """Seconds between two requests to a host, more if its robots.txt asks for more."""


def fetch_references(
    urls: Sequence[str],
    cache: ReferenceCache,
    network: Network,
    manners: Manners,
    *,
    retry_dead: bool = False,
) -> Iterator[tuple[CachedReference, bool]]:
    """Fetch the distinct addresses among ``urls``.

    Each reference is in the cache before it is yielded, so an interrupted run continues where it
    ended.

    Args:
        retry_dead: Whether dead links in the cache are asked for again.

    Yields:
        A reference and whether it was in the cache. Those in the cache come first.

    Raises:
        ConfigError: A library is missing.
        DataError: The cache cannot be used, or another run is filling it.
    """
    for library in ("protego", "pypdf", "resiliparse"):
        need(library, "fetching references", "references")
    missing = []
    for url in dict.fromkeys(urls):
        reference = cache.get(url)
        if reference is None or (reference.is_dead and retry_dead):
            missing.append(url)
        else:
            yield reference, True
    if not missing:
        return
    busy = "another run is filling this cache; wait until it has ended"
    with locked_folder(cache.folder, busy, "name a folder that can: --cache DIR"):
        fetcher = Fetcher(network, manners)
        # The portal cancels what is under way when the caller wants no more.
        with start_blocking_portal() as portal:
            for url in missing:
                reference = portal.call(fetcher.fetch, url)
                cache.put(reference)
                yield reference, False


class Fetcher:
    """Fetches documents one after the other, with a pause between two from one host."""

    def __init__(self, network: Network, manners: Manners) -> None:
        """Fetch through a network, as politely as ``manners`` say."""
        self._network = network
        self._manners = manners
        self._robots = Robots(network, manners)
        # The earliest time (`time.monotonic`) of the next request to each host.
        self._ready: dict[str, float] = {}

    async def fetch(self, url: str) -> CachedReference:
        """Return what is at an address: a reference with text, or a dead one."""
        visited = [url]
        status = None
        try:
            visited = [normalise(url)]
            while True:
                response = await self._request(visited[-1])
                status = response.status
                target = response.redirect
                if target is None:
                    return _read(url, response, self._network.limits)
                if target in visited or len(visited) > self._network.limits.max_redirects:
                    raise DeadLinkError("redirects", f"redirects in a loop or too many: {target}")
                visited.append(target)
        except DeadLinkError as dead:
            return CachedReference(
                url,
                kind=dead.kind,
                error=str(dead),
                final_url=visited[-1],
                status=status,
                fetched_at=_now(),
            )

    async def _request(self, url: str) -> HttpResponse:
        """Ask for a document when its host may be asked."""
        delay = max(self._manners.delay, await self._robots.check(url))
        host = httpx.URL(url).host
        await anyio.sleep(max(0.0, self._ready.get(host, 0.0) - time.monotonic()))
        self._ready[host] = time.monotonic() + delay
        return await self._network.get(url, self._network.limits.max_bytes)


def _read(url: str, response: HttpResponse, limits: Limits) -> CachedReference:
    """Extract the text of a response."""
    if response.status != httpx.codes.OK:
        raise response.error
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
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


class Robots:
    """The robots.txt of each origin, which is asked for once."""

    def __init__(self, network: Network, manners: Manners) -> None:
        """Ask through a network, under the program's name in ``manners``."""
        self._network = network
        # robots.txt may name the program: my-lab of my-lab/1.0.
        self._program = re.findall(_PRODUCT, manners.user_agent)[0]
        self._rules: dict[str, Protego] = {}

    async def check(self, url: str) -> float:
        """Return the seconds between two requests that the origin asks for, 0 to 30.

        Raises:
            DeadLinkError: The origin refuses, or its robots.txt cannot be read.
        """
        robots_url = str(httpx.URL(url).join("/robots.txt"))
        if robots_url not in self._rules:
            try:
                self._rules[robots_url] = await self._read(robots_url)
            except DeadLinkError as dead:
                dead.args = (f"{robots_url}, which may say no, cannot be read: {dead}",)
                raise
        rules = self._rules[robots_url]
        if not rules.can_fetch(url, self._program):
            raise DeadLinkError("robots", f"{robots_url} does not allow it to {self._program}")
        return min(rules.crawl_delay(self._program) or 0.0, _LONGEST_DELAY)

    async def _read(self, robots_url: str) -> Protego:
        """Read the rules of an origin.

        Where there are none (RFC 9309: status 4xx, or redirects without end), all is allowed.
        """
        from protego import Protego

        url: str | None = robots_url
        for _ in range(_ROBOTS_REDIRECTS + 1):
            if url is None:
                break
            response = await self._network.get(url, _ROBOTS_BYTES)
            if response.status == httpx.codes.OK:
                return Protego.parse(response.body.decode("utf-8", "replace"))
            if response.status >= 500:
                raise DeadLinkError("robots", str(response.error))
            url = response.redirect
        return Protego.parse("")
