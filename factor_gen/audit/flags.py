"""Finds the rows of a benchmark that somebody should look at, and says why.

`factor_gen.audit.audit` calls `flag_rows`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from factor_gen.audit.records import Flag
from factor_gen.audit.words import (
    final_punctuation,
    first_letter_is_capital,
    remove_case_and_punctuation,
    to_plain_letters,
    word_edit_distance,
)
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing, spaces_before_punctuation

LARGE_EDIT = "edit of more than half of the words"
_SHORTEST_LEAK = 20  # characters; a shorter completion may be in the prefix by chance
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_DOUBLE_SPACES = re.compile(r"\s{2,}")


def flag_rows(rows: Iterable[Row]) -> Iterator[Flag]:
    """Yield one flag for each reason to look at a row, in the order of the rows.

    Rows that cannot be scored are flagged too.
    """
    # The content of the rows before.
    earlier_keys = set()
    for index, row in enumerate(rows):
        for reason in find_reasons(row):
            yield Flag(index, row.location, reason)

        key = content_key(row)
        if key in earlier_keys:
            yield Flag(index, row.location, "repeats another row")
        earlier_keys.add(key)


def content_key(row: Row) -> tuple[str, tuple[str, ...]]:
    """Return a key that is the same for rows with the same prefix and choices, in any order."""
    # Rows that differ only in white space at the ends count as the same.
    return row.prefix.strip(), tuple(sorted(choice.strip() for choice in row.choices))


def find_reasons(row: Row) -> Iterator[str]:
    """Yield each reason to look at a row of a benchmark, such as ``identical choices``.

    Most reasons are not checked if the row cannot be scored.
    """
    has_identical_choices = _has_identical_choices(row)
    if has_identical_choices:
        yield "identical choices"
    # A row with a problem may lack choices.
    if row.problem:
        yield "cannot be scored"
        return

    if any(_REPLACEMENT in text for text in (row.prefix, *row.choices)):
        yield "holds U+FFFD, the sign of text that was decoded wrongly"
    if not has_identical_choices and _has_trivial_edit(row):
        yield "no contradiction: differs in case, space or punctuation alone"
    completion = row.choices[row.gold].strip()
    if len(completion) >= _SHORTEST_LEAK and completion in row.prefix:
        yield "the prefix holds the completion"
    # For instance, only the true completion begins with a capital.
    for reason, gives_truth_away in _LEAKS.items():
        if gives_truth_away(row):
            yield reason
    if _has_large_edit(row):
        yield LARGE_EDIT


def _has_identical_choices(row: Row) -> bool:
    """Tell whether two choices are the same text. Choices that are missing do not count."""
    choices = [choice.strip() for choice in row.choices if choice.strip()]
    return len(set(choices)) < len(choices)


def _has_trivial_edit(row: Row) -> bool:
    """Tell whether a contradiction says the same as the true completion, e.g. in capitals."""
    # For instance, "The Plan" and "the plan" become equal.
    texts = [remove_case_and_punctuation(choice) for choice in row.choices]
    return texts.count(texts[row.gold]) > 1


def _has_large_edit(row: Row) -> bool:
    """Tell whether a contradiction changes more than half of the words of the true completion."""
    # A full stop after a space would count as a word.
    choices = normalise_spacing(row).choices
    completion = choices[row.gold]
    largest_edit = max(word_edit_distance(completion, choice) for choice in choices)
    return largest_edit > len(completion.split()) / 2


def contradictions_of(row: Row) -> list[str]:
    """Return the choices of a row except for the true completion."""
    return [choice for index, choice in enumerate(row.choices) if index != row.gold]


def _only_completion_has(row: Row, has_feature: Callable[[str], bool]) -> bool:
    """Tell whether the true completion has a feature that no contradiction has."""
    is_in_contradiction = any(map(has_feature, contradictions_of(row)))
    return has_feature(row.choices[row.gold]) and not is_in_contradiction


def _completion_differs(row: Row, feature: Callable[[str], object]) -> bool:
    """Tell whether the true completion differs from all contradictions in a feature.

    Args:
        row: A row that can be scored.
        feature: Returns a feature of a choice, such as the punctuation at its end. If it returns
            None for one of the choices, they cannot be compared, and do not differ.
    """
    values = [feature(choice) for choice in row.choices]
    return None not in values and values.count(values[row.gold]) == 1


def _only_contradictions_are_plain(row: Row) -> bool:
    """Tell whether all contradictions write a word of the true completion without its accents.

    Example:
        The true completion has ``Zoë``, and all contradictions have ``Zoe``.
    """
    words_of_contradictions = [set(choice.split()) for choice in contradictions_of(row)]
    for word in row.choices[row.gold].split():
        # A word without accents or typographic signs has no plainer form.
        if word.isascii():
            continue
        plain_word = to_plain_letters(word)
        if all(word not in words and plain_word in words for words in words_of_contradictions):
            return True
    return False


_LEAKS: Mapping[str, Callable[[Row], bool]] = {
    "only the true one has a space before punctuation": (
        lambda row: _only_completion_has(row, lambda text: spaces_before_punctuation(text) > 0)
    ),
    "only the true one has double spaces": (
        lambda row: _only_completion_has(
            row, lambda text: bool(_DOUBLE_SPACES.search(text.strip()))
        )
    ),
    "only the true one has white space at an end": (
        lambda row: _only_completion_has(row, lambda text: text != text.strip())
    ),
    "the true one ends in another mark than all others": (
        lambda row: _completion_differs(row, final_punctuation)
    ),
    "only the true one begins with, or without, a capital": (
        lambda row: _completion_differs(row, first_letter_is_capital)
    ),
    "only the true one has a typographic sign or accent that the others write plainly": (
        _only_contradictions_are_plain
    ),
}
"""Signs by which the true completion of a row can be told without reading it."""
