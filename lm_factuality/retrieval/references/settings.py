"""What a fetch may cost, and how politely it asks: read by ``read_settings``, which says what a value should have been."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from lm_factuality import __version__

USER_AGENT = f"lm-factuality/{__version__} (factuality research; asks once for each page that a data set cites)"
_DAY = 86_400  # seconds: no limit or pause is longer, nor could every timer wait for more
_PRODUCT = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # the token that begins a User-Agent (RFC 9110, 10.1.5)
_AGENT = "one line of ASCII text with the name of a program first, such as my-lab/1.0 (me@example.org)"

Seconds = Annotated[float, Field(gt=0, le=_DAY)]
Pause = Annotated[float, Field(ge=0, le=_DAY)]
Positive = Annotated[int, Field(ge=1, le=1 << 40, description="a whole number from 1 to 2**40")]
Count = Annotated[int, Field(ge=0, le=1 << 40, description="a whole number from 0 to 2**40")]


@dataclass(frozen=True)
class Limits:
    """Bounds on one document. Seconds, bytes (as sent and as decompressed alike), redirects, PDF pages.

    ``seconds`` is for the document as a whole, from the first connection to the last byte, redirects and retries
    included, time spent waiting for a turn not. ``connect`` and ``read`` bound a connection and a pause between bytes.
    ``reading`` is for the extraction of its text, in a process that may use ``memory`` bytes.
    """

    seconds: Seconds = 60.0
    connect: Seconds = 10.0
    read: Seconds = 20.0
    max_bytes: Positive = 20_000_000
    max_redirects: Count = 5
    max_pages: Positive = 300
    reading: Seconds = 60.0
    memory: Positive = 2 << 30


@dataclass(frozen=True)
class Manners:
    """How servers are asked: ``concurrency`` documents at a time, ``per_host`` of them from one host, ``delay`` seconds
    between two starts there (more if its robots.txt asks for more), ``retries`` after transient failures, and no
    ``Retry-After`` beyond ``longest_wait`` seconds is waited for."""

    concurrency: Positive = 8
    per_host: Positive = 1
    delay: Pause = 1.0
    user_agent: Annotated[str, Field(pattern=f"^{_PRODUCT}[ -~]*$", description=_AGENT)] = USER_AGENT
    obeys_robots: bool = True
    retries: Count = 2
    longest_wait: Pause = 60.0

    @property
    def product(self) -> str:
        """The name of the program, by which robots.txt may name it: ``my-lab`` of ``my-lab/1.0``."""
        found = re.match(_PRODUCT, self.user_agent)
        assert found is not None  # by the pattern
        return found[0]
