"""The grammar of the answers in which a model or judge lists the segments or claims with errors.

`lm_factuality.benchmarks.felm.verdicts` calls `find_flagged_units` on every output. The prompts ask
for a line ``Answer:`` with the numbers of the wrong units, or ALL_CORRECT. Equivalent answers are
read too: a heading "Answer", a boxed list, JSON with the key ``answer``, ranges, "segments 2 and
3", one number per line, "No errors found".
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from lm_factuality.ground.packages import load_patterns

# The reasons why an output is unscored.
NO_ANSWER = "no answer line"
EMPTY_ANSWER = "nothing after 'Answer:'"
MORE_THAN_IDS = "more than ids after 'Answer:'"
CONTRADICTORY = "two answers that differ"
CUT_OFF_BEFORE = "cut off before the answer"
CUT_OFF_WITHIN = "cut off in the answer"

UnitsOrReason: TypeAlias = frozenset[int] | str
"""The 1-based numbers of the wrong units, or the reason why an output does not tell them."""

_PATTERNS = load_patterns(__package__)

# The digits of a number that are read. No answer has a billion units, and int() is slow for more.
_MAX_DIGITS = 9


class LocatedAnswer(NamedTuple):
    """One answer in an output of a model."""

    start: int
    """The offset at which the answer begins, in characters."""

    text: str
    """The answer without the word "Answer", and all text up to the next answer."""


class _AnswerMark(NamedTuple):
    """The mark by which an answer is recognised, such as the word "Answer:"."""

    start: int
    """The offset at which the mark begins."""

    end: int
    """The offset behind the mark."""

    value: str
    """The answer inside the mark, if the mark is a box or a JSON object."""


class LeadingIds(NamedTuple):
    """The unit numbers at the beginning of an answer."""

    ids: UnitsOrReason
    """The numbers, or the reason why they cannot be read."""

    end: int
    """The offset behind the last number that was read."""


def find_flagged_units(text: str, num_units: int, is_cut_off: bool = False) -> UnitsOrReason:
    """Find the units (segments or claims) that a model's output says are wrong.

    If the output gives several answers, the last one counts, and the others have to agree with it.

    Example:
        ``Answer: 2, 4-5`` → ``{2, 4, 5}``; ``Answer: ALL_CORRECT`` → an empty set

    Args:
        text: The output without thinking and markup.
        num_units: The number of units that the model was shown.
        is_cut_off: Whether the model had to stop because it reached its token limit.

    Returns:
        The numbers of the wrong units, or the reason why the output cannot be read.
    """
    # Models of mathematics write answers such as \text{2}.
    text = _PATTERNS["latex_text"].sub(r"\1", text)
    answers = list(_find_answers(text))
    next_question = _PATTERNS["example"].search(text)
    if answers and next_question and next_question.start() >= answers[0].start:
        # Some models go on, invent further questions and answer them as well.
        answers = list(_find_answers(text[: next_question.start()]))
        is_cut_off = False
    elif not answers and _is_bare_answer(text):
        # The model answered without the word "Answer".
        answers = [LocatedAnswer(0, text)]
    if not answers:
        return CUT_OFF_BEFORE if is_cut_off else NO_ANSWER

    last_units = _read_single_answer(answers[-1].text, num_units, is_cut_off)
    if isinstance(last_units, str):
        # "Answer:" may have been the last word that fitted into the token limit.
        is_unfinished = last_units == EMPTY_ANSWER and is_cut_off
        return CUT_OFF_BEFORE if is_unfinished else last_units

    for answer in answers[:-1]:
        units = _read_single_answer(answer.text, num_units, is_cut_off=False)
        # An earlier answer that cannot be read contradicts nothing.
        if units != last_units and not isinstance(units, str):
            return CONTRADICTORY
    return last_units


def _find_answers(text: str) -> Iterator[LocatedAnswer]:
    r"""Yield the answers in an output, in the order in which they appear.

    Example:
        ``Answer: 2. Or rather \boxed{3}.`` → ``2. Or rather``, ``3`` and what follows each

    Args:
        text: The output of the model.
    """
    marks = [_AnswerMark(*head.span(), "") for head in _PATTERNS["head"].finditer(text)]
    for match in _PATTERNS["set_off"].finditer(text):
        is_boxed = match["boxed"] is not None
        values = [match["boxed"]] if is_boxed else _answers_in_json(match["json"])
        # The line break keeps the answer apart from an explanation that follows.
        marks += [_AnswerMark(*match.span(), f"{value}\n") for value in values]
    marks.sort()

    # Each answer ends where the next one begins.
    ends = [mark.start for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=False):
        yield LocatedAnswer(mark.start, mark.value + text[mark.end : end])


def _answers_in_json(text: str) -> list[str]:
    """Return the values of the key ``answer`` of a JSON object, formatted as plain answers.

    Example:
        ``{"answer": [2, 3]}`` → ``["2, 3"]``; ``{"answer": []}`` → ``["none"]``

    Args:
        text: Text in braces, which need not be JSON.

    Returns:
        One answer for each time that the key occurs. Text that is not JSON has none.
    """
    try:
        # Plain dicts would lose repeated keys, and repeated answers may contradict each other.
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return []

    answers = []
    for key, value in pairs:
        if not _PATTERNS["key"].fullmatch(key):
            continue
        if isinstance(value, list):
            answers.append(", ".join(map(str, value)) or "none")
        else:
            answers.append(json.dumps(value))
    return answers


def _is_bare_answer(text: str) -> bool:
    """Return whether an output is a single line with nothing but the answer itself.

    Example:
        ``2, 3`` and ``No errors found`` are bare answers.
    """
    if "\n" in text:
        return False
    is_all_correct = _PATTERNS["all_correct"].match(text)
    return bool(is_all_correct or _PATTERNS["bare"].fullmatch(text))


def _read_single_answer(body: str, num_units: int, is_cut_off: bool) -> UnitsOrReason:
    """Read one answer: the unit numbers or ALL_CORRECT at its beginning, then an explanation.

    Example:
        ``2, 3 because the dates are wrong`` → ``{2, 3}``

    Args:
        body: The text behind "Answer:".
        num_units: The number of units that the model was shown.
        is_cut_off: Whether the text ends because the model reached its token limit.

    Returns:
        The numbers of the wrong units, or the reason why the answer cannot be read.
    """
    is_below_heading = body.startswith("\n")
    body = body.removeprefix("\n- ").strip()
    if not body:
        return EMPTY_ANSWER

    all_correct = _PATTERNS["all_correct"].match(body)
    if all_correct:
        flagged = frozenset[int]()
        end = all_correct.end()
        is_taken_back = _contradicts_all_correct(body[end:])
    else:
        ids, end = _read_leading_ids(body, num_units, is_below_heading)
        if isinstance(ids, str):
            return ids
        flagged = ids
        are_wrong = _PATTERNS["wrong"].match(body, end)
        if are_wrong:
            end = are_wrong.end()
        is_taken_back = _clears_flagged_units(body, end, len(flagged) == num_units)

    explanation = body[end:]
    if is_taken_back or _extends_answer(explanation, flagged, num_units):
        return MORE_THAN_IDS
    if flagged and re.search(r"\ball_correct\b", explanation, re.IGNORECASE):
        return CONTRADICTORY

    # Of a list that ends with the output, a number may be missing.
    if is_cut_off and not _PATTERNS["goes_on"].match(explanation):
        return CUT_OFF_WITHIN
    return flagged


def _contradicts_all_correct(explanation: str) -> bool:
    """Return whether the text behind ALL_CORRECT mentions an error after all."""
    # "There are no errors" confirms the answer, so it is removed before the search for "error".
    without_denials = re.sub(r"\bno (?:\w+ )?(?:errors?|mistakes?)\b", "", explanation)
    return bool(_PATTERNS["contrary"].search(without_denials))


def _clears_flagged_units(body: str, end: int, are_all_flagged: bool) -> bool:
    """Return whether an answer calls the units correct that it has just listed as wrong.

    Example:
        ``2 is correct`` and ``1, 3. Both are accurate`` list units only to clear them.

    Args:
        body: The whole answer.
        end: The offset behind the list of units.
        are_all_flagged: Whether the list has all units of the response.
    """
    is_cleared = _PATTERNS["cleared"].search(body) or _PATTERNS["sound"].match(body, end)
    if is_cleared:
        return True
    # A list of all units with a note on each, such as "1 (right), 2 (wrong)", only repeats them.
    return are_all_flagged and bool(re.search(r"\([^\W\d]", body[:end]))


def _extends_answer(explanation: str, flagged: frozenset[int], num_units: int) -> bool:
    """Return whether the text behind an answer goes on with the answer instead of explaining it.

    Example:
        Behind ``2``, both `` or perhaps 3`` and ``. The third segment as well`` extend the answer.

    Args:
        explanation: The text behind the unit numbers or ALL_CORRECT.
        flagged: The units that the answer has listed so far.
        num_units: The number of units that the model was shown.
    """
    # An explanation begins with a line break, a full stop, a bracket, or a word such as "because".
    is_explanation = bool(_PATTERNS["end"].match(explanation))
    has_ordinal = bool(_PATTERNS["nth"].search(explanation))
    names_other_units = bool(_units_named_in(explanation, num_units) - flagged)
    return not is_explanation or has_ordinal or names_other_units


def _units_named_in(explanation: str, num_units: int) -> set[int]:
    """Return the numbers in an explanation that refer to units.

    Example:
        Of 3 units, ``Segment 9 says 2, not 1870`` names 9 and 2. The year is too high for a unit.
    """
    units = set()
    for unit_word, digits in _PATTERNS["number"].findall(explanation):
        number = int(digits[:_MAX_DIGITS])
        if unit_word or 1 <= number <= num_units:
            units.add(number)
    return units


def _read_leading_ids(body: str, num_units: int, is_below_heading: bool) -> LeadingIds:
    """Read the unit numbers at the beginning of an answer.

    Example:
        ``2, 4-5 are wrong`` → ``{2, 4, 5}`` and the offset 6

    Args:
        body: The answer without the word "Answer".
        num_units: The number of units that the model was shown.
        is_below_heading: Whether the answer is below the word "Answer" and not beside it. Then
            there may be one number per line.

    Returns:
        The numbers or a reason, and the offset behind what was read.
    """
    match = _PATTERNS["first"].match(body)
    next_id = _PATTERNS["further"]
    # If the first line has a single number, each of the next lines may have one too.
    if match and is_below_heading and re.match(r"[.,;]?\n", body[match.end() :]):
        next_id = _PATTERNS["below"]

    ids: set[int] = set()
    end = 0
    while match:
        # A single number is a range of one.
        low = int(match[1][:_MAX_DIGITS])
        high = int((match[2] or match[1])[:_MAX_DIGITS])
        for number in (low, high):
            if not 1 <= number <= num_units:
                return LeadingIds(f"id {number}; the last is {num_units}", end)
        if low > high:
            return LeadingIds(MORE_THAN_IDS, end)
        ids.update(range(low, high + 1))
        end = match.end()
        match = next_id.match(body, end)
    return LeadingIds(frozenset(ids) or MORE_THAN_IDS, end)
