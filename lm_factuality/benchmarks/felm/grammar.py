"""The grammar of the answers in which a model or judge lists the segments or claims with errors.

`lm_factuality.benchmarks.felm.verdicts` calls `find_flagged_units` on every output. The prompts ask
for a line ``Answer:`` with the numbers of the wrong units, or ALL_CORRECT. Equivalent answers are
read too: a heading "Answer", a boxed list, JSON with the key ``answer``, ranges, "segments 2 and
3", one number per line, "No errors found".
"""

import json
import re
from itertools import pairwise
from typing import NamedTuple

from lm_factuality.ground.packages import load_patterns

# The reasons why an output is unscored.
NO_ANSWER = "no answer line"
EMPTY_ANSWER = "nothing after 'Answer:'"
MORE_THAN_IDS = "more than ids after 'Answer:'"
CONTRADICTORY = "two answers that differ"
CUT_OFF_BEFORE = "cut off before the answer"
CUT_OFF_WITHIN = "cut off in the answer"

_PATTERNS = load_patterns(__package__)

# The digits of a number that are read. No answer has a billion units, and int() is slow for more.
_MAX_DIGITS = 9


class _AnswerMark(NamedTuple):
    """The mark by which an answer is recognised: the word "Answer:", a box or a JSON object."""

    start: int
    """The offset at which the mark begins, in characters."""

    end: int
    """The offset behind the mark."""

    value: str = ""
    """The answer inside the mark. Empty for the word "Answer:", whose answer follows it."""


class _LeadingIds(NamedTuple):
    """The unit numbers at the beginning of an answer."""

    ids: frozenset[int]
    """The numbers, from 1."""

    end: int
    """The offset behind them, and behind words such as "are wrong"."""


class UnreadableAnswerError(ValueError):
    """An output gives no verdict. The message is the reason that results record."""


def find_flagged_units(text: str, num_units: int, is_cut_off: bool = False) -> frozenset[int]:
    """Find the units (segments or claims) that a model's output says are wrong.

    If the output gives several answers, the last one counts, and the others have to agree with it.

    Example:
        ``Answer: 2, 4-5`` → ``{2, 4, 5}``; ``Answer: ALL_CORRECT`` → an empty set

    Args:
        text: The output without thinking and markup.
        num_units: The number of units that the model was shown.
        is_cut_off: Whether the output ends because the model reached its token limit. Its last
            number may be missing then.

    Returns:
        The 1-based numbers of the wrong units.

    Raises:
        UnreadableAnswerError: The output has no answer, or none that can be read.
    """
    # Models of mathematics write answers such as \text{2}.
    full_output = _PATTERNS["latex_text"].sub(r"\1", text)
    output = _drop_invented_questions(full_output)
    # If questions were dropped, the model had finished its answer before it reached the limit.
    is_answer_cut_off = is_cut_off and output == full_output

    answers = _find_answers(output)
    # Some models answer without the word "Answer".
    if not answers and _is_bare_answer(output):
        answers = [output]
    if not answers:
        raise UnreadableAnswerError(CUT_OFF_BEFORE if is_answer_cut_off else NO_ANSWER)

    flagged = _read_single_answer(answers[-1], num_units, is_answer_cut_off)
    for answer in answers[:-1]:
        try:
            flagged_before = _read_single_answer(answer, num_units, is_cut_off=False)
        except UnreadableAnswerError:
            # An earlier answer that cannot be read contradicts nothing.
            continue
        if flagged_before != flagged:
            raise UnreadableAnswerError(CONTRADICTORY)
    return flagged


def _drop_invented_questions(text: str) -> str:
    """Drop the further questions, and their answers, that some models invent behind an answer.

    Example:
        ``Answer: 2`` followed by a line ``Question: Who ...`` → ``Answer: 2``

    Args:
        text: The output of the model.
    """
    marks = _find_answer_marks(text)
    question = _PATTERNS["next_question"].search(text)
    # A question before the first answer repeats the prompt.
    if not marks or question is None or question.start() < marks[0].start:
        return text
    return text[: question.start()]


