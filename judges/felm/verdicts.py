"""What a judge's output says: which segments (or claims) hold errors, or why that cannot be told.

``paper`` reads outputs in the format that the paper's prompts ask for and leaves all others unscored, with the reason.
``code`` reads as the authors' script does: whatever it cannot find counts as "no errors", ids above the number of units are
dropped, and the id 0 flags the last unit.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

PROTOCOLS = ("paper", "code")


@dataclass(frozen=True)
class Verdict:
    """The 1-based ids of the units with errors, or the ``reason`` why there is no verdict."""

    flagged: frozenset[int] | None
    reason: str | None = None

    @property
    def is_scored(self) -> bool:
        return self.flagged is not None


def _unscored(reason: str) -> Verdict:
    return Verdict(None, reason)


# "Answer" in the languages that models fall into; each has to stand at the beginning of a line, before a colon.
_ANSWER_WORDS = (
    "answer", "answers", "final answer", "the answer", "the answer is", "final answer is", "the final answer is", "output",
    "respuesta", "réponse", "antwort", "risposta", "resposta", "antwoord", "odpowiedź", "cevap", "svar", "ответ",
    "відповідь", "答案", "回答", "答え", "解答", "답변", "답", "정답", "الإجابة", "الجواب", "उत्तर", "trả lời", "jawaban",
)  # fmt: skip
_ANSWER_LINE = re.compile(
    rf"^[\s>\-#]*(?:{'|'.join(sorted(map(re.escape, _ANSWER_WORDS), key=len, reverse=True))})\s*:[ \t]*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT_EXAMPLE = re.compile(
    r"^\s*(?:Question|Segments|Claims|Below are (?:my inputs|your outputs))\s*:", re.IGNORECASE | re.MULTILINE
)
_REFUSAL = re.compile(
    r"^\W*(?:(?:i'?m|i am) (?:very |so |really )?sorry\b|sorry,|i apologi[sz]e|unfortunately, i|as an ai\b|"
    r"i (?:can'?t|cannot|can not|won'?t|will not|am unable|'m unable|am not able|'m not able)\b)",
    re.IGNORECASE,
)  # fmt: skip
_ALL_CORRECT = re.compile(
    r"[\"'“”(\[]*all(?:[ _-](?:the )?(?:segments|claims))?[ _-]?(?:are[ _-])?correct[\"'“”)\]]*[.!]?", re.IGNORECASE
)
_NO_ERRORS = re.compile(r"[\"'(\[]*(?:none|no errors?|no segments?|no claims?|n/a|\[\])[\"')\]]*[.!]?", re.IGNORECASE)
_UNIT_WORD = r"(?:(?:segments?|claims?|ids?|no\.|numbers?)\s*:?\s*|#)?"
_ID = rf"{_UNIT_WORD}[(\[]?\d+[)\]]?"
_SEPARATOR = r"\s*(?:[,;、،/&]|\band\b|,\s*and\b)\s*"
_RANGE = rf"{_ID}(?:\s*(?:-|to)\s*{_ID})?"
_IDS = re.compile(rf"(?:the\s+)?\[?{_RANGE}(?:(?:{_SEPARATOR})+{_RANGE})*\]?", re.IGNORECASE)
_DIGITS = 9  # of a number that are read; no answer has as many units
_WIDEST = 1000  # units that a range may span
_CUT_LIST = re.compile(r"(?:[,;、،&-]|\band)\s*$", re.IGNORECASE)
_EXPLANATION = re.compile(r"\s*(?:[.。]?\s*$|[.。:(\[]\D|\s[-]\s|because\b|it means\b|since\b|as\b\s)", re.IGNORECASE)


def read_verdict(output: str, num_units: int, protocol: str = "paper", is_cut_off: bool = False) -> Verdict:
    """The verdict in ``output`` on units 1 to ``num_units``.

    ``is_cut_off`` says that the model stopped for want of tokens; an answer before the cut still counts.
    """
    if protocol == "code":
        return Verdict(_as_the_script(output, num_units))
    text = _plain(output)
    if text is None:
        return _unscored("cut off while thinking")
    if not text:
        return _unscored("empty output")
    examples = list(_NEXT_EXAMPLE.finditer(text))
    if examples and text[: examples[0].start()].strip():
        text = text[: examples[0].start()].strip()  # a model that goes on writes further questions and answers them
    lines = list(_ANSWER_LINE.finditer(text))
    if not lines:
        return _without_answer_line(text, num_units, is_cut_off)
    after = text[lines[-1].start(1) :].strip()
    answer = after.splitlines()[0].strip() if after else ""
    if not answer:
        return _unscored("cut off before the answer" if is_cut_off else "nothing after 'Answer:'")
    return _read_answer(answer, num_units, is_cut_off and answer == after)


def _plain(output: str) -> str | None:
    """Without thinking, markdown and full-width forms; nothing if thinking never ends."""
    text = unicodedata.normalize("NFKC", output)
    if "</think>" in text:
        text = text.rsplit("</think>", 1)[1]
    elif "<think>" in text:
        return None
    text = text.replace("\\_", "_").replace("–", "-").replace("—", "-").replace("’", "'")
    text = re.sub(r"```\w*|`", "", text)
    text = re.sub(r"\*\*|__|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)", "", text)
    return text.strip()


def _without_answer_line(text: str, num_units: int, is_cut_off: bool) -> Verdict:
    """A bare list or ALL_CORRECT is what was asked for, less the word; anything else is no verdict."""
    if _REFUSAL.match(text):
        return _unscored("refusal")
    if "\n" not in text and (_ALL_CORRECT.fullmatch(text) or _IDS.fullmatch(text)):
        return _read_answer(text, num_units, is_cut_off)
    last = text.splitlines()[-1].strip()
    if re.fullmatch(r"\"?ALL_CORRECT\"?\.?", last):
        return Verdict(frozenset())
    return _unscored("cut off before the answer" if is_cut_off else "no answer line")


def _read_answer(answer: str, num_units: int, is_cut_off: bool) -> Verdict:
    has_all_correct = re.search(r"\ball[_ ]correct\b", answer, re.IGNORECASE)
    ids = _IDS.match(answer)
    if has_all_correct and re.search(r"\d", answer):
        return _unscored("ALL_CORRECT and ids at once")
    if _ALL_CORRECT.match(answer) or _NO_ERRORS.fullmatch(answer):
        return Verdict(frozenset())
    if _REFUSAL.match(answer):
        return _unscored("refusal")
    if not ids:
        return _unscored("no ids after 'Answer:'")
    rest = answer[ids.end() :]
    if _CUT_LIST.fullmatch(rest.strip()) or (
        rest.strip() and _CUT_LIST.match(rest.strip()) and not re.search(r"\w", rest)
    ):
        return _unscored("the list of ids breaks off")
    if not _EXPLANATION.match(rest):
        return _unscored("more than ids after 'Answer:'")
    if is_cut_off and not rest.strip():
        return _unscored("the list of ids may be cut off")
    flagged = _expand(ids[0])
    if 0 in flagged:
        return _unscored("id 0, ids begin at 1")
    if outside := sorted(number for number in flagged if number > num_units):
        return _unscored(f"id {outside[0]} of {num_units}")
    return Verdict(frozenset(flagged))


def _expand(listed: str) -> set[int]:
    flagged: set[int] = set()
    for part in re.split(_SEPARATOR, listed, flags=re.IGNORECASE):
        ends = [int(number[:_DIGITS]) for number in re.findall(r"\d+", part)]
        if ends:
            flagged.update({*ends, *range(ends[0], ends[-1] + 1)} if ends[-1] - ends[0] < _WIDEST else ends)
    return flagged


def _as_the_script(output: str, num_units: int) -> frozenset[int]:
    if "ALL_CORRECT" in output or "Answer: " not in output:
        return frozenset()
    listed = [int(number) for number in re.findall(r"\d+", output.split("Answer: ", 1)[1])]
    return frozenset(number or num_units for number in listed if number <= num_units)
