"""Addresses of HTTP services, their temporary failures, and the waits between tries of a request.

The backends of judges and the search of the web call them.
"""

import ipaddress
import math
import random
from urllib.parse import urlsplit

FIRST_DELAY = 0.5  # seconds: the longest wait before the second try; it doubles from try to try
MAX_DELAY = 30.0  # seconds: the longest wait between two tries, unless the server asks for more
MAX_RETRY_AFTER = 120.0  # seconds: the longest Retry-After of a server that is obeyed


class RetryableError(Exception):
    """A call failed, but the same request may succeed later."""

    def __init__(
        self, reason: str, retry_after: float | None = None, is_unreachable: bool = False
    ) -> None:
        """Describe the failure.

        Args:
            reason: What happened, in words.
            retry_after: Seconds that the server asks to wait, if it asks for any.
            is_unreachable: Whether not even a connection could be made.
        """
        super().__init__(reason)
        self.retry_after = retry_after
        self.is_unreachable = is_unreachable


def is_web_address(text: str) -> bool:
    """Return whether a text is a URL of the form ``http://HOST...`` or ``https://HOST...``."""
    try:
        url = urlsplit(text)
        # Port 0 is reserved. Reading a port that is no number up to 65535 raises a ValueError.
        has_valid_port = url.port != 0
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.hostname) and has_valid_port


def may_hold_secret(url: str) -> bool:
    """Return whether an address has a user, a password, a query or a fragment."""
    parts = urlsplit(url)
    has_credentials = parts.username is not None or parts.password is not None
    return has_credentials or bool(parts.query or parts.fragment)


def is_local(base_url: str) -> bool:
    """Return whether a server is on this machine or in a private network.

    Such servers seldom ask for a key. Examples are ``http://localhost:8000``,
    ``http://10.0.0.5/v1`` and ``http://gpu-box/v1``.
    """
    # "localhost" and names without a dot are resolved by the own network alone.
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        # The host is a name, not an IP address.
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


def retry_delay(attempt: int, retry_after: float | None = None) -> float:
    """Choose how long to wait before a request is tried again.

    The wait is random ("full jitter"), so that requests that failed together do not return
    together. Its upper bound doubles with every try.

    Args:
        attempt: The number of tries before the last one: 0 after the first try.
        retry_after: Seconds that the server asks to wait. The wait is no shorter, up to 120 s.

    Returns:
        Seconds.
    """
    jitter = random.uniform(0, min(MAX_DELAY, FIRST_DELAY * 2**attempt))
    if retry_after is None:
        return jitter
    return min(retry_after, MAX_RETRY_AFTER) + min(jitter, FIRST_DELAY)


def parse_retry_after(header: str | None) -> float | None:
    """Parse the seconds that a ``Retry-After`` header asks a client to wait.

    Returns:
        Seconds, at least 0. None if the header is missing or holds a date instead of a number.

    Example:
        ``"2.5"`` becomes 2.5.
    """
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
