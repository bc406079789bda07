"""Win rates, intervals and tests of blind baselines, compared with other implementations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from scipy.stats import binomtest

from factor_gen.audit.evaluate import evaluate_baselines, win_rate
from factor_gen.audit.records import (
    COMPARES,
    LEARNED,
    SURFACE,
    BlindBaseline,
    ChoiceScores,
    EstimatedShare,
)
from factor_gen.audit.tables import describe_significance
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.scores.intervals import mean_interval
from tests.factor_gen.audit.rows import factor_row

# A baseline scores the four choices of a row, of which the first is the true one.
WINS_ALL_PAIRS = [2.0, 1.0, 0.0, 0.0]
WINS_TWO_OF_THREE_PAIRS = [1.0, 2.0, 0.0, 0.0]
WINS_NO_PAIR = [0.0, 1.0, 2.0, 3.0]


def make_rows(num_documents: int, rows_per_document: int) -> list[Row]:
    """Return rows of four choices, the first of which is true. No two rows are equal."""
    rows = []
    for number in range(num_documents * rows_per_document):
        doc_id = str(number // rows_per_document)
        rows.append(factor_row(f"a {number}", "a c", "a d", "a e", doc_id=doc_id))
    return rows


def evaluate(rows: Sequence[Row], values: Sequence[Sequence[float] | None]) -> BlindBaseline:
    """Return how good a baseline is that looks only at the surface of the choices.

    Args:
        rows: The rows.
        values: The baseline's scores of the choices of each row.
    """
    scores = ChoiceScores("test", SURFACE, values)
    [baseline] = evaluate_baselines([scores], rows)
    return baseline


@pytest.mark.parametrize("num_right", [10, 18, 20, 24, 30])
def test_p_value_for_two_choices_equals_a_sign_test(num_right: int) -> None:
    """SciPy's exact test is the reference for rows of two choices with different scores."""
    rows = [factor_row(f"a {number}", "b", doc_id=str(number)) for number in range(40)]
    # The first of the two scores is that of the true choice.
    won_pair = [1.0, 0.5]
    lost_pair = [0.0, 0.5]
    values = [won_pair] * num_right + [lost_pair] * (40 - num_right)

    baseline = evaluate(rows, values)

    sign_test = binomtest(num_right, 40, 0.5, alternative="greater")
    assert baseline.p_value == pytest.approx(sign_test.pvalue, abs=0.006)


def test_rows_with_two_choices_have_one_pair_each() -> None:
    """The share of pairs that are won is then the share of rows that are won."""
    rows = [factor_row(f"a {number}", "b", doc_id=str(number)) for number in range(40)]
    # The first of the two scores is that of the true choice.
    won_pair = [1.0, 0.5]
    lost_pair = [0.0, 0.5]

    baseline = evaluate(rows, [won_pair] * 10 + [lost_pair] * 30)

    assert baseline.rows_won.value == 10 / 40
    assert baseline.pairs_won.value == 10 / 40


@pytest.mark.parametrize(
    ("values", "share_of_pairs"),
    [
        pytest.param([2, 1, 0, 0], 1, id="greater than all others"),
        pytest.param([1, 2, 0, 1], 0.5, id="one won, one lost, one tie"),
        pytest.param([0, 0, 0, 0], 0.5, id="ties only"),
        pytest.param([0, 1, 2, 3], 0, id="less than all others"),
    ],
)
def test_the_win_rate_is_the_share_of_other_choices_with_a_lower_score(
    values: Sequence[float], share_of_pairs: float
) -> None:
    """The true choice makes a pair with each other choice, and a tie counts as half a win."""
    assert win_rate(values, gold=0) == share_of_pairs


def test_the_shares_of_rows_and_pairs_are_means_over_rows() -> None:
    """A row is won if the true choice scores best; each row has three pairs."""
    rows = make_rows(num_documents=40, rows_per_document=1)

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * 20 + [WINS_TWO_OF_THREE_PAIRS] * 20)

    assert baseline.rows_won.value == 20 / 40
    assert baseline.pairs_won.value == pytest.approx((20 * 3 / 3 + 20 * 2 / 3) / 40)


def test_the_interval_of_rows_won_is_clustered_by_document() -> None:
    """Rows of one document are alike, so an interval that ignored documents would be too narrow."""
    # 13 documents of three rows, and one of a single row.
    rows = make_rows(num_documents=14, rows_per_document=3)[:40]

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * 17 + [WINS_TWO_OF_THREE_PAIRS] * 23)

    # A row is won only if all its pairs are.
    share_of_row = [1.0] * 17 + [0.0] * 23
    document_of_row = [row.doc_id for row in rows]
    expected_interval = mean_interval(share_of_row, document_of_row)
    interval = (baseline.rows_won.low, baseline.rows_won.high)
    assert interval == pytest.approx(expected_interval)


def test_the_interval_of_pairs_won_is_clustered_by_document() -> None:
    """Rows of one document are alike, so an interval that ignored documents would be too narrow."""
    # 13 documents of three rows, and one of a single row.
    rows = make_rows(num_documents=14, rows_per_document=3)[:40]

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * 17 + [WINS_TWO_OF_THREE_PAIRS] * 23)

    share_of_row = [3 / 3] * 17 + [2 / 3] * 23  # of the three pairs of a row
    document_of_row = [row.doc_id for row in rows]
    expected_interval = mean_interval(share_of_row, document_of_row)
    interval = (baseline.pairs_won.low, baseline.pairs_won.high)
    assert interval == pytest.approx(expected_interval)


