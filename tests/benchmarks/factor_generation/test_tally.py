"""The table of section 6.2 of the FACTOR paper, from a judge's marks of generations."""

import math

import pytest

from lm_factuality.benchmarks.factor_generation.facts import FALSE, NEUTRAL, TRUE
from lm_factuality.benchmarks.factor_generation.judging import FACTOR_GENERATION
from lm_factuality.benchmarks.factor_generation.tally import (
    RIGHT,
    UNSPLIT,
    WEIGHTED,
    WRONG,
    accuracy_bound,
    subset_score,
    sums_by_document,
    tally_row,
    why_undefined,
)
from tests.benchmarks.factor_generation.documents import make_document, make_verdict


def row_that_the_model_has_right(*marks):
    """Make a row whose true completion is the likeliest, with the marks of its generations."""
    return make_document(mean_logprob=(-1, -2, -3, -4)), make_verdict(*marks)


def row_that_the_model_has_wrong(*marks):
    """Make a row whose true completion is likelier than one of three contradictions."""
    return make_document(mean_logprob=(-3, -2, -4, -1)), make_verdict(*marks)


def row_without_scores(*marks):
    """Make a row of which nobody knows whether the model prefers the true completion."""
    return make_document(mean_logprob=(None, None, None, None)), make_verdict(*marks)


def row_without_fact(reason):
    """Make a row for which nothing can be generated."""
    return make_document(no_fact=reason), make_verdict()


def summarise_rows(*rows):
    """Summarise rows, each of which is a document and the verdict on its generations."""
    documents = [document for document, _verdict in rows]
    verdicts = [verdict for _document, verdict in rows]
    return FACTOR_GENERATION.summarise(documents, verdicts)


def test_accuracy_is_the_share_of_true_generations_among_true_and_false_ones():
    summary = summarise_rows(
        row_that_the_model_has_right(TRUE, TRUE, TRUE, FALSE, NEUTRAL),
        row_that_the_model_has_wrong(TRUE, FALSE, FALSE),
        row_without_scores(TRUE),
    )

    assert summary["accuracy_right"]["value"] == 3 / (3 + 1)
    assert summary["accuracy_wrong"]["value"] == 1 / (1 + 2)
    assert summary["accuracy_pooled"]["value"] == 5 / (5 + 3)


def test_right_and_wrong_rows_are_weighted_by_the_share_of_right_pairs():
    """The model is right in all three pairs of the first row, and in one of the second row."""
    summary = summarise_rows(
        row_that_the_model_has_right(TRUE, TRUE, TRUE, FALSE, NEUTRAL),
        row_that_the_model_has_wrong(TRUE, FALSE, FALSE),
    )

    weight_of_right = (3 + 1) / 6  # of six pairs
    weight_of_wrong = (0 + 2) / 6
    # The first row has 3 true and 1 false of 5 generations, the second 1 true and 2 false of 3.
    share_true = weight_of_right * 3 / 5 + weight_of_wrong * 1 / 3
    share_false = weight_of_right * 1 / 5 + weight_of_wrong * 2 / 3
    assert summary["pairs_right"]["value"] == pytest.approx(weight_of_right)
    assert summary["true"]["value"] == pytest.approx(share_true)
    assert summary["false"]["value"] == pytest.approx(share_false)
    assert summary["accuracy"]["value"] == pytest.approx(share_true / (share_true + share_false))


def test_shares_include_neutral_but_not_unscored_generations():
    unscored = None

    summary = summarise_rows(
        row_that_the_model_has_right(TRUE, TRUE, TRUE, FALSE, NEUTRAL, unscored),
        row_that_the_model_has_wrong(TRUE, FALSE, FALSE),
    )

    assert summary["true_right"]["value"] == 3 / (3 + 1 + 1)
    assert summary["false_wrong"]["value"] == 2 / (1 + 2)


def test_each_score_counts_its_contributing_rows():
    """A row without a fact has no generations, but its completions have scores."""
    summary = summarise_rows(
        row_that_the_model_has_right(TRUE),
        row_that_the_model_has_right(FALSE),
        row_that_the_model_has_wrong(FALSE),
        row_without_scores(TRUE),
        row_without_fact("differ at once"),
    )

    assert summary["true_right"]["rows"] == 2
    assert summary["true_wrong"]["rows"] == 1
    assert summary["true"]["rows"] == 2 + 1
    assert summary["true_pooled"]["rows"] == 2 + 1 + 1
    assert summary["pairs_right"]["rows"] == 2 + 1 + 1


