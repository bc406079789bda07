"""What a judge's output says of a generation: true, false or neutral, or why that cannot be told."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from judges.answers import Answer

TRUE, FALSE, NEUTRAL = MARKS = ("true", "false", "neutral")

_LABEL = re.compile(r"(?<![\w-])(true|false|neutral)(?![\w-])", re.IGNORECASE)
_ANSWER_LINE = re.compile(
    r"^[\s>#-]*(?:(?:my |the )?(?:final )?answer(?: is)?)\s*:\s*(.*)$", re.IGNORECASE | re.MULTILINE
)
_BARE = re.compile(r"[\W_]*(true|false|neutral)[\W_]*", re.IGNORECASE)
_REFUSAL = re.compile(
    r"^\W*(?:(?:i'?m|i am) (?:very |so |really )?sorry\b|sorry,|i apologi[sz]e|unfortunately, i|as an ai\b|"
    r"i (?:can'?t|cannot|can not|won'?t|will not|am unable|'m unable|am not able|'m not able)\b)",
    re.IGNORECASE,
)  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """``label`` is one of ``MARKS``; if it is nothing, ``reason`` says why."""

    label: str | None
    reason: str | None = None


def read_mark(answer: Answer) -> Mark:
    """The mark in one answer, which should end in a line ``Answer: TRUE``, ``FALSE`` or ``NEUTRAL``."""
    if answer.text is None:
        return Mark(None, f"no answer: {answer.error or answer.finish_reason or 'no text'}")
    text = _plain(answer.text)
    if text is None:
        return Mark(None, "cut off while thinking")
    if not text:
        return Mark(None, "empty output")
    lines = _ANSWER_LINE.findall(text)
    if lines:
        return _read_lines(lines, answer.is_cut_off)
    if bare := _BARE.fullmatch(text.splitlines()[-1]):
        return Mark(bare[1].lower())
    if _REFUSAL.match(text) or answer.finish_reason == "content_filter":
        return Mark(None, "refusal")
    return Mark(None, "cut off before the answer" if answer.is_cut_off else "no answer line")


def _read_lines(lines: Sequence[str], is_cut_off: bool) -> Mark:
    found = {label.lower() for line in lines for label in _LABEL.findall(line)}
    if len(found) > 1:
        return Mark(None, "several labels")
    last = lines[-1].strip(" \t\"'([<.")
    if not found or not _LABEL.match(last):  # such as "not true"
        return Mark(None, "cut off before the answer" if is_cut_off else "no label after 'Answer:'")
    return Mark(found.pop())


def _plain(output: str) -> str | None:
    """Without thinking, markdown and full-width forms; nothing if thinking never ends."""
    text = unicodedata.normalize("NFKC", output)
    text = re.split(r"</think(?:ing)?>", text)[-1]
    if re.search(r"<think(?:ing)?>", text):
        return None
    return re.sub(r"```\w*|`|\*+|__", "", text.replace("’", "'")).strip()


def vote(marks: Sequence[Mark]) -> Mark:
    """Several marks of one generation as one: the commonest label; marks without a label have no vote."""
    counts = Counter(mark.label for mark in marks if mark.label is not None).most_common(2)
    if not counts:
        return Mark(None, marks[0].reason if marks else "no answer")
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return Mark(None, "a tie between answers")
    return Mark(counts[0][0])
