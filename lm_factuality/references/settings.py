"""What a fetch may cost, and how politely it asks."""

from __future__ import annotations

from dataclasses import dataclass

from lm_factuality import __version__
from lm_factuality.errors import ConfigError

USER_AGENT = f"lm-factuality/{__version__} (factuality research; asks once for each page that a data set cites)"


@dataclass(frozen=True)
class Limits:
    """Bounds on one document. Seconds, bytes (as sent and as decompressed alike), redirects, PDF pages.

    ``seconds`` is for the document as a whole, from the first connection to the last byte, redirects and retries
    included, time spent waiting for a turn not. ``connect`` and ``read`` bound a connection and a pause between bytes.
    ``reading`` is for the extraction of its text, in a process that may use ``memory`` bytes.
    """

    seconds: float = 60.0
    connect: float = 10.0
    read: float = 20.0
    max_bytes: int = 20_000_000
    max_redirects: int = 5
    max_pages: int = 300
    reading: float = 60.0
    memory: int = 2 << 30

    def __post_init__(self) -> None:
        for name in ("seconds", "connect", "read", "max_bytes", "max_pages", "reading", "memory"):
            _at_least(name, getattr(self, name), above=0)
        _at_least("max_redirects", self.max_redirects, above=-1)


@dataclass(frozen=True)
class Manners:
    """How servers are asked: ``concurrency`` documents at a time, ``per_host`` of them from one host, ``delay`` seconds
    between two starts there (more if its robots.txt asks for more), ``retries`` after transient failures, and no
    ``Retry-After`` beyond ``longest_wait`` seconds is waited for."""

    concurrency: int = 8
    per_host: int = 1
    delay: float = 1.0
    user_agent: str = USER_AGENT
    obeys_robots: bool = True
    retries: int = 2
    longest_wait: float = 60.0

    def __post_init__(self) -> None:
        _at_least("concurrency", self.concurrency, above=0)
        _at_least("per_host", self.per_host, above=0)
        for name in ("delay", "retries", "longest_wait"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}, expected 0 or more")
        if not self.user_agent.strip() or not self.user_agent.isascii() or not self.user_agent.isprintable():
            raise ConfigError(f"user_agent is {self.user_agent!r}, expected one line of ASCII text that names you")


def _at_least(name: str, value: float, above: int) -> None:
    if not value > above:
        raise ConfigError(f"{name} is {value}, expected more than {above}")
