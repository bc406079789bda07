"""Plots by matplotlib as SVG within a page, whose colours follow the page's theme.

Reports call `scatter` and `dots`, which open no window and keep no global state. Functions import
matplotlib themselves, since that takes long.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from lm_factuality.ground.model_names import OTHER, size_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40  # rows that `dots` draws; the table under the plot has all
MOST_SERIES = 8  # series with different colours
PERCENT = (0, 100)  # the ends of an axis of shares, which are equal in all plots
BASELINE = "guess baseline"  # the label of the score of a guess, in legends and at lines

_STYLE = Path(__file__).with_name("plots.mplstyle")
_WIDTH = 4.8  # inches; text is readable on a phone and in half a page
_LABEL_RIGHT = 7  # points (1/72 inch) from a point of the plot to its label
_LABEL_UP = 4
_LONGEST_LABEL = 30  # characters; the beginning of a longer label is cut off
_REFERENCE_STYLE: dict[str, Any] = {
    "color": "#1d2126",
    "linewidth": 1,
    "linestyle": (0, (4, 3)),
    "alpha": 0.5,
}
Reference = tuple[str, float] | None
"""The label and the value of a line across a plot, such as ``("chance", 25.0)``, or None."""


@dataclass(frozen=True)
class Dot:
    """A value with the ends of its interval, if it has one."""

    value: float
    low: float | None = None
    """The lower end of the interval, or None if the value has no interval."""

    high: float | None = None
    """The upper end of the interval, or None if the value has no interval."""

    baseline: float | None = None
    """The score of a guess, which plots mark, or None if it is not known."""

    @property
    def interval(self) -> str:
        """The interval as a table shows it: ``41.2 – 48.7``, or ``–`` if there is none."""
        if self.low is None or self.high is None:
            return "–"
        return f"{self.low:.1f} – {self.high:.1f}"

    @property
    def error_below(self) -> float:
        """The distance from the lower end of the interval to the value, at least 0."""
        return 0.0 if self.low is None else max(0.0, self.value - self.low)

    @property
    def error_above(self) -> float:
        """The distance from the value to the upper end of the interval, at least 0."""
        return 0.0 if self.high is None else max(0.0, self.high - self.value)


@dataclass(frozen=True)
class Point:
    """A dot in a plot, such as a model in a scatter plot, with an interval along each axis."""

    label: str
    """The name of the point, which a scatter plot writes next to it."""

    group: str
    """The series of the point. Points of a group have one colour and one marker."""

    x: Dot
    y: Dot


@dataclass(frozen=True)
class Plot:
    """A figure of matplotlib, with the title and the table that a page shows with it."""

    figure: "Figure"
    title: str
    """The title, which screen readers read out."""

    columns: Sequence[str]
    """The headings of the table."""

    rows: Sequence[Sequence[str]]
    """The numbers of the figure, as the cells of a table."""

    @property
    def id(self) -> str:
        """The prefix of the ids of the plot's elements in a page, such as ``accuracy-by-size``."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "plot"

    def __html__(self) -> Markup:
        """Return an ``svg`` element without inline styles, which a strict policy would refuse.

        Equal plots have equal ids, so that a page does not change from run to run.
        """
        file = io.StringIO()
        # None leaves a value out. The date, for example, would change with each run.
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with _plot_style({"svg.hashsalt": self.title}):
            self.figure.savefig(file, format="svg", metadata=no_metadata)
        svg = file.getvalue()

        # An XML header and the opening tag come before the content. Our own opening tag, below,
        # replaces them. The closing tag stays at the end of the content.
        _, _, element = svg.partition("<svg")
        _, _, content = element.partition(">")
        content = re.sub(r"<style.*?</style>|<!--.*?-->", "", content, flags=re.DOTALL)

        # matplotlib writes 72 points per inch.
        size = " ".join(f"{72 * inches:g}" for inches in self.figure.get_size_inches())
        return Markup(  # noqa: S704  matplotlib's
            f'<svg viewBox="0 0 {size}" role="img" aria-labelledby="{self.id}-title">'
            f'<title id="{self.id}-title">{escape(self.title)}</title>'
            f"{_svg_for_page(content, self.id)}"
        )


