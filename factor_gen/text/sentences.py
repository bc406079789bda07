"""Where the sentences of a text begin and end."""

import re
from collections.abc import Iterator

_LINE = re.compile(
    r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+"
)  # what str.splitlines takes for line breaks
_SPACE = re.compile(r"[^\S \t]")
_LABEL = re.compile(
    r"\w+:(?=[A-ZÀ-ÖØ-Þ])"
)  # which no space follows, as in the documents of Expert-FACTOR
_WHITE = re.compile(r"\s+")
_ORDINAL = re.compile(r"(?<![\w.])\d{1,2}\.\s\Z")
# characters looked at together: quotes that nothing closes take sentencex the square of their
# number
_PIECE = 4_000


def plain(text: str) -> str:
    """``text`` in lower case, with single spaces and no end mark, so that a heading is the sentence
    that repeats it."""
    return _WHITE.sub(" ", text).strip().rstrip(".!?。！？\"'”’)]").casefold()


def sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """The spans (start, end) of the sentences in ``text``, in order, without the white space around
    them. A line break ends a sentence: News-FACTOR's sentences end at line breaks, which headings
    and lists need as well."""
    spans: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        if line.group().isspace():
            continue
        plain = _SPACE.sub(
            " ", line.group()
        )  # sentencex panics at a no-break space before some initials
        begin = line.start() + (label.end() if (label := _LABEL.match(plain)) else 0)
        for first, last in _in_line(plain[begin - line.start() :], language):
            start, end = begin + first, begin + last
            sentence = text[start:end]
            start += len(sentence) - len(sentence.lstrip())
            end -= len(sentence) - len(sentence.rstrip())
            if (
                start < end
                and language == "de"
                and spans
                and spans[-1][0] >= line.start()
                and _ORDINAL.search(text[:start][-8:])
            ):
                start = spans.pop()[0]  # im 19. Jahrhundert
            if start < end:
                spans.append((start, end))
    return spans


def _in_line(line: str, language: str) -> Iterator[tuple[int, int]]:
    """The spans of a line, piece after piece. A piece begins where the last sentence of the one
    before it did, which may go on. If that fills half a piece, it begins where the one before it
    ended, and what goes on there is added to the sentence."""
    from sentencex import get_sentence_boundaries

    start, begun = 0, None
    while start < len(line):
        end = min(start + _PIECE, len(line))
        bounds = get_sentence_boundaries(language, line[start:end])
        found = [(start + each["start_index"], start + each["end_index"]) for each in bounds] or [
            (start, end)
        ]
        if begun is not None:
            found[0] = (begun, found[0][1])
        if end == len(line):
            yield from found
            return
        yield from found[:-1]
        last = found[-1][0]
        start, begun = (end, last) if last < start + _PIECE // 2 else (last, None)
