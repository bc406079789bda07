"""Whether passages support a claim: the question to a judge, and what its answer says.

A verdict is read only from a line ``Answer: SUPPORTED`` or ``Answer: NOT_SUPPORTED``, or from such a verdict alone on the last
line. Whatever else an answer holds, it is unscored, with the reason: the published parser took "False. It is not true that"
for supported, and so every text without a keyword that it knew.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from judges.answers import Answer

PROMPT = "verify"
SUPPORTED: Literal["supported"] = "supported"
NOT_SUPPORTED: Literal["not_supported"] = "not_supported"
UNSCORED: Literal["unscored"] = "unscored"

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_END_OF_THOUGHT = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_ANSWER_LINE = re.compile(r"^[\s>#*-]*(?:my |the )?(?:final )?(?:answer|verdict)(?: is)?\s*:[ \t]*(.*)$", re.IGNORECASE)
_SCORE_LINE = re.compile(r"^[\s>#*-]*score\s*:\s*(\d+(?:[.,]\d+)?)\s*(%)?[\s.]*$", re.IGNORECASE)
_QUOTES = "\"'\u201c\u201d\u2018\u2019()[]"
_VERDICT = re.compile(
    rf"[{re.escape(_QUOTES)}\s]*(?P<word>(?:not[ _-]*|un)?supported)\b(?!_)[{re.escape(_QUOTES)}]*"
    r"(?:\s*[.!]?\s*|\s*(?:[.,;:(!-]|because\b|since\b|as\b)\s*(?P<more>.*))",
    re.IGNORECASE | re.DOTALL,
)
_CONTRARY = re.compile(
    r"\b(?:no|not|never|none|cannot|\w+n't|un\w+|false|wrong|supported|contradict\w*|missing)\b", re.IGNORECASE
)
_REFUSAL = re.compile(
    r"\W*(?:i'?m (?:very |so )?sorry|i am (?:very |so )?sorry|sorry,|i apologi[sz]e|as an ai\b|unfortunately, i\b|"
    r"i (?:can'?t|cannot|can not|won'?t|will not|am unable|'m unable|am not able)\b)",
    re.IGNORECASE,
)  # fmt: skip
_LONGEST_REASON = 400  # characters


@dataclass(frozen=True)
class Verification:
    """``score`` in [0, 1] is how sure the judge is that the claim is supported; None if it is unscored, and then ``reason``
    says why."""

    verdict: Literal["supported", "not_supported", "unscored"]
    score: float | None
    reason: str


@dataclass(frozen=True)
class Pair:
    """A claim and the passages to hold it against, each a text (a first line ``Title: ...`` is its title)."""

    claim: str
    passages: tuple[str, ...]

    @property
    def subject(self) -> dict[str, Any]:
        """What the prompt is about."""
        return {"kind": PROMPT, "claim": self.claim, "passages": list(self.passages)}

    @property
    def problem(self) -> str:
        """Why nobody need be asked, if so."""
        if not any(passage.strip() for passage in self.passages):
            return "no evidence"
        return "" if re.search(r"\w", self.claim) else "no claim"


class Asks(Protocol):
    """A judge, as far as this step needs one (:class:`judges.judge.Judge`)."""

    def ask(self, prompt_name: str, subjects: Sequence[Mapping[str, Any]], description: str) -> list[list[Answer]]:
        """The answers (one a sample) to the prompt about each subject."""


def verify(judge: Asks, pairs: Sequence[Pair], description: str = "verifying") -> list[Verification]:
    """What ``judge`` says of each pair, in order; pairs without a claim or without passages are unscored unasked.

    Raises:
        BackendDown: nothing gets through; what was answered before is kept.
    """
    asked = [pair for pair in pairs if not pair.problem]
    answers = iter(judge.ask(PROMPT, [pair.subject for pair in asked], description) if asked else [])
    return [_unscored(pair.problem) if pair.problem else combine(next(answers)) for pair in pairs]


def combine(samples: Sequence[Answer]) -> Verification:
    """One sample as it is; of several the majority of those that could be read, its score being their share of supported."""
    read = [parse_verification(answer) for answer in samples]
    if not read:
        return _unscored("no answer")
    scored = [each for each in read if each.verdict != UNSCORED]
    if len(read) == 1 or not scored:
        return read[0]
    supported = [each for each in scored if each.verdict == SUPPORTED]
    share = len(supported) / len(scored)
    if share == 0.5:
        return _unscored(f"tie: {len(supported)} of {len(scored)} samples say supported")
    verdict = SUPPORTED if share > 0.5 else NOT_SUPPORTED
    first = next(each for each in scored if each.verdict == verdict)
    return Verification(verdict, share, f"{len(supported)} of {len(scored)} samples say supported; {first.reason}")


def parse_verification(answer: Answer) -> Verification:
    """What one answer says; without a ``Score:`` line in range the score is that of the verdict, 1 or 0."""
    if answer.text is None:
        return _unscored(answer.error or answer.finish_reason or "no answer")
    text = _plain(answer.text)
    if text is None:
        return _unscored("cut off while thinking" if answer.is_cut_off else "thinking without an end")
    if not text:
        return _unscored("content filter" if answer.finish_reason == "content_filter" else "empty answer")
    lines = text.splitlines()
    numbers = [number for number, line in enumerate(lines) if _ANSWER_LINE.match(line)]
    verdicts = {_verdict(_after(lines, number)) for number in numbers} or {_verdict(lines[-1])}
    if len(verdicts) > 1:
        return _unscored("two answers that differ")
    verdict = verdicts.pop()
    if verdict is None:
        return _unscored(_why_unread(text, bool(numbers), answer))
    before = lines[: numbers[0] if numbers else len(lines) - 1]
    scores = [score for line in lines if (score := _score(line)) is not None]
    score = scores[-1] if scores else float(verdict == SUPPORTED)
    return Verification(verdict, score, _reason(before))


def _plain(text: str) -> str | None:
    """Without thinking, markdown and full-width forms; None if the thinking never ends."""
    text = _THOUGHT.sub("", unicodedata.normalize("NFKC", text))
    if _OPEN_THOUGHT.search(text):
        return None
    text = _END_OF_THOUGHT.split(text)[-1]  # some servers keep the beginning of the thinking to themselves
    text = text.replace("\\_", "_").replace("\u2019", "'").replace("\u2013", "-").replace("\u2014", "-")
    return re.sub(r"```\w*|`|\*+|(?<!\w)_+|_+(?!\w)", "", text).strip()


def _after(lines: Sequence[str], number: int) -> str:
    """What stands behind ``Answer:``, or if nothing does, on the next line that is not empty."""
    match = _ANSWER_LINE.match(lines[number])
    rest = match[1].strip() if match else ""
    return rest or next((line for line in lines[number + 1 :] if line.strip()), "")


def _verdict(text: str) -> Literal["supported", "not_supported"] | None:
    match = _VERDICT.fullmatch(text.strip())
    if match is None:
        return None
    if match["word"].lower() != SUPPORTED:
        return None if re.search(r"\bsupported\b", match["more"] or "", re.IGNORECASE) else NOT_SUPPORTED
    return None if _CONTRARY.search(match["more"] or "") else SUPPORTED


def _why_unread(text: str, has_answer_line: bool, answer: Answer) -> str:
    if answer.is_cut_off:
        return "cut off before the answer"
    if answer.finish_reason == "content_filter":
        return "content filter"
    if _REFUSAL.match(text):
        return "refusal"
    return "neither SUPPORTED nor NOT_SUPPORTED alone after 'Answer:'" if has_answer_line else "no answer line"


def _score(line: str) -> float | None:
    match = _SCORE_LINE.match(line)
    if match is None:
        return None
    score = float(match[1].replace(",", ".")) / (100 if match[2] else 1)
    return score if 0 <= score <= 1 else None


def _reason(lines: Sequence[str]) -> str:
    words = " ".join(line for line in lines if not _SCORE_LINE.match(line)).split()
    reason = re.sub(r"^(?:reason|thought|explanation)\s*:\s*", "", " ".join(words), flags=re.IGNORECASE)
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 4].rsplit(' ', 1)[0]} ..."


def _unscored(reason: str) -> Verification:
    return Verification(UNSCORED, None, reason)
