"""Ranks by intervals: scores that cannot be told apart share a rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_factuality.harness.outputs import Corrected
from lm_factuality.leaderboard.site.entries import _score_if_unscored_are_wrong, rank_scores
from tests.leaderboard.site.conftest import make_score


@pytest.mark.parametrize(
    ("intervals", "ranks"),
    [
        pytest.param([(0.7, 0.8), (0.75, 0.85)], [1, 1], id="overlap"),
        pytest.param([(0.7, 0.8), (0.6, 0.7)], [1, 1], id="ends that touch"),
        pytest.param([(0.7, 0.8), (0.5, 0.6)], [1, 2], id="apart"),
        pytest.param(
            [(0.7, 0.8), (0.75, 0.85), (0.5, 0.6), (0.59, 0.72)],
            [1, 1, 3, 2],
            id="the last is wholly below the second and overlaps the first",
        ),
        pytest.param([(0.1, 0.2), None, (0.5, 0.6)], [2, None, 1], id="one without an interval"),
        pytest.param([], [], id="no scores"),
    ],
)
def test_score_ranks_behind_wholly_higher_intervals(intervals, ranks):
    """Scores whose intervals overlap cannot be told apart, and share a rank."""
    assert rank_scores(intervals, higher_is_better=True) == ranks


def test_score_ranks_behind_lower_intervals_if_lower_is_better():
    """An example of such a score is the share of errors."""
    many_errors, few_errors = (0.7, 0.8), (0.1, 0.2)

    ranks = rank_scores([many_errors, few_errors], higher_is_better=False)

    assert ranks == [2, 1]


def to_interval(low_and_width):
    """Turn the lower end and the width of an interval into its two ends."""
    low, width = low_and_width
    return float(low), float(low + width)


# Ends are drawn from few whole numbers, so that many of them touch.
intervals_or_none = st.none() | st.tuples(st.integers(0, 20), st.integers(0, 5)).map(to_interval)


@given(st.lists(intervals_or_none, max_size=30))
def test_ranks_count_the_higher_intervals(intervals):
    """The rank of a score is 1 plus the number of intervals that lie wholly above its own."""
    ranks = rank_scores(intervals, higher_is_better=True)

    lower_ends = [interval[0] for interval in intervals if interval is not None]
    for interval, rank in zip(intervals, ranks, strict=True):
        if interval is None:
            assert rank is None
            continue
        _, upper_end = interval
        num_wholly_above = sum(lower_end > upper_end for lower_end in lower_ends)
        assert rank == 1 + num_wholly_above


@given(st.lists(intervals_or_none, max_size=30))
def test_ranks_if_lower_is_better_equal_ranks_of_negated_intervals(intervals):
    """The negative of the interval from 0.1 to 0.2 is that from -0.2 to -0.1."""
    negative_intervals = [
        None if interval is None else (-interval[1], -interval[0]) for interval in intervals
    ]

    ranks = rank_scores(intervals, higher_is_better=False)

    assert ranks == rank_scores(negative_intervals, higher_is_better=True)


def test_interval_reaches_to_both_sides_of_the_score_if_no_row_is_unscored():
    score = make_score(0.75, half_width=0.05, unscored=0)

    assert score.interval == (0.7, 0.8)


@pytest.mark.parametrize(
    ("worst_score", "interval"),
    [
        pytest.param(0.6, (0.6, 0.6), id="many unscored: both ends fall"),
        pytest.param(0.74, (0.7, 0.74), id="few unscored: the upper end falls"),
    ],
)
def test_interval_does_not_exceed_the_worst_score(worst_score, interval):
    """A model must not gain a rank by leaving rows unscored: the worst score has them wrong."""
    score = make_score(0.75, half_width=0.05, unscored=9, score_if_unscored_wrong=worst_score)

    assert score.interval == interval


@pytest.mark.parametrize(
    ("worst_score", "interval"),
    [
        pytest.param(0.9, (0.9, 0.9), id="many unscored: both ends rise"),
        pytest.param(0.76, (0.76, 0.8), id="few unscored: the lower end rises"),
    ],
)
def test_interval_is_not_below_the_worst_score_if_lower_is_better(worst_score, interval):
    """A share of errors is at its worst, and highest, if all unscored rows are wrong."""
    score = make_score(
        0.75,
        half_width=0.05,
        higher_is_better=False,
        unscored=9,
        score_if_unscored_wrong=worst_score,
    )

    assert score.interval == interval


def test_unscored_rows_do_not_create_an_interval():
    score = make_score(0.75, low=None, high=None, unscored=9, score_if_unscored_wrong=0.6)

    assert score.interval is None


@pytest.mark.parametrize("unknown_end", ["low", "high"])
def test_interval_with_an_unknown_end_is_none(unknown_end):
    """A rank needs both ends of the interval."""
    assert make_score(0.75, **{unknown_end: None}).interval is None


@pytest.mark.parametrize(
    ("higher_is_better", "uncorrected_worst", "corrected_worst"),
    [
        pytest.param(True, 0.7, 0.55, id="the low end 0.6 falls by 0.05"),
        pytest.param(False, 0.8, 0.75, id="the high end 0.7 rises by 0.05"),
    ],
)
def test_worst_corrected_score_is_the_worse_end_after_the_same_loss(
    higher_is_better, uncorrected_worst, corrected_worst
):
    """Unscored rows would make the uncorrected score of 0.75 worse by 0.05 if they were wrong."""
    figure = make_score(0.75, unscored=9, score_if_unscored_wrong=uncorrected_worst).figure
    figure.task.corrected["factor_acc"] = Corrected(
        value=0.65, low=0.6, high=0.7, stderr=0.02, how="labels"
    )

    worst_score = _score_if_unscored_are_wrong(figure, higher_is_better=higher_is_better)

    assert worst_score == pytest.approx(corrected_worst)


@pytest.mark.parametrize(
    ("worst_score", "unscored", "expected"),
    [
        pytest.param(0.75, 0, None, id="nothing is unscored"),
        pytest.param(0.7, 0, 0.7, id="parts of rows are unscored"),
        pytest.param(0.75, 3, 0.75, id="unscored rows do not lower the score"),
        pytest.param(None, 3, None, id="the benchmark states no worst score"),
    ],
)
def test_score_if_unscored_rows_are_wrong_is_the_worst_score(worst_score, unscored, expected):
    """A benchmark states the worst score beside the score itself, here 0.75."""
    figure = make_score(0.75, unscored=unscored, score_if_unscored_wrong=worst_score).figure

    assert _score_if_unscored_are_wrong(figure, higher_is_better=True) == expected
