"""The spaces and quotes of a contradiction, which are copied from its completion.

Models tidy up what they copy: they drop the space that a corpus has before a comma, or straighten a
curly quote. In Expert-FACTOR that alone tells most true completions from false ones.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from lm_factuality.ground.sentences import SIGNS

# Numbers such as 5.6 and 10:30 are one token.
_TOKEN = re.compile(rf"\s*(?:\d+(?:[.,:]\d+)+|[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s])")
_PUNCTUATION = frozenset(".,;:!?")
_STRAIGHT_QUOTES = {
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u201c\u201d", '"'),
}
_HYPHENS = dict.fromkeys("\u2010\u2011\u2013\u2014\u2212", "-")
_PLAIN_CHARACTERS = str.maketrans(_STRAIGHT_QUOTES | _HYPHENS)


class SpacedToken(NamedTuple):
    """A word or mark with the white space before it."""

    text: str
    space: str
    """The white space before the token; empty if there is none."""


def split_tokens(text: str) -> list[SpacedToken]:
    """Split a text into words and marks.

    Example:
        ``"He ran ,"`` has the tokens ``He``, ``ran`` and ``,``, the last two after a space.

    Args:
        text: Any text. The tokens with their white space are the text up to its last token.
    """
    tokens = []
    for match in _TOKEN.finditer(text):
        # The match begins with the white space.
        word = match[0].lstrip()
        tokens.append(SpacedToken(word, match[0][: -len(word)]))
    return tokens


def plain_tokens(text: str) -> list[str]:
    """Split a text into words and marks, with straight quotes and plain hyphens."""
    return [token.text.translate(_PLAIN_CHARACTERS) for token in split_tokens(text)]


def token_distance(first: str, second: str) -> int:
    """Count the words and marks to insert, delete or replace to turn one text into another."""
    return int(Levenshtein.distance(plain_tokens(first), plain_tokens(second)))


def copy_spacing(contradiction: str, completion: str) -> str:
    """Write the words that a contradiction shares with its completion as the completion does.

    Example:
        After *He ran , then sat .*, the contradiction *He walked, then sat.* becomes
        *He walked , then sat .*

    Args:
        contradiction: The sentence that a model wrote.
        completion: The sentence that it edited.

    Returns:
        The contradiction with the completion's spaces, quotes and hyphens. New punctuation has a
        space before it if all punctuation of the completion has one.
    """
    new_tokens = split_tokens(contradiction)
    old_tokens = split_tokens(completion)
    sources = _unedited_tokens(completion, contradiction)

    text = ""
    for index, token in enumerate(new_tokens):
        word = token.text
        space = _usual_space(new_tokens, index, old_tokens)
        # A token that the model did not edit is copied from the completion.
        source = sources.get(index)
        if source is not None:
            word = old_tokens[source].text
            old_space = old_tokens[source].space
            # After an edit the spacing may change: "pre-war" becomes "post war".
            follows_edit = sources.get(index - 1) != source - 1 and word not in _PUNCTUATION
            is_spacing_edited = follows_edit and bool(old_space) != bool(space)
            if source > 0 and not is_spacing_edited:
                space = old_space
        text += word if index == 0 else space + word
    return text


def _unedited_tokens(completion: str, contradiction: str) -> Mapping[int, int]:
    """Align a contradiction with its completion.

    Args:
        completion: The sentence that was edited.
        contradiction: The edited sentence.

    Returns:
        The index of the same token in the completion, by the index of each unedited token of the
        contradiction.
    """
    sources: dict[int, int] = {}
    # Blocks of equal tokens alternate with blocks of edited ones.
    for block in Levenshtein.opcodes(plain_tokens(completion), plain_tokens(contradiction)):
        if block.tag == "equal":
            offset = block.src_start - block.dest_start
            for index in range(block.dest_start, block.dest_end):
                sources[index] = index + offset
    return sources


def _usual_space(
    new_tokens: Sequence[SpacedToken], index: int, old_tokens: Sequence[SpacedToken]
) -> str:
    """Return the white space before a new token of a contradiction.

    Args:
        new_tokens: The tokens of the contradiction.
        index: The index of the token.
        old_tokens: The tokens of the completion.

    Returns:
        For a mark such as a comma, what the completion has before this mark, or before others if it
        lacks the mark. For any other token, one space if the model wrote some.
    """
    token = new_tokens[index]
    ends_word = index + 1 == len(new_tokens) or bool(new_tokens[index + 1].space)
    # The comma in "1,200" ends no word.
    if token.text not in _PUNCTUATION or not ends_word:
        return " " if token.space else ""

    # "He ran , then sat ." has a space before each mark, and so has a new mark.
    marks = [old_token for old_token in old_tokens if old_token.text in _PUNCTUATION]
    same_marks = [mark for mark in marks if mark.text == token.text] or marks
    are_spaced = bool(same_marks) and all(mark.space for mark in same_marks)
    return " " if are_spaced else ""
