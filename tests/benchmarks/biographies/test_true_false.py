"""Verdicts by the probabilities of true and false, and by the text where there are none."""

import json
import math

import pytest

from judges.answers import Answer
from judges.judge import Judge
from lm_factuality.benchmarks.biographies import matrix
from lm_factuality.benchmarks.biographies.generations import generation_to_doc
from lm_factuality.benchmarks.biographies.method import AMBIGBIO
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from tests.judges.server import Act

PAGES = (
    RetrievedPassage("Ada Lind (painter)", "Ada Lind painted boats."),
    RetrievedPassage("Ada Lind (pilot)", "Ada Lind flew mail."),
)
FACTS = ("Ada Lind painted boats.", "Ada Lind flew mail.")


def alternatives(probabilities):
    return tuple((token, math.log(value)) for token, value in probabilities.items())


@pytest.mark.parametrize(
    ("text", "probabilities", "outcome", "score", "reason"),
    [
        (
            "True",
            {"True": 0.6, "False": 0.2},
            "supported",
            0.75,
            "by log-probabilities: true 0.6, false 0.2",
        ),
        (
            "True",
            {"True": 0.4, "False": 0.3, " false": 0.3},
            "not_supported",
            0.4,
            "by log-probabilities: true 0.4, false 0.6",
        ),
        (
            "Who knows",
            {"True": 0.25, "False": 0.25},
            "not_supported",
            0.5,
            "by log-probabilities: true 0.25, false 0.25",
        ),
        ("True", None, "supported", 1, "by the text (no log-probabilities): true"),
        (
            "False.",
            {"So": 0.9},
            "not_supported",
            0,
            "by the text (neither word among the most likely): false",
        ),
        (
            "<think>So</think>False",
            {"<think>": 0.9, "True": 0.1},
            "not_supported",
            0,
            "by the text (a thought comes first): false",
        ),
        (
            "Who knows",
            {"Who": 0.9},
            "unscored",
            None,
            "by the text (neither word among the most likely): neither true nor false",
        ),
        (None, None, "unscored", None, "judge error: gone"),
    ],
)
def test_a_judgement_is_read_from_log_probabilities_or_else_from_the_text(
    text, probabilities, outcome, score, reason
):
    found = None if probabilities is None else alternatives(probabilities)
    answer = Answer(text, "stop", error=None if text else "gone", first_token_logprobs=found)
    judgement = matrix.judgement_from_logprobs(answer)
    assert judgement.outcome == outcome
    assert judgement.score == pytest.approx(score) if score is not None else judgement.score is None
    assert judgement.reason == reason


def answer_with_probabilities(prompt, attempt):
    """Says False of everything, and gives probabilities that say otherwise of a fact beside its
    page, none for the second."""
    if "\nSentence: " in prompt:
        return Act(text=json.dumps({"facts": [prompt.rsplit("Sentence: ", 1)[1]]}))
    if "\nFacts:\n" in prompt:
        return Act(text='{"groups": [[1, 2]]}')
    passages, statement = prompt.rsplit("Statement: ", 1)
    if statement.startswith(FACTS[1]):
        return Act(text="False")
    true = 0.7 if FACTS[0] in passages else 0.1
    top = [
        {"token": "False", "logprob": math.log(0.2)},
        {"token": "True", "logprob": math.log(true)},
    ]
    return Act(
        text="False",
        logprobs={"content": [{"token": "False", "logprob": math.log(0.2), "top_logprobs": top}]},
    )


def test_a_judge_whose_config_says_so_is_asked_for_log_probabilities(server, config, tmp_path):
    server.script = answer_with_probabilities
    generation = GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", " ".join(FACTS), PAGES)
    docs, responses = [generation_to_doc(generation)], [[generation.output]]
    with Judge.open(config(verdicts="logprobs"), store=tmp_path / "a.sqlite") as judge:
        plan = dict(AMBIGBIO.plan_questions(judge, docs, responses))
        (record,) = AMBIGBIO.judge(judge, docs, responses)
        assert judge.usage.calls == sum(each.to_send for each in plan.values())
        assert {each.to_send for _, each in AMBIGBIO.plan_questions(judge, docs, responses)} == {0}
    cells = [[(cell["outcome"], cell["score"]) for cell in row] for row in record["matrix"]]
    assert cells[0] == [
        ("supported", pytest.approx(7 / 9)),
        ("not_supported", pytest.approx(1 / 3)),
    ]
    assert cells[1] == [("not_supported", 0), ("not_supported", 0)]
    assert record["matrix"][0][0]["reason"].startswith("by log-probabilities: ")
    assert record["matrix"][1][0]["reason"].startswith("by the text (no log-probabilities): ")
    asked = [body for body in server.bodies if "logprobs" in body]
    assert len(asked) == 4
    assert all("True or False?" in body["messages"][0]["content"] for body in asked)
