"""Paired differences against values found in other ways."""

from itertools import combinations

import numpy as np
import pytest

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.pairs import (
    comparable_scores,
    compare_all_models,
    paired_difference,
    score_stderr,
)
from lm_factuality.benchmarks.rows import ScoredRows
from lm_factuality.scores.intervals import difference_interval
from lm_factuality.scores.paired import holm
from lm_factuality.scores.statistics import Outcome, clustered_stderr

ACCURACY = find_benchmark("factor").table_scores[0]
F1 = find_benchmark("felm").table_scores[0]
ERROR_RATE = find_benchmark("felm_gen").table_scores[0]


def make_rows(values, documents=None):
    """Make rows with these accuracies, named by their places.

    Args:
        values: 1 for a row that the model has right, 0 for another.
        documents: The document of each row. By default, each row has its own.
    """
    documents = documents or range(len(values))
    rows = {}
    for number, (value, document) in enumerate(zip(values, documents, strict=True)):
        # An accuracy is the sum of the values over the number of rows.
        rows[str(number)] = (str(document), (value, 1.0))
    return ScoredRows(rows)


def test_difference_of_means_equals_the_mean_difference():
    model_a = make_rows([1, 1, 1, 0, 1, 1, 0, 1])
    model_b = make_rows([0, 0, 0, 0, 0, 1, 1, 1])

    pair = paired_difference(model_a, model_b, ACCURACY)

    assert pair.difference == pytest.approx(6 / 8 - 3 / 8)


def test_the_interval_of_a_difference_is_clustered_by_document():
    """Rows of a document are alike, so their number overstates what is known."""
    documents = ["a", "a", "b", "b", "c", "c", "d", "d"]
    accuracies_a = [1, 1, 1, 0, 1, 1, 0, 1]
    accuracies_b = [0, 0, 0, 0, 0, 1, 1, 1]

    pair = paired_difference(
        make_rows(accuracies_a, documents), make_rows(accuracies_b, documents), ACCURACY
    )

    assert pair.interval == difference_interval(accuracies_a, accuracies_b, documents)


def test_p_value_comes_from_swapping_models_in_whole_documents():
    """The differences of the four documents are 2, 1, 1 and -1, with a sum of 3."""
    model_a = make_rows([1, 1, 1, 0, 1, 1, 0, 1], documents="aabbccdd")
    model_b = make_rows([0, 0, 0, 0, 0, 1, 1, 1], documents="aabbccdd")

    pair = paired_difference(model_a, model_b, ACCURACY)

    num_ways_to_swap = 2**4
    num_ways_with_a_sum_as_far_from_0 = 8
    assert pair.p_value == pytest.approx(num_ways_with_a_sum_as_far_from_0 / num_ways_to_swap)


def test_detectable_difference_has_80_percent_power():
    """The number tells whether a comparison without a significant difference says anything."""
    model_a = make_rows([1, 1, 1, 0, 1, 1, 0, 1], documents="aabbccdd")
    model_b = make_rows([0, 0, 0, 0, 0, 1, 1, 1], documents="aabbccdd")

    pair = paired_difference(model_a, model_b, ACCURACY)

    # An interval of 95% reaches 1.959964 standard errors to each side.
    stderr = (pair.interval.high - pair.interval.low) / 2 / 1.959964
    # The quantile for a power of 80% is 0.841621.
    assert pair.detectable == pytest.approx((1.959964 + 0.841621) * stderr)


NUM_RESPONSES = 150


def draw_segment_counts(rng, share_found):
    """Draw the counts of responses with two wrong and three right segments each.

    Args:
        rng: The random numbers.
        share_found: The probability that the model flags a wrong segment. It flags a right one with
            a probability of 20%.

    Returns:
        An array with a row for each response: the wrong segments that are flagged, the right ones
        that are, the wrong ones that are not, and the right ones that are not.
    """
    num_hits = rng.binomial(2, share_found, NUM_RESPONSES)
    num_false_alarms = rng.binomial(3, 0.2, NUM_RESPONSES)
    return np.stack([num_hits, num_false_alarms, 2 - num_hits, 3 - num_false_alarms], axis=1)


def f1_of_counts(counts):
    """Return the F1 of all segments of these responses."""
    num_hits, num_false_alarms, num_misses, _num_passed = counts.sum(axis=0)
    return 2 * num_hits / (2 * num_hits + num_false_alarms + num_misses)


@pytest.fixture
def segment_counts():
    """Return the counts of two models, of which the first finds far more of the errors."""
    rng = np.random.default_rng(3)
    return draw_segment_counts(rng, 0.8), draw_segment_counts(rng, 0.5)


def make_response_rows(counts):
    """Make a row, and a document, of each response."""
    return ScoredRows({str(n): (str(n), tuple(row)) for n, row in enumerate(counts.tolist())})


def test_f1_scores_of_a_pair_are_pooled_over_segments(segment_counts):
    """The few segments of one response say little, so F1 is that of all segments together."""
    counts_a, counts_b = segment_counts

    pair = paired_difference(make_response_rows(counts_a), make_response_rows(counts_b), F1)

    assert pair.score_a == pytest.approx(f1_of_counts(counts_a))
    assert pair.score_b == pytest.approx(f1_of_counts(counts_b))


