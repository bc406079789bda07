"""Which addresses may be connected to: those of the public internet, and those that the user names one by one."""

import socket
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import anyio

from lm_factuality.ground.errors import ConfigError
from lm_factuality.retrieval.references.links import TABLES, Dead

Address = IPv4Address | IPv6Address
Endpoint = tuple[Address, int]

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: the IPv4 address is the last 32 bits
_6TO4 = IPv6Network("2002::/16")  # RFC 3056: the IPv4 address is the 32 bits after the prefix
# Not public, yet not private for every supported version of the ipaddress module.
_SPECIAL: dict[IPv4Network | IPv6Network, str] = {ip_network(text): why for text, why in TABLES["special_networks"].items()}


def why_forbidden(address: Address) -> str | None:
    """What is wrong with connecting to ``address``, in a word or two; None if it is a public one.

    An IPv4 address inside an IPv6 one counts as what it is: a NAT64 or 6to4 address leads to the embedded one, and an
    IPv4-mapped one, which no public name has, is always refused.
    """
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return "IPv4-mapped"
        embedded = None
        if address in _NAT64:
            embedded = IPv4Address(int(address) & 0xFFFFFFFF)
        elif address in _6TO4:
            embedded = address.sixtofour
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
        raise ConfigError(f"--allow-address {text!r}: expected IP:PORT, such as 127.0.0.1:8123 or [::1]:8123")
    return address, port


async def resolve(host: str, port: int, allowed: frozenset[Endpoint], seconds: float) -> tuple[Address, ...]:
    """The addresses of ``host``, every one checked; only these may be connected to, so that the name cannot lead
    elsewhere a moment later.

    Raises:
        Dead: it has none (``dns``), no answer came within ``seconds`` (``timeout``), or any of them is forbidden.
    """
    lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        with anyio.fail_after(seconds):
            found = await anyio.to_thread.run_sync(lookup, abandon_on_cancel=True)
    except TimeoutError:
        raise Dead("timeout", f"{host}: no answer from the name servers in time", is_transient=True) from None
    except (OSError, UnicodeError) as error:
        is_transient = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
        raise Dead("dns", f"{host}: no address for this name ({error})", is_transient=is_transient) from None
    addresses = tuple(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
    for address in addresses:
        why = why_forbidden(address)
        if why and (address, port) not in allowed:
            named = str(address) if host == str(address) else f"{host} is {address}"
            shown = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
            raise Dead(
                "forbidden address", f"{named}, a forbidden address ({why}); if you run that server: --allow-address {shown}"
            )
    return addresses
