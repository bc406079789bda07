"""Tells prose from code and tables, line by line, and undoes hard line breaks in prose.

The corpus reader calls `unwrap`; the selection of sentences calls `find_verbatim_lines`.
"""

import re
from collections.abc import Iterator, Sequence, Set
from itertools import groupby, pairwise

_FENCE = re.compile(r"\s*(```|~~~)")
# A line with cells or columns, or with no letter or digit (drawings, lines below headings). Three
# spaces after the end of a sentence are no gap between columns.
_CELLS = re.compile(
    r"\A[\s+|=\-_*#~.:<>/\\^`']+\Z|\|[^|]*\||\t[^\S\t]*\S[^\t]*\t"
    r"|[^\s.!?] {3,}\S+(?: \S+)*(?<![.!?]) {3,}\S|\A\s*\||\+--"
)
# The gap between two columns. Two spaces after the end of a sentence are no gap.
_GAP = re.compile(r"(?<=[^\s.!?:]) {2,}(?=\S)|(?<=\S) {3,}(?=\S)")
_CODE_LINE = re.compile(
    r"\s*(?:\$ |>>> |# |% |//|/\*|#!|@\w+|<\w|\w+ = |\w+\(|[-\w.]+:"
    r" *[\[{\"])|.*(?:[{};\\]|\]\)?|\w\(\w*\))\s*\Z"
)
_SYMBOLS = re.compile(r"[{}\[\]<>=;$\\^~_#@/*+|&%`]|\(\)|::")
_CITATION = re.compile(r"\[\d+(?:, ?\d+)*\]")  # as in an encyclopedia
_CODE_SYMBOLS = 0.12  # share of the characters of a line above which it looks like code
_DEEPER_INDENT = 4  # columns
_MOST_FIRST_INDENT = 8  # columns between the first line of a paragraph and the others
_NARROWEST, _WIDEST = 50, 110  # columns at which texts are wrapped
_SLACK = 8  # columns that a line wrapped by hand may stay below the width
_LIST_MARK = re.compile(
    r"\s*(?:(?:[-*+•·o:;%]|\.\.|--?\w|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{2,4})\.?[.)]|\[\w+\]|<\w+>|\d[\d.]*:)(?=\s)|[>|#@\\]|:\w+:(?!`))"
)
_SENTENCE_END = re.compile(r"[.!?:;][\"'”’)\]]*\Z")
_SPACES = re.compile(r"[ \n]+")
_HYPHENATED_BREAK = re.compile(r"(?<![^\W\d_])([^\W\d_]+)-\n(\w+)")  # a hyphen at the end of a line
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_WORDS = 6  # words of a short line that runs on into the next
_VERSE_CAPITALS = 0.8  # share of the lines of verse and lists that begin with a capital


def find_verbatim_lines(lines: Sequence[str]) -> set[int]:
    """Find the lines of a text that are code, a table or a drawing instead of prose.

    Such a line stands between fences, has cells or columns, or belongs to a block of lines that
    looks like code.

    Args:
        lines: The lines of a text, without line breaks.

    Returns:
        The indexes of these lines.
    """
    # Rows of tables, such as "| a | b |".
    cell_lines = {index for index, line in enumerate(lines) if _CELLS.search(line)}
    aligned_lines = _find_aligned_lines(lines)

    fenced_lines = _find_fenced_lines(lines)
    # A fence ends a block of lines as an empty line does.
    unfenced = ["" if index in fenced_lines else line for index, line in enumerate(lines)]
    return cell_lines | aligned_lines | fenced_lines | _find_code_blocks(unfenced)


def _find_aligned_lines(lines: Sequence[str]) -> set[int]:
    """Find the lines of tables, i.e. lines with gaps in the same columns as a line next to them.

    Example:
        ``Oslo    Norway`` and ``Helsinki    Finland`` do not align. They do if both countries start
        in the same column.

    Returns:
        The indexes of these lines.
    """
    # The columns of each line in which a word begins after a gap.
    gap_ends = [{match.end() for match in _GAP.finditer(line)} for line in lines]
    aligned = set()
    for index, (line, next_line) in enumerate(pairwise(lines)):
        shared_ends = gap_ends[index] & gap_ends[index + 1]
        # Two long lines of prose may share one gap by chance, but hardly two.
        is_long = max(len(line), len(next_line)) > _WIDEST
        least_shared = 2 if is_long else 1
        if len(shared_ends) >= least_shared:
            aligned |= {index, index + 1}
    return aligned


