"""The scores of rows, beside scikit-learn's and beside sums by hand."""

from __future__ import annotations

import math
import random
from itertools import chain

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t
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
from lm_factuality.scores.statistics import mean

DOC = {"choices": ["a", "b", "c", "d"], "gold": 0, "doc_id": "d", "problem": ""}


def answer_by_probability(probability_of_true):
    """Make an answer that gives this probability to True, and the rest to False."""
    probability_of_false = 1 - probability_of_true
    return WordAnswer((math.log(probability_of_true), math.log(probability_of_false)))


def answers_by_probability(*probabilities_of_true):
    """Make an answer about each choice, by the probability that it gives to True."""
    return [answer_by_probability(probability) for probability in probabilities_of_true]


def answers_in_words(*words):
    """Make answers that are words, without probabilities."""
    return [WordAnswer(None, word) for word in words]


def random_rows(count, digits=2):
    """Draw rows of four probabilities each, of which the second belongs to the true choice.

    Args:
        count: The number of rows. Three rows after one another are of one document.
        digits: The number of decimals of each probability. Few decimals give ties.
    """
    random_numbers = random.Random(0)
    rows = []
    for number in range(count):
        probabilities = []
        for choice in range(4):
            # The true choice tends to a higher probability.
            alpha = 3 if choice == 1 else 2
            probabilities.append(round(random_numbers.betavariate(alpha, 2), digits))
        rows.append(ChoiceProbabilities(probabilities, 1, f"d{number // 3}"))
    return rows


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(
            answers_by_probability(0.9, 0.6, 0.2, 0.1),
            {
                "chat_acc": 1,
                "pairwise_acc": 3 / 3,
                "all_right": 0,
                "brier": (0.1**2 + 0.6**2 + 0.2**2 + 0.1**2) / 4,
                "p_true_bias": (0.9 + 0.6 + 0.2 + 0.1) / 4 - 1 / 4,
            },
            id="a false choice is called true, though less surely",
        ),
        pytest.param(
            answers_by_probability(0.9, 0.4, 0.2, 0.1),
            {
                "chat_acc": 1,
                "pairwise_acc": 3 / 3,
                "all_right": 1,
                "brier": (0.1**2 + 0.4**2 + 0.2**2 + 0.1**2) / 4,
                "p_true_bias": (0.9 + 0.4 + 0.2 + 0.1) / 4 - 1 / 4,
            },
            id="all choices are right",
        ),
        pytest.param(
            answers_by_probability(0.5, 0.5, 0.2, 0.6),
            {
                "chat_acc": 0,
                "pairwise_acc": (0.5 + 1 + 0) / 3,
                "all_right": 0,
                "brier": (0.5**2 + 0.5**2 + 0.2**2 + 0.6**2) / 4,
                "p_true_bias": (0.5 + 0.5 + 0.2 + 0.6) / 4 - 1 / 4,
            },
            id="one false choice ties with the true one, and one beats it",
        ),
        pytest.param(
            answers_in_words("True", "False", "False", "False"),
            {"chat_acc": 1, "pairwise_acc": 3 / 3, "all_right": 1, "brier": 0, "p_true_bias": 0},
            id="all words are right",
        ),
        pytest.param(
            answers_in_words("True", "True", "False", "False"),
            {
                "chat_acc": 0,
                "pairwise_acc": (0.5 + 1 + 1) / 3,
                "all_right": 0,
                "brier": 1 / 4,
                "p_true_bias": 2 / 4 - 1 / 4,
            },
            id="a tie is wrong, and counts as half a pair",
        ),
        pytest.param(
            answers_in_words("True", "True", "True", "True"),
            {
                "chat_acc": 0,
                "pairwise_acc": (0.5 + 0.5 + 0.5) / 3,
                "all_right": 0,
                "brier": 3 / 4,
                "p_true_bias": 4 / 4 - 1 / 4,
            },
            id="everything is called true",
        ),
        pytest.param(
            answers_in_words("False", "True", "False", "False"),
            {
                "chat_acc": 0,
                "pairwise_acc": (0 + 0.5 + 0.5) / 3,
                "all_right": 0,
                "brier": 2 / 4,
                "p_true_bias": 1 / 4 - 1 / 4,
            },
            id="a false choice is called true in place of the true one",
        ),
    ],
)
def test_true_false_row_has_all_metrics(answers, expected):
    """Only the first of the four choices is true."""
    doc = {"choices": ["a", "b", "c", "d"], "gold": 0, "doc_id": "d", "problem": ""}

    metrics_of_row = row_metrics(doc, answers, "statements")

    assert metrics_of_row["unscored"] is None
    assert {name: metrics_of_row[name] for name in expected} == pytest.approx(expected)
    assert metrics_of_row["chat_acc_worst"] == expected["chat_acc"]
    assert metrics_of_row["chat_acc_best"] == expected["chat_acc"]


