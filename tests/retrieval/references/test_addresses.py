"""Which addresses may be connected to."""

from __future__ import annotations

import socket
import time
from ipaddress import ip_address

import anyio
import pytest

from lm_factuality.ground.errors import ConfigError
from lm_factuality.retrieval.references import links
from lm_factuality.retrieval.references.links import DeadLinkError, is_public, parse_endpoint

FORBIDDEN = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.0.9",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::c0a8:101",
    "64:ff9b:1::808:808",
    "64:ff9b::808:808",
    "2002:808:808::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "3fff::1",
    "200::1",
    "1fff::1",
    "4000::1",
    "8000::1",
    "c000::1",
    "fe00::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2001:4860:4860::8888",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_addresses_off_the_public_internet(address):
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_on_the_public_internet(address):
    assert is_public(ip_address(address))


def resolve(*arguments):
    return anyio.run(links.resolve, *arguments)


# ways to write a forbidden address in a link, as the system's resolver reads them


def test_only_the_very_endpoint_is_allowed():
    allowed = frozenset({parse_endpoint("127.0.0.1:8123")})
    assert resolve("127.0.0.1", 8123, allowed, 5) == [ip_address("127.0.0.1")]
    for host, port in (("127.0.0.1", 8124), ("127.0.0.2", 8123), ("::ffff:127.0.0.1", 8123)):
        with pytest.raises(DeadLinkError, match="forbidden"):
            resolve(host, port, allowed, 5)


def answers(*addresses):
    return lambda host, port, **_: [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (x, port)) for x in addresses
    ]


def test_one_forbidden_address_among_public_ones_is_enough(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", answers("8.8.8.8", "10.0.0.1"))
    with pytest.raises(DeadLinkError, match="mixed.example is 10.0.0.1, a forbidden address"):
        resolve("mixed.example", 80, frozenset(), 5)
    monkeypatch.setattr(socket, "getaddrinfo", answers("8.8.8.8", "8.8.4.4", "8.8.8.8"))
    assert resolve("sound.example", 80, frozenset(), 5) == [
        ip_address("8.8.8.8"),
        ip_address("8.8.4.4"),
    ]


def test_no_address(monkeypatch):
    def fail(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "no luck")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(DeadLinkError, match="no luck") as raised:
        resolve("gone.example", 80, frozenset(), 5)
    assert raised.value.kind == "dns"


def test_name_servers_that_hang(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(3) or [])
    started = time.monotonic()
    with pytest.raises(DeadLinkError, match="name servers") as raised:
        resolve("slow.example", 80, frozenset(), 0.1)
    assert raised.value.kind == "timeout"
    assert time.monotonic() - started < 2


def test_endpoints():
    assert parse_endpoint("127.0.0.1:8123") == (ip_address("127.0.0.1"), 8123)
    assert parse_endpoint("[::1]:8123") == (ip_address("::1"), 8123)
    for wrong in (
        "127.0.0.1",
        "::1:80",
        "localhost:80",
        "127.0.0.1:0",
        "127.0.0.1:http",
        "a@127.0.0.1:80",
        "1.2.3.4:5/x",
        "",
        "[:80",
    ):
        with pytest.raises(ConfigError, match="expected IP:PORT"):
            parse_endpoint(wrong)
