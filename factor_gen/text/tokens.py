"""Cuts a text into words and marks, each with its exact place."""

from __future__ import annotations

import re

from factor_gen.text.analysis import Token

_ABBREVIATIONS = (
    "Mr|Mrs|Ms|Dr|St|Sen|Rep|Gov|Gen|Lt|Col|Sgt|Capt|Prof|Rev|Hon|Jr|Sr|vs|No|Inc|Corp|Ltd|Co|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_TOKEN = re.compile(
    rf"""
      (?:https?://|www\.)[^\s<>"]{{1,500}}                                      # addresses are one word
    | (?:[^\W\d_]\.){{2,}}                                                      # U.S., a.m.
    | (?:{_ABBREVIATIONS})\.(?=\s+\S)                                           # Mr. Smith, Jan. 14; not at the very end
    | [$€£¥]?\d+(?:[,.:]\d+)*(?:%|(?:st|nd|rd|th|s|am|pm|bn|mln|m|k)\b)?(?:[-–][^\W_]+)*   # $1.98, 5.6%, 10-year, 5-3
    | [^\W\d_][^\W_]*(?:(?:[-'’&/]|\.(?=[A-Z]\b|(?:com|org|net|gov)\b))[^\W_]+)*  # O'Brien, AT&T, SHEL.L
    | \.{{2,}} | [-–—]+
    | \S
    """,
    re.VERBOSE,
)
_CLITIC = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)


def tokenise(text: str) -> list[Token]:
    """The tokens of a text, untagged. ``don't`` is two: ``do`` and ``n't``; so is ``Ann's``."""
    tokens = []
    for match in _TOKEN.finditer(text):
        word, start, end = match.group(), match.start(), match.end()
        clitic = _CLITIC.search(word) if len(word) > 2 and ("'" in word or "’" in word) else None
        if clitic and clitic.start() > 0:
            tokens.append(Token(word[: clitic.start()], start, start + clitic.start()))
            tokens.append(Token(clitic.group(), start + clitic.start(), end))
        else:
            tokens.append(Token(word, start, end))
    return tokens
