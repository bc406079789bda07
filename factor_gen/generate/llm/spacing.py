"""A contradiction in the spacing and the quotes of its completion.

Models tidy up what they copy: they drop the space that a corpus has before a comma, or straighten a
curly quote. In Expert-FACTOR that alone tells most true completions from false ones, so what was
not edited is copied from the completion itself.
"""

import re
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from lm_factuality.ground.sentences import SIGNS

# 5.6 and 10:30 are one token.
_TOKEN = re.compile(rf"\s*(?:\d+(?:[.,:]\d+)+|[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s])")
_CLOSING = frozenset(".,;:!?")
_QUOTES = {**dict.fromkeys("\u2018\u2019", "'"), **dict.fromkeys("\u201c\u201d", '"')}
_PLAIN = str.maketrans({**_QUOTES, **dict.fromkeys("\u2010\u2011\u2013\u2014\u2212", "-")})


class SpacedToken(NamedTuple):
    """A word or a mark, and the white space before it."""

    text: str
    space: str


def tokens(text: str) -> list[SpacedToken]:
    """Split a text into words and marks.

    Joined with their white space they give the text back, but for white space at its end.
    """
    parts = [match[0] for match in _TOKEN.finditer(text)]
    return [SpacedToken(part.lstrip(), part[: -len(part.lstrip())]) for part in parts]


def plain(text: str) -> list[str]:
    """The words and marks of a text with straight quotes and plain hyphens."""
    return [token.text.translate(_PLAIN) for token in tokens(text)]


def distance(one: str, other: str) -> int:
    """How many words and marks have to be put in, taken out or replaced to get the other text."""
    return int(Levenshtein.distance(plain(one), plain(other)))


def respaced(contradiction: str, completion: str) -> str:
    """Write and space what a contradiction shares with its completion as it is there.

    ``. , ; : ! ?`` that were put in take the completion's habit: a space before them if its own all
    have one.
    """
    theirs, ours = tokens(contradiction), tokens(completion)
    source_of: dict[int, int] = {}
    for opcode in Levenshtein.opcodes(plain(completion), plain(contradiction)):
        if opcode.tag == "equal":
            sources = range(opcode.src_start, opcode.src_end)
            source_of |= zip(range(opcode.dest_start, opcode.dest_end), sources, strict=True)
    text = ""
    for i, (word, space) in enumerate(theirs):
        closes = word in _CLOSING and (i + 1 == len(theirs) or bool(theirs[i + 1].space))
        space = _habit(word, ours) if closes else " " * bool(space)
        if i in source_of:
            source = source_of[i]
            word, own_space = ours[source]
            # Where an edit ends right before a word, it may need a space that it had not.
            is_edge = source_of.get(i - 1) != source - 1 and word not in _CLOSING
            if source > 0 and not (is_edge and bool(own_space) != bool(space)):
                space = own_space
        text += space + word if i else word
    return text


def _habit(mark: str, ours: list[SpacedToken]) -> str:
    """The white space before such a mark in the completion, or before any if it has none such."""
    marks = [token for token in ours if token.text in _CLOSING]
    alike = [token for token in marks if token.text == mark] or marks
    return " " if alike and all(token.space for token in alike) else ""
