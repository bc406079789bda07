"""Verdicts on claims: which claims share a question, and how a reply becomes verdicts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from judges.answers import Answer
from judges.claims import (
    NO_CLAIM,
    NO_PASSAGE,
    NO_VERDICT,
    CheckReply,
    ClaimQuestion,
    ClaimVerdict,
    Evidence,
    combine_findings,
    deciding_sentence,
    find_quotation,
    group_by_evidence,
    judge_claims,
)
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.typed import ParsedReply, read_reply
from tests.judges.server import Act

BRIDGE = Evidence("bridge.md", "Old Bridge", "The Old Bridge opened in 1870. It is of stone.")
HARBOUR = Evidence("harbour.md", "", "The harbour froze in 1903.")


def question(claim: str, *evidence: Evidence) -> ClaimQuestion:
    """A claim with its evidence, by default the passage about the bridge."""
    return ClaimQuestion(claim, evidence or (BRIDGE,))


def finding(number: int = 1, verdict: str = "supported", **changes: Any) -> dict[str, Any]:
    """The JSON of a verdict on one claim."""
    defaults = {"reason": f"so {number}", "passage": 1, "quotation": "", "probability": None}
    return {"number": number, "verdict": verdict, **defaults, **changes}


def reply(*findings: dict[str, Any]) -> ParsedReply[CheckReply]:
    """A judge's reply with these verdicts."""
    return ParsedReply(CheckReply.model_validate({"verdicts": list(findings)}))


def claims_in_prompt(prompt: str) -> list[str]:
    """Return the claims that a prompt asks about."""
    return re.findall(r"^\d+\. (.*)$", prompt, re.MULTILINE)


def answer_by_claim(prompt: str, attempt: int) -> Act:
    """A script of the server: each claim gets its own text as the reason, without those with skip."""
    findings = []
    for number, claim in enumerate(claims_in_prompt(prompt), start=1):
        if "skip" not in claim:
            findings.append(finding(number, reason=claim))
    return Act(text=json.dumps({"verdicts": findings}))


@pytest.fixture
def judge(server, config, tmp_path):
    """Open a judge behind a server that answers by claim."""
    server.script = answer_by_claim
    with Judge.open(config(), store=tmp_path / "answers.sqlite") as open_judge:
        yield open_judge


def test_up_to_eight_claims_with_the_same_evidence_share_a_question():
    """The passages are then sent once for eight claims, which costs less."""
    questions_with_same_evidence = [question(f"claim {number}", BRIDGE) for number in range(10)]

    groups = group_by_evidence(questions_with_same_evidence)

    assert groups == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]


def test_claims_with_different_evidence_are_asked_about_separately():
    questions = [
        question("first", BRIDGE),
        question("second", HARBOUR),
        question("third", BRIDGE),
        question("fourth", BRIDGE, HARBOUR),
    ]

    groups = group_by_evidence(questions)

    assert sorted(groups) == [[0, 2], [1], [3]]


def test_verdicts_have_the_order_of_the_questions(judge):
    """The judge repeats each claim as the reason of its verdict."""
    questions = [
        question("first", BRIDGE),
        question("second", HARBOUR),
        question("third", BRIDGE),
        question("fourth", BRIDGE, HARBOUR),
    ]

    verdicts = judge_claims(judge, questions)

    assert [verdict.reason for verdict in verdicts] == ["first", "second", "third", "fourth"]
    assert judge.usage.calls == 3  # the first and the third claim share a question


def test_claims_can_be_asked_about_one_at_a_time(judge):
    """Some models judge a claim better alone."""
    judge_claims(judge, [question("first"), question("second")], max_claims=1)

    assert judge.usage.calls == 2


def test_claim_omitted_from_the_reply_is_unscored(judge):
    """The other claims of the same question keep their verdicts."""
    # The judge leaves out claims with the word "skip".
    first, skipped, third = judge_claims(
        judge, [question("first"), question("skip this"), question("third")]
    )

    assert first.verdict == "supported"
    assert skipped == ClaimVerdict("unscored", None, NO_VERDICT)
    assert third.verdict == "supported"


@pytest.mark.parametrize(
    ("unasked_question", "verdict"),
    [
        pytest.param(
            ClaimQuestion("It froze.", ()),
            ClaimVerdict("not_found", 0.0, NO_PASSAGE),
            id="no passages",
        ),
        pytest.param(
            question("It froze.", Evidence("empty.md", "Empty", " \n")),
            ClaimVerdict("not_found", 0.0, NO_PASSAGE),
            id="blank passage",
        ),
        pytest.param(question("..."), ClaimVerdict("unscored", None, NO_CLAIM), id="no words"),
    ],
)
def test_a_claim_without_evidence_or_words_costs_no_call(judge, unasked_question, verdict):
    """The judge could only guess."""
    verdicts = judge_claims(judge, [unasked_question])

    assert verdicts == [verdict]
    assert judge.usage.calls == 0