def test_f1_difference_interval_agrees_with_a_bootstrap(segment_counts):
    """The bootstrap draws responses anew, as another sample of the benchmark would."""
    counts_a, counts_b = segment_counts
    rng = np.random.default_rng(3)
    differences = []
    for _ in range(1500):
        # Both models are scored on the same drawn responses.
        drawn = rng.integers(0, NUM_RESPONSES, NUM_RESPONSES)
        differences.append(f1_of_counts(counts_a[drawn]) - f1_of_counts(counts_b[drawn]))

    pair = paired_difference(make_response_rows(counts_a), make_response_rows(counts_b), F1)

    stderr = (pair.interval.high - pair.interval.low) / 2 / 1.959964  # of a 95% interval
    assert stderr == pytest.approx(np.std(differences), rel=0.12)


def test_only_rows_scored_by_both_models_count():
    """The third row of the first model has no partner."""
    pair = paired_difference(make_rows([1, 0, 1]), make_rows([1, 1]), ACCURACY)

    assert pair.shared_rows == 2
    assert pair.score_a == 0.5
    assert pair.score_b == 1


def test_models_without_a_common_row_have_no_difference():
    """Different rows may be easier, so their scores cannot be compared."""
    assert paired_difference(make_rows([1, 0, 1]), ScoredRows({}), ACCURACY) is None


def test_models_with_equal_rows_do_not_differ():
    """Any swap of equal answers gives the same difference, 0."""
    pair = paired_difference(make_rows([1, 0, 1]), make_rows([1, 0, 1]), ACCURACY)

    assert pair.difference == 0
    assert pair.p_value == 1


def test_a_single_document_gives_no_p_value():
    """Rows of one document are not independent, so there is nothing to swap."""
    pair = paired_difference(
        make_rows([1, 0], documents="dd"), make_rows([0, 0], documents="dd"), ACCURACY
    )

    assert pair.p_value is None


def test_the_standard_error_of_one_model_is_clustered_by_document():
    """Rows of a document are alike, so their number overstates what is known."""
    outcomes = [Outcome(1, "a"), Outcome(0, "a"), Outcome(1, "b"), Outcome(1, "c")]

    stderr = score_stderr(make_rows([1, 0, 1, 1], documents="aabc"), ACCURACY)

    assert stderr == pytest.approx(clustered_stderr(outcomes))


def test_a_model_without_rows_has_no_standard_error():
    """A value of 0 would say that the score is certain."""
    assert score_stderr(ScoredRows({}), ACCURACY) is None


def test_scores_per_token_are_not_compared():
    """Two models cut a text into different tokens."""
    names = ["factor_mean_logprob", "factor_acc_vs_entity", "factor_acc"]

    scores = comparable_scores(find_benchmark("factor"), names)

    assert [score.name for score in scores] == ["factor_acc", "factor_acc_vs_entity"]


def test_the_order_of_rows_does_not_matter():
    """Results of two runs can list rows in different orders."""
    model_a = make_rows([1, 0, 0, 1, 1], documents="aabbc")
    model_b = make_rows([0, 0, 1, 0, 0], documents="aabbc")
    reversed_b = ScoredRows(dict(reversed(model_b.rows.items())))

    pair = paired_difference(model_a, reversed_b, ACCURACY)

    assert pair == paired_difference(model_a, model_b, ACCURACY)


def test_rates_are_tested_by_swapping_rows():
    """The rows are responses of unequal length: the number of their errors, and their length."""
    model_a = ScoredRows({"1": ("1", (1.0, 2.0)), "2": ("2", (0.0, 5.0)), "3": ("3", (1.0, 4.0))})
    model_b = ScoredRows({"1": ("1", (2.0, 2.0)), "2": ("2", (3.0, 6.0)), "3": ("3", (2.0, 3.0))})

    pair = paired_difference(model_a, model_b, ERROR_RATE)

    assert pair.difference == pytest.approx(2 / 11 - 7 / 11)
    # Swapping row 1, 2 or 3 alone gives 3/11 and 6/11, 5/12 and 4/10, or 3/10 and 6/12, which are
    # less far apart. So of the 8 swaps only those of no row and of all rows are as far apart.
    assert pair.p_value == pytest.approx(2 / 8)


@pytest.fixture
def rows_by_model():
    """Return 40 rows of each of four models, drawn at random, and a model without rows."""
    rng = np.random.default_rng(7)
    rows = {name: make_rows(rng.integers(0, 2, 40).tolist()) for name in "abcd"}
    return {**rows, "none": ScoredRows({})}


@pytest.fixture
def pairs(rows_by_model):
    """Return the differences between all models."""
    settings_by_model = {name: {} for name in rows_by_model}
    return compare_all_models(rows_by_model, ACCURACY, settings_by_model)


def test_all_models_with_rows_are_compared(pairs):
    """Each pair of the four models occurs once. The fifth has no rows to compare."""
    assert set(pairs) == set(combinations("abcd", 2))


def test_p_values_of_all_pairs_are_corrected_together(pairs):
    """With many pairs, one of them differs by chance."""
    p_values = [pair.p_value for pair in pairs.values()]

    adjusted = [pair.adjusted_p_value for pair in pairs.values()]

    assert adjusted == pytest.approx(holm(p_values))


@pytest.mark.parametrize(("name_a", "name_b"), list(combinations("abcd", 2)))
def test_uncorrected_p_value_does_not_depend_on_other_models(pairs, rows_by_model, name_a, name_b):
    """Only the correction for many comparisons may depend on how many models a table has."""
    alone = paired_difference(rows_by_model[name_a], rows_by_model[name_b], ACCURACY)

    assert pairs[name_a, name_b].p_value == alone.p_value
