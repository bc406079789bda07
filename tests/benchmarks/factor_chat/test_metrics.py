"""The scores of rows, beside scikit-learn's and beside sums by hand."""

from __future__ import annotations

import math
import random
from itertools import chain

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, roc_auc_score

from lm_factuality.benchmarks.factor_chat import metrics
from lm_factuality.benchmarks.factor_chat.metrics import (
    PROTOCOLS,
    ChoiceProbabilities,
    row_metrics,
    word_probabilities,
)
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.scores.calibration import calibration_interval
from lm_factuality.scores.statistics import clustered_stderr, mean

DOC = {"choices": ["a", "b", "c", "d"], "gold": 0, "doc_id": "d", "problem": ""}


def answer_by_probability(chance):
    """Make an answer that gives this probability to True, and the rest to False."""
    return WordAnswer(tuple(math.log(each) if each else None for each in (chance, 1 - chance)))


def answer_in_words(*words):
    """Make answers that are words, without probabilities."""
    return [WordAnswer(None, word) for word in words]


def made_rows(count, digits=2):
    """Draw rows of four probabilities each, whose second choice is true; three rows are of one document."""
    draw = random.Random(0)
    return [
        ChoiceProbabilities(
            [round(draw.betavariate(2 + (place == 1), 2), digits) for place in range(4)],
            1,
            f"d{number // 3}",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("answers", "acc", "pairwise", "all_right", "brier", "bias"),
    [
        (
            [answer_by_probability(each) for each in (0.9, 0.6, 0.2, 0.1)],
            1,
            1,
            0,
            (0.01 + 0.36 + 0.04 + 0.01) / 4,
            0.2,
        ),
        (
            [answer_by_probability(each) for each in (0.9, 0.4, 0.2, 0.1)],
            1,
            1,
            1,
            (0.01 + 0.16 + 0.04 + 0.01) / 4,
            0.15,
        ),
        (
            [answer_by_probability(each) for each in (0.5, 0.5, 0.2, 0.6)],
            0,
            0.5,
            0,
            (0.25 + 0.25 + 0.04 + 0.36) / 4,
            0.2,
        ),
        (answer_in_words("True", "False", "False", "False"), 1, 1, 1, 0, 0),
        (
            answer_in_words("True", "True", "False", "False"),
            0,
            2.5 / 3,
            0,
            0.25,
            0.25,
        ),  # a tie is wrong, and half a pair
        (answer_in_words("True", "True", "True", "True"), 0, 0.5, 0, 0.75, 0.75),
        (answer_in_words("False", "True", "False", "False"), 0, 1 / 3, 0, 0.5, 0),
    ],
)
def test_metrics_of_a_row_of_statements(answers, acc, pairwise, all_right, brier, bias):
    figures = row_metrics(DOC, answers, "statements")
    assert figures["unscored"] is None
    assert figures["chat_acc"] == figures["chat_acc_worst"] == figures["chat_acc_best"] == acc
    assert figures["pairwise_acc"] == pytest.approx(pairwise)
    assert figures["all_right"] == all_right
    assert figures["brier"] == pytest.approx(brier)
    assert figures["p_true_bias"] == pytest.approx(bias)
    assert (
        figures["pairwise_acc"].weight,
        figures["brier"].weight,
        figures["chat_acc"].cluster,
    ) == (
        3,
        4,
        "d",
    )


def test_one_answer_that_cannot_be_read_leaves_the_row_unscored():
    figures = row_metrics(DOC, answer_in_words("True", "False", "Hm", ""), "statements")
    assert figures["unscored"] == "question 2: none of True, False alone"
    assert figures["unreadable"] == 0.5
    assert (figures["chat_acc_worst"], figures["chat_acc_best"]) == (0, 1)
    names = ("chat_acc", "pairwise_acc", "all_right", "auroc", "ece", "brier", "p_true_bias")
    assert [figures[name] for name in names] == [None] * 7
    scored = row_metrics(DOC, answer_in_words("True", "False", "False", "False"), "statements")
    assert figures.keys() == scored.keys()


def test_a_row_that_is_broken_is_unscored_whatever_the_answers():
    figures = row_metrics(
        {**DOC, "gold": -1, "problem": "no gold"},
        answer_in_words("True", "False", "False", "False"),
        "statements",
    )
    assert (figures["unscored"], figures["chat_acc"], figures["unreadable"]) == ("no gold", None, 0)


def test_a_model_that_always_says_one_letter_gains_nothing():
    figures = row_metrics(DOC, answer_in_words("A", "A", "A", "A"), "letters")
    assert (figures["chat_acc"], figures["pairwise_acc"], figures["prompt_acc"]) == (0, 0.5, 0.25)
    assert [figures[f"position_{letter}"] for letter in "ABCD"] == [1, 0, 0, 0]
    assert list(figures["auroc"]) == [0.25] * 4


@pytest.mark.parametrize("gold", range(4))
def test_a_model_that_knows_the_truth_is_right_under_every_letter(gold):
    choices = ["w", "x", "y", "z"]
    prompts = PROTOCOLS["letters"].subjects("p", choices)
    answers = answer_in_words(
        *(
            letter
            for prompt in prompts
            for letter, text in prompt["versions"]
            if text == choices[gold]
        )
    )
    figures = row_metrics({**DOC, "choices": choices, "gold": gold}, answers, "letters")
    assert (
        figures["chat_acc"],
        figures["prompt_acc"],
        figures["brier"],
        figures["pairwise_acc"],
    ) == (
        1,
        1,
        0,
        1,
    )
    assert [figures[f"position_{letter}"] for letter in "ABCD"] == [0.25] * 4
    assert {prompt["versions"][0][1] for prompt in prompts} == set(
        choices
    )  # each stands first once


def test_letters_by_probabilities_are_means_over_rotations():
    draw = np.random.default_rng(0)
    given = draw.dirichlet([1] * 4, size=4)
    answers = [WordAnswer(tuple(np.log(row).tolist())) for row in given]
    figures = row_metrics(DOC, answers, "letters")
    expected = [
        np.mean([given[first][(choice - first) % 4] for first in range(4)]) for choice in range(4)
    ]
    assert figures["auroc"] == pytest.approx(expected)
    unscored = row_metrics(DOC, [WordAnswer(None, "", "lost"), *answers[1:]], "letters")
    assert unscored.keys() == figures.keys()
    assert unscored["position_A"] is None


@pytest.mark.parametrize("digits", [1, 8])
def test_auroc_and_brier_are_those_of_scikit_learn(digits):
    rows = made_rows(60, digits)
    truth = [int(place == row.gold) for row in rows for place in range(4)]
    chances = [chance for row in rows for chance in row]
    assert metrics.auroc([*rows, None]) == pytest.approx(roc_auc_score(truth, chances))
    scored = [
        row_metrics(
            {**DOC, "gold": 1, "doc_id": row.cluster},
            [answer_by_probability(each) for each in row],
            "statements",
        )
        for row in made_rows(60, 3)
    ]
    chances = [chance for row in made_rows(60, 3) for chance in row]
    assert mean([each["brier"] for each in scored]) == pytest.approx(
        brier_score_loss(truth, chances)
    )


def test_the_standard_error_of_auroc_is_that_of_a_bootstrap_over_documents():
    rows = made_rows(240)
    # Each document has three rows, one after another.
    documents = [rows[start : start + 3] for start in range(0, 240, 3)]
    random_numbers = random.Random(1)
    areas = []
    for _ in range(400):
        sample = random_numbers.choices(documents, k=len(documents))
        areas.append(metrics.auroc(list(chain.from_iterable(sample))))

    stderr = metrics.auroc_stderr(rows)

    assert stderr == pytest.approx(np.std(areas), rel=0.15)


def test_auroc_has_no_standard_error_within_one_document():
    rows_of_one_document = made_rows(3)

    assert math.isnan(metrics.auroc_stderr(rows_of_one_document))


def test_auroc_without_scored_rows_is_not_defined():
    assert math.isnan(metrics.auroc([None]))


def test_the_interval_of_auroc_is_wilsons_for_the_effective_trials():
    rows = made_rows(240)

    low, high = metrics.auroc_interval(rows)

    area = metrics.auroc(rows)
    student_factor = (1.990450 / 1.959964) ** 2  # 80 documents have 79 degrees of freedom
    trials = area * (1 - area) / metrics.auroc_stderr(rows) ** 2 / student_factor
    # Wilson's ends are the shares whose own error of 1.96 standard deviations reaches the AUROC.
    for end in (low, high):
        assert abs(area - end) == pytest.approx(
            1.96 * math.sqrt(end * (1 - end) / trials), rel=1e-3
        )


def test_the_interval_of_auroc_states_the_number_of_documents():
    (score,) = (each for each in metrics.SCORES if each.name == "auroc")

    interval = score.aggregation.interval_of([None, *made_rows(60)])

    assert interval.ends == metrics.auroc_interval(made_rows(60))
    assert interval.num_clusters == 20


@pytest.mark.parametrize("area", [0.6, 0.95])
def test_the_interval_of_auroc_contains_that_of_unlimited_rows(area):
    spread = 0.6  # of the true choices from document to document
    random_numbers = np.random.default_rng(0)
    # The scores of a true and a false choice differ by this much, in a normal distribution.
    gap = norm.ppf(area) * math.sqrt(2 + spread**2)

    hits = []
    for _ in range(150):
        rows = []
        for document in range(20):
            true_mean = random_numbers.normal(gap, spread)
            for scores in random_numbers.normal([true_mean, 0, 0, 0], 1, (5, 4)).tolist():
                rows.append(ChoiceProbabilities(scores, 0, str(document)))
        low, high = metrics.auroc_interval(rows)
        hits.append(low <= area <= high)

    # 95% and three standard errors less.
    assert np.mean(hits) > 0.89


def test_an_auroc_of_one_leaves_the_uncertainty_of_few_documents():
    rows = [ChoiceProbabilities([0.9, 0.1, 0.2, 0.3], 0, str(number // 2)) for number in range(20)]

    assert metrics.auroc_interval(rows) == pytest.approx((10 / (10 + 1.96**2), 1), abs=1e-4)


def test_an_auroc_of_one_document_has_no_interval():
    assert metrics.auroc_interval(made_rows(3)) is None
    assert metrics.auroc_interval([None]) is None


def test_the_interval_of_the_calibration_error_is_clustered_by_document():
    rows = made_rows(90)
    (score,) = (each for each in metrics.SCORES if each.name == "ece")

    interval = score.aggregation.interval_of([rows[0], None, *rows[1:]])

    probabilities = [probability for row in rows for probability in row]
    documents = [row.cluster for row in rows for _ in row]
    assert interval.ends == calibration_interval(probabilities, [0, 1, 0, 0] * 90, documents)
    assert interval.num_clusters == 30
    assert score.aggregation.interval_of([None]).ends is None


def test_the_calibration_error_is_that_of_its_definition():
    rows = made_rows(90, 6)
    chances = np.array([chance for row in rows for chance in row])
    truth = np.array([place == row.gold for row in rows for place in range(4)])
    bins = np.minimum((chances * 10).astype(int), 9)
    expected = sum(
        abs(chances[bins == each].mean() - truth[bins == each].mean()) * (bins == each).mean()
        for each in set(bins.tolist())
    )
    (score,) = (each for each in metrics.SCORES if each.name == "ece")
    assert score.aggregation([*rows, None]) == pytest.approx(expected)
    assert 0 < score.aggregation.stderr(rows) < 0.1
    assert math.isnan(score.aggregation.value([None]))
    assert score.aggregation([ChoiceProbabilities([1, 0, 0, 0], 0, "d")]) == 0
    assert score.aggregation([ChoiceProbabilities([0, 1, 1, 1], 0, "d")]) == 1


def test_the_standard_error_of_accuracy_is_clustered_by_document():
    outcomes = [
        row_metrics(
            {**DOC, "doc_id": str(n // 2)},
            answer_in_words("True", *["False" if n % 3 else "True"] * 3),
            "statements",
        )
        for n in range(8)
    ]
    values = [each["chat_acc"] for each in outcomes]
    (score,) = (each for each in metrics.SCORES if each.name == "chat_acc")
    assert score.aggregation.stderr(values) == pytest.approx(clustered_stderr(values))
    assert len({value.cluster for value in values}) == 4


@pytest.mark.parametrize("rest", [-1000.0, None])
def test_a_word_that_is_next_to_impossible_leaves_the_probability_to_the_other(rest):
    """The exponential of a difference of a thousand would be infinite."""
    assert word_probabilities(WordAnswer((-1.0, rest)), ("True", "False")) == [1.0, 0.0]


def test_an_auroc_of_two_documents_has_an_interval():
    assert metrics.auroc_interval(made_rows(6)) is not None
