"""Documents from their links to their texts: robots.txt, redirects and retries, each step at its
host's turn.

Pages that people cited are each asked for once, but by a program: it keeps to robots.txt (RFC 9309)
unless told otherwise."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import anyio
from anyio.from_thread import start_blocking_portal
from pydantic import Field

from lm_factuality.ground.files import alone
from lm_factuality.ground.packages import need
from lm_factuality.retrieval.references.cache import Reference, ReferenceCache
from lm_factuality.retrieval.references.connection import Network
from lm_factuality.retrieval.references.links import REDIRECTS, Dead, bad_status, follow, normalise
from lm_factuality.retrieval.references.text import accept, read_text

if TYPE_CHECKING:
    from protego import Protego

_MOST_BYTES = 500_000  # RFC 9309 asks for at least 500 KiB
_REDIRECTS = 5  # RFC 9309, 2.3.1.2
_LONGEST_DELAY = 30.0  # seconds of Crawl-delay that are kept to
_DAY = 86_400  # seconds: no pause is longer, nor could every timer wait for more
_PRODUCT = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # the token that begins a User-Agent (RFC 9110, 10.1.5)
_AGENT = (
    "one line of ASCII text with the name of a program first, such as my-lab/1.0 (me@example.org)"
)


@dataclass(frozen=True)
class Manners:
    """How servers are asked: ``concurrency`` documents at a time, ``per_host`` of them from one
    host, ``delay`` seconds between two starts there (more if its robots.txt asks for more),
    ``retries`` after transient failures, and no ``Retry-After`` beyond ``longest_wait`` seconds is
    waited for."""

    user_agent: Annotated[str, Field(pattern=f"^{_PRODUCT}[ -~]*$", description=_AGENT)] = (
        "lm-factuality"
    )
    concurrency: int = 8
    per_host: int = 1
    delay: Annotated[float, Field(ge=0, le=_DAY)] = 1.0
    obeys_robots: bool = True
    retries: int = 2
    longest_wait: float = 60.0


def fetch_references(
    urls: Sequence[str],
    cache: ReferenceCache,
    network: Network,
    manners: Manners,
    *,
    retry_dead: bool = False,
) -> Iterator[tuple[Reference, bool]]:
    """(reference, whether it was in the cache) for each distinct address of ``urls``, those in the
    cache first, the rest as they come. Every one is in the cache before it is yielded, so a run
    that is cut off goes on where it ended. Raises ConfigError: a library is missing; DataError: the
    cache cannot be used, or another run is filling it."""
    for library in ("protego", "pypdf", "resiliparse"):
        need(library, "fetching references", "references")
    missing = []
    for url in dict.fromkeys(urls):
        known = cache.get(url)
        if known is None or (known.is_dead and retry_dead):
            missing.append(url)
        else:
            yield known, True
    if not missing:
        return
    busy, advice = (
        "another run is filling this cache; wait until it has ended",
        "name a folder that can: --cache DIR",
    )
    with alone(cache.folder, busy, advice):
        fetcher = Fetcher(network, manners)

        async def fetch(url: str) -> Reference:
            reference = await fetcher.fetch(url)
            cache.put(reference)
            return reference

        with (
            start_blocking_portal() as portal
        ):  # cancels what is under way when the caller wants no more
            for reference in as_completed([portal.start_task_soon(fetch, url) for url in missing]):
                yield reference.result(), False


@dataclass
class _Host:
    """``ready`` is the moment (of ``time.monotonic``) of the next start, ``delay`` the seconds
    between two."""

    slots: anyio.Semaphore
    delay: float
    ready: float = 0.0


@dataclass
class _Document:
    """``at`` is where redirects have led by way of ``seen``, ``spent`` the seconds of requests,
    ``attempt`` counts failures."""

    url: str
    at: str
    seen: list[str] = field(default_factory=list)
    attempt: int = 0
    spent: float = 0.0


class Fetcher:
    """Fetches documents, never too many at once from one host, never two too close together. A
    document that goes on (a redirect, a retry) queues up again, at the host that it now needs, so a
    busy host keeps no document of another waiting."""

    def __init__(self, network: Network, manners: Manners) -> None:
        self._network = network
        self._limits = network.limits
        self._manners = manners
        self._robots = Robots(network, manners)
        self._hosts: dict[str, _Host] = {}
        self._workers = anyio.Semaphore(manners.concurrency)
        self._readers = anyio.CapacityLimiter(
            os.cpu_count() or 1
        )  # more processes would only time each other out

    async def fetch(self, url: str) -> Reference:
        """What is at ``url``: a reference with text, or dead."""
        try:
            document = _Document(url, normalise(url))
        except Dead as dead:
            return Reference(url, kind=dead.kind, error=dead.sentence)
        while True:
            async with self._turn(document.at) as host:
                try:
                    if self._manners.obeys_robots:
                        slower = max(await self._robots.check(document.at) - host.delay, 0)
                        host.delay, host.ready = host.delay + slower, host.ready + slower
                    reference = await self._step(document)
                except Dead as dead:
                    reference = self._fail(document, dead, host)
            if reference is not None:
                return reference

    @asynccontextmanager
    async def _turn(self, url: str) -> AsyncIterator[_Host]:
        """Waits until the host of ``url`` may be asked, and a worker is free for it."""
        name = urlsplit(url).hostname or ""
        host = self._hosts.setdefault(
            name, _Host(anyio.Semaphore(self._manners.per_host), self._manners.delay)
        )
        async with host.slots:
            while True:
                await anyio.sleep(max(host.ready - time.monotonic(), 0))
                async with self._workers:
                    if (
                        now := time.monotonic()
                    ) >= host.ready:  # another one may have started, or the host asked for a pause
                        host.ready = now + host.delay
                        yield host
                        return

    async def _step(self, document: _Document) -> Reference | None:
        """One request, and what comes of it: a reference with text, or None where it was
        redirected."""
        started = time.monotonic()
        try:
            if (left := self._limits.seconds - document.spent) <= 0:
                raise Dead(
                    "timeout",
                    f"not done after {self._limits.seconds:g} s, redirects and retries included",
                )
            response = await self._network.get(document.at, left, self._limits.max_bytes, accept)
            if (location := response.headers.get("Location")) and response.status in REDIRECTS:
                self._redirect(document, location)
                return None
            if response.status != 200:
                raise bad_status(response.status, response.headers)
            read = partial(read_text, response.headers, response.body, self._limits)
            extracted = await anyio.to_thread.run_sync(
                read, abandon_on_cancel=True, limiter=self._readers
            )
        finally:
            document.spent += time.monotonic() - started
        return Reference(
            document.url,
            text=extracted.text,
            title=extracted.title or None,
            final_url=document.at,
            status=response.status,
            fetched_at=_now(),
            content_type=response.headers.get("Content-Type"),
            sha256=hashlib.sha256(response.body).hexdigest(),
            num_bytes=len(response.body),
            note=extracted.note or None,
        )

    def _redirect(self, document: _Document, location: str) -> None:
        target = follow(document.at, location)
        seen = [*document.seen, document.at]
        if target in seen:
            raise Dead("redirects", f"redirects in a loop, back to {target}")
        if len(seen) > self._limits.max_redirects:
            raise Dead("redirects", f"more than {self._limits.max_redirects} redirects")
        document.at, document.seen = target, seen

    def _fail(self, document: _Document, dead: Dead, host: _Host) -> Reference | None:
        """None, with ``host`` left alone for a while, where another attempt may help and is wanted;
        else a dead reference."""
        wait = 2.0**document.attempt if dead.wait is None else dead.wait
        why = dead.sentence
        if dead.is_transient and document.attempt < self._manners.retries:
            if wait > self._manners.longest_wait:
                why += (
                    f"; the server asks to be left alone for {wait:.0f} s, more than is waited for"
                )
            elif document.spent < self._limits.seconds:
                document.attempt += 1
                host.ready = max(host.ready, time.monotonic() + wait)
                return None
        elif document.attempt:
            why += f", {document.attempt + 1} times"
        return Reference(
            document.url,
            kind=dead.kind,
            error=why,
            final_url=document.at,
            status=dead.status,
            fetched_at=_now(),
        )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


class Robots:
    """The rules of each origin, asked for once; all of a robots.txt may take as long as a
    document."""

    def __init__(self, network: Network, manners: Manners) -> None:
        self._network = network
        # The name of the program, by which robots.txt may name it: my-lab of my-lab/1.0.
        self._token = re.findall(_PRODUCT, manners.user_agent)[0]
        self._rules: dict[str, Protego | Dead] = {}
        self._locks: dict[str, anyio.Lock] = defaultdict(anyio.Lock)

    async def check(self, url: str) -> float:
        """The seconds between two requests that the origin asks for, 0 to 30. Raises Dead: it
        refuses, or cannot be reached."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        async with self._locks[origin]:
            if origin not in self._rules:
                try:
                    self._rules[origin] = await self._read(f"{origin}/robots.txt")
                except Dead as dead:
                    if dead.is_transient:
                        raise
                    self._rules[origin] = dead
        rules = self._rules[origin]
        if isinstance(rules, Dead):
            raise Dead(rules.kind, rules.sentence, status=rules.status)
        if not rules.can_fetch(url, self._token):
            raise Dead(
                "robots",
                f"{origin}/robots.txt does not allow it to {self._token}; --ignore-robots asks"
                " anyway",
            )
        return min(rules.crawl_delay(self._token) or 0.0, _LONGEST_DELAY)

    async def _read(self, url: str) -> Protego:
        """The rules at ``url``, which allow all where there are none (RFC 9309: status 4xx, or
        redirects without end). An origin that cannot be reached at all is as dead for its pages;
        one that fails in another way says no."""
        from protego import Protego

        first, ends = url, time.monotonic() + self._network.limits.seconds
        for _ in range(_REDIRECTS + 1):
            try:
                response = await self._network.get(url, ends - time.monotonic(), _MOST_BYTES)
                if response.status == 200:
                    return Protego.parse(response.body.decode("utf-8", "replace"))
                location = response.headers.get("Location")
                if response.status not in REDIRECTS or not location:
                    break
                url = follow(url, location)
            except Dead as dead:
                if url == first and dead.kind not in (
                    "too large",
                    "scheme",
                    "credentials",
                    "malformed",
                ):
                    raise
                raise Dead(
                    "robots",
                    f"{first} cannot be read: {dead.sentence}",
                    is_transient=dead.is_transient,
                ) from None
        else:
            return Protego.parse("")
        answer = bad_status(response.status, response.headers)
        if answer.is_transient or response.status >= 500:
            sentence = f"{first} answers {response.status}, which means no until it can be read"
            raise Dead(
                "robots", sentence, status=response.status, is_transient=True, wait=answer.wait
            )
        return Protego.parse("")
