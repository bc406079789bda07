"""Verdicts on claims with the evidence that decides: supported, contradicted or not found.

`lm_factuality check` asks for them. A question to the judge holds up to eight claims that share
their evidence. `judges.verify` tells only supported claims from all others.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field

from judges.judge import Judge
from judges.typed import ParsedReply, Reply
from judges.verify import (
    PAGE_TOKENS,
    PageReply,
    check_claim_numbers,
    score_and_reason,
    split_by_page,
)
from lm_factuality.ground.sentences import split_sentences

CHECK = "check"
"""The name of the prompt, and the kind of its subjects."""

MAX_CLAIMS = 8
"""The most claims in one question."""

NO_PASSAGE = "no passage found"
"""The reason why a claim without evidence is not found."""

NO_CLAIM = "no claim: the text has no words"
"""The reason why a claim of punctuation alone is unscored."""

NO_VERDICT = "the judge's reply has no verdict on this claim"
"""The reason why a claim is unscored that a usable reply leaves out."""

# Marks that may stand around a quotation and not in the passage, and the sign for omitted words.
_EDGES = " \t\n\"'\u201c\u201d\u2018\u2019\u00ab\u00bb.,;:"
_OMISSION = re.compile(r"(?:(?<!\s)\s+)?(?:\[?\.\.\.\]?|\[?\u2026\]?)\s*")

Finding: TypeAlias = Literal["supported", "contradicted", "not_found"]
"""What the passages say about a claim."""

Verdict: TypeAlias = Literal["supported", "contradicted", "not_found", "unscored"]
"""A finding, or that there is none."""


@dataclass(frozen=True)
class Evidence:
    """A passage that may decide a claim."""

    document: str
    """The document that the passage is from, such as its path or address."""

    title: str
    """The title of the document, or an empty string."""

    text: str
    """The text of the passage, without the title."""

    @property
    def passage(self) -> str:
        """The passage as judges get it: with its title, if it has one, in the first line."""
        title = " ".join(self.title.split())
        return f"Title: {title}\n{self.text}" if title else self.text


@dataclass(frozen=True)
class ClaimQuestion:
    """A claim and the passages that it is held against."""

    claim: str
    """The claim."""

    evidence: tuple[Evidence, ...]
    """The passages. Without any, the claim is not found."""


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on a claim."""

    verdict: Verdict
    """What the evidence says about the claim. Unscored if the judge gave no usable reply."""

    probability: float | None
    """The probability that the claim is supported, from 0 to 1. None if the claim is unscored."""

    reason: str
    """The judge's reason, or why the claim is unscored."""

    evidence: int | None = None
    """The index in the question's evidence of the passage that decides. None if none does."""

    deciding_words: tuple[str, ...] = ()
    """The words of that passage that decide, as they are written there, for marking in a page."""


class ClaimFinding(Reply):
    """The verdict on one claim of a list, numbered from 1."""

    number: int
    reason: str
    verdict: Finding
    passage: int | None = None
    quotation: str = ""
    probability: Annotated[float, Field(ge=0, le=1)] | None = None


class CheckReply(PageReply):
    """The verdicts on the claims of a list."""

    verdicts: list[ClaimFinding]


def judge_claims(
    judge: Judge,
    questions: Sequence[ClaimQuestion],
    description: str = "checking",
    max_claims: int = MAX_CLAIMS,
) -> list[ClaimVerdict]:
    """Ask a judge what the evidence says about claims.

    Claims that share all their evidence are asked about together, up to eight in one question.

    Args:
        judge: The judge.
        questions: The claims with their evidence. A claim without evidence is not found and one
            without words is unscored; the judge is not asked about either.
        description: The label of the progress bar.
        max_claims: The most claims in one question.

    Returns:
        The verdicts, in the order of ``questions``. A claim is unscored, with the reason, if no
        reply can be used, if the reply leaves it out, or if several replies tie.

    Raises:
        BackendDownError: The judge cannot be reached. Answers received so far are kept.
    """
    groups = group_by_evidence(questions, max_claims)
    subjects = [_subject([questions[index] for index in group]) for group in groups]
    samples_by_group = judge.ask_typed(
        CHECK,
        CheckReply,
        subjects,
        description,
        check_claim_numbers,
        max_tokens=judge.config.fit_context(PAGE_TOKENS),
    )

    # The judge's verdicts replace these. What it was not asked about keeps them.
    verdicts = [_verdict_without_judge(question) for question in questions]
    for group, samples in zip(groups, samples_by_group, strict=True):
        for number, index in enumerate(group, start=1):
            verdicts[index] = combine_findings(samples, number, questions[index].evidence)
    return verdicts


def group_by_evidence(
    questions: Sequence[ClaimQuestion], max_claims: int = MAX_CLAIMS
) -> list[list[int]]:
    """Group the questions that a judge is asked together.

    Args:
        questions: All questions.
        max_claims: The most questions in a group.

    Returns:
        The indices of the questions with the same evidence per group, in the order of the first
        question with each evidence. Questions that need no judge are left out.
    """
    indices = [
        index
        for index, question in enumerate(questions)
        if _has_words(question.claim) and _has_evidence(question)
    ]
    return split_by_page(indices, lambda index: questions[index].evidence, max_claims)


def _has_words(text: str) -> bool:
    """Return whether a text has a letter or digit."""
    return re.search(r"\w", text) is not None


def _has_evidence(question: ClaimQuestion) -> bool:
    """Return whether a passage of a question has any text."""
    return any(evidence.text.strip() for evidence in question.evidence)


def _verdict_without_judge(question: ClaimQuestion) -> ClaimVerdict:
    """Return the verdict on a claim that no judge is asked about."""
    if not _has_words(question.claim):
        return ClaimVerdict("unscored", None, NO_CLAIM)
    return ClaimVerdict("not_found", 0.0, NO_PASSAGE)