def scatter(
    title: str,
    x_label: str,
    y_label: str,
    points: Sequence[Point],
    *,
    by_size: bool = False,
    reference: Reference = None,
) -> Plot:
    """Plot points with their intervals. Labels that would overlap are left out.

    The y axis reaches from 0 to 100%, so that equal distances in two plots mean the same.

    Args:
        title: The title of the plot.
        x_label: The label of the x axis, with its unit.
        y_label: The label of the y axis, with its unit.
        points: The points, in the order of the table's rows.
        by_size: Whether the x axis is the number of parameters. It is then logarithmic, and a line
            joins the points of each group, i.e. of each model family.
        reference: A label and a value on the y axis that gets a dashed line.

    Returns:
        The plot, with a table of one row per point.
    """
    groups = sorted({point.group for point in points})
    with _plot_style():
        figure, axes = _new_figure(3.5)
        for group in groups:
            members = [point for point in points if point.group == group]
            members.sort(key=lambda point: point.x.value)
            # Models of unknown families have nothing in common that a line could show.
            has_line = by_size and not group.startswith(OTHER)
            _draw_series(axes, group, members, linestyle="-" if has_line else "none")

        if by_size:
            _set_size_axis(axes)
        # The labels of the outermost points need room, a share of the width.
        axes.margins(x=0.16)
        axes.set(xlabel=x_label, ylabel=y_label, ylim=PERCENT)
        if reference is not None:
            name, height = reference
            axes.axhline(height, **_REFERENCE_STYLE)
            # With the transform below, 1 is the right end of the axes, whatever the data are.
            right_end = (1, height)
            transform = axes.get_yaxis_transform()
            axes.annotate(name, right_end, xycoords=transform, ha="right", va="bottom")
        if len(groups) > 1:
            _add_legend(figure)
        # Labels come last, since they must not cover anything else.
        _label_points(figure, axes, points)

    format_x: Callable[[float], str] = size_label if by_size else "{:.2f}".format
    rows = [
        (point.label, format_x(point.x.value), f"{point.y.value:.1f}", point.y.interval)
        for point in points
    ]
    columns = ("Model", x_label.capitalize(), y_label.capitalize(), "95% interval")
    return Plot(figure, title, columns, rows)


def dots(
    title: str,
    x_label: str,
    rows: Sequence[tuple[str, Mapping[str, Dot]]],
    series: Sequence[str],
) -> Plot:
    """Plot a horizontal row of dots for each label, with one dot per series.

    The x axis reaches from 0 to 100%. A dashed line marks the guess baseline of each row.

    Args:
        title: The title of the plot.
        x_label: The label of the x axis, with its unit.
        rows: The label of each row, and its dots by series. Only the first `MOST_ROWS` rows are
            drawn.
        series: The names of the series, in the order of the legend.

    Returns:
        The plot, with a table of all rows and a column per series.
    """
    table = []
    for label, dot_by_series in rows:
        cells = [_format_dot(dot_by_series.get(name)) for name in series]
        table.append((label, *cells))

    drawn_rows = rows[:MOST_ROWS]
    # The x axis with its label takes 0.9 inches, and a row 0.22 and 0.09 more for each series.
    height = 0.9 + max(len(drawn_rows), 1) * (0.22 + 0.09 * len(series))
    with _plot_style():
        figure, axes = _new_figure(height)
        axes.grid(visible=False, axis="y")
        axes.spines.left.set_visible(False)
        has_baselines = _draw_baselines(axes, drawn_rows)
        _draw_rows(axes, drawn_rows, series)
        axes.set_yticks(range(len(drawn_rows)), [_plain_label(label) for label, _ in drawn_rows])
        # The mark of a score of 0 would otherwise cover the end of a label.
        axes.tick_params(axis="y", pad=10)
        # The y axis points downwards, so that the first row is on top.
        axes.set(xlabel=x_label, xlim=PERCENT, ylim=(len(drawn_rows) - 0.5, -0.5))
        if has_baselines or len(series) > 1:
            _add_legend(figure)

    return Plot(figure, title, ("", *series), table)


