"""Intervals against closed forms, other libraries and published examples.

``make coverage`` measures how often they contain the truth.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, t, ttest_1samp, ttest_rel

from lm_factuality.scores.intervals import (
    ClusteredMean,
    Interval,
    accuracy_interval,
    balanced_accuracy_interval,
    clustered_mean,
    count_detection_clusters,
    difference_interval,
    f1_interval,
    has_few_clusters,
    interval_from_stderr,
    interval_of_mean,
    mean_interval,
    mean_of_counts,
    perplexity_interval,
    pooled_difference_interval,
    pooled_interval,
    precision_interval,
    ratio_interval,
    recall_interval,
    student_quantile,
    sum_interval,
    wilson_interval,
)


def detections(tp=0, fp=0, fn=0, tn=0):
    """Return the counts of a response in the order in which the intervals take them."""
    return [tp, fp, fn, tn]


TWO_RESPONSES = [detections(tp=2, fp=1, fn=1, tn=3), detections(tp=1, fp=1, fn=2, tn=2)]


def is_close(interval, expected):
    """Return whether two intervals have the same ends, up to rounding."""
    return interval == pytest.approx(tuple(expected), abs=1e-9)


# --- Means


@pytest.mark.parametrize(("num_right", "num_wrong"), [(8, 2), (0, 3), (3, 0), (1, 368)])
def test_independent_binary_rows_have_wilsons_interval(num_right, num_wrong):
    """Wilson's interval is the usual one of a share, so readers can compute it elsewhere."""
    interval = mean_interval([1] * num_right + [0] * num_wrong)

    expected = binomtest(num_right, num_right + num_wrong).proportion_ci(method="wilson")
    assert is_close(interval, (expected.low, expected.high))


def test_independent_unbounded_rows_have_students_t_interval():
    """A score without bounds is no share, so the interval is the textbook one of a mean."""
    values = [0.2, 0.4, 0.9, 0.5, 0.7]

    interval = mean_interval(values, low=-math.inf, high=math.inf)

    assert is_close(interval, ttest_1samp(values, 0).confidence_interval())


def test_equal_sized_documents_have_the_interval_of_statsmodels():
    """With documents of one size both use the same variance and the same degrees of freedom."""
    values = [0.2, 0.4, 0.9, 0.5, 0.7, 0.6, 0.1, 0.0, 0.3, 1.0, 0.8, 0.9]
    documents = ["a", "a", "a", "b", "b", "b", "c", "c", "c", "d", "d", "d"]

    interval = mean_interval(values, documents, low=-math.inf, high=math.inf)

    # statsmodels 0.15.0: OLS(values, ones).fit(cov_type="cluster", use_t=True).conf_int()
    assert interval == pytest.approx((0.03014439, 1.03652228), abs=1e-8)


def test_equal_sized_documents_have_one_degree_of_freedom_fewer_than_documents():
    """The documents are the independent units, and not their rows."""
    values = [0.2, 0.4, 0.9, 0.5, 0.7, 0.6, 0.1, 0.0]
    documents = ["a", "a", "b", "b", "c", "c", "d", "d"]

    estimate = clustered_mean(values, documents)

    assert estimate.degrees_of_freedom == pytest.approx(4 - 1, abs=1e-9)


@pytest.mark.parametrize("sizes", [[1, 2, 3, 10], [1, 1, 1, 40, 7], [5, 6, 7, 8, 9, 10]])
def test_degrees_of_freedom_follow_satterthwaites_formula(sizes):
    """Documents of unequal size leave fewer degrees of freedom than as many equal ones."""
    errors = [size % 2 for size in sizes]

    degrees = mean_of_counts(errors, sizes).degrees_of_freedom

    # Satterthwaite's formula is tr(AW)**2 / tr(AWAW). The variance is the quadratic form e'Ae of
    # the documents' errors e, and W are the variances of these errors, which are proportional to
    # the documents' sizes.
    leverages = np.array(sizes) / sum(sizes)
    residual_maker = np.eye(len(sizes)) - np.outer(leverages, np.ones(len(sizes)))
    quadratic_form = residual_maker.T @ np.diag(1 / (1 - leverages)) @ residual_maker
    product = quadratic_form @ np.diag(leverages)
    expected = np.trace(product) ** 2 / np.trace(product @ product)
    assert degrees == pytest.approx(expected, rel=1e-9)