def _find_fenced_lines(lines: Sequence[str]) -> set[int]:
    """Find the lines between Markdown fences (three backticks or tildes), and the fences.

    A fence that is never closed reaches to the end of the text.

    Returns:
        The indexes of these lines.
    """
    fenced = set()
    open_fence = ""
    for index, line in enumerate(lines):
        match = _FENCE.match(line)
        fence = match[1] if match else ""
        if open_fence or fence:
            fenced.add(index)
        if not open_fence:
            open_fence = fence
        # Only a fence of the same kind closes the open one. The other kind is text.
        elif fence == open_fence:
            open_fence = ""
    return fenced


def _find_code_blocks(lines: Sequence[str]) -> set[int]:
    """Find the blocks of lines that are code.

    A block is code if most of its lines look like code, or if a line ending in ``::`` announces it
    and it is indented more than that line.

    Args:
        lines: The lines of a text. Empty lines separate the blocks.

    Returns:
        The indexes of the lines of these blocks.
    """
    code_lines: set[int] = set()
    # The last line of text before the block.
    introduction = ""
    for block in _blocks(lines):
        extra_indent = _indent(lines[block.start]) - _indent(introduction)
        is_announced = introduction.endswith("::") and extra_indent > 0
        if is_announced:
            code_lines.update(block)
            # The same line may announce the next block as well.
            continue

        num_code_like = sum(_looks_like_code(lines[index]) for index in block)
        # Of an indented block, which often is code, a quarter of the lines is enough.
        least_share = 1 / 4 if extra_indent >= _DEEPER_INDENT else 1 / 2
        if num_code_like > least_share * len(block):
            code_lines.update(block)
        introduction = lines[block.stop - 1].rstrip()
    return code_lines


def _looks_like_code(line: str) -> bool:
    """Tell whether a line begins or ends as code does, such as ``$ ls``, or is full of symbols."""
    line = _CITATION.sub("", line)
    if _CODE_LINE.match(line):
        return True
    return len(_SYMBOLS.findall(line)) > _CODE_SYMBOLS * len(line)


def _blocks(lines: Sequence[str]) -> Iterator[range]:
    """Yield the blocks of a text, i.e. the runs of lines between empty lines, as line indexes."""
    for has_text, run in groupby(range(len(lines)), key=lambda index: bool(lines[index].strip())):
        if has_text:
            indexes = list(run)
            yield range(indexes[0], indexes[-1] + 1)


def _indent(line: str) -> int:
    """Count the white space before the first character of a line."""
    return len(line) - len(line.lstrip())


def unwrap(text: str) -> str:
    """Replace the line breaks in prose that were inserted to keep lines below some width.

    A break is replaced by a space if the first word of the next line would have made its line
    longer than the lines of the text are, or if the next line continues a sentence in lower case.
    Headings, list items, verse, addresses, code and tables keep their lines.

    Args:
        text: The whole text, from whose lines the width is inferred.

    Returns:
        The text with one line for each paragraph, or the same text if it was not wrapped.
    """
    lines = [line.rstrip() for line in text.expandtabs(8).split("\n")]
    width = _wrapping_width(lines)
    # The lines of a narrow text are verses or items rather than wrapped prose.
    if width < _NARROWEST:
        return text

    continuation_lines = _find_continuation_lines(lines, width)
    if not continuation_lines:
        return text

    # The first line of a text never continues another one.
    paragraphs: list[list[str]] = []
    for index, line in enumerate(lines):
        if index in continuation_lines:
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line])

    vocabulary = set(_WORD.findall(text))
    return "\n".join(_join_lines(paragraph, vocabulary) for paragraph in paragraphs)


