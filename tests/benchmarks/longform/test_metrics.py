"""F1@K, precision and their bounds, by hand and by the definitions of LongFact and FActScore."""

import math
import random

import pytest

from lm_factuality.benchmarks.biographies.decompose import NO_FACTS
from lm_factuality.benchmarks.biographies.method import NO_SENTENCES
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    GeneratedText,
    JudgedBiography,
    Judgement,
)
from lm_factuality.benchmarks.longform.metrics import FactTally, long_form_metrics
from lm_factuality.ground.thinking import UNFINISHED

# The judgement of a fact by the letter that stands for it in `make_judged`.
JUDGEMENTS = {
    "s": Judgement("supported", 1.0, reason="cut off"),
    "n": Judgement("not_supported", 0.0, reason="cut off"),
    "i": Judgement("irrelevant", 0.0, reason="cut off"),
    "u": Judgement("unscored", None, reason="cut off"),
}


def f1_of_the_paper(supported, not_supported, k):
    """Compute F1@K by the equations in section 5 of Wei et al. (2024)."""
    if supported == 0:
        return 0.0
    precision = supported / (supported + not_supported)
    recall = min(supported / k, 1)
    return 2 / (1 / precision + 1 / recall)


def make_judged(outcomes, **changes):
    """Make a judged response.

    Example:
        ``make_judged("ssn")`` has three facts, of which two are supported.

    Args:
        outcomes: A letter for each fact: supported (s), not supported (n), irrelevant (i) or
            unscored (u).
        **changes: Other values of fields.
    """
    facts = tuple(Fact(f"It is {number}.", 0) for number in range(len(outcomes)))
    groups = (tuple(range(len(facts))),) if facts else ()
    return JudgedBiography(
        generation=GeneratedText("0", "Tell me about it.", "", "It is.", ()),
        sentences=("It is.",),
        facts=facts,
        groups=groups,
        entities=("",),
        matrix=tuple((JUDGEMENTS[letter],) for letter in outcomes),
        links=(0,) * len(groups),
        **changes,
    )


def test_f1_at_k_follows_the_paper():
    """Random counts of facts give what the equations of the paper give, with K from 1 to 178."""
    draw = random.Random(0)
    for _ in range(500):
        supported = draw.randrange(200)
        not_supported = draw.randrange(1, 50)
        k = draw.choice((1, 7, 64, 178))

        f1 = FactTally(supported, not_supported).f1_at(k)

        assert f1 == pytest.approx(f1_of_the_paper(supported, not_supported, k))


@pytest.mark.parametrize(
    ("num_supported", "f1"),
    [
        pytest.param(1, 2 / (1 + 2), id="half of the facts that are enough"),
        pytest.param(2, 1, id="enough facts"),
        pytest.param(3, 1, id="more than enough facts"),
    ],
)
def test_f1_at_2_with_only_supported_facts(num_supported, f1):
    """The precision is 1, so F1 depends on the recall alone, which is at most 1."""
    tally = FactTally(supported=num_supported, not_supported=0)

    assert tally.f1_at(2) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param(
            "ssn",
            {
                "precision": 2 / 3,
                "recall_at_k": 2 / 4,
                "f1_at_k": 4 / 7,  # 2 / (3/2 + 4/2)
                "factscore": 2 / 3,
                "facts_per_response": 3,
            },
            id="two of three facts are supported",
        ),
        pytest.param(
            "ssni",
            {
                "precision": 2 / 3,
                "recall_at_k": 2 / 4,
                "factscore": 2 / 4,
                "factscore_penalised": 0.5 * math.exp(-1.5),  # four facts, of ten: exp(1 - 10 / 4)
            },
            id="an irrelevant fact counts in factscore alone",
        ),
        pytest.param(
            "ssssss", {"precision": 1, "recall_at_k": 1, "f1_at_k": 1}, id="recall is at most 1"
        ),
        pytest.param("nn", {"precision": 0, "f1_at_k": 0}, id="no fact is supported"),
        pytest.param("ii", {"f1_at_k": 0, "factscore": 0}, id="all facts are irrelevant"),
        pytest.param(
            "su",
            {
                "precision": 1,
                "precision_worst": 1 / 2,
                "precision_best": 1,
                "f1_at_k": 2 / 5,  # a precision of 1 and a recall of 1/4: 2 / (1 + 4)
                "f1_at_k_best": 2 / 3,  # with two supported facts: 2 / (1 + 2)
            },
            id="an unscored fact counts in the bounds alone",
        ),
        pytest.param("uu", {"f1_at_k_worst": 0, "f1_at_k_best": 2 / 3}, id="no fact is scored"),
    ],
)
def test_response_metrics_match_hand_calculation(outcomes, expected):
    """Each letter is a fact: supported (s), not supported (n), irrelevant (i) or unscored (u).

    K is 4: four supported facts give the full recall.
    """
    metrics = long_form_metrics(make_judged(outcomes), shares_name=False, k_values=(4, 8))

    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