def test_metrics_record_pair_and_choice_weights_and_the_document():
    """A row of four choices has three pairs of the true choice and a false one."""
    doc = {"choices": ["a", "b", "c", "d"], "gold": 0, "doc_id": "town", "problem": ""}
    answers = answers_in_words("True", "False", "False", "False")

    figures = row_metrics(doc, answers, "statements")

    assert figures["pairwise_acc"].weight == 3
    assert figures["brier"].weight == 4
    assert figures["chat_acc"].cluster == "town"


def test_one_unreadable_answer_leaves_the_row_unscored():
    """An unclear answer counts neither for nor against the model."""
    answers = answers_in_words("True", "False", "Hm", "")

    figures = row_metrics(DOC, answers, "statements")

    assert figures["unscored"] == "question 2: none of True, False alone"  # numbered from 0
    assert figures["unreadable"] == 2 / 4
    assert figures["chat_acc_worst"] == 0
    assert figures["chat_acc_best"] == 1
    for name in ("chat_acc", "pairwise_acc", "all_right", "auroc", "ece", "brier", "p_true_bias"):
        assert figures[name] is None


def test_unscored_rows_have_the_metrics_of_scored_rows():
    """lm_eval would average a metric that some rows lack over the other rows."""
    scored = row_metrics(DOC, answers_in_words("True", "False", "False", "False"), "statements")

    unscored = row_metrics(DOC, answers_in_words("True", "False", "Hm", ""), "statements")

    assert unscored.keys() == scored.keys()


def test_broken_row_is_unscored_for_any_answers():
    """The row has no true choice, so right answers to its questions mean nothing."""
    broken_doc = {**DOC, "gold": -1, "problem": "no gold"}
    answers = answers_in_words("True", "False", "False", "False")

    figures = row_metrics(broken_doc, answers, "statements")

    assert figures["unscored"] == "no gold"
    assert figures["chat_acc"] is None
    assert figures["unreadable"] == 0


def test_always_answering_one_letter_gains_nothing():
    """Each of four prompts shows another choice at A, so all choices are named equally often."""
    figures = row_metrics(DOC, answers_in_words("A", "A", "A", "A"), "letters")

    assert list(figures["auroc"]) == [1 / 4, 1 / 4, 1 / 4, 1 / 4]  # probabilities of the choices
    assert figures["chat_acc"] == 0  # the true choice is tied with the others
    assert figures["pairwise_acc"] == 0.5
    assert figures["prompt_acc"] == 1 / 4
    assert figures["position_A"] == 1
    assert figures["position_B"] == 0
    assert figures["position_C"] == 0
    assert figures["position_D"] == 0


@pytest.mark.parametrize("gold", range(4))
def test_knowing_the_truth_is_right_under_every_letter(gold):
    """Each of four prompts shows the true choice under another letter."""
    choices = ["w", "x", "y", "z"]
    true_letters = []
    for prompt in PROTOCOLS["letters"].subjects("p", choices):
        letter_of = {text: letter for letter, text in prompt["versions"]}
        true_letters.append(letter_of[choices[gold]])
    doc = {**DOC, "choices": choices, "gold": gold}

    figures = row_metrics(doc, answers_in_words(*true_letters), "letters")

    assert figures["chat_acc"] == 1
    assert figures["prompt_acc"] == 1
    assert figures["brier"] == 0
    assert figures["pairwise_acc"] == 1
    assert [figures[f"position_{letter}"] for letter in "ABCD"] == [0.25] * 4


