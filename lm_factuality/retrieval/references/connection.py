"""GET requests by httpx, to addresses that were checked, with limits of time and size.

`fetcher` downloads documents and robots.txt files with it.
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
    normalise_url,
    resolve,
)

# Certificates are those of certifi, or of the file that ``SSL_CERT_FILE`` names.
tls_context = cache(httpx.create_ssl_context)
_GZIP = "gzip"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 31  # zlib's number for data with the header and checksum of gzip
# Status 304 is not among them, since requests are not conditional.
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,application/pdf;q=0.9,*/*;q=0.1",
    "Accept-Language": "en,*;q=0.5",
    "Accept-Encoding": _GZIP,
    "Connection": "close",
}


@dataclass(frozen=True)
class Limits:
    """Limits for the download of one document and for the extraction of its text."""

    request_seconds: float = 60.0
    """The seconds for one request, from the look-up of the host to the last byte."""

    connect_seconds: float = 10.0
    """The seconds to look up a host, and to connect to it."""

    read_seconds: float = 20.0
    """The seconds of silence between two chunks of data."""

    max_bytes: int = 20_000_000
    """The size of a document after decompression."""

    max_redirects: int = 5
    """The number of redirects from a link to its document."""

    max_pages: int = 300
    """The number of pages of a PDF that are read."""

    extraction_seconds: float = 60.0
    """The seconds to extract the text of a document."""

    extraction_memory: int = 2 << 30
    """The bytes of memory that the process may use that extracts the text."""


@dataclass(frozen=True)
class HttpResponse:
    """The response to one GET request."""

    url: str
    """The URL that was requested."""

    status: int
    """The HTTP status, such as 200."""

    headers: httpx.Headers
    """The headers of the response."""

    body: bytes
    """The decompressed document. It is empty unless the status is 200."""

    @property
    def redirect_url(self) -> str | None:
        """The normalised URL to which the response redirects, or None if it is not a redirect.

        Raises:
            DeadLinkError: The redirect leads to a URL that may not be requested.
        """
        location = self.headers.get("Location")
        if not location or self.status not in _REDIRECTS:
            return None
        # The location may be relative. httpx has refused one that is not a URL.
        return normalise_url(str(httpx.URL(self.url).join(location)))


@dataclass(frozen=True)
class Network:
    """A client for GET requests that connects only to addresses on the public internet.

    It uses no proxy, because a proxy would look up host names itself and could reach any address.
    """

    limits: Limits = Limits()
    """The limits of each request."""

    user_agent: str = "lm-factuality"
    """The header by which servers recognise the program."""

    allowed: frozenset[Endpoint] = frozenset()
    """The endpoints that may be connected to although they are not on the public internet."""

    async def get(self, url: str, max_bytes: int) -> HttpResponse:
        """Send a GET request and return the response. Redirects are not followed.

        Args:
            url: A normalised URL.
            max_bytes: The largest size of the decompressed body.

        Raises:
            DeadLinkError: There is no response, or it exceeds a limit.
        """
        parsed_url = httpx.URL(url)
        host = parsed_url.netloc.decode("ascii")
        seconds = self.limits.request_seconds
        try:
            with anyio.fail_after(seconds):
                return await self._get_from_any_address(parsed_url, max_bytes)
        except TimeoutError:
            raise DeadLinkError("timeout", f"{host}: not done after {seconds:g} s") from None
        # The server is too slow at one step: connecting, or sending the next bytes.
        except httpx.TimeoutException as error:
            raise DeadLinkError(
                "timeout", f"{host}: silent for too long ({type(error).__name__})"
            ) from None
        except httpx.ConnectError as error:
            raise DeadLinkError("unreachable", f"{host}: no connection: {error}") from None
        except (httpx.RequestError, OSError) as error:
            raise DeadLinkError("broken", f"{host}: no whole answer in HTTP: {error}") from None

    async def _get_from_any_address(self, url: httpx.URL, max_bytes: int) -> HttpResponse:
        """Try the IP addresses of a host in order until one accepts the connection.

        Raises:
            DeadLinkError: The host has no address that may be connected to.
            httpx.RequestError: No address accepts the connection, or the response is cut off.
        """
        # httpx leaves out the port if it is the default of the scheme.
        port = url.port or (443 if url.scheme == "https" else 80)
        seconds = self.limits.connect_seconds
        addresses = await resolve(_host_name(url), port, self.allowed, seconds)

        # A host may have an IPv6 address that this machine cannot reach, and an IPv4 address too.
        for address in addresses[:-1]:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._get_from(address, url, max_bytes)
        # The error of the last address is the one that is reported.
        return await self._get_from(addresses[-1], url, max_bytes)

    async def _get_from(self, address: Address, url: httpx.URL, max_bytes: int) -> HttpResponse:
        """Request a URL from one IP address of its host.

        The address was checked. If httpx looked up the host again, it could get another address.
        """
        timeout = httpx.Timeout(self.limits.read_seconds, connect=self.limits.connect_seconds)
        # Without ``trust_env``, no proxy of the environment is used, and no password of .netrc.
        client = httpx.AsyncClient(verify=tls_context(), timeout=timeout, trust_env=False)
        # A server may have many sites. The header names the site that is meant, and the TLS option
        # the one whose certificate is checked, as if httpx had looked the name up itself.
        host_header = url.netloc.decode("ascii")
        headers = {**_HEADERS, "Host": host_header, "User-Agent": self.user_agent}
        extensions = {"sni_hostname": _host_name(url)}
        # httpx connects to the host of the URL, so that host becomes the checked address.
        target = url.copy_with(host=str(address))
        async with (
            client,
            client.stream("GET", target, headers=headers, extensions=extensions) as response,
        ):
            # Error pages and redirects have bodies that nobody needs.
            body = b""
            if response.status_code == httpx.codes.OK:
                body = await _read_body(response, max_bytes)
            return HttpResponse(str(url), response.status_code, response.headers, body)


def _host_name(url: httpx.URL) -> str:
    """Return the host of a URL in ASCII, an IPv6 address without its square brackets."""
    return url.raw_host.decode("ascii").strip("[]")


async def _read_body(response: httpx.Response, max_bytes: int) -> bytes:
    """Download the body of a response and decompress it.

    Args:
        response: The response, whose body has not been read.
        max_bytes: The largest size of the body, before and after decompression.

    Raises:
        DeadLinkError: The body is too long or incomplete, or has an encoding other than gzip.
    """
    # The encoding "x-gzip" is an old name of "gzip".
    encoding = response.headers.get("Content-Encoding", "identity").lower().removeprefix("x-")
    if encoding not in ("identity", _GZIP):
        raise DeadLinkError("broken", f"encoded as {encoding[:40]!r}; only {_GZIP} was asked for")

    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        # A header may announce a wrong length, so the bytes are counted as they arrive.
        _check_length(body, max_bytes)
    if encoding == _GZIP:
        return _decompress(bytes(body), max_bytes)
    return bytes(body)


def _decompress(compressed: bytes, max_bytes: int) -> bytes:
    """Decompress gzip data, which may consist of several members, i.e. complete gzip files.

    httpx would decompress only the first member, and would not notice if it ended too early.

    Args:
        compressed: The gzip data. Bytes after the last member are ignored.
        max_bytes: The largest size of the decompressed data.

    Raises:
        DeadLinkError: The data is damaged, ends too early, or is too long.
    """
    body = bytearray()
    while compressed:
        decompressor = zlib.decompressobj(wbits=_GZIP_FORMAT)
        try:
            # One byte more than allowed is enough to notice that the data is too long.
            body += decompressor.decompress(compressed, max_bytes + 1 - len(body))
        except zlib.error as error:
            raise DeadLinkError("broken", f"damaged gzip: {error}") from None
        _check_length(body, max_bytes)
        # Data that was cut off lacks the checksum at its end.
        if not decompressor.eof:
            raise DeadLinkError(
                "broken", f"its gzip data ends too early, after {len(body):,} bytes"
            )

        # Some servers add padding after the last member.
        compressed = decompressor.unused_data
        if not compressed.startswith(_GZIP_MAGIC):
            break
    return bytes(body)


def _check_length(body: bytearray, max_bytes: int) -> None:
    """Raise a DeadLinkError if a body has more bytes than allowed."""
    if len(body) > max_bytes:
        raise DeadLinkError("too large", f"more than the limit of {max_bytes:,} bytes")
