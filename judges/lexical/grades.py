"""The offline judge's grade of a short answer, by its words alone."""

import re

_WORD = re.compile(r"\w+")
_ARTICLES = frozenset({"a", "an", "the"})


def grade_answer(reference: str, answer: str) -> dict[str, str]:
    """Grade an answer by whether it contains the words of the reference in their order.

    Example:
        >>> grade_answer("the Danube", "I think it is the Danube.")["grade"]
        'CORRECT'

    Returns:
        The fields of a reply: ``reason`` and ``grade``. An answer without words is
        ``NOT_ATTEMPTED``, and one without the reference is ``INCORRECT``, even if it declines.
    """
    expected, words = _words(reference), _words(answer)
    if not words:
        return {"reason": "the answer has no words", "grade": "NOT_ATTEMPTED"}
    starts = range(len(words) - len(expected) + 1)
    if any(words[start : start + len(expected)] == expected for start in starts):
        return {"reason": "the answer contains the reference", "grade": "CORRECT"}
    return {"reason": "the answer does not contain the reference", "grade": "INCORRECT"}


def _words(text: str) -> list[str]:
    """The words of a text in small letters, without articles."""
    return [word for word in _WORD.findall(text.lower()) if word not in _ARTICLES]
