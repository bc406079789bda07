"""The calibration error's interval: its coverage, its edges, and where it has a simple form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from lm_factuality.scores.calibration import (
    calibration_error,
    calibration_interval,
    calibration_stderr,
)
from lm_factuality.scores.intervals import clustered_mean, student_quantile


def draw_choices(random, num_documents, logit_factor=1.0, rows_per_document=10):
    """Draw the choices of documents, in which a true choice is easier or harder to recognise.

    Args:
        random: The source of the random numbers.
        num_documents: The number of documents.
        logit_factor: 1 for calibrated probabilities, more for overconfident ones.
        rows_per_document: The number of choices of each document.

    Returns:
        The probability, the truth and the document of each choice.
    """
    documents = np.repeat(np.arange(num_documents), rows_per_document)
    is_true = random.random(len(documents)) < 0.5
    signals = random.normal(0.8, 0.5, num_documents)[documents]
    evidence = random.normal(np.where(is_true, signals, -signals), 1)
    # A signal of variance 0.25 and noise of variance 1 give evidence of the variance 1.25.
    probabilities = expit(logit_factor * 2 * 0.8 / 1.25 * evidence)
    return probabilities, is_true, documents.tolist()


def test_calibration_error_is_the_weighted_gap_between_probability_and_truth():
    """Choices are put into ten bins by their probability."""
    probabilities = [0.05, 0.05, 0.05, 0.95, 0.95]
    is_true = [0, 0, 1, 1, 0]

    error = calibration_error(probabilities, is_true)

    gap_of_first_bin = 1 - (0.05 + 0.05 + 0.05)  # one choice is true
    gap_of_last_bin = (0.95 + 0.95) - 1  # one choice is true
    assert error == pytest.approx((gap_of_first_bin + gap_of_last_bin) / 5)


def test_a_probability_of_one_is_in_the_last_bin():
    """The last bin is the only one that includes its upper end."""
    probabilities = [1.0, 0.95]
    truths = [0.95, 1.0]

    error = calibration_error(probabilities, truths)

    # In one bin, both sums are 1.95. In two bins, each choice would have a gap of 0.05.
    assert error == pytest.approx(0)


@pytest.mark.parametrize("logit_factor", [1.0, 1.2, 2.0])
@pytest.mark.parametrize("num_documents", [10, 100])
def test_interval_contains_the_error_of_a_very_large_sample(num_documents, logit_factor):
    """The error of 100,000 choices stands for the true error. A calibrated model's is 0."""
    random = np.random.default_rng(4)
    probabilities, is_true, _ = draw_choices(random, 100_000, logit_factor)
    true_error = 0.0 if logit_factor == 1 else calibration_error(probabilities, is_true)

    hits = []
    for _ in range(300):
        probabilities, is_true, documents = draw_choices(random, num_documents, logit_factor)
        interval = calibration_interval(probabilities, is_true, documents)
        hits.append(interval.low <= true_error <= interval.high)

    # The interval contains the truth in 93% of samples. 0.90 is two standard errors less.
    assert np.mean(hits) > 0.90


def test_measured_error_of_a_calibrated_model_may_exceed_its_interval():
    """The measured error is never below 0, so chance alone makes it positive."""
    random = np.random.default_rng(0)

    intervals = []
    for _ in range(100):
        probabilities, is_true, documents = draw_choices(random, num_documents=100, logit_factor=1)
        intervals.append(calibration_interval(probabilities, is_true, documents))

    assert np.mean([interval.low == 0 for interval in intervals]) > 0.9
    assert min(interval.high for interval in intervals) > 0


def test_interval_of_many_overconfident_choices_is_narrow_and_excludes_zero():
    """An interval that always contained 0 would never show that a model is overconfident."""
    random = np.random.default_rng(0)
    probabilities, is_true, documents = draw_choices(random, num_documents=2000, logit_factor=2.0)

    interval = calibration_interval(probabilities, is_true, documents)

    error = calibration_error(probabilities, is_true)
    assert error - 0.02 < interval.low < error < interval.high < error + 0.02


def test_error_of_answers_0_and_1_has_the_interval_of_the_share_wrong():
    """A model that only answers 0 or 1 has a calibration error equal to its share of wrong answers.

    So the interval of the calibration error must be that of a share.
    """
    random = np.random.default_rng(0)
    is_true = random.random(1200) < 0.5
    model_is_wrong = random.random(1200) < 0.3
    probability_if_wrong = np.where(is_true, 0.0, 1.0)
    probability_if_right = np.where(is_true, 1.0, 0.0)
    probabilities = np.where(model_is_wrong, probability_if_wrong, probability_if_right)
    documents = np.repeat(np.arange(60), 20).tolist()

    interval = calibration_interval(probabilities, is_true, documents)

    share_wrong = clustered_mean(model_is_wrong.astype(float), documents)
    half_width = student_quantile(share_wrong.degrees_of_freedom) * share_wrong.stderr
    assert interval.low == pytest.approx(share_wrong.value - half_width, abs=0.002)
    assert interval.high == pytest.approx(share_wrong.value + half_width, abs=0.002)


