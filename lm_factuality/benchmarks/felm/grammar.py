"""The grammar that the prompts state: a line ``Answer:``, and behind it the ids of the wrong units
separated by commas, or ALL_CORRECT.

Read as the same: a heading "Answer" over them; ``\\boxed{2}``; a JSON object with the key
``answer``; ranges; "segments 2 and 3"; one id a line; "No errors found". An explanation may follow
if it names no further unit and takes nothing back. Of several answers the last counts if the others
that can be read say the same. Anything else has no reading, and says why."""

import json
import re
from collections.abc import Iterator

from lm_factuality.ground.packages import load_words

NO_ANSWER = "no answer line"
NOTHING = "nothing after 'Answer:'"
MORE, DIFFER = "more than ids after 'Answer:'", "two answers that differ"
CUT_BEFORE = "cut off before the answer"
CUT_WITHIN = "cut off in the answer"

_WORDS = load_words(__package__)
_HEAD = re.compile(rf"^[ >#-]*(?:{_WORDS['answer']}) ?(?::|$)", re.IGNORECASE | re.MULTILINE)
_SET_OFF = re.compile(r"\\boxed ?\{(?P<boxed>[^{}]*)\}|(?P<json>\{[^{}]*\})")
_LATEX_TEXT = re.compile(r"\\(?:text|math)[a-z]{0,6} ?\{([^{}]*)\}")
_EXAMPLE = re.compile(
    r"^ ?(?:Question|Segments|Claims|Below are (?:my inputs|your outputs)) ?:",
    re.IGNORECASE | re.MULTILINE,
)

_UNIT = r"(?:(?:the )?(?:segments?|claims?|ids?|no\.|numbers?) ?:? ?|#)?"
_ID = rf"{_UNIT}[(\[]?[\"']?(\d+)[\"')\]]*"
_RANGE = rf"{_ID}(?: ?(?:-|to|through) ?{_ID})?"
_FIRST = re.compile(rf"[\[(\"']*{_RANGE}", re.IGNORECASE)
_NOTE = (  # "1 (wrong date), 3 (wrong name)"; a number in it might be one more id
    r"(?: \([^()\d\n]*\))?"
)
_BESIDE = re.compile(rf"{_NOTE} ?(?:(?:[,;、،&] ?)(?:and )?|and ){_RANGE}", re.IGNORECASE)
_BELOW = re.compile(rf"[,;]?\n(?:[-•] )?{_RANGE}(?=[.,;]?(?:\n|$))", re.IGNORECASE)
_ALL_CORRECT = re.compile(rf"[\"'(\[]*(?:{_WORDS['all_correct']})(?!\w)[\"')\]]*", re.IGNORECASE)
_WRONG = re.compile(
    r" (?:is|are|was|were|has|have|contains?) (?:(?:an?|also|factual(?:ly)?)"
    r" ){0,3}(?:errors?|mistakes?|wrong|incorrect|false)\b",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?!\d+[.)]$)\W*(?:(?:segments?|claims?) )?\d(?:[\d\W]|and|to|segments?|claims?)*",
    re.IGNORECASE,
)
_END = re.compile(
    r"[.!。)\]}]*(?:$|\n)|[.!。)\]]+ (?!\d)| \(|,? (?:because|since|as)\b", re.IGNORECASE
)
_GOES_ON = re.compile(r"[.!。)\]}]*\n|[.!。]+ |,? (?:because|since|as)\b", re.IGNORECASE)
_NUMBER = re.compile(r"((?:segments?|claims?|#) ?)?(?<!\d)(?<!\d\.)(\d+)(?!\d|\.\d)", re.IGNORECASE)
_NTH = re.compile(rf"\b(?:{_WORDS['nth']}) (?:one|segment|claim)\b", re.IGNORECASE)
_CLEARED = re.compile(
    r"\d[^\w\n]{0,4}(?:(?:this|it|is|are|was|seems?|looks?|has|contains?) ){0,2}"
    rf"(?:\w{{1,30}}ly )?(?:{_WORDS['cleared']})(?!\w)",
    re.IGNORECASE,
)
_SOUND = re.compile(
    r"\b(?:is|are|was|were|seems?|looks?|appears?) (?:\w+ly |also |all |to be"
    rf" ){{0,2}}(?:{_WORDS['cleared']})(?!\w)",
    re.IGNORECASE,
)
_OTHERS = re.compile(r"\b(?:others?|rest|remaining|else)\b", re.IGNORECASE)
_CONTRARY = re.compile(rf"\b(?:{_WORDS['contrary']})", re.IGNORECASE)
_DIGITS = 9  # of a number that are read; no answer has as many units


