"""Plots: their axes, and the guess baseline in them."""

from __future__ import annotations

import pytest

from lm_factuality.ground.plots import BASELINE, PERCENT, Dot, Point, dots, scatter


def plot_dots(*scores: Dot):
    """Plot a row of one model for each score."""
    rows = [(f"task {number}", {"model": score}) for number, score in enumerate(scores)]
    return dots("Scores", "%", rows, ["model"])


@pytest.mark.parametrize("value", [2.0, 61.5, 99.0])
def test_the_axis_of_dots_is_the_same_for_all_scores(value):
    plot = plot_dots(Dot(value, value - 1, value + 1))

    assert plot.figure.axes[0].get_xlim() == PERCENT


@pytest.mark.parametrize("value", [2.0, 61.5, 99.0])
def test_the_axis_of_a_scatter_plot_is_the_same_for_all_scores(value):
    plot = scatter("Scores", "size", "%", [Point("model", "family", Dot(3.0), Dot(value))])

    assert plot.figure.axes[0].get_ylim() == PERCENT


def test_each_row_has_its_guess_baseline_and_the_legend_names_it_once():
    plot = plot_dots(Dot(60.0, baseline=25.0), Dot(70.0, baseline=50.0))

    html = plot.__html__()

    lines = [line for line in plot.figure.axes[0].collections if line.get_alpha() == 0.5]
    assert [line.get_segments()[0][0][0] for line in lines] == [25.0, 50.0]
    assert html.count(BASELINE) == 1


def test_a_plot_of_unknown_guess_baselines_names_none():
    assert BASELINE not in plot_dots(Dot(60.0)).__html__()