def _format_dot(dot: Dot | None) -> str:
    """Format a value and its interval for a table: ``45.0 (41.2 – 48.7)``, or ``–`` for None."""
    if dot is None:
        return "–"
    interval = "" if dot.interval == "–" else f" ({dot.interval})"
    return f"{dot.value:.1f}{interval}"


def _plot_style(settings: dict[str, Any] | None = None) -> AbstractContextManager[None]:
    """Return a context in which matplotlib makes and saves figures in the suite's style.

    Args:
        settings: Settings of matplotlib (``rcParams``) to change as well.
    """
    import matplotlib as mpl

    return mpl.rc_context(settings, _STYLE)


def _new_figure(height: float) -> "tuple[Figure, Axes]":
    """Return a new figure of a height in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height))
    return figure, figure.add_subplot()


def _draw_baselines(axes: "Axes", rows: Sequence[tuple[str, Mapping[str, Dot]]]) -> bool:
    """Draw the guess baseline of each row as a vertical dashed line, and tell whether any is known.

    Args:
        axes: The axes to draw on.
        rows: The label of each row, and its dots by series.
    """
    has_baselines = False
    for height, (_, dot_by_series) in enumerate(rows):
        # The models of a task score the same rows, so they share a baseline.
        baselines = {dot.baseline for dot in dot_by_series.values() if dot.baseline is not None}
        for baseline in sorted(baselines):
            # The legend lists each line with a label, so only the first one of all has one.
            label = "" if has_baselines else BASELINE
            line = axes.vlines(baseline, height - 0.45, height + 0.45, label=label)
            line.set(**_REFERENCE_STYLE)
            has_baselines = True
    return has_baselines


def _draw_rows(
    axes: "Axes", rows: Sequence[tuple[str, Mapping[str, Dot]]], series: Sequence[str]
) -> None:
    """Draw rows of dots at the heights 0, 1, 2, ... of a plot.

    Args:
        axes: The axes to draw on.
        rows: The label of each row, and its dots by series.
        series: The names of the series. Those of a row are drawn closely below each other.
    """
    # The rows are 1 apart. The dots of a row take up at most 0.8 of that, so that rows can be told
    # apart, and neighbouring dots are at most 0.22 apart, so that a row holds together.
    series_distance = min(0.8 / max(len(series), 1), 0.22)
    middle_series = (len(series) - 1) / 2
    for index, name in enumerate(series):
        offset = series_distance * (index - middle_series)
        points = []
        for height, (label, dot_by_series) in enumerate(rows):
            if name in dot_by_series:
                # The height is exact, so it has no interval.
                y = Dot(height + offset)
                points.append(Point(label, name, dot_by_series[name], y))
        _draw_series(axes, name, points, linestyle="none")


def _draw_series(axes: "Axes", name: str, points: Sequence[Point], linestyle: str) -> None:
    """Draw the dots of one series with their intervals in one colour.

    Args:
        axes: The axes to draw on.
        name: The name of the series in the legend.
        points: The dots, in the order in which a line joins them.
        linestyle: The line between dots in matplotlib's notation: ``-``, or ``none``.
    """
    x_dots = [point.x for point in points]
    y_dots = [point.y for point in points]
    axes.errorbar(
        [dot.value for dot in x_dots],
        [dot.value for dot in y_dots],
        xerr=_error_bars(x_dots),
        yerr=_error_bars(y_dots),
        label=_plain_label(name),
        linestyle=linestyle,
        # Dots at 0 and at 100% are drawn whole.
        clip_on=False,
    )


def _error_bars(dots: Sequence[Dot]) -> list[list[float]] | None:
    """Return the distances below all values, then those above them, as matplotlib takes them."""
    if not dots:
        return None
    return [[dot.error_below for dot in dots], [dot.error_above for dot in dots]]


def _set_size_axis(axes: "Axes") -> None:
    """Make the x axis logarithmic, with a few ticks such as 100M and 2B."""
    axes.set_xscale("log", subs=())
    axes.xaxis.get_major_locator().set_params(subs=(1, 2, 5))  # type: ignore[call-arg]
    axes.xaxis.set_major_formatter(lambda size, _: size_label(size))


def _label_points(figure: "Figure", axes: "Axes", points: Sequence[Point]) -> None:
    """Write a label next to each point, unless it would overlap an earlier label.

    Args:
        figure: The figure, which is laid out to measure the labels.
        axes: The axes of the figure, to which the labels are added.
        points: The points, of which the first have precedence.
    """
    # Texts have no size before the figure is laid out.
    figure.draw_without_rendering()
    label_boxes = [text.get_window_extent() for text in axes.texts]

    for point in points:
        position = (point.x.value, point.y.value)
        pixels = axes.transData.transform(position)
        share_of_width, _ = axes.transAxes.inverted().transform(pixels)
        # A label extends towards the middle, so that it stays within the axes.
        is_in_left_half = share_of_width < 0.5
        text = axes.annotate(
            _plain_label(point.label),
            position,
            (_LABEL_RIGHT if is_in_left_half else -_LABEL_RIGHT, _LABEL_UP),
            textcoords="offset points",
            ha="left" if is_in_left_half else "right",
        )

        box = text.get_window_extent()
        if box.count_overlaps(label_boxes):
            text.remove()
        else:
            label_boxes.append(box)


def _add_legend(figure: "Figure") -> None:
    """Add a legend above the axes of a figure, in one to three columns, as many as fit."""
    _, labels = figure.axes[0].get_legend_handles_labels()
    longest = max(len(label) for label in labels)
    # A line has room for about 50 characters, of which a marker takes 4.
    columns = 50 // (4 + longest)
    figure.legend(loc="outside upper center", ncols=max(1, min(3, columns)))


def _plain_label(label: str) -> str:
    """Return a label of at most 30 characters that matplotlib and XML show as it is.

    Of a longer label the end stays, as in ``…/llama-3-8b-instruct``.
    """
    # XML has no control characters.
    text = "".join(letter if letter.isprintable() else " " for letter in label)
    if len(text) > _LONGEST_LABEL:
        text = f"…{text[1 - _LONGEST_LABEL :]}"
    # matplotlib hides labels that begin with an underscore, but not with an invisible space.
    return f"\u200b{text}" if text.startswith("_") else text


def _svg_for_page(svg: str, prefix: str) -> str:
    """Rewrite matplotlib's SVG for a page that has its own theme and several plots.

    Args:
        svg: The content of the ``svg`` element.
        prefix: The prefix for every id, since a page has several plots.

    Returns:
        The content with attributes instead of styles, and the page's CSS variables as colours:
        ``style="fill: #ffffff"`` becomes ``fill="var(--line)"`` if the grid is white.
    """
    svg = re.sub(r' style="([^"]*)"', lambda match: _as_svg_attributes(match[1]), svg)
    for colour, variable in _css_variables().items():
        svg = svg.replace(f'"{colour}"', f'"{variable}"')
    # The ids of elements (id="a"), and the references to them (href="#a" and url(#a)).
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", svg)


def _css_variables() -> dict[str, str]:
    """Return the page's CSS variable for each colour of the style, such as ``var(--series-1)``."""
    import matplotlib as mpl

    style = mpl.rc_params_from_file(_STYLE)
    variables = {style["text.color"]: "currentColor", style["grid.color"]: "var(--line)"}
    colours = style["axes.prop_cycle"].by_key()["color"][:MOST_SERIES]
    for number, colour in enumerate(colours, start=1):
        variables[colour] = f"var(--series-{number})"
    return variables


def _as_svg_attributes(style: str) -> str:
    """Turn CSS declarations into attributes of SVG. Of the shorthands, only ``font`` is known.

    Example:
        ``fill: none; stroke: #000`` becomes `` fill="none" stroke="#000"``, each with a space
        before it.
    """
    attributes = ""
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        name = name.strip()
        value = value.strip()
        if not value:
            continue
        if name == "font":
            # SVG has no attribute for the whole font: "10px 'sans-serif'" becomes font-size 10.
            name = "font-size"
            value = value.split()[0].removesuffix("px")
        attributes += f' {name}="{value}"'
    return attributes
