"""Whether passages support a claim: the question, the type of its reply, and what several replies
say together."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import Field

from judges.judge import Judge, Plan
from judges.typed import R, Reply, Typed, misnumbered

PROMPT = "verify"
PROMPT_PAGE = "verify_page"
SUPPORTED: Literal["supported"] = "supported"
NOT_SUPPORTED: Literal["not_supported"] = "not_supported"
UNSCORED: Literal["unscored"] = "unscored"
PAGE_TOKENS = 4096  # that a judge may write about a page
PAGE_CLAIMS = 40  # in one question about a page
Key = TypeVar("Key")
Pages: TypeAlias = Sequence[
    tuple[Sequence[Key], Mapping[str, Any]]
]  # keys of claims in one question, and what it is about

# a probability this near to the other end contradicts the verdict; judges set their own thresholds
# in between
_EXTREME = 0.1
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
    """``score`` in [0, 1] is how sure the judge is that the claim is supported; None if it is
    unscored, and then ``reason`` says why. ``said`` is what the judge wrote, a text a sample;
    nothing where nobody was asked."""

    verdict: Literal["supported", "not_supported", "unscored"]
    score: float | None
    reason: str
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """A claim and the passages to hold it against, each a text (a first line ``Title: ...`` is its
    title)."""

    claim: str
    passages: tuple[str, ...]

    @property
    def subject(self) -> dict[str, Any]:
        return {"kind": PROMPT, "claim": self.claim, "passages": list(self.passages)}

    @property
    def problem(self) -> str:
        if not any(passage.strip() for passage in self.passages):
            return "no evidence"
        return "" if re.search(r"\w", self.claim) else "no claim"


def verify(
    judge: Judge, pairs: Sequence[Pair], description: str = "verifying"
) -> list[Verification]:
    """What ``judge`` says of each pair, in order; pairs without a claim or without passages are
    unscored unasked. With ``verify: page`` all claims that are held against the same passages are
    in one question, and those that its reply leaves out are asked about singly. Raises BackendDown:
    nothing gets through; what was answered before is kept."""
    asked = {number: pair for number, pair in enumerate(pairs) if not pair.problem}
    found = {number: _unscored(pair.problem) for number, pair in enumerate(pairs) if pair.problem}
    if judge.config.verify == "page":
        for number, _, verdicts, wrote in by_page(
            judge, PROMPT_PAGE, PageReply, _pages(asked), description
        ):
            verdict = combine(
                [Typed(SupportReply(reason=each.reason, verdict=each.verdict)) for each in verdicts]
            )
            found[number] = replace(verdict, said=wrote)
    if alone := {number: pair for number, pair in asked.items() if number not in found}:
        replies = judge.ask_typed(
            PROMPT, SupportReply, [pair.subject for pair in alone.values()], description
        )
        found |= {
            number: replace(combine(each), said=said(each))
            for number, each in zip(alone, replies, strict=True)
        }
    return [found[number] for number in range(len(pairs))]


def plan(judge: Judge, pairs: Sequence[Pair]) -> Plan:
    asked = {number: pair for number, pair in enumerate(pairs) if not pair.problem}
    singly = judge.plan(PROMPT, [pair.subject for pair in asked.values()], reply=SupportReply)
    if judge.config.verify != "page":
        return singly
    subjects = [subject for _, subject in _pages(asked)]
    whole = judge.plan(
        PROMPT_PAGE, subjects, reply=PageReply, check=numbers_exist, max_tokens=PAGE_TOKENS
    )
    return replace(whole, most=whole.at_most + singly.at_most)  # a reply may leave out every claim


def _pages(pairs: Mapping[int, Pair]) -> Pages[int]:
    lists = lists_of(pairs, lambda number: pairs[number].passages)
    return [
        (each, page_subject([pairs[number].claim for number in each], pairs[each[0]].passages))
        for each in lists
    ]


def lists_of(keys: Iterable[Key], page: Callable[[Key], Hashable]) -> list[list[Key]]:
    """``keys`` of claims in lists, of the same page each, that one question can hold."""
    together: dict[Hashable, list[Key]] = defaultdict(list)
    for key in keys:
        together[page(key)].append(key)
    return [
        each[start : start + PAGE_CLAIMS]
        for each in together.values()
        for start in range(0, len(each), PAGE_CLAIMS)
    ]


def by_page(
    judge: Judge, prompt: str, reply: type[R], pages: Pages[Key], description: str
) -> Iterator[tuple[Key, Mapping[str, Any], list[Any], tuple[str, ...]]]:
    """(key, subject, the numbered ``verdicts`` on it, what the judge wrote) for each claim of
    ``pages`` that any sample names."""
    subjects = [subject for _, subject in pages]
    replies = judge.ask_typed(
        prompt, reply, subjects, description, numbers_exist, max_tokens=PAGE_TOKENS
    )
    for (keys, subject), samples in zip(pages, replies, strict=True):
        verdicts = [
            verdict for each in samples if each.value for verdict in cast(Any, each.value).verdicts
        ]
        for place, key in enumerate(keys, 1):
            if named := [each for each in verdicts if each.number == place]:
                yield key, subject, named, said(samples)


def said(samples: Sequence[Typed[Any]]) -> tuple[str, ...]:
    return tuple(each.answer.text for each in samples if each.answer.text is not None)


def page_subject(claims: Sequence[str], passages: Sequence[str], **more: Any) -> dict[str, Any]:
    """What a prompt is about that asks for the verdicts on many claims at once."""
    return {"kind": PROMPT_PAGE, "claims": list(claims), "passages": list(passages), **more}


def numbers_exist(reply: Any, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check` of numbered ``verdicts``: each on a claim of the list, none
    twice. Claims may be left out."""
    return misnumbered(
        [each.number for each in reply.verdicts], len(subject["claims"]), "number", is_whole=False
    )


def combine(samples: Sequence[Typed[SupportReply]]) -> Verification:
    """One sample as it is; of several the majority of those that could be read, its score being
    their share of supported."""
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
    return Verification(
        verdict, share, f"{len(supported)} of {len(scored)} samples say supported; {first.reason}"
    )


def _verification(read: Typed[SupportReply]) -> Verification:
    """Its score is the stated probability, or that of the verdict, 1 or 0, where none is stated or
    it contradicts the verdict."""
    if read.value is None:
        return _unscored(read.problem)
    score, reason = stated(
        read.value.probability, read.value.verdict == SUPPORTED, read.value.reason
    )
    return Verification(read.value.verdict, score, reason)


def stated(probability: float | None, is_supported: bool, reason: str) -> tuple[float, str]:
    """The score and the reason of a verdict: ``probability`` unless none is stated or it
    contradicts the verdict."""
    extreme, short = float(is_supported), shortened(reason)
    if probability is None or abs(probability - extreme) < 1 - _EXTREME:
        return extreme if probability is None else probability, short
    return (
        extreme,
        f"{short} (the stated probability {probability:g} contradicts the verdict)".strip(),
    )


def shortened(reason: str) -> str:
    """A reason on one line, of 400 characters at most."""
    text = " ".join(reason.split())
    return (
        text
        if len(text) <= _LONGEST_REASON
        else f"{text[: _LONGEST_REASON - 4].rsplit(' ', 1)[0]} ..."
    )


def _unscored(reason: str) -> Verification:
    return Verification(UNSCORED, None, reason)
