"""What an operator returns: edits of a sentence.

They are made with the articles and capital letters that go with them.
"""

import re
from collections.abc import Iterable
from itertools import starmap
from typing import NamedTuple

from factor_gen.generate.rules.words import DATA
from factor_gen.text.lists import rows

_ARTICLE = re.compile(r"(?<!\w)(an?)(\s)$", re.IGNORECASE)
_ARTICLES = [(article, re.compile(word)) for article, word in rows(DATA / "articles.tsv")]


class Replacement(NamedTuple):
    """``new`` for ``text[start:end]``."""

    start: int
    end: int
    new: str


class SentenceEdit(NamedTuple):
    """What an operator does: replacements that belong together, and the error type."""

    operator: str
    type: str
    replacements: tuple[Replacement, ...]
    """They are in order and apart from each other; there is at least one."""


def edit(operator: str, error_type: str, *replacements: tuple[int, int, str]) -> SentenceEdit:
    """An edit from ``(start, end, new)``."""
    return SentenceEdit(operator, error_type, tuple(starmap(Replacement, sorted(replacements))))


def finish(text: str, replacements: Iterable[Replacement]) -> tuple[Replacement, ...]:
    """Add what goes with an edit: capital letters and articles.

    A sentence still begins with a capital letter, and a new word that needs another article has it
    (``an increase`` becomes ``a fall``).
    """
    finished = []
    for start, end, new in replacements:
        old = text[start:end]
        if old[:1].isupper() and new[:1].islower() and _starts_sentence(text, start):
            new = new[0].upper() + new[1:]
        article = _ARTICLE.search(text, max(0, start - 4), start)
        if article and new and article[1].lower() != article_of(new):
            right = article_of(new).capitalize() if article[1][0].isupper() else article_of(new)
            new = right + article[2] + new
            start = article.start()
        finished.append(Replacement(start, end, new))
    return tuple(finished)


def apply(text: str, replacements: Iterable[Replacement]) -> str:
    """The text with the replacements made."""
    for start, end, new in reversed(list(replacements)):
        text = text[:start] + new + text[end:]
    return text


def described(text: str, replacements: Iterable[Replacement]) -> str:
    """``old -> new``, several joined by ``; ``."""
    return "; ".join(f"{text[start:end]} -> {new}" for start, end, new in replacements)


def article_of(word: str) -> str:
    """``a`` or ``an``, as the word wants it."""
    return next(article for article, beginning in _ARTICLES if beginning.match(word))


def _starts_sentence(text: str, start: int) -> bool:
    before = text[:start].rstrip(" \t\n\"“”'‘’([")
    return not before or before[-1] in ".!?:-–—"
