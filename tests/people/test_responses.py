"""Means and correlations of the scores that people and a judge give to the same responses."""

from __future__ import annotations

import numpy as np
import pytest

from lm_factuality.benchmarks.biographies.scores import SCORES
from lm_factuality.people.responses import OVERALL, Response, compare_responses, correlate

METRICS = ("factscore", "d_factscore", "num_biographies", "num_entities")
SHOWN_SCORES = [score for score in SCORES if score.name in METRICS]
MODELS = ("a", "b")


def compare(responses):
    """Return the measures by table, row and column."""
    cells = compare_responses(responses, SHOWN_SCORES)
    return {(cell.table, cell.row, cell.column): cell.measure for cell in cells}


@pytest.fixture(scope="module")
def random_responses():
    """Return 30 responses of each model, scored at random so that people and judge correlate."""
    random = np.random.default_rng(0)
    responses = []
    for model in MODELS:
        for _ in range(30):
            people = dict(zip(METRICS, random.random(4), strict=True))
            judge = {name: 0.5 * value + 0.5 * random.random() for name, value in people.items()}
            responses.append(Response(model, people, judge))
    return responses


@pytest.mark.parametrize("score", SHOWN_SCORES, ids=lambda score: score.name)
@pytest.mark.parametrize("model", [*MODELS, OVERALL])
def test_correlations_equal_numpys(random_responses, model, score):
    """Pearson's correlation is what papers report between people and judges."""
    chosen = [response for response in random_responses if model in (response.model, OVERALL)]
    people_scores = [response.people_scores[score.name] for response in chosen]
    judge_scores = [response.judge_scores[score.name] for response in chosen]

    correlation = compare(random_responses)["correlations", (model,), score.label]

    assert correlation.value == pytest.approx(np.corrcoef(people_scores, judge_scores)[0, 1])
    assert correlation.low < correlation.value < correlation.high
    assert correlation.count == len(chosen)


@pytest.mark.parametrize("score", SHOWN_SCORES, ids=lambda score: score.name)
@pytest.mark.parametrize("model", MODELS)
def test_means_equal_numpys(random_responses, model, score):
    """People and judge have scored the same responses, so the means can be compared."""
    chosen = [response for response in random_responses if response.model == model]
    people_scores = [response.people_scores[score.name] for response in chosen]
    judge_scores = [response.judge_scores[score.name] for response in chosen]

    measures = compare(random_responses)

    people_mean = measures["means", (model, "people"), score.label]
    judge_mean = measures["means", (model, "judge"), score.label]
    assert people_mean.value == pytest.approx(np.mean(people_scores))
    assert judge_mean.value == pytest.approx(np.mean(judge_scores))


def test_responses_of_a_model_are_counted():
    """A correlation of few responses means little."""
    response = Response("a", people_scores={"factscore": 1.0}, judge_scores={"factscore": 0.5})
    other_response = Response("b", {"factscore": 1.0}, {"factscore": 0.5})

    measures = compare([response, response, response, other_response])

    assert measures["means", ("a", "judge"), "responses"].value == 3


def test_only_responses_scored_by_both_people_and_judge_count():
    """A mean over other responses could differ for that reason alone."""
    scored_by_both = Response(
        "m",
        people_scores={"factscore": 1.0},
        judge_scores={"factscore": 0.5, "d_factscore": 0.5},
    )
    scored_by_judge = Response("m", people_scores={}, judge_scores={"factscore": 0.0})

    measures = compare([scored_by_both, scored_by_judge])

    assert {column for _, _, column in measures} == {"responses", "FActScore"}
    assert measures["means", ("m", "judge"), "FActScore"].value == 0.5


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(0, 0), (1, 1)], id="two pairs"),
        pytest.param([(0, 1), (1, 1), (2, 1)], id="a constant side"),
    ],
)
def test_correlation_of_two_pairs_or_a_constant_is_undefined(pairs):
    """Two points lie on a line whatever they are, and a constant has no variance."""
    correlation = correlate(pairs)

    assert correlation.value is None
    assert correlation.low is None


def test_correlation_of_three_pairs_has_no_interval():
    """Fisher's interval divides by the square root of the number of pairs minus 3, here by 0."""
    correlation = correlate([(0, 0), (1, 1), (2, 2)])

    assert correlation.value == pytest.approx(1.0)
    assert correlation.low is None


def test_correlation_of_four_pairs_has_an_interval():
    """Four is the least number for which Fisher's interval is defined."""
    correlation = correlate([(0, 3), (1, 2), (2, 1), (3, 0)])

    assert correlation.value == pytest.approx(-1.0)
    assert correlation.low is not None
