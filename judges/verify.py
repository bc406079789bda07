"""Whether passages support a claim: the question, the type of its reply, and what several replies say together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from judges.typed import Reply, Typed, misnumbered

if TYPE_CHECKING:
    from judges.judge import Judge, Plan

PROMPT = "verify"
PROMPT_PAGE = "verify_page"
SUPPORTED: Literal["supported"] = "supported"
NOT_SUPPORTED: Literal["not_supported"] = "not_supported"
UNSCORED: Literal["unscored"] = "unscored"
PAGE_TOKENS = 4096  # that a judge may write about a page
PAGE_CLAIMS = 40  # in one question about a page

_EXTREME = 0.1  # a probability this near to the other end contradicts the verdict; judges set their own thresholds in between
_LONGEST_REASON = 400  # characters


class SupportReply(Reply):
    """``probability``, if it is stated, is that of support."""

    reason: str
    verdict: Literal["supported", "not_supported"]
    probability: Annotated[float, Field(ge=0, le=1)] | None = None


class NumberedSupport(Reply):
    """The verdict on one claim of a list, numbered from 1."""

    number: int
    reason: str
    verdict: Literal["supported", "not_supported"]


class PageReply(Reply):
    """The verdicts on the claims of a list."""

    verdicts: list[NumberedSupport]


@dataclass(frozen=True)
class Verification:
    """``score`` in [0, 1] is how sure the judge is that the claim is supported; None if it is unscored, and then ``reason``
    says why. ``said`` is what the judge wrote, a text a sample; nothing where nobody was asked."""

    verdict: Literal["supported", "not_supported", "unscored"]
    score: float | None
    reason: str
    said: tuple[str, ...] = ()


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
    """What ``judge`` says of each pair, in order; pairs without a claim or without passages are unscored unasked. With ``verify:
    page`` all claims that are held against the same passages are in one question, and those that its reply leaves out are asked
    about singly. Raises BackendDown: nothing gets through; what was answered before is kept."""
    asked = [number for number, pair in enumerate(pairs) if not pair.problem]
    found = {number: _unscored(pair.problem) for number, pair in enumerate(pairs) if pair.problem}
    if judge.config.verify == "page":
        found |= _by_page(judge, {number: pairs[number] for number in asked}, description)
    if alone := [number for number in asked if number not in found]:
        replies = judge.ask_typed(PROMPT, SupportReply, [pairs[number].subject for number in alone], description)
        found |= {number: replace(combine(each), said=said(each)) for number, each in zip(alone, replies, strict=True)}
    return [found[number] for number in range(len(pairs))]


def plan(judge: Judge, pairs: Sequence[Pair]) -> Plan:
    """What :func:`verify` would ask first; nothing is."""
    asked = {number: pair for number, pair in enumerate(pairs) if not pair.problem}
    singly = judge.plan(PROMPT, [pair.subject for pair in asked.values()], reply=SupportReply)
    if judge.config.verify != "page":
        return singly
    subjects = [_page_of(asked, part) for part in _lists(asked)]
    whole = judge.plan(PROMPT_PAGE, subjects, reply=PageReply, check=numbers_exist, max_tokens=PAGE_TOKENS)
    return replace(whole, most=whole.at_most + singly.at_most)  # a reply may leave out every claim


def _lists(pairs: Mapping[int, Pair]) -> list[list[int]]:
    """The numbers of the pairs that one question about their passages can hold."""
    pages: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, pair in pairs.items():
        pages[pair.passages].append(number)
    return [part for numbers in pages.values() for part in parts(numbers)]


def _page_of(pairs: Mapping[int, Pair], part: Sequence[int]) -> dict[str, Any]:
    return page_subject([pairs[number].claim for number in part], pairs[part[0]].passages)


def _by_page(judge: Judge, pairs: Mapping[int, Pair], description: str) -> dict[int, Verification]:
    lists = _lists(pairs)
    subjects = [_page_of(pairs, part) for part in lists]
    replies = judge.ask_typed(PROMPT_PAGE, PageReply, subjects, description, numbers_exist, max_tokens=PAGE_TOKENS)
    found: dict[int, Verification] = {}
    for part, samples in zip(lists, replies, strict=True):
        for place, number in enumerate(part, 1):
            of_claim = [verdict for each in samples if each.value for verdict in each.value.verdicts if verdict.number == place]
            if of_claim:
                verdict = combine([Typed(SupportReply(reason=one.reason, verdict=one.verdict)) for one in of_claim])
                found[number] = replace(verdict, said=said(samples))
    return found


def said(samples: Sequence[Typed[Any]]) -> tuple[str, ...]:
    """What the judge wrote."""
    return tuple(each.answer.text for each in samples if each.answer.text is not None)


def parts(numbers: Sequence[int]) -> list[list[int]]:
    """``numbers`` in lists that one question can hold."""
    return [list(numbers[start : start + PAGE_CLAIMS]) for start in range(0, len(numbers), PAGE_CLAIMS)]


def page_subject(claims: Sequence[str], passages: Sequence[str], **more: Any) -> dict[str, Any]:
    """What a prompt is about that asks for the verdicts on many claims at once."""
    return {"kind": PROMPT_PAGE, "claims": list(claims), "passages": list(passages), **more}


def numbers_exist(reply: Any, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check` of numbered ``verdicts``: none on a claim that is not in the list, and none twice. Claims may
    be left out."""
    return misnumbered([each.number for each in reply.verdicts], len(subject["claims"]), "number", is_whole=False)


def combine(samples: Sequence[Typed[SupportReply]]) -> Verification:
    """One sample as it is; of several the majority of those that could be read, its score being their share of supported."""
    read = [_verification(each) for each in samples]
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


def _verification(read: Typed[SupportReply]) -> Verification:
    """Its score is the stated probability, or that of the verdict, 1 or 0, where none is stated or it contradicts the verdict."""
    if read.value is None:
        return _unscored(read.problem)
    score, reason = stated(read.value.probability, read.value.verdict == SUPPORTED, read.value.reason)
    return Verification(read.value.verdict, score, reason)


def stated(probability: float | None, is_supported: bool, reason: str) -> tuple[float, str]:
    """The score and the reason of a verdict: ``probability`` unless none is stated or it contradicts the verdict."""
    extreme, short = float(is_supported), shortened(reason)
    if probability is None or abs(probability - extreme) < 1 - _EXTREME:
        return extreme if probability is None else probability, short
    return extreme, f"{short} (the stated probability {probability:g} contradicts the verdict)".strip()


def shortened(reason: str) -> str:
    """A reason on one line, of 400 characters at most."""
    text = " ".join(reason.split())
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 4].rsplit(' ', 1)[0]} ..."


def _unscored(reason: str) -> Verification:
    return Verification(UNSCORED, None, reason)