def _find_answers(text: str) -> list[str]:
    r"""Return the answers in an output, in order, each with the explanation that follows it.

    Example:
        ``Answer: 2. Or rather \boxed{3} at last.`` → ``2. Or rather`` and ``3``, ``at last.``
        behind a line break

    Args:
        text: The output of the model.
    """
    end_of_text = _AnswerMark(start=len(text), end=len(text))
    marks = [*_find_answer_marks(text), end_of_text]
    # Each answer ends where the next one begins.
    return [mark.value + text[mark.end : next_mark.start] for mark, next_mark in pairwise(marks)]


def _find_answer_marks(text: str) -> list[_AnswerMark]:
    r"""Find the places in an output at which answers are given, in order.

    They are the word "Answer:", boxes such as ``\boxed{2, 3}``, and JSON objects with the key
    ``answer``.
    """
    marks = [_AnswerMark(*match.span()) for match in _PATTERNS["answer_word"].finditer(text)]
    for match in _PATTERNS["boxed_or_json"].finditer(text):
        boxed = match["boxed"]
        # The pattern matches either a box or an object. An object may repeat the key.
        values = _answers_in_json(match["json"]) if boxed is None else [boxed]
        for value in values:
            # The line break keeps the answer apart from an explanation that follows.
            marks.append(_AnswerMark(match.start(), match.end(), f"{value}\n"))
    return sorted(marks)


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
        # A dict would lose repeated keys, and repeated answers may contradict each other. So
        # objects become lists of pairs of a key and a value. The text is in braces, so all of it
        # is an object.
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return []

    answers = []
    for key, value in pairs:
        if not _PATTERNS["answer_key"].fullmatch(key):
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
    is_all_correct = _PATTERNS["says_all_correct"].match(text)
    return bool(is_all_correct or _PATTERNS["bare_ids"].fullmatch(text))


def _read_single_answer(body: str, num_units: int, is_cut_off: bool) -> frozenset[int]:
    """Read one answer: the unit numbers or ALL_CORRECT at its beginning, then an explanation.

    The explanation may neither take the answer back nor add to it.

    Example:
        ``2, 3 because the dates are wrong`` → ``{2, 3}``; ``ALL_CORRECT`` → an empty set;
        ``2, and maybe 3`` has no clear end

    Args:
        body: The text behind "Answer:".
        num_units: The number of units that the model was shown.
        is_cut_off: Whether the text ends because the model reached its token limit.

    Returns:
        The numbers of the wrong units.

    Raises:
        UnreadableAnswerError: The answer is empty, contradicts itself, or has no clear end.
    """
    is_below_heading = body.startswith("\n")
    body = body.removeprefix("\n- ").strip()
    if not body:
        # "Answer:" may have been the last word that fitted into the token limit.
        raise UnreadableAnswerError(CUT_OFF_BEFORE if is_cut_off else EMPTY_ANSWER)

    all_correct = _PATTERNS["says_all_correct"].match(body)
    if all_correct:
        flagged = frozenset[int]()
        end = all_correct.end()
        # "ALL_CORRECT, but 2 has a mistake" says the opposite.
        is_taken_back = _mentions_error(body[end:])
    else:
        flagged, end = _read_leading_ids(body, num_units, is_below_heading)
        # "2 is correct" lists a unit only to clear it.
        is_taken_back = _clears_listed_units(body, end, len(flagged) == num_units)

    explanation = body[end:]
    if is_taken_back or _extends_answer(explanation, flagged, num_units):
        raise UnreadableAnswerError(MORE_THAN_IDS)
    if flagged and re.search(r"\ball_correct\b", explanation, re.IGNORECASE):
        raise UnreadableAnswerError(CONTRADICTORY)

    # If the output was cut off right behind the numbers, the next number may be missing.
    if is_cut_off and not _PATTERNS["more_text"].match(explanation):
        raise UnreadableAnswerError(CUT_OFF_WITHIN)
    return flagged


