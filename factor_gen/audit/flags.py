"""Rows that should be looked at, and why."""

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

UNSCORABLE = "cannot be scored"
IDENTICAL = "identical choices"
NO_CONTRADICTION = "no contradiction: differs in case, space or punctuation alone"
IN_PREFIX = "the prefix holds the completion"
REPEATED = "repeats another row"
LARGE_EDIT = "edit of more than half of the words"
SPACED_PUNCTUATION = "only the true one has a space before punctuation"
DOUBLE_SPACES = "only the true one has double spaces"
SPACE_AT_ENDS = "only the true one has white space at an end"
OTHER_END = "the true one ends in another mark than all others"
OTHER_CAPITAL = "only the true one begins with, or without, a capital"
OTHER_SIGNS = "only the true one has a typographic sign or accent that the others write plainly"
DAMAGED = "holds U+FFFD, the sign of text that was decoded wrongly"

_SHORTEST_LEAK = 20  # characters: less may well stand in a prefix by chance
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def _only_true(row: Row, has: Callable[[str], bool]) -> bool:
    found = [has(choice) for choice in row.choices]
    return found[row.gold] and sum(found) == 1


def _stands_out(row: Row, of: Callable[[str], object]) -> bool:
    """Whether no other choice has what the true one has; never where a choice has None."""
    found = [of(choice) for choice in row.choices]
    return None not in found and found.count(found[row.gold]) == 1


def _other_signs(row: Row) -> bool:
    """Whether a word of the true one stands in all others, but there in plain letters and signs
    only."""
    special = [word for word in row.choices[row.gold].split() if not word.isascii()]
    others = [set(choice.split()) for index, choice in enumerate(row.choices) if index != row.gold]
    return any(
        all(word not in words and plain_letters(word) in words for words in others)
        for word in special
    )


LEAKS: Mapping[str, Callable[[Row], bool]] = {
    SPACED_PUNCTUATION: lambda row: _only_true(
        row, lambda text: spaces_before_punctuation(text) > 0
    ),
    DOUBLE_SPACES: lambda row: _only_true(
        row, lambda text: re.search(r"\s{2,}", text.strip()) is not None
    ),
    SPACE_AT_ENDS: lambda row: _only_true(row, lambda text: text != text.strip()),
    OTHER_END: lambda row: _stands_out(row, final_mark),
    OTHER_CAPITAL: lambda row: _stands_out(row, first_letter_is_capital),
    OTHER_SIGNS: _other_signs,
}
"""What tells the true choice of a row without reading it."""


def flag_rows(rows: Iterable[Row]) -> Iterator[Flag]:
    """Every reason of every row, in order."""
    seen: dict[tuple[str, tuple[str, ...]], str] = {}
    for index, row in enumerate(rows):
        for reason, detail in reasons(row):
            yield Flag(index, row.location, reason, detail)
        first = seen.setdefault(identity(row), row.location)
        if first != row.location:
            yield Flag(index, row.location, REPEATED, first)


def reasons(row: Row) -> Iterator[tuple[str, str]]:
    """Each reason that holds for the row, with its detail."""
    texts = [choice.strip() for choice in row.choices]
    present = [text for text in texts if text]  # those that are missing are no choices
    has_identical = len(set(present)) < len(present)
    if has_identical:
        yield IDENTICAL, ""
    if row.problem:
        yield UNSCORABLE, row.problem
        return
    if any(_REPLACEMENT in text for text in (row.prefix, *row.choices)):
        yield DAMAGED, ""
    said = [bare(choice) for choice in row.choices]
    if not has_identical and said.count(said[row.gold]) > 1:
        yield NO_CONTRADICTION, ""
    if len(texts[row.gold]) >= _SHORTEST_LEAK and texts[row.gold] in row.prefix:
        yield IN_PREFIX, ""
    for reason, applies in LEAKS.items():
        if applies(row):
            yield reason, ""
    choices = normalise_spacing(row).choices  # a mark that stands alone is no word
    large, words = (
        max(distance(choices[row.gold], choice) for choice in choices),
        len(choices[row.gold].split()),
    )
    if 2 * large > words:
        yield LARGE_EDIT, f"{large} of {words} words"


def identity(row: Row) -> tuple[str, tuple[str, ...]]:
    """What a row that repeats another shares with it: prefix and choices, in whatever order."""
    return row.prefix.strip(), tuple(sorted(choice.strip() for choice in row.choices))
