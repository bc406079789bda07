"""People beside a judge, response by response: how they are matched, means, correlations and
ranks."""

from __future__ import annotations

import numpy as np
import pytest

from lm_factuality.benchmarks.asked import Measured
from lm_factuality.benchmarks.biographies.scores import SCORES
from lm_factuality.ground.errors import DataError
from lm_factuality.people.responses import OVERALL, compare_responses, correlate, match

METRICS = ("factscore", "d_factscore", "num_biographies", "num_entities")
SHOWN = [score for score in SCORES if score.name in METRICS]
LABELS = {score.label: score.name for score in SHOWN}


def measured(model, index, *values, name=""):
    return Measured(model, str(index), name, dict(zip(METRICS, values, strict=True)))


def compare(people, judge):
    """The measures by table, row and score; and how many responses only one side has."""
    matched = match(people, judge)
    cells = {
        (each.table, each.row, LABELS.get(each.column, each.column)): each.measure
        for each in compare_responses(matched.responses, SHOWN)
    }
    return cells, (matched.only_people, matched.only_judge)


def test_means_and_correlations_are_those_of_numpy():
    random = np.random.default_rng(0)
    people = [measured(model, i, *random.random(4)) for model in ("a", "b") for i in range(30)]
    judge = [
        measured(
            each.model,
            each.index,
            *(0.5 * np.array(list(each.values.values())) + 0.5 * random.random(4)),
        )
        for each in people
    ]
    found, unmatched = compare(people, list(reversed(judge)))
    assert unmatched == (0, 0)
    for model in ("a", "b", OVERALL):
        for metric in METRICS:
            chosen = [n for n, one in enumerate(people) if model in (one.model, OVERALL)]
            x, y = ([side[n].values[metric] for n in chosen] for side in (people, judge))
            correlation = found["correlations", (model,), metric]
            assert correlation.value == pytest.approx(np.corrcoef(x, y)[0, 1])
            assert correlation.low < correlation.value < correlation.high
            assert correlation.count == len(chosen)
            if model != OVERALL:
                assert found["means", (model, "people"), metric].value == pytest.approx(np.mean(x))
                assert found["means", (model, "judge"), metric].value == pytest.approx(np.mean(y))
                assert found["means", (model, "judge"), "responses"].value == 30


def test_what_nobody_measured_has_no_column():
    matched = match(
        [measured("m", index, 0.5, None, None, None) for index in range(4)],
        [measured("m", 0, 0.5, 0.5, 1, 1)],
    )
    assert {
        LABELS.get(each.column, each.column) for each in compare_responses(matched.responses, SHOWN)
    } == {
        "responses",
        "factscore",
    }


def test_ranks_of_models():
    people = [
        measured(model, 0, fs, ds, 1, 1)
        for model, fs, ds in (("a", 0.9, 0.9), ("b", 0.8, 0.7), ("c", 0.7, 0.8))
    ]
    judge = [
        measured(model, 0, fs, ds, 1, 1)
        for model, fs, ds in (("a", 0.7, 0.9), ("b", 0.8, 0.8), ("c", 0.9, 0.7))
    ]
    found, _ = compare(people, judge)
    assert found["ranks", (), "factscore"].value == -1.0
    assert found["ranks", (), "d_factscore"].value == pytest.approx(1 / 3)
    assert found["ranks", (), "num_entities"].value is None  # all are tied
    assert compare(people[:1], judge)[0]["ranks", (), "factscore"].value is None


def test_what_is_missing_is_left_out_and_counted():
    people = [
        measured("a", 0, 1, 1, 1, 1),
        measured("a", 1, 0, None, 2, 1),
        measured("a", 5, 0, 0, 1, 1),
    ]
    judge = [
        measured("a", 0, 0.5, 0.5, None, 1),
        measured("a", 1, 0.5, 0.2, 2, 1),
        measured("a", 7, 0, 0, 0, 0),
        measured("b", 0, 1, 1, 1, 1),
    ]
    found, unmatched = compare(people, judge)
    means = {metric: found["means", ("a", "people"), metric] for metric in METRICS}
    assert {metric: each.count for metric, each in means.items()} == dict(
        zip(METRICS, (2, 1, 1, 2), strict=True)
    )
    assert (means["d_factscore"].value, found["means", ("a", "judge"), "d_factscore"].value) == (
        1,
        0.5,
    )
    assert unmatched == (1, 1)  # responses of models that people did not look at do not count


def test_several_people_are_averaged():
    people = [measured("a", 0, 1, 0.5, 1, 1), measured("a", 0, 0, None, 2, 1)]
    found, _ = compare(people, [measured("a", 0, 1, 1, 1, 1)])
    assert [found["means", ("a", "people"), metric].value for metric in METRICS[:3]] == [
        0.5,
        0.5,
        1.5,
    ]


def test_names_match_where_there_are_no_indexes():
    people = [measured("a", "", 1, 1, 1, 1, name="E\u0301mile Lind")]
    found, _ = compare(people, [measured("a", 3, 1, 0.5, 1, 1, name="\u00c9mile  lind")])
    assert found["means", ("a", "judge"), "d_factscore"].value == 0.5


def test_different_people_under_one_index_are_an_error():
    people = [
        measured("a", i, 1, 1, 1, 1, name=name)
        for i, name in enumerate(("Ada Lind", "Bo Ek", "Cy Dahl", ""))
    ]
    judge = [
        measured("a", i, 1, 1, 1, 1, name=n)
        for i, n in enumerate(("Ada  lind", "Bo Ek", "Di Falk", "Eva"))
    ]
    with pytest.raises(
        DataError, match="a, index '2': 'cy dahl' and 'di falk'; give the judged responses' indexes"
    ):
        match(people, judge)
    assert match(people[:2] + people[3:], judge).only_judge == 1


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        ([measured("A", 0, 1, 1, 1, 1)], "no results of 'a', only of 'A'; name the model"),
        (
            [measured("a", 1, 1, 1, 1, 1)],
            "have no response in common: people measured 'a' '0', the results have 'a' '1'",
        ),
        ([measured("a", 0, 1, 1, 1, 1)] * 2, "2 results of a, index '0'"),
        ([measured("a", "", 1, 1, 1, 1, name="x")], "no name, and the other side no indexes"),
    ],
)
def test_what_does_not_fit_together(judge, expected):
    with pytest.raises(DataError, match=expected):
        match([measured("a", 0, 1, 1, 1, 1)], judge)


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
    found = correlate(pairs)
    assert found.value == (None if r is None else pytest.approx(r))
    assert (found.low is not None) == has_interval