def test_kishs_variance_is_used_if_one_large_document_dominates():
    """Kish multiplies the variance of independent rows by the mean size of a row's document."""
    # All rows of a document are alike, so their correlation is 1.
    rows = [0, 1] + [1] * 10
    documents = ["a", "b"] + ["c"] * 10

    estimate = clustered_mean(rows, documents)

    # 11 of the 12 rows are right.
    variance_of_one_row = (11 / 12) * (1 / 12)
    variance_of_independent_rows = variance_of_one_row / 12
    # One row is in a document of size 1, another one too, and ten are in one of size 10.
    mean_size_of_a_rows_document = (1 + 1 + 10 * 10) / 12
    expected = variance_of_independent_rows * mean_size_of_a_rows_document
    assert estimate.variance == pytest.approx(expected)


def test_identical_rows_of_one_document_count_as_one():
    """150 rows of three documents tell little more than three rows would."""
    rows = [1] * 50 + [0] * 50 + [1] * 50
    documents = ["a"] * 50 + ["b"] * 50 + ["c"] * 50

    interval_of_documents = mean_interval(rows, documents)
    interval_of_independent_rows = mean_interval(rows)

    width_of_documents = interval_of_documents.high - interval_of_documents.low
    width_of_rows = interval_of_independent_rows.high - interval_of_independent_rows.low
    assert width_of_documents > 3 * width_of_rows


def test_students_t_lowers_the_effective_trials_of_few_documents():
    """The spread of few documents is itself uncertain, which Student's t makes up for."""
    rows = [1, 1, 1, 0, 0, 0]
    documents = ["a", "a", "b", "b", "c", "c"]
    variance = clustered_mean(rows, documents).variance

    interval = mean_interval(rows, documents)

    # Half of the rows are right, so n independent rows would have a variance of 0.5 * 0.5 / n.
    trials_of_same_variance = 0.5 * 0.5 / variance
    # Wilson's interval uses the normal quantile, 1.96. Student's quantile of three documents is
    # 4.30, so the interval is as wide as that of fewer trials.
    normal_quantile = norm.ppf(0.975)
    students_quantile = t.ppf(0.975, df=3 - 1)
    effective_trials = trials_of_same_variance * (normal_quantile / students_quantile) ** 2
    assert is_close(interval, wilson_interval(0.5, effective_trials))


def test_all_right_documents_count_as_one_trial_each():
    """Rows that are all right show no spread, so only the number of documents counts."""
    num_documents = 5
    rows_of_document = 200
    documents = ["a", "b", "c", "d", "e"] * rows_of_document
    all_right = [1] * len(documents)

    interval = mean_interval(all_right, documents)

    five_of_five = binomtest(num_documents, num_documents).proportion_ci(method="wilson")
    assert is_close(interval, five_of_five)


def test_one_document_per_row_equals_independent_rows():
    """Naming the documents must not change a score whose rows are independent anyway."""
    values = [0.2, 0.4, 0.9, 0.5]

    assert mean_interval(values, ["a", "b", "c", "d"]) == mean_interval(values)


def test_the_order_of_rows_does_not_matter():
    """Runs may write their samples in another order."""
    in_order = mean_interval([0.2, 0.4, 0.9, 0.5, 0.7], ["a", "a", "b", "b", "c"])

    shuffled = mean_interval([0.5, 0.2, 0.7, 0.9, 0.4], ["b", "a", "c", "b", "a"])

    assert is_close(shuffled, in_order)


@pytest.mark.parametrize("degrees", [1, 1.07, 2.5, 9, 31.1, 200, 12_434, 1e6])
def test_students_t_quantile_equals_scipys(degrees):
    """The quantile is an approximation of our own, which spares commands the import of scipy."""
    assert student_quantile(degrees) == pytest.approx(t.ppf(0.975, degrees), rel=1e-8)


