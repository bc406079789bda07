"""What readers and those who read through them tell each other: how far a source has been read, and what it was."""

from __future__ import annotations

from dataclasses import dataclass

HUB = "hub:"


@dataclass(frozen=True)
class SourceRecord:
    """What a source was when it was read: its path as given, its size in bytes and the SHA-256 of its bytes.

    A dataset of the Hub has the commit it was read at (``revision``) instead of size and sum.
    """

    path: str
    size: int | None = None
    sha256: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """How far a source has been read: rows, lines and bytes (or rows) behind us, and a sum of the bytes seen so far.

    ``sha256`` is the sum of the first ``hashed`` bytes of the file, so that it can be told later that they changed.
    """

    row: int = 0
    line: int = 0
    offset: int = 0
    hashed: int = 0
    sha256: str = ""
