"""People beside a judge, response by response: means and correlations."""

from __future__ import annotations

import numpy as np
import pytest

from lm_factuality.benchmarks.biographies.scores import SCORES
from lm_factuality.people.responses import OVERALL, Response, compare_responses, correlate

METRICS = ("factscore", "d_factscore", "num_biographies", "num_entities")
SHOWN = [score for score in SCORES if score.name in METRICS]


def compare(responses):
    """The measures by table, row and column."""
    return {
        (cell.table, cell.row, cell.column): cell.measure
        for cell in compare_responses(responses, SHOWN)
    }


def test_means_and_correlations_are_those_of_numpy():
    random = np.random.default_rng(0)
    responses = []
    for model in ("a", "b"):
        for _ in range(30):
            people = dict(zip(METRICS, random.random(4), strict=True))
            judge = {name: 0.5 * value + 0.5 * random.random() for name, value in people.items()}
            responses.append(Response(model, people, judge))

    measures = compare(responses)

    for model in ("a", "b", OVERALL):
        chosen = [each for each in responses if model in (each.model, OVERALL)]
        for score in SHOWN:
            x = [each.people_scores[score.name] for each in chosen]
            y = [each.judge_scores[score.name] for each in chosen]
            correlation = measures["correlations", (model,), score.label]
            assert correlation.value == pytest.approx(np.corrcoef(x, y)[0, 1])
            assert correlation.low < correlation.value < correlation.high
            assert correlation.count == len(chosen)
            if model != OVERALL:
                people = measures["means", (model, "people"), score.label]
                judge = measures["means", (model, "judge"), score.label]
                assert people.value == pytest.approx(np.mean(x))
                assert judge.value == pytest.approx(np.mean(y))
    assert measures["means", ("a", "judge"), "responses"].value == 30


def test_only_what_both_measured_counts():
    responses = [
        Response("m", {"factscore": 1.0}, {"factscore": 0.5, "d_factscore": 0.5}),
        Response("m", {}, {"factscore": 0.0}),
    ]
    measures = compare(responses)
    assert {column for _, _, column in measures} == {"responses", "FActScore"}
    assert measures["means", ("m", "judge"), "FActScore"].value == 0.5


@pytest.mark.parametrize(
    ("pairs", "r", "has_interval"),
    [
        ([(0, 0), (1, 1)], None, False),
        ([(0, 1), (1, 1), (2, 1)], None, False),
        ([(0, 0), (1, 1), (2, 2)], 1.0, False),
        ([(0, 3), (1, 2), (2, 1), (3, 0)], -1.0, True),
    ],
)
def test_correlation_where_there_is_one(pairs, r, has_interval):
    correlation = correlate(pairs)
    assert correlation.value == (None if r is None else pytest.approx(r))
    assert (correlation.low is not None) == has_interval
