"""What a check finds: the claims of each answer, with verdicts and evidence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from judges.claims import Evidence, Verdict
from lm_factuality.check.answers import AnswerProblem
from lm_factuality.scores.intervals import Interval, ratio_interval
from lm_factuality.scores.statistics import ratio

VERDICTS: tuple[Verdict, ...] = ("supported", "contradicted", "not_found", "unscored")
"""All verdicts, in the order of tables."""


@dataclass(frozen=True)
class CheckedClaim:
    """A claim of an answer, with its verdict."""

    answer: str
    """The id of the answer."""

    text: str
    """The claim."""

    start: int
    """Where the claim begins in the answer's text."""

    end: int
    """Where it ends."""

    verdict: Verdict
    """What the evidence says about the claim."""

    probability: float | None
    """The probability that the claim is supported. None if it is unscored."""

    reason: str
    """The judge's reason, or why the claim is unscored."""

    evidence: tuple[Evidence, ...] = ()
    """The passages that the judge saw: the nearest to the claim first, or those of all claims that
    it was asked about together.
    """

    scores: tuple[float | None, ...] = ()
    """How near each passage is to the claim. None for one that was found for another claim."""

    deciding: int | None = None
    """The index in ``evidence`` of the passage that decides. None if no passage does."""

    deciding_words: tuple[str, ...] = ()
    """The words of that passage that decide, as they are written there."""

    judged: Verdict | None = None
    """The judge's verdict, if people corrected or confirmed it. Otherwise None."""

    person: str = ""
    """Who corrected the verdict."""

    note: str = ""
    """What this person noted."""


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer with the verdicts on its claims."""

    id: str
    """The id of the answer."""

    question: str
    """The question, or an empty text."""

    text: str
    """The answer as it was written."""

    claims: tuple[CheckedClaim, ...]
    """The claims in their order. Empty for a refusal, or an answer that says nothing."""

    is_refusal: bool = False
    """Whether the answer refuses to answer."""

    def counts(self) -> Counter[Verdict]:
        """Count the claims by verdict."""
        return Counter(claim.verdict for claim in self.claims)

    @property
    def num_supported(self) -> int:
        """The number of supported claims."""
        return self.counts()["supported"]

    @property
    def num_scored(self) -> int:
        """The number of claims that have a verdict other than unscored."""
        return len(self.claims) - self.counts()["unscored"]


@dataclass(frozen=True)
class CheckResult:
    """All answers of a check, and what could not be checked."""

    answers: tuple[CheckedAnswer, ...]
    """The answers in the order of the source."""

    problems: tuple[str, ...] = ()
    """A sentence about each row, document and correction that could not be used."""

    unread_answers: tuple[AnswerProblem, ...] = ()
    """The rows and files among the answers that could not be read. They count as unscored."""

    @cached_property
    def claims(self) -> tuple[CheckedClaim, ...]:
        """The claims of all answers."""
        return tuple(claim for answer in self.answers for claim in answer.claims)

    def count(self, verdict: Verdict) -> int:
        """Return the number of claims with a verdict."""
        return sum(claim.verdict == verdict for claim in self.claims)

    @property
    def num_refusals(self) -> int:
        """The number of answers that refuse to answer."""
        return sum(answer.is_refusal for answer in self.answers)

    @property
    def num_scored(self) -> int:
        """The number of claims with a verdict other than unscored."""
        return len(self.claims) - self.count("unscored")

    @property
    def share_supported(self) -> float:
        """The share of the scored claims that are supported, NaN without any."""
        return ratio(self.count("supported"), self.num_scored)

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of `share_supported`. The claims of one answer are a cluster."""
        supported = [answer.num_supported for answer in self.answers]
        scored = [answer.num_scored for answer in self.answers]
        return ratio_interval(supported, scored)

    @property
    def is_mostly_unscored(self) -> bool:
        """Whether more than half is unscored. Each unread answer counts as one claim."""
        num_unread = len(self.unread_answers)
        num_unscored = self.count("unscored") + num_unread
        return 2 * num_unscored > len(self.claims) + num_unread

    @property
    def num_corrected(self) -> int:
        """The number of claims whose verdict people corrected or confirmed."""
        return sum(claim.judged is not None for claim in self.claims)

    def as_judged(self) -> "CheckResult":
        """Return the result with the judge's verdicts, without people's corrections."""
        answers = []
        for answer in self.answers:
            claims = tuple(
                replace(claim, verdict=claim.judged or claim.verdict, judged=None)
                for claim in answer.claims
            )
            answers.append(replace(answer, claims=claims))
        return replace(self, answers=tuple(answers))

    def worst_claims(self, count: int) -> Sequence[CheckedClaim]:
        """Return at most ``count`` claims that evidence does not support, the worst first.

        Contradicted claims come before those that were not found. Within each kind, the claims that
        are least likely to be supported come first.
        """
        unsupported = [
            claim for claim in self.claims if claim.verdict in ("contradicted", "not_found")
        ]
        unsupported.sort(key=lambda claim: (claim.verdict == "not_found", claim.probability or 0.0))
        return unsupported[:count]
