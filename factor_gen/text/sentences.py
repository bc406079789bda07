"""Where the sentences of a text begin and end."""

import re
from collections.abc import Iterator

# what str.splitlines takes for line breaks
_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SPACE = re.compile(r"[^\S \t]")
# which no space follows, as in the documents of Expert-FACTOR
_LABEL = re.compile(r"\w+:(?=[A-ZÀ-ÖØ-Þ])")
_WHITE = re.compile(r"\s+")
_ORDINAL = re.compile(r"(?<![\w.])\d{1,2}\.\s\Z")
# characters looked at together: quotes that nothing closes take sentencex the square of their
# number
_PIECE = 4_000


def plain(text: str) -> str:
    """The text in lower case, with single spaces and no end mark.

    A heading is plainly the same as the sentence that repeats it.
    """
    return _WHITE.sub(" ", text).strip().rstrip(".!?。！？\"'”’)]").casefold()


def sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """The spans (start, end) of the sentences, in order, without the white space around them.

    A line break ends a sentence: News-FACTOR's sentences end at line breaks, which headings and
    lists need as well.
    """
    spans: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        # sentencex panics at a no-break space before some initials
        written = _SPACE.sub(" ", line.group())
        label = _LABEL.match(written)
        begin = label.end() if label else 0
        of_line: list[tuple[int, int]] = []
        for first, last in _in_line(written[begin:], language):
            start, end = begin + first, begin + last
            sentence = written[start:end]
            start += len(sentence) - len(sentence.lstrip())
            end -= len(sentence) - len(sentence.rstrip())
            if start >= end:
                continue
            if language == "de" and of_line and _ORDINAL.search(written[:start][-8:]):
                start = of_line.pop()[0]  # im 19. Jahrhundert
            of_line.append((start, end))
        spans += [(line.start() + start, line.start() + end) for start, end in of_line]
    return spans


def _in_line(line: str, language: str) -> Iterator[tuple[int, int]]:
    """The spans of a line, piece after piece.

    A piece begins where the last sentence of the one before it did, which may go on. If that fills
    half a piece, it begins where the one before it ended, and what goes on there is added to the
    sentence.
    """
    from sentencex import get_sentence_boundaries

    begun = start = 0
    while start < len(line):
        piece = line[start : start + _PIECE]
        for bound in get_sentence_boundaries(language, piece)[:-1]:
            end = start + bound["end_index"]
            yield begun, end
            begun = end
        piece_end = start + len(piece)
        is_short = begun >= start + _PIECE // 2 and piece_end < len(line)
        start = begun if is_short else piece_end
    yield begun, len(line)
