"""The grammar of the answers in which a model or judge lists the segments or claims with errors.

`lm_factuality.benchmarks.felm.verdicts` calls `find_flagged_units` on every output. The prompts ask
for a line ``Answer:`` with the numbers of the wrong units, or ALL_CORRECT. The reader takes these
steps:

1. It finds the answers in the output, of which the last one decides.
2. It divides that answer into a statement, which says what is wrong, and an explanation.
3. It reads the statement: ALL_CORRECT, numbers, or verdicts on units.
4. It checks that neither an earlier answer nor the explanation says something else.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from lm_factuality.benchmarks.verdict_words import (
    HEDGED,
    TAKEN_BACK,
    Verdict,
    first_verdict,
    texts_behind,
    withdraws_answer,
)
from lm_factuality.ground.packages import load_patterns, load_yaml

# The reasons why an output is unscored.
NO_ANSWER = "no answer line"
EMPTY_ANSWER = "nothing after 'Answer:'"
MORE_THAN_IDS = "more than ids after 'Answer:'"
CONTRADICTORY = "two answers that differ"
CUT_OFF_BEFORE = "cut off before the answer"
CUT_OFF_WITHIN = "cut off in the answer"

_PATTERNS = load_patterns(__package__)
_WORDS = load_yaml(__package__, "words.yaml")

# How many digits of a number are read. int() is slow for long numbers, and no unit has so high a
# number.
_MAX_DIGITS = 9


class _AnswerMark(NamedTuple):
    """The mark by which an answer is recognised: the word "Answer:", a box or a JSON object."""

    start: int
    """The offset at which the mark begins, in characters."""

    end: int
    """The offset behind the mark."""

    value: str = ""
    """The answer inside the mark. Empty for the word "Answer:", whose answer follows it."""


class _Answer(NamedTuple):
    """An answer in two parts."""

    statement: str
    """The part that decides: the answer line, or a list with one unit a line."""

    explanation: str
    """The text behind it. It names no wrong units, but may withdraw or contradict the answer."""

    is_list: bool
    """Whether the statement is a list with one unit a line."""


class _Mention(NamedTuple):
    """A place at which a text names units, and what it says of them."""

    units: frozenset[int]
    """Their numbers from 1. Empty for "the others"."""

    verdict: Verdict | None
    """Whether the text calls them right or wrong. None if it does neither."""

    is_opening: bool
    """Whether nothing stands before them, so that they are the answer themselves."""

    remark: str
    """The text behind them, up to the next mention or the end of the sentence."""


class UnreadableAnswerError(ValueError):
    """An output gives no verdict. The message is the reason that results record."""


def find_flagged_units(text: str, num_units: int, is_cut_off: bool = False) -> frozenset[int]:
    """Find the units (segments or claims) that a model's output says are wrong.

    Example:
        ``Answer: 2, 4-5`` → ``{2, 4, 5}``; ``Answer: ALL_CORRECT`` → an empty set

    Args:
        text: The output without thinking and markup.
        num_units: The number of segments (or claims) that the model was shown.
        is_cut_off: Whether the output ends because the model reached its token limit. Its last
            number may be missing then.

    Returns:
        The 1-based numbers of the wrong units.

    Raises:
        UnreadableAnswerError: The output has no answer, or none that can be read.
    """
    full_output = _normalise_lists_and_units(text, num_units)
    output = _drop_invented_questions(full_output)
    # If questions were dropped, the model had finished its answer before it reached the limit.
    is_answer_cut_off = is_cut_off and output == full_output

    answers = [_split_answer(answer) for answer in _find_answers(output)]
    # "Answer:" may be the last word that fitted into the token limit.
    if is_answer_cut_off and not (answers and answers[-1].statement):
        raise UnreadableAnswerError(CUT_OFF_BEFORE)
    if not answers:
        return _read_without_mark(output, num_units)

    *earlier_answers, last_answer = answers
    flagged = _read_statement(last_answer, num_units)
    if is_answer_cut_off and not last_answer.explanation.strip():
        raise UnreadableAnswerError(CUT_OFF_WITHIN)
    _check_earlier_answers(earlier_answers, flagged, num_units)
    _check_explanation(last_answer.explanation, flagged, num_units)
    return flagged


def _normalise_lists_and_units(text: str, num_units: int) -> str:
    """Write an output so that units are named by number, and lists and tables are plain lines.

    Example:
        ``| 2 | Wrong |`` → ``2 : Wrong :``; ``- the third segment`` → ``segment 3``

    Args:
        text: The output without thinking and markup.
        num_units: The number of units, which is that of "the last segment".
    """

    def replace_ordinal(match: re.Match[str]) -> str:
        """Replace a name such as ``the third segment`` by ``segment 3``."""
        ordinal = match[1].lower()
        number = num_units if ordinal == "last" else _WORDS["nth"].index(ordinal) + 1
        return f"segment {number}"

    # Models of mathematics write answers such as \text{2}.
    text = _PATTERNS["latex_text"].sub(r"\1", text)
    text = _PATTERNS["bullet"].sub("", text)
    text = _PATTERNS["table_cell"].sub(" : ", text)
    return _PATTERNS["ordinal"].sub(replace_ordinal, text)


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

    An answer follows the word "Answer:", or is in a box such as ``\boxed{2, 3}`` or in a JSON
    object under the key ``answer``.
    """
    # An output that is one JSON object is read as a whole, since its strings may hold braces, at
    # which the pattern of a JSON object would end too early.
    values = _answers_in_json(text) if text.startswith("{") else []
    if values:
        return [_AnswerMark(0, len(text), value) for value in values]

    marks = _find_answer_words("answer_word", text) + _find_boxes_and_objects(text)
    # Some models write their thought and their answer on one line.
    return sorted(marks or _find_answer_words("answer_in_line", text))


