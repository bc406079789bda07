"""Whether passages support claims, one at a time."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from judges.answers import Answer
from judges.judge import Judge
from judges.templates import Prompts
from judges.typed import ParsedReply, read_reply
from judges.verify import (
    Pair,
    SupportReply,
    Verification,
    check_claim_numbers,
    combine_samples,
    page_subject,
    verify,
)
from tests.judges.server import Act

S, N, U = "supported", "not_supported", "unscored"


def said(
    verdict: str | None, probability: float | None = None, reason: str = "so"
) -> ParsedReply[SupportReply]:
    if verdict is None:
        return ParsedReply(None, "no JSON object")
    return ParsedReply(SupportReply(reason=reason, verdict=verdict, probability=probability))


@pytest.mark.parametrize(
    ("verdict", "probability", "score", "is_told"),
    [
        (S, None, 1.0, False),
        (N, None, 0.0, False),
        (S, 0.87, 0.87, False),
        (N, 0.1, 0.1, False),
        (N, 0.9, 0.0, True),
        (S, 0.1, 1.0, True),
        # Judges have thresholds of their own, the lexical one 0.87 for claims and 0.41 for facts.
        (N, 0.8725, 0.8725, False),
        (S, 0.4069, 0.4069, False),
    ],
)
def test_the_score_is_what_is_stated_unless_it_contradicts_the_verdict(
    verdict, probability, score, is_told
):
    found = combine_samples([said(verdict, probability)])
    assert (found.verdict, found.score) == (verdict, score)
    assert ("contradicts the verdict" in found.reason) == is_told


@pytest.mark.parametrize(
    "text",
    [
        '{"reason": "x", "verdict": "supported", "probability": 1.5}',
        '{"reason": "x", "verdict": "yes"}',
    ],
)
def test_other_values_have_no_verdict(text):
    assert read_reply(Answer(text, "stop"), SupportReply, {}).value is None


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([S, S, N], (S, pytest.approx(2 / 3))),
        ([S, N, N, N], (N, 0.25)),
        ([S, N], (U, None)),
        ([S, None, None], (S, 1.0)),
        ([None, None], (U, None)),
        ([], (U, None)),
    ],
)
def test_several_samples_vote(verdicts, expected):
    found = combine_samples([said(verdict) for verdict in verdicts])
    assert (found.verdict, found.score) == expected
    if verdicts == [S, N]:
        assert found.reason.startswith("tie: 1 of 2")


def _model(prompt: str, attempt: int) -> Act:
    """Supports what does not say "not"."""
    claim = prompt.rsplit("Claim: ", 1)[1].split("\n")[0]
    reply = {"reason": "so", "verdict": N if "not" in claim else S, "probability": None}
    return Act(text=json.dumps(reply))


PAIRS = [
    Pair("a", ("p",)),
    Pair("b", ()),
    Pair("c is not", ("p",)),
    Pair("d", ("", " ")),
    Pair("...", ("p",)),
    Pair("e", ("p",)),
]


def test_pairs_without_evidence_are_not_asked(server, config, tmp_path):
    server.script = _model
    with Judge.open(config(), store=tmp_path / "a.sqlite") as judge:
        found = verify(judge, PAIRS)
        assert judge.usage.calls == 3
    assert [each.verdict for each in found] == [S, U, N, U, U, S]
    assert [each.reason for each in found if each.verdict == U] == [
        "no evidence",
        "no evidence",
        "no claim",
    ]
    assert found[1] == Verification(U, None, "no evidence")


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([1, 2], ""),
        ([2], ""),
        ([], ""),
        ([0], "number 0 of 2"),
        ([3], "number 3 of 2"),
        ([1, 1], "number 1 twice"),
    ],
)
def test_numbers_are_those_of_the_list(numbers, problem):
    verdicts = [SimpleNamespace(number=number) for number in numbers]
    reply = SimpleNamespace(verdicts=verdicts)
    assert check_claim_numbers(reply, page_subject(["a", "b"], ["p"])) == problem


def test_the_prompt_shows_claim_and_passages():
    passages = ("Title: Ada\nAda won.", "More.")
    prompt = Prompts().render("verify", Pair("She {{ won }}.", passages).subject)
    for text in ("Claim: She {{ won }}.", "Passage 1:\nTitle: Ada\nAda won.", "Passage 2:\nMore."):
        assert text in prompt
