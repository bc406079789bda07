"""Whether passages support claims, one at a time and all of a page at once."""

from __future__ import annotations

import json

import pytest

from judges.answers import Answer
from judges.judge import Judge
from judges.templates import Prompts
from judges.typed import Typed, read_reply
from judges.verify import (
    PAGE_CLAIMS,
    NumberedSupport,
    PageReply,
    Pair,
    SupportReply,
    Verification,
    combine,
    numbers_exist,
    page_subject,
    plan,
    verify,
)
from tests.judges.server import Act

S, N, U = "supported", "not_supported", "unscored"


def said(
    verdict: str | None, probability: float | None = None, reason: str = "so"
) -> Typed[SupportReply]:
    if verdict is None:
        return Typed(None, "no JSON object")
    return Typed(SupportReply(reason=reason, verdict=verdict, probability=probability))


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
    found = combine([said(verdict, probability)])
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
    found = combine([said(verdict) for verdict in verdicts])
    assert (found.verdict, found.score) == expected
    if verdicts == [S, N]:
        assert found.reason.startswith("tie: 1 of 2")


def _model(prompt: str, attempt: int) -> Act:
    """Supports what does not say "not"; of a list it forgets the second claim."""
    if "Claims:\n" not in prompt:
        claim = prompt.rsplit("Claim: ", 1)[1].split("\n")[0]
        return Act(
            text=json.dumps(
                {"reason": "singly", "verdict": N if "not" in claim else S, "probability": None}
            )
        )
    claims = prompt.rsplit("Claims:\n", 1)[1].split("\n\n")[0].split("\n")
    verdicts = [
        {"number": number, "reason": "together", "verdict": N if "not" in claim else S}
        for number, claim in enumerate(claims, 1)
        if number != 2
    ]
    return Act(text=json.dumps({"verdicts": verdicts}))


PAIRS = [
    Pair("a", ("p",)),
    Pair("b", ()),
    Pair("c is not", ("p",)),
    Pair("d", ("", " ")),
    Pair("...", ("p",)),
    Pair("e", ("p",)),
]


@pytest.mark.parametrize(
    ("mode", "how"), [("fact", ["singly"] * 3), ("page", ["together", "singly", "together"])]
)
def test_pairs_without_evidence_are_not_asked(server, config, tmp_path, mode, how):
    server.script = _model
    with Judge.open(config(verify=mode), store=tmp_path / "a.sqlite") as judge:
        planned = plan(judge, PAIRS)
        found = verify(judge, PAIRS)
        assert (planned.total, judge.usage.calls) == ((3, 3) if mode == "fact" else (1, 2))
        assert verify(judge, [Pair("b", ())]) == [Verification(U, None, "no evidence")]
    assert [each.verdict for each in found] == [S, U, N, U, U, S]
    assert [each.reason for each in found if each.verdict == U] == [
        "no evidence",
        "no evidence",
        "no claim",
    ]
    assert [each.reason for each in found if each.verdict != U] == how


@pytest.mark.parametrize("mode", ["fact", "page"])
def test_a_plan_is_not_exceeded_by_what_a_page_leaves_out(server, config, tmp_path, mode):
    server.script = lambda prompt, attempt: Act(
        text='{"verdicts": []}' if "Claims:" in prompt else "Hm."
    )
    pairs = [Pair(f"She won prize {letter}.", ("She won.",)) for letter in "abc"]
    with Judge.open(config(verify=mode), store=tmp_path / "a.sqlite") as judge:
        most = plan(judge, pairs).at_most
        verify(judge, pairs)
    assert len(server.bodies) <= most.calls
    assert sum(body["max_tokens"] for body in server.bodies) <= most.max_completion_tokens
    assert len(server.bodies) == (6 if mode == "fact" else 7)


def test_a_page_takes_so_many_claims_in_one_question(server, config, tmp_path):
    server.script = _model
    with Judge.open(config(verify="page"), store=tmp_path / "a.sqlite") as judge:
        found = verify(
            judge, [Pair(f"claim {number}", ("p",)) for number in range(PAGE_CLAIMS + 1)]
        )
        assert {each.verdict for each in found} == {S}
        assert judge.usage.calls == 3  # two lists, and the claim that the first reply left out


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
    said = PageReply(
        verdicts=[NumberedSupport(number=number, reason="so", verdict=S) for number in numbers]
    )
    assert numbers_exist(said, page_subject(["a", "b"], ["p"])) == problem


def test_the_prompts_show_claims_and_passages():
    passages = ("Title: Ada\nAda won.", "More.")
    alone = Prompts().render("verify", Pair("She {{ won }}.", passages).subject)
    together = Prompts().render(
        "verify_page", page_subject(["She {{ won }}.", "She lost."], passages)
    )
    assert "Claim: She {{ won }}." in alone
    assert "1. She {{ won }}.\n2. She lost." in together
    for text in ("Passage 1:\nTitle: Ada\nAda won.", "Passage 2:\nMore."):
        assert text in alone
        assert text in together