def test_precision_is_undefined_for_only_irrelevant_facts():
    """Precision is of relevant facts, of which there are none."""
    two_irrelevant_facts = make_judged("ii")

    metrics = long_form_metrics(two_irrelevant_facts, shares_name=False, k_values=(4,))

    assert metrics["precision"] is None


def test_response_with_only_unscored_facts_has_no_scores():
    """The judge is to blame for the missing verdicts, and not the model."""
    two_unscored_facts = make_judged("uu")

    metrics = long_form_metrics(two_unscored_facts, shares_name=False, k_values=(4,))

    assert metrics["precision"] is None
    assert metrics["f1_at_k"] is None
    assert metrics["unscored"] == "no fact has a verdict"


def test_additional_values_of_k_have_separate_metrics():
    """Two of three facts are supported ("s"), and one is not ("n")."""
    metrics = long_form_metrics(make_judged("ssn"), shares_name=False, k_values=(4, 8))

    precision = 2 / 3
    recall_at_8 = 2 / 8
    assert metrics["f1_at_8"] == pytest.approx(2 / (1 / precision + 1 / recall_at_8))


def test_d_factscore_is_omitted_without_shared_names():
    """With one subject, no fact can be about another, so D-FActScore would equal FActScore."""
    metrics = long_form_metrics(make_judged("ssn"), shares_name=False, k_values=(4,))

    assert "d_factscore" not in metrics


@pytest.mark.parametrize(
    ("changes", "respond_ratio"),
    [
        pytest.param({"abstained": True}, 0, id="abstention"),
        pytest.param({"problem": NO_FACTS}, 1, id="no facts"),
        pytest.param({"problem": NO_SENTENCES}, 1, id="no sentences"),
    ],
)
def test_response_without_facts_has_f1_0_and_no_precision(changes, respond_ratio):
    """Whoever asks learns nothing from such a response."""
    without_facts = make_judged("", **changes)

    metrics = long_form_metrics(without_facts, shares_name=False, k_values=(4,))

    assert metrics["f1_at_k"] == 0
    assert metrics["f1_at_k_worst"] == 0
    assert metrics["f1_at_k_best"] == 0
    assert metrics["precision"] is None
    assert metrics["respond_ratio"] == respond_ratio
    assert metrics["unscored"] is None


@pytest.mark.parametrize(
    ("problem", "respond_ratio"),
    [
        pytest.param("the judge failed: down", 1, id="judge that is down"),
        pytest.param(UNFINISHED, None, id="thinking without an end"),
    ],
)
def test_unjudged_response_is_unscored_with_bounds(problem, respond_ratio):
    """If the model never ended its thinking, nobody knows whether it would have responded."""
    metrics = long_form_metrics(make_judged("", problem=problem), shares_name=False, k_values=(4,))

    assert metrics["f1_at_k"] is None
    assert metrics["f1_at_k_worst"] == 0
    assert metrics["f1_at_k_best"] == 1
    assert metrics["precision"] is None
    assert metrics["respond_ratio"] == respond_ratio
    assert metrics["unscored"] == problem


def test_a_tally_counts_the_facts_of_all_verdicts():
    """A response has as many facts as a judge finds, whatever it says of them."""
    assert FactTally(supported=4, not_supported=3).num_facts == 7
    assert FactTally(supported=4, not_supported=3, irrelevant=2, unscored=1).num_facts == 10