def test_accuracy_bounds_cover_all_marks_of_the_unscored_generation():
    """At worst the sixth generation of the first row is false, and at best it is true."""
    unscored = None

    summary = summarise_rows(
        row_that_the_model_has_right(TRUE, TRUE, TRUE, FALSE, NEUTRAL, unscored),
        row_that_the_model_has_wrong(TRUE, FALSE, FALSE),
    )

    weight_of_right = 4 / 6  # the model is right in four of six pairs
    weight_of_wrong = 2 / 6
    worst_true = weight_of_right * 3 / 6 + weight_of_wrong * 1 / 3
    worst_false = weight_of_right * 2 / 6 + weight_of_wrong * 2 / 3
    best_true = weight_of_right * 4 / 6 + weight_of_wrong * 1 / 3
    best_false = weight_of_right * 1 / 6 + weight_of_wrong * 2 / 3
    assert summary["accuracy"]["worst"] == pytest.approx(worst_true / (worst_true + worst_false))
    assert summary["accuracy"]["best"] == pytest.approx(best_true / (best_true + best_false))


def test_rows_and_generations_are_counted():
    unscored = None

    summary = summarise_rows(
        row_that_the_model_has_right(TRUE, TRUE, NEUTRAL),
        row_that_the_model_has_wrong(FALSE, FALSE, unscored),
        row_without_scores(TRUE),
        row_without_fact("differ at once"),
    )

    assert summary["rows"] == 4
    assert summary["generations"] == {"true": 3, "false": 2, "neutral": 1}


def test_reasons_for_missing_marks_are_counted():
    unscored = None  # `make_verdict` gives it the reason "unread"

    summary = summarise_rows(
        row_that_the_model_has_right(TRUE, FALSE, unscored), row_without_fact("differ at once")
    )

    assert summary["without_fact"] == {"differ at once": 1}
    assert summary["unscored"] == {"unread": 1}


def test_table_shows_the_accuracy_and_unscored_counts():
    unscored = None  # `make_verdict` gives it the reason "unread"
    summary = summarise_rows(row_that_the_model_has_right(TRUE, TRUE, TRUE, FALSE, unscored))

    _header, rows, notes = FACTOR_GENERATION.summary_table(summary)

    labels_and_values = [list(row[:2]) for row in rows]
    assert ["True of true and false, %", "75.0"] in labels_and_values
    assert "Unscored: unread 1." in notes


def generations(true=0, false=0, neutral=0, unscored=0):
    """Return the numbers of generations in the order in which sums hold them."""
    return [true, false, neutral, unscored]


def make_sums(right, wrong, num_pairs_right, num_pairs):
    """Make the sums over rows from which scores are computed.

    Args:
        right: The generations of rows that the model has right.
        wrong: Those of the rows that the model has wrong.
        num_pairs_right: The pairs of completions in which the model is right.
        num_pairs: All pairs of completions.
    """
    of_rows_without_scores = generations()
    return [*right, *wrong, *of_rows_without_scores, num_pairs_right, num_pairs]


@pytest.mark.parametrize(
    ("right", "wrong", "share_of_pairs_right", "printed"),
    [
        pytest.param(
            generations(true=11.3, false=26.3, neutral=62.4),
            generations(true=5.4, false=45.8, neutral=48.8),
            0.787,
            {"accuracy": 24.8, "true": 10.0, "false": 30.5, "neutral": 59.5},
            id="first model",
        ),
        pytest.param(
            generations(true=21.4, false=24.5, neutral=54.1),
            generations(true=2.1, false=42.8, neutral=55.1),
            0.81,
            # The table has 28.4 for "false", with which the row does not add up to 100.
            {"accuracy": 38.8, "true": 17.7, "neutral": 54.3},
            id="OPT-66B",
        ),
    ],
)
def test_weighted_scores_match_table_6_of_the_paper(right, wrong, share_of_pairs_right, printed):
    """The table prints all numbers but the share of pairs, in percent with one decimal.

    We computed the share of pairs from the neutral generations.
    """
    sums = make_sums(right, wrong, num_pairs_right=share_of_pairs_right, num_pairs=1)

    scores = {name: 100 * subset_score(sums, WEIGHTED, name) for name in printed}

    assert scores == pytest.approx(printed, abs=0.06)


