"""Where the sentences of a text begin and end."""

from __future__ import annotations

import re

_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")  # what str.splitlines takes for line breaks
_SPACE = re.compile(r"[^\S \t]")


def sentences(text: str) -> list[tuple[int, int]]:
    """The spans (start, end) of the sentences in ``text``, in order, without the white space around them.

    A line break ends a sentence: News-FACTOR's sentences end at line breaks, which headings and lists need as well.
    """
    from sentencex import get_sentence_boundaries

    spans = []
    for line in _LINE.finditer(text):
        if line.group().isspace():
            continue
        plain = _SPACE.sub(" ", line.group())  # sentencex panics at a no-break space before some initials
        for boundary in get_sentence_boundaries("en", plain):
            start, end = line.start() + boundary["start_index"], line.start() + boundary["end_index"]
            sentence = text[start:end]
            start += len(sentence) - len(sentence.lstrip())
            end -= len(sentence) - len(sentence.rstrip())
            if start < end:
                spans.append((start, end))
    return spans
