"""Intervals and tests against other people's code."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binomtest

from factor_gen.audit.evaluate import evaluate, holm
from factor_gen.audit.records import COMPARES, SURFACE, Scores
from lm_factuality.statistics import Outcome, bootstrap_interval
from tests.factor_gen.audit.rows import row

_ROWS = [row("a b", "a c", "a d", "a e", doc_id=str(number)) for number in range(40)]


def _scores(right: int, family: str = SURFACE) -> Scores:
    """The first so many rows right, the others wrong."""
    return Scores("test", family, [[2.0, 1, 0, 0] if number < right else [1.0, 2, 0, 0] for number in range(40)])


@pytest.mark.parametrize("right", [4, 10, 14, 17, 20])
def test_the_test_is_the_binomial_one_where_rows_are_documents_and_nothing_ties(right: int) -> None:
    (found,) = evaluate([_scores(right)], _ROWS)
    assert found.accuracy == right / 40
    assert found.chance == 0.25
    assert found.p == pytest.approx(binomtest(right, 40, 0.25, alternative="greater").pvalue, abs=0.004)


def test_the_interval_is_the_clustered_bootstrap_one() -> None:
    rows = [row("a b", "a c", "a d", "a e", doc_id=str(number // 3)) for number in range(40)]
    outcomes = [Outcome(float(number < 17), each.doc_id) for number, each in enumerate(rows)]
    (found,) = evaluate([_scores(17)], rows)
    assert (found.low, found.high) == pytest.approx(bootstrap_interval(outcomes), abs=0.02)


def test_rows_of_one_document_count_for_less() -> None:
    rows = [row("a b", "a c", "a d", "a e", doc_id=str(number // 8)) for number in range(40)]
    (alone,), (together,) = evaluate([_scores(17)], _ROWS), evaluate([_scores(17)], rows)
    assert together.p > 3 * alone.p


def test_ties_are_broken_by_lot() -> None:
    (found,) = evaluate([Scores("tie", SURFACE, [[1.0, 1, 0, 0]] * 40)], _ROWS)
    assert found.accuracy == 0.5
    (level,) = evaluate([Scores("all alike", SURFACE, [[1.0, 1, 1, 1]] * 40)], _ROWS)
    assert (level.accuracy, level.p, level.is_above_chance) == (0.25, 1.0, False)


def test_rows_without_scores_are_in_no_figure() -> None:
    (found,) = evaluate([Scores("half", SURFACE, [[1.0, 0, 0, 0]] * 20 + [None] * 20)], _ROWS)
    assert (found.rows, found.accuracy) == (20, 1.0)
    (none,) = evaluate([Scores("nothing", SURFACE, [None] * 40)], _ROWS)
    assert none.rows == 0
    assert math.isnan(none.accuracy)


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_only_tested_families_are_corrected_each_for_its_own_number() -> None:
    found = evaluate([_scores(20), _scores(20), _scores(20, COMPARES)], _ROWS)
    assert [each.corrected for each in found] == [2 * found[0].p, 2 * found[1].p, None]
