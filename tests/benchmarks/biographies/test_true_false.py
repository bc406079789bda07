"""Verdicts by the probabilities of "true" and "false", or by the text where there are none."""

import json
import math

import pytest

from judges.answers import Answer
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.generations import generation_to_doc
from lm_factuality.benchmarks.biographies.matrix import judgement_from_logprobs
from lm_factuality.benchmarks.biographies.method import AMBIGBIO
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from tests.judges.server import Act


def make_answer(text, probabilities):
    """Make an answer whose first token could have been one of these, with these probabilities."""
    logprobs = tuple((token, math.log(value)) for token, value in probabilities.items())
    return Answer(text, "stop", first_token_logprobs=logprobs)


@pytest.mark.parametrize(
    ("answer", "outcome", "score", "reason"),
    [
        pytest.param(
            make_answer("True", {"True": 0.6, "False": 0.2}),
            "supported",
            0.75,  # 0.6 of 0.6 + 0.2
            "by log-probabilities: true 0.6, false 0.2",
            id="true is likelier",
        ),
        pytest.param(
            make_answer("True", {"True": 0.4, "False": 0.3, " false": 0.3}),
            "not_supported",
            0.4,
            "by log-probabilities: true 0.4, false 0.6",
            id="two spellings of false together are likelier",
        ),
        pytest.param(
            make_answer("Who knows", {"True": 0.25, "False": 0.25}),
            "not_supported",
            0.5,
            "by log-probabilities: true 0.25, false 0.25",
            id="both are equally likely",
        ),
    ],
)
def test_probabilities_of_the_first_token_decide(answer, outcome, score, reason):
    """The score is the probability of "true" among "true" and "false", in any spelling."""
    judgement = judgement_from_logprobs(answer)

    assert judgement.outcome == outcome
    assert judgement.score == pytest.approx(score)
    assert judgement.reason == reason


@pytest.mark.parametrize(
    ("answer", "outcome", "score", "reason"),
    [
        pytest.param(
            Answer("True", "stop"),
            "supported",
            1,
            "by the text (no log-probabilities): true",
            id="the server gives none",
        ),
        pytest.param(
            make_answer("False.", {"So": 0.9}),
            "not_supported",
            0,
            "by the text (neither word among the most likely): false",
            id="the likely tokens are other words",
        ),
        pytest.param(
            make_answer("<think>So</think>False", {"<think>": 0.9, "True": 0.1}),
            "not_supported",
            0,
            "by the text (a thought comes first): false",
            id="a thought comes first",
        ),
    ],
)
def test_text_decides_if_true_and_false_have_no_probabilities(answer, outcome, score, reason):
    """The word alone is certain, so the score is 0 or 1, and the reason says why it was read."""
    judgement = judgement_from_logprobs(answer)

    assert judgement.outcome == outcome
    assert judgement.score == score
    assert judgement.reason == reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(
            make_answer("Who knows", {"Who": 0.9}),
            "by the text (neither word among the most likely): neither true nor false",
            id="other words",
        ),
        pytest.param(Answer(None, "stop", error="gone"), "judge error: gone", id="no answer"),
    ],
)
def test_answer_without_true_or_false_is_unscored(answer, reason):
    """A guess would count for or against the model."""
    judgement = judgement_from_logprobs(answer)

    assert judgement.outcome == "unscored"
    assert judgement.score is None
    assert judgement.reason == reason


PAINTED = "Ada Lind painted boats."
FLEW = "Ada Lind flew mail."
GENERATION = GeneratedText(
    "0",
    "Tell me a bio of Ada Lind",
    "Ada Lind",
    f"{PAINTED} {FLEW}",
    (
        RetrievedPassage("Ada Lind (painter)", PAINTED),
        RetrievedPassage("Ada Lind (pilot)", FLEW),
    ),
)


def answer_false_with_probabilities(prompt, attempt):
    """Answer a judge's prompt, and say False of every fact.

    The probabilities tell otherwise of the fact "painted": true has 0.7 by its own page and 0.1 by
    the other, and false has 0.2. The fact "flew" has no probabilities.
    """
    if "\nSentence: " in prompt:
        sentence = prompt.rsplit("Sentence: ", 1)[1]
        return Act(text=json.dumps({"facts": [sentence]}))
    if "\nFacts:\n" in prompt:
        return Act(text='{"groups": [[1, 2]]}')

    passages, statement = prompt.rsplit("Statement: ", 1)
    if statement.startswith(FLEW):
        return Act(text="False")
    probability_of_true = 0.7 if PAINTED in passages else 0.1
    likely_tokens = [
        {"token": "False", "logprob": math.log(0.2)},
        {"token": "True", "logprob": math.log(probability_of_true)},
    ]
    first_token = {**likely_tokens[0], "top_logprobs": likely_tokens}
    return Act(text="False", logprobs={"content": [first_token]})


@pytest.fixture
def judge(server, config, tmp_path):
    """Return a judge whose config asks for verdicts by log-probabilities."""
    server.script = answer_false_with_probabilities
    with Judge.open(config(verdicts="logprobs"), store=tmp_path / "answers.sqlite") as opened:
        yield opened


DOCS = [generation_to_doc(GENERATION)]
RESPONSES = [[GENERATION.output]]


@pytest.fixture
def matrix(judge):
    """Return the verdict on each of the two facts by each of the two pages."""
    (record,) = AMBIGBIO.judge(judge, DOCS, RESPONSES)
    return record["matrix"]


def test_fact_is_judged_by_server_probabilities(matrix):
    """The text says "False" of each fact, but the probabilities decide.

    "True" has 0.7 by the painter's own page and 0.1 by the other, and "False" has 0.2 by both.
    """
    by_own_page, by_other_page = matrix[0]

    assert by_own_page["outcome"] == "supported"
    assert by_own_page["score"] == pytest.approx(0.7 / (0.7 + 0.2))
    assert by_own_page["reason"].startswith("by log-probabilities: ")
    assert by_other_page["outcome"] == "not_supported"
    assert by_other_page["score"] == pytest.approx(0.1 / (0.1 + 0.2))


def test_fact_is_judged_by_text_without_server_probabilities(matrix):
    """The server gives none for the second fact, and its text says "False"."""
    _first_fact, second_fact = matrix

    for verdict in second_fact:
        assert verdict["outcome"] == "not_supported"
        assert verdict["score"] == 0
        assert verdict["reason"].startswith("by the text (no log-probabilities): ")


@pytest.mark.usefixtures("matrix")
def test_only_fact_questions_request_probabilities(server):
    """Replies of the other steps are texts to be read."""
    requests = [body for body in server.bodies if "logprobs" in body]

    assert len(requests) == 4  # two facts by two pages
    for body in requests:
        assert "True or False?" in body["messages"][0]["content"]


def test_plan_counts_the_calls_of_a_probability_judge(judge):
    """The plan, which tells a user the cost before a run, foresees each call of the run."""
    steps_with_plans = AMBIGBIO.plan_questions(judge, DOCS, RESPONSES)
    planned_calls = sum(plan.to_send for _step, plan in steps_with_plans)

    AMBIGBIO.judge(judge, DOCS, RESPONSES)

    assert judge.usage.calls == planned_calls


def test_probability_answers_are_stored(judge):
    """A second run of the same responses costs nothing in any of the three steps."""
    AMBIGBIO.judge(judge, DOCS, RESPONSES)

    plans = AMBIGBIO.plan_questions(judge, DOCS, RESPONSES)

    assert [plan.to_send for _step, plan in plans] == [0, 0, 0]
