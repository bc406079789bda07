"""A contradiction in the spacing and the quotes of its completion, wherever the two have the same
words.

Models tidy up what they copy: they drop the space that a corpus has before a comma, or straighten a
curly quote. In Expert-FACTOR that alone tells most true completions from false ones, so what was
not edited is copied from the completion itself.
"""

import re
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from lm_factuality.ground.sentences import SIGNS

_TOKEN = re.compile(
    rf"\s*(?:\d+(?:[.,:]\d+)+|[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s])"
)  # 5.6 and 10:30 are one
_CLOSING = frozenset(".,;:!?")
_QUOTES = {**dict.fromkeys("\u2018\u2019", "'"), **dict.fromkeys("\u201c\u201d", '"')}
_PLAIN = str.maketrans({**_QUOTES, **dict.fromkeys("\u2010\u2011\u2013\u2014\u2212", "-")})


@dataclass(frozen=True)
class Token:
    """A word or a mark, and the white space before it."""

    text: str
    space: str

    @property
    def plain(self) -> str:
        """The text with straight quotes and plain hyphens."""
        return self.text.translate(_PLAIN)


def tokens(text: str) -> list[Token]:
    """The words and marks of ``text``; joined with their white space they give it back, but for
    white space at its end."""
    found = [match[0] for match in _TOKEN.finditer(text)]
    return [Token(each.lstrip(), each[: len(each) - len(each.lstrip())]) for each in found]


def distance(one: str, other: str) -> int:
    """How many words and marks have to be put in, taken out or replaced to make ``one`` into
    ``other``."""
    return int(
        Levenshtein.distance(
            [each.plain for each in tokens(one)], [each.plain for each in tokens(other)]
        )
    )


def respaced(contradiction: str, completion: str) -> str:
    """``contradiction`` with each word and mark that it shares with ``completion`` written, and
    spaced, as it is there.

    ``. , ; : ! ?`` that were put in take the completion's habit: a space before them if its own all
    have one."""
    theirs, ours = tokens(contradiction), tokens(completion)
    written = [
        Token(
            each.text, _habit(each, ours) if _closes(each, following) else " " if each.space else ""
        )
        for each, following in zip(theirs, [*theirs[1:], None], strict=False)
    ]
    opcodes = Levenshtein.opcodes([each.plain for each in ours], [each.plain for each in theirs])
    for opcode in opcodes:
        if opcode.tag != "equal":
            continue
        for place in range(opcode.src_start, opcode.src_end):
            target = opcode.dest_start + place - opcode.src_start
            is_edge = place == opcode.src_start
            written[target] = Token(
                ours[place].text, _space(ours[place], written[target], is_edge, place, target)
            )
    return "".join(
        f"{each.space if number else ''}{each.text}" for number, each in enumerate(written)
    )


def _space(ours: Token, theirs: Token, is_edge: bool, place: int, target: int) -> str:
    """The white space before a shared token; where an edit ends right before it, a word may need a
    space that it had not."""
    is_first = place == 0 and target > 0
    if is_first or (
        is_edge and ours.text not in _CLOSING and bool(ours.space) != bool(theirs.space)
    ):
        return theirs.space
    return ours.space


def _closes(mark: Token, following: Token | None) -> bool:
    """Whether ``mark`` ends a phrase, rather than standing within an abbreviation or an address."""
    return mark.text in _CLOSING and (following is None or bool(following.space))


def _habit(mark: Token, ours: list[Token]) -> str:
    """The white space before such a mark in the completion; before any of them, where it has none
    of that kind."""
    marks = [each for each in ours if each.text in _CLOSING]
    spaces = [each.space for each in [one for one in marks if one.text == mark.text] or marks]
    return " " if spaces and all(spaces) else ""