def _find_answer_words(pattern: str, text: str) -> list[_AnswerMark]:
    """Find the places of the word "Answer:" in an output by a pattern of the grammar."""
    return [_AnswerMark(*match.span()) for match in _PATTERNS[pattern].finditer(text)]


def _find_boxes_and_objects(text: str) -> list[_AnswerMark]:
    r"""Find answers in boxes, such as ``\boxed{2, 3}``, and in JSON objects in an output."""
    marks = []
    for match in _PATTERNS["boxed_or_json"].finditer(text):
        # A match is a box with one answer, or a JSON object with any number of answers.
        boxed = match["boxed"]
        values = _answers_in_json(match["json"]) if boxed is None else [boxed]
        for value in values:
            # The caller appends the explanation that follows, which has to begin a new line.
            marks.append(_AnswerMark(match.start(), match.end(), f"{value}\n"))
    return marks


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


def _split_answer(answer: str) -> _Answer:
    """Divide an answer into the statement that decides and the explanation behind it.

    The statement is a list with one unit a line, or else the first sentence.

    Example:
        ``2, 3. The dates are wrong.`` → the statement ``2, 3`` and the explanation

    Args:
        answer: The text behind "Answer:".
    """
    is_below_heading = answer.startswith("\n")
    answer = answer.strip()
    end_of_list = _end_of_list(answer, is_below_heading)
    if end_of_list:
        return _Answer(answer[:end_of_list], answer[end_of_list:], is_list=True)

    first_line = answer.partition("\n")[0]
    statement = _PATTERNS["sentence_end"].split(first_line)[0]
    explanation = answer[len(statement) :].lstrip(".!。")
    return _Answer(statement, explanation, is_list=False)


