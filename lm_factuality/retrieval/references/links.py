"""From what annotators wrote in ``ref`` to addresses, why a link gave no text, and which addresses
may be connected to."""

import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

import anyio

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import seconds_of
from lm_factuality.ground.records import lines_of

TABLES: Mapping[str, Any] = load_yaml(__package__, "tables.yaml")
UNREACHED = frozenset(
    TABLES["unreached"]
)  # the kinds of death that need no server to have answered
KINDS: Mapping[str, str] = {**TABLES["unreached"], **TABLES["reached"]}
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
# A link starts at http(s):// unless that stands inside another one, as in
# web.archive.org/web/2020/https://... or ?to=https%3A//; two that were glued together by mistake
# are told apart.
_START = re.compile(r"(?<![/=&?:#])(?<!%[0-9A-Fa-f]{2})https?://", re.IGNORECASE)
_EXTENT = re.compile(r"[^\s<>\"]+")
_WITHOUT_SCHEME = re.compile(r"www\.[^\s/]+\.[^\s]+|(?:[\w-]+\.)+[a-z]{2,}/\S*", re.IGNORECASE)
_OPENING = "([{<'\"“‘«"
_CLOSING = {")": "(", "]": "[", "}": "{", ">": "<"}
_TRAILING = ",;:!'\"”’»|"
# Dots that belong to a name: .../Boston_United_F.C., .../Apple_Inc.
_ABBREVIATION = re.compile(r"(?:\b|_)(?:[A-Z]|Bros|Co|Corp|Inc|Jr|Ltd|Sr)\.$")
_SAFE = "!#$%&'()*+,/:;=?@[]~"
_UNRESERVED = re.compile(
    r"%(?:2[DE]|3\d|[46][1-9A-F]|5[0-9AF]|7[0-9AE])", re.IGNORECASE
)  # letters, digits and -._~
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})[^\W_]{2}")
_USER = re.compile(r"//[^/@\s]*@")
Address = IPv4Address | IPv6Address
Endpoint = tuple[Address, int]

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: the IPv4 address is the last 32 bits
# Not public, yet not private for every supported version of the ipaddress module.
_SPECIAL: dict[IPv4Network | IPv6Network, str] = {
    ip_network(text): why for text, why in TABLES["special_networks"].items()
}


@dataclass(frozen=True)
class Links:
    """Distinct addresses in the order in which they first occur, and the entries that hold none."""

    urls: tuple[str, ...]
    not_links: tuple[str, ...]


