"""Where sentences end, and what their words are, in any script."""

import re
from collections.abc import Iterator

_CLOSING = "\"')\\]\u201d\u2019\u00bb"
# Marks of alphabets with spaces between words (Latin, Greek, Cyrillic, Arabic, ...), then those
# that need no space behind them: Chinese and Japanese, Devanagari, Urdu, Ethiopic, Burmese, Khmer.
_SPACED = rf"[.!?\u2026\u061f][{_CLOSING}]*\s+"
_UNSPACED = "[\u3002\uff01\uff1f\uff61\u0964\u0965\u06d4\u1362\u104b\u17d4]+[\"'\\)\u201d\u2019\u300d\u300f\uff09\u3011\u300b]*"  # noqa: E501
_END = re.compile(rf"{_SPACED}|(?P<unspaced>{_UNSPACED})\s*")
_OPENING = "\"'([\u201c\u2018\u00ab\u00bf\u00a1"
# Of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
SIGNS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{SIGNS}]|[^\\W{SIGNS}]+")
_SIGN = re.compile(f"[{SIGNS}]")
_TAIL = 40  # characters before an end in which an abbreviation shows
_TITLE = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|Rev|St|vs|No|Gen|Lt|Col|Capt|ca?)\.$")
# The number of an item of a list. Some published texts hold a backslash and an n for a line break.
_LISTED = re.compile(r"(?:^|\n|\\n|[:;]\s)\s*\d{1,3}\.$")
_INITIAL = re.compile(
    r"\b(?:Jr|Sr|etc|Inc|Ltd|Co|[A-Z])\.$"
)  # these may end a sentence: a word tells that seldom follows a name
_BEGINNING = re.compile(
    r"(?:He|She|It|They|We|You|His|Her|Its|Their|Our|This|That|These|Those|There|The|An|In|On|At|As|After|Before|When|While|During|"
    r"From|With|However|But|And|Although|Since|If|Some|Many|Most|Both|Each|Later|Today)(?![\w.'\u2019-])"
)


def words_in(text: str) -> list[str]:
    """The words of ``text``; where a script sets no spaces between them, each sign is one."""
    return _WORD.findall(text)


def spaced(text: str) -> str:
    """``text`` with spaces around each sign of a script that sets none, so that what stands between
    white space are its words."""
    return _SIGN.sub(r" \g<0> ", text)


def split_sentences(text: str) -> list[str]:
    """Sentences by their end marks, not split after initials, titles, abbreviations or numbers of
    lists, where a space stays."""
    found: list[str] = []
    parts: list[str] = []
    begin = start = 0  # of the sentence, and of its last part
    for end, beyond in _ends(text):
        parts.append(text[start:end].strip())
        start = beyond
        if _is_open(text[max(begin, end - _TAIL) : end], text[beyond : beyond + _TAIL]):
            continue
        found.append(" ".join(filter(None, parts)))
        parts, begin = [], beyond
    parts.append(text[start:].strip())
    return [sentence for sentence in (*found, " ".join(filter(None, parts))) if sentence]


def _ends(text: str) -> Iterator[tuple[int, int]]:
    """Where a sentence may end, and where the next would begin: not before a small letter, nor
    before Japanese that quotes it."""
    for end in _END.finditer(text):
        following = text[end.end() : end.end() + 4].lstrip(_OPENING)[:1]
        unspaced = end["unspaced"]
        if unspaced is None:
            may_begin = following.isdigit() or (following.isalpha() and not following.islower())
            if may_begin:
                yield end.start() + len(end[0].rstrip()), end.end()
        elif not (unspaced[-1] in "\u300d\u300f" and "\u3040" <= following <= "\u309f"):
            yield end.start("unspaced") + len(unspaced), end.end()


def _is_open(before: str, after: str) -> bool:
    """Whether the sentence goes on: ``before`` ends in an abbreviation, and what comes ``after``
    does not begin a sentence."""
    last = before.split()[-1] if before.endswith(".") else ""
    if (last[:-1].isdigit() or "\\n" in last) and _LISTED.search(before):
        return True
    return bool(_TITLE.search(last)) or bool(_INITIAL.search(last) and not _BEGINNING.match(after))
