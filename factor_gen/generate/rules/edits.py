"""Edits of a sentence, as the operators of this package return them.

`factor_gen.generate.rules.generator` mends articles and capital letters, and applies them.
"""

import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from factor_gen.generate.rules.words import DATA
from factor_gen.text.lists import read_rows

Value = TypeVar("Value")

# An article at the end of a text, and the space after it.
_ARTICLE_BEFORE = re.compile(r"(?<!\w)(an?)(\s)$", re.IGNORECASE)
# Each article with the expression for the beginning of its words. The first that matches counts.
_ARTICLES = [
    (article, re.compile(beginning)) for article, beginning in read_rows(DATA / "articles.tsv")
]
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


def sample_up_to(rng: Random, values: Sequence[Value], most: int) -> list[Value]:
    """Draw different values in a random order: all of them if there are no more than ``most``."""
    return rng.sample(values, min(most, len(values)))


def adjust_articles_and_capitals(
    text: str, replacements: Iterable[Replacement]
) -> tuple[Replacement, ...]:
    """Adapt the article before new words, and their capital letter at the start of a sentence.

    Example:
        In *They saw an increase*, ``increase -> fall`` becomes ``an increase -> a fall``.

    Args:
        text: The sentence before the edit.
        replacements: The replacements that an operator made.
    """
    adjusted = []
    for replacement in replacements:
        with_capital = _adjust_capital(text, replacement)
        adjusted.append(_adjust_article(text, with_capital))
    return tuple(adjusted)


def _adjust_capital(text: str, replacement: Replacement) -> Replacement:
    """Begin new words with a capital letter if the old ones had it as the start of a sentence.

    Within a sentence, the capital letter of the old words is that of a name, and is not copied.

    Args:
        text: The sentence before the edit.
        replacement: A replacement in it.

    Returns:
        ``Prices -> Costs`` for ``Prices -> costs``; the same replacement if it needs no change.
    """
    start, end, new = replacement
    was_capitalised = text[start:end][:1].isupper()
    if was_capitalised and new[:1].islower() and _starts_sentence(text, start):
        return Replacement(start, end, new[0].upper() + new[1:])
    return replacement


def _adjust_article(text: str, replacement: Replacement) -> Replacement:
    """Extend a replacement to the article before it if the new words need another article.

    Example:
        In *an increase*, ``increase -> fall`` becomes ``an increase -> a fall``.

    Args:
        text: The sentence before the edit.
        replacement: A replacement in it.

    Returns:
        The same replacement if the article fits the new words, or if there is none.
    """
    start, end, new = replacement
    article = _ARTICLE_BEFORE.search(text, max(0, start - _LONGEST_ARTICLE), start)
    # A deletion needs no article.
    if article is None or not new:
        return replacement
    old_article, space = article.groups()
    new_article = indefinite_article(new)
    if old_article.lower() == new_article:
        return replacement
    if old_article[0].isupper():
        new_article = new_article.capitalize()
    return Replacement(article.start(), end, new_article + space + new)


def _starts_sentence(text: str, start: int) -> bool:
    """Whether a sentence starts at a position, perhaps with a quotation mark before it."""
    before = text[:start].rstrip(" \t\n\"“”'‘’([")
    # After a colon or a dash, a capital letter is kept as well.
    return not before or before[-1] in ".!?:-–—"


def indefinite_article(word: str) -> str:
    """Return the article that a word needs: ``an`` for *hour*, but ``a`` for *house*."""
    # The last line of the list matches every word.
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