def test_unscored_rows_do_not_count():
    """A row that the judge could not score must not count as wrong."""
    with_unscored = mean_interval([0.2, 0.4, 0.9, None], ["a", "a", "b", "c"])

    assert with_unscored == mean_interval([0.2, 0.4, 0.9], ["a", "a", "b"])


def test_row_of_weight_two_counts_as_two_equal_rows():
    """A weight is the number of decisions in a row, such as the segments of a response."""
    weighted = mean_interval([1, 0, 1], ["a", "b", "c"], weights=[2, 3, 1])
    repeated = mean_interval([1, 1, 0, 0, 0, 1], ["a", "a", "b", "b", "b", "c"])

    assert is_close(weighted, repeated)


def test_scaled_bounds_scale_the_interval():
    """A score from 0 to 4 is a share times four, and so is its interval."""
    documents = ["a", "a", "b", "c"]
    low, high = mean_interval([0.25, 0.5, 1.0, 0.0], documents, low=0, high=1)

    scaled = mean_interval([1, 2, 4, 0], documents, low=0, high=4)

    assert is_close(scaled, (4 * low, 4 * high))


def test_shifted_bounds_shift_the_interval():
    """A score from -1 to 0 is a share less one, and so is its interval."""
    documents = ["a", "a", "b", "c"]
    low, high = mean_interval([0.25, 0.5, 1.0, 0.0], documents, low=0, high=1)

    moved = mean_interval([-0.75, -0.5, 0.0, -1.0], documents, low=-1, high=0)

    assert is_close(moved, (low - 1, high - 1))


def test_interval_with_only_a_lower_bound_is_symmetric_in_the_logarithm():
    """An interval that is symmetric in the score itself could reach below 0."""
    low, high = mean_interval([1.0, 2.0, 9.0], low=0, high=math.inf)

    mean = 4.0
    assert low > 0
    assert high / mean == pytest.approx(mean / low)


@pytest.mark.parametrize(("low", "high"), [(-math.inf, math.inf), (0, math.inf)])
def test_identical_rows_have_no_interval_without_two_bounds(low, high):
    """Without two bounds, nothing limits how far the rows that were not drawn may differ."""
    assert mean_interval([0.5] * 9, low=low, high=high) is None


# --- Scores of counts


def test_interval_of_counts_equals_the_interval_of_single_segments():
    """A response of three segments counts like a document of three rows."""
    right_segments_of_responses = [2, 0, 1]
    segments_of_responses = [3, 1, 2]

    interval = ratio_interval(right_segments_of_responses, segments_of_responses)

    is_right = [1, 1, 0, 0, 1, 0]
    response_of_segment = ["a", "a", "a", "b", "c", "c"]
    assert is_close(interval, mean_interval(is_right, response_of_segment))


def test_f1_interval_follows_from_the_interval_of_a_share():
    """F1 is 2 J / (1 + J) for the share J = tp / (tp + fp + fn)."""
    counts = [detections(tp=2, fn=1), detections(tp=1, fp=1), detections(tp=3, fn=2)]

    interval = f1_interval(counts)

    low, high = ratio_interval([2, 1, 3], [2 + 1, 1 + 1, 3 + 2])
    assert is_close(interval, (2 * low / (1 + low), 2 * high / (1 + high)))


def test_precision_is_a_share_of_flags_and_recall_of_errors():
    counts = [detections(tp=2, fn=1), detections(tp=1, fp=1), detections(tp=3, fn=2)]

    found, flagged, errors = [2, 1, 3], [2, 2, 3], [3, 1, 5]
    assert precision_interval(counts) == ratio_interval(found, flagged)
    assert recall_interval(counts) == ratio_interval(found, errors)


