"""The grammar that the prompts state: a line ``Answer:``, and behind it the ids of the wrong units
separated by commas, or ALL_CORRECT.

Read as the same: a heading "Answer" over them; ``\\boxed{2}``; a JSON object with the key
``answer``; ranges; "segments 2 and 3"; one id a line; "No errors found". An explanation may follow
if it names no further unit and takes nothing back. Of several answers the last counts if the others
that can be read say the same. Anything else has no reading, and says why."""

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

from lm_factuality.ground.packages import load_patterns

NO_ANSWER = "no answer line"
NOTHING = "nothing after 'Answer:'"
MORE = "more than ids after 'Answer:'"
DIFFER = "two answers that differ"
CUT_BEFORE = "cut off before the answer"
CUT_WITHIN = "cut off in the answer"

Reading: TypeAlias = frozenset[int] | str
"""The 1-based ids of the wrong units, or the reason why an output does not say."""

_PATTERNS = load_patterns(__package__)
_DIGITS = 9  # of a number that are read; no answer has as many units


def read(text: str, num_units: int, is_cut_off: bool = False) -> Reading:
    """Read which units an output, made plain, says are wrong."""
    text = _PATTERNS["latex_text"].sub(r"\1", text)
    answers = list(_answers(text))
    example = _PATTERNS["example"].search(text)
    if answers and example and example.start() >= answers[0][0]:
        # A model that goes on writes further questions and answers them.
        answers = list(_answers(text[: example.start()]))
        is_cut_off = False
    elif (
        not answers
        and "\n" not in text
        and (_PATTERNS["all_correct"].match(text) or _PATTERNS["bare"].fullmatch(text))
    ):
        answers = [(0, text)]  # what was asked for, without the word
    if not answers:
        return CUT_BEFORE if is_cut_off else NO_ANSWER
    *earlier, (_, body) = answers
    last = _read_one(body, num_units, is_cut_off)
    if isinstance(last, str):
        return CUT_BEFORE if last == NOTHING and is_cut_off else last
    for _, body in earlier:
        reading = _read_one(body, num_units, False)
        if reading != last and not isinstance(reading, str):
            return DIFFER
    return last


def _answers(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each answer begins, and what it says, with all that follows up to the next."""
    heads = [(head.start(), head.end(), "") for head in _PATTERNS["head"].finditer(text)]
    for match in _PATTERNS["set_off"].finditer(text):
        is_boxed = match["boxed"] is not None
        values = [match["boxed"]] if is_boxed else _from_json(match["json"])
        heads += [(match.start(), match.end(), f"{value}\n") for value in values]
    heads.sort()
    ends = [start for start, _, _ in heads[1:]] + [len(text)]
    for (start, behind, value), end in zip(heads, ends, strict=False):
        yield start, value + text[behind:end]


def _from_json(text: str) -> list[str]:
    """Return what an object says under the key ``answer``, in each place where it has it."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return []
    answers = []
    for key, value in pairs:
        if _PATTERNS["key"].fullmatch(key):
            is_list = isinstance(value, list)
            answers.append(", ".join(map(str, value)) or "none" if is_list else json.dumps(value))
    return answers


def _read_one(body: str, num_units: int, is_cut_off: bool) -> Reading:
    """Read one answer: the ids or ALL_CORRECT at its beginning, if the rest leaves it at that."""
    is_below, body = body.startswith("\n"), body.removeprefix("\n- ").strip()
    if not body:
        return NOTHING
    flagged = frozenset[int]()
    if all_correct := _PATTERNS["all_correct"].match(body):
        end = all_correct.end()
        rest = re.sub(r"\bno (?:\w+ )?(?:errors?|mistakes?)\b", "", body[end:])
        is_contradicted = bool(_PATTERNS["contrary"].search(rest))
    else:
        ids, end = _leading_ids(body, num_units, is_below)
        if isinstance(ids, str):
            return ids
        flagged = ids
        if wrong := _PATTERNS["wrong"].match(body, end):
            end = wrong.end()
        is_called_sound = _PATTERNS["sound"].match(body, end)
        # Notes on all units retell the answer.
        has_notes = len(flagged) == num_units and re.search(r"\([^\W\d]", body[:end])
        is_contradicted = bool(_PATTERNS["cleared"].search(body) or is_called_sound or has_notes)
    rest = body[end:]
    numbers = [(word, int(digits[:_DIGITS])) for word, digits in _PATTERNS["number"].findall(rest)]
    named = {number for word, number in numbers if word or 1 <= number <= num_units}
    is_contradicted = is_contradicted or bool(_PATTERNS["nth"].search(rest))
    if not _PATTERNS["end"].match(rest) or is_contradicted or named - flagged:
        return MORE
    if flagged and re.search(r"\ball_correct\b", rest, re.IGNORECASE):
        return DIFFER
    return CUT_WITHIN if is_cut_off and not _PATTERNS["goes_on"].match(rest) else flagged


def _leading_ids(body: str, num_units: int, is_below: bool) -> tuple[Reading, int]:
    """Return the ids at the beginning of an answer, or why there are none, and where they end.

    Below "Answer:" (``is_below``) they may be one a line.
    """
    place = _PATTERNS["first"].match(body)
    further = _PATTERNS["further"]
    if place and is_below and re.match(r"[.,;]?\n", body[place.end() :]):
        further = _PATTERNS["below"]
    ids: set[int] = set()
    end = 0
    while place:
        low, high = int(place[1][:_DIGITS]), int((place[2] or place[1])[:_DIGITS])
        for number in (low, high):
            if not 1 <= number <= num_units:
                return f"id {number}; the last is {num_units}", end
        if low > high:
            return MORE, end
        ids.update(range(low, high + 1))
        end = place.end()
        place = further.match(body, end)
    return frozenset(ids) or MORE, end