def read(text: str, num_units: int, is_cut_off: bool = False) -> frozenset[int] | str:
    """The 1-based ids that ``text``, made plain, says are wrong; or the reason why it says none."""
    text = _LATEX_TEXT.sub(r"\1", text)
    answers = list(_answers(text))
    if (
        answers
        and not _EXAMPLE.search(text, 0, answers[0][0])
        and (example := _EXAMPLE.search(text, answers[0][0]))
    ):
        answers = list(
            _answers(text[: example.start()])
        )  # a model that goes on writes further questions and answers them
        is_cut_off = False
    if not answers and (_ALL_CORRECT.match(text) or _BARE.fullmatch(text)) and "\n" not in text:
        answers = [(0, text)]  # what was asked for, without the word
    if not answers:
        return CUT_BEFORE if is_cut_off else NO_ANSWER
    last = _read_one(answers[-1][1], num_units, is_cut_off)
    if isinstance(last, str):
        return CUT_BEFORE if last == NOTHING and is_cut_off else last
    earlier = (_read_one(body, num_units, False) for _, body in answers[:-1])
    return (
        DIFFER if any(isinstance(other, frozenset) and other != last for other in earlier) else last
    )


def _answers(text: str) -> Iterator[tuple[int, str]]:
    """Where each answer begins, and what it says, with all that follows up to the next."""
    found = [(head.start(), head.end(), "") for head in _HEAD.finditer(text)]
    for each in _SET_OFF.finditer(text):
        values = [each["boxed"]] if each["boxed"] is not None else _from_json(each["json"])
        found += [(each.start(), each.end(), f"{value}\n") for value in values]
    found.sort()
    for number, (start, behind, said) in enumerate(found, 1):
        yield start, said + text[behind : found[number][0] if number < len(found) else len(text)]


def _from_json(text: str) -> list[str]:
    """What an object says under the key ``answer``, in each place where it has it."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return []
    said = [value for key, value in pairs if re.fullmatch(_WORDS["answer"], key, re.IGNORECASE)]
    return [
        ", ".join(map(str, value)) or "none" if isinstance(value, list) else json.dumps(value)
        for value in said
    ]


def _read_one(body: str, num_units: int, is_cut_off: bool) -> frozenset[int] | str:
    """What one answer says: the ids or ALL_CORRECT at the beginning of ``body``, if the rest leaves
    it at that."""
    is_below, body = body.startswith("\n"), body.removeprefix("\n- ").strip()
    if not body:
        return NOTHING
    flagged = frozenset[int]()
    if said := _ALL_CORRECT.match(body):
        end = said.end()
        is_contradicted = (
            _CONTRARY.search(re.sub(r"\bno (?:\w+ )?(?:errors?|mistakes?)\b", "", body[end:]))
            is not None
        )
    else:
        listed, end = _listed(body, num_units, is_below)
        if isinstance(listed, str):
            return listed
        flagged, wrong = listed, _WRONG.match(body, end)
        end = wrong.end() if wrong else end
        is_called_sound = _SOUND.search(body, end) is not None and not _OTHERS.search(body, end)
        has_notes_on_all = (
            len(flagged) == num_units and re.search(r"\([^\W\d]", body[:end]) is not None
        )  # it retells the answer
        is_contradicted = _CLEARED.search(body) is not None or is_called_sound or has_notes_on_all
    rest = body[end:]
    is_contradicted = is_contradicted or _NTH.search(rest) is not None
    numbers = ((word, int(digits[:_DIGITS])) for word, digits in _NUMBER.findall(rest))
    named = {number for word, number in numbers if word or 1 <= number <= num_units}
    if not _END.match(rest) or is_contradicted or named - flagged:
        return MORE
    if re.search(r"\ball_correct\b", rest, re.IGNORECASE) and flagged:
        return DIFFER
    return CUT_WITHIN if is_cut_off and not _GOES_ON.match(rest) else flagged


def _listed(body: str, num_units: int, is_below: bool) -> tuple[frozenset[int] | str, int]:
    """The ids at the beginning of ``body``, or why there are none, and where they end. Below
    "Answer:" (``is_below``) they may be one a line."""
    place = _FIRST.match(body)
    following = (
        _BELOW if place and is_below and re.match(r"[.,;]?\n", body[place.end() :]) else _BESIDE
    )
    ids: set[int] = set()
    end = 0
    while place:
        low, high = int(place[1][:_DIGITS]), int((place[2] or place[1])[:_DIGITS])
        if outside := [number for number in (low, high) if not 1 <= number <= num_units]:
            return f"id {outside[0]}; the last is {num_units}", end
        if low > high:
            return MORE, end
        ids.update(range(low, high + 1))
        end = place.end()
        place = following.match(body, end)
    return frozenset(ids) or MORE, end
