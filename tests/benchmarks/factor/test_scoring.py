"""The accuracy of FACTOR (equation 1 of the paper) and related scores, worked out by hand."""

import math
import random

import pytest
from scipy.special import softmax

from lm_factuality.benchmarks.factor.metrics import CONTINUOUS, ChoiceValues, row_metrics
from lm_factuality.benchmarks.factor.scoring import score_row
from lm_factuality.harness.outputs import ScoredContinuation

CHOICES = ("four", "sixsix", "eighteig", "ten ten te")
"""Choices of 4, 6, 8 and 10 bytes."""


def make_scores(*logprobs, tokens=(2, 2, 2, 2)):
    """Make the scores of the four choices from their log-probabilities and numbers of tokens."""
    return [
        ScoredContinuation(logprob, False, num_tokens, False)
        for logprob, num_tokens in zip(logprobs, tokens, strict=True)
    ]


NO_TOKENS = (None,) * 4
"""The numbers of tokens from a model that does not tell them."""


def test_token_means_sums_and_byte_means_can_prefer_different_choices():
    """The true choice has 3 tokens and 4 bytes, and the second choice 2 tokens and 6 bytes."""
    scores = make_scores(-6, -5, -30, -30, tokens=(3, 2, 2, 2))

    row = score_row(scores, CHOICES, gold=0)

    assert row.mean_logprob == (-2.0, -2.5, -15.0, -15.0)
    assert row.correct == {
        "factor_acc": True,  # -6/3 beats -5/2
        "acc": False,  # -6 loses to -5
        "acc_bytes": False,  # -6/4 loses to -5/6
    }


def test_true_choice_can_have_any_position():
    """The published files have it first, but a user's own rows need not."""
    row = score_row(make_scores(-9, -8, -1, -7), CHOICES, gold=2)

    assert row.correct["factor_acc"]


def test_tie_counts_as_wrong():
    """A model that gives all choices the same score knows nothing."""
    row = score_row(make_scores(-4, -4, -4, -4), CHOICES, gold=0)

    assert row.correct["factor_acc"] is False
    assert row.correct["acc"] is False


@pytest.mark.parametrize(
    ("logprobs", "gold", "is_right"),
    [
        pytest.param((-4, -4, -4, -4), 0, True, id="the true choice is the first"),
        pytest.param((-4, -4, -4, -4), 1, False, id="the true choice is the second"),
        pytest.param((-5, -4, -4, -6), 0, False, id="the true choice is not in the tie"),
    ],
)
def test_protocol_code_gives_a_tie_to_the_first_choice(logprobs, gold, is_right):
    """The authors' code takes the index of the greatest score."""
    row = score_row(make_scores(*logprobs), CHOICES, gold, protocol="code")

    assert bool(row.correct["factor_acc"]) is is_right


@pytest.mark.parametrize("protocol", ["code", "dola"])
def test_nan_leaves_the_row_unscored_in_script_protocols(protocol):
    """FACTOR's script would take the first choice, which is the true one."""
    row = score_row(make_scores(math.nan, -4, -4, -4), CHOICES, 0, protocol=protocol)

    assert row.unscored


def test_protocol_dola_compares_sums():
    """DoLa's script does not divide by the number of tokens, as FACTOR's script does."""
    scores = make_scores(-6, -5, -30, -30, tokens=(3, 2, 2, 2))

    row = score_row(scores, CHOICES, gold=0, protocol="dola")

    assert row.correct["factor_acc"] is False  # -6 loses to -5, though -6/3 beats -5/2
    assert row.leads == (-6 - -6, -6 - -5, -6 - -30, -6 - -30)
    assert row.mean_logprob[0] == -6 / 3


def test_protocol_dola_counts_a_tie_as_right():
    """DoLa's script counts a row as wrong only if a contradiction has more than the true choice."""
    row = score_row(
        make_scores(-4, -4, -4, -9, tokens=(1, 2, 3, 4)), CHOICES, gold=0, protocol="dola"
    )

    assert row.correct["factor_acc"] is True
    assert row.correct["acc"] is True


