"""Edits that contradict nothing, because they change words that the sentence does not assert.

*Do not open it on Monday* and *Do not open it on Tuesday* may both hold. The generator asks
`unasserted_reason` about every edit, and counts the edits that it leaves out by reason.
"""

import re

from factor_gen.contradiction.compatible import last_clause
from factor_gen.generate.rules.edits import SentenceEdit
from factor_gen.generate.rules.sentence import TaggedSentence

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

_BRACKETS = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"n['’]t\b|\w+?(?=n['’]t\b)|\w+", re.IGNORECASE)


def unasserted_reason(sentence: TaggedSentence, edit: SentenceEdit) -> str | None:
    """Tell why a sentence does not assert the words that an edit changes.

    Example:
        An edit of *Monday* in *If it rains on Monday, the yard closes* gives ``part of a
        condition``.

    Args:
        sentence: The sentence before the edit.
        edit: The edit. Its first replacement stands for all, such as those of a day and its
            month.

    Returns:
        The first of `UNASSERTED_REASONS` whose table of ``conditions.yaml`` matches; None if the
        sentence asserts the words.
    """
    start, end, new = edit.replacements[0]
    clause = _clause_before(sentence.text, start)
    # The tables expect a list of values of each feature, so a single value is a list of one.
    context = sentence.context_of_characters(
        start,
        end,
        {
            "operator": [edit.operator],
            "type": [edit.error_type],
            "old": _lowercase_words(sentence.text[start:end]),
            "new": _lowercase_words(new),
            "clause": _lowercase_words(clause),
            "clause text": [clause],
            "breaks phrase": [_breaks_fixed_phrase(sentence, edit)],
        },
    )
    return context.first_match(UNASSERTED_REASONS)


def _clause_before(text: str, position: int) -> str:
    """Return the clause before a position: *he said that* of *On Monday, he said that* ...

    Args:
        text: The sentence.
        position: Where the changed words start.

    Returns:
        The text from the last comma or other mark on, without brackets.
    """
    without_brackets = _BRACKETS.sub("", last_clause(text[:position]))
    # A bracket that is still open starts a clause of its own.
    return without_brackets.rpartition("(")[2]


def _breaks_fixed_phrase(sentence: TaggedSentence, edit: SentenceEdit) -> bool:
    """Whether an edit changes a part of a fixed phrase, such as *hand* in *on the other hand*.

    An edit of the whole phrase does not break it, because the phrase may have an opposite.

    Args:
        sentence: The sentence before the edit.
        edit: The edit, any replacement of which may break a phrase.
    """
    for phrase in sentence.fixed_phrases:
        for start, end, _ in edit.replacements:
            touches_phrase = start < phrase.end and phrase.start < end
            replaces_phrase = start <= phrase.start and phrase.end <= end
            if touches_phrase and not replaces_phrase:
                return True
    return False


def _lowercase_words(text: str) -> list[str]:
    """Split a text into words in lower case: ``do`` and ``n't`` for *don't*.

    The month *May* is left out, because the tables ask for the verb *may*.
    """
    return [word.lower() for word in _WORD.findall(text) if word != "May"]
