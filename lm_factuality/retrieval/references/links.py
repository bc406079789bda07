"""Addresses in what annotators wrote, and why an address gives no text.

FELM's rows cite pages under ``ref``, in free text. `collect_links` finds the addresses that
`fetcher` fetches and under which `cache` keeps the texts. This module also says which addresses may
be connected to.
"""

import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml

Address = IPv4Address | IPv6Address
Endpoint = tuple[Address, int]
"""An address and a port."""

TABLES: Mapping[str, Any] = load_yaml(__package__, "tables.yaml")
# The kinds of failure for which no server needs to have answered.
UNREACHED = frozenset(TABLES["unreached"])
# All kinds of failure, with what they mean.
KINDS: Mapping[str, str] = {**TABLES["unreached"], **TABLES["reached"]}

# A link starts at http(s):// unless that is inside another link, as in
# web.archive.org/web/2020/https://... or ?to=https%3A//. Links without a space between them are
# told apart.
_START = re.compile(r"(?<![/=&?:#])(?<!%[0-9A-Fa-f]{2})(?=https?://)", re.IGNORECASE)
_EXTENT = re.compile(r"[^\s<>\"]+")
_WITHOUT_SCHEME = re.compile(r"www\.[^\s/]+\.\S+|(?:[\w-]+\.)+[a-z]{2,}/\S*", re.IGNORECASE)
_OPENING = "([{<'\"“‘«"
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}
_TRAILING = ",;:!'\"”’»| \n\t"
# Dots that belong to a name: .../Boston_United_F.C., .../Apple_Inc.
_ABBREVIATION = re.compile(r"(?:\b|_)(?:[A-Z]|Bros|Co|Corp|Inc|Jr|Ltd|Sr)\.$")
_LONGEST_ABBREVIATION = len("_Bros.")
_USER = re.compile(r"//[^/@\s]*@")

_NOT_PUBLIC = [ip_network(network) for network in TABLES["networks_not_public"]]


class DeadLinkError(Exception):
    """A link gives no text, at least now. The message says why in a sentence."""

    def __init__(self, kind: str, sentence: str) -> None:
        """Describe a failure of one of `KINDS`."""
        super().__init__(sentence)
        self.kind = kind


@dataclass(frozen=True)
class Links:
    """The links in some entries."""

    urls: tuple[str, ...]
    """Distinct addresses in the order in which they first occur."""

    not_links: tuple[str, ...]
    """The entries that hold no address."""


def collect_links(entries: Iterable[str]) -> Links:
    """Find the links in entries of ``ref``."""
    urls: dict[str, None] = {}
    not_links: dict[str, None] = {}
    for entry in entries:
        links = links_in(entry)
        urls.update(dict.fromkeys(links))
        if not links and entry.strip():
            # Passwords are shown nowhere.
            not_links[_USER.sub("//...@", entry)] = None
    return Links(tuple(urls), tuple(not_links))


def links_in(text: str) -> tuple[str, ...]:
    """Return the addresses in one entry: usually one, sometimes several or none.

    Example:
        >>> links_in("see (https://a.example/Boots_(film)).")
        ('https://a.example/Boots_(film)',)
    """
    _, *parts = _START.split(text)
    candidates = [_EXTENT.match(part)[0] for part in parts] or [text]  # type: ignore[index]
    urls = [clean(candidate) for candidate in candidates]
    return tuple(url for url in urls if url)


def clean(link: str) -> str | None:
    """Return the address in a link without the punctuation around it, or None."""
    link = link.strip().lstrip(_OPENING)
    unmatched = {
        closing: link.count(closing) - link.count(opening) for closing, opening in _BRACKETS.items()
    }
    end = len(link)
    while end:
        last = link[end - 1]
        if last == ".":
            if _ABBREVIATION.search(link[max(0, end - _LONGEST_ABBREVIATION) : end]):
                break
        elif last in unmatched:
            if unmatched[last] <= 0:
                break
            unmatched[last] -= 1
        elif last not in _TRAILING:
            break
        end -= 1
    link = link[:end]
    if len(link.split()) != 1:
        return None
    if _WITHOUT_SCHEME.fullmatch(link):
        link = f"https://{link}"
    try:
        return normalise(link)
    except DeadLinkError:
        return None


def normalise(url: str) -> str:
    """Return an address as it is asked for and kept, without its fragment.

    Example:
        >>> normalise("HTTPS://A.Example:443/ä#part")
        'https://a.example/%C3%A4'

    Raises:
        DeadLinkError: The address is malformed, not http(s), or holds credentials.
    """
    try:
        # httpx drops a default port only where the scheme is in lower case.
        parsed = httpx.URL(str(httpx.URL(url.strip())))
        host = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError) as error:
        raise DeadLinkError("malformed", f"not an address that can be asked for: {error}") from None
    scheme = parsed.scheme
    if scheme not in ("http", "https"):
        raise DeadLinkError("scheme", f"{scheme or 'no scheme'}: only http and https are fetched")
    if parsed.userinfo:
        raise DeadLinkError("credentials", "the address holds a user name or password")
    if not host or "%" in host or (parsed.port or 0) > 65535:
        raise DeadLinkError("malformed", f"its host is {host!r}, expected a name or an IP address")
    return f"{scheme}://{parsed.netloc.decode('ascii')}{parsed.raw_path.decode('ascii')}"


def parse_endpoint(text: str) -> Endpoint:
    """Read ``127.0.0.1:8123`` or ``[::1]:8123``.

    Raises:
        ConfigError: The text is neither.
    """
    expected = ConfigError(
        f"--allow-address {text!r}: expected IP:PORT, such as 127.0.0.1:8123 or [::1]:8123"
    )
    try:
        parts = urlsplit(f"//{text}")
        address = ip_address(parts.hostname or "")
        port = parts.port
    except ValueError:
        raise expected from None
    if not port or parts.path or "@" in text:
        raise expected
    return address, port


async def resolve(
    host: str, port: int, allowed: frozenset[Endpoint], seconds: float
) -> list[Address]:
    """Return the addresses of a host, which are all checked.

    Only these may be connected to, so that the name cannot lead elsewhere a moment later.

    Args:
        allowed: Endpoints that may be private.

    Raises:
        DeadLinkError: There is no address, a forbidden one, or no answer within ``seconds``.
    """
    lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        with anyio.fail_after(seconds):
            entries = await anyio.to_thread.run_sync(lookup, abandon_on_cancel=True)
    except TimeoutError:
        sentence = f"{host}: no answer from the name servers in time"
        raise DeadLinkError("timeout", sentence) from None
    except (OSError, UnicodeError) as error:
        sentence = f"{host}: no address for this name ({error})"
        raise DeadLinkError("dns", sentence) from None
    addresses = list(dict.fromkeys(ip_address(entry[4][0]) for entry in entries))
    for address in addresses:
        if not is_public(address) and (address, port) not in allowed:
            endpoint = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
            raise DeadLinkError(
                "forbidden address",
                f"{host} is {address}, a forbidden address that is not on the public internet; if"
                f" you run that server: --allow-address {endpoint}",
            )
    return addresses


def is_public(address: Address) -> bool:
    """Return whether an address is on the public internet.

    An IPv6 address that leads to an IPv4 address is never public.
    """
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)