def test_protocol_dola_counts_a_tie_as_right_in_second_place():
    """The place of the true choice does not matter in this protocol."""
    row = score_row(make_scores(-4, -4, -9, -9), CHOICES, gold=1, protocol="dola")

    assert row.correct["factor_acc"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("position", [0, 3])
def test_non_finite_score_leaves_the_row_unscored(value, position):
    """An infinite score or NaN would win or lose every comparison for no reason."""
    logprobs = [-1.0, -2.0, -3.0, -4.0]
    logprobs[position] = value

    row = score_row(make_scores(*logprobs), CHOICES, gold=0)

    assert row.correct == {}
    assert row.unscored.startswith(f"choice {position}: ")
    assert row.mean_logprob[position] is None


def test_lead_is_computed_for_each_contradiction():
    """Each choice has two tokens, so the means are -2, -1, -3 and -4."""
    scores = make_scores(-4, -2, -6, -8)

    row = score_row(scores, CHOICES, gold=0)

    assert row.leads == (-2 - -2, -2 - -1, -2 - -3, -2 - -4)


def test_factor_acc_needs_token_counts():
    """FACTOR's accuracy compares means per token. Sums and means per byte need no token counts."""
    scores = make_scores(-1, -2, -3, -4, tokens=NO_TOKENS)

    row = score_row(scores, CHOICES, gold=0)

    assert row.correct == {"acc": True, "acc_bytes": True}
    assert row.leads == ()


def test_row_with_a_problem_is_unscored():
    """A row with an empty choice asks nothing, whatever the model's scores."""
    row = score_row(make_scores(-1, -2, -3, -4), CHOICES, 0, "choice 1 is empty")

    assert row.unscored == "choice 1 is empty"


def test_choice_prob_and_brier_score_come_from_sums_as_in_lm_eval():
    """The probabilities of the choices follow from sums of log-probabilities, not from means."""
    from lm_eval.api.metrics import brier_score

    sums = (-31.2, -30.9, -33.0, -30.1)
    gold = 2

    continuous = score_row(make_scores(*sums), CHOICES, gold).continuous

    probabilities = softmax(sums)
    assert continuous["choice_prob"] == pytest.approx(probabilities[gold])
    assert continuous["brier_score"] == pytest.approx(brier_score([(gold, probabilities)]))


@pytest.mark.parametrize(
    ("logprobs", "choice_prob", "brier_score"),
    [
        pytest.param((-4, -4, -4, -4), 0.25, 0.75, id="equal choices"),
        pytest.param((-9e3, -1e4, -2e4, -3e5), 1.0, 0.0, id="sure of the true one"),
        # The squared errors of the true choice and of the false one are 1 each.
        pytest.param((-1e4, -9e3, -2e4, -3e5), 0.0, 2.0, id="sure of a false one"),
    ],
)
def test_very_small_log_probabilities_are_handled(logprobs, choice_prob, brier_score):
    """The exponentials of such sums are 0, so probabilities are computed from differences."""
    continuous = score_row(make_scores(*logprobs), CHOICES, 0).continuous

    assert continuous["choice_prob"] == pytest.approx(choice_prob)
    assert continuous["brier_score"] == pytest.approx(brier_score)


def test_sum_based_continuous_scores_need_no_token_counts():
    """Some servers do not tell how many tokens a choice has."""
    row_with_counts = score_row(make_scores(-1, -2, -3, -4), CHOICES, gold=0)

    row = score_row(make_scores(-1, -2, -3, -4, tokens=NO_TOKENS), CHOICES, gold=0)

    assert row.continuous == row_with_counts.continuous


def test_an_unscored_row_has_no_continuous_scores():
    """One of four log-probabilities is missing, so there is no distribution."""
    row = score_row(make_scores(-1, -2, math.nan, -4), CHOICES, gold=0)

    assert row.continuous == {}


def make_doc(error_types, doc_id="d"):
    """Make a document of four choices of which the first is true.

    Args:
        error_types: What each of the three contradictions changes.
        doc_id: The document that the row is from.
    """
    return {
        "doc_id": doc_id,
        "choices": CHOICES,
        "gold": 0,
        "problem": "",
        "error_types": ["", *error_types],
    }


def test_the_margin_is_the_lead_over_the_nearest_contradiction():
    """Each choice has two tokens, so the means are -2 for the truth, and -1, -3 and -4."""
    doc = make_doc(error_types=["entity", "date", "entity"])
    scores = make_scores(-4, -2, -6, -8, tokens=(2, 2, 2, 2))

    metrics = row_metrics(doc, scores, protocol="paper", error_types=["date", "entity"])

    assert metrics["margin"] == -2 - (-1)
    assert metrics["margin_vs_entity"] == -2 - (-1)
    assert metrics["margin_vs_date"] == -2 - (-3)


def test_pairwise_accuracy_is_the_share_of_losing_contradictions():
    """The means per token are -2 for the truth, and -1, -3 and -4, of which two lose to -2."""
    doc = make_doc(error_types=["entity", "date", "entity"])
    scores = make_scores(-4, -2, -6, -8, tokens=(2, 2, 2, 2))

    metrics = row_metrics(doc, scores, protocol="paper", error_types=[])

    assert metrics["pairwise_acc"] == pytest.approx(2 / 3)
    assert metrics["pairwise_acc"].weight == 3


def test_pairwise_accuracy_is_given_by_error_type():
    """One of two contradictions of entities beats the true choice, and that of a date loses."""
    doc = make_doc(error_types=["entity", "date", "entity"])
    scores = make_scores(-4, -2, -6, -8, tokens=(2, 2, 2, 2))

    metrics = row_metrics(doc, scores, protocol="paper", error_types=["date", "entity"])

    assert metrics["factor_acc_vs_entity"] == 1 / 2
    assert metrics["factor_acc_vs_entity"].weight == 2
    assert metrics["factor_acc_vs_date"] == 1 / 1


def test_missing_error_type_has_no_metrics():
    """Rows without a value are left out of the mean."""
    doc = make_doc(error_types=["entity", "date", "entity"])

    metrics = row_metrics(
        doc, make_scores(-4, -2, -6, -8), protocol="paper", error_types=["predicate"]
    )

    assert metrics["margin_vs_predicate"] is None
    assert metrics["factor_acc_vs_predicate"] is None


def test_continuous_metrics_are_clustered_by_document():
    """The standard errors of these metrics allow for rows of one document being alike."""
    doc = make_doc(error_types=["entity", "date", "entity"], doc_id="town")

    metrics = row_metrics(doc, make_scores(-4, -2, -6, -8), protocol="paper", error_types=[])

    for name in CONTINUOUS:
        assert metrics[name].cluster == "town"


def test_bits_per_byte_are_weighted_by_the_bytes_of_the_true_choice():
    doc = make_doc(error_types=["entity", "date", "entity"])
    doc["choices"] = ["four", "sixsix", "eighteig", "ten ten te"]

    metrics = row_metrics(doc, make_scores(-4, -2, -6, -8), protocol="paper", error_types=[])

    assert metrics["bits_per_byte"].weight == 4


@pytest.mark.parametrize(("protocol", "pairwise_acc"), [("dola", 1), ("paper", 2 / 3)])
def test_only_protocol_dola_counts_a_tied_pair_as_right(protocol, pairwise_acc):
    """The true choice ties with the first of three contradictions."""
    doc = make_doc(error_types=["entity", "date", "entity"])

    metrics = row_metrics(doc, make_scores(-4, -4, -6, -8), protocol, error_types=[])

    assert metrics["pairwise_acc"] == pytest.approx(pairwise_acc)


def test_margin_is_positive_exactly_for_right_rows():
    """A row is right if the true choice beats each contradiction, of whatever type."""
    doc = make_doc(error_types=["entity", "date", "entity"])
    draw = random.Random(0)
    for _ in range(200):
        logprobs = [draw.uniform(-20, -1) for _ in range(4)]
        tokens = [draw.randint(1, 9) for _ in range(4)]
        scores = make_scores(*logprobs, tokens=tokens)

        metrics = row_metrics(doc, scores, protocol="paper", error_types=["entity", "date"])

        is_right = bool(metrics["factor_acc"])
        assert (metrics["margin"] > 0) == is_right
        assert (metrics["pairwise_acc"] == 1) == is_right
        assert metrics["margin"] == min(metrics["margin_vs_entity"], metrics["margin_vs_date"])


def test_an_unscored_row_has_no_continuous_metrics():
    """The second choice has an infinite score, which would spoil every mean."""
    doc = make_doc(error_types=["entity", "date", "entity"])
    scores = make_scores(-1, math.inf, -1, -1)

    metrics = row_metrics(doc, scores, protocol="paper", error_types=[])

    for name in CONTINUOUS:
        assert metrics[name] is None


def test_margins_need_token_counts():
    """Margins are differences of means per token, and this model tells no numbers of tokens."""
    doc = make_doc(error_types=["entity", "date", "entity"])
    scores = make_scores(-1, -2, -3, -4, tokens=NO_TOKENS)

    metrics = row_metrics(doc, scores, protocol="paper", error_types=["entity"])

    assert metrics.keys() & set(CONTINUOUS) == {"bits_per_byte", "choice_prob", "brier_score"}
    assert not any(name.startswith("margin") for name in metrics)


@pytest.mark.parametrize(
    ("gold", "value"),
    [(0, -1.0), (2, -3.0), (3, None), (-1, None)],
    ids=["first", "last", "beyond the last", "before the first"],
)
def test_choice_values_identify_the_true_value(gold, value):
    """Rows that other programs wrote may have a wrong place of the true choice."""
    assert ChoiceValues([-1.0, -2.0, -3.0], gold).gold_value == value


def test_choice_values_without_a_true_choice_have_no_true_value():
    """Without a true choice, no value can be the true one."""
    assert ChoiceValues([-1.0, -2.0, -3.0]).gold_value is None


@pytest.mark.parametrize(("cut_choices", "is_truncated"), [((), False), ((1,), True)])
def test_a_row_is_truncated_if_any_choice_is(cut_choices, is_truncated):
    """The four choices were then compared after different texts."""
    scores = [ScoredContinuation(-4, False, 2, index in cut_choices) for index in range(4)]

    row = score_row(scores, CHOICES, gold=0)

    assert row.truncated is is_truncated
