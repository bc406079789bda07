"""One GET by httpx, to an address that was checked, within a time that no server can stretch.

`fetcher` asks for pages and robots.txt with it.
"""

import ssl
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import httpx

from lm_factuality.ground.published import seconds_of, tls_context
from lm_factuality.retrieval.references.links import DeadLink, Endpoint, normalise, resolve

_GZIP = "gzip"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 31  # zlib's number for data with the header and check of gzip
_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,application/pdf;q=0.9,*/*;q=0.1",
    "Accept-Language": "en,*;q=0.5",
    "Accept-Encoding": _GZIP,
    "Connection": "close",
}
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


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
class Response:
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
            DeadLink: It leads to no address that may be asked for.
        """
        location = self.headers.get("Location")
        if not location or self.status not in (301, 302, 303, 307, 308):
            return None
        # httpx has refused a location that is no address.
        return normalise(str(httpx.URL(self.url).join(location)))

    @property
    def error(self) -> DeadLink:
        """What a status other than 200 means."""
        return DeadLink(
            "http",
            f"status {self.status}",
            status=self.status,
            is_transient=self.status in _TRANSIENT,
            wait=seconds_of(self.headers.get("Retry-After")),
        )


@dataclass(frozen=True)
class Network:
    """What may be connected to, and how.

    No proxy is used, because it would resolve names itself, to any address.
    """

    limits: Limits = Limits()
    user_agent: str = "lm-factuality"
    allowed: frozenset[Endpoint] = frozenset()
    """Endpoints that may be connected to though they are private."""

    async def get(
        self, url: str, max_bytes: int, accept: Callable[[httpx.Headers], None] | None = None
    ) -> Response:
        """Ask for a normalised address. Redirects are not followed.

        Args:
            max_bytes: How long the body may be.
            accept: Called with the headers of a 200 before its body is read. It may raise
                `DeadLink`.

        Raises:
            DeadLink: There is no answer, or none within the limits.
        """
        target = httpx.URL(url)
        host = target.netloc.decode("ascii")
        try:
            with anyio.fail_after(self.limits.seconds):
                return await self._get_from_any(target, max_bytes, accept)
        except TimeoutError:
            sentence = f"{host}: not done after {self.limits.seconds:g} s"
            raise DeadLink("timeout", sentence) from None

    async def _get_from_any(
        self, url: httpx.URL, max_bytes: int, accept: Callable[[httpx.Headers], None] | None
    ) -> Response:
        """Ask the addresses of the host until one takes the connection."""
        name = url.raw_host.decode("ascii").strip("[]")
        port = url.port or (443 if url.scheme == "https" else 80)
        failure = DeadLink("dns", f"{name}: no address for this name")
        for address in await resolve(name, port, self.allowed, self.limits.connect):
            # The connection goes to the address that was checked. Host, SNI and the certificate
            # are of the name.
            request_headers = {**_HEADERS, "Host": url.netloc.decode("ascii")}
            request_headers["User-Agent"] = self.user_agent
            transport = httpx.AsyncHTTPTransport(verify=tls_context(), trust_env=False)
            timeout = httpx.Timeout(self.limits.read, connect=self.limits.connect)
            async with httpx.AsyncClient(
                transport=transport, timeout=timeout, trust_env=False
            ) as client:
                try:
                    async with client.stream(
                        "GET",
                        url.copy_with(host=str(address)),
                        headers=request_headers,
                        extensions={"sni_hostname": name},
                    ) as response:
                        body = b""
                        if response.status_code == httpx.codes.OK:
                            if accept:
                                accept(response.headers)
                            body = await _read_body(response, max_bytes)
                        return Response(str(url), response.status_code, response.headers, body)
                except (httpx.RequestError, OSError) as error:
                    failure = self._failure(error, url.netloc.decode("ascii"))
                    is_connected = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                    if is_connected or failure.kind == "tls":
                        break
        raise failure

    def _failure(self, error: Exception, host: str) -> DeadLink:
        """Say in a sentence what went wrong."""
        if isinstance(error, httpx.ConnectTimeout):
            sentence = f"{host}: no connection in {self.limits.connect:g} s"
            return DeadLink("timeout", sentence, is_transient=True)
        if isinstance(error, httpx.TimeoutException):
            sentence = f"{host}: silent for {self.limits.read:g} s"
            return DeadLink("timeout", sentence, is_transient=True)
        cause = _first_cause(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return DeadLink("tls", f"{host}: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return DeadLink("tls", f"{host}: no TLS connection ({cause.reason})")
        if isinstance(cause, ConnectionRefusedError):
            return DeadLink("refused", f"{host}: connection refused")
        if isinstance(cause, OSError) and not isinstance(cause, ConnectionError):
            return DeadLink("unreachable", f"{host}: {cause.strerror or type(cause).__name__}")
        is_broken = "disconnected" in str(error) or not isinstance(
            error, httpx.ProtocolError | httpx.DecodingError
        )
        if is_broken:
            return DeadLink("broken", f"{host}: the connection broke off", is_transient=True)
        return DeadLink("protocol", f"{host}: not an answer in HTTP ({error})")


def _first_cause(error: BaseException) -> BaseException:
    """Return what the system or TLS said, below the errors of httpx and httpcore around it."""
    cause: object = error.__cause__ or next(iter(error.args), None)
    return _first_cause(cause) if isinstance(cause, BaseException) else error


async def _read_body(response: httpx.Response, max_bytes: int) -> bytes:
    """Read a body, decompressed.

    Raises:
        DeadLink: It is too long, is cut off, or has an encoding that nobody asked for.
    """
    encoding = response.headers.get("Content-Encoding", "identity").lower().removeprefix("x-")
    if encoding not in ("identity", _GZIP):
        sentence = f"encoded as {encoding[:40]!r}; only {_GZIP} was asked for"
        raise DeadLink("protocol", sentence)
    length = int(response.headers.get("Content-Length", 0))
    if length > max_bytes:
        raise DeadLink("too large", f"{length:,} bytes, more than the limit of {max_bytes:,}")
    sent = bytearray()
    try:
        async for chunk in response.aiter_raw():
            sent += chunk
            if len(sent) > max_bytes:
                raise DeadLink("too large", f"more than the limit of {max_bytes:,} bytes")
    except httpx.RemoteProtocolError:
        sentence = f"the connection broke off after {len(sent):,} bytes, before the document did"
        raise DeadLink("broken", sentence, is_transient=True) from None
    return _decompress(bytes(sent), max_bytes) if encoding == _GZIP else bytes(sent)


def _decompress(sent: bytes, max_bytes: int) -> bytes:
    """Decompress the members of gzip data. What follows the last one is padding.

    httpx decompresses too, but does not notice where the data ends too early.

    Raises:
        DeadLink: The data is damaged, ends too early, or is too long.
    """
    body = bytearray()
    while sent.startswith(_GZIP_MAGIC) or (sent and not body):
        decompressor = zlib.decompressobj(wbits=_GZIP_FORMAT)
        try:
            body += decompressor.decompress(sent, max_bytes + 1 - len(body))
        except zlib.error as error:
            raise DeadLink("protocol", f"damaged gzip: {error}") from None
        if len(body) > max_bytes:
            raise DeadLink("too large", f"more than the limit of {max_bytes:,} bytes")
        if not decompressor.eof:
            sentence = f"its gzip data ends too early, after {len(body):,} bytes"
            raise DeadLink("broken", sentence, is_transient=True)
        sent = decompressor.unused_data
    return bytes(body)
