"""Which words an edit of a sentence changes, however wide its author cut it."""

import re
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

# Numbers keep their signs and points, and words their hyphens and apostrophes.
_TOKEN = re.compile(r"(?:[A-Z]\.){2,}|[$€£¥]?\d+(?:[.,]\d+)*\w*|[^\W\d]\w*(?:[-'’]\w+)*|[^\w\s]")
_MOST_COMPARED = 1000  # words of both texts


class TextChange(NamedTuple):
    """A change of a sentence: ``new`` in the place of ``old``. One of the two may be empty."""

    before: str
    """The text before the changed words."""
    old: str
    new: str
    after: str
    """The text after the changed words."""


def find_changes(sentence: str, edited: str) -> list[TextChange]:
    """Find the words that differ between a sentence and its edited form.

    Example:
        *from a month earlier* in the place of *from a year earlier* changes *year* into *month*.

    Args:
        sentence: The sentence before the edit.
        edited: The sentence after it.

    Returns:
        The changes in order, each as small as whole words allow.
    """
    old_tokens = list(_TOKEN.finditer(sentence))
    new_tokens = list(_TOKEN.finditer(edited))
    differences = _find_differences(
        [_ignore_case(token.group()) for token in old_tokens],
        [_ignore_case(token.group()) for token in new_tokens],
    )
    changes = []
    for difference in differences:
        old = _character_slice(old_tokens, difference.old_words, len(sentence))
        new = _character_slice(new_tokens, difference.new_words, len(edited))
        changes.append(
            TextChange(
                before=sentence[: old.start],
                old=sentence[old],
                new=edited[new],
                after=sentence[old.stop :],
            )
        )
    return changes


class _Difference(NamedTuple):
    """The words of a text that differ from those in another one, as ranges of their indexes."""

    old_words: range
    new_words: range


def _find_differences(old: list[str], new: list[str]) -> list[_Difference]:
    """Find the words that differ between two texts.

    Example:
        ``["a", "year"]`` and ``["a", "long", "month"]`` differ in the words ``range(1, 2)`` of the
        first and ``range(1, 3)`` of the second.
    """
    if old == new:
        return []
    # To compare long texts in full would take quadratic time. They differ in all words but those
    # with which both begin and end.
    if len(old) + len(new) > _MOST_COMPARED:
        num_first = _num_equal(old, new)
        num_last = _num_equal(old[num_first:][::-1], new[num_first:][::-1])
        old_words = range(num_first, len(old) - num_last)
        new_words = range(num_first, len(new) - num_last)
        return [_Difference(old_words, new_words)]

    differences = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            differences.append(_Difference(range(old_start, old_end), range(new_start, new_end)))
    return differences


def _num_equal(first: list[str], second: list[str]) -> int:
    """Return with how many equal words two texts begin."""
    pairs = zip(first, second, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _ignore_case(word: str) -> str:
    """Return a word in lower case, since it may begin the sentence; *US* stays as it is."""
    return word if word.isupper() else word.lower()


def _character_slice(tokens: list[re.Match[str]], token_range: range, text_length: int) -> slice:
    """Return the slice of a text that holds some of its tokens.

    Args:
        tokens: All tokens of the text.
        token_range: The indexes of the tokens to return. An empty range is the place of an
            insertion, for which the slice is empty too.
        text_length: The number of characters of the text.
    """
    if token_range:
        return slice(tokens[token_range[0]].start(), tokens[token_range[-1]].end())
    # An insertion stands right before the next token.
    is_at_end = token_range.start == len(tokens)
    position = text_length if is_at_end else tokens[token_range.start].start()
    return slice(position, position)
