"""The lexical judge's grades of short answers, by their words alone.

`judges.backends.lexical` answers questions of SimpleQA's kind with them.
"""

import re

_WORD = re.compile(r"\w+")
_ARTICLES = frozenset({"a", "an", "the"})


def grade_answer(reference: str, answer: str) -> dict[str, str]:
    """Grade an answer by whether it contains the words of the reference in the same order.

    Example:
        >>> grade_answer("the Danube", "I think it is the Danube.")["grade"]
        'CORRECT'

    Returns:
        The fields of a reply: ``reason`` and ``grade``.
    """
    answer_words = _padded_words(answer)
    # Without a word, only the spaces are left. A model that writes nothing has not tried, so it is
    # not wrong.
    if answer_words.isspace():
        return {"reason": "the answer has no words", "grade": "NOT_ATTEMPTED"}
    if _padded_words(reference) in answer_words:
        return {"reason": "the answer contains the reference", "grade": "CORRECT"}
    # The words of an answer do not show whether it declines, so that counts as wrong too.
    return {"reason": "the answer does not contain the reference", "grade": "INCORRECT"}


def _padded_words(text: str) -> str:
    """Return the words of a text in lower case, without articles and with spaces around them.

    Example:
        ``The Danube, I think.`` → `` danube i think ``
    """
    words = [word for word in _WORD.findall(text.lower()) if word not in _ARTICLES]
    # With a space before and behind each word, "art" is not found in "party".
    return " ".join(["", *words, ""])
