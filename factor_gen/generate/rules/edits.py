"""Edits of a sentence, as the operators of this package return them.

`factor_gen.generate.rules.generator` mends articles and capital letters, and applies them.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from factor_gen.generate.rules.words import DATA
from factor_gen.text.lists import rows

_ARTICLE_BEFORE = re.compile(r"(?<!\w)(an?)(\s)$", re.IGNORECASE)
_ARTICLES = [(article, re.compile(beginning)) for article, beginning in rows(DATA / "articles.tsv")]
_LONGEST_ARTICLE = 4  # characters, with the white space around it


class Replacement(NamedTuple):
    """A new text in the place of the characters ``text[start:end]``."""

    start: int
    end: int
    new: str


class SentenceEdit(NamedTuple):
    """A change that an operator makes of a sentence."""

    operator: str
    """The name of the operator, such as ``antonym``."""
    error_type: str
    """The error type of the contradiction, such as ``predicate``."""
    replacements: tuple[Replacement, ...]
    """At least one replacement. They are in the order of the text and do not overlap."""


def make_edit(operator: str, error_type: str, *replacements: Replacement) -> SentenceEdit:
    """Build an edit from replacements in any order."""
    return SentenceEdit(operator, error_type, tuple(sorted(replacements)))


def adjust_articles_and_capitals(
    text: str, replacements: Iterable[Replacement]
) -> tuple[Replacement, ...]:
    """Adapt the article before new words, and their capital letter at the start of a sentence.

    Args:
        text: The sentence before the edit.
        replacements: The replacements that an operator made.

    Returns:
        The same replacements, of which some now include the article.

    Example:
        In *They saw an increase*, ``increase -> fall`` becomes ``an increase -> a fall``.
    """
    adjusted = []
    for start, end, new in replacements:
        was_capital = text[start:end][:1].isupper()
        if was_capital and new[:1].islower() and _starts_sentence(text, start):
            new = new[0].upper() + new[1:]

        article = _ARTICLE_BEFORE.search(text, max(0, start - _LONGEST_ARTICLE), start)
        if article and new:
            old_article, space = article.groups()
            new_article = indefinite_article(new)
            if old_article.lower() != new_article:
                if old_article[0].isupper():
                    new_article = new_article.capitalize()
                new = new_article + space + new
                start = article.start()
        adjusted.append(Replacement(start, end, new))
    return tuple(adjusted)


def _starts_sentence(text: str, start: int) -> bool:
    """Whether a sentence starts at a position, perhaps with a quotation mark before it."""
    before = text[:start].rstrip(" \t\n\"“”'‘’([")
    return not before or before[-1] in ".!?:-–—"


def indefinite_article(word: str) -> str:
    """Return the article that a word needs: ``an`` for *hour*, but ``a`` for *house*."""
    return next(article for article, beginning in _ARTICLES if beginning.match(word))


def apply_replacements(text: str, replacements: Iterable[Replacement]) -> str:
    """Return the text with all replacements made.

    Args:
        text: The text before the edit.
        replacements: Replacements in the order of the text, which do not overlap.
    """
    # From the last one on, because a replacement moves all characters after it.
    for replacement in reversed(list(replacements)):
        text = text[: replacement.start] + replacement.new + text[replacement.end :]
    return text


def describe_replacements(text: str, replacements: Iterable[Replacement]) -> str:
    """Write replacements as a benchmark records them, such as ``he -> she; his -> her``.

    Args:
        text: The text before the edit.
        replacements: The replacements in the order of the text.
    """
    return "; ".join(f"{text[start:end]} -> {new}" for start, end, new in replacements)
