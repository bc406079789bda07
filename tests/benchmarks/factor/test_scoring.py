"""Equation 1 and its neighbours, on numbers worked out by hand."""

import math
import random

import pytest
from scipy.special import softmax

from lm_factuality.benchmarks.factor.metrics import CONTINUOUS, row_metrics
from lm_factuality.benchmarks.factor.scoring import score_row
from lm_factuality.harness.outputs import ScoredContinuation

CHOICES = ("four", "sixsix", "eighteig", "ten ten te")


def scores(*values, tokens=(2, 2, 2, 2)):
    return [
        ScoredContinuation(value, False, count, False)
        for value, count in zip(values, tokens, strict=True)
    ]


def test_tokens_sums_and_bytes_can_name_different_winners():
    # sums: -6 loses to -5; means per token: -2 beats -2.5; per byte: -1.5 loses to -5/6
    row = score_row(scores(-6, -5, -30, -30, tokens=(3, 2, 2, 2)), CHOICES, gold=0)
    assert row.correct == {"factor_acc": True, "acc": False, "acc_bytes": False}
    assert row.mean_logprob == (-2.0, -2.5, -15.0, -15.0)


def test_gold_may_stand_anywhere():
    assert score_row(scores(-9, -8, -1, -7), CHOICES, gold=2).correct["factor_acc"]


def test_a_tie_is_not_right():
    row = score_row(scores(-4, -4, -4, -4), CHOICES, gold=0)
    assert row.correct["factor_acc"] is False
    assert row.correct["acc"] is False


def test_the_authors_script_gives_ties_to_the_first_choice():
    assert score_row(scores(-4, -4, -4, -4), CHOICES, 0, protocol="code").correct["factor_acc"]
    assert not score_row(scores(-4, -4, -4, -4), CHOICES, 1, protocol="code").correct["factor_acc"]
    assert not score_row(scores(-5, -4, -4, -6), CHOICES, 0, protocol="code").correct["factor_acc"]
    assert score_row(scores(math.nan, -4, -4, -4), CHOICES, 0, protocol="code").unscored


def test_dolas_script_compares_sums_and_calls_ties_right():
    # sums: -6 loses to -5, though -2 a token beats -2.5
    row = score_row(scores(-6, -5, -30, -30, tokens=(3, 2, 2, 2)), CHOICES, gold=0, protocol="dola")
    assert (row.correct["factor_acc"], row.leads) == (False, (0, -1, 24, 24))
    assert row.mean_logprob[0] == -2.0
    row = score_row(scores(-4, -4, -4, -9, tokens=(1, 2, 3, 4)), CHOICES, gold=0, protocol="dola")
    assert (row.correct["factor_acc"], row.correct["acc"]) == (True, True)
    assert score_row(scores(-4, -4, -9, -9), CHOICES, gold=1, protocol="dola").correct["factor_acc"]
    assert score_row(scores(math.nan, -4, -4, -4), CHOICES, 0, protocol="dola").unscored


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("position", [0, 3])
def test_what_is_not_a_number_leaves_the_row_unscored(bad, position):
    values = [-1.0, -2.0, -3.0, -4.0]
    values[position] = bad
    row = score_row(scores(*values), CHOICES, gold=0)
    assert row.correct == {}
    assert row.unscored.startswith(f"choice {position}: ")
    assert row.mean_logprob[position] is None


def test_each_contradiction_is_compared_on_its_own():
    row = score_row(scores(-4, -2, -6, -8), CHOICES, gold=0)
    assert row.leads == (0.0, -1.0, 1.0, 2.0)


def test_without_token_counts_there_is_no_factor_acc():
    row = score_row(scores(-1, -2, -3, -4, tokens=(None,) * 4), CHOICES, gold=0)
    assert row.correct == {"acc": True, "acc_bytes": True}
    assert row.leads == ()


def test_a_fault_of_the_row_outweighs_its_scores():
    assert (
        score_row(scores(-1, -2, -3, -4), CHOICES, 0, "choice 1 is empty").unscored
        == "choice 1 is empty"
    )


