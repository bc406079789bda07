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
    old_words = [_ignore_case(token.group()) for token in old_tokens]
    new_words = [_ignore_case(token.group()) for token in new_tokens]

    changes = []
    for old_start, old_end, new_start, new_end in _changed_spans(old_words, new_words):
        start, end = _span_of_tokens(old_tokens, old_start, old_end, len(sentence))
        edited_start, edited_end = _span_of_tokens(new_tokens, new_start, new_end, len(edited))
        new = edited[edited_start:edited_end]
        changes.append(TextChange(sentence[:start], sentence[start:end], new, sentence[end:]))
    return changes


def _changed_spans(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    """Return the start and end of each change in the old words, and in the new ones.

    Texts that are much longer than a sentence have one change: all but the words with which both
    begin and end. Comparing them in full would take quadratic time.
    """
    if old == new:
        return []
    if len(old) + len(new) > _MOST_COMPARED:
        num_first = _num_equal(old, new)
        num_last = _num_equal(old[num_first:][::-1], new[num_first:][::-1])
        return [(num_first, len(old) - num_last, num_first, len(new) - num_last)]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [
        (old_start, old_end, new_start, new_end)
        for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes()
        if kind != "equal"
    ]


def _num_equal(first: list[str], second: list[str]) -> int:
    """Return with how many equal words two texts begin."""
    pairs = zip(first, second, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _ignore_case(word: str) -> str:
    """Return a word in lower case, since it may begin the sentence; *US* stays as it is."""
    return word if word.isupper() else word.lower()


def _span_of_tokens(
    tokens: list[re.Match[str]], start: int, end: int, text_length: int
) -> tuple[int, int]:
    """Return where some tokens begin and end in their text; an empty span if there are none."""
    if start < end:
        return tokens[start].start(), tokens[end - 1].end()
    position = tokens[start].start() if start < len(tokens) else text_length
    return position, position