def test_the_accuracy_is_the_share_of_all_decisions_that_are_right():
    counts = [detections(tp=2, fn=1, tn=3), detections(tp=1, fp=1, tn=2), detections(fn=2, tn=1)]

    right_decisions, all_decisions = [5, 3, 1], [6, 4, 3]
    assert accuracy_interval(counts) == ratio_interval(right_decisions, all_decisions)


def test_response_with_only_true_negatives_changes_no_interval():
    """Precision, recall and F1 are made of the other three counts."""
    counts = [detections(tp=2, fn=1), detections(tp=1, fp=1), detections(tp=3, fn=2)]
    more_counts = [*counts, detections(tn=7)]

    assert f1_interval(more_counts) == f1_interval(counts)
    assert precision_interval(more_counts) == precision_interval(counts)
    assert recall_interval(more_counts) == recall_interval(counts)


def newcombes_interval_of_a_sum(first, first_interval, second, second_interval):
    """Return the interval of a sum by adding the squared distances to the ends (Newcombe, 1998)."""
    below = math.hypot(first - first_interval.low, second - second_interval.low)
    above = math.hypot(first_interval.high - first, second_interval.high - second)
    return Interval(first + second - below, first + second + above)


def test_the_interval_of_balanced_accuracy_combines_recall_and_specificity():
    """Balanced accuracy is half of their sum. They are independent if no response has both."""
    responses_of_errors = [detections(tp=3, fn=1), detections(tp=1, fn=2), detections(tp=2)]
    responses_without_errors = [
        detections(fp=1, tn=3),
        detections(tn=4),
        detections(fp=2, tn=2),
    ]

    interval = balanced_accuracy_interval(responses_of_errors + responses_without_errors)

    interval_of_sum = newcombes_interval_of_a_sum(
        (3 + 1 + 2) / (4 + 3 + 2),  # recall
        ratio_interval([3, 1, 2], [4, 3, 2]),
        (3 + 4 + 2) / (4 + 4 + 4),  # specificity
        ratio_interval([3, 4, 2], [4, 4, 4]),
    )
    assert is_close(interval, (interval_of_sum.low / 2, interval_of_sum.high / 2))


def test_sum_of_two_shares_matches_newcombes_example():
    """A difference is the sum of one share and of the negative of the other."""
    first = binomtest(56, 70).proportion_ci(method="wilson")
    second = binomtest(48, 80).proportion_ci(method="wilson")

    interval_of_difference = sum_interval(
        first=56 / 70,
        first_interval=Interval(first.low, first.high),
        second=-48 / 80,
        second_interval=Interval(-second.high, -second.low),
        correlation=0,
    )

    # Newcombe (1998), Statistics in Medicine 17, 873-890, method 10.
    assert interval_of_difference == pytest.approx((0.0524, 0.3339), abs=5e-5)


def recall_of_sums(sums):
    """Return the recall from the sums of tp, fp, fn and tn."""
    tp, _, fn, _ = sums
    return tp / (tp + fn) if tp + fn else math.nan


def test_general_interval_for_sums_agrees_with_the_recall_interval():
    """The judge finds 70% of the four errors of each of 500 responses."""
    true_positives = np.random.default_rng(1).binomial(4, 0.7, 500)
    counts = [detections(tp=num_found, fn=4 - num_found) for num_found in true_positives]

    interval = pooled_interval(counts, recall_of_sums)

    assert interval == pytest.approx(recall_interval(counts), abs=1e-3)


@pytest.mark.parametrize(
    ("value", "stderr", "num_rows"),
    [(math.nan, 0.1, 9), (0.5, math.nan, 9), (0.5, math.inf, 9), (0.5, 0.1, 1), (0.5, -0.1, 9)],
)
def test_a_score_without_a_usable_standard_error_has_no_interval(value, stderr, num_rows):
    """Results files of other programs may hold such numbers."""
    assert interval_from_stderr(value, stderr, num_rows) is None


