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
# In the documents of Expert-FACTOR, no space follows a label such as "Abstract:". The mark of a
# list item, such as "-" or "2.", is no part of its first sentence either. "(US)" and the "1." of a
# football club are no marks.
_LABEL_OR_LIST_MARK = re.compile(
    r"\w+:(?=[A-ZÀ-ÖØ-Þ])"
    r"|\s*(?:[-*+•·‣▪]|\((?:\d{1,3}|[a-z]{1,3}|[A-Z])\)|\d{1,3}[.)])\s+(?!FC )(?=\S)"
)
_WHITE_SPACE = re.compile(r"\s+")
_NOT_SPACE = re.compile(r"\S")
_ORDINAL = re.compile(r"(?<![\w.])\d{1,2}\.\s\Z")
_NUMBER = re.compile(r"\W*\d[\d\W]*")
# Abbreviations that a number follows, such as "No. 5", "Fig. 3" and "pp. 5-6".
_BEFORE_NUMBER = re.compile(
    r"(?<![\w-])(?:[Nn]os?|[Nn]r|[Ff]igs?|[Vv]ols?|[Ss]ecs?|[Cc]h|[Aa]rts?|[Ee]qs?|[Tt]ab|[Pp]ar"
    r"|[Rr]efs?|pp?|ll?|ff?|ca?|approx|[Vv]er)\.\s+\Z"
)
# Brackets without end marks. sentencex ends no sentence between the first of several opening
# brackets and the last closing one.
_BRACKETS = re.compile(r"\(([^().!?]*)\)")
# A bracket that closes after the end of a sentence, as in "(It rained.) They left."
_END_IN_BRACKET = re.compile(r"[.!?][\"'”’]*[)\]][\"'”’]*\s+(?=[\"'“‘(\[]*[A-ZÀ-ÖØ-Þ])")
# After initials and these abbreviations, a full stop in a bracket ends no sentence: "(Acme Inc.)".
_ABBREVIATION = re.compile(
    r"(?:\A|\W)(?:[A-Za-z]|al|approx|Bros|Co|Corp|ed|eds|esp|est|etc|Inc|incl|Jr|Ltd|resp|Sr|St|vs)\Z"
)
# So many characters before a break show whether it is one.
_TAIL_LENGTH = 12
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
        offset = match.start()
        for start, end in _spans_in_line(match.group(), language):
            spans.append(SentenceSpan(offset + start, offset + end))
    return spans


def _spans_in_line(line: str, language: str) -> list[SentenceSpan]:
    """Find the sentences of a line, without the white space around them.

    A label such as ``Abstract:`` or the mark of a list item at its start belongs to no sentence.

    Example:
        ``- See Fig. 3. It fell.`` has the sentences ``See Fig. 3.`` and ``It fell.``
    """
    # sentencex crashes at a no-break space before some initials.
    line = _UNUSUAL_SPACE.sub(" ", line)
    label = _LABEL_OR_LIST_MARK.match(line)
    label_end = label.end() if label else 0

    spans: list[SentenceSpan] = []
    # Where the next sentence to be found starts.
    start = _skip_space(line, label_end)
    for end in _sentence_ends(line, label_end, language):
        is_blank = end <= start
        if is_blank:
            continue
        next_start = _skip_space(line, end)
        if next_start < len(line) and _is_break_at_number(line, start, next_start, language):
            # The sentence goes on after this end.
            continue
        length = len(line[start:end].rstrip())
        spans += _split_after_brackets(line, SentenceSpan(start, start + length))
        start = next_start
    return spans


def _skip_space(line: str, position: int) -> int:
    """Return where the white space at a position ends: at the next word, or the end of the line."""
    word = _NOT_SPACE.search(line, position)
    return word.start() if word else len(line)


def _is_break_at_number(line: str, start: int, next_start: int, language: str) -> bool:
    """Tell whether sentencex ended a sentence too early, because of a number.

    Example:
        It breaks ``Fig. 3``, the list item ``* 2. Rope`` and the German ``im 19. Jahrhundert``
        after the full stop.

    Args:
        line: The line.
        start: Where the sentence before the break starts.
        next_start: Where the text after the break starts.
        language: The code of the language.
    """
    # The last characters before the break are enough. To cut the whole sentence out at each break
    # would take quadratic time.
    tail_start = max(start, next_start - _TAIL_LENGTH)
    tail = line[tail_start:next_start]
    # A number with marks around it, such as "* 2.", is no sentence by itself. It is so short that
    # the tail holds all of it.
    if tail_start == start and _NUMBER.fullmatch(tail):
        return True
    if language == "de" and _ORDINAL.search(tail):
        return True
    return line[next_start].isdigit() and _BEFORE_NUMBER.search(tail) is not None


def _split_after_brackets(line: str, span: SentenceSpan) -> Iterator[SentenceSpan]:
    """Split a sentence of a line after each bracket that closes right after a full stop.

    sentencex does not split there. The white space between the parts belongs to none of them.

    Example:
        ``It took 40 s (on a Pentium II, 450.) I call this slow.`` has two parts.
    """
    start = span.start
    for match in _END_IN_BRACKET.finditer(line, span.start, span.end):
        # The match is the full stop, the bracket and the white space after it.
        text_before = line[max(start, match.start() - _TAIL_LENGTH) : match.start()]
        if _ABBREVIATION.search(text_before):
            continue
        length_without_space = len(match[0].rstrip())
        yield SentenceSpan(start, match.start() + length_without_space)
        start = match.end()
    yield SentenceSpan(start, span.end)


def _sentence_ends(line: str, start: int, language: str) -> Iterator[int]:
    """Yield where each sentence of a line ends.

    sentencex finds the ends. It reads the line in pieces of 4,000 characters. A piece may break off
    within a sentence. The next piece then begins with this sentence, so that sentencex sees the
    whole sentence.

    Args:
        line: The line.
        start: Where its first sentence starts.
        language: The code of its language.
    """
    from sentencex import get_sentence_boundaries

    # The commas keep the length of the line, so that the positions stay right.
    line_without_brackets = _BRACKETS.sub(r",\1,", line)
    piece_start = start
    is_last_piece = False
    while not is_last_piece:
        piece_end = piece_start + _PIECE_LENGTH
        is_last_piece = piece_end >= len(line)
        boundaries = get_sentence_boundaries(language, line_without_brackets[piece_start:piece_end])
        # The last sentence of the piece may be broken off.
        complete_ends = [piece_start + boundary["end_index"] for boundary in boundaries[:-1]]
        yield from complete_ends

        # The next piece begins with the sentence that is broken off. But a sentence that fills more
        # than half of this piece is not read again, because little else would fit into the next
        # piece, which then begins in the middle of the sentence.
        last_end = complete_ends[-1] if complete_ends else piece_start
        is_long_sentence = piece_end - last_end > _PIECE_LENGTH // 2
        piece_start = piece_end if is_long_sentence else last_end
    yield len(line)
