"""URLs in annotators' entries, IP addresses that may be connected to, and reasons of dead links.

FELM's rows cite pages under ``ref``, in free text. `collect_links` finds the URLs, `fetcher`
fetches their pages, and `cache` keeps the texts.
"""

import re
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import httpx

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml

Address = IPv4Address | IPv6Address


class Endpoint(NamedTuple):
    """An IP address and a port of a server."""

    address: Address
    port: int

    def __str__(self) -> str:
        """Return ``127.0.0.1:80``, or ``[::1]:80`` for an IPv6 address."""
        if self.address.version == 6:
            return f"[{self.address}]:{self.port}"
        return f"{self.address}:{self.port}"


TABLES: Mapping[str, Any] = load_yaml(__package__, "tables.yaml")
# The kinds of failure that can occur although no server has responded.
UNREACHED_KINDS = frozenset(TABLES["unreached"])
# The meaning of each kind of failure.
FAILURE_MEANINGS: Mapping[str, str] = {**TABLES["unreached"], **TABLES["reached"]}

# A URL starts at http(s):// unless that is part of another URL, as in
# web.archive.org/web/2020/https://... or ?to=https%3A//. There may be no space between two URLs.
_URL_START = re.compile(r"(?<![/=&?:#])(?<!%[0-9A-Fa-f]{2})(?=https?://)", re.IGNORECASE)
_URL_END = re.compile(r"[\s<>\"]")
_WITHOUT_SCHEME = re.compile(r"www\.[^\s/]{1,253}\.\S+|(?:[\w-]+\.)+[a-z]{2,}/\S*", re.IGNORECASE)
_OPENING = "([{<'\"“‘«"
# The opening bracket of each closing bracket.
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}
_TRAILING = ",;:!'\"”’»| \n\t"
# Abbreviations whose final dot is part of a URL: .../Boston_United_F.C., .../Apple_Inc.
_ABBREVIATION = re.compile(r"(?:\b|_)(?:[A-Z]|Bros|Co|Corp|Inc|Jr|Ltd|Sr)\.$")
_LONGEST_ABBREVIATION = len("_Bros.")
_CREDENTIALS = re.compile(r"//[^/@\s]*@")

_NOT_PUBLIC = [ip_network(network) for network in TABLES["networks_not_public"]]


class DeadLinkError(Exception):
    """The error that a link has no text, at least now. Its message is a sentence with the reason.

    Attributes:
        kind: The kind of failure, a key of `FAILURE_MEANINGS`.
    """

    def __init__(self, kind: str, sentence: str) -> None:
        """Describe a failure.

        Args:
            kind: The kind of failure, a key of `FAILURE_MEANINGS`.
            sentence: The reason.
        """
        super().__init__(sentence)
        self.kind = kind


@dataclass(frozen=True)
class Links:
    """The links in some entries of annotators."""

    urls: tuple[str, ...]
    """The distinct URLs in the order in which they first occur."""

    not_links: tuple[str, ...]
    """The entries that hold no URL, without the user names and passwords in them."""


def collect_links(entries: Iterable[str]) -> Links:
    """Find the URLs in annotators' entries.

    Args:
        entries: The entries under ``ref`` in FELM's rows. Blank ones are ignored.
    """
    urls = []
    not_links = []
    for entry in entries:
        urls_of_entry = find_urls(entry)
        urls.extend(urls_of_entry)
        if not urls_of_entry and entry.strip():
            # The report must not show passwords.
            not_links.append(_CREDENTIALS.sub("//...@", entry))
    return Links(tuple(dict.fromkeys(urls)), tuple(dict.fromkeys(not_links)))


def find_urls(text: str) -> list[str]:
    """Find the URLs in a text, clean and normalised.

    Example:
        >>> find_urls("see (https://a.example/Boots_(film)).")
        ['https://a.example/Boots_(film)']

    Args:
        text: An annotator's entry. It may also be a single URL without ``https://``.
    """
    # The first part is the text before the first URL.
    parts = _URL_START.split(text)[1:]
    candidates = [_URL_END.split(part, maxsplit=1)[0] for part in parts]
    if not candidates:
        # Annotators also wrote "en.wikipedia.org/wiki/Plato".
        candidates = [text]

    urls = [clean_url(candidate) for candidate in candidates]
    return [url for url in urls if url is not None]


def clean_url(text: str) -> str | None:
    """Remove the punctuation around a URL and normalise it. Return None if it is no web address.

    Example:
        >>> clean_url("(www.a.example/Boots_(film)).")
        'https://www.a.example/Boots_(film)'
    """
    url = _strip_punctuation(text)
    if len(url.split()) != 1:
        # The text is empty or has several words.
        return None
    if _WITHOUT_SCHEME.fullmatch(url):
        url = f"https://{url}"
    try:
        return normalise_url(url)
    except DeadLinkError:
        return None


