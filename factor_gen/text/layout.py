"""What the lines of a text are: prose, or code and tables.

Paragraphs that were broken at a width become one line again.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

_FENCE = re.compile(r"\s*(```|~~~)")
# cells, columns, and what has no letter or digit: drawings, lines below headings
_CELLS = re.compile(
    r"\A[\s+|=\-_*#~.:<>/\\^`']+\Z|\|[^|]*\||\t[^\t]*\S[^\t]*\t|\S {3,}\S+(?: \S+)*"
    r" {3,}\S|\A\s*\||\+--"
)
# between columns; two spaces may follow a sentence
_GAP = re.compile(r"(?<=[^\s.!?:]) {2,}(?=\S)|(?<=\S) {3,}(?=\S)")
_PROMPT = re.compile(
    r"\s*(?:\$ |>>> |# |% |//|/\*|#!|@\w+|<\w|\w+ = |\w+\(|[-\w.]+:"
    r" *[\[{\"])|.*(?:[{};\\]|\]\)?|\w\(\w*\))\s*\Z"
)
_SYMBOLS = re.compile(r"[{}\[\]<>=;$\\^~_#@/*+|&%`]|\(\)|::")
_MUCH = 0.12  # of the characters of a line, where prose has few
_INDENTED = 4  # columns
_NARROWEST, _WIDEST = 50, 110  # columns that texts are broken at
_SLACK = 8  # columns that a line may stay below the width, as those do that were broken by hand
_MARK = re.compile(
    r"\s*(?:(?:[-*+•·o:;%]|\.\.|--?\w|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{2,4})\.?[.)]|\[\w+\]|<\w+>|\d[\d.]*:)(?=\s)|[>|#@\\]|:\w+:(?!`))"
)
_END = re.compile(r"[.!?:;][\"'”’)\]]*\Z")
_SPACES = re.compile(r"[ \n]+")
_SEAM = re.compile(r"([^\W\d_]+)-\n(\w+)")  # a hyphen at the end of a line
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_WORDS = 6  # of a line that goes on in the next, where the width does not say so
_OPENS = 0.8  # of the lines of verse and lists begin with a capital


def verbatim(lines: Sequence[str]) -> list[bool]:
    """Which lines are code, tables or drawings.

    They are fenced, have cells or columns, or are of a paragraph that is mostly symbols.
    """
    is_code = [bool(_CELLS.search(line)) for line in lines]
    _mark_columns(lines, is_code)
    unfenced = _mark_fenced(lines, is_code)
    before = ""  # the last line of the prose before
    for start, end in _blocks(unfenced):
        column = _indent(lines[start])
        is_literal = before.endswith("::") and column > _indent(before)
        codes = sum(map(_looks_like_code, lines[start:end]))
        # Of a block that is deeper than the text before it, a quarter is enough.
        share = 4 if column >= _indent(before) + _INDENTED else 2
        if is_literal or codes * share > end - start:
            is_code[start:end] = [True] * (end - start)
        if not is_literal:
            before = lines[end - 1].rstrip()
    return is_code


def _mark_columns(lines: Sequence[str], is_code: list[bool]) -> None:
    """Mark lines that have gaps in the same place as the next line."""
    gaps: set[int] = set()
    for i, line in enumerate(lines):
        gaps_before = gaps
        gaps = {match.end() for match in _GAP.finditer(line)} if "  " in line.strip() else set()
        # Of long paragraphs, two may share a place by chance.
        is_wide = i > 0 and max(len(lines[i - 1]), len(line)) > _WIDEST
        if len(gaps & gaps_before) > is_wide:
            is_code[i - 1] = is_code[i] = True


def _mark_fenced(lines: Sequence[str], is_code: list[bool]) -> list[str]:
    """Mark what stands between fences, and return the lines with these empty."""
    fence = ""
    unfenced = []
    for i, line in enumerate(lines):
        match = _FENCE.match(line)
        mark = match[1] if match else ""
        is_fenced = bool(fence or mark)
        is_code[i] |= is_fenced
        unfenced.append("" if is_fenced else line)
        if mark and fence in ("", mark):
            fence = "" if fence else mark
    return unfenced


def _looks_like_code(line: str) -> bool:
    return bool(_PROMPT.match(line)) or len(_SYMBOLS.findall(line)) > _MUCH * len(line)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The spans (first, last plus one) of lines between empty ones."""
    for is_text, block in groupby(range(len(lines)), lambda i: bool(lines[i].strip())):
        if is_text:
            start, *others = block
            yield start, start + 1 + len(others)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def unwrap(text: str) -> str:
    """Put a space for each line break that only the width of the lines is the reason for.

    A break goes where the first word of the next line would have made its line longer than lines
    get, or where the next line goes on with a sentence in small letters. Headings, items of lists,
    verse, addresses, code and tables keep their lines. A text that was not broken at a width comes
    back as it is.
    """
    lines = [line.rstrip() for line in text.expandtabs(8).split("\n")]
    inner = sorted(
        len(line)
        for line, following in pairwise(lines)
        if len(line) <= _WIDEST and _runs_on(line, following)
    )
    width = inner[len(inner) * 9 // 10] if inner else 0
    if width < _NARROWEST:
        return text
    is_code = verbatim(lines)
    words = set(_WORD.findall(text))
    goes_on = [False] * len(lines)
    for start, end in _paragraphs(lines):
        block = lines[start:end]
        capitals = sum(line.lstrip()[0].isupper() for line in block[1:])
        if len(block) > 3 and capitals > _OPENS * (len(block) - 1):
            continue  # verse, or a list without marks
        for i, (line, following) in enumerate(pairwise(block), start=1):
            is_full = len(line) + 1 + len(following.split()[0]) > width - _SLACK
            is_prose = not (is_code[start + i - 1] or is_code[start + i])
            is_continued = is_full or _runs_on(line, following)
            goes_on[start + i] = is_prose and is_continued and _is_below(block, i)
    if not any(goes_on):
        return text
    starts = [i for i, is_continued in enumerate(goes_on) if not is_continued]
    return "\n".join(
        _joined(lines[start:end], words) for start, end in pairwise([*starts, len(lines)])
    )


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The spans of paragraphs.

    One also begins at a line of a block that alone is deeper, after the end of a sentence.
    """
    for start, end in _blocks(lines):
        for i in range(start + 1, end - 1):
            before, indent, after = map(_indent, lines[i - 1 : i + 2])
            if before == after < indent and _END.search(lines[i - 1]):
                yield start, i
                start = i
        yield start, end


def _runs_on(line: str, following: str) -> bool:
    is_small = following.lstrip(" (\"'“‘`")[:1].islower()
    return is_small and not _END.search(line) and len(line.split()) >= _LEAST_WORDS


def _is_below(block: Sequence[str], i: int) -> bool:
    """Whether a line stands where the one before it would go on.

    That is in its column, below the text of its item, or left of the first line of a paragraph.
    """
    line, following = block[i - 1], block[i]
    deeper = _indent(following) - _indent(line)
    is_item = bool(_MARK.match(line))
    if _MARK.match(following) or (is_item and deeper <= 0):
        return False
    if deeper <= 0:
        return deeper == 0 or (i == 1 and deeper >= -8)
    hangs = i == 1 and deeper <= 8 and len(block) > 2 and _indent(block[2]) == _indent(following)
    return is_item or hangs


def _joined(lines: Sequence[str], words: set[str]) -> str:
    """The lines of a paragraph with spaces between them.

    A word whose parts two lines share is one if the text has it elsewhere without a hyphen.
    """
    if len(lines) == 1:
        return lines[0]

    def seam(match: re.Match[str]) -> str:
        is_word = match[1] + match[2] in words
        return match[0].replace("-\n", "" if is_word else "-")

    indent = " " * _indent(lines[0])
    whole = _SEAM.sub(seam, "\n".join(line.strip() for line in lines))
    return indent + _SPACES.sub(" ", whole)
