"""The question whether passages support a claim, its reply, and the vote of several replies.

The command ``verify``, FELM and FACTOR's open generation ask about single claims. Biographies ask
about all facts of a page at once.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from judges.judge import Judge
from judges.typed import ParsedReply, Reply, ReplyCheck, numbering_problem

if TYPE_CHECKING:
    from pandas import DataFrame

PROMPT = "verify"
SUPPORTED: Literal["supported"] = "supported"
NOT_SUPPORTED: Literal["not_supported"] = "not_supported"
UNSCORED: Literal["unscored"] = "unscored"

# The most tokens of a reply about a page, in the default context of a judge.
PAGE_TOKENS = 4096

# The most claims in one question about a page, in the default context of a judge.
MAX_CLAIMS_PER_PAGE = 40

# A stated probability contradicts the verdict if it is this far from the score of a certain
# verdict, 0 or 1. Judges have thresholds of their own, so other probabilities stay as they are.
_CONTRADICTING_DISTANCE = 0.9

# The most characters of a reason.
_MAX_REASON = 400

KeyT = TypeVar("KeyT")


class SupportReply(Reply):
    # The words of this docstring are part of the keys of stored answers.
    """``probability``, if it is stated, is that of support."""

    reason: str
    verdict: Literal["supported", "not_supported"]
    probability: Annotated[float, Field(ge=0, le=1)] | None = None


class PageReply(Reply):
    """The reply to a question about many claims. Subclasses state the type of its verdicts."""

    verdicts: Sequence[Any]
    """A verdict per claim, with the ``number`` of the claim in the question, from 1."""


@dataclass(frozen=True)
class Verification:
    """The verdict of a judge on a claim."""

    verdict: Literal["supported", "not_supported", "unscored"]
    """Whether the passages support the claim. Unscored if the judge gave no usable reply."""

    score: float | None
    """The probability of support, from 0 to 1. None if the claim is unscored."""

    reason: str
    """The judge's reason, or why the claim is unscored."""

    said: tuple[str, ...] = ()
    """The texts that the judge wrote, one per sample. Empty if it was not asked."""


@dataclass(frozen=True)
class Pair:
    """A claim and the passages that may support it."""

    claim: str
    """The claim."""

    passages: tuple[str, ...]
    """The texts of the passages. A first line ``Title: ...`` is the title of a passage."""

    @property
    def subject(self) -> dict[str, Any]:
        """The variables of the prompt that asks about the pair."""
        return {"kind": PROMPT, "claim": self.claim, "passages": list(self.passages)}

    @property
    def problem(self) -> str:
        """Why the pair cannot be judged: no evidence or no claim. Empty if it can."""
        if not any(passage.strip() for passage in self.passages):
            return "no evidence"
        # A claim of punctuation alone says nothing.
        return "" if re.search(r"\w", self.claim) else "no claim"


class Verifications(list[Verification]):
    """Verdicts in the order of their pairs."""

    def to_pandas(self) -> "DataFrame":
        """Return a pandas DataFrame with a row for each verdict and a column for each field."""
        import pandas

        return pandas.DataFrame(list(self))


def verify(judge: Judge, pairs: Sequence[Pair], description: str = "verifying") -> Verifications:
    """Ask a judge whether passages support claims.

    Args:
        judge: The judge.
        pairs: The claims with their passages. A pair without a claim or without passages is not
            asked about.
        description: The label of the progress bar.

    Returns:
        The verdict on each pair, in order. Pairs that were not asked about are unscored.

    Raises:
        BackendDownError: The judge cannot be reached. Answers received so far are kept.
    """
    asked_indices = [index for index, pair in enumerate(pairs) if not pair.problem]
    subjects = [pairs[index].subject for index in asked_indices]
    samples_by_question = judge.ask_typed(PROMPT, SupportReply, subjects, description)

    # The verdicts of the judge replace these, except where it was not asked.
    verifications = Verifications(_unscored(pair.problem) for pair in pairs)
    for index, samples in zip(asked_indices, samples_by_question, strict=True):
        answers = [sample.answer.text for sample in samples]
        texts = tuple(text for text in answers if text is not None)
        verifications[index] = replace(combine_samples(samples), said=texts)
    return verifications