def _end_of_list(answer: str, is_below_heading: bool) -> int:
    """Return the offset behind the list of units with which an answer begins, 0 without a list.

    Example:
        ``1: wrong`` and ``3: right``, each on a line, are a list. ``1, 3`` is none.

    Args:
        answer: The answer.
        is_below_heading: Whether "Answer:" stands alone on the line above.
    """
    first_line = answer.partition("\n")[0]
    if _PATTERNS["bare_line"].match(first_line):
        # A line such as "1, 3" is the whole answer, even if a list of explanations follows. Only
        # below a heading, a line such as "1" may be the first item of a list.
        is_single_number = len(_numbers_in(first_line)) == 1
        if not (is_below_heading and is_single_number):
            return 0

    items = _items_of_list(answer)
    if len(items) < 2 or not answer.startswith(items[0]):
        return 0
    # In "Answer: 2 (the year)", unit 2 is the whole answer. A line such as "3: a town" below it is
    # an explanation. Only a verdict, as in "2: wrong", shows that the lines are a list.
    if not is_below_heading and first_verdict(items[0]) is None:
        return 0
    # The last item has one line. The lines below it explain the list.
    start_of_last_item = len(answer) - len(items[-1])
    return start_of_last_item + len(items[-1].partition("\n")[0])


def _items_of_list(text: str) -> list[str]:
    """Divide a text into the items of a list with one unit a line, without what precedes them.

    Example:
        ``1: wrong`` and ``3: right``, each on a line → these two lines
    """
    starts = [match.start() for match in _PATTERNS["item"].finditer(text)]
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


def _read_statement(answer: _Answer, num_units: int) -> frozenset[int]:
    """Read which units the statement of an answer calls wrong.

    Example:
        ``2, 3 are incorrect; 1 and 4 are correct`` → ``{2, 3}``; ``ALL_CORRECT`` → an empty set;
        ``2, and maybe 3`` is hedged

    Args:
        answer: The answer.
        num_units: The number of segments (or claims) that the model was shown.

    Returns:
        The numbers of the wrong units.

    Raises:
        UnreadableAnswerError: The statement is empty, hedged, contradicts itself, or says
            something else.
    """
    statement = _without_introduction(answer.statement)
    if not statement:
        raise UnreadableAnswerError(EMPTY_ANSWER)
    all_correct = _PATTERNS["says_all_correct"].match(statement)
    if all_correct:
        _check_not_restricted(statement[all_correct.end() :], num_units)
        return frozenset()

    items = _items_of_list(statement) if answer.is_list else [statement]
    mentions = _find_mentions_in_items(items, num_units)
    # Behind a last word such as "and" in "2 and", a unit is missing.
    if not mentions or _PATTERNS["dangling"].search(statement):
        is_hedged = first_verdict(statement) == "unsure"
        raise UnreadableAnswerError(HEDGED if is_hedged else MORE_THAN_IDS)
    check_units_exist(chain.from_iterable(mention.units for mention in mentions), num_units)
    return _combine_mentions(mentions, num_units)


def check_units_exist(units: Iterable[int], num_units: int) -> None:
    """Check that an answer names only units that the model was shown.

    Args:
        units: The numbers in the answer.
        num_units: The number of units that the model was shown, which are numbered from 1.

    Raises:
        UnreadableAnswerError: A number is 0 or too high. The message names the highest such number.
    """
    wrong_numbers = set(units) - _all_units(num_units)
    if wrong_numbers:
        raise UnreadableAnswerError(f"id {max(wrong_numbers)}; the last is {num_units}")


def _all_units(num_units: int) -> frozenset[int]:
    """Return the numbers of all units that the model was shown, which begin at 1."""
    return frozenset(range(1, num_units + 1))


def _without_introduction(statement: str) -> str:
    """Remove the words at the beginning of a statement that call the units behind them wrong.

    Example:
        ``The segments with errors are 2 and 3`` → ``2 and 3``; ``All segments are correct except
        segment 2`` → ``segment 2``
    """
    introduction = _PATTERNS["introduction"].match(statement)
    if introduction and first_verdict(introduction[0]) == "wrong":
        return statement[introduction.end() :]
    exception = _PATTERNS["exception"].match(statement)
    if exception and first_verdict(exception[0]) == "right":
        return statement[exception.end() :]
    return statement