def test_standard_error_of_independent_rows_gives_students_t_interval():
    """A results file without samples still has the standard error of its score."""
    values = [0.2, 0.4, 0.9, 0.5, 0.7]
    stderr = np.std(values, ddof=1) / math.sqrt(5)

    interval = interval_from_stderr(
        np.mean(values), stderr, num_rows=5, low=-math.inf, high=math.inf
    )

    assert is_close(interval, ttest_1samp(values, 0).confidence_interval())


def test_uncertainties_of_opposite_scores_cancel_out():
    """If the first score is 0.1 too high, the second is 0.1 too low, so their sum is certain."""
    interval = sum_interval(
        first=0.8,
        first_interval=Interval(0.7, 0.9),
        second=0.1,
        second_interval=Interval(0.0, 0.2),
        correlation=-1,
    )

    assert is_close(interval, (0.8 + 0.1, 0.8 + 0.1))


# --- Differences


def test_exchanging_the_models_mirrors_the_interval_of_a_difference():
    """Which model a user names first must not change what they conclude."""
    first_model = [0.2, 0.4, 0.9, 0.5, 0.7]
    second_model = [0.1, 0.6, 0.3, 0.5, 0.0]
    documents = ["a", "a", "b", "b", "c"]
    low, high = difference_interval(first_model, second_model, documents)

    exchanged = difference_interval(second_model, first_model, documents)

    assert is_close(exchanged, (-high, -low))


def test_difference_over_many_rows_has_a_normal_interval():
    """With 10,000 rows the textbook interval, 1.96 standard errors each way, is right."""
    generator = np.random.default_rng(1)
    first = (generator.random(10_000) < 0.7).astype(float)
    second = (generator.random(10_000) < 0.6).astype(float)

    interval = difference_interval(first.tolist(), second.tolist())

    differences = first - second
    standard_error = differences.std() / math.sqrt(10_000)
    half_width = 1.96 * standard_error
    expected = (differences.mean() - half_width, differences.mean() + half_width)
    assert interval == pytest.approx(expected, abs=2e-4)


def test_models_without_differences_leave_some_uncertainty():
    """Equal answers in 20 rows do not show that two models are equal. 200 rows show it better."""
    few = difference_interval([1, 0] * 10, [1, 0] * 10)
    many = difference_interval([1, 0] * 100, [1, 0] * 100)

    assert few.low < many.low < 0 < many.high < few.high


def test_row_missing_either_models_value_is_left_out():
    """A difference is that of two values of the same row."""
    first_model = [1, 0, 1, None, 0]
    second_model = [0, 0, 1, 1, None]

    interval = difference_interval(first_model, second_model)

    assert interval == difference_interval(first_model[:3], second_model[:3])


def test_difference_without_bounds_has_students_t_interval():
    """A paired comparison without bounds is the textbook's paired t-test."""
    first_model = [0.2, 0.4, 0.9, 0.5, 0.7]
    second_model = [0.1, 0.6, 0.3, 0.5, 0.0]

    interval = difference_interval(first_model, second_model, low=-math.inf, high=math.inf)

    expected = ttest_rel(first_model, second_model).confidence_interval()
    assert is_close(interval, expected)


def test_exchanging_the_judges_mirrors_the_interval_of_the_recall_difference():
    """Which judge a user names first must not change what they conclude."""
    first_judge = [detections(tp=2, fn=1), detections(tp=1), detections(fn=2)]
    second_judge = [detections(tp=1, fn=2), detections(tp=1), detections(tp=2)]
    low, high = pooled_difference_interval(first_judge, second_judge, recall_of_sums)

    exchanged = pooled_difference_interval(second_judge, first_judge, recall_of_sums)

    assert is_close(exchanged, (-high, -low))


def test_judges_in_full_agreement_leave_some_uncertainty():
    """Equal answers to four responses do not show that two judges are equal."""
    counts = [
        detections(tp=2),
        detections(fn=2),
        detections(tp=1, fn=1),
        detections(tp=1, fn=1),
    ]

    low, high = pooled_difference_interval(counts, counts, recall_of_sums)

    assert low < -0.1 < 0.1 < high


# --- Perplexity


