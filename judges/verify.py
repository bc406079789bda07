"""Whether passages support a claim: the question, its reply, and what several replies say."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import Field

from judges.judge import Judge
from judges.typed import ParsedReply, R, Reply, numbering_problem

PROMPT = "verify"
SUPPORTED: Literal["supported"] = "supported"
NOT_SUPPORTED: Literal["not_supported"] = "not_supported"
UNSCORED: Literal["unscored"] = "unscored"
PAGE_TOKENS = 4096  # that a judge may write about a page
PAGE_CLAIMS = 40  # in one question about a page
Key = TypeVar("Key")
# Keys of claims in one question, and what it is about.
Pages: TypeAlias = Sequence[tuple[Sequence[Key], Mapping[str, Any]]]

# A probability this near to the other end contradicts the verdict. Judges set their own thresholds
# in between.
_EXTREME = 0.1
_LONGEST_REASON = 400  # characters


class SupportReply(Reply):
    """``probability``, if it is stated, is that of support."""

    reason: str
    verdict: Literal["supported", "not_supported"]
    probability: Annotated[float, Field(ge=0, le=1)] | None = None


@dataclass(frozen=True)
class Verification:
    """What a judge says of a claim."""

    verdict: Literal["supported", "not_supported", "unscored"]

    score: float | None
    """How sure the judge is, in [0, 1], that the claim is supported. None if it is unscored."""

    reason: str

    said: tuple[str, ...] = ()
    """What the judge wrote, a text a sample. Nothing where nobody was asked."""


@dataclass(frozen=True)
class Pair:
    """A claim and the passages to hold it against."""

    claim: str

    passages: tuple[str, ...]
    """A first line ``Title: ...`` is the title of a passage."""

    @property
    def subject(self) -> dict[str, Any]:
        """What the question is about."""
        return {"kind": PROMPT, "claim": self.claim, "passages": list(self.passages)}

    @property
    def problem(self) -> str:
        """Why there is nothing to ask; empty if there is something."""
        if not any(passage.strip() for passage in self.passages):
            return "no evidence"
        return "" if re.search(r"\w", self.claim) else "no claim"


def verify(
    judge: Judge, pairs: Sequence[Pair], description: str = "verifying"
) -> list[Verification]:
    """Ask a judge whether passages support claims.

    Returns:
        What the judge says of each pair, in order. Pairs without a claim or without passages are
        unscored unasked.

    Raises:
        BackendDownError: Nothing gets through. What was answered before is kept.
    """
    subjects = [pair.subject for pair in pairs if not pair.problem]
    samples = iter(judge.ask_typed(PROMPT, SupportReply, subjects, description))
    results = []
    for pair in pairs:
        if pair.problem:
            results.append(_unscored(pair.problem))
            continue
        replies = next(samples)
        results.append(replace(combine_samples(replies), said=reply_texts(replies)))
    return results


def split_by_page(keys: Iterable[Key], page: Callable[[Key], Hashable]) -> list[list[Key]]:
    """Lists of claims on the same page that one question can hold.

    Args:
        keys: Of the claims.
        page: The page of a claim.
    """
    together: dict[Hashable, list[Key]] = defaultdict(list)
    for key in keys:
        together[page(key)].append(key)
    return [
        claims[start : start + PAGE_CLAIMS]
        for claims in together.values()
        for start in range(0, len(claims), PAGE_CLAIMS)
    ]


def ask_by_page(
    judge: Judge, prompt: str, reply: type[R], pages: Pages[Key], description: str
) -> Iterator[tuple[Key, Mapping[str, Any], list[Any], tuple[str, ...]]]:
    """Ask about whole pages.

    Yields:
        (key, subject, the numbered ``verdicts`` on it, what the judge wrote) for each claim that
        any sample names.
    """
    subjects = [subject for _, subject in pages]
    replies = judge.ask_typed(
        prompt, reply, subjects, description, check_claim_numbers, max_tokens=PAGE_TOKENS
    )
    for (keys, subject), samples in zip(pages, replies, strict=True):
        by_number: dict[int, list[Any]] = defaultdict(list)
        for sample in samples:
            for verdict in cast(Any, sample.value).verdicts if sample.value else ():
                by_number[verdict.number].append(verdict)
        for number, key in enumerate(keys, 1):
            if number in by_number:
                yield key, subject, by_number[number], reply_texts(samples)


def reply_texts(samples: Sequence[ParsedReply[Any]]) -> tuple[str, ...]:
    """What the judge wrote, a text a sample."""
    return tuple(sample.answer.text for sample in samples if sample.answer.text is not None)


def page_subject(claims: Sequence[str], passages: Sequence[str], **more: Any) -> dict[str, Any]:
    """What a question about many claims at once is about."""
    return {"kind": "verify_page", "claims": list(claims), "passages": list(passages), **more}


def check_claim_numbers(reply: Any, subject: Mapping[str, Any]) -> str:
    """A `judges.typed.Check` of numbered ``verdicts``: each on a claim of the list, none twice.

    Claims may be left out.
    """
    numbers = [verdict.number for verdict in reply.verdicts]
    return numbering_problem(numbers, len(subject["claims"]), "number", is_whole=False)


def combine_samples(samples: Sequence[ParsedReply[SupportReply]]) -> Verification:
    """What several samples say together.

    One sample is as it is. Of several it is the majority of those that could be read; the score is
    then their share of supported.
    """
    read = [_verification(sample) for sample in samples]
    if not read:
        return _unscored("no answer")
    scored = [verification for verification in read if verification.verdict != UNSCORED]
    if len(read) == 1 or not scored:
        return read[0]
    count = sum(verification.verdict == SUPPORTED for verification in scored)
    share = count / len(scored)
    summary = f"{count} of {len(scored)} samples say supported"
    if share == 0.5:
        return _unscored(f"tie: {summary}")
    verdict = SUPPORTED if share > 0.5 else NOT_SUPPORTED
    first = next(verification for verification in scored if verification.verdict == verdict)
    return Verification(verdict, share, f"{summary}; {first.reason}")


def _verification(sample: ParsedReply[SupportReply]) -> Verification:
    """What one sample says."""
    reply = sample.value
    if reply is None:
        return _unscored(sample.problem)
    score, reason = score_and_reason(reply.probability, reply.verdict == SUPPORTED, reply.reason)
    return Verification(reply.verdict, score, reason)


def score_and_reason(
    probability: float | None, is_supported: bool, reason: str
) -> tuple[float, str]:
    """The score and the reason of a verdict.

    The score is the stated probability, or that of the verdict, 1 or 0, where none is stated or it
    contradicts the verdict.
    """
    extreme = float(is_supported)
    short = shorten_reason(reason)
    if probability is None:
        return extreme, short
    if abs(probability - extreme) < 1 - _EXTREME:
        return probability, short
    contradiction = f"{short} (the stated probability {probability:g} contradicts the verdict)"
    return extreme, contradiction.strip()


def shorten_reason(reason: str) -> str:
    """A reason on one line, of 400 characters at most."""
    text = " ".join(reason.split())
    if len(text) <= _LONGEST_REASON:
        return text
    return f"{text[: _LONGEST_REASON - 4].rsplit(' ', 1)[0]} ..."


def _unscored(reason: str) -> Verification:
    return Verification(UNSCORED, None, reason)