def test_unusable_reply_leaves_its_claims_unscored(judge, server):
    """A missing verdict is never counted as "not found"."""
    server.script = lambda prompt, attempt: Act(text="I cannot say.")

    verdicts = judge_claims(judge, [question("first"), question("second")])

    assert [verdict.verdict for verdict in verdicts] == ["unscored", "unscored"]
    assert "no JSON object" in verdicts[0].reason


def test_quoted_words_keep_the_spelling_of_the_passage():
    """Judges change capitals and add quotation marks."""
    passage = Evidence("bridge.md", "Old Bridge", "The Old Bridge opened in 1870.")
    sample = reply(finding(verdict="contradicted", passage=1, quotation='"opened IN 1870."'))

    verdict = combine_findings([sample], number=1, evidence=[passage])

    assert verdict.evidence == 0  # the first passage
    assert verdict.deciding_words == ("opened in 1870",)


def test_verdict_with_a_false_quotation_counts_without_deciding_words():
    """Judges misquote, and only words of the passage can be marked in it."""
    passage = Evidence("bridge.md", "Old Bridge", "The Old Bridge opened in 1870.")
    sample = reply(finding(verdict="contradicted", passage=1, quotation="opened in 1880"))

    verdict = combine_findings([sample], number=1, evidence=[passage])

    assert verdict.verdict == "contradicted"
    assert verdict.evidence == 0  # the first passage
    assert verdict.deciding_words == ()


def test_nonexistent_passage_is_left_out():
    """The verdict still counts."""
    only_passage = Evidence("bridge.md", "Old Bridge", "The Old Bridge opened in 1870.")
    sample = reply(finding(verdict="supported", passage=7))

    verdict = combine_findings([sample], number=1, evidence=[only_passage])

    assert verdict.verdict == "supported"
    assert verdict.evidence is None


@pytest.mark.parametrize(
    ("quotation", "words"),
    [
        pytest.param("Bridge ... stone", ("Bridge", "stone"), id="omission"),
        pytest.param("187", (), id="part of a number"),
        pytest.param("Bridge ... brick", (), id="one part missing"),
        pytest.param("", (), id="empty"),
    ],
)
def test_quotations_are_found_by_whole_words(quotation, words):
    passage = "The Old Bridge opened in 1870. It is of stone."

    assert find_quotation(quotation, passage) == words


def test_the_majority_of_samples_decides():
    """The probability of support is the share of the samples that say "supported"."""
    samples = [
        reply(finding(verdict="contradicted", reason="year")),
        reply(finding(verdict="supported")),
        reply(finding(verdict="contradicted")),
    ]

    verdict = combine_findings(samples, number=1, evidence=[BRIDGE])

    assert verdict.verdict == "contradicted"
    assert verdict.probability == pytest.approx(1 / 3)
    assert verdict.reason == "3 samples: contradicted 2, supported 1; year"


def test_a_tie_of_samples_is_unscored():
    """No rule prefers one verdict to another."""
    samples = [reply(finding(verdict="not_found")), reply(finding(verdict="supported"))]

    verdict = combine_findings(samples, number=1, evidence=[BRIDGE])

    assert verdict.verdict == "unscored"
    assert verdict.probability is None
    assert verdict.reason.startswith("tie of 2 samples")


@pytest.mark.parametrize("verdict", ["not_supported", "yes"])
def test_an_unknown_verdict_makes_a_reply_unusable(verdict):
    """These words leave open whether the claim is contradicted or not found."""
    text = json.dumps({"verdicts": [finding(verdict=verdict)]})

    reply = read_reply(Answer(text, "stop"), CheckReply, {})

    assert reply.value is None


def test_the_deciding_sentence_is_the_one_with_the_deciding_words():
    passage = "The Old Bridge opened in 1870. It is of stone."

    sentence = deciding_sentence("The bridge is of wood.", passage, ("stone",))

    assert sentence is not None
    assert sentence.sentence == "It is of stone."
    assert passage[sentence.start :] == "It is of stone."


def test_the_offline_judge_gives_all_three_verdicts(tmp_path):
    """It leaves a claim unscored that says nothing to check."""
    passage = Evidence("bridge.md", "Old Bridge", "The Old Bridge opened in 1870. It is of stone.")
    questions = [
        question("The Old Bridge opened in 1870.", passage),
        question("The Old Bridge opened in 1871.", passage),
        question("The Old Bridge was sold to a brewer.", passage),
        question("It is so.", passage),
    ]

    with Judge.open(JudgeConfig("lexical", "lexical"), store=tmp_path / "answers.sqlite") as judge:
        verdicts = judge_claims(judge, questions)

    assert [verdict.verdict for verdict in verdicts] == [
        "supported",
        "contradicted",
        "not_found",
        "unscored",
    ]
    contradicted = verdicts[1]
    assert contradicted.evidence == 0  # the first passage
    assert contradicted.deciding_words == ("1870",)
