"""A page as passages: those that it was kept in, or pieces of about 256 words."""

from __future__ import annotations

SEPARATOR = "####SPECIAL####SEPARATOR####"  # FActScore's
WORDS = 256  # of a passage; FActScore has as many tokens of RoBERTa
_MARKS = ("<s>", "</s>")  # RoBERTa's, which FActScore leaves in its pages


def split_page(text: str) -> list[str]:
    """The passages of a page in their order, none of them empty. A passage that stands between separators stays as it is; a page
    without any is cut after every ``WORDS`` words (what white space separates), line breaks becoming spaces."""
    if SEPARATOR in text:
        return [passage for part in text.split(SEPARATOR) if (passage := _without_marks(part))]
    words = _without_marks(text).split()
    return [" ".join(words[start : start + WORDS]) for start in range(0, len(words), WORDS)]


def _without_marks(text: str) -> str:
    for mark in _MARKS:
        text = text.replace(mark, " ")
    return text.strip()