def _strip_punctuation(text: str) -> str:
    """Remove the punctuation around a URL, but not the punctuation that is part of it.

    Example:
        ``(https://a.example/Boots_(film)).`` becomes ``https://a.example/Boots_(film)``, and
        ``https://a.example/Finch_Inc.`` keeps its dot.

    Args:
        text: A URL with brackets, quotes, spaces, commas or dots around it.
    """
    text = text.strip().lstrip(_OPENING)
    # A closing bracket without an opening one does not belong to the URL. In "a_(b))", the last
    # bracket is such a surplus one.
    num_surplus = Counter(text)
    for closing, opening in _BRACKETS.items():
        num_surplus[closing] -= num_surplus[opening]

    # The text is sliced once at the end, since a slice per character would take quadratic time.
    end = len(text)
    while end:
        last = text[end - 1]
        is_surplus_bracket = last in _BRACKETS and num_surplus[last] > 0
        last_characters = text[max(0, end - _LONGEST_ABBREVIATION) : end]
        if not is_surplus_bracket and _may_end_url(last_characters):
            break
        num_surplus[last] -= 1
        end -= 1
    return text[:end]


def _may_end_url(ending: str) -> bool:
    """Tell whether the last character of a text belongs to a URL and not to the sentence around it.

    Args:
        ending: The last characters of the text, such as ``Inc.``
    """
    if ending.endswith("."):
        return _ABBREVIATION.search(ending) is not None
    return ending[-1] not in _TRAILING


def normalise_url(url: str) -> str:
    """Return the form of a URL that is requested and that is its key in the cache.

    Scheme and host are in lower case, other characters are encoded, and the default port and the
    fragment are left out.

    Example:
        >>> normalise_url("HTTPS://A.Example:443/ä#part")
        'https://a.example/%C3%A4'

    Raises:
        DeadLinkError: The URL is malformed, not http(s), or has a user name or password.
    """
    try:
        # httpx drops a default port only if the scheme is in lower case. The first parsing turns
        # "HTTPS://a.example:443" into lower case, and the second one drops the port.
        parsed = httpx.URL(str(httpx.URL(url.strip())))
        host = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError) as error:
        raise DeadLinkError("malformed", f"not an address that can be asked for: {error}") from None

    scheme = parsed.scheme
    if scheme not in ("http", "https"):
        raise DeadLinkError("scheme", f"{scheme or 'no scheme'}: only http and https are fetched")
    if parsed.userinfo:
        raise DeadLinkError("credentials", "the address holds a user name or password")
    # httpx escapes letters that no host name may have as "%20", and takes a port of any size.
    if not host or "%" in host or (parsed.port or 0) > 65535:
        raise DeadLinkError("malformed", f"its host is {host!r}, expected a name or an IP address")
    return f"{scheme}://{parsed.netloc.decode('ascii')}{parsed.raw_path.decode('ascii')}"


def parse_endpoint(text: str) -> Endpoint:
    """Parse the option ``--allow-address``, an IP address with a port.

    Example:
        ``127.0.0.1:8123`` and ``[::1]:8123`` are endpoints. ``localhost:8123`` is not.

    Raises:
        ConfigError: The text is not an IP address with a port.
    """
    try:
        # The slashes make the text the host of a URL.
        parts = urlsplit(f"//{text}")
        # A URL may have a path or a user name, or lack a port.
        if not parts.port or parts.path or "@" in text:
            raise ValueError("the text is more or less than an address and a port")
        return Endpoint(ip_address(parts.hostname or ""), parts.port)
    except ValueError:
        raise ConfigError(
            f"--allow-address {text!r}: expected IP:PORT, such as 127.0.0.1:8123 or [::1]:8123"
        ) from None


async def resolve(
    host: str, port: int, allowed: frozenset[Endpoint], seconds: float
) -> list[Address]:
    """Look up the IP addresses of a host and check that all of them may be connected to.

    A connection must use one of these addresses. Another look-up of the same name could give a
    different address, which nobody has checked.

    Args:
        host: The name or the IP address of the host.
        port: The port to connect to.
        allowed: The endpoints that may be connected to although they are not public.
        seconds: The time limit of the look-up.

    Raises:
        DeadLinkError: The host has no address or a forbidden one, or the look-up takes too long.
    """
    addresses = await _look_up(host, port, seconds)
    for address in addresses:
        endpoint = Endpoint(address, port)
        if not is_public(address) and endpoint not in allowed:
            raise DeadLinkError(
                "forbidden address",
                f"{host} is {address}, a forbidden address that is not on the public internet; if"
                f" you run that server: --allow-address {endpoint}",
            )
    return addresses


async def _look_up(host: str, port: int, seconds: float) -> list[Address]:
    """Ask the name servers for the distinct IP addresses of a host.

    Raises:
        DeadLinkError: The host has no address, or the name servers take too long.
    """
    get_entries = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        with anyio.fail_after(seconds):
            entries = await anyio.to_thread.run_sync(get_entries, abandon_on_cancel=True)
    except TimeoutError:
        raise DeadLinkError("timeout", f"{host}: no answer from the name servers in time") from None
    except (OSError, UnicodeError) as error:
        raise DeadLinkError("dns", f"{host}: no address for this name ({error})") from None

    # The last item of an entry holds the address and the port.
    addresses = [ip_address(socket_address[0]) for *_, socket_address in entries]
    return list(dict.fromkeys(addresses))


def is_public(address: Address) -> bool:
    """Return whether an IP address is on the public internet.

    An IPv6 address that stands for an IPv4 address, such as ``::ffff:8.8.8.8``, is never public.
    """
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global
