"""Cutting of documents into passages of about 80 words, which a search returns as evidence.

`knowledge` calls `cut_into_passages`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lm_factuality.ground.sentences import split_sentences, words_in

NUM_WORDS = 80
"""The words of a passage, unless its only two sentences have more."""

MAX_ROW_WORDS = 160
"""The words up to which a table row stays whole."""

# A longer last sentence is not repeated in the next passage, which would have little else.
_MAX_REPEATED_WORDS = 40
# A longer sentence, such as a text without full stops, is cut.
_MAX_CHARACTERS = 600
# A text has at least one word for so many characters, when words are counted.
_CHARACTERS_PER_WORD = 12
_BLANK_LINES = re.compile(r"\n\s*\n")
# A cell as `documents.row_text` writes it, with the header of its column.
_CELL = re.compile(r"[^:\n]{1,80}: *\S.*")
_LIST_ITEM = re.compile(r"\s*(?:[-*+\u2022\u2023\u25aa\u00b7\u2013]|\(?\d{1,3}[.)]|\(?[a-z]\))\s")
_END_MARKS = (".", "!", "?", ":", "\u3002", "\uff01", "\uff1f")
# A shorter line is not full, so that the next line begins something new.
_FULL_LINE = 45  # characters


class _Sentence(NamedTuple):
    """A sentence, a heading or an item of a list."""

    text: str
    """The text in one line."""

    num_words: int
    """The number of its words."""

    begins_line: bool
    """Whether a paragraph, a heading or an item of a list begins with it."""


def cut_into_passages(text: str, is_row: bool = False) -> list[str]:
    r"""Cut the text of a document into passages along the ends of sentences.

    The last sentence of a passage is repeated in the next one, so that each sentence stands beside
    the one before it in some passage. A row of a table is a passage of its own.

    Example:
        ``It froze in May.\nIt thawed.\n\nyear: 1840\nice: 3 cm`` becomes the passages
        ``It froze in May.\nIt thawed.`` and ``year: 1840\nice: 3 cm``.

    Args:
        text: The text, with empty lines between paragraphs.
        is_row: Whether the whole text is a row of a table.

    Returns:
        The passages in order, without empty ones. Each line has whole sentences.
    """
    if is_row and len(words_in(text)) <= MAX_ROW_WORDS:
        return [text.strip()] if text.strip() else []

    passages: list[str] = []
    sentences: list[_Sentence] = []
    for block in _BLANK_LINES.split(text):
        if not _is_table_row(block):
            sentences.extend(_sentences_of(block))
            continue
        passages.extend(_join_sentences(sentences))
        sentences = []
        passages.append(block.strip())
    passages.extend(_join_sentences(sentences))
    return passages


def _is_table_row(block: str) -> bool:
    """Tell whether a paragraph is a row of a table: several cells, each in a line with a header."""
    if "\n" not in block.strip():
        return False
    has_cells = all(_CELL.fullmatch(line) for line in block.strip().split("\n"))
    return has_cells and len(words_in(block)) <= MAX_ROW_WORDS


def _sentences_of(block: str) -> Iterator[_Sentence]:
    """Yield the sentences of a paragraph, and the parts of a very long sentence."""
    for line in unwrap_lines(block):
        begins_line = True
        for sentence in split_sentences(line):
            for part in _cut_long(sentence):
                yield _Sentence(part, _count_words(part), begins_line)
                begins_line = False


def _count_words(text: str) -> int:
    """Return the number of words of a text, or more if it has very long ones, such as addresses."""
    return max(len(words_in(text)), len(text) // _CHARACTERS_PER_WORD)


def unwrap_lines(block: str) -> list[str]:
    r"""Join the lines of a paragraph that a program or a PDF broke within a sentence.

    Example:
        ``Opening hours\nThe library is open on every day of the\nweek.`` becomes ``Opening hours``
        and ``The library is open on every day of the week.``

    Args:
        block: The lines of a paragraph. A line break stays after the end of a sentence, before the
            item of a list, and after a line of less than 45 characters unless a small letter
            follows.

    Returns:
        The lines without white space around them, and without empty ones.
    """
    # The lines that each line of the result is joined of.
    groups: list[list[str]] = []
    for line in block.split("\n"):
        text = " ".join(line.split())
        if not text:
            continue
        if groups and _continues_in_next_line(groups[-1][-1], line):
            groups[-1].append(text)
        else:
            groups.append([text])
    return [" ".join(group) for group in groups]


def _continues_in_next_line(last_line: str, line: str) -> bool:
    """Tell whether a sentence that began in ``last_line`` goes on in the next line."""
    if _LIST_ITEM.match(line):
        return False
    if line.lstrip()[0].islower():
        return True
    # A full line without a full stop was broken where it had no more room.
    return len(last_line) >= _FULL_LINE and not last_line.endswith(_END_MARKS)


def _cut_long(sentence: str) -> Iterator[str]:
    """Yield a sentence, or parts of at most 600 characters, cut at spaces where there are any."""
    start = 0
    while len(sentence) - start > _MAX_CHARACTERS:
        space = sentence.rfind(" ", start + 1, start + _MAX_CHARACTERS)
        end = space if space != -1 else start + _MAX_CHARACTERS
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()


def _join_sentences(sentences: Sequence[_Sentence]) -> Iterator[str]:
    """Yield passages of about 80 words of consecutive sentences.

    A short last sentence of a passage also begins the next one, which may continue its thought.
    """
    passage: list[_Sentence] = []
    num_words = 0
    for sentence in sentences:
        if passage and num_words + sentence.num_words > NUM_WORDS:
            yield _join_to_text(passage)
            last = passage[-1]
            passage = [last] if last.num_words <= _MAX_REPEATED_WORDS else []
            num_words = sum(repeated.num_words for repeated in passage)
        passage.append(sentence)
        num_words += sentence.num_words
    # A passage always has a sentence that no earlier one has.
    if passage:
        yield _join_to_text(passage)


def _join_to_text(sentences: Sequence[_Sentence]) -> str:
    """Join sentences by spaces, and paragraphs by line breaks."""
    parts: list[str] = []
    for sentence in sentences:
        parts.append("\n" if sentence.begins_line else " ")
        parts.append(sentence.text)
    # Nothing stands before the first sentence.
    return "".join(parts[1:])
