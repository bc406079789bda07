"""What the lines of a text are: prose, or code and tables; and paragraphs that were broken at a
width, in one line again."""

import re
from collections.abc import Sequence
from itertools import chain, pairwise

_FENCE = re.compile(r"\s*(```|~~~)")
# cells, columns, and what has no letter or digit: drawings, lines below headings
_CELLS = re.compile(
    r"\A[\s+|=\-_*#~.:<>/\\^`']+\Z|\|[^|]*\||\t[^\t]*\S[^\t]*\t|\S {3,}\S+(?: \S+)*"
    r" {3,}\S|\A\s*\||\+--"
)
_GAP = re.compile(
    r"(?<=[^\s.!?:]) {2,}(?=\S)|(?<=\S) {3,}(?=\S)"
)  # between columns; two spaces may follow a sentence
_PROMPT = re.compile(
    r"\s*(?:\$ |>>> |# |% |//|/\*|#!|@\w+|<\w|\w+ = |\w+\(|[-\w.]+:"
    r" *[\[{\"])|.*(?:[{};\\]|\]\)?|\w\(\w*\))\s*\Z"
)
_SYMBOLS = re.compile(r"[{}\[\]<>=;$\\^~_#@/*+|&%`]|\(\)|::")
_MUCH = 0.12  # of the characters of a line, where prose has few
_INDENTED = 4  # columns


def verbatim(lines: Sequence[str]) -> list[bool]:
    """Which lines are code, tables or drawings: fenced, with cells or columns, or of a paragraph
    that is mostly symbols."""
    found = [bool(_CELLS.search(line)) for line in lines]
    gaps = [
        {match.end() for match in _GAP.finditer(line)} if "  " in line.strip() else set()
        for line in lines
    ]
    for place in range(1, len(lines)):
        is_wide = (
            max(map(len, lines[place - 1 : place + 1])) > _WIDEST
        )  # of long paragraphs, two may share a place by chance
        if len(gaps[place] & gaps[place - 1]) > is_wide:
            found[place] = found[place - 1] = True
    fence, unfenced = "", list(lines)
    for place, line in enumerate(lines):
        mark = (_FENCE.match(line) or [""] * 2)[1]
        if fence or mark:
            found[place], unfenced[place] = True, ""
        if mark and fence in ("", mark):
            fence = "" if fence else mark
    before, literal = (
        "",
        -1,
    )  # the last line of the block before, and the column that what follows ``::`` goes beyond
    for start, end in _blocks(unfenced):
        column = _indent(lines[start])
        literal = _indent(before) if before.endswith("::") else literal
        literal = literal if column > literal else -1
        codes = len(
            [
                1
                for each in lines[start:end]
                if _PROMPT.match(each) or len(_SYMBOLS.findall(each)) > _MUCH * len(each)
            ]
        )
        is_deeper = column >= _indent(before) + _INDENTED
        if literal >= 0 or codes * (4 if is_deeper else 2) > end - start:
            found[start:end] = [True] * (end - start)
        before = lines[end - 1].rstrip() if literal < 0 else ""
    return found


def _blocks(lines: Sequence[str]) -> list[tuple[int, int]]:
    """The spans (first, last plus one) of lines between empty ones."""
    marks = [0, *(bool(line.strip()) for line in lines), 0]
    edges = [place for place, (one, other) in enumerate(pairwise(marks)) if one != other]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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


def unwrap(text: str) -> str:
    """``text`` with a space for each line break that only the width of the lines is the reason for;
    a text that was not broken at a width comes back as it is. A break goes where the first word of
    the next line would have made its line longer than lines get, or where the next line goes on
    with a sentence in small letters. Headings, items of lists, verse, addresses, code and tables
    keep their lines."""
    lines = [line.rstrip() for line in text.expandtabs(8).split("\n")] if "\n" in text else []
    inner = sorted(
        len(one) for one, other in pairwise(lines) if len(one) <= _WIDEST and _runs_on(one, other)
    )
    if not inner or (width := inner[len(inner) * 9 // 10]) < _NARROWEST:
        return text
    fixed, words = verbatim(lines), set(_WORD.findall(text))
    goes_on = [False] * len(lines)
    for start, end in chain.from_iterable(_paragraphs(lines, *each) for each in _blocks(lines)):
        goes_on[start + 1 : end] = _continued(lines[start:end], fixed[start:end], width)
    cuts = [*(place for place, each in enumerate(goes_on) if not each), len(lines)]
    if len(cuts) > len(lines):
        return text
    return "\n".join(_together(lines[first:last], words) for first, last in pairwise(cuts))


def _paragraphs(lines: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    """The spans of the paragraphs of a block: what begins with a line that alone is deeper, after
    the end of a sentence."""
    indents = [_indent(line) for line in lines[start:end]]
    first = [
        place
        for place in range(start + 1, end - 1)
        if indents[place - start - 1] == indents[place - start + 1] < indents[place - start]
        and _END.search(lines[place - 1])
    ]
    return list(pairwise([start, *first, end]))


def _continued(block: Sequence[str], fixed: Sequence[bool], width: int) -> list[bool]:
    """Whether each line but the first goes on with the one before it."""
    capitals = sum(line.lstrip()[0].isupper() for line in block[1:])
    if len(block) > 3 and capitals > _OPENS * (len(block) - 1):
        return [False] * (len(block) - 1)  # verse, or a list without marks
    pairs = list(enumerate(pairwise(block), start=1))
    follows = [
        not (fixed[place] or fixed[place - 1]) and _is_below(block, place) for place, _ in pairs
    ]
    full = [len(one) + 1 + len(other.split()[0]) > width - _SLACK for _, (one, other) in pairs]
    is_wrapped = any(map(all, zip(follows, full, strict=True)))
    return [
        is_next and (is_full or (_runs_on(one, other) and (is_wrapped or len(one) > width // 2)))
        for is_next, is_full, (_, (one, other)) in zip(follows, full, pairs, strict=True)
    ]


def _runs_on(line: str, other: str) -> bool:
    is_small = other.lstrip(" (\"'“‘`")[:1].islower()
    return is_small and not _END.search(line) and len(line.split()) >= _LEAST_WORDS


def _is_below(block: Sequence[str], place: int) -> bool:
    """Whether a line stands where the one before it would go on: in its column, below the text of
    its item, or left of the first line of a paragraph."""
    line, other = block[place - 1], block[place]
    deeper, is_item = _indent(other) - _indent(line), bool(_MARK.match(line))
    if _MARK.match(other) or (is_item and deeper <= 0):
        return False
    hangs = place == 1 and deeper <= 8 and len(block) > 2 and _indent(block[2]) == _indent(other)
    return deeper == 0 or (is_item or hangs if deeper > 0 else place == 1 and deeper >= -8)


def _together(lines: Sequence[str], words: set[str]) -> str:
    """The lines of a paragraph with spaces between them; a word whose parts two lines share is one
    if ``words``, which the text has elsewhere, hold it without a hyphen."""
    if len(lines) == 1:
        return lines[0]
    whole = "\n".join(line.strip() for line in lines)
    whole = _SEAM.sub(
        lambda seam: seam[1] + ("" if seam[1] + seam[2] in words else "-") + seam[2], whole
    )
    return lines[0][: _indent(lines[0])] + _SPACES.sub(" ", whole)
