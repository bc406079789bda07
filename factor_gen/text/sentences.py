"""Finds where the sentences of a text begin and end.

The corpus reader calls `sentence_spans`. It and the selection of sentences call `comparable_text`
to find sentences that repeat others.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

# All characters at which str.splitlines breaks lines end a line.
_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_UNUSUAL_SPACE = re.compile(r"[^\S \t]")
# In the documents of Expert-FACTOR, no space follows a label such as "Abstract:".
_LABEL = re.compile(r"\w+:(?=[A-ZÀ-ÖØ-Þ])")
_WHITE_SPACE = re.compile(r"\s+")
_ORDINAL = re.compile(r"(?<![\w.])\d{1,2}\.\s\Z")
# How many characters sentencex sees at once. If no quote is closed, its time grows with the square
# of their number.
_PIECE_LENGTH = 4_000


class SentenceSpan(NamedTuple):
    """Where a sentence starts and ends in a text."""

    start: int
    """The index of its first character."""

    end: int
    """The index after its last character."""


def comparable_text(text: str) -> str:
    """Return a sentence in lower case, with single spaces and without punctuation at its end.

    The results for a heading and for a sentence that repeats it are equal.

    Example:
        ``A  new Bridge.`` becomes ``a new bridge``.
    """
    return _WHITE_SPACE.sub(" ", text).strip().rstrip(".!?。！？\"'”’)]").casefold()


def sentence_spans(text: str, language: str = "en") -> list[SentenceSpan]:
    """Find the sentences of a text. A line break always ends a sentence.

    Headings and the items of lists end at line breaks, although they have no full stops.

    Args:
        text: The text.
        language: The code of its language, such as ``de``.

    Returns:
        Where each sentence starts and ends, in order and without the white space around it.
    """
    spans = []
    for match in _LINE.finditer(text):
        for start, end in _spans_in_line(match.group(), language):
            spans.append(SentenceSpan(match.start() + start, match.start() + end))
    return spans


def _spans_in_line(line: str, language: str) -> list[SentenceSpan]:
    """Find the sentences of a line, without the white space around them.

    Args:
        line: The line. A label at its start, such as ``Abstract:``, belongs to no sentence.
        language: The code of its language.
    """
    # sentencex crashes at a no-break space before some initials.
    line = _UNUSUAL_SPACE.sub(" ", line)
    label = _LABEL.match(line)
    line_start = label.end() if label else 0

    spans: list[SentenceSpan] = []
    for split in _split_line(line, line_start, language):
        sentence = line[split.start : split.end]
        if not sentence.strip():
            continue
        # The span leaves out the white space before and after the sentence.
        start = split.end - len(sentence.lstrip())
        end = split.start + len(sentence.rstrip())

        # sentencex ends a German sentence after an ordinal number, as in "im 19. Jahrhundert".
        # Such a number with the white space around it has eight characters at most.
        # Other languages are not searched: to cut the line again and again takes long.
        follows_ordinal = language == "de" and _ORDINAL.search(line[:start][-8:])
        if spans and follows_ordinal:
            # The two halves become one sentence.
            start = spans.pop().start
        spans.append(SentenceSpan(start, end))
    return spans


def _split_line(line: str, start: int, language: str) -> Iterator[SentenceSpan]:
    """Split a line into sentences with sentencex, which reads the line in pieces.

    A piece has 4,000 characters, and may break off in a sentence. The next piece mostly begins with
    this last sentence again, so that sentencex sees the whole of it.

    Args:
        line: The line.
        start: Where its first sentence starts.
        language: The code of its language.

    Yields:
        Where each sentence starts and ends in the line, with the white space around it.
    """
    from sentencex import get_sentence_boundaries

    sentence_start = start
    piece_start = start
    while True:
        piece_end = piece_start + _PIECE_LENGTH
        piece = line[piece_start:piece_end]
        # The piece may break off in its last sentence, whose end is therefore not known yet.
        for boundary in get_sentence_boundaries(language, piece)[:-1]:
            sentence_end = piece_start + boundary["end_index"]
            yield SentenceSpan(sentence_start, sentence_end)
            sentence_start = sentence_end
        if piece_end >= len(line):
            break

        # A sentence that fills more than half of the piece is not read twice, because the next
        # piece would then hold little that is new. It goes on there.
        is_long_sentence = sentence_start < piece_start + _PIECE_LENGTH // 2
        piece_start = piece_end if is_long_sentence else sentence_start
    # The last sentence ends with the line.
    yield SentenceSpan(sentence_start, len(line))