def test_accuracy_of_generations_omits_neutral_ones():
    """A generation that states neither the true nor the false fact is neutral (table 6)."""
    sums = make_sums(
        right=generations(true=11.3, false=26.3, neutral=62.4),
        wrong=generations(),
        num_pairs_right=1,
        num_pairs=1,
    )

    assert subset_score(sums, RIGHT, "accuracy") == pytest.approx(11.3 / (11.3 + 26.3))


@pytest.mark.parametrize(
    ("sums", "worst", "best"),
    [
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(true=1, false=3),
                num_pairs_right=3,
                num_pairs=4,
            ),
            3 / 4 * 3 / 4 + 1 / 4 * 1 / 4,
            3 / 4 * 3 / 4 + 1 / 4 * 1 / 4,
            id="all generations have a mark",
        ),
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(),
                num_pairs_right=3,
                num_pairs=4,
            ),
            3 / 4 * 3 / 4 + 1 / 4 * 0,
            3 / 4 * 3 / 4 + 1 / 4 * 1,
            id="wrong rows have no generation",
        ),
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(unscored=3),
                num_pairs_right=3,
                num_pairs=4,
            ),
            3 / 4 * 3 / 4 + 1 / 4 * 0,
            3 / 4 * 3 / 4 + 1 / 4 * 1,
            id="wrong rows have no mark",
        ),
        pytest.param(
            make_sums(
                right=generations(),
                wrong=generations(true=1, false=3),
                num_pairs_right=3,
                num_pairs=4,
            ),
            3 / 4 * 0 + 1 / 4 * 1 / 4,
            3 / 4 * 1 + 1 / 4 * 1 / 4,
            id="right rows have no generation",
        ),
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(),
                num_pairs_right=4,
                num_pairs=4,
            ),
            3 / 4,
            3 / 4,
            id="wrong rows have no weight",
        ),
        pytest.param(
            make_sums(
                right=generations(neutral=3),
                wrong=generations(neutral=2),
                num_pairs_right=3,
                num_pairs=4,
            ),
            0,
            1,
            id="all generations are neutral",
        ),
        pytest.param(
            make_sums(
                right=generations(neutral=2, unscored=1),
                wrong=generations(),
                num_pairs_right=4,
                num_pairs=4,
            ),
            0,
            1,
            id="all marked generations are neutral",
        ),
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(true=1, false=3),
                num_pairs_right=0,
                num_pairs=0,
            ),
            0,
            1,
            id="no pairs",
        ),
        pytest.param(
            make_sums(right=generations(), wrong=generations(), num_pairs_right=0, num_pairs=0),
            0,
            1,
            id="nothing at all",
        ),
    ],
)
def test_accuracy_bounds_exist_even_if_accuracy_is_undefined(sums, worst, best):
    """Whatever the judge failed to mark counts as false at worst, and as true at best.

    If the model is right in 3 of 4 pairs, each bound is 3/4 times the accuracy of the rows that it
    has right, plus 1/4 times the accuracy of the rows that it has wrong.
    """
    assert accuracy_bound(sums, FALSE) == pytest.approx(worst)
    assert accuracy_bound(sums, TRUE) == pytest.approx(best)


@pytest.mark.parametrize(
    ("sums", "reason"),
    [
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(),
                num_pairs_right=3,
                num_pairs=4,
            ),
            "the model is wrong in 25.0% of pairs, but no generation of such a row has a mark",
            id="wrong rows have no generations",
        ),
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(unscored=3),
                num_pairs_right=3,
                num_pairs=4,
            ),
            "the model is wrong in 25.0% of pairs, but no generation of such a row has a mark",
            id="wrong rows have no marks",
        ),
        pytest.param(
            make_sums(
                right=generations(),
                wrong=generations(true=1, false=3),
                num_pairs_right=3,
                num_pairs=4,
            ),
            "the model is right in 75.0% of pairs, but no generation of such a row has a mark",
            id="right rows have no generations",
        ),
        pytest.param(
            make_sums(
                right=generations(neutral=3),
                wrong=generations(neutral=2),
                num_pairs_right=3,
                num_pairs=4,
            ),
            "no generation is marked true or false",
            id="all generations are neutral",
        ),
        pytest.param(
            make_sums(
                right=generations(neutral=2, unscored=1),
                wrong=generations(),
                num_pairs_right=4,
                num_pairs=4,
            ),
            "no generation is marked true or false",
            id="generations are neutral or unscored",
        ),
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(true=1, false=3),
                num_pairs_right=0,
                num_pairs=0,
            ),
            "no pair of a true and a false completion has scores",
            id="no pairs",
        ),
        pytest.param(
            make_sums(right=generations(), wrong=generations(), num_pairs_right=0, num_pairs=0),
            "no pair of a true and a false completion has scores",
            id="neither generations nor pairs",
        ),
    ],
)
def test_a_reason_is_given_for_an_undefined_accuracy(sums, reason):
    """Rows that the model has right and rows that it has wrong need marks, if they have a weight."""
    assert math.isnan(subset_score(sums, WEIGHTED, "accuracy"))
    assert why_undefined(sums) == reason