def _check_not_restricted(text_behind: str, num_units: int) -> None:
    """Check that the text behind ALL_CORRECT does not restrict it.

    Example:
        ``, but 2 has a mistake`` restricts ALL_CORRECT, and ``: I see no errors`` does not.

    Args:
        text_behind: The statement behind ALL_CORRECT.
        num_units: The number of segments (or claims) that the model was shown.

    Raises:
        UnreadableAnswerError: The text restricts ALL_CORRECT.
    """
    verdict = first_verdict(text_behind)
    # A word such as "except" is harmless in a text that confirms the answer.
    has_reservation = verdict is None and _PATTERNS["reservation"].search(text_behind)
    mentions = _find_mentions(text_behind, num_units)
    names_other_units = any(mention.verdict != "right" for mention in mentions)
    if verdict in ("wrong", "unsure") or has_reservation or names_other_units:
        raise UnreadableAnswerError(MORE_THAN_IDS)


def _combine_mentions(mentions: Sequence[_Mention], num_units: int) -> frozenset[int]:
    """Return the units that the mentions in a statement call wrong.

    Units are wrong if the answer begins with them or lists them, unless it calls them right.

    Args:
        mentions: The places at which the statement names units; at least one.
        num_units: The number of segments (or claims) that the model was shown.

    Raises:
        UnreadableAnswerError: The statement is hedged, contradicts itself, or calls nothing wrong.
    """
    if any(mention.verdict == "unsure" for mention in mentions):
        raise UnreadableAnswerError(HEDGED)

    if any(_has_unknown_units(mention) for mention in mentions):
        raise UnreadableAnswerError(MORE_THAN_IDS)

    all_units = _all_units(num_units)
    wrong = set[int]()
    right = set[int]()
    for mention in mentions:
        is_listed = mention.is_opening or _PATTERNS["note"].match(mention.remark)
        if mention.verdict == "right":
            # "The others are correct", which names no unit, is about all units that were not called
            # wrong before.
            right |= mention.units or all_units - wrong
        elif mention.verdict == "wrong" or is_listed:
            wrong |= mention.units

    if wrong & right:
        raise UnreadableAnswerError(CONTRADICTORY)
    # An answer that flags nothing has to call every unit right.
    is_incomplete = not wrong and right != all_units
    if is_incomplete or _has_ambiguous_notes(mentions, wrong, right):
        raise UnreadableAnswerError(MORE_THAN_IDS)
    return frozenset(wrong)


def _has_unknown_units(mention: _Mention) -> bool:
    """Return whether a mention leaves open which units it calls wrong.

    Example:
        In ``1. Segment 2 is wrong``, the first number only counts the lines. ``The others are
        wrong`` may stand before the units that it leaves out.
    """
    is_enumerator = bool(_PATTERNS["is_enumerator"].match(mention.remark))
    return is_enumerator or (mention.verdict == "wrong" and not mention.units)


def _has_ambiguous_notes(mentions: Sequence[_Mention], wrong: set[int], right: set[int]) -> bool:
    """Return whether the notes of a statement leave open which units are wrong.

    Example:
        ``1 (a tower), 2 (a bridge)`` may list two wrong units, or only say what the first two units
        are about.

    Args:
        mentions: The places at which the statement names units.
        wrong: The units that the statement seems to call wrong.
        right: The units that it calls right.
    """
    has_neutral_note = any(
        mention.verdict is None and mention.remark.strip(" .,;:(-\n") for mention in mentions
    )
    if not has_neutral_note:
        return False
    # In "1: fine, 2: built in 1990", unit 2 may be right or wrong.
    if right:
        return True
    # In "1: wrong, 2: built in 1990", the first note shows that the statement lists errors.
    if any(mention.verdict == "wrong" for mention in mentions):
        return False
    # Units 1, 2 and so on may be wrong, or the statement goes through all units in their order.
    are_first_units = wrong == _all_units(len(wrong))
    return len(mentions) > 1 and are_first_units


def _find_mentions_in_items(items: Sequence[str], num_units: int) -> list[_Mention]:
    """Find the places at which the items of a list, or a single statement, name units.

    Args:
        items: The items, or the statement alone in a list.
        num_units: The number of segments (or claims) that the model was shown.
    """
    mentions = []
    for item in items:
        mentions += _find_mentions(item, num_units, is_statement=True)
    return mentions


