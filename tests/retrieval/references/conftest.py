"""A real HTTP server that answers as servers of the web do: well, badly and with malice."""

from __future__ import annotations

import gzip
import http.server
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple

import pytest

from lm_factuality.retrieval.references.connection import Limits, Network

PAGE = b"""<!DOCTYPE html><html><head><title>The  Lighthouse</title></head><body><nav><a href="/">Home</a></nav><main>
<h1>The lighthouse</h1><p>It was built in 1871 by the engineer Orla Finch, who lived in it for nine years.</p></main>
<script>var nothing = "to read";</script></body></html>"""
SENTENCE = "It was built in 1871 by the engineer Orla Finch, who lived in it for nine years."


def make_pdf(*lines: str) -> bytes:
    """Return a sound PDF that shows each of the lines on a page of its own."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(lines)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(lines)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, line in enumerate(lines):
        stream = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode()
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % (5 + 2 * number)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    document = b"%PDF-1.4\n"
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return document + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, table, len(objects) + 1, len(document))
    )


class SiteRequest(NamedTuple):
    """A request that the site received."""

    path: str
    seconds: float
    """When it arrived, by a clock that starts anywhere."""
    headers: dict[str, str]


class Site(http.server.ThreadingHTTPServer):
    """A web site on this machine, in a thread."""

    daemon_threads = True

    def __init__(self) -> None:
        """Start to listen at a free port."""
        super().__init__(("127.0.0.1", 0), _Handler)

        self.routes: dict[str, Callable[[_Handler], None]] = {}
        """What the site does with a request, by the path. It answers 404 to other paths."""

        self.log: list[SiteRequest] = []
        """The requests, in order."""

        self.endpoint = (ip_address("127.0.0.1"), self.server_port)
        """The address and the port of the site."""

        self.ends = threading.Event()
        """Is set when the test is over, so that endless answers end."""

    def url(self, path: str = "/") -> str:
        """Return the address of a path."""
        return f"http://127.0.0.1:{self.server_port}{path}"

    def asked(self, path: str) -> int:
        """Count the requests for a path."""
        return sum(request.path == path for request in self.log)

    def handle_error(self, *_: object) -> None:
        """Ignore errors, since many tests are about clients that hang up."""


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        """Answer a request by the route of its path."""
        self.server.log.append(SiteRequest(self.path, time.monotonic(), dict(self.headers)))
        route = self.server.routes.get(self.path)
        if route is None:
            self.answer(b"nothing here", 404)
        else:
            route(self)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Send a whole answer.

        Args:
            body: The content.
            status: The status of HTTP.
            **headers: Further headers, or other values, with ``_`` for ``-``. An empty value
                leaves a header out.
        """
        self.send_response(status)
        sent = {"Content_Type": "text/html", "Content_Length": str(len(body)), **headers}
        for name, value in sent.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def reset(self) -> None:
        """Hang up without a word."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def drip(self, start: bytes, byte: bytes = b"x", pause: float = 0.05) -> None:
        """Send the start of an answer at once, and then bytes until the test is over.

        Args:
            start: The start of the answer.
            byte: What follows again and again.
            pause: The seconds before each of these.
        """
        self.close_connection = True
        with suppress(OSError):
            self.wfile.write(start)
            while not self.server.ends.wait(pause):
                self.wfile.write(byte)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def page(body: bytes = PAGE, status: int = 200, **headers: str) -> Callable[[_Handler], None]:
    """Return a route that answers with a document (see `_Handler.answer`)."""
    return lambda handler: handler.answer(body, status, **headers)


def redirect(to: str, status: int = 302) -> Callable[[_Handler], None]:
    """Return a route that sends the client to another address."""
    return page(b"", status, Location=to)


def zipped(body: bytes, **headers: str) -> Callable[[_Handler], None]:
    """Return a route that answers with a document that gzip has packed."""
    return page(gzip.compress(body), Content_Encoding="gzip", **headers)


@pytest.fixture
def site():
    """Return a running web site without any pages."""
    with Site() as server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        yield server
        server.ends.set()
        server.shutdown()


@pytest.fixture
def network(site) -> Network:
    """Return a network that reaches the site, and no other private address.

    It gives up a document after two seconds or 200,000 bytes.
    """
    limits = Limits(
        request_seconds=2,
        connect_seconds=1,
        read_seconds=1.5,
        max_bytes=200_000,
        max_redirects=3,
        max_pages=3,
        extraction_seconds=20,
    )
    return Network(limits, "lm-factuality/test", frozenset({site.endpoint}))