@pytest.mark.parametrize(
    "sums",
    [
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(true=1, false=3),
                num_pairs_right=3,
                num_pairs=4,
            ),
            id="both groups have marks",
        ),
        # No pair is wrong, so nothing has to be known of wrong rows.
        pytest.param(
            make_sums(
                right=generations(true=3, false=1),
                wrong=generations(),
                num_pairs_right=4,
                num_pairs=4,
            ),
            id="one group has all pairs",
        ),
    ],
)
def test_no_reason_is_given_for_a_defined_accuracy(sums):
    """A group of rows whose weight is 0 needs no marks."""
    assert not math.isnan(subset_score(sums, WEIGHTED, "accuracy"))
    assert why_undefined(sums) == ""


def test_a_tie_with_the_contradiction_of_the_fact_makes_a_row_wrong():
    """The true completion is likelier than the two other contradictions."""
    true_completion = -2
    contradiction_of_the_fact = -2
    document = make_document(mean_logprob=(true_completion, contradiction_of_the_fact, -3, -4))

    tally = tally_row(document, make_verdict(TRUE))

    assert tally.group == WRONG
    assert tally.counts == generations(true=1)
    assert tally.pairs_right == 2


def test_unscored_contradiction_forms_no_pair():
    """The true completion ties with one of the two scored contradictions, and loses to the other."""
    true_completion = -2
    document = make_document(mean_logprob=(true_completion, -2, -1, None))

    tally = tally_row(document, make_verdict(TRUE))

    assert tally.pairs_right == 0
    assert tally.pairs == 2


def test_a_row_with_a_problem_has_no_pairs():
    """One of its choices is empty, so the scores of the others cannot be compared."""
    document = make_document(problem="choice 3 is empty", no_fact="choice 3 is empty")

    tally = tally_row(document, make_verdict())

    assert tally.pairs_right == 0
    assert tally.pairs == 0


@pytest.mark.parametrize("gold", [-1, 4])
def test_row_without_its_true_completion_is_neither_right_nor_wrong(gold):
    """The choices have the numbers 0 to 3, so nobody knows whether the model prefers the truth."""
    tally = tally_row(make_document(gold=gold), make_verdict(TRUE))

    assert tally.group == UNSPLIT
    assert tally.counts == generations(true=1)
    assert tally.pairs == 0


def test_row_with_only_neutral_generations_does_not_affect_accuracy():
    """The accuracy is the share of true generations among true and false ones."""
    summary = summarise_rows(
        row_that_the_model_has_right(NEUTRAL), row_that_the_model_has_right(FALSE)
    )

    assert summary["accuracy"]["rows"] == 1
    assert summary["neutral"]["rows"] == 2


def test_accuracy_over_neutral_generations_counts_no_rows():
    summary = summarise_rows(row_that_the_model_has_right(NEUTRAL))

    assert summary["accuracy"]["rows"] == 0
    assert summary["neutral"]["rows"] == 1


def test_bootstrap_draws_whole_documents():
    """Rows of one document are alike, so another sample of the data draws whole documents."""
    tallies = [
        tally_row(make_document("d0"), make_verdict(TRUE)),
        tally_row(make_document("d0"), make_verdict(FALSE)),
        tally_row(make_document("d1"), make_verdict(TRUE)),
    ]

    first_document, second_document = sums_by_document(tallies)

    # The model has these rows right, and the sums begin with the generations of such rows.
    assert first_document[:4] == generations(true=1, false=1)
    assert second_document[:4] == generations(true=1)
