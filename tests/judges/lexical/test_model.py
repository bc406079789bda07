"""The lexical judge: its verdicts, its figures on labelled citations, its commands."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from bench.lexical import fit as fitting_command
from bench.lexical.evaluate import assess, evaluate, read_citations
from bench.lexical.fit import best_threshold, fit, regress
from judges.lexical.model import COEFFICIENTS, FEATURES, load_lexical_model
from judges.lexical.words import parse_passage
from lm_factuality.ground.errors import DataError

PASSAGE = (
    "Title: Ada Hill (painter)\nAda Hill (5 May 1990 \u2013 3 June 2031) was a Swedish painter who was born in Lund. She painted "
    "large pictures of ships in the harbour of Malmo and won the Anchor Prize in 2015."
)


@pytest.mark.parametrize(
    ("claim", "supported", "reason"),
    [
        ("Ada Hill was born on May 5, 1990, in Lund.", True, "7 of 7 content words covered"),
        (
            "Ada Hill painted large pictures of ships and won the Anchor Prize in 2015.",
            True,
            "10 of 10 content words",
        ),
        (
            "Ada Hill was born on May 6, 1990, in Lund.",
            False,
            "not in the passages: 6",
        ),
        ("Ada Hill won the Anchor Prize in 1987.", False, "not in the passages: 1987"),
        (
            "Ada Hill won the Laurel Prize in 2015.",
            False,
            "not in the passages: Laurel Prize",
        ),
        ("Ada Hill never won the Anchor Prize.", False, "negation differs"),
        ("Otto Berg taught chemistry in Oslo.", False, "0 of 5 content words covered"),
    ],
)
def test_verdicts_with_reasons(claim, supported, reason):
    support = load_lexical_model().judge(claim, [parse_passage(PASSAGE)])
    assert (support.is_supported, reason in support.reason) == (supported, True), support
    assert "\n" not in support.reason


def test_namesakes_lower_the_probability_and_are_named():
    model, claim = load_lexical_model(), "Ada Hill was born on May 5, 1990, in Lund."
    alone = model.judge(claim, [parse_passage(PASSAGE)])
    both = model.judge(
        claim, [parse_passage(PASSAGE), parse_passage("Title: Ada Hill (pilot)\nAda Hill flies.")]
    )
    assert both.probability < alone.probability
    assert "namesakes: Ada Hill (painter), Ada Hill (pilot)" in both.reason


def test_targets_on_the_citations_of_another_model(shared, tmp_path):
    """Fitted on one file, tested on the other; the committed coefficients are those of the
    command."""
    folder = shared / "data" / "ambigbio" / "citations"
    out = tmp_path / "coefficients.json"
    assert (
        fitting_command.main(
            ["--citations", str(folder / "vicuna-7b__ambig.json.gz"), "--out", str(out)]
        )
        == 0
    )
    fitted, committed = json.loads(out.read_text()), json.loads(COEFFICIENTS.read_text())
    assert fitted["fitted_on"].pop("date")
    assert committed["fitted_on"].pop("date")
    assert fitted["fitted_on"] == committed["fitted_on"]
    assert list(fitted["coefficients"]) == list(committed["coefficients"])
    assert set(committed["coefficients"]) < set(FEATURES)
    numbers = [
        [*each["coefficients"].values(), each["intercept"], each["threshold"]]
        for each in (fitted, committed)
    ]
    np.testing.assert_allclose(*numbers, atol=2e-4)

    result = evaluate(load_lexical_model(out), folder / "chatgpt-0301__no-ambig.json.gz")
    assert result.num_pairs == 1607
    assert result.auc >= 0.88
    assert result.balanced_accuracy >= 0.77
    assert result.interval[0] < result.balanced_accuracy < result.interval[1]
    assert result.ece <= 0.05


def test_threshold_agrees_with_counting():
    rng = np.random.default_rng(0)
    probabilities, labels = rng.integers(0, 20, 200) / 20, rng.random(200) < 0.6

    def balanced(threshold):
        said = probabilities >= threshold
        return (said[labels].mean() + (~said[~labels]).mean()) / 2

    assert balanced(best_threshold(probabilities, labels)) == max(
        balanced(each / 40) for each in range(41)
    )


def test_reliability_by_hand():
    probabilities = np.array([0.05, 0.15, 0.95, 1.0])
    labels = np.array([False, True, True, True])
    result = assess(probabilities, labels, ["a", "a", "b", "c"], 0.5)
    assert [(each.low, each.count, each.share_supported) for each in result.bins] == [
        (0.0, 1, 0.0),
        (0.1, 1, 1.0),
        (0.9, 2, 1.0),
    ]
    assert result.ece == pytest.approx((0.05 + 0.85 + 2 * 0.025) / 4)
    assert result.brier == pytest.approx((0.05**2 + 0.85**2 + 0.05**2) / 4)
    assert result.balanced_accuracy == pytest.approx((2 / 3 + 1) / 2)
    assert result.auc == 1.0


def test_regression_finds_what_made_the_labels():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20_000, 3)) * [1, 5, 1] + [0, 3, 0]
    labels = rng.random(20_000) < expit(features @ [1.0, -0.4, 0.0] + 0.5)
    coefficients, intercept = regress(features, labels, 1.0)
    np.testing.assert_allclose([*coefficients, intercept], [1.0, -0.4, 0.0, 0.5], atol=0.08)
    groups = [str(number % 50) for number in range(20_000)]
    again = fit(features, labels, groups, np.ones(20_000, dtype=bool))
    assert roc_auc_score(labels, again.probabilities) > 0.8


def row(**changes):
    return {
        "qid": 1,
        "claim": "Ada won [1].",
        "passage": ["Title: Ada\nAda won."],
        "model_output": 1,
        **changes,
    }


def test_citations_are_read(tmp_path):
    path = tmp_path / "citations.json.gz"
    path.write_bytes(
        gzip.compress(json.dumps({"autoais_log": [row(), row(qid="b", model_output=0)]}).encode())
    )
    first, second = read_citations(path)
    assert (first.group, first.is_entailed, first.passages[0].title) == ("1", True, "Ada")
    assert (second.group, second.is_entailed) == ("b", False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"coefficients": {"charm": 1.0}}, "no feature is called charm"),
        ({"threshold": 1.5}, "less than or equal to 1"),
        ({"intercept": float("nan")}, "finite number"),
        ({"fitted_on": None}, "not coefficients"),
        ({"coefficients": [1]}, "not coefficients"),
    ],
)
def test_bad_coefficients_are_named(tmp_path, change, said):
    path = tmp_path / "coefficients.json"
    path.write_text(json.dumps({**json.loads(COEFFICIENTS.read_text()), **change}))
    with pytest.raises(DataError, match=said) as caught:
        load_lexical_model(path)
    assert str(path) in str(caught.value)


def test_identity_follows_coefficients_and_threshold(tmp_path):
    content = json.loads(COEFFICIENTS.read_text())
    path = tmp_path / "coefficients.json"
    identities = set()
    for change in ({}, {"threshold": 0.5}, {"intercept": 0.0}, {"fitted_on": {}}):
        path.write_text(json.dumps({**content, **change}))
        identities.add(load_lexical_model(path).identity)
    assert len(identities) == 3  # where the numbers come from is not what they do
