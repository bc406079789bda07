"""The lexical judge as a backend: the replies that it gives instead of a language model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges.answers import Answer, Request
from judges.backends.lexical import LexicalBackend
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.typed import read_reply
from judges.verify import SupportReply, combine_samples
from lm_factuality.benchmarks.felm.verdicts import read_verdict
from lm_factuality.ground.errors import ConfigError, DataError

PASSAGES = ["Title: Old Bridge\nThe Old Bridge opened in 1870 and is built of stone.", ""]
SUPPORTED_CLAIM = "The Old Bridge opened in 1870."
FALSE_CLAIM = "The Old Bridge was sold to Otto Berg in 1923."


def lexical_backend(**options: Any) -> LexicalBackend:
    """Make a lexical judge with these ``options``."""
    return LexicalBackend(JudgeConfig("lexical", "lexical", options=options))


def ask(question: dict[str, Any], **options: Any) -> Answer:
    """Ask the lexical judge one question, which is the subject of a request.

    Args:
        question: Its kind, claims and passages. The judge does not read the prompt.
        **options: Options of the judge, such as ``threshold=0.5``.
    """
    request = Request("not read", subject=question)
    ((number, answer),) = lexical_backend(**options).answer([request])
    assert number == 0
    return answer


def test_answer_is_complete_and_has_no_counts_of_tokens():
    """A judge without a language model reads no tokens."""
    answer = ask({"kind": "verify", "claim": "The bridge is old.", "passages": ["It is old."]})

    assert answer.finish_reason == "stop"
    assert answer.error is None
    assert answer.prompt_tokens is None


def test_answer_is_read_like_the_reply_of_a_language_model():
    """Code that reads replies need not know which kind of judge wrote them."""
    passage = "Title: Old Bridge\nThe Old Bridge opened in 1870 and is built of stone."
    claim = "The Old Bridge opened in 1870."

    answer = ask({"kind": "verify", "claim": claim, "passages": [passage]})

    verification = combine_samples([read_reply(answer, SupportReply, {})])
    assert verification.verdict == "supported"
    assert verification.reason == "4 of 4 content words covered"
    assert verification.score > 0.9


@pytest.mark.parametrize("kind", ["segments", "claims"])
@pytest.mark.parametrize(
    ("units", "wrong_numbers"),
    [
        pytest.param(
            ["Sure!", SUPPORTED_CLAIM, "It was moved to Oslo in 1923."], {3}, id="another event"
        ),
        pytest.param(
            [
                "The Old Bridge opened in 1923.",
                "It is.",
                "The Old Bridge was sold to Otto Berg.",
            ],
            {1, 3},
            id="another year and another person",
        ),
        pytest.param(["The Old Bridge is built of stone."], set(), id="all supported"),
        pytest.param([], set(), id="none"),
    ],
)
def test_unsupported_segments_are_named_as_wrong(kind, units, wrong_numbers):
    """Parts without a claim, such as "Sure!", cannot be wrong."""
    question = {
        "kind": kind,
        "question": "When did it open?",
        "units": units,
        "passages": PASSAGES,
    }

    answer = ask(question)

    assert read_verdict(answer.text, len(units)) == wrong_numbers


@pytest.mark.parametrize("passages", [[], ["", " \n"]], ids=["none", "blank"])
@pytest.mark.parametrize(
    "question",
    [
        {"kind": "verify", "claim": "x"},
        {"kind": "segments", "question": "", "units": ["x"]},
        {"kind": "claims", "question": "", "units": ["x"]},
    ],
    ids=["verify", "segments", "claims"],
)
def test_a_question_without_passages_has_no_evidence(question, passages):
    """The offline judge knows nothing by itself, so it must not guess."""
    answer = ask({**question, "passages": passages})

    assert answer.text is None
    assert answer.error.startswith("no evidence")


@pytest.mark.parametrize(
    "question", [{}, {"kind": "extract_claims", "units": []}], ids=["no kind", "another kind"]
)
def test_unknown_kind_of_question_gets_an_error_listing_the_kinds(question):
    """The judge compares words, so it cannot extract claims, for instance."""
    assert "only verify, verify_page, check, segments, claims" in ask(question).error


def test_misplaced_fact_gets_its_supporting_page():
    """The first fact was put under the wrong page: page 2 supports it, so page 1 does not."""
    pages = [
        {"passages": ["Ada Lind was a painter in Oslo."], "facts": [1]},
        {"passages": ["Ada Lind sailed round the world in 1950."], "facts": [2]},
    ]
    facts = ["Ada Lind sailed round the world in 1950.", "Ada Lind sailed round the world."]
    question = {"kind": "verify_page", "claims": facts, "pages": pages}

    verdicts = json.loads(ask(question).text)["verdicts"]

    assert [verdict["verdict"] == "supported" for verdict in verdicts] == [False, True]
    assert [verdict["page"] for verdict in verdicts] == [2, None]


@pytest.fixture
def judge_with_constant_prompt(tmp_path: Path):
    """Open a lexical judge whose prompt is the same text for every claim."""
    prompt_path = tmp_path / "constant.jinja"
    prompt_path.write_text("Is it so?", encoding="utf-8")
    config = JudgeConfig("mine", "lexical", prompts={"verify": prompt_path})
    with Judge.open(config, store=tmp_path / "answers.sqlite") as judge:
        yield judge


def ask_about_both_claims(judge: Judge) -> list[str]:
    """Ask a judge about the supported and the false claim, and return its two verdicts."""
    questions = [
        {"kind": "verify", "claim": claim, "passages": PASSAGES}
        for claim in (SUPPORTED_CLAIM, FALSE_CLAIM)
    ]
    answers = judge.ask("verify", questions, "asking")
    return [json.loads(answer.text)["verdict"] for (answer,) in answers]


def test_claims_with_the_same_prompt_have_their_own_answers(judge_with_constant_prompt):
    """This judge reads the claim and not the prompt, so the prompt alone is no key."""
    verdicts = ask_about_both_claims(judge_with_constant_prompt)

    assert verdicts == ["supported", "not_supported"]
    assert judge_with_constant_prompt.usage.stored == 0


def test_claims_with_the_same_prompt_are_found_in_the_store(judge_with_constant_prompt):
    """Both answers come from the store in the second run."""
    ask_about_both_claims(judge_with_constant_prompt)

    later_verdicts = ask_about_both_claims(judge_with_constant_prompt)

    assert later_verdicts == ["supported", "not_supported"]
    assert judge_with_constant_prompt.usage.stored == 2


def test_the_threshold_can_be_set():
    """No probability reaches 1, so with this threshold nothing is supported."""
    passage = "Title: Old Bridge\nThe Old Bridge opened in 1870."
    question = {"kind": "verify", "claim": "The Old Bridge opened in 1870.", "passages": [passage]}

    answer = ask(question, threshold=1)

    assert json.loads(answer.text)["verdict"] == "not_supported"


def test_the_threshold_is_part_of_the_identity():
    """Stored verdicts of another threshold must not be found."""
    assert lexical_backend().identity == lexical_backend().identity
    assert lexical_backend().identity != lexical_backend(threshold=0.5).identity


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"treshold": 0.5}, "did you mean threshold", id="unknown option"),
        pytest.param({"threshold": "high"}, "valid number", id="text"),
        pytest.param({"threshold": True}, "valid number", id="boolean"),
        pytest.param({"coefficients": 3}, "path of a file", id="number for a path"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    """A misspelt option would be silently without effect."""
    with pytest.raises(ConfigError, match=message):
        lexical_backend(**options)


def test_a_missing_file_of_coefficients_is_refused():
    """A user can fit other coefficients and name their file as an option."""
    with pytest.raises(DataError, match="no_such.json: not coefficients"):
        lexical_backend(coefficients="no_such.json")
