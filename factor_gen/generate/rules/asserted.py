"""Edits that contradict nothing, because they change words that the sentence does not assert.

*Do not open it on Monday* and *Do not open it on Tuesday* may both hold. The generator asks
`unasserted_reason` about every edit, and counts the edits that it leaves out by reason.
"""

import re

from factor_gen.generate.rules.edits import SentenceEdit
from factor_gen.generate.rules.sentence import Span, TaggedSentence, overlaps_any

UNASSERTED_REASONS = (
    "part of a fixed phrase",
    "part of a concession",
    "a ground for what follows",
    "part of a denial",
    "part of a condition",
    "one of several that may be",
    "an example, or one of two",
)
"""Why a sentence does not assert the words that an edit changes.

Each reason is the name of a table of ``conditions.yaml``.
"""

_LONGEST_CLAUSE = 400  # characters before an edit
_BRACKETS = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"n['’]t\b|\w+?(?=n['’]t\b)|\w+", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[;:]|\.(?!\w)|,(?! (?:and|or)\b)|\s[-–—]+\s")


def unasserted_reason(sentence: TaggedSentence, edit: SentenceEdit) -> str | None:
    """Tell why a sentence does not assert the words that an edit changes.

    Args:
        sentence: The sentence before the edit.
        edit: The edit, of which the first replacement is looked at.

    Returns:
        The first of `UNASSERTED_REASONS` whose table of ``conditions.yaml`` matches; None if the
        sentence asserts the words.
    """
    # The first replacement stands for all of an edit, such as the pronouns of a sentence.
    replacement = edit.replacements[0]
    clause = _clause_before(sentence.text, replacement.start)
    # The tables ask for these features of the edit, and for the words of the sentence.
    context = sentence.context_of_characters(
        replacement.start,
        replacement.end,
        operator=[edit.operator],
        type=[edit.error_type],
        old=_lowercase_words(sentence.text[replacement.start : replacement.end]),
        new=_lowercase_words(replacement.new),
        clause=_lowercase_words(clause),
        clause_text=[clause],
        breaks_phrase=[_breaks_fixed_phrase(sentence, edit)],
    )
    # Each reason is the name of a table of conditions.yaml.
    for reason in UNASSERTED_REASONS:
        if context.matches(reason):
            return reason
    return None


def _clause_before(text: str, position: int) -> str:
    """Return the clause before a position: *he said that* of *On Monday, he said that* ...

    Args:
        text: The sentence.
        position: Where the changed words start.

    Returns:
        The text from the last comma or other mark on, without brackets.
    """
    nearby_text = text[max(0, position - _LONGEST_CLAUSE) : position]
    clause = _CLAUSE_END.split(nearby_text)[-1]
    without_brackets = _BRACKETS.sub("", clause)
    # A bracket that is still open starts a clause of its own.
    return without_brackets.rpartition("(")[2]


def _breaks_fixed_phrase(sentence: TaggedSentence, edit: SentenceEdit) -> bool:
    """Whether an edit changes only a part of a fixed phrase, such as *on the other hand*."""
    for phrase in sentence.fixed_phrases:
        for replacement in edit.replacements:
            # A phrase that is replaced as a whole may have an opposite.
            is_in_phrase = overlaps_any([phrase], Span(replacement.start, replacement.end))
            is_whole = replacement.start <= phrase.start and phrase.end <= replacement.end
            if is_in_phrase and not is_whole:
                return True
    return False


def _lowercase_words(text: str) -> list[str]:
    """Split a text into words in lower case: ``do`` and ``n't`` for *don't*.

    The month *May* is left out, because the tables ask for the verb *may*.
    """
    return [word.lower() for word in _WORD.findall(text) if word != "May"]