def _subject(questions: Sequence[ClaimQuestion]) -> dict[str, Any]:
    """Return the variables of the prompt about claims that share their evidence."""
    # A claim of several lines would look like several claims.
    claims = [" ".join(question.claim.split()) for question in questions]
    passages = [evidence.passage for evidence in questions[0].evidence]
    return {"kind": CHECK, "claims": claims, "passages": passages}


def combine_findings(
    samples: Sequence[ParsedReply[CheckReply]], number: int, evidence: Sequence[Evidence]
) -> ClaimVerdict:
    """Combine what several replies say about one claim into one verdict, by majority.

    Args:
        samples: The replies to the question. Those that cannot be used have no vote.
        number: The number of the claim in the question, from 1.
        evidence: The passages of the question.

    Returns:
        The verdict of the only reply, or of most replies. Its probability is then the share of
        votes for support, and the rest is from the first reply of the majority.
    """
    votes = []
    problems = []
    for sample in samples:
        if sample.value is None:
            problems.append(sample.problem)
            continue
        # `check_claim_numbers` has refused replies with several verdicts on one claim.
        finding = next((item for item in sample.value.verdicts if item.number == number), None)
        if finding is None:
            problems.append(NO_VERDICT)
        else:
            votes.append(_to_verdict(finding, evidence))
    if not votes:
        return ClaimVerdict("unscored", None, problems[0] if problems else "no answer")
    # A single reply keeps its own probability and reason.
    return votes[0] if len(samples) == 1 else _majority(votes)


def _majority(votes: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict of most votes, unscored after a tie."""
    counts = Counter(vote.verdict for vote in votes).most_common()
    summary = ", ".join(f"{verdict} {count}" for verdict, count in counts)
    is_tie = len(counts) > 1 and counts[0][1] == counts[1][1]
    if is_tie:
        return ClaimVerdict("unscored", None, f"tie of {len(votes)} samples: {summary}")

    winner = counts[0][0]
    first_vote = next(vote for vote in votes if vote.verdict == winner)
    share = sum(vote.verdict == "supported" for vote in votes) / len(votes)
    reason = f"{len(votes)} samples: {summary}; {first_vote.reason}"
    return ClaimVerdict(winner, share, reason, first_vote.evidence, first_vote.deciding_words)


def _to_verdict(finding: ClaimFinding, evidence: Sequence[Evidence]) -> ClaimVerdict:
    """Return the verdict that one reply gives on a claim.

    A passage that does not exist and a quotation that is not in its passage are left out. The
    verdict counts all the same.
    """
    probability, reason = score_and_reason(
        finding.probability, finding.verdict == "supported", finding.reason
    )
    # Prompts number the passages from 1.
    if finding.passage is None or not 1 <= finding.passage <= len(evidence):
        return ClaimVerdict(finding.verdict, probability, reason)

    index = finding.passage - 1
    words = find_quotation(finding.quotation, evidence[index].text)
    return ClaimVerdict(finding.verdict, probability, reason, index, words)


def find_quotation(quotation: str, text: str) -> tuple[str, ...]:
    """Find the words that a judge quotes in a passage.

    White space, case and the shape of quotation marks may differ. ``...`` stands for words that the
    judge left out, so that a quotation may have several parts.

    Example:
        ``"opened ... in 1870."`` in ``The bridge Opened late in 1870.`` → ``("Opened", "in
        1870")``

    Args:
        quotation: The words that the judge copied.
        text: The text of the passage.

    Returns:
        The parts as the passage writes them. Empty if a part is missing from the passage.
    """
    parts = []
    for quoted_part in _OMISSION.split(quotation):
        words = quoted_part.strip(_EDGES).split()
        # The quotation may begin or end with "...".
        if not words:
            continue
        match = re.search(_quotation_pattern(words), text, re.IGNORECASE)
        if match is None:
            return ()
        parts.append(match[0])
    return tuple(parts)


def _quotation_pattern(words: Sequence[str]) -> str:
    """Return a regular expression for words of a quotation, which may not be parts of words."""
    patterns = []
    for word in words:
        pattern = re.sub("['\u2018\u2019]", "['\u2018\u2019]", re.escape(word))
        patterns.append(re.sub('["\u201c\u201d]', '["\u201c\u201d]', pattern))
    any_space = r"\s+".join(patterns)
    # The number 18 is not a part of 1870.
    return rf"(?<!\w){any_space}(?!\w)"


class DecidingSentence(NamedTuple):
    """A sentence of the evidence, and where it is."""

    sentence: str
    """The sentence."""

    start: int
    """Its offset in the text of the passage, -1 if its white space differs there."""


def deciding_sentence(
    claim: str, passage: str, deciding_words: Sequence[str]
) -> DecidingSentence | None:
    """Return the sentence of a passage that decides a claim, such as one that contradicts it.

    Args:
        claim: The claim.
        passage: The text of the passage that decides.
        deciding_words: The words of the passage that decide.

    Returns:
        The sentence that has all deciding words. Of several, that with the most words of the claim.
        None for a passage without a sentence.
    """
    claim_words = set(claim.lower().split())

    def rank(sentence: str) -> tuple[int, int]:
        """Count the deciding words in a sentence, and then the words of the claim."""
        num_deciding = sum(words in sentence for words in deciding_words)
        return num_deciding, len(claim_words & set(sentence.lower().split()))

    sentences = [sentence for line in passage.split("\n") for sentence in split_sentences(line)]
    best_sentence = max(sentences, key=rank, default="")
    return DecidingSentence(best_sentence, passage.find(best_sentence)) if best_sentence else None