@pytest.mark.parametrize("num_documents", [1, 9])
def test_no_p_value_is_computed_for_fewer_than_ten_documents(num_documents: int) -> None:
    """With so few documents, even a perfect baseline may be luck."""
    rows = make_rows(num_documents, rows_per_document=20)

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * len(rows))

    assert baseline.rows_won.value == 1
    assert math.isnan(baseline.p_value)
    assert not baseline.is_above_chance
    assert describe_significance(baseline) == "too few documents to tell"


def test_a_perfect_baseline_of_ten_documents_is_significant() -> None:
    """Ten documents are the fewest for which a p-value is computed."""
    rows = make_rows(num_documents=10, rows_per_document=20)

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * (10 * 20))

    assert baseline.p_value < 0.001


@pytest.mark.parametrize(("num_documents", "has_interval"), [(1, False), (9, True)])
def test_an_interval_needs_more_than_one_document(num_documents: int, has_interval: bool) -> None:
    """Rows of one document do not show how much documents differ."""
    rows = make_rows(num_documents, rows_per_document=20)

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * len(rows))

    assert (baseline.rows_won.low is not None) is has_interval


def test_documents_with_the_same_text_count_as_one() -> None:
    """So 40 copies are one document, which is too few for a p-value."""
    rows = [factor_row("a b", "a c", "a d", "a e", doc_id=str(number)) for number in range(40)]

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * 40)

    assert math.isnan(baseline.p_value)


def test_p_value_of_a_learned_baseline_uses_forward_scores() -> None:
    """A forward score is that of a model that has learned only from earlier documents.

    The other scores are of models that have learned from each other's documents. So they are not
    independent, as a p-value presupposes.
    """
    rows = make_rows(num_documents=40, rows_per_document=1)
    scores = ChoiceScores(
        "test",
        LEARNED,
        values=[WINS_ALL_PAIRS] * 40,
        # There is nothing earlier from which to learn for the first eight rows.
        forward_values=[None] * 8 + [WINS_NO_PAIR] * 32,
    )

    [baseline] = evaluate_baselines([scores], rows)

    assert baseline.p_value > 0.99


def test_rows_won_by_a_learned_baseline_ignore_forward_scores() -> None:
    """Forward scores are missing for the first rows, and the others are there for all rows."""
    rows = make_rows(num_documents=40, rows_per_document=1)
    scores = ChoiceScores(
        "test",
        LEARNED,
        values=[WINS_ALL_PAIRS] * 40,
        forward_values=[None] * 8 + [WINS_NO_PAIR] * 32,
    )

    [baseline] = evaluate_baselines([scores], rows)

    assert baseline.rows == 40
    assert baseline.rows_won.value == 1


@pytest.mark.parametrize(
    ("pairs_won", "description"),
    [
        pytest.param(
            0.507,
            "slight leak, above chance by 0.7 points, p = 0.002",
            id="less than 2 points above chance",
        ),
        pytest.param(
            0.56,
            "above chance by 6.0 points, p = 0.002",
            id="more than 2 points above chance",
        ),
    ],
)
def test_a_small_difference_is_called_a_slight_leak(pairs_won: float, description: str) -> None:
    """With many rows even a harmless difference is significant."""
    share = EstimatedShare(pairs_won, low=0.503, high=0.571)
    baseline = BlindBaseline(
        "test",
        SURFACE,
        rows=736,
        rows_won=share,
        pairs_won=share,
        p_value=0.0001,
        corrected_p_value=0.002,
    )

    assert describe_significance(baseline) == description


def test_tie_with_one_contradiction_wins_half_a_row() -> None:
    """A rule that cannot decide would guess between the two."""
    rows = make_rows(num_documents=40, rows_per_document=1)

    baseline = evaluate(rows, [[1.0, 1.0, 0.0, 0.0]] * 40)

    assert baseline.rows_won.value == 0.5


def test_constant_baseline_is_at_chance() -> None:
    """A baseline with equal scores guesses among four choices."""
    rows = make_rows(num_documents=40, rows_per_document=1)

    baseline = evaluate(rows, [[1.0, 1.0, 1.0, 1.0]] * 40)

    assert baseline.rows_won.value == 1 / 4
    assert baseline.p_value == 1.0
    assert not baseline.is_above_chance


def test_rows_without_scores_do_not_count() -> None:
    """A missing score is neither a win nor a loss."""
    rows = make_rows(num_documents=40, rows_per_document=1)

    baseline = evaluate(rows, [WINS_ALL_PAIRS] * 20 + [None] * 20)

    assert baseline.rows == 20
    assert baseline.rows_won.value == 1.0


def test_a_baseline_without_any_scores_has_no_share() -> None:
    """A share of 0 would count as the worst possible baseline."""
    rows = make_rows(num_documents=40, rows_per_document=1)

    baseline = evaluate(rows, [None] * 40)

    assert baseline.rows == 0
    assert math.isnan(baseline.rows_won.value)


def test_p_values_are_corrected_for_the_number_of_counted_baselines() -> None:
    """Three of four baselines count. The one that compares the choices with each other does not."""
    rows = make_rows(num_documents=40, rows_per_document=1)
    values = [WINS_ALL_PAIRS] * 26 + [WINS_NO_PAIR] * 14
    scores = [
        ChoiceScores("first", SURFACE, values),
        ChoiceScores("second", SURFACE, values),
        ChoiceScores("third", LEARNED, values),
        ChoiceScores("not counted", COMPARES, values),
    ]

    baselines = evaluate_baselines(scores, rows)

    # All four have the same scores, and so the same p-value before the correction.
    p_value = baselines[0].p_value
    corrected_p_values = {baseline.name: baseline.corrected_p_value for baseline in baselines}
    assert 0 < p_value < 0.1
    assert corrected_p_values == {
        "first": 3 * p_value,
        "second": 3 * p_value,
        "third": 3 * p_value,
        "not counted": p_value,
    }
