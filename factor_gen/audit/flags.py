"""Rows of a benchmark that should be looked at, and why."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from factor_gen.audit.records import Flag
from factor_gen.audit.words import (
    bare,
    distance,
    final_mark,
    first_letter_is_capital,
    plain_letters,
)
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing, spaces_before_punctuation

LARGE_EDIT = "edit of more than half of the words"
_SHORTEST_LEAK = 20  # characters: less may well stand in a prefix by chance
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_DOUBLE_SPACES = re.compile(r"\s{2,}")


def contradictions_of(row: Row) -> list[str]:
    """Return the choices of a row but the true one."""
    return [choice for index, choice in enumerate(row.choices) if index != row.gold]


def _only_true(row: Row, has_sign: Callable[[str], bool]) -> bool:
    """Whether the true choice alone has a sign."""
    return [index for index, choice in enumerate(row.choices) if has_sign(choice)] == [row.gold]


def _stands_out(row: Row, value_of: Callable[[str], object]) -> bool:
    """Whether no other choice has the value of the true one; never where a choice has None."""
    values = [value_of(choice) for choice in row.choices]
    return None not in values and values.count(values[row.gold]) == 1


def _has_other_signs(row: Row) -> bool:
    """Whether all other choices have a word of the true one, but in plain letters and signs."""
    others = [set(choice.split()) for choice in contradictions_of(row)]
    for word in row.choices[row.gold].split():
        plain = plain_letters(word)
        if not word.isascii() and all(word not in words and plain in words for words in others):
            return True
    return False


_LEAKS: Mapping[str, Callable[[Row], bool]] = {
    "only the true one has a space before punctuation": (
        lambda row: _only_true(row, lambda text: spaces_before_punctuation(text) > 0)
    ),
    "only the true one has double spaces": (
        lambda row: _only_true(row, lambda text: bool(_DOUBLE_SPACES.search(text.strip())))
    ),
    "only the true one has white space at an end": (
        lambda row: _only_true(row, lambda text: text != text.strip())
    ),
    "the true one ends in another mark than all others": lambda row: _stands_out(row, final_mark),
    "only the true one begins with, or without, a capital": (
        lambda row: _stands_out(row, first_letter_is_capital)
    ),
    "only the true one has a typographic sign or accent that the others write plainly": (
        _has_other_signs
    ),
}
"""What tells the true choice of a row without reading it."""


def flag_rows(rows: Iterable[Row]) -> Iterator[Flag]:
    """Yield every reason of every row, in order."""
    first_locations: dict[tuple[str, tuple[str, ...]], str] = {}
    for index, row in enumerate(rows):
        for reason in reasons(row):
            yield Flag(index, row.location, reason)
        if first_locations.setdefault(identity(row), row.location) != row.location:
            yield Flag(index, row.location, "repeats another row")


def reasons(row: Row) -> Iterator[str]:
    """Yield each reason that holds for the row."""
    texts = [choice.strip() for choice in row.choices]
    present = [text for text in texts if text]  # those that are missing are no choices
    has_identical = len(set(present)) < len(present)
    if has_identical:
        yield "identical choices"
    if row.problem:
        yield "cannot be scored"
        return
    if any(_REPLACEMENT in text for text in (row.prefix, *row.choices)):
        yield "holds U+FFFD, the sign of text that was decoded wrongly"
    bare_texts = [bare(choice) for choice in row.choices]
    if not has_identical and bare_texts.count(bare_texts[row.gold]) > 1:
        yield "no contradiction: differs in case, space or punctuation alone"
    completion = texts[row.gold]
    if len(completion) >= _SHORTEST_LEAK and completion in row.prefix:
        yield "the prefix holds the completion"
    for reason, applies in _LEAKS.items():
        if applies(row):
            yield reason
    choices = normalise_spacing(row).choices  # a mark that stands alone is no word
    largest = max(distance(choices[row.gold], choice) for choice in choices)
    if 2 * largest > len(choices[row.gold].split()):
        yield LARGE_EDIT


def identity(row: Row) -> tuple[str, tuple[str, ...]]:
    """Return what a row shares with one that it repeats: prefix and choices, in whatever order."""
    return row.prefix.strip(), tuple(sorted(choice.strip() for choice in row.choices))