def _wrapping_width(lines: Sequence[str]) -> int:
    """Return the width in columns at which a text was wrapped, or 0 if no line runs on.

    It is the 90th percentile of the lengths of the lines that run on into the next line.
    """
    lengths = []
    for line, next_line in pairwise(lines):
        if len(line) <= _WIDEST and _runs_on(line, next_line):
            lengths.append(len(line))
    if not lengths:
        return 0
    return sorted(lengths)[len(lengths) * 9 // 10]


def _runs_on(line: str, next_line: str) -> bool:
    """Tell whether a sentence of a line continues in lower case on the next line."""
    has_enough_words = len(line.split()) >= _LEAST_WORDS
    if not has_enough_words or _SENTENCE_END.search(line):
        return False
    return next_line.lstrip(" (\"'“‘`")[:1].islower()


def _find_continuation_lines(lines: Sequence[str], width: int) -> set[int]:
    """Find the lines that continue the paragraph of the line before them.

    Args:
        lines: The lines of the text, without white space at their ends.
        width: The width in columns at which the text was wrapped.

    Returns:
        The indexes of these lines.
    """
    verbatim_lines = find_verbatim_lines(lines)
    continuation_lines = set()
    for line_range in _paragraphs(lines):
        paragraph = lines[line_range.start : line_range.stop]
        # The lines of verse and lists are not joined.
        if _is_verse(paragraph):
            continue

        for position in range(1, len(paragraph)):
            index = line_range.start + position
            # Code and tables neither continue prose nor are continued by it.
            if index in verbatim_lines or index - 1 in verbatim_lines:
                continue
            is_wrapped = _is_wrapped(paragraph[position - 1], paragraph[position], width)
            if is_wrapped and _has_continuation_indent(paragraph, position):
                continuation_lines.add(index)
    return continuation_lines


def _is_wrapped(line: str, next_line: str, width: int) -> bool:
    """Tell whether a line ends because the next word did not fit, or in the middle of a sentence.

    Args:
        line: The line.
        next_line: The line after it, which has a word.
        width: The width in columns at which the text was wrapped.
    """
    next_word = next_line.split()[0]
    is_full = len(line) + 1 + len(next_word) > width - _SLACK
    return is_full or _runs_on(line, next_line)


def _paragraphs(lines: Sequence[str]) -> Iterator[range]:
    """Yield the paragraphs of a text, each as the indexes of its lines.

    An empty line ends a paragraph. In books, an indented line may begin one: see `_is_indented`.
    """
    for block in _blocks(lines):
        start = block.start
        # The first and the last line of a block have no neighbours to compare with.
        for index in range(block.start + 1, block.stop - 1):
            if _is_indented(lines[index - 1], lines[index], lines[index + 1]):
                yield range(start, index)
                start = index
        yield range(start, block.stop)


def _is_indented(previous_line: str, line: str, next_line: str) -> bool:
    """Tell whether a line begins a paragraph as in books: indented, after the end of a sentence.

    It is deeper than its two neighbours, which are indented alike.
    """
    usual_indent = _indent(previous_line)
    if _indent(line) <= usual_indent or _indent(next_line) != usual_indent:
        return False
    return _SENTENCE_END.search(previous_line) is not None


def _is_verse(lines: Sequence[str]) -> bool:
    """Tell whether a paragraph is verse or an unmarked list, by the capitals of its lines."""
    if len(lines) <= 3:
        return False
    # The first line of any paragraph begins with a capital, but few other lines of wrapped prose.
    later_lines = lines[1:]
    num_capitalised = sum(line.lstrip()[0].isupper() for line in later_lines)
    return num_capitalised > _VERSE_CAPITALS * len(later_lines)


def _has_continuation_indent(lines: Sequence[str], position: int) -> bool:
    """Tell whether a line is indented like a continuation of the line before it.

    Args:
        lines: The lines of the paragraph.
        position: The index of the line in the paragraph, at least 1.
    """
    previous_line = lines[position - 1]
    line = lines[position]
    extra_indent = _indent(line) - _indent(previous_line)

    is_list_item = _LIST_MARK.match(line)
    if is_list_item:
        return False
    # The text of a list item goes on to the right of the mark of the item.
    follows_list_item = _LIST_MARK.match(previous_line)
    if follows_list_item:
        return extra_indent > 0
    return extra_indent == 0 or (position == 1 and _is_first_line_set_off(lines))


def _is_first_line_set_off(lines: Sequence[str]) -> bool:
    """Tell whether the first line of a paragraph has a little more or less indent than the others.

    Books indent the first line. A bibliography indents all other lines, so that at least two of
    them are needed to recognise it.

    Args:
        lines: The lines of the paragraph, at least two.
    """
    first_indent = _indent(lines[0]) - _indent(lines[1])
    if abs(first_indent) > _MOST_FIRST_INDENT:
        return False
    is_bibliography = len(lines) > 2 and _indent(lines[2]) == _indent(lines[1])
    return first_indent > 0 or is_bibliography


def _join_lines(lines: Sequence[str], vocabulary: Set[str]) -> str:
    """Join the lines of a paragraph with spaces, and mend words that were hyphenated at a break.

    Args:
        lines: The lines. A single line is returned unchanged.
        vocabulary: All words of the text. A hyphen at the end of a line is dropped if the word
            without it occurs elsewhere in the text.

    Example:
        ``["the har-", "bour"]`` becomes ``"the harbour"`` if the text has *harbour* elsewhere,
        else ``"the har-bour"``.
    """
    if len(lines) == 1:
        return lines[0]

    def mend_word(match: re.Match[str]) -> str:
        first_half, second_half = match.groups()
        word = first_half + second_half
        return word if word in vocabulary else f"{first_half}-{second_half}"

    indent = " " * _indent(lines[0])
    stripped = "\n".join(line.strip() for line in lines)
    mended = _HYPHENATED_BREAK.sub(mend_word, stripped)
    return indent + _SPACES.sub(" ", mended)
