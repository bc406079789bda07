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
        check=check_claim_numbers,
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
    """Group the questions with the same evidence, which a judge is asked together.

    Questions without evidence, or without words in their claim, are left out, because
    `_verdict_without_judge` answers them.

    Example:
        If the second of four questions has no evidence, and the last one has other evidence than
        the rest: ``[[0, 2], [3]]``

    Returns:
        The indices of the questions in each group. A group has at most ``max_claims`` of them.
    """
    indices_to_ask = []
    for index, question in enumerate(questions):
        has_evidence = any(evidence.text.strip() for evidence in question.evidence)
        if has_evidence and _has_words(question.claim):
            indices_to_ask.append(index)
    return split_by_page(indices_to_ask, lambda index: questions[index].evidence, max_claims)


def _has_words(text: str) -> bool:
    """Return whether a text has a letter or digit."""
    return re.search(r"\w", text) is not None


def _verdict_without_judge(question: ClaimQuestion) -> ClaimVerdict:
    """Return the verdict on a claim without words or without evidence."""
    if not _has_words(question.claim):
        return ClaimVerdict("unscored", None, NO_CLAIM)
    return ClaimVerdict("not_found", 0.0, NO_PASSAGE)


def _subject(questions: Sequence[ClaimQuestion]) -> dict[str, Any]:
    """Return the variables of the prompt that asks about claims with the same evidence."""
    # The prompt lists the claims line by line, so each has to be a single line.
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
        The verdict of the only reply, or that of most replies. Unscored if no reply has a verdict
        on the claim.
    """
    votes = []
    problems = []
    for sample in samples:
        if sample.value is None:
            problems.append(sample.problem)
            continue
        # `check_claim_numbers` has refused replies with several verdicts on one claim.
        findings = [finding for finding in sample.value.verdicts if finding.number == number]
        if findings:
            votes.append(_to_verdict(findings[0], evidence))
        else:
            problems.append(NO_VERDICT)
    if not votes:
        return ClaimVerdict("unscored", None, problems[0] if problems else "no answer")
    # A single reply keeps its own probability and reason.
    return votes[0] if len(samples) == 1 else _majority_verdict(votes)


def _majority_verdict(votes: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict of most votes, unscored after a tie.

    Its probability is the share of votes for support. The passage that decides is that of the first
    vote for the verdict.

    Example:
        The reason of two votes against one: ``3 samples: supported 2, not_found 1; Passage 1.``
    """
    counts = Counter(vote.verdict for vote in votes)
    ranking = counts.most_common()
    summary = ", ".join(f"{verdict} {count}" for verdict, count in ranking)
    winner, most = ranking[0]
    is_tie = list(counts.values()).count(most) > 1
    if is_tie:
        return ClaimVerdict("unscored", None, f"tie of {len(votes)} samples: {summary}")

    first_vote = next(vote for vote in votes if vote.verdict == winner)
    share = counts["supported"] / len(votes)
    reason = f"{len(votes)} samples: {summary}; {first_vote.reason}"
    return ClaimVerdict(winner, share, reason, first_vote.evidence, first_vote.deciding_words)


def _to_verdict(finding: ClaimFinding, evidence: Sequence[Evidence]) -> ClaimVerdict:
    """Return the verdict that one reply gives on a claim.

    The verdict counts even if the reply names a passage that does not exist, or quotes words that
    are not in the passage. These are then left out.
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
    """Find the words that a judge quotes in a passage, and return them as the passage writes them.

    White space, case and the shape of quotation marks may differ. A quotation with ``...`` has
    several parts. If the passage lacks one of them, the result is empty.

    Example:
        ``"opened ... in 1870."`` in ``The bridge Opened late in 1870.`` → ``("Opened", "in
        1870")``
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
    r"""Return a regular expression that finds words with any white space and quotation marks.

    Example:
        ``["in", "1870"]`` → ``(?<!\w)in\s+1870(?!\w)``, which does not find ``in 18709``
    """
    pattern = r"\s+".join(map(re.escape, words))
    for quotation_marks in ("['\u2018\u2019]", '["\u201c\u201d]'):
        # Each mark in the pattern becomes the class of all marks like it.
        pattern = re.sub(quotation_marks, quotation_marks, pattern)
    return rf"(?<!\w){pattern}(?!\w)"


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
        deciding_words: The words of the passage that decide, such as ``("in 1870",)``.

    Returns:
        The sentence that has most of the deciding words. Of several, that with the most words of
        the claim. None for a passage without a sentence.
    """
    claim_words = set(claim.lower().split())

    def rank(sentence: str) -> tuple[int, int]:
        """Count the deciding words in a sentence, and then the words of the claim."""
        num_deciding = sum(words in sentence for words in deciding_words)
        return num_deciding, len(claim_words & set(sentence.lower().split()))

    sentences: list[str] = []
    for line in passage.split("\n"):
        sentences += split_sentences(line)
    if not sentences:
        return None
    best_sentence = max(sentences, key=rank)
    return DecidingSentence(best_sentence, passage.find(best_sentence))
