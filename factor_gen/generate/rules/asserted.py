"""Which words of a sentence it asserts.

Another word for one that it denies, supposes or gives as an example contradicts nothing: *do not
open it on Monday* and *do not open it on Tuesday* may both hold.
"""

import re
from functools import cache, lru_cache

from factor_gen.generate.rules.edits import Edit
from factor_gen.generate.rules.sentence import Sentence, Span, overlaps
from factor_gen.generate.rules.words import DATA
from factor_gen.text.lists import entries

REASONS = (
    "part of a fixed phrase",
    "part of a concession",
    "a ground for what follows",
    "part of a denial",
    "part of a condition",
    "one of several that may be",
    "an example, or one of two",
)
"""Why an edit need not contradict the sentence. Each is a table of ``conditions.yaml``."""

_NEAR = 400  # characters around an edit that are looked at
_BRACKETS = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"n['’]t\b|\w+?(?=n['’]t\b)|\w+", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[;:]|\.(?!\w)|,(?! (?:and|or)\b)|\s[-–—]+\s")


def unasserted(sentence: Sentence, edit: Edit) -> str | None:
    """Why the edit need not contradict the sentence: one of `REASONS`; None if nothing says so."""
    text = sentence.text
    start, end, new = edit.replacements[0]
    marks = [mark.end() for mark in _CLAUSE_END.finditer(text)]
    clause_start = max((mark for mark in marks if mark <= start), default=0)
    clause_end = min((mark for mark in marks if mark > end), default=len(text))
    first, last = max(0, start - _NEAR), end + _NEAR
    clause = _BRACKETS.sub("", text[max(first, clause_start) : start]).rpartition("(")[2]
    place = sentence.place_of(
        start,
        end,
        operator=[edit.operator],
        type=[edit.type],
        old=_words(text[start:end]),
        new=_words(new),
        nearby_words=_words(text[first:last]),
        following_words=_words(text[end:last]),
        clause=_words(clause),
        clause_text=[clause],
        rest_of_clause=_words(text[end:clause_end]),
        neighbours=[*text[:start].split()[-1:], *text[end:].split()[:1]],
        breaks_phrase=[_breaks_phrase(sentence, *edited[:2]) for edited in edit.replacements],
    )
    return next((reason for reason in REASONS if place.meets(reason)), None)


def _words(text: str) -> list[str]:
    """The words of a text in lower case; not the month *May*."""
    return [word.lower() for word in _WORD.findall(text) if word != "May"]


def _breaks_phrase(sentence: Sentence, start: int, end: int) -> bool:
    """Whether the characters are part of a fixed phrase, but not all of it."""
    phrases = [
        (first, last)
        for first, last in _fixed_phrases(sentence.text)
        if first < start or end < last
    ]
    return overlaps(phrases, start, end)


@lru_cache(maxsize=8)  # All edits of a sentence ask for them.
def _fixed_phrases(text: str) -> list[Span]:
    """Where fixed phrases stand."""
    return [phrase.span() for phrase in _any_fixed_phrase().finditer(text)]


@cache
def _any_fixed_phrase() -> re.Pattern[str]:
    phrases = sorted(entries(DATA / "fixed_phrases.txt"), key=lambda phrase: (-len(phrase), phrase))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, phrases))})(?![\w-])", re.IGNORECASE)
