"""One GET by httpx, to an address that was checked, within a time that nothing can stretch.

Bodies are decompressed here: httpx reads the first member of a gzip stream alone, and does not
notice that one ends early."""

import ssl
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import anyio
import httpx

from lm_factuality.ground.published import tls_context
from lm_factuality.retrieval.references.links import Dead, Endpoint, resolve

Accept = Callable[[httpx.Headers], None]
ACCEPTED = "gzip, deflate"
_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,application/pdf;q=0.9,*/*;q=0.1",
    "Accept-Language": "en,*;q=0.5",
    "Accept-Encoding": ACCEPTED,
    "Connection": "close",
}
_GZIP = b"\x1f\x8b"
# bytes that are decompressed at a time: of many small members each would copy all that follows it
_BLOCK = 4096


@dataclass(frozen=True)
class Limits:
    """Bounds on one document. Seconds, bytes (as sent and as decompressed alike), redirects, PDF
    pages. ``seconds`` is for the whole document, redirects and retries included, time spent waiting
    for a turn not; ``connect`` and ``read`` for a connection and a pause between bytes; ``reading``
    for the extraction of its text, by a process that may use ``memory`` bytes."""

    seconds: float = 60.0
    connect: float = 10.0
    read: float = 20.0
    max_bytes: int = 20_000_000
    max_redirects: int = 5
    max_pages: int = 300
    reading: float = 60.0
    memory: int = 2 << 30


@dataclass(frozen=True)
class Response:
    """The answer to one GET. ``body`` is empty unless the status is 200."""

    status: int
    headers: httpx.Headers
    body: bytes


@dataclass(frozen=True)
class Network:
    """What may be connected to, and how. No proxy is used: it would resolve names itself, to
    whatever address."""

    limits: Limits = Limits()
    user_agent: str = "lm-factuality"
    allowed: frozenset[Endpoint] = frozenset()

    async def get(
        self, url: str, seconds: float, most: int, accept: Accept | None = None
    ) -> Response:
        """GETs ``url`` (normalised) within ``seconds``; follows no redirect. ``accept`` sees the
        headers of a 200 before its body of at most ``most`` bytes is read, and may raise ``Dead``.
        Raises Dead: there is no answer, or none within the limits."""
        parts = urlsplit(url)
        try:
            with anyio.fail_after(seconds):
                return await self._get(parts, most, accept)
        except TimeoutError:
            raise Dead("timeout", f"{parts.netloc}: not done after {seconds:.0f} s") from None
        except httpx.InvalidURL as error:
            raise Dead("malformed", f"not an address that can be asked for: {error}") from None

    async def _get(self, parts: SplitResult, most: int, accept: Accept | None) -> Response:
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        failure = Dead("dns", f"{host}: no address for this name")
        for address in await resolve(host, port, self.allowed, self.limits.connect):
            # A transport of its own for each request: names that have one address never share a
            # connection.
            async with httpx.AsyncHTTPTransport(verify=tls_context(), trust_env=False) as transport:
                try:
                    response = await transport.handle_async_request(
                        self._request(parts, str(address), port)
                    )
                    try:
                        headers = httpx.Headers(response.headers.raw, encoding="latin-1")
                        if response.status_code != httpx.codes.OK:
                            return Response(response.status_code, headers, b"")
                        if accept:
                            accept(headers)
                        return Response(
                            response.status_code, headers, await read_body(response, most)
                        )
                    finally:
                        await response.aclose()
                except (httpx.TransportError, OSError) as error:
                    failure = self._dead(error, parts.netloc)
                    if (
                        not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
                        or failure.kind == "tls"
                    ):
                        break
        raise failure

    def _request(self, parts: SplitResult, target: str, port: int) -> httpx.Request:
        """To ``target``, an address that was checked; Host, SNI and certificate are of the name."""
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        timeout = httpx.Timeout(self.limits.read, connect=self.limits.connect)
        return httpx.Request(
            "GET",
            httpx.URL(scheme=parts.scheme, host=target, port=port, raw_path=path.encode("ascii")),
            headers={"Host": parts.netloc, "User-Agent": self.user_agent, **_HEADERS},
            extensions={"sni_hostname": parts.hostname, "timeout": timeout.as_dict()},
        )

    def _dead(self, error: httpx.TransportError | OSError, host: str) -> Dead:
        if isinstance(error, httpx.ConnectTimeout):
            return Dead(
                "timeout", f"{host}: no connection in {self.limits.connect:g} s", is_transient=True
            )
        if isinstance(error, httpx.TimeoutException):
            return Dead("timeout", f"{host}: silent for {self.limits.read:g} s", is_transient=True)
        cause = _cause(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Dead("tls", f"{host}: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return Dead("tls", f"{host}: no TLS connection ({cause.reason})")
        if isinstance(cause, ConnectionRefusedError):
            return Dead("refused", f"{host}: connection refused")
        if isinstance(cause, OSError) and not isinstance(cause, ConnectionError):
            return Dead("unreachable", f"{host}: {cause.strerror or type(cause).__name__}")
        if isinstance(error, httpx.ProtocolError) and "disconnected" not in str(error):
            return Dead("protocol", f"{host}: not an answer in HTTP ({type(error).__name__})")
        return Dead("broken", f"{host}: the connection broke off", is_transient=True)


def _cause(error: BaseException) -> BaseException:
    """What the operating system or TLS said, below the errors that httpx and httpcore wrap around
    it."""
    while isinstance(below := error.__cause__ or next(iter(error.args), None), BaseException):
        error = below
    return error


async def read_body(response: httpx.Response, most: int) -> bytes:
    """The decompressed body. Raises Dead: more than ``most`` bytes as sent or decompressed, cut
    off, or of another encoding."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise Dead("protocol", f"encoded as {encoding[:40]!r}; only {ACCEPTED} was asked for")
    if (length := int(response.headers.get("Content-Length", 0))) > most:
        raise Dead("too large", f"{length:,} bytes, more than the limit of {most:,}")
    sent = bytearray()
    try:
        async for chunk in response.aiter_raw():
            sent += chunk
            if len(sent) > most:
                raise Dead("too large", f"more than the limit of {most:,} bytes")
        body = (
            bytes(sent) if encoding == "identity" or not sent else _inflated(bytes(sent), most + 1)
        )
    except zlib.error as error:
        raise Dead("protocol", f"damaged {encoding} content: {error}") from None
    except (httpx.RemoteProtocolError, EOFError):
        sentence = f"the connection broke off after {len(sent):,} bytes, before the document did"
        raise Dead("broken", sentence, is_transient=True) from None
    if len(body) > most:
        raise Dead(
            "too large",
            f"more than the limit of {most:,} bytes once decompressed, from {len(sent):,} as sent",
        )
    return body


def _inflated(sent: bytes, most: int) -> bytes:
    """Up to ``most`` bytes of gzip, one member after another, zlib, or raw deflate, which some
    servers send by that name."""
    is_zlib = sent[0] & 0x0F == zlib.DEFLATED and int.from_bytes(sent[:2], "big") % 31 == 0
    bits = 32 + zlib.MAX_WBITS if is_zlib or sent.startswith(_GZIP) else -zlib.MAX_WBITS
    body, place = bytearray(), 0
    while place == 0 or sent.startswith(_GZIP, place):  # there may be padding after the last member
        inflater = zlib.decompressobj(bits)
        while not inflater.eof:
            if place == len(sent):
                raise EOFError
            block = sent[place : place + _BLOCK]
            body += inflater.decompress(block, most - len(body))
            if len(body) == most:
                return bytes(body)
            place += len(block) - len(inflater.unused_data)
    return bytes(body)
