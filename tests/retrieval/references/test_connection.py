"""Connections are pinned to the address that was checked, whatever names say a moment later; TLS is
for the name."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from dataclasses import replace

import anyio
import pytest

from lm_factuality.retrieval.references.connection import tls_context
from lm_factuality.retrieval.references.links import DeadLinkError
from tests.retrieval.references.conftest import PAGE, page

NAME = "lighthouse.example"


def get(network, *arguments):
    return anyio.run(network.get, *arguments)


@pytest.fixture
def names(monkeypatch):
    """A name server: the addresses that ``NAME`` has, one after another; every look-up is
    counted."""
    real, given, asked = socket.getaddrinfo, [], []

    def look_up(host, port, *arguments, **options):
        if host == NAME:
            asked.append(host)
            host = given[min(len(asked), len(given)) - 1]
        return real(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return given, asked


def test_a_name_is_looked_up_once_and_connected_to_where_it_was_checked(site, network, names):
    given, asked = names
    given.extend(["127.0.0.1", "10.0.0.1"])
    site.routes["/x"] = page()
    response = get(network, f"http://{NAME}:{site.server_port}/x", 10_000)
    assert response.body == PAGE
    assert asked == [NAME]
    assert site.log[0][2]["Host"] == f"{NAME}:{site.server_port}"
    with pytest.raises(DeadLinkError, match="10.0.0.1"):
        get(network, f"http://{NAME}:{site.server_port}/x", 10_000)
    assert len(site.log) == 1


def test_the_next_address_is_tried_where_the_first_takes_no_connection(site, network, monkeypatch):
    entries = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, site.server_port))
        for host in ("127.0.0.9", "127.0.0.1")
    ]
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest, **options: entries if host == NAME else real(host, *rest, **options),
    )
    site.routes["/x"] = page()
    both = replace(
        network, allowed=network.allowed | {(type(site.endpoint[0])("127.0.0.9"), site.server_port)}
    )
    assert get(both, f"http://{NAME}:{site.server_port}/x", 10_000).status == 200


@pytest.fixture
def secure_site(site, tmp_path, monkeypatch):
    """The site over TLS, with a certificate for ``NAME`` that is trusted; ``site.names`` are those
    of the handshakes."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make a certificate")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
            "-days",
            "2",
            "-subj",
            f"/CN={NAME}",
            "-addext",
            f"subjectAltName=DNS:{NAME}",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    site.names = []
    context.sni_callback = lambda _, name, __: site.names.append(name)
    site.socket = context.wrap_socket(site.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    tls_context.cache_clear()
    yield site
    tls_context.cache_clear()


def test_tls_names_the_host_and_checks_its_certificate(secure_site, network, names):
    names[0].append("127.0.0.1")
    secure_site.routes["/x"] = page()
    response = get(network, f"https://{NAME}:{secure_site.server_port}/x", 10_000)
    assert response.body == PAGE
    assert secure_site.names == [NAME]
    with pytest.raises(DeadLinkError, match="IP address mismatch") as raised:
        get(network, f"https://127.0.0.1:{secure_site.server_port}/x", 10_000)
    assert raised.value.kind == "unreachable"


def test_a_handshake_that_never_ends(network, site):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        patient = replace(
            network,
            allowed=frozenset({(site.endpoint[0], port)}),
            limits=replace(network.limits, request_seconds=1, read_seconds=30),
        )
        with pytest.raises(DeadLinkError, match="not done after 1 s") as raised:
            get(patient, f"https://127.0.0.1:{port}/", 10_000)
        assert raised.value.kind == "timeout"
