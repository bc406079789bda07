"""A passage about a painter, and claims that inference models judge by it."""

from __future__ import annotations

TEXT = "Ada Lind was a painter who taught at the school in the north."
TITLE = "Ada Lind"
CLAIMS = (
    "Ada Lind was a pilot.",
    "She taught at the school.",
    "She flew mail to the islands in 1870.",
    "Ada",
)