def test_perplexity_interval_is_computed_on_the_logarithm():
    """Perplexity is the exponential of the mean loss per token, whose interval is Student's."""
    losses = [2.0, 3.5, 3.0, 2.5]
    num_tokens = [100, 100, 100, 100]

    interval = perplexity_interval(losses, num_tokens)

    low, high = ttest_1samp(losses, 0).confidence_interval()
    assert is_close(interval, (math.exp(low), math.exp(high)))


def test_overflowing_perplexity_has_no_interval():
    """The largest float is about e to the power of 709."""
    losses = [1.0, 900.0, 2.0]

    assert perplexity_interval(losses, [1, 1, 1]) is None


# --- For all functions


bounds = st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (0.0, 2.0), (1.0, 5.0)])
rows = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)),
        st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)),
        st.integers(0, 5),
    ),
    max_size=30,
)


@given(rows, bounds)
def test_interval_contains_the_mean_and_stays_within_the_bounds(rows, bounds):
    """Only rows of fewer than two documents may have no interval."""
    low, high = bounds
    values = [low + (high - low) * share for share, _, _ in rows]
    documents = [document for _, _, document in rows]

    interval = mean_interval(values, documents, low, high)

    if interval is None:
        assert len(set(documents)) < 2
    else:
        mean = sum(values) / len(values)
        assert low <= interval.low <= mean + 1e-9
        assert mean - 1e-9 <= interval.high <= high
        assert interval.low < interval.high


@given(rows, bounds)
def test_the_interval_of_a_difference_stays_within_the_bounds(rows, bounds):
    """Two scores between ``low`` and ``high`` differ by ``high - low`` at most."""
    low, high = bounds
    first = [low + (high - low) * share for share, _, _ in rows]
    second = [low + (high - low) * share for _, share, _ in rows]
    clusters = [cluster for _, _, cluster in rows]

    interval = difference_interval(first, second, clusters, low, high)

    if interval is not None:
        assert low - high <= interval.low < interval.high <= high - low


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 4), max_size=12))
def test_intervals_of_counts_stay_between_0_and_1(counts):
    """These scores are shares, and a user would take an end of 1.02 for a bug."""
    for function in (
        f1_interval,
        precision_interval,
        recall_interval,
        balanced_accuracy_interval,
    ):
        interval = function(counts)

        if interval is not None:
            # The method of variance estimates recovery may be off by rounding.
            assert -1e-9 <= interval.low < interval.high <= 1 + 1e-9


@pytest.mark.parametrize(
    "values",
    [[], [None, None], [1.0], [0.5, math.nan, 1.0], [0.5, math.inf, 1.0]],
    ids=["empty", "unscored", "one row", "NaN", "infinite"],
)
def test_values_without_a_defined_mean_have_no_interval(values):
    """A command then prints no interval, where NaN would look like a result."""
    zeros = [0.0] * len(values)

    for low, high in ((0, 1), (0, math.inf), (-math.inf, math.inf)):
        assert mean_interval(values, low=low, high=high) is None
        assert difference_interval(values, zeros, low=low, high=high) is None
        assert difference_interval(zeros, values, low=low, high=high) is None
    assert perplexity_interval(values, [1] * len(values)) is None


@pytest.mark.parametrize("weights", [[0, 0, 0], [0, 1, 0], [math.nan, 1, 1], [math.inf, 1, 1]])
def test_weights_without_a_defined_mean_have_no_interval(weights):
    """A mean needs two rows that count, and finite weights."""
    assert mean_interval([1, 0, 1], weights=weights) is None
    assert difference_interval([1, 0, 1], [0, 0, 0], weights=weights) is None
    assert perplexity_interval([1, 2, 3], weights) is None


def test_rows_of_one_document_have_no_interval():
    """One document does not show how much documents differ."""
    documents = ["a", "a", "a"]

    assert mean_interval([1, 0, 1], documents) is None
    assert difference_interval([1, 0, 1], [0, 0, 1], documents) is None
    assert perplexity_interval([1, 2, 3], [5, 5, 5], documents) is None