def combine_samples(samples: Sequence[ParsedReply[SupportReply]]) -> Verification:
    """Combine several replies to the same question into one verdict, by majority.

    Example:
        Of two votes for support and one against, the score is 2/3, and the reason is ``2 of 3
        samples say supported; Passage 1 says so.``

    Args:
        samples: The replies. Those that cannot be used have no vote.

    Returns:
        The verdict of the majority, or of the only reply. Unscored after a tie, or if no reply can
        be used.
    """
    verifications = [_to_verification(sample) for sample in samples]
    if not verifications:
        return _unscored("no answer")

    votes = [verification for verification in verifications if verification.verdict != UNSCORED]
    # A single reply keeps its own score and reason. If no reply can be used, the problem of the
    # first is the reason why the claim is unscored.
    if len(verifications) == 1 or not votes:
        return verifications[0]

    num_supported = sum(vote.verdict == SUPPORTED for vote in votes)
    share = num_supported / len(votes)
    summary = f"{num_supported} of {len(votes)} samples say supported"
    if share == 0.5:
        return _unscored(f"tie: {summary}")

    verdict = SUPPORTED if share > 0.5 else NOT_SUPPORTED
    # The reasons of the majority agree, so the first one stands for all.
    first_vote = next(vote for vote in votes if vote.verdict == verdict)
    return Verification(verdict, share, f"{summary}; {first_vote.reason}")


def _to_verification(parsed_reply: ParsedReply[SupportReply]) -> Verification:
    """Return the verdict that one reply gives. A reply that cannot be used is unscored."""
    reply = parsed_reply.value
    # A reply of the wrong form is no evidence for either verdict.
    if reply is None:
        return _unscored(parsed_reply.problem)
    is_supported = reply.verdict == SUPPORTED
    score, reason = score_and_reason(reply.probability, is_supported, reply.reason)
    return Verification(reply.verdict, score, reason)


def _unscored(reason: str) -> Verification:
    """Return a claim without a verdict, and the reason why it has none."""
    return Verification(UNSCORED, None, reason)


class ScoreAndReason(NamedTuple):
    """The score and the reason of a verdict."""

    score: float
    """The probability of support, from 0 to 1."""

    reason: str
    """The reason, shortened."""


def score_and_reason(probability: float | None, is_supported: bool, reason: str) -> ScoreAndReason:
    """Return the score of a verdict, and its reason as it is reported.

    Example:
        A verdict of support has the score 0.9 if the judge stated 0.9. It has the score 1 if the
        judge stated no probability, or one of 0.05, which contradicts the verdict.

    Args:
        probability: The probability of support that the judge stated. None if it stated none.
        is_supported: The verdict.
        reason: The judge's reason.

    Returns:
        The score and the shortened reason, which mentions a probability that was not used.
    """
    # A verdict without a probability counts as certain.
    certain_score = 1.0 if is_supported else 0.0
    short_reason = shorten_reason(reason)
    if probability is None:
        return ScoreAndReason(certain_score, short_reason)

    # For a verdict of support, a probability of 0.05 is 0.95 from the certain score of 1.
    distance = abs(probability - certain_score)
    if distance < _CONTRADICTING_DISTANCE:
        return ScoreAndReason(probability, short_reason)
    remark = f"{short_reason} (the stated probability {probability:g} contradicts the verdict)"
    return ScoreAndReason(certain_score, remark.strip())


def shorten_reason(reason: str) -> str:
    """Return a reason on one line, cut off between words after at most 400 characters."""
    text = " ".join(reason.split())
    if len(text) <= _MAX_REASON:
        return text
    cut_text = text[: _MAX_REASON - len(" ...")]
    # The last word may be cut in the middle, so it is dropped.
    whole_words = cut_text.rsplit(" ", 1)[0]
    return f"{whole_words} ..."