def test_each_choice_stands_first_in_one_prompt():
    """Models tend to say A, so the letters must not favour any choice."""
    prompts = PROTOCOLS["letters"].subjects("p", ["w", "x", "y", "z"])

    first_choices = [prompt["versions"][0][1] for prompt in prompts]
    assert sorted(first_choices) == ["w", "x", "y", "z"]


def letter_answers(probabilities):
    """Return an answer to each prompt, from its probabilities of the letters A to D."""
    return [WordAnswer(tuple(np.log(row).tolist())) for row in probabilities]


def test_letter_probabilities_are_averaged_over_rotations():
    """Each of four prompts shows the choices under other letters, in turn."""
    answers = letter_answers(
        [
            [0.40, 0.30, 0.20, 0.10],  # the letters A to D are the choices 0, 1, 2, 3
            [0.70, 0.10, 0.10, 0.10],  # the choices 1, 2, 3, 0
            [0.25, 0.25, 0.05, 0.45],  # the choices 2, 3, 0, 1
            [0.10, 0.20, 0.30, 0.40],  # the choices 3, 0, 1, 2
        ]
    )

    figures = row_metrics(DOC, answers, "letters")

    probabilities_of_choices = list(figures["auroc"])
    assert probabilities_of_choices == pytest.approx(
        [
            (0.40 + 0.10 + 0.05 + 0.20) / 4,
            (0.30 + 0.70 + 0.45 + 0.30) / 4,
            (0.20 + 0.10 + 0.25 + 0.40) / 4,
            (0.10 + 0.10 + 0.25 + 0.10) / 4,
        ]
    )


def test_unscored_letter_rows_have_the_metrics_of_scored_rows():
    """lm_eval would average a metric that some rows lack over the other rows."""
    equal_probabilities = [[0.25, 0.25, 0.25, 0.25]] * 4
    answers = letter_answers(equal_probabilities)
    scored = row_metrics(DOC, answers, "letters")

    unscored = row_metrics(DOC, [WordAnswer(None, "", "lost"), *answers[1:]], "letters")

    assert unscored.keys() == scored.keys()
    assert unscored["position_A"] is None


@pytest.mark.parametrize(
    "digits", [pytest.param(1, id="many ties"), pytest.param(8, id="hardly any ties")]
)
def test_auroc_equals_scikit_learns(digits):
    """The AUROC is over all choices of all rows, with a tie as half; unscored rows are left out."""
    rows = random_rows(60, digits)
    unscored_row = None

    area = metrics.auroc([*rows, unscored_row])

    truth = [0, 1, 0, 0] * 60  # the second choice of each row is true
    probabilities = list(chain.from_iterable(rows))
    assert area == pytest.approx(roc_auc_score(truth, probabilities))


def brier_score_of_row(probabilities_of_true):
    """Score answers with these probabilities about four choices, the second of which is true."""
    doc = {"choices": ["a", "b", "c", "d"], "gold": 1, "doc_id": "d", "problem": ""}
    return row_metrics(doc, answers_by_probability(*probabilities_of_true), "statements")["brier"]


def test_brier_score_equals_scikit_learns():
    """The mean of the rows' Brier scores is the score over all their choices."""
    rows = random_rows(60, digits=3)

    brier = mean([brier_score_of_row(row) for row in rows])

    truth = [0, 1, 0, 0] * 60  # the second choice of each row is true
    probabilities = list(chain.from_iterable(rows))
    assert brier == pytest.approx(brier_score_loss(truth, probabilities))


def bootstrap_areas(rows, num_draws):
    """Return the AUROC of random draws of documents, each of which has three rows in a row."""
    documents = [rows[start : start + 3] for start in range(0, len(rows), 3)]
    random_numbers = random.Random(1)
    areas = []
    for _ in range(num_draws):
        drawn_documents = random_numbers.choices(documents, k=len(documents))
        drawn_rows = list(chain.from_iterable(drawn_documents))
        areas.append(metrics.auroc(drawn_rows))
    return areas


