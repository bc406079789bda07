"""Answers with verdicts on their claims, as a check finds them."""

from __future__ import annotations

from typing import Any

from judges.claims import Evidence
from lm_factuality.check.corrections import Correction
from lm_factuality.check.results import CheckedAnswer, CheckedClaim, CheckResult

BRIDGE = Evidence(
    "docs/bridge.md",
    "Harrow Bridge",
    "A ferry crossed the river until 1850. 🌉 Harrow Bridge opened in 1871. It has four arches.",
)
FERRY = Evidence("docs/ferry.md", "", "The ferry was sold in 1872.")

WRONG_YEAR = Correction(
    answer="mixed",
    start=0,
    end=29,
    claim="Harrow Bridge opened in 1875.",
    verdict="supported",
    person="Ana",
    note="a typing error",
)
"""What a person says about a claim of `bridge_result`."""


def claim_of(answer: str, text: str, start: int, verdict: str, **changes: Any) -> CheckedClaim:
    """Return a claim that stands in its answer as it is written.

    Args:
        answer: The id of the answer.
        text: The claim.
        start: Where it begins in the answer.
        verdict: The verdict.
        changes: Other fields of the claim.
    """
    is_unscored = verdict == "unscored"
    fields: dict[str, Any] = {
        "answer": answer,
        "text": text,
        "start": start,
        "end": start + len(text),
        "verdict": verdict,
        "probability": None if is_unscored else float(verdict == "supported"),
        "reason": "no usable reply" if is_unscored else f"a reason for {verdict}",
        "evidence": (BRIDGE, FERRY),
        "scores": (7.5, 1.25),
    }
    return CheckedClaim(**(fields | changes))


def answer_of(
    answer_id: str, *sentences: tuple[str, str], question: str = "", **changes: Any
) -> CheckedAnswer:
    """Return an answer whose sentences are its claims.

    Args:
        answer_id: The id of the answer.
        sentences: The text of each claim and the verdict on it.
        question: The question.
        changes: Other fields of the claims.
    """
    claims = []
    text = ""
    for sentence, verdict in sentences:
        separator = " " if text else ""
        start = len(text) + len(separator)
        claims.append(claim_of(answer_id, sentence, start, verdict, **changes))
        text += separator + sentence
    return CheckedAnswer(answer_id, question, text, tuple(claims))


def refusal_of(answer_id: str) -> CheckedAnswer:
    """Return an answer that refuses to answer."""
    return CheckedAnswer(answer_id, "Who will win?", "I cannot say.", (), is_refusal=True)


def bridge_result(*more_answers: CheckedAnswer) -> CheckResult:
    """Return a check of three answers: one all supported, one with each verdict, and a refusal."""
    contradicted = {"deciding": 0, "deciding_words": ("1871",)}
    mixed = answer_of(
        "mixed",
        ("Harrow Bridge opened in 1875.", "contradicted"),
        ("It has four arches.", "supported"),
        ("Its architect was Swiss.", "not_found"),
        ("It is nice.", "unscored"),
        question="What about the bridge?",
        **contradicted,
    )
    right = answer_of("right", ("The ferry was sold in 1872.", "supported"), question="The ferry?")
    answers = (right, mixed, refusal_of("refused"), *more_answers)
    return CheckResult(answers, ("docs/scan.pdf: has no text; recognise its text first",))