def test_copied_choices_within_documents_leave_the_interval_unchanged():
    """If rows counted as independent, twice as many would give a narrower interval."""
    random = np.random.default_rng(1)
    probabilities, is_true, documents = draw_choices(random, num_documents=40)

    interval = calibration_interval(
        np.repeat(probabilities, 2), np.repeat(is_true, 2), np.repeat(documents, 2).tolist()
    )

    once = calibration_interval(probabilities, is_true, documents)
    assert interval.high - interval.low > 0.9 * (once.high - once.low)


def test_without_clusters_each_choice_is_independent():
    random = np.random.default_rng(1)
    probabilities, is_true, _documents = draw_choices(random, num_documents=40)

    interval = calibration_interval(probabilities, is_true)

    a_document_for_each_choice = list(range(len(probabilities)))
    assert interval == calibration_interval(probabilities, is_true, a_document_for_each_choice)


@pytest.mark.parametrize("num_documents", [5, 100])
def test_all_right_answers_leave_uncertainty_if_documents_are_few(num_documents):
    """Answers that are all right show no spread, so only the number of documents counts."""
    is_true = np.array([1.0, 0.0, 0.0, 0.0] * num_documents)  # four choices per document
    documents = np.repeat(np.arange(num_documents), 4).tolist()
    probabilities = is_true.tolist()  # the model is certain and right about each choice

    interval = calibration_interval(probabilities, is_true, documents)

    # The high end of Wilson's interval of no errors in n trials is z**2 / (n + z**2).
    high = 1.96**2 / (num_documents + 1.96**2)
    assert interval == pytest.approx((0, high), abs=1e-4)


@pytest.mark.parametrize(
    ("probabilities", "is_true", "documents"),
    [
        pytest.param([], [], [], id="no choices"),
        pytest.param([0.2, 0.9], [0, 1], ["d", "d"], id="one document"),
        pytest.param([math.nan, 0.9], [0, 1], ["d", "e"], id="no probability"),
    ],
)
def test_one_document_or_no_choices_have_no_interval(probabilities, is_true, documents):
    """One document does not show how much documents differ."""
    assert calibration_interval(probabilities, is_true, documents) is None
    assert math.isnan(calibration_stderr(probabilities, is_true, documents))


@pytest.mark.parametrize("probabilities", [[], [math.nan]])
def test_calibration_error_without_probabilities_is_undefined(probabilities):
    """An error of 0 would say that the model is calibrated."""
    assert math.isnan(calibration_error(probabilities, [True] * len(probabilities)))


@pytest.mark.parametrize("logit_factor", [1.0, 2.0])
def test_standard_error_agrees_with_a_bootstrap_over_documents(logit_factor):
    """The bootstrap draws documents anew, as another sample of the benchmark would."""
    random = np.random.default_rng(2)
    probabilities, is_true, documents = draw_choices(
        random, num_documents=60, logit_factor=logit_factor, rows_per_document=10
    )

    stderr = calibration_stderr(probabilities, is_true, documents)

    choices_of_document = np.arange(60 * 10).reshape(60, 10)
    errors = []
    for _ in range(1000):
        drawn_documents = random.integers(0, 60, size=60)
        drawn = choices_of_document[drawn_documents].ravel()
        errors.append(calibration_error(probabilities[drawn], is_true[drawn]))
    assert stderr == pytest.approx(np.std(errors), rel=0.15)


def test_the_interval_does_not_depend_on_the_order_of_choices():
    """Runs may write their samples in another order."""
    random = np.random.default_rng(3)
    probabilities, is_true, documents = draw_choices(random, num_documents=30, rows_per_document=10)
    order = random.permutation(30 * 10)

    interval = calibration_interval(
        probabilities[order], is_true[order], [documents[index] for index in order]
    )

    assert interval == pytest.approx(calibration_interval(probabilities, is_true, documents))


def test_constant_logit_error_is_detected_as_miscalibration():
    """Probabilities of one half become 73%, so the error is far above 5% in the middle bins."""
    random = np.random.default_rng(5)
    probabilities, is_true, documents = draw_choices(random, num_documents=100)
    raised_probabilities = expit(logit(probabilities) + 1)

    interval = calibration_interval(raised_probabilities, is_true, documents)

    assert interval.low > 0.05