def _find_mentions(text: str, num_units: int, is_statement: bool = False) -> list[_Mention]:
    """Find the places at which a text names units, such as "segment 3" or "1 and 2 are".

    Args:
        text: A statement, the item of a list in it, or an explanation.
        num_units: The number of segments (or claims) that the model was shown.
        is_statement: Whether the remark on a unit goes on up to the next mention. In an
            explanation, it ends with the clause.
    """
    matches = [
        match for match in _PATTERNS["mention"].finditer(text) if _names_units(match, num_units)
    ]
    remarks = texts_behind(matches, text)
    if not is_statement:
        remarks = [_PATTERNS["clause_end"].split(remark.lstrip(" .:"))[0] for remark in remarks]
    mentions: list[_Mention] = []
    previous_end = 0
    for match, remark in zip(matches, remarks, strict=True):
        text_between = text[previous_end : match.start()]
        text_before = _end_in_same_clause(text_between, is_first_mention=not mentions)
        previous_end = match.end()
        mentions.append(
            _Mention(
                units=_units_of(match, num_units),
                verdict=_verdict_on_units(match, remark, text_before),
                is_opening=match.start() == 0,
                remark=remark,
            )
        )
    return mentions


def _end_in_same_clause(text_between: str, is_first_mention: bool) -> str:
    """Return what stands before a mention of units in the same clause, and so is about them.

    Args:
        text_between: The text between the previous mention and this one.
        is_first_mention: Whether there is no previous one. The text then begins before this one.

    Returns:
        The end of the text. It is empty if the previous mention is in the same clause, since the
        clause is then about the units of that one.
    """
    *earlier_clauses, end = _PATTERNS["clause_end"].split(text_between)
    return end if is_first_mention or earlier_clauses else ""


def _verdict_on_units(match: re.Match[str], remark: str, text_before: str) -> Verdict | None:
    """Return whether a text calls the units that a match names right or wrong.

    Args:
        match: A match of the pattern ``mention``.
        remark: The text behind the units, which decides.
        text_before: The text before them in the same clause, as in "an error in segment 3".
    """
    words_before_number = match["before_bare_number"] or ""
    # "Segment 2 or 3 is wrong" leaves open which one is.
    if words_before_number.lower().endswith("or ") or _PATTERNS["doubtful_note"].match(remark):
        return "unsure"
    # "All segments are correct except the last one" calls no unit right.
    if match["all"] and _PATTERNS["reservation"].search(remark):
        return "unsure"
    # "2 because it is unclear who won" gives a reason, and no verdict but that of the answer.
    if _PATTERNS["reason"].match(remark):
        return None

    verdict_behind = first_verdict(remark)
    if verdict_behind is not None:
        return verdict_behind
    verdict_before = first_verdict(text_before)
    # "It is right that segment 2 says so" does not call the segment right.
    return None if verdict_before == "right" else verdict_before


def _names_units(match: re.Match[str], num_units: int) -> bool:
    """Return whether a match names units. A number in a text may also count other things.

    Example:
        ``segment 2 is wrong`` and ``2 is wrong`` name a unit, and ``2 dates are wrong`` does not.
        ``all four segments`` names units if the model was shown four.

    Args:
        match: A match of the pattern ``mention``.
        num_units: The number of segments (or claims) that the model was shown.
    """
    if match["all"]:
        # Most texts say "all segments", without a number.
        return match["count"] is None or _is_number(match["count"], num_units)
    # A number behind a word such as "segment" is always that of a unit.
    is_bare_number = match["before_bare_number"] is not None
    if not is_bare_number:
        return True
    # The words behind a bare number show whether it counts something, as in "2 dates".
    if not _PATTERNS["after_bare_number"].match(match.string, match.end()):
        return False
    # A number such as 1902 within a text is a year. At the beginning it is a unit that does not
    # exist, which makes the answer unreadable.
    do_units_exist = _units_of(match, num_units) <= _all_units(num_units)
    return match.start() == 0 or do_units_exist