def _read_leading_ids(body: str, num_units: int, is_below_heading: bool) -> _LeadingIds:
    """Read the unit numbers at the beginning of an answer.

    Example:
        ``2, 4-5 are wrong`` → ``{2, 4, 5}`` and the offset 16, behind "wrong"

    Args:
        body: The answer without the word "Answer".
        num_units: The number of units that the model was shown.
        is_below_heading: Whether the answer begins on the line below the word "Answer".

    Returns:
        The numbers, and the offset at which the explanation begins.

    Raises:
        UnreadableAnswerError: The answer begins otherwise, or a number is that of no unit.
    """
    # A match is a number or a range, with the comma or the word before it.
    match = _PATTERNS["first_id"].match(body)
    if match is None:
        raise UnreadableAnswerError(MORE_THAN_IDS)

    # Numbers are separated by commas or by "and". Below a heading, each may have its own line.
    next_id = _PATTERNS["next_id"]
    if is_below_heading and re.match(r"[.,;]?\n", body[match.end() :]):
        next_id = _PATTERNS["id_on_next_line"]

    ids: set[int] = set()
    end = 0
    # The loop ends where no further number follows directly.
    while match:
        ids.update(_ids_in_range(match, num_units))
        end = match.end()
        match = next_id.match(body, end)

    are_wrong = _PATTERNS["are_wrong"].match(body, end)
    return _LeadingIds(frozenset(ids), are_wrong.end() if are_wrong else end)


def _ids_in_range(match: re.Match[str], num_units: int) -> range:
    """Return the unit numbers of a range such as ``4-5``, or of a single number such as ``2``.

    Args:
        match: The range. Its groups are the first and the last number, or None for the last.
        num_units: The number of units that the model was shown.

    Raises:
        UnreadableAnswerError: A number is that of no unit, or the range runs backwards.
    """
    # Of a number with a billion or more, int() would be slow, and no unit has it anyway.
    first = int(match[1][:_MAX_DIGITS])
    # A single number is a range of one.
    last = int((match[2] or match[1])[:_MAX_DIGITS])
    for number in (first, last):
        if not 1 <= number <= num_units:
            raise UnreadableAnswerError(f"id {number}; the last is {num_units}")
    if first > last:
        raise UnreadableAnswerError(MORE_THAN_IDS)
    return range(first, last + 1)


def _mentions_error(explanation: str) -> bool:
    """Return whether the text behind ALL_CORRECT mentions an error, and so takes it back.

    Example:
        ``, but the date is a mistake`` mentions one, ``: there are no errors`` does not.
    """
    # "There are no errors" confirms the answer, so it is removed before the search for "error".
    without_denials = re.sub(r"\bno (?:\w+ )?(?:errors?|mistakes?)\b", "", explanation)
    return bool(_PATTERNS["mentions_error"].search(without_denials))


def _clears_listed_units(body: str, end: int, are_all_listed: bool) -> bool:
    """Return whether an answer calls the units correct whose numbers it has just listed.

    Example:
        ``2 is correct`` and ``1, 3. Both are accurate`` list units only to clear them.

    Args:
        body: The whole answer.
        end: The offset behind the list of units.
        are_all_listed: Whether the list has all units of the response.
    """
    is_cleared = _PATTERNS["clears_id"].search(body) or _PATTERNS["clears_ids_before"].match(
        body, end
    )
    if is_cleared:
        return True
    # A list of all units with a note on each, such as "1 (right), 2 (wrong)", only repeats them.
    return are_all_listed and bool(re.search(r"\([^\W\d]", body[:end]))


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
    is_explanation = bool(_PATTERNS["explanation_start"].match(explanation))
    has_ordinal = bool(_PATTERNS["ordinal_unit"].search(explanation))
    names_other_units = bool(_units_named_in(explanation, num_units) - flagged)
    return not is_explanation or has_ordinal or names_other_units


def _units_named_in(explanation: str, num_units: int) -> set[int]:
    """Return the numbers in an explanation that refer to units.

    A number behind a word such as "segment" always counts, and any other only if a unit has it.

    Example:
        Of 3 units, ``Segment 9 says 2, not 1870`` names 9 and 2.

    Args:
        explanation: The text behind the unit numbers of an answer.
        num_units: The number of units that the model was shown.
    """
    units = set()
    # Each match has the word before a number, such as "segment" or nothing, and the digits.
    for unit_word, digits in _PATTERNS["unit_number"].findall(explanation):
        number = int(digits[:_MAX_DIGITS])
        if unit_word or 1 <= number <= num_units:
            units.add(number)
    return units
