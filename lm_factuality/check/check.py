"""Checks answers: splits them into claims, finds evidence, and asks a judge about each claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

from judges.claims import MAX_CLAIMS, ClaimQuestion, ClaimVerdict, Evidence, judge_claims
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.decompose import is_abstention
from lm_factuality.check.answers import Answer, AnswerFile
from lm_factuality.check.claims import Claim, split_answer
from lm_factuality.check.results import CheckedAnswer, CheckedClaim, CheckResult

PASSAGES_PER_CLAIM = 5
"""The most passages that are found for a claim."""

_SHARED_PASSAGES_PER_CLAIM = 2
"""The most passages of a claim where several claims share their evidence."""


class FoundEvidence(NamedTuple):
    """What was found about a claim."""

    passages: tuple[Evidence, ...] = ()
    """The passages, the nearest to the claim first."""

    scores: tuple[float | None, ...] = ()
    """How near each passage is to the claim. None for one that was found for another claim."""

    problem: str = ""
    """Why nothing could be looked for, such as a search that failed. Empty if something could."""


class EvidenceSource(Protocol):
    """Where evidence comes from: people's documents, or a search service."""

    def find(self, claims: Sequence[str], count: int) -> list[FoundEvidence]:
        """Find at most ``count`` passages about each claim."""
        ...


@dataclass(frozen=True)
class _SplitAnswer:
    """An answer with its claims."""

    answer: Answer
    """The answer."""

    claims: tuple[Claim, ...]
    """The claims in its order. Empty for a refusal."""

    is_refusal: bool
    """Whether it declines to answer, or is empty."""


def check_answers(answers: AnswerFile, source: EvidenceSource, judge: Judge) -> CheckResult:
    """Check each claim of some answers against evidence.

    Args:
        answers: The answers, and the rows that hold none.
        source: Where the evidence comes from.
        judge: The judge. Claims of one answer share their evidence if the judge is a model, so that
            it can answer about eight of them at once.

    Returns:
        The answers with a verdict on each claim.

    Raises:
        BackendDownError: The judge or the search service cannot be reached. What was received so
            far is kept, and a second run does not ask for it again.
    """
    split_answers = [_split(answer) for answer in answers.answers]
    texts = [claim.text for answer in split_answers for claim in answer.claims]
    found = source.find(texts, PASSAGES_PER_CLAIM)
    # The offline judge reads each claim alone, and a model can read eight at once.
    if judge.config.capabilities.reads_prompts:
        found = _share_evidence(found, [len(answer.claims) for answer in split_answers])

    questions = [
        ClaimQuestion(text, evidence.passages) for text, evidence in zip(texts, found, strict=True)
    ]
    verdicts = judge_claims(judge, questions, "checking claims")
    # The claims of all answers follow each other, so each answer takes the next ones.
    findings = iter(zip(found, verdicts, strict=True))
    checked_answers = []
    for split in split_answers:
        answer = split.answer
        findings_of_answer = islice(findings, len(split.claims))
        claims = tuple(
            _checked_claim(answer.id, claim, evidence, verdict)
            for claim, (evidence, verdict) in zip(split.claims, findings_of_answer, strict=True)
        )
        checked_answers.append(
            CheckedAnswer(answer.id, answer.question, answer.text, claims, split.is_refusal)
        )
    problems = tuple(f"{problem.location}: {problem.reason}" for problem in answers.problems)
    return CheckResult(tuple(checked_answers), problems, unread_answers=answers.problems)


def _split(answer: Answer) -> _SplitAnswer:
    """Split an answer into claims. An answer that declines, or is empty, has none."""
    is_refusal = is_abstention(answer.text)
    claims = () if is_refusal else tuple(split_answer(answer.text))
    return _SplitAnswer(answer, claims, is_refusal)


def _share_evidence(
    found: Sequence[FoundEvidence], claims_per_answer: Sequence[int]
) -> list[FoundEvidence]:
    """Give up to eight claims of an answer the same evidence: the nearest passages of each.

    Args:
        found: What was found about each claim.
        claims_per_answer: The number of claims of each answer.

    Returns:
        The evidence of each claim. A claim about which nothing was found gets none.
    """
    shared: list[FoundEvidence] = []
    remaining = iter(found)
    for num_claims in claims_per_answer:
        found_for_answer = list(islice(remaining, num_claims))
        for start in range(0, num_claims, MAX_CLAIMS):
            shared += _merge(found_for_answer[start : start + MAX_CLAIMS])
    return shared


def _merge(group: Sequence[FoundEvidence]) -> list[FoundEvidence]:
    """Give each claim of a group the nearest passages of all its claims.

    Args:
        group: The passages that a search found for each claim, the nearest first.

    Returns:
        The passages of each claim, in the order of the group. They are the same for all claims,
        but a claim for which nothing was found still has none.
    """
    # The keys are the passages. A dictionary keeps their order, which a set would not.
    nearest: dict[Evidence, None] = {}
    for evidence in group:
        nearest |= dict.fromkeys(evidence.passages[:_SHARED_PASSAGES_PER_CLAIM])
    passages = tuple(nearest)

    merged = []
    for evidence in group:
        # A score tells how near a passage is to this claim, and not to any other.
        scores = dict(zip(evidence.passages, evidence.scores, strict=True))
        scores_of_claim = tuple(scores.get(passage) for passage in passages)
        merged.append(FoundEvidence(passages, scores_of_claim) if scores else evidence)
    return merged


def _checked_claim(
    answer: str, claim: Claim, found: FoundEvidence, verdict: ClaimVerdict
) -> CheckedClaim:
    """Put a claim, its evidence and its verdict together."""
    # Nothing is known about a claim whose search failed, so it is not "not found".
    if found.problem and not found.passages:
        verdict = ClaimVerdict("unscored", None, found.problem)
    return CheckedClaim(
        answer=answer,
        text=claim.text,
        start=claim.start,
        end=claim.end,
        verdict=verdict.verdict,
        probability=verdict.probability,
        reason=verdict.reason,
        evidence=found.passages,
        scores=found.scores,
        deciding=verdict.evidence,
        deciding_words=verdict.deciding_words,
    )
