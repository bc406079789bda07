"""A connection goes to the address that was checked, whatever name servers say a moment later.

TLS checks the name.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from dataclasses import replace
from ipaddress import ip_address

import anyio
import pytest

from lm_factuality.retrieval.references.connection import tls_context
from lm_factuality.retrieval.references.links import DeadLinkError
from tests.retrieval.references.conftest import PAGE, page

NAME = "lighthouse.example"
MAX_BYTES = 10_000


def get(network, url):
    """Fetch an address without following redirects."""
    return anyio.run(network.get, url, MAX_BYTES)


class NameServer:
    """A name server that gives `NAME` another address at each look-up."""

    def __init__(self):
        """Start without addresses."""
        self.addresses = []
        """The addresses by look-up. The last one stays."""

        self.num_look_ups = 0
        self._getaddrinfo = socket.getaddrinfo

    def getaddrinfo(self, host, port, *arguments, **options):
        """Look up a name in place of `socket.getaddrinfo`. Other names are looked up as usual."""
        if host == NAME:
            place = min(self.num_look_ups, len(self.addresses) - 1)
            host = self.addresses[place]
            self.num_look_ups += 1
        return self._getaddrinfo(host, port, *arguments, **options)


@pytest.fixture
def name_server(monkeypatch):
    """Return a name server that is asked in place of the real one."""
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.getaddrinfo)
    return server


@pytest.fixture
def named_url(site):
    """Return the address of a page of the site, with the name of the site."""
    site.routes["/x"] = page()
    return f"http://{NAME}:{site.server_port}/x"


def test_name_is_looked_up_once_per_connection(site, network, name_server, named_url):
    """With a second look-up, a name server could give a private address after the check."""
    name_server.addresses = ["127.0.0.1", "10.0.0.1"]

    response = get(network, named_url)

    assert response.body == PAGE
    assert name_server.num_look_ups == 1
    headers = site.log[0].headers
    assert headers["Host"] == f"{NAME}:{site.server_port}"


def test_a_name_is_looked_up_and_checked_again_for_the_next_request(
    site, network, name_server, named_url
):
    """A name server could give a public address at first and a private one later.

    Here the first, 127.0.0.1, is allowed and the second, 10.0.0.1, is not.
    """
    name_server.addresses = ["127.0.0.1", "10.0.0.1"]
    get(network, named_url)

    with pytest.raises(DeadLinkError, match="10.0.0.1"):
        get(network, named_url)

    assert len(site.log) == 1


def test_next_address_is_tried_if_the_first_refuses(site, network, named_url, monkeypatch):
    """Many names have an address of IPv6 that this machine cannot reach.

    Here nobody listens at the first of two addresses, and the site listens at the second.
    """
    getaddrinfo = socket.getaddrinfo
    closed_address = "127.0.0.9"
    open_address = "127.0.0.1"

    def give_both_addresses(host, *arguments, **options):
        if host != NAME:
            return getaddrinfo(host, *arguments, **options)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, site.server_port))
            for address in (closed_address, open_address)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", give_both_addresses)
    closed_endpoint = (ip_address(closed_address), site.server_port)
    network = replace(network, allowed=network.allowed | {closed_endpoint})

    response = get(network, named_url)

    assert response.status == 200


@pytest.fixture
def certificate(tmp_path):
    """Make a certificate for `NAME`, and return its path and that of its key."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make a certificate")
    certificate_path = tmp_path / "cert.pem"
    key_path = tmp_path / "key.pem"
    command = [
        *("openssl", "req", "-x509", "-nodes"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-keyout", str(key_path)),
        *("-out", str(certificate_path)),
        *("-days", "2"),
        *("-subj", f"/CN={NAME}"),
        *("-addext", f"subjectAltName=DNS:{NAME}"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return certificate_path, key_path


@pytest.fixture
def secure_site(site, certificate, name_server, monkeypatch):
    """Return the site over TLS, with a trusted certificate for `NAME`.

    Its attribute ``names`` has the names that clients ask for in handshakes.
    """
    certificate_path, key_path = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_path, key_path)
    site.names = []
    context.sni_callback = lambda _socket, name, _context: site.names.append(name)
    site.socket = context.wrap_socket(site.socket, server_side=True)
    site.routes["/x"] = page()
    name_server.addresses = ["127.0.0.1"]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate_path))
    tls_context.cache_clear()
    yield site
    tls_context.cache_clear()


def test_tls_asks_for_the_name_of_the_host(secure_site, network):
    """The connection goes to the checked address.

    A server of many hosts has to know which one is meant.
    """
    response = get(network, f"https://{NAME}:{secure_site.server_port}/x")

    assert response.body == PAGE
    assert secure_site.names == [NAME]


def test_a_certificate_of_another_name_makes_a_link_dead(secure_site, network):
    """The certificate is for a name, and the link has the address, so somebody else may answer."""
    with pytest.raises(DeadLinkError, match="IP address mismatch") as error:
        get(network, f"https://127.0.0.1:{secure_site.server_port}/x")

    assert error.value.kind == "unreachable"


def test_endless_handshake_times_out(network):
    """A server that takes the connection and never answers costs the limit of 1 s, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        limits = replace(network.limits, request_seconds=1, read_seconds=30)
        endpoint = (ip_address("127.0.0.1"), port)
        network = replace(network, allowed=frozenset({endpoint}), limits=limits)

        with pytest.raises(DeadLinkError, match="not done after 1 s") as error:
            get(network, f"https://127.0.0.1:{port}/")

    assert error.value.kind == "timeout"
