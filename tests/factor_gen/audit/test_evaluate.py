"""Intervals and tests against other people's code."""

from __future__ import annotations

import math

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
from lm_factuality.scores.statistics import Outcome, bootstrap_interval
from tests.factor_gen.audit.rows import row


def _rows(count: int, each: int = 1) -> list[Row]:
    """Rows that share nothing, so many of each document."""
    return [
        row(f"a {number}", "a c", "a d", "a e", doc_id=str(number // each))
        for number in range(count)
    ]


_ROWS = _rows(40)


def _scores(right: int, family: str = SURFACE, count: int = 40) -> ChoiceScores:
    """The first so many rows right, the others wrong."""
    return ChoiceScores(
        "test",
        family,
        [[2.0, 1, 0, 0] if number < right else [1.0, 2, 0, 0] for number in range(count)],
    )


@pytest.mark.parametrize("right", [10, 18, 20, 24, 30])
def test_the_test_of_pairs_is_the_sign_test_where_rows_are_documents_and_nothing_ties(
    right: int,
) -> None:
    pairs = [row(f"a {number}", "b", doc_id=str(number)) for number in range(40)]
    (found,) = evaluate_baselines(
        [ChoiceScores("test", SURFACE, [[float(number < right), 0.5] for number in range(40)])],
        pairs,
    )
    assert found.pairs_won.value == found.rows_won.value == right / 40
    assert found.p_value == pytest.approx(
        binomtest(right, 40, 0.5, alternative="greater").pvalue, abs=0.006
    )


def test_pairs_are_won_by_thirds_and_ties_are_halves() -> None:
    assert [
        win_rate(values, 0) for values in ([2, 1, 0, 0], [1, 2, 0, 1], [0, 0, 0, 0], [0, 1, 2, 3])
    ] == [1, 0.5, 0.5, 0]
    (found,) = evaluate_baselines(
        [_scores(20)], _ROWS
    )  # a third of the pairs is lost in the other rows
    assert (found.rows_won.value, found.pairs_won.value) == (0.5, pytest.approx((1 + 2 / 3) / 2))


def test_the_interval_is_the_clustered_bootstrap_one() -> None:
    rows = _rows(40, each=3)
    (found,) = evaluate_baselines([_scores(17)], rows)
    picked = [Outcome(float(number < 17), each.doc_id) for number, each in enumerate(rows)]
    wins = [Outcome(1.0 if number < 17 else 2 / 3, each.doc_id) for number, each in enumerate(rows)]
    assert (found.rows_won.low, found.rows_won.high) == pytest.approx(
        bootstrap_interval(picked), abs=0.02
    )
    assert (found.pairs_won.low, found.pairs_won.high) == pytest.approx(
        bootstrap_interval(wins), abs=0.02
    )


@pytest.mark.parametrize(("documents", "is_told"), [(1, False), (9, False), (10, True)])
def test_few_documents_do_not_tell_however_much_their_rows_give_away(
    documents: int, is_told: bool
) -> None:
    rows = _rows(20 * documents, each=20)
    (found,) = evaluate_baselines([_scores(len(rows), count=len(rows))], rows)
    assert found.rows_won.value == 1
    if is_told:
        assert (
            found.p_value < 0.001
        )  # all alike in and between documents is no likeness within them
        return
    assert math.isnan(found.p_value)
    assert not found.is_above_chance
    assert describe_significance(found) == "too few documents to tell"
    assert math.isnan(found.rows_won.low) == (documents == 1)


def test_copies_under_other_names_are_one_document() -> None:
    rows = [row("a b", "a c", "a d", "a e", doc_id=str(number)) for number in range(40)]
    (found,) = evaluate_baselines([_scores(40)], rows)
    assert math.isnan(found.p_value)


def test_what_is_learned_is_tested_by_its_forward_scores() -> None:
    wrong = [[0.0, 1, 2, 3]] * 40
    (found,) = evaluate_baselines(
        [
            ChoiceScores(
                "test", LEARNED, _scores(40).values, forward_values=[*[None] * 8, *wrong[8:]]
            )
        ],
        _ROWS,
    )
    assert (found.rows_won.value, found.rows) == (1, 40)
    assert found.p_value > 0.99


def test_little_is_a_slight_leak() -> None:
    def leak(share: float) -> BlindBaseline:
        pairs = EstimatedShare(share, 0.503, 0.571)
        return BlindBaseline(
            "test", SURFACE, 736, pairs, pairs, p_value=0.0001, corrected_p_value=0.002
        )

    assert (
        describe_significance(leak(0.507)) == "slight leak, above chance by 0.7 points, p = 0.002"
    )
    assert describe_significance(leak(0.56)) == "above chance by 6.0 points, p = 0.002"


def test_ties_are_broken_by_lot() -> None:
    (found,) = evaluate_baselines([ChoiceScores("tie", SURFACE, [[1.0, 1, 0, 0]] * 40)], _ROWS)
    assert found.rows_won.value == 0.5
    (level,) = evaluate_baselines(
        [ChoiceScores("all alike", SURFACE, [[1.0, 1, 1, 1]] * 40)], _ROWS
    )
    assert (level.rows_won.value, level.p_value, level.is_above_chance) == (0.25, 1.0, False)


def test_rows_without_scores_are_in_no_figure() -> None:
    (found,) = evaluate_baselines(
        [ChoiceScores("half", SURFACE, [[1.0, 0, 0, 0]] * 20 + [None] * 20)], _ROWS
    )
    assert (found.rows, found.rows_won.value) == (20, 1.0)
    (none,) = evaluate_baselines([ChoiceScores("nothing", SURFACE, [None] * 40)], _ROWS)
    assert none.rows == 0
    assert math.isnan(none.rows_won.value)


def test_baselines_that_count_are_corrected_together() -> None:
    families = (SURFACE, SURFACE, LEARNED, COMPARES)
    values = [[2.0, 1, 0, 0] if number < 26 else [0.0, 2, 1, 1] for number in range(40)]
    found = evaluate_baselines([ChoiceScores("test", family, values) for family in families], _ROWS)
    assert 0 < found[0].p_value < 0.1
    assert [each.corrected_p_value for each in found] == [
        times * found[0].p_value for times in (3, 3, 3, 1)
    ]
