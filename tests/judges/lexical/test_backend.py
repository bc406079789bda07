"""The lexical judge as a backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.answers import Request
from judges.backends.lexical import LexicalBackend
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.typed import read_reply
from judges.verify import SupportReply, combine_samples
from lm_factuality.benchmarks.felm.verdicts import read_verdict
from lm_factuality.ground.errors import ConfigError, DataError

PASSAGES = ["Title: Old Bridge\nThe Old Bridge opened in 1870 and is built of stone.", ""]


def of(**options):
    return LexicalBackend(JudgeConfig("lexical", "lexical", options=options))


def ask(subject, **options):
    ((number, answer),) = of(**options).answer([Request("not read", subject=subject)])
    assert number == 0
    return answer


def test_verify_says_what_the_prompt_asks_for():
    answer = ask(
        {"kind": "verify", "claim": "The Old Bridge opened in 1870.", "passages": PASSAGES}
    )
    assert (answer.finish_reason, answer.prompt_tokens, answer.error) == ("stop", None, None)
    verification = combine_samples([read_reply(answer, SupportReply, {})])
    assert verification.verdict == "supported"
    assert verification.reason == "4 of 4 content words covered"
    assert verification.score > 0.9


@pytest.mark.parametrize("kind", ["segments", "claims"])
@pytest.mark.parametrize(
    ("units", "flagged"),
    [
        (["Sure!", "The Old Bridge opened in 1870.", "It was moved to Oslo in 1923."], {3}),
        (
            ["The Old Bridge opened in 1923.", "It is.", "The Old Bridge was sold to Otto Berg."],
            {1, 3},
        ),
        (["The Old Bridge is built of stone."], set()),
        ([], set()),
    ],
)
def test_units_below_the_threshold_are_flagged(kind, units, flagged):
    answer = ask(
        {"kind": kind, "question": "When did it open?", "units": units, "passages": PASSAGES}
    )
    assert read_verdict(answer.text, len(units)) == flagged


@pytest.mark.parametrize("passages", [[], ["", " \n"]])
@pytest.mark.parametrize("kind", ["verify", "segments", "claims"])
def test_no_passages_is_no_evidence(kind, passages):
    answer = ask({"kind": kind, "claim": "x", "question": "", "units": ["x"], "passages": passages})
    assert answer.text is None
    assert answer.error.startswith("no evidence")


@pytest.mark.parametrize("subject", [{}, {"kind": "extract_claims", "units": []}])
def test_other_kinds_name_those_it_knows(subject):
    assert "only verify, segments, claims" in ask(subject).error


def test_pairs_that_a_prompt_does_not_tell_apart_have_their_own_answers(tmp_path: Path):
    (tmp_path / "const.jinja").write_text("Is it so?", encoding="utf-8")
    config = JudgeConfig("mine", "lexical", prompts={"verify": tmp_path / "const.jinja"})
    claims = ["The Old Bridge opened in 1870.", "The Old Bridge was sold to Otto Berg in 1923."]
    subjects = [{"kind": "verify", "claim": claim, "passages": PASSAGES} for claim in claims]
    with Judge.open(config, store=tmp_path / "a.sqlite") as judge:
        for stored in (0, 2):
            answers = [answer.text for (answer,) in judge.ask("verify", subjects, "asking")]
            assert [json.loads(text)["verdict"] for text in answers] == [
                "supported",
                "not_supported",
            ]
            assert judge.usage.stored == stored


def test_options():
    subject = {"kind": "verify", "claim": "The Old Bridge opened in 1870.", "passages": PASSAGES}
    assert ask(subject, threshold=1).text.count('"not_supported"') == 1
    assert of().identity == of().identity != of(threshold=0.5).identity
    for options, said in (
        ({"treshold": 0.5}, "did you mean threshold"),
        ({"threshold": "high"}, "valid number"),
        ({"threshold": True}, "valid number"),
        ({"coefficients": 3}, "path of a file"),
    ):
        with pytest.raises(ConfigError, match=said):
            of(**options)
    with pytest.raises(DataError, match="no_such.json: not coefficients"):
        of(coefficients="no_such.json")
