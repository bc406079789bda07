"""Checks answers: splits them into claims, finds evidence, and asks a judge about each claim."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from judges.claims import MAX_CLAIMS, ClaimQuestion, ClaimVerdict, Evidence, judge_claims
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.decompose import is_abstention
from lm_factuality.check.answers import AnswerFile
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


def check_answers(answers: AnswerFile, source: EvidenceSource, judge: Judge) -> CheckResult:
    """Check each claim of some answers against evidence.

    Args:
        answers: The answers, and the rows that hold none.
        source: Where the evidence comes from.
        judge: The judge. A model judges up to eight claims of an answer in one request, so these
            claims share their evidence.

    Returns:
        The answers with a verdict on each claim. A refusal has no claims.

    Raises:
        BackendDownError: The judge or the search service cannot be reached. What was received so
            far is kept, and a second run does not ask for it again.
    """
    refusals = [is_abstention(answer.text) for answer in answers.answers]
    claims_of_answers: list[list[Claim]] = []
    for answer, is_refusal in zip(answers.answers, refusals, strict=True):
        claims_of_answers.append([] if is_refusal else split_answer(answer.text))
    texts = [claim.text for claims in claims_of_answers for claim in claims]

    found = source.find(texts, PASSAGES_PER_CLAIM)
    if judge.config.capabilities.reads_prompts:
        found = _share_evidence(found, [len(claims) for claims in claims_of_answers])
    questions = [
        ClaimQuestion(text, evidence.passages) for text, evidence in zip(texts, found, strict=True)
    ]
    verdicts = judge_claims(judge, questions, "checking claims")

    # The evidence and verdicts are in the order of the answers, so each answer takes the next ones.
    findings = iter(zip(found, verdicts, strict=True))
    checked_answers = []
    for answer, is_refusal, claims in zip(
        answers.answers, refusals, claims_of_answers, strict=True
    ):
        findings_of_answer = islice(findings, len(claims))
        checked_claims = tuple(
            _checked_claim(answer.id, claim, evidence, verdict)
            for claim, (evidence, verdict) in zip(claims, findings_of_answer, strict=True)
        )
        checked_answers.append(
            CheckedAnswer(answer.id, answer.question, answer.text, checked_claims, is_refusal)
        )
    problems = tuple(map(str, answers.problems))
    return CheckResult(tuple(checked_answers), problems, unread_answers=answers.problems)


def _share_evidence(
    found: Sequence[FoundEvidence], claims_per_answer: Sequence[int]
) -> list[FoundEvidence]:
    """Let each eight claims of an answer share their passages.

    Example:
        An answer with 10 claims has two groups: the first 8 claims share their passages, and the
        last 2 share theirs.

    Args:
        found: The evidence of each claim of all answers, in order.
        claims_per_answer: The number of claims of each answer.

    Returns:
        The evidence of each claim, in the same order.
    """
    shared: list[FoundEvidence] = []
    start = 0
    for num_claims in claims_per_answer:
        end = start + num_claims
        for group_start in range(start, end, MAX_CLAIMS):
            group_end = min(group_start + MAX_CLAIMS, end)
            shared += _merge_passages(found[group_start:group_end])
        start = end
    return shared


def _merge_passages(group: Sequence[FoundEvidence]) -> list[FoundEvidence]:
    """Give each claim of a group the two nearest passages of every claim in it.

    Args:
        group: The evidence of each claim, whose passages are sorted by nearness.

    Returns:
        The new evidence of each claim. A claim without passages keeps none.
    """
    # Unlike a set, a dictionary keeps the passages in order.
    nearest: dict[Evidence, None] = {}
    for evidence in group:
        nearest |= dict.fromkeys(evidence.passages[:_SHARED_PASSAGES_PER_CLAIM])
    passages = tuple(nearest)

    merged = []
    for evidence in group:
        if not evidence.passages:
            merged.append(evidence)
            continue
        # The score of a passage is only valid for the claim that it was found for.
        scores = dict(zip(evidence.passages, evidence.scores, strict=True))
        scores_for_claim = tuple(scores.get(passage) for passage in passages)
        merged.append(FoundEvidence(passages, scores_for_claim))
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
