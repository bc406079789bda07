"""The spaces and quotes of a contradiction, which are copied from its completion.

Models tidy up what they copy: they drop the space that a corpus has before a comma, or straighten a
curly quote. In Expert-FACTOR that alone tells most true completions from false ones.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from lm_factuality.ground.sentences import SIGNS

# White space and a word or mark. Numbers such as 5.6 and 10:30 are one token.
_TOKEN = re.compile(rf"(\s*)(\d+(?:[.,:]\d+)+|[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s])")
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
    """Split a text into words and marks, each with the white space before it.

    Example:
        ``"He ran ,"`` has the tokens ``He``, ``ran`` and ``,``, the last two after a space.
    """
    return [SpacedToken(word, space) for space, word in _TOKEN.findall(text)]


def plain_tokens(text: str) -> list[str]:
    """Split a text into words and marks, with straight quotes and plain hyphens."""
    return [token.text.translate(_PLAIN_CHARACTERS) for token in split_tokens(text)]


def token_distance(first: str, second: str) -> int:
    """Count the words and marks to insert, delete or replace to turn one text into another."""
    return int(Levenshtein.distance(plain_tokens(first), plain_tokens(second)))


def copy_spacing(contradiction: str, completion: str) -> str:
    """Give a contradiction the spacing, quotes and hyphens of the completion that it edits.

    Example:
        After *He ran , then sat .*, the contradiction *He walked, then sat.* becomes
        *He walked , then sat .*

    Args:
        contradiction: The sentence that a model wrote.
        completion: The sentence that it edited.

    Returns:
        The contradiction, in which all words and marks that were not edited stand as in the
        completion. A new mark has a space before it if the marks of the completion have one.
    """
    new_tokens = split_tokens(contradiction)
    old_tokens = split_tokens(completion)
    sources = _map_unedited_tokens(completion, contradiction)

    text = ""
    for index, token in enumerate(new_tokens):
        space = _usual_space(new_tokens, index, old_tokens)
        source = sources.get(index)
        if source is None:
            # The model wrote this token itself.
            text += space + token.text
            continue

        old_token = old_tokens[source]
        follows_edit = sources.get(index - 1) != source - 1
        # The first token of the completion has no space that could be copied.
        if source > 0:
            space = _copied_space(old_token, space, follows_edit)
        text += space + old_token.text
    # The contradiction itself begins without a space.
    return text.lstrip()


def _map_unedited_tokens(completion: str, contradiction: str) -> Mapping[int, int]:
    """Map each unedited token of a contradiction to the same token of the completion.

    Args:
        completion: The sentence that was edited.
        contradiction: The edited sentence.

    Returns:
        The index of the token in the completion, by its index in the contradiction. Tokens that
        the edit inserted or replaced are missing.

    Example:
        *He ran away* and *He quickly ran off* give ``{0: 0, 2: 1}``.
    """
    sources: dict[int, int] = {}
    # Blocks of equal tokens alternate with blocks of edited ones.
    for block in Levenshtein.opcodes(plain_tokens(completion), plain_tokens(contradiction)):
        if block.tag == "equal":
            offset = block.src_start - block.dest_start
            for index in range(block.dest_start, block.dest_end):
                sources[index] = index + offset
    return sources


def _copied_space(old_token: SpacedToken, new_space: str, follows_edit: bool) -> str:
    """Return the white space before a token of a contradiction that is copied from its completion.

    It is that of the completion, unless an edit just before it added or removed a space, as from
    *pre-war* to *post war*.

    Args:
        old_token: The token in the completion.
        new_space: The white space before the token in the contradiction.
        follows_edit: Whether the token before it was edited.
    """
    is_spacing_edited = follows_edit and bool(old_token.space) != bool(new_space)
    # The space before a comma is a habit of the corpus, which no edit changes.
    if is_spacing_edited and old_token.text not in _PUNCTUATION:
        return new_space
    return old_token.space


def _usual_space(
    new_tokens: Sequence[SpacedToken], index: int, old_tokens: Sequence[SpacedToken]
) -> str:
    """Return the space before a word or mark that a model added to a sentence, or an empty text.

    A word keeps the space that the model wrote. A mark gets a space if the marks of the sentence
    have one: a comma that is added to *He ran , then sat .* has a space before it.

    Args:
        new_tokens: The tokens of the contradiction that the model wrote.
        index: The index of the added token.
        old_tokens: The tokens of the completion that the model edited.
    """
    token = new_tokens[index]
    is_last = index + 1 == len(new_tokens)
    ends_word = is_last or bool(new_tokens[index + 1].space)
    # The first point in "U.S." ends no word, and is treated like a letter.
    if token.text not in _PUNCTUATION or not ends_word:
        return " " if token.space else ""

    marks = [old_token for old_token in old_tokens if old_token.text in _PUNCTUATION]
    same_marks = [mark for mark in marks if mark.text == token.text]
    # Other commas say best how a comma is written. Without any, all other marks do.
    models = same_marks or marks
    return " " if models and all(mark.space for mark in models) else ""