@dataclass(frozen=True)
class PageQuestion(Generic[KeyT]):
    """A question whether one page supports several claims."""

    keys: Sequence[KeyT]
    """The keys by which the caller knows the claims, in the order of the question."""

    subject: Mapping[str, Any]
    """The variables of its prompt; see `page_subject`."""


@dataclass(frozen=True)
class PageVerdicts(Generic[KeyT]):
    """The verdicts on one claim of a question about a page."""

    key: KeyT
    """The key of the claim."""

    subject: Mapping[str, Any]
    """The subject of the question."""

    verdicts: Sequence[Any]
    """The verdicts as the reply states them, one per sample that mentions the claim."""


def split_by_page(
    keys: Iterable[KeyT],
    page_of: Callable[[KeyT], Hashable],
    max_claims: int,
) -> list[list[KeyT]]:
    """Split claims into groups that each fit into one question about one page.

    Example:
        ``["a1", "b1", "a2", "a3"]``, whose letters are their pages, in groups of at most two →
        ``[["a1", "a2"], ["a3"], ["b1"]]``

    Args:
        keys: The keys by which the caller knows the claims.
        page_of: Returns the page, or any other evidence, that a claim is held against.
        max_claims: The most claims in a group.

    Returns:
        The keys of each group, in the order of the first claim about each page.
    """
    # A dict keeps the order of the first claim about each page.
    keys_by_page: dict[Hashable, list[KeyT]] = defaultdict(list)
    for key in keys:
        keys_by_page[page_of(key)].append(key)

    groups = []
    for page_keys in keys_by_page.values():
        for start in range(0, len(page_keys), max_claims):
            groups.append(page_keys[start : start + max_claims])
    return groups


def page_subject(
    claims: Sequence[str], passages: Sequence[str], **variables: Any
) -> dict[str, Any]:
    """Return the variables of the prompt that asks about many claims.

    Example:
        ``{"kind": "verify_page", "claims": ["Ada sang."], "passages": ["Ada ..."]}``
    """
    return {"kind": "verify_page", "claims": list(claims), "passages": list(passages), **variables}


def check_claim_numbers(reply: PageReply, subject: Mapping[str, Any]) -> str:
    """Return what is wrong with the numbers by which a reply names the claims of a question.

    A reply may leave claims out.

    Example:
        ``number 3 of 2`` or ``number 1 twice``. Empty if nothing is wrong.
    """
    numbers = [verdict.number for verdict in reply.verdicts]
    return numbering_problem(numbers, len(subject["claims"]), "number", must_be_complete=False)


def ask_by_page(
    judge: Judge,
    prompt: str,
    reply_type: type[PageReply],
    questions: Sequence[PageQuestion[KeyT]],
    description: str,
    check: ReplyCheck[Any] = check_claim_numbers,
) -> Iterator[PageVerdicts[KeyT]]:
    """Ask a judge about many claims in one question per page.

    Args:
        judge: The judge.
        prompt: The prompt that asks about a page.
        reply_type: The class of the reply.
        questions: The pages with their claims.
        description: The label of the progress bar.
        check: Finds problems of a reply. By default `check_claim_numbers`.

    Yields:
        The verdicts on each claim, under its key in the question. A claim that no reply mentions is
        left out.

    Raises:
        BackendDownError: The judge cannot be reached. Answers received so far are kept.
    """
    subjects = [question.subject for question in questions]
    samples_by_question = judge.ask_typed(
        prompt,
        reply_type,
        subjects,
        description,
        check=check,
        max_tokens=judge.config.fit_context(PAGE_TOKENS),
    )
    for question, samples in zip(questions, samples_by_question, strict=True):
        # A reply that cannot be used says nothing about any claim.
        replies = [sample.value for sample in samples if sample.value is not None]
        verdicts_by_number: defaultdict[int, list[Any]] = defaultdict(list)
        for verdict in chain.from_iterable(reply.verdicts for reply in replies):
            verdicts_by_number[verdict.number].append(verdict)

        # A reply calls the claims by their numbers in the prompt, and the caller by their keys.
        for number, key in enumerate(question.keys, start=1):
            if number in verdicts_by_number:
                yield PageVerdicts(key, question.subject, verdicts_by_number[number])
