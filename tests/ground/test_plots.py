"""Plots: their axes, their labels, and the guess baseline in them."""

from __future__ import annotations

import re

import pytest

from lm_factuality.ground.plots import BASELINE, Dot, Plot, Point, dots, scatter


def plot_dots(*scores: Dot) -> Plot:
    """Plot a row of one model for each score."""
    rows = [(f"task {number}", {"model": score}) for number, score in enumerate(scores)]
    return dots("Scores", "%", rows, ["model"])


def plot_sizes(*names_and_sizes: tuple[str, float]) -> Plot:
    """Plot models of a family by their number of parameters, all with the score 50%."""
    points = [Point(name, "family", Dot(size), Dot(50.0)) for name, size in names_and_sizes]
    return scatter("Scores", "parameters", "%", points, by_size=True)


def texts_of(plot: Plot) -> list[str]:
    """Return the texts in a drawing."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", plot.drawing)


@pytest.mark.parametrize("value", [2.0, 61.5, 99.0])
def test_the_axis_of_dots_is_the_same_for_all_scores(value):
    plot = plot_dots(Dot(value, value - 1, value + 1))

    assert [text for text in texts_of(plot) if text.isdigit()] == [
        "0",
        "20",
        "40",
        "60",
        "80",
        "100",
    ]


@pytest.mark.parametrize("value", [2.0, 61.5, 99.0])
def test_the_axis_of_a_scatter_plot_is_the_same_for_all_scores(value):
    plot = scatter("Scores", "size", "%", [Point("model", "family", Dot(3.5), Dot(value))])

    assert {"0", "20", "40", "60", "80", "100"} <= set(texts_of(plot))


def test_each_row_has_its_guess_baseline_and_the_legend_names_it_once():
    plot = plot_dots(Dot(60.0, baseline=25.0), Dot(70.0, baseline=50.0))

    baselines = re.search(r'<path d="([^"]*)"[^>]*stroke-dasharray', plot.drawing)[1]
    assert baselines.count("M") == 2
    assert texts_of(plot).count(BASELINE) == 1


def test_a_plot_of_unknown_guess_baselines_names_none():
    assert BASELINE not in plot_dots(Dot(60.0)).drawing


@pytest.mark.parametrize(
    ("sizes", "ticks"),
    [
        pytest.param((1.1e8, 9e9), ["100M", "1B", "10B"], id="many powers of ten"),
        pytest.param((2e9, 7e9), ["2B", "5B", "10B"], id="few powers of ten"),
    ],
)
def test_sizes_of_models_are_on_a_logarithmic_axis(sizes, ticks):
    texts = texts_of(plot_sizes(("small", sizes[0]), ("large", sizes[1])))

    assert [text for text in texts if re.fullmatch(r"\d+[MB]", text)] == ticks


def test_labels_are_above_or_below_their_point_and_left_out_without_room():
    names = ("first", "second", "third", "fourth")

    texts = texts_of(plot_sizes(*((name, 1e9) for name in names), ("far", 1e11)))

    assert [text for text in texts if text in (*names, "far")] == ["first", "second", "far"]


def test_a_long_label_keeps_its_end_and_is_escaped():
    plot = dots("Scores", "%", [("folder/" * 9 + "a<b>", {"model": Dot(50.0)})], ["model"])

    label = next(text for text in texts_of(plot) if text.startswith("…"))
    assert label.endswith("/a&lt;b&gt;")