def test_auroc_standard_error_agrees_with_a_bootstrap_over_documents():
    """Rows of a document are alike, so another sample of the benchmark draws whole documents."""
    rows = random_rows(240)

    stderr = metrics.auroc_stderr(rows)

    areas = bootstrap_areas(rows, num_draws=400)
    # The standard deviation of 400 draws is itself uncertain by 4%, and ours is an approximation.
    assert stderr == pytest.approx(np.std(areas), rel=0.15)


def test_auroc_has_no_standard_error_within_one_document():
    """One document does not show how much documents differ."""
    rows_of_one_document = random_rows(3)

    assert math.isnan(metrics.auroc_stderr(rows_of_one_document))


def test_auroc_without_scored_rows_is_undefined():
    """NaN becomes "N/A" in lm_eval's table, where a number would look like a result."""
    unscored_row = None

    assert math.isnan(metrics.auroc([unscored_row]))


def wilson_interval(share, num_trials):
    """Return Wilson's 95% interval of a share of so many independent trials."""
    z = 1.959964
    centre = share + z**2 / (2 * num_trials)
    half_width = z * math.sqrt(share * (1 - share) / num_trials + z**2 / (4 * num_trials**2))
    widening = 1 + z**2 / num_trials
    return (centre - half_width) / widening, (centre + half_width) / widening


def test_auroc_interval_is_wilsons_for_the_effective_number_of_trials():
    """Wilson's interval stays between 0 and 1, even if the AUROC is near an end."""
    rows = random_rows(240)

    interval = metrics.auroc_interval(rows)

    area = metrics.auroc(rows)
    # The share of so many independent trials has the same standard error.
    num_trials = area * (1 - area) / metrics.auroc_stderr(rows) ** 2
    # An interval from 80 documents is wider, by Student's distribution with 79 degrees of freedom.
    num_trials *= (norm.ppf(0.975) / student_t.ppf(0.975, df=79)) ** 2
    assert interval == pytest.approx(wilson_interval(area, num_trials))


def aggregation_of(name):
    """Return how the values of rows become a score of the benchmark."""
    (score,) = [score for score in metrics.SCORES if score.name == name]
    return score.aggregation


def test_the_interval_of_auroc_states_the_number_of_documents():
    """Reports show it, so that readers know how much an interval is worth."""
    rows = random_rows(60)  # of documents of three rows
    unscored_row = None

    interval = aggregation_of("auroc").interval_of([unscored_row, *rows])

    assert interval.ends == metrics.auroc_interval(rows)
    assert interval.num_clusters == 60 / 3


@pytest.mark.parametrize("area", [0.6, 0.95])
def test_auroc_interval_contains_the_true_auroc(area):
    """A 95% interval must hold the true AUROC in about 95 of 100 benchmarks drawn at random.

    Each of 150 random benchmarks has 20 documents of 5 rows. True choices score higher than false
    ones, by a gap that gives ``area`` as the AUROC of unlimited rows.
    """
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

    # 95% less three standard errors of the share of 150 benchmarks.
    assert np.mean(hits) > 0.89


