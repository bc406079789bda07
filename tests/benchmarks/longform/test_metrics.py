"""F1@K, precision and their bounds, by hand and against LongFact's and FActScore's definitions
written out."""

from __future__ import annotations

import math
import random

import pytest

from lm_factuality.benchmarks.biographies.method import NO_FACTS, NO_SENTENCES
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    GeneratedText,
    JudgedBiography,
    Judgement,
)
from lm_factuality.benchmarks.longform.metrics import FactTally, long_form_metrics
from lm_factuality.ground.thinking import UNFINISHED


def f1_at(supported: int, not_supported: int, k: int) -> float:
    """Section 5 of Wei et al., as its equations stand."""
    if supported == 0:
        return 0.0
    precision, recall = supported / (supported + not_supported), min(supported / k, 1)
    return 2 / (1 / precision + 1 / recall)


def judged(outcomes: str, index: str = "0", **changes) -> JudgedBiography:
    """A response whose facts are supported (s), not (n), irrelevant (i) or unscored (u)."""
    names = {
        "s": ("supported", 1.0),
        "n": ("not_supported", 0.0),
        "i": ("irrelevant", 0.0),
        "u": ("unscored", None),
    }
    facts = tuple(Fact(f"It is {number}.", 0) for number in range(len(outcomes)))
    matrix = tuple((Judgement(*names[each], reason="cut off"),) for each in outcomes)
    groups = (tuple(range(len(facts))),) if facts else ()
    given = GeneratedText(index, "Tell me about it.", "", "It is.", ())
    return JudgedBiography(
        given, ("It is.",), facts, groups, ("",), matrix, (0,) * len(groups), **changes
    )


def test_f1_at_k_is_that_of_the_paper():
    draw = random.Random(0)
    for _ in range(500):
        supported, not_supported, k = (
            draw.randrange(200),
            draw.randrange(50),
            draw.choice((1, 7, 64, 178)),
        )
        tally = FactTally(supported, not_supported)
        if supported + not_supported:
            assert tally.f1_at(k) == pytest.approx(f1_at(supported, not_supported, k))


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (
            "ssn",
            {
                "precision": 2 / 3,
                "recall_at_k": 0.5,
                "f1_at_k": 4 / 7,
                "factscore": 2 / 3,
                "facts_per_response": 3,
            },
        ),
        (
            "ssni",
            {
                "precision": 2 / 3,
                "recall_at_k": 0.5,
                "factscore": 0.5,
                "factscore_penalised": 0.5 * math.exp(-1.5),
            },
        ),
        ("ssssss", {"precision": 1, "recall_at_k": 1, "f1_at_k": 1}),
        ("nn", {"precision": 0, "f1_at_k": 0}),
        ("ii", {"precision": None, "f1_at_k": 0, "factscore": 0}),
        (
            "su",
            {
                "precision": 1,
                "precision_worst": 0.5,
                "precision_best": 1,
                "f1_at_k": 0.4,
                "f1_at_k_best": 2 / 3,
            },
        ),
        (
            "uu",
            {
                "precision": None,
                "f1_at_k": None,
                "f1_at_k_worst": 0,
                "f1_at_k_best": 2 / 3,
                "unscored": "no fact has a verdict",
            },
        ),
    ],
)
def test_a_row_by_hand(outcomes, expected):
    found = long_form_metrics(judged(outcomes), "", (4, 8))
    for name, value in expected.items():
        assert found[name] == (value if isinstance(value, str | None) else pytest.approx(value)), (
            name
        )


def test_further_values_of_k_are_scores_of_their_own():
    found = long_form_metrics(judged("ssn"), "", (4, 8))
    assert found["f1_at_8"] == pytest.approx(f1_at(2, 1, 8))
    assert "d_factscore" not in found


@pytest.mark.parametrize(
    ("changes", "f1", "ends", "responds", "unscored"),
    [
        (
            {"abstained": True},
            0,
            (0, 0),
            0,
            None,
        ),  # it tells nothing, which F1@K counts and precision does not
        ({"problem": NO_FACTS}, 0, (0, 0), 1, None),
        ({"problem": NO_SENTENCES}, 0, (0, 0), 1, None),
        ({"problem": "the judge failed: down"}, None, (0, 1), 1, "the judge failed: down"),
        ({"problem": UNFINISHED}, None, (0, 1), None, UNFINISHED),
    ],
)
def test_a_response_without_facts(changes, f1, ends, responds, unscored):
    found = long_form_metrics(judged("", **changes), "", (4,))
    assert (found["f1_at_k"], found["precision"]) == (f1, None)
    assert (found["f1_at_k_worst"], found["f1_at_k_best"]) == ends
    assert (found["respond_ratio"], found["unscored"]) == (responds, unscored)
