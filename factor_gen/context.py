"""The near context of a completion: the last words of its prefix."""

from __future__ import annotations

_CHARACTERS = 40  # of a word at most, on average: a megabyte without a space is no near context


def last_words(text: str, count: int) -> str:
    """The end of ``text`` from its ``count``-th last word on, white space as it stands; all of it if it has fewer words, but no
    more than 40 characters a word."""
    if count <= 0:
        return ""
    near = text[-count * _CHARACTERS :]
    parts = near.rsplit(maxsplit=count)
    return near if len(parts) <= count else near[len(parts[0]) :].lstrip()