def test_auroc_of_one_leaves_uncertainty_if_documents_are_few():
    """Rows that are all right show no spread, so only the number of documents counts."""
    rows = [ChoiceProbabilities([0.9, 0.1, 0.2, 0.3], 0, str(number // 2)) for number in range(20)]

    interval = metrics.auroc_interval(rows)

    # Wilson's interval of 10 successes in 10 trials: there are ten documents of two rows.
    assert interval == pytest.approx((10 / (10 + 1.96**2), 1), abs=1e-4)


@pytest.mark.parametrize(
    "rows",
    [pytest.param(random_rows(3), id="one document"), pytest.param([None], id="no scored row")],
)
def test_an_auroc_of_fewer_than_two_documents_has_no_interval(rows):
    """The interval rests on how much documents differ, which one document cannot show."""
    assert metrics.auroc_interval(rows) is None


def test_the_interval_of_the_calibration_error_is_clustered_by_document():
    """The four choices of a row share its document. An unscored row is left out."""
    rows = random_rows(90)
    unscored_row = None

    interval = aggregation_of("ece").interval_of([rows[0], unscored_row, *rows[1:]])

    probabilities = list(chain.from_iterable(rows))
    documents = np.repeat([row.cluster for row in rows], 4).tolist()
    assert interval.ends == calibration_interval(probabilities, [0, 1, 0, 0] * 90, documents)
    assert interval.num_clusters == 90 / 3  # documents of three rows


def test_the_calibration_error_without_scored_rows_has_no_interval():
    """Ends of 0 and 1 would look like a measurement."""
    interval = aggregation_of("ece").interval_of([None])

    assert interval.ends is None


def test_calibration_error_follows_its_definition():
    """In each of ten bins, the mean probability is compared with the share that is true."""
    rows = [
        ChoiceProbabilities([1.0, 0.05, 0.05, 0.15], gold=0, cluster="d0"),
        ChoiceProbabilities([0.9, 0.35, 0.05, 0.15], gold=1, cluster="d1"),
    ]
    unscored_row = None

    error = aggregation_of("ece")([*rows, unscored_row])

    assert error == pytest.approx(
        3 / 8 * abs(0.05 - 0)  # 0.05, 0.05 and 0.05, of which none is true
        + 2 / 8 * abs(0.15 - 0)  # 0.15 and 0.15
        + 1 / 8 * abs(0.35 - 1)  # 0.35, which is true
        + 2 / 8 * abs(0.95 - 1 / 2)  # 0.9 and 1.0, of which one is true
    )


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        pytest.param([1, 0, 0, 0], 0, id="sure and right"),
        pytest.param([0, 1, 1, 1], 1, id="sure and wrong"),
    ],
)
def test_the_calibration_error_is_between_0_and_1(probabilities, expected):
    """The error is the gap between how sure a model is and how often it is right."""
    row = ChoiceProbabilities(probabilities, gold=0, cluster="d")

    assert aggregation_of("ece")([row]) == expected


def test_the_calibration_error_has_a_standard_error():
    """lm_eval shows it beside the score; 90 rows of random answers leave less than 0.1."""
    stderr = aggregation_of("ece").stderr(random_rows(90))

    assert 0 < stderr < 0.1


def test_calibration_error_without_scored_rows_is_undefined():
    """NaN becomes "N/A" in lm_eval's table, where 0 would look like a perfect model."""
    assert math.isnan(aggregation_of("ece").value([None]))


def test_the_standard_error_of_accuracy_is_clustered_by_document():
    """Rows of one document share its difficulty, so they tell less than independent rows."""
    right_answers = answers_in_words("True", "False", "False", "False")
    wrong_answers = answers_in_words("True", "True", "True", "True")
    doc_ids_and_answers = [
        ("d0", wrong_answers),
        ("d0", right_answers),
        ("d1", right_answers),
        ("d1", wrong_answers),
        ("d2", right_answers),
        ("d2", right_answers),
        ("d3", wrong_answers),
        ("d3", right_answers),
    ]
    accuracies = [
        row_metrics({**DOC, "doc_id": doc_id}, answers, "statements")["chat_acc"]
        for doc_id, answers in doc_ids_and_answers
    ]

    stderr = aggregation_of("chat_acc").stderr(accuracies)

    # The mean of the rows is 5/8. The sum of a document's two rows differs from 2 * 5/8 by 3/4 in
    # d2 and by -1/4 in the other three documents. Four documents have three degrees of freedom.
    sum_of_squares = 3 * (1 / 4) ** 2 + (3 / 4) ** 2
    assert stderr == pytest.approx(math.sqrt(4 / 3 * sum_of_squares) / 8)


@pytest.mark.parametrize(
    "logprob_of_false",
    [
        pytest.param(-1000.0, id="nearly impossible"),
        pytest.param(None, id="not among the likeliest words of the server"),
    ],
)
def test_nearly_impossible_word_leaves_all_probability_to_the_alternative(logprob_of_false):
    """The exponential of a difference of a thousand would be infinite."""
    answer = WordAnswer(logprobs=(-1.0, logprob_of_false))

    assert word_probabilities(answer, ("True", "False")) == [1.0, 0.0]


def test_an_auroc_of_two_documents_has_an_interval():
    """Two is the least number of documents that shows how much they differ."""
    assert metrics.auroc_interval(random_rows(6)) is not None