def test_finer_scores_are_those_of_lm_eval():
    """Its Brier score of sums, which the installed release computes out of a list of
    distributions."""
    from lm_eval.api.metrics import brier_score

    values = (-31.2, -30.9, -33.0, -30.1)
    continuous = score_row(scores(*values), CHOICES, gold=2).continuous
    shares = softmax(values)
    assert continuous["choice_prob"] == pytest.approx(shares[2])
    assert continuous["brier_score"] == pytest.approx(brier_score([(2, shares)]))


def test_equal_choices_have_equal_shares_and_log_probabilities_may_be_of_any_size():
    assert score_row(scores(-4, -4, -4, -4), CHOICES, 0).continuous["brier_score"] == pytest.approx(
        0.75
    )
    assert score_row(scores(-4, -4, -4, -4), CHOICES, 0).continuous["choice_prob"] == pytest.approx(
        0.25
    )
    sure = score_row(scores(-9e3, -1e4, -2e4, -3e5), CHOICES, 0).continuous
    assert (sure["choice_prob"], sure["brier_score"]) == (1.0, 0.0)
    assert score_row(scores(-1e4, -9e3, -2e4, -3e5), CHOICES, 0).continuous[
        "brier_score"
    ] == pytest.approx(2.0)


def test_without_token_counts_there_are_finer_scores_of_sums():
    row = score_row(scores(-1, -2, -3, -4, tokens=(None,) * 4), CHOICES, gold=0)
    assert row.continuous == score_row(scores(-1, -2, -3, -4), CHOICES, gold=0).continuous
    assert score_row(scores(-1, -2, math.nan, -4), CHOICES, gold=0).continuous == {}


DOC = {
    "doc_id": "d",
    "choices": CHOICES,
    "gold": 0,
    "problem": "",
    "error_types": ["", "entity", "date", "entity"],
}


def test_margins_and_pairwise_accuracy_of_all_and_of_each_error_type():
    """Means per token: -2 for the true one; -1 and -4 for entities, -3 for the date."""
    found = row_metrics(DOC, scores(-4, -2, -6, -8), "paper", ["date", "entity", "predicate"])
    assert (found["margin"], found["margin_vs_entity"], found["margin_vs_date"]) == (
        -1.0,
        -1.0,
        1.0,
    )
    assert (found["pairwise_acc"], found["pairwise_acc"].weight) == (pytest.approx(2 / 3), 3)
    assert (
        found["factor_acc_vs_entity"],
        found["factor_acc_vs_entity"].weight,
        found["factor_acc_vs_date"],
    ) == (0.5, 2, 1.0)
    assert (found["margin_vs_predicate"], found["factor_acc_vs_predicate"]) == (None, None)
    assert found["bits_per_byte"].weight == 4
    assert {found[name].cluster for name in CONTINUOUS} == {"d"}
    tied = scores(-4, -4, -6, -8)
    assert row_metrics(DOC, tied, "dola", [])["pairwise_acc"] == 1
    assert row_metrics(DOC, tied, "paper", [])["pairwise_acc"] == pytest.approx(2 / 3)


def test_a_margin_is_above_zero_where_the_row_is_right():
    rng = random.Random(0)
    for _ in range(200):
        values = [rng.uniform(-20, -1) for _ in range(4)]
        found = row_metrics(
            DOC,
            scores(*values, tokens=[rng.randint(1, 9) for _ in range(4)]),
            "paper",
            ["entity", "date"],
        )
        assert (found["margin"] > 0) == bool(found["factor_acc"]) == (found["pairwise_acc"] == 1)
        assert found["margin"] == min(found["margin_vs_entity"], found["margin_vs_date"])


def test_unscored_rows_have_no_finer_scores_and_token_scores_need_tokens():
    assert {
        row_metrics(DOC, scores(-1, math.inf, -1, -1), "paper", [])[name] for name in CONTINUOUS
    } == {None}
    without = row_metrics(DOC, scores(-1, -2, -3, -4, tokens=(None,) * 4), "paper", ["entity"])
    assert {name for name in CONTINUOUS if name in without} == {
        "bits_per_byte",
        "choice_prob",
        "brier_score",
    }
    assert not [name for name in without if name.startswith("margin")]
