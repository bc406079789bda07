"""Which words of a sentence it asserts.

Another word for one that it denies, supposes or gives as an example contradicts nothing: *do not
open it on Monday* and *do not open it on Tuesday* may both hold.
"""

import re

from factor_gen.generate.rules.edits import SentenceEdit
from factor_gen.generate.rules.sentence import TaggedSentence, overlaps

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

_NEAR = 400  # characters before an edit that are looked at
_BRACKETS = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"n['’]t\b|\w+?(?=n['’]t\b)|\w+", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[;:]|\.(?!\w)|,(?! (?:and|or)\b)|\s[-–—]+\s")


def unasserted(sentence: TaggedSentence, edit: SentenceEdit) -> str | None:
    """Why the edit need not contradict the sentence: one of `REASONS`; None if nothing says so."""
    start, end, new = edit.replacements[0]
    clause = _CLAUSE_END.split(sentence.text[max(0, start - _NEAR) : start])[-1]
    clause = _BRACKETS.sub("", clause).rpartition("(")[2]
    breaks_phrase = any(
        overlaps([phrase], *span) and not (span[0] <= phrase[0] and phrase[1] <= span[1])
        for phrase in sentence.fixed_phrases
        for *span, _ in edit.replacements
    )
    place = sentence.place_of(
        start,
        end,
        operator=[edit.operator],
        type=[edit.type],
        old=_words(sentence.text[start:end]),
        new=_words(new),
        clause=_words(clause),
        clause_text=[clause],
        breaks_phrase=[breaks_phrase],
    )
    return next((reason for reason in REASONS if place.matches(reason)), None)


def _words(text: str) -> list[str]:
    """The words of a text in lower case; not the month *May*."""
    return [word.lower() for word in _WORD.findall(text) if word != "May"]