@pytest.mark.parametrize(
    "function", [f1_interval, precision_interval, recall_interval, balanced_accuracy_interval]
)
@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([], id="no response"),
        pytest.param([detections(tp=1, fp=1, fn=1, tn=1)], id="one response"),
        pytest.param([detections()] * 3, id="no counts"),
        pytest.param([detections(tn=5)] * 3, id="nothing to find"),
        pytest.param([detections(tp=math.nan), *TWO_RESPONSES], id="NaN"),
        pytest.param([detections(tp=math.inf), *TWO_RESPONSES], id="infinite"),
    ],
)
def test_counts_without_a_defined_score_have_no_interval(function, counts):
    """A command then prints no interval, where NaN would look like a result."""
    assert function(counts) is None


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([], id="no response"),
        pytest.param([detections(tp=1, fp=1, fn=1, tn=1)], id="one response"),
        pytest.param([detections(tn=5)] * 3, id="nothing to find"),
        pytest.param([detections(tp=math.nan), *TWO_RESPONSES], id="NaN"),
    ],
)
def test_sums_without_a_defined_score_have_no_interval(counts):
    """A command then prints no interval, where NaN would look like a result."""
    assert pooled_interval(counts, recall_of_sums) is None
    assert pooled_difference_interval(counts, counts, recall_of_sums) is None


@pytest.mark.parametrize(
    ("clusters", "are_few"),
    [
        pytest.param([], True, id="no cluster"),
        pytest.param(["a", "b", "c", "d", "d"], True, id="four clusters"),
        pytest.param(["a", "b", "c", "d", "e"], False, id="five clusters"),
    ],
)
def test_fewer_than_five_clusters_are_few(clusters, are_few):
    """Tables show a score of few documents as an interval only, since it is so uncertain."""
    assert has_few_clusters(clusters) == are_few


@pytest.mark.parametrize(
    ("measure", "num_clusters"),
    [
        pytest.param("accuracy", 4, id="accuracy: all"),
        pytest.param("precision", 2, id="precision: those that the judge flagged"),
        pytest.param("recall", 1, id="recall: those with an error"),
        pytest.param("f1", 2, id="f1: those with an error or a flag"),
        pytest.param("balanced_accuracy", 1, id="balanced accuracy: the fewer of two kinds"),
    ],
)
def test_detection_clusters_without_influence_on_the_measure_are_not_counted(measure, num_clusters):
    counts = [
        detections(tp=2),  # has an error that the judge flagged
        detections(fp=1, tn=2),  # has no error, but the judge flagged one
        detections(tn=3),
        detections(tn=1),
    ]

    assert count_detection_clusters(measure, counts) == num_clusters


def test_rounding_error_of_large_numbers_gives_no_interval():
    """A variance of 1e-10 may be what rounding leaves of the squares of values near 1e8."""
    estimate = ClusteredMean(value=1e8, variance=1e-10, degrees_of_freedom=5, num_clusters=6)

    assert interval_of_mean(estimate, low=-math.inf, high=math.inf) is None


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("stderr", "is_usable"), [(1e69, True), (1e70, False), (math.inf, False), (-0.1, False)]
)
def test_only_plausible_standard_errors_from_a_file_are_used(value, stderr, is_usable):
    """A file may hold any number, and powers of a huge one overflow."""
    interval = interval_from_stderr(value, stderr, num_rows=10)

    assert (interval is not None) == is_usable


def test_difference_from_an_undefined_score_has_no_interval():
    """A judge that flags nothing has a precision of 0 divided by 0."""

    def precision(sums):
        tp, fp, _, _ = sums
        return tp / (tp + fp) if tp + fp else math.nan

    flags_some = [detections(tp=1, tn=3), detections(fp=1, fn=1, tn=2)]
    flags_nothing = [detections(fn=1, tn=3), detections(fn=1, tn=3)]

    assert pooled_difference_interval(flags_some, flags_nothing, precision) is None
    assert pooled_difference_interval(flags_nothing, flags_some, precision) is None
