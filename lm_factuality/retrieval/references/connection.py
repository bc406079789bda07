"""One GET by httpx, to an address that was checked, within a time that no server can stretch.

`fetcher` asks for pages and robots.txt with it.
"""

import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import anyio
import httpx

from lm_factuality.retrieval.references.links import (
    Address,
    DeadLinkError,
    Endpoint,
    normalise,
    resolve,
)

# By certifi's list, or by that of ``SSL_CERT_FILE``.
tls_context = cache(httpx.create_ssl_context)
_GZIP = "gzip"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 31  # zlib's number for data with the header and check of gzip
_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,application/pdf;q=0.9,*/*;q=0.1",
    "Accept-Language": "en,*;q=0.5",
    "Accept-Encoding": _GZIP,
    "Connection": "close",
}


@dataclass(frozen=True)
class Limits:
    """Bounds on one document."""

    seconds: float = 60.0
    """For one request."""

    connect: float = 10.0
    """Seconds for a connection."""

    read: float = 20.0
    """Seconds between two bytes."""

    max_bytes: int = 20_000_000
    """Of a document as it is decompressed."""

    max_redirects: int = 5
    max_pages: int = 300
    """Of a PDF."""

    reading: float = 60.0
    """Seconds for the extraction of the text, by a process of its own."""

    memory: int = 2 << 30
    """Bytes that this process may use."""


@dataclass(frozen=True)
class HttpResponse:
    """The answer to one GET."""

    url: str
    status: int
    headers: httpx.Headers
    body: bytes
    """Empty unless the status is 200."""

    @property
    def redirect(self) -> str | None:
        """Where the answer leads, normalised. None if it is no redirect.

        Raises:
            DeadLinkError: It leads to no address that may be asked for.
        """
        location = self.headers.get("Location")
        if not location or self.status not in (301, 302, 303, 307, 308):
            return None
        # httpx has refused a location that is no address.
        return normalise(str(httpx.URL(self.url).join(location)))

    @property
    def error(self) -> DeadLinkError:
        """What a status other than 200 means."""
        return DeadLinkError("http", f"status {self.status}")


@dataclass(frozen=True)
class Network:
    """What may be connected to, and how.

    No proxy is used, because it would resolve names itself, to any address.
    """

    limits: Limits = Limits()
    user_agent: str = "lm-factuality"
    allowed: frozenset[Endpoint] = frozenset()
    """Endpoints that may be connected to though they are private."""

    async def get(self, url: str, max_bytes: int) -> HttpResponse:
        """Ask for a normalised address. Redirects are not followed.

        Args:
            max_bytes: How long the body may be.

        Raises:
            DeadLinkError: There is no answer, or none within the limits.
        """
        target = httpx.URL(url)
        host = target.netloc.decode("ascii")
        try:
            with anyio.fail_after(self.limits.seconds):
                return await self._get_from_any(target, max_bytes)
        except TimeoutError:
            sentence = f"{host}: not done after {self.limits.seconds:g} s"
            raise DeadLinkError("timeout", sentence) from None
        except httpx.TimeoutException as error:
            sentence = f"{host}: silent for too long ({type(error).__name__})"
            raise DeadLinkError("timeout", sentence) from None
        except httpx.ConnectError as error:
            raise DeadLinkError("unreachable", f"{host}: no connection: {error}") from None
        except (httpx.RequestError, OSError) as error:
            sentence = f"{host}: no whole answer in HTTP: {error}"
            raise DeadLinkError("broken", sentence) from None

    async def _get_from_any(self, url: httpx.URL, max_bytes: int) -> HttpResponse:
        """Ask the addresses of the host until one takes the connection."""
        name = url.raw_host.decode("ascii").strip("[]")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await resolve(name, port, self.allowed, self.limits.connect)
        for address in addresses[:-1]:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._get_from(address, url, max_bytes)
        return await self._get_from(addresses[-1], url, max_bytes)

    async def _get_from(self, address: Address, url: httpx.URL, max_bytes: int) -> HttpResponse:
        """Connect to an address that was checked. Host, SNI and the certificate are of the name."""
        host = url.netloc.decode("ascii")
        name = url.raw_host.decode("ascii").strip("[]")
        async with httpx.AsyncClient(
            verify=tls_context(),
            timeout=httpx.Timeout(self.limits.read, connect=self.limits.connect),
            trust_env=False,
        ) as client:
            request = client.stream(
                "GET",
                url.copy_with(host=str(address)),
                headers={**_HEADERS, "Host": host, "User-Agent": self.user_agent},
                extensions={"sni_hostname": name},
            )
            async with request as response:
                body = b""
                if response.status_code == httpx.codes.OK:
                    body = await _read_body(response, max_bytes)
                return HttpResponse(str(url), response.status_code, response.headers, body)


async def _read_body(response: httpx.Response, max_bytes: int) -> bytes:
    """Read a body and decompress it.

    Raises:
        DeadLinkError: It is too long, is cut off, or has an encoding that nobody asked for.
    """
    encoding = response.headers.get("Content-Encoding", "identity").lower().removeprefix("x-")
    if encoding not in ("identity", _GZIP):
        sentence = f"encoded as {encoding[:40]!r}; only {_GZIP} was asked for"
        raise DeadLinkError("broken", sentence)
    sent = bytearray()
    async for chunk in response.aiter_raw():
        sent += chunk
        _check_length(sent, max_bytes)
    if encoding == _GZIP:
        return _decompress(bytes(sent), max_bytes)
    return bytes(sent)


def _decompress(sent: bytes, max_bytes: int) -> bytes:
    """Decompress all members of gzip data. What follows the last one is padding.

    httpx decompresses too, but it reads one member and does not notice data that ends too early.

    Raises:
        DeadLinkError: The data is damaged, ends too early, or is too long.
    """
    body = bytearray()
    is_first = True
    while sent and (is_first or sent.startswith(_GZIP_MAGIC)):
        is_first = False
        decompressor = zlib.decompressobj(wbits=_GZIP_FORMAT)
        try:
            body += decompressor.decompress(sent, max_bytes + 1 - len(body))
        except zlib.error as error:
            raise DeadLinkError("broken", f"damaged gzip: {error}") from None
        _check_length(body, max_bytes)
        if not decompressor.eof:
            sentence = f"its gzip data ends too early, after {len(body):,} bytes"
            raise DeadLinkError("broken", sentence)
        sent = decompressor.unused_data
    return bytes(body)


def _check_length(body: bytearray, max_bytes: int) -> None:
    if len(body) > max_bytes:
        raise DeadLinkError("too large", f"more than the limit of {max_bytes:,} bytes")