def _is_number(count: str, number: int) -> bool:
    """Return whether digits or a word, such as "four", stand for a number."""
    # The list of words begins with "two".
    words_by_number = dict(enumerate(_WORDS["count"], start=2))
    return count.lower() in (str(number), words_by_number.get(number))


def _units_of(match: re.Match[str], num_units: int) -> frozenset[int]:
    """Return the units that a match of ``mention`` names; none for "the others"."""
    if match["all"]:
        return _all_units(num_units)
    return frozenset() if match["other"] else _numbers_in(match[0], num_units)


def _numbers_in(unit_list: str, num_units: int = 0) -> frozenset[int]:
    """Return the numbers of the units that a text lists.

    Example:
        ``Segments 2, 4-6`` → ``{2, 4, 5, 6}``

    Args:
        unit_list: The text.
        num_units: The number of units. Of a range that ends above it, such as ``1-1902``, only the
            two ends count.
    """
    units = set[int]()
    for first_digits, last_digits in _PATTERNS["each_range"].findall(unit_list):
        first = int(first_digits[:_MAX_DIGITS])
        # A single number is a range of one.
        last = int((last_digits or first_digits)[:_MAX_DIGITS])
        units |= {first, last}
        # A range that ends above the last unit could have a billion numbers.
        if last <= num_units:
            units.update(range(first, last))
    return frozenset(units)


def _read_without_mark(output: str, num_units: int) -> frozenset[int]:
    """Read an output that has no answer line, if it clearly says which units are wrong.

    Such an output has only ids or ALL_CORRECT, is a sentence such as "Segments 1 and 4 are wrong",
    or has a verdict on each unit.

    Args:
        output: The output of the model.
        num_units: The number of segments (or claims) that the model was shown.

    Raises:
        UnreadableAnswerError: The output does not clearly say which units are wrong.
    """
    is_single_line = "\n" not in output
    is_thought = _PATTERNS["thought"].match(output)
    has_only_ids = is_single_line and _PATTERNS["bare_ids"].fullmatch(output)
    says_all_correct = not is_thought and _PATTERNS["says_all_correct"].match(output)
    if has_only_ids or says_all_correct:
        answer = _split_answer(output)
        flagged = _read_statement(answer, num_units)
        _check_explanation(answer.explanation, flagged, num_units)
        return flagged

    if withdraws_answer(output):
        raise UnreadableAnswerError(NO_ANSWER)
    # A single sentence may leave out the units that are right. A longer text, or a thought, that
    # judges only some units may have been cut off before the others.
    may_leave_out_right_units = is_single_line and not is_thought
    return _read_verdicts(output, num_units, may_leave_out_right_units)


def _read_verdicts(output: str, num_units: int, may_leave_out_right_units: bool) -> frozenset[int]:
    """Read an output that calls units right or wrong, in a sentence or in a list.

    Args:
        output: The output of the model.
        num_units: The number of segments (or claims) that the model was shown.
        may_leave_out_right_units: Whether units that the output does not name count as right.

    Raises:
        UnreadableAnswerError: The output judges no unit, leaves out units that it may not leave
            out, or judges units that do not exist.
    """
    # Without its signs, a line of JSON such as {"2": "wrong"} is an item of a list.
    text = _PATTERNS["json_sign"].sub("", output)
    items = _items_of_list(text)
    mentions = _find_mentions_in_items(items if len(items) > 1 else [text], num_units)
    judging_mentions = [mention for mention in mentions if mention.verdict]

    judged_units = set(chain.from_iterable(mention.units for mention in judging_mentions))
    all_units = _all_units(num_units)
    judges_some_units = bool(judged_units) and judged_units < all_units
    if judged_units == all_units or (may_leave_out_right_units and judges_some_units):
        return _combine_mentions(judging_mentions, num_units)
    raise UnreadableAnswerError(NO_ANSWER)