def normalise(url: str) -> str:
    """``url`` as it is asked for and kept: scheme and host in lower case and ASCII, illegal
    characters quoted, no default port, no fragment (which is never sent). Raises Dead: it is
    malformed, not http(s), or holds credentials."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
        if ":" not in host:
            host = host.encode("idna").decode("ascii")
        path, query = _requote(parts.path) or "/", _requote(parts.query)
    except ValueError as error:  # UnicodeError of the idna codec is one too
        raise Dead("malformed", f"not an address that can be asked for: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise Dead("scheme", f"{parts.scheme or 'no scheme'}: only http and https are fetched")
    if "@" in parts.netloc:
        raise Dead("credentials", "a user name or password in the address; none is ever sent")
    if not host or re.search(r"[\s\x00-\x20\x7f<>\"\\^`{|}%]", host):
        raise Dead("malformed", f"its host is {host!r}, expected a name or an IP address")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[parts.scheme]:
        netloc += f":{port}"
    return urlunsplit((parts.scheme, netloc, path, query, ""))


def _requote(text: str) -> str:
    """Escapes what may not stand in an address, and only that; as requests does."""
    if _BAD_ESCAPE.search(text):
        return quote(text, safe=_SAFE.replace("%", ""))
    return quote(_UNRESERVED.sub(lambda escape: unquote(escape[0]), text), safe=_SAFE)


def follow(url: str, location: str) -> str:
    """Where ``location``, a header decoded as Latin-1, leads from ``url``; normalised. Raises Dead:
    as ``normalise``."""
    # Servers that break the rules send UTF-8.
    quoted = quote(location.encode("latin-1", "replace"), safe=_SAFE)
    try:
        joined = urljoin(url, quoted)
    except ValueError as error:
        raise Dead("malformed", f"redirects to what is not an address: {error}") from None
    return normalise(joined)


def clean(link: str) -> str | None:
    """The address in ``link``, freed of the punctuation around it; None if it is none that can be
    asked for."""
    link = link.strip().lstrip(_OPENING).rstrip()
    while link:
        last = link[-1]
        is_loose = last in _TRAILING or (last == "." and not _ABBREVIATION.search(link))
        if not is_loose and not (
            last in _CLOSING and link.count(last) > link.count(_CLOSING[last])
        ):
            break
        link = link[:-1].rstrip()
    if _WITHOUT_SCHEME.fullmatch(link):
        link = f"https://{link}"
    try:
        return normalise(link)
    except Dead:
        return None


def links_in(text: str) -> tuple[str, ...]:
    """The addresses in one entry of ``ref``: usually one, sometimes several, sometimes none."""
    starts = [match.start() for match in _START.finditer(text)]
    if not starts:
        found = clean(text)
        return (found,) if found else ()
    ends = [*starts[1:], len(text)]
    extents = (_EXTENT.match(text, start, end) for start, end in zip(starts, ends, strict=True))
    return tuple(url for extent in extents if extent and (url := clean(extent[0])))


def collect_links(entries: Iterable[str]) -> Links:
    """The links in entries of ``ref``."""
    found = {entry: links_in(entry) for entry in entries}
    not_links = (
        _USER.sub("//...@", entry) for entry, urls in found.items() if not urls and entry.strip()
    )
    return Links(
        tuple(dict.fromkeys(url for urls in found.values() for url in urls)),
        tuple(dict.fromkeys(not_links)),
    )


def read_urls(path: Path) -> list[str]:
    """A list of links, one a line (``#`` starts a comment line). Raises DataError: no such file, or
    nothing in it."""
    found = [
        line.strip()
        for _, line in lines_of(path, "expected links, one per line")
        if not line.strip().startswith("#")
    ]
    if not found:
        raise DataError(f"{path}: no links; expected one per line")
    return found


class Dead(Exception):
    """A link that gives no text, at least now. ``kind`` is one of ``KINDS``, ``status`` the HTTP
    status if there was one. ``is_transient`` says that asking again may help, after ``wait``
    seconds if the server named a time."""

    def __init__(
        self,
        kind: str,
        sentence: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        wait: float | None = None,
    ) -> None:
        if kind not in KINDS:
            raise KeyError(kind)
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.status = status
        self.is_transient = is_transient
        self.wait = wait


def bad_status(status: int, headers: Mapping[str, str]) -> Dead:
    """What an answer other than 200 means."""
    wait = seconds_of(headers.get("Retry-After"))
    return Dead(
        "http", f"status {status}", status=status, is_transient=status in _TRANSIENT, wait=wait
    )


def why_forbidden(address: Address) -> str | None:
    """What is wrong with connecting to ``address``, in a word or two; None if it is a public one. A
    NAT64 or 6to4 address counts as the IPv4 address that it leads to; an IPv4-mapped one, which no
    public name has, is always refused."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return "IPv4-mapped"
        embedded = (
            IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.sixtofour
        )
        if embedded is not None:
            return f"{why} inside IPv6" if (why := why_forbidden(embedded)) else None
    for network, why in _SPECIAL.items():
        if address.version == network.version and address in network:
            return why
    for name in ("unspecified", "loopback", "link_local", "multicast", "reserved", "private"):
        if getattr(address, f"is_{name}"):
            return name.replace("_", "-")
    return None if address.is_global else "not public"


def parse_endpoint(text: str) -> Endpoint:
    """``127.0.0.1:8123`` or ``[::1]:8123``. Raises ConfigError: it is neither."""
    try:
        parts = urlsplit(f"//{text}")
        address, port = ip_address(parts.hostname or ""), parts.port
    except ValueError:
        address, port = None, None
    if address is None or not port or parts.path or "@" in text:
        raise ConfigError(
            f"--allow-address {text!r}: expected IP:PORT, such as 127.0.0.1:8123 or [::1]:8123"
        )
    return address, port


async def resolve(
    host: str, port: int, allowed: frozenset[Endpoint], seconds: float
) -> tuple[Address, ...]:
    """The addresses of ``host``, every one checked; only these may be connected to, so that the
    name cannot lead elsewhere a moment later. Raises Dead: none (``dns``), no answer within
    ``seconds`` (``timeout``), or a forbidden one."""
    lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        with anyio.fail_after(seconds):
            found = await anyio.to_thread.run_sync(lookup, abandon_on_cancel=True)
    except TimeoutError:
        raise Dead(
            "timeout", f"{host}: no answer from the name servers in time", is_transient=True
        ) from None
    except (OSError, UnicodeError) as error:
        is_transient = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
        raise Dead(
            "dns", f"{host}: no address for this name ({error})", is_transient=is_transient
        ) from None
    addresses = tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
    for address in addresses:
        why = why_forbidden(address)
        if why and (address, port) not in allowed:
            named = str(address) if host == str(address) else f"{host} is {address}"
            at = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
            raise Dead(
                "forbidden address",
                f"{named}, a forbidden address ({why}); if you run that server: --allow-address"
                f" {at}",
            )
    return addresses
