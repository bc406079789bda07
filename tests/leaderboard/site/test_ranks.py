import random

import pytest

from lm_factuality.leaderboard.site.entries import Interval, rank_scores
from tests.leaderboard.site.conftest import score


def slowly(intervals: list[Interval | None], higher: bool) -> list[int | None]:
    """The rule as it is written."""
    known = [each for each in intervals if each is not None]
    return [
        None
        if each is None
        else 1 + sum(other[0] > each[1] if higher else other[1] < each[0] for other in known)
        for each in intervals
    ]


def test_overlap_is_a_tie() -> None:
    assert rank_scores([(0.7, 0.8), (0.75, 0.85), (0.5, 0.6), (0.59, 0.72)], True) == [1, 1, 3, 2]


def test_ends_that_touch_overlap() -> None:
    assert rank_scores([(0.7, 0.8), (0.6, 0.7)], True) == [1, 1]


def test_lower_can_be_better() -> None:
    assert rank_scores([(0.7, 0.8), (0.1, 0.2)], False) == [2, 1]


def test_without_an_interval_there_is_no_rank_and_no_harm() -> None:
    assert rank_scores([(0.1, 0.2), None, (0.5, 0.6)], True) == [2, None, 1]
    assert rank_scores([], True) == []


@pytest.mark.parametrize("higher", [True, False])
def test_as_the_rule_says(higher: bool) -> None:
    drawn = random.Random("ranks")
    for _ in range(50):
        ends = [
            drawn.choice((None, (low := drawn.randint(0, 20), low + drawn.randint(0, 5))))
            for _ in range(30)
        ]
        intervals = [None if each is None else (float(each[0]), float(each[1])) for each in ends]
        assert rank_scores(intervals, higher) == slowly(intervals, higher)


def test_unscored_rows_count_against_a_score_at_both_ends() -> None:
    assert score(0.75, 0.05).interval == (0.7, 0.8)
    assert score(0.75, 0.05, unscored=9, worst=0.6).interval == (0.6, 0.6)
    assert score(0.75, 0.05, unscored=1, worst=0.74).interval == (0.7, 0.74)
    assert score(0.75, 0.05, higher=False, unscored=9, worst=0.9).interval == (0.9, 0.9)
    assert score(0.75, 0.05, higher=False, unscored=9, worst=0.76).interval == (0.76, 0.8)
    assert score(0.75, low=None, high=None, unscored=9, worst=0.6).interval is None