def _check_earlier_answers(
    answers: Sequence[_Answer], flagged: frozenset[int], num_units: int
) -> None:
    """Check that the earlier answers of an output agree with its last one.

    Args:
        answers: The earlier answers.
        flagged: The units that the last answer calls wrong.
        num_units: The number of segments (or claims) that the model was shown.

    Raises:
        UnreadableAnswerError: Two answers differ.
    """
    for answer in answers:
        try:
            flagged_before = _read_statement(answer, num_units)
        except UnreadableAnswerError:
            # An earlier answer that cannot be read contradicts nothing.
            continue
        if flagged_before != flagged:
            raise UnreadableAnswerError(CONTRADICTORY)


def _check_explanation(explanation: str, flagged: frozenset[int], num_units: int) -> None:
    """Check that the text behind an answer neither withdraws nor contradicts the answer.

    Example:
        Behind ``2``, ``Segment 3 is wrong as well.`` contradicts the answer. ``Segments 1 and 3 are
        correct.`` and ``Segment 3 is imprecise, but acceptable.`` do not.

    Args:
        explanation: The text.
        flagged: The units that the answer calls wrong.
        num_units: The number of segments (or claims) that the model was shown.

    Raises:
        UnreadableAnswerError: The text withdraws the answer, calls other units wrong, or calls
            flagged units right.
    """
    mentions = _find_mentions(explanation, num_units)
    is_taken_back = (
        not all(_agrees(mention, flagged) for mention in mentions)
        or withdraws_answer(explanation)
        or _lists_further_units(explanation, flagged, num_units)
    )
    if is_taken_back:
        raise UnreadableAnswerError(TAKEN_BACK)
    if flagged and _PATTERNS["all_correct_name"].search(explanation):
        raise UnreadableAnswerError(CONTRADICTORY)
    for sentence in _PATTERNS["sentence_end"].split(explanation):
        if _contradicts_answer(sentence, has_errors=bool(flagged)):
            raise UnreadableAnswerError(TAKEN_BACK)


def _lists_further_units(explanation: str, flagged: frozenset[int], num_units: int) -> bool:
    """Return whether lines below an answer list wrong units that are not in the answer.

    Example:
        Below the answer ``2``, the lines ``3`` and ``3: it was Rome`` list unit 3 as wrong, too.
        The line ``3: correct`` does not.

    Args:
        explanation: The text below the answer.
        flagged: The units that the answer calls wrong.
        num_units: The number of segments (or claims) that the model was shown.
    """
    # Lines with numbers alone, such as "3".
    lines = list(_PATTERNS["bare_line"].finditer(explanation))
    says_all_correct = not flagged
    # Below ALL_CORRECT, a line such as "3: it was Rome" explains why the unit is right.
    if not says_all_correct:
        lines += _PATTERNS["noted_line"].finditer(explanation)
    for line in lines:
        further_units = _numbers_in(line["ids"], num_units) - flagged
        has_verdict = first_verdict(line[0]) is not None
        if further_units and not has_verdict:
            return True
    return False


def _agrees(mention: _Mention, flagged: frozenset[int]) -> bool:
    """Return whether what a text says of some units agrees with the units that an answer flags."""
    if mention.verdict == "wrong":
        # "The others are wrong" has no numbers, and is about units that are not flagged.
        return bool(mention.units) and mention.units <= flagged
    return mention.verdict != "right" or mention.units.isdisjoint(flagged)


def _contradicts_answer(sentence: str, has_errors: bool) -> bool:
    """Return whether a sentence that names no units contradicts the answer before it.

    Example:
        ``The date is wrong`` contradicts the answer ALL_CORRECT, and ``It is correct`` contradicts
        the answer ``2``.

    Args:
        sentence: A sentence of the explanation.
        has_errors: Whether the answer calls any unit wrong.
    """
    verdict = first_verdict(sentence)
    if has_errors:
        # "The rest is correct" is about other units than those of the answer.
        is_about_answer = bool(_PATTERNS["about_units_before"].match(sentence))
        return verdict == "right" and is_about_answer
    # "But it was built in 1902" objects to ALL_CORRECT without the word "wrong".
    is_objection = verdict is None and bool(_PATTERNS["objection"].match(sentence))
    return verdict == "wrong" or is_objection
