"""Which of the words that may answer a question a model's text answers with.

The words are True and False, or the letters of the choices. The reader takes these steps:

1. It finds the statements that may decide: those behind "answer", or else the beginning of the
   text, or else its last line.
2. It reads the word in each of them.
3. It checks that they agree, and that no text behind an answer contradicts or withdraws it.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from lm_factuality.benchmarks.verdict_words import (
    HEDGED,
    TAKEN_BACK,
    first_verdict,
    texts_behind,
    withdraws_answer,
)
from lm_factuality.ground.thinking import UNFINISHED, plain_answer

DIFFERENT = "two answers that differ"

_TRUE_FALSE = ("True", "False")
_MARKS = " >#\"'(["
"""The characters that may stand before an answer."""

_LATEX_TEXT = re.compile(r"\\(?:text|math)[a-z]{0,6} ?\{([^{}]*)\}")
_BOXED_ANSWER = re.compile(r"\\boxed ?\{([^{}]*)\}")
_FORMULA_SIGNS = re.compile(r"[{}$]")
_ANSWER_IS = re.compile(
    r"(?:\b(?:answer|verdict|conclusion)|\b(?:true|correct|right|accurate) (?:version|option|choice"
    r"|statement|sentence|letter|one))[\"']?(?: (?:is|would be)\b|(?= ?[:=])|(?= *$))(?: ?[:=])?\s*"
    r"|\bi(?:'d| would)? (?:say|think|believe|pick|choose|select|go with|answer)(?: that)?:? "
    # "..., so: False" concludes a line.
    r"|\b(?:so|thus|therefore|hence)[,:]? (?=(?:true|false)\W*$)",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!?](?= |$)|\n")
# What may follow a word that answers: the end of the line, a stop, a bracket or a reason.
_AFTER_ANSWER = r"(?=[\"')\]]*(?:$|\n| ?[.,:;!)\](-]| (?:because|since|as)\b))"
# What may follow a letter that a text begins with: "B is the only true one".
_IS_CALLED_TRUE = (
    r"(?= (?:is|would be) (?:the )?(?:only )?(?:true|correct|right|accurate|answer)\b)"
)
_TRUTH = re.compile(
    "(?:(?P<true>true|yes|correct|right|accurate|verdadero|verdadeiro|vrai|wahr|vero)"
    "|(?P<false>false|falso|faux|falsch|no|untrue|incorrect|wrong|inaccurate"
    r"|not (?:\w+ly )?(?:true|correct|accurate)))" + _AFTER_ANSWER,
    re.IGNORECASE,
)
# What a sentence may judge, as in "The statement is false" or "No detail of it is wrong".
_SUBJECT = re.compile(
    r"\b(?:(?:the|this|that|given|next) (?:statement|sentence|claim|assertion)\b"
    r"|there (?:is|are)\b"
    r"|(?:everything|nothing|all|each|every|no|none|not all|not every)\b"
    r"(?=[^.\n]{0,40}\b(?:it|this|that|here|sentence|statement|details?|parts?|facts?|claims?)\b)"
    r"|(?:it|this|that)(?:'s| is)(?= (?:\w+ly |not |also |all ){0,3}"
    r"(?:true|false|untrue|correct|incorrect|right|wrong|accurate|inaccurate)"
    + _AFTER_ANSWER
    + "))",
    re.IGNORECASE,
)
_RESERVATION = re.compile(
    r"\b(?:but|however|except|although|though|unless|only|mostly|part(?:ly|ially)?|yet|if|provided|assuming)\b",
    re.IGNORECASE,
)
_OBJECTION = re.compile(r"\b(?:but|however|except|unless)\b", re.IGNORECASE)


# What stands before and after a letter that a line names, as in "I would choose option B, because".
_BEFORE_NAMED_LETTER = (
    r"(?i:\b(?:versions?|options?|choices?|letter|statement|sentence|pick|choose|select|with"
    r"|it is|it's|is|be))[ :]{1,2}[\"'(\[]*"
)
_AFTER_NAMED_LETTER = (
    r"[\"')\]]*(?= *(?:$|[.,:;!(-])| (?i:because|since|as|is|was|has|contains|states)\b)"
)


class NoClearAnswerError(ValueError):
    """An answer names none of the words that may answer a question, or not clearly."""


class _Reading(NamedTuple):
    """The word in a statement, and what stands behind it."""

    word: str
    explanation: str


def read_word(text: str, words: Sequence[str]) -> int:
    """Find the word that a text answers with.

    Example:
        ``The answer is **False**.`` and ``The statement is wrong.`` answer with ``False``, and
        ``Version B is true.`` with ``B``. ``True, but not in 1990`` contradicts its answer, and
        ``Mostly true`` is hedged, so both raise the error.

    Args:
        text: What the model wrote.
        words: The words that may answer the question.

    Returns:
        The index of the word.

    Raises:
        NoClearAnswerError: There is no clear answer. The message says why.
    """
    answer = _without_markup(text)
    readings = _find_readings(answer, words)
    if not readings:
        # Only a text without an answer is read for the doubts in its first sentence.
        first_sentence = _SENTENCE_END.split(answer)[0]
        _check_not_hedged(first_sentence)
        raise NoClearAnswerError(f"none of {', '.join(words)} alone")

    answered_words = {reading.word for reading in readings}
    if len(answered_words) > 1:
        raise NoClearAnswerError(DIFFERENT)
    for reading in readings:
        _check_explanation(reading, words)
    return words.index(answered_words.pop())


def _without_markup(text: str) -> str:
    r"""Return what a model wrote without its thinking, markup and LaTeX.

    Example:
        ``**So** \boxed{\text{B}}`` becomes ``So``, and ``Answer: B`` on a line of its own.

    Raises:
        NoClearAnswerError: Nothing is left, or the thinking never ends.
    """
    answer = plain_answer(text)
    if answer is None:
        raise NoClearAnswerError(UNFINISHED)
    answer = _LATEX_TEXT.sub(r"\1", answer)
    answer = _BOXED_ANSWER.sub(r"\nAnswer: \1\n", answer)
    # The signs are those of formulas and of JSON objects.
    answer = _FORMULA_SIGNS.sub("", answer).strip()
    if not answer:
        raise NoClearAnswerError("an empty answer")
    return answer


def _find_readings(answer: str, words: Sequence[str]) -> list[_Reading]:
    """Read the statements of a text that may answer the question.

    These are the texts behind each phrase such as "Answer:" or "The answer is". If the text has no
    such phrase, they are the beginning of the text and its last line.

    Args:
        answer: The text.
        words: The words that may answer the question.

    Raises:
        NoClearAnswerError: A statement is hedged.
    """
    named_answers = texts_behind(list(_ANSWER_IS.finditer(answer)), answer)
    readings = _read_statements(named_answers, words)
    if readings:
        return readings

    readings = _read_statements([answer], words)
    last_line = answer.rpartition("\n")[2]
    is_word = re.fullmatch(rf"\W*(?:{'|'.join(words)})\W*", last_line, re.IGNORECASE)
    # Some models explain first, and some write the word at both ends.
    if is_word or not readings:
        readings += _read_statements([last_line], words)
    return readings


def _read_statements(statements: Sequence[str], words: Sequence[str]) -> list[_Reading]:
    """Read the word in each statement, and leave out statements without one.

    Raises:
        NoClearAnswerError: A statement is hedged.
    """
    is_about_truth = tuple(words) == _TRUE_FALSE
    readings = []
    for statement in statements:
        text = statement.lstrip(_MARKS)
        reading = _read_truth(text) if is_about_truth else _read_letter(text, words)
        if reading:
            readings.append(reading)
    return readings


def _read_truth(statement: str) -> _Reading | None:
    """Read whether a statement begins with True or False, or calls something true or false.

    Example:
        ``False (the number is 19)``, ``No.`` and ``The sentence is not true: ...`` say False.

    Returns:
        The word and what stands behind it, or None if the statement does not say.

    Raises:
        NoClearAnswerError: The statement is hedged.
    """
    opening = _TRUTH.match(statement)
    if opening:
        word = "True" if opening["true"] else "False"
        return _Reading(word, statement[opening.end() :])
    return _read_judging_sentence(statement)


def _read_judging_sentence(statement: str) -> _Reading | None:
    """Read True or False from a first sentence such as "The claim is wrong".

    Example:
        ``I checked: the claim is wrong. It was 1902.`` gives the word ``False`` with the
        explanation `` is wrong. It was 1902.``, which is the text behind "the claim". ``Nothing in
        it is wrong`` gives ``True``.

    Args:
        statement: What the model wrote, which may go on after the first sentence.

    Returns:
        The word and its explanation, or None if the first sentence judges nothing.

    Raises:
        NoClearAnswerError: The first sentence is hedged, or it is a question.
    """
    sentence = _SENTENCE_END.split(statement)[0]
    # A doubt may also stand before the subject: "Perhaps the claim is true".
    _check_not_hedged(sentence)
    subject = _SUBJECT.search(sentence)
    if subject is None:
        return None

    # The subject belongs to the judgement: "Nothing" makes "Nothing is wrong" mean right.
    judgement = sentence[subject.start() :]
    _check_not_hedged(judgement)
    verdict = first_verdict(judgement)
    if verdict is None:
        return None
    is_question = statement.startswith("?", len(sentence))
    if is_question:
        raise NoClearAnswerError(HEDGED)
    return _Reading(
        word="True" if verdict == "right" else "False",
        explanation=statement[subject.end() :],
    )


def _check_not_hedged(text: str) -> None:
    """Check that the first judging phrase of a text is not a doubt such as "mostly true".

    Raises:
        NoClearAnswerError: The phrase is a doubt.
    """
    if first_verdict(text) == "unsure":
        raise NoClearAnswerError(HEDGED)


def _read_letter(statement: str, words: Sequence[str]) -> _Reading | None:
    """Read the letter that a statement begins with, or that its first line chooses.

    Example:
        ``B. The keeper`` and ``I would choose option B`` choose B. ``A and B`` chooses none.

    Args:
        statement: The statement.
        words: The letters, such as ``("A", "B", "C")``.

    Returns:
        The letter and what stands behind it, or None if the statement does not say.

    Raises:
        NoClearAnswerError: The statement is hedged.
    """
    letter = f"[{words[0]}-{words[-1]}]"
    # Each item of a list such as "A, B and C" is followed by another letter, but for the last one.
    single_letter = rf"({letter})\b(?!,? ?(?:(?:and|or|&) )?{letter}\b)"
    answer = rf"{single_letter}(?:{_AFTER_ANSWER}|{_IS_CALLED_TRUE})"
    opening = re.match(answer, statement, re.IGNORECASE)
    if opening:
        return _Reading(opening[1].upper(), statement[opening.end() :])

    line, _, further_lines = statement.partition("\n")
    _check_not_hedged(line)
    if re.search(rf"\b{letter} or {letter}\b", line):
        raise NoClearAnswerError(HEDGED)
    return _read_named_letter(line, further_lines, single_letter)


def _read_named_letter(line: str, further_lines: str, single_letter: str) -> _Reading | None:
    """Read the letter that a line names behind a word such as "option".

    Without such a word, an A may also be an article.

    Example:
        ``I would choose option B`` and ``Option A is wrong, so option B.`` choose B.

    Args:
        line: The first line of a statement.
        further_lines: The text below it.
        single_letter: The pattern of a letter that is not followed by another one.

    Returns:
        The letter and what stands behind it, or None if the line chooses none.
    """
    named_letter = _BEFORE_NAMED_LETTER + single_letter + _AFTER_NAMED_LETTER
    named_letters = list(re.finditer(named_letter, line))
    remarks = texts_behind(named_letters, line)
    chosen_letter = _chosen_letter([match[1] for match in named_letters], remarks)
    if chosen_letter is None:
        return None
    return _Reading(chosen_letter, f"{remarks[-1]}\n{further_lines}")


def _chosen_letter(letters: Sequence[str], remarks: Sequence[str]) -> str | None:
    """Return the letter that a line chooses: the only one, or the only one that it calls right.

    Example:
        The letters ``A`` and ``B`` with the remarks `` is wrong, so`` and ``.`` give ``B``.

    Args:
        letters: The letters in the line, such as those of ``option A is wrong, so option B.``
        remarks: What the line says behind each letter.
    """
    verdict_by_possible_letter = {}
    for letter, remark in zip(letters, remarks, strict=True):
        verdict = first_verdict(remark)
        if verdict != "wrong":
            verdict_by_possible_letter[letter] = verdict

    possible_letters = list(verdict_by_possible_letter)
    right_letters = [
        letter for letter, verdict in verdict_by_possible_letter.items() if verdict == "right"
    ]
    for candidates in (possible_letters, right_letters):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _check_explanation(reading: _Reading, words: Sequence[str]) -> None:
    """Check that the text behind an answer neither contradicts nor withdraws the answer.

    Example:
        ``, but the date is wrong`` contradicts the answer True, and supports the answer False.
        ``. Wait, I misread it.`` withdraws any answer.

    Args:
        reading: The answer and the text.
        words: The words that may answer the question.

    Raises:
        NoClearAnswerError: The text contradicts or withdraws the answer.
    """
    explanation = reading.explanation
    if tuple(words) == _TRUE_FALSE:
        is_contradicted = _contradicts_truth(reading.word, explanation)
    else:
        # "True, but" means False, while "B, but A is close" still answers with B.
        is_contradicted = _corrects_letter(explanation, words)
    if is_contradicted or withdraws_answer(explanation):
        raise NoClearAnswerError(TAKEN_BACK)


def _corrects_letter(explanation: str, letters: Sequence[str]) -> bool:
    """Return whether the text behind a letter says that it is actually one of the letters.

    Example:
        ``. Actually, it should be C.`` corrects a letter. ``, but A is close`` does not.
    """
    correction = rf"\b[Aa]ctually\b[^.\n]{{0,40}}\b[{letters[0]}-{letters[-1]}]\b"
    return re.search(correction, explanation) is not None


def _contradicts_truth(word: str, explanation: str) -> bool:
    """Return whether the text behind True or False says the opposite.

    Example:
        Behind True, ``, but the date is wrong`` does. Behind False, it explains the answer.

    Args:
        word: ``True`` or ``False``.
        explanation: The text behind the word.
    """
    rest_of_sentence, *later_sentences = _SENTENCE_END.split(explanation)
    if word == "False":
        # What follows in the same sentence explains the answer, whatever it says.
        return any(map(_calls_true, later_sentences))
    return (
        first_verdict(rest_of_sentence) in ("wrong", "unsure")
        or _RESERVATION.search(rest_of_sentence) is not None
        or any(map(_objects, later_sentences))
    )


def _calls_true(sentence: str) -> bool:
    """Return whether a sentence calls what was asked about right: ``The claim is true``."""
    return first_verdict(sentence) == "right" and _SUBJECT.match(sentence.strip()) is not None


def _objects(sentence: str) -> bool:
    """Return whether a sentence calls something wrong, or restricts the answer with ``but``."""
    verdict = first_verdict(sentence)
    return verdict == "wrong" or (verdict != "right" and _OBJECTION.search(sentence) is not None)
