"""What a judge writes, as plain words, and whether they say that passages support a claim.

A verdict is read only from a line ``Answer: SUPPORTED`` or ``Answer: NOT_SUPPORTED``, or from such a verdict alone on the last
line; one that the words behind it take back in part ("SUPPORTED, except for the date") is none. Whatever else an answer holds, it
is unscored, with the reason: the published parser took "False. It is not true that" for supported, and so every text without a
keyword that it knew.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from judges.answers import Answer
from lm_factuality.ground.packaged import load_yaml
from lm_factuality.ground.thinking import without_thinking

if TYPE_CHECKING:
    from judges.judge import Judge

_PATTERNS = {name: re.compile("".join(pieces), re.IGNORECASE) for name, pieces in load_yaml(__package__, "verify.yaml").items()}
APOLOGY: str = _PATTERNS["apology"].pattern
_SAME = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2212": "-"}
)
_CLOSING = "\"'\u201c\u201d)]"


def plain(output: str) -> str | None:
    """``output`` without thinking, emphasis, code marks and invisible characters, in compatibility forms (NFKC), with straight
    quotes, plain hyphens and ends of line; None if the thinking never ends."""
    text = without_thinking(_PATTERNS["invisible"].sub("", unicodedata.normalize("NFKC", "\n".join(output.splitlines()))))
    if text is None:
        return None
    text = _PATTERNS["code"].sub("", text.replace("\\_", "_").translate(_SAME))
    text = re.sub(r"\*+", lambda stars: _within(stars, str.isdigit), text)  # 1*2 is not 12
    return re.sub(r"_+", lambda line: _within(line, str.isalnum), text).strip()


def _within(marks: re.Match[str], is_part: Callable[[str], bool]) -> str:
    """``marks`` if they stand within a number or word, else nothing."""
    before, after = marks.string[max(0, marks.start() - 1) : marks.start()], marks.string[marks.end() : marks.end() + 1]
    return marks[0] if is_part(before) and is_part(after) else ""


def is_refusal(text: str) -> bool:
    """Whether ``text``, made plain, begins as those do that decline to judge."""
    return _PATTERNS["refusal"].match(text) is not None


def is_taken_back(rest: str, *, denies: bool = False) -> bool:
    """Whether ``rest``, what stands behind a verdict and on the lines below it, makes it less than a verdict.

    On the verdict's own line a reason ("because"), a new sentence or a parenthesis may follow, if no word in it speaks against
    the verdict, nor one that says so outright on a line below; anything else ("is wrong here", ", except for the date") takes it
    back. ``denies``: the verdict itself says no, so that "not" and "wrong" explain it, a comma is enough before them, and
    of hedges only one that comes first ("but", "partly") counts.
    """
    line, *below = rest.split("\n")
    line = line.lstrip(_CLOSING)
    if denies and (_PATTERNS["hedged"].match(line) or line.startswith(",")):
        return bool(_PATTERNS["hedged"].match(line))
    if not _PATTERNS["explains"].match(line):
        return True
    return not denies and (
        bool(_PATTERNS["contrary"].search(line)) or any(_PATTERNS["denied_below"].search(each) for each in below)
    )


PROMPT = "verify"
SUPPORTED: Literal["supported"] = "supported"
NOT_SUPPORTED: Literal["not_supported"] = "not_supported"
UNSCORED: Literal["unscored"] = "unscored"

_EXTREME = 0.1  # a score this near to the other end contradicts the verdict; judges set their own thresholds in between
_QUALIFIED: Literal["qualified verdict"] = "qualified verdict"
_LONGEST_REASON, _LONGEST_SCORE = 400, 30  # characters


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


def verify(judge: Judge, pairs: Sequence[Pair], description: str = "verifying") -> list[Verification]:
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
    """What one answer says. Its score is what a line ``Score:`` states (0.8, 80%, 8/10), or that of the verdict, 1 or 0, where no
    such line is, and where it cannot be read or contradicts the verdict; then ``reason`` says so."""
    if answer.text is None:
        return _unscored(answer.error or answer.finish_reason or "no answer")
    text = plain(answer.text)
    if text is None:
        return _unscored("cut off while thinking" if answer.is_cut_off else "thinking without an end")
    if not text:
        return _unscored("content filter" if answer.finish_reason == "content_filter" else "empty answer")
    lines = text.splitlines()
    numbers = [number for number, line in enumerate(lines) if _PATTERNS["answer_line"].match(line)]
    parts = [_from_answer(lines, number) for number in numbers] or [lines[-1:]]
    found = {_verdict(line) for line, *_ in parts}
    if len(found) > 1:
        return _unscored("two answers that differ")
    verdict = found.pop()
    below = parts[-1][1:]
    if {_verdict(line) for line in below} & {SUPPORTED, NOT_SUPPORTED} - {verdict}:
        return _unscored("two answers that differ")
    if verdict == _QUALIFIED or (verdict == SUPPORTED and is_taken_back("\n".join(["", *below]))):
        return _unscored(_QUALIFIED)
    if verdict not in (SUPPORTED, NOT_SUPPORTED):
        return _unscored(_why_unread(text, bool(numbers), answer))
    before = lines[: numbers[0] if numbers else len(lines) - 1]
    stated = [match[1].strip() for line in lines if (match := _PATTERNS["score_line"].match(line))]
    score, problem = _score(stated[-1], verdict) if stated else (float(verdict == SUPPORTED), "")
    return Verification(verdict, score, _reason(before, problem))


def _from_answer(lines: Sequence[str], number: int) -> list[str]:
    """What stands behind ``Answer:`` on this line, or if nothing does, the next line that is not empty; then the lines below."""
    rest = _PATTERNS["answer_line"].sub(r"\1", lines[number])
    return [line for line in (rest, *lines[number + 1 :]) if line.strip()] or [""]


def _verdict(text: str) -> Literal["supported", "not_supported", "qualified verdict"] | None:
    match = _PATTERNS["verdict"].fullmatch(text.strip())
    if match is None:
        return None
    is_denied, rest = match["word"].lower() != SUPPORTED, match["rest"]
    if _PATTERNS["other_verdict"].search(rest) or (is_denied and re.search(r"\bsupported\b", rest, re.IGNORECASE)):
        return None
    if is_taken_back(rest, denies=is_denied):
        return _QUALIFIED
    return NOT_SUPPORTED if is_denied else SUPPORTED


def _why_unread(text: str, has_answer_line: bool, answer: Answer) -> str:
    if answer.is_cut_off:
        return "cut off before the answer"
    if answer.finish_reason == "content_filter":
        return "content filter"
    if is_refusal(text):
        return "refusal"
    return "neither SUPPORTED nor NOT_SUPPORTED alone after 'Answer:'" if has_answer_line else "no answer line"


def _score(stated: str, verdict: Literal["supported", "not_supported"]) -> tuple[float, str]:
    """The score that ``stated`` is, or that of ``verdict`` with what is wrong with ``stated``."""
    quoted = stated if len(stated) <= _LONGEST_SCORE else f"{stated[:_LONGEST_SCORE]}..."
    match = _PATTERNS["score"].fullmatch(stated)
    whole = float(match["whole"] or 100 ** bool(match["percent"])) if match else 0.0
    score = float(match["number"].replace(",", ".")) / whole if match and whole else math.inf
    extreme = float(verdict == SUPPORTED)
    if score > 1:
        return extreme, f"the stated score {quoted!r} cannot be read as one from 0 to 1"
    if abs(score - extreme) >= 1 - _EXTREME:
        return extreme, f"the stated score {quoted!r} contradicts the verdict"
    return score, ""


def _reason(lines: Sequence[str], problem: str) -> str:
    words = " ".join(line for line in lines if not _PATTERNS["score_line"].match(line)).split()
    reason = re.sub(r"^(?:reason|thought|explanation)\s*:\s*", "", " ".join(words), flags=re.IGNORECASE)
    longest = _LONGEST_REASON - len(problem) - 3
    reason = reason if len(reason) <= longest else f"{reason[: longest - 4].rsplit(' ', 1)[0]} ..."
    return f"{reason} ({problem})".strip() if problem else reason


def _unscored(reason: str) -> Verification:
    return Verification(UNSCORED, None, reason)
