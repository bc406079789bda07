"""Plots as SVG within a page, whose colours follow the page's theme.

Reports call `scatter` and `dots`, which compute where everything stands. The template
``html/plot.html`` draws it.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup

from lm_factuality.ground.html import render
from lm_factuality.ground.model_names import OTHER, size_label

MOST_ROWS = 40  # rows that `dots` draws; the table under the plot has all
MOST_SERIES = 8  # series with different colours
BASELINE = "guess baseline"  # the label of the score of a guess, in legends and at lines

# All lengths are in units of the drawing, which a page enlarges. Its letters have the size 9.
_WIDTH = 346.0
_SCATTER_HEIGHT = 200.0  # from the axis at 0 to that at 100%
_LETTER_WIDTH = 5.4  # of an average letter, or a little more
_LINE_HEIGHT = 13.0  # the distance of two lines of text
_EDGE = 12.0  # between the axes and the right or the upper edge of the drawing
_RIGHT_END = _WIDTH - _EDGE  # the position of the right end of the x axis
_SCATTER_LEFT = 44.0  # the position of the y axis, with its labels to the left
_LABEL_GAP = 7.0  # between a point of the plot and its label, to the right or left of it
_ABOVE = -4.0  # from a point to the base line of a label above the point's interval
_BELOW = 11.0  # to the base line of a label below the interval
_CENTRED = 3.0  # to the base line of a text whose small letters are centred at the point
_ABOVE_LINE = -3.0  # from a line across the plot to the base line of its label
_LEGEND_MARKER_WIDTH = 24.0  # of the marker of a legend's entry, with the gaps on both sides
_LEGEND_MARKER_MIDDLE = 8.0  # from the left of a legend's entry to the middle of its marker
_MAX_LEGEND_COLUMNS = 3
_LONGEST_LABEL = 30  # characters; the beginning of a longer label is cut off
_MOST_TICKS = 7  # of an axis
_MARGIN = 0.2  # beyond the outermost points, as a share of their distance
# An axis whose end is at least 2.56 (1.6 squared) times its start always has a tick, i.e. 1, 2 or 5
# times a power of ten.
_MIN_LOGARITHMIC_MARGIN = 1.6  # the factor beyond the outermost points of a logarithmic axis
# In a plot of rows, which are 1 apart: gaps between rows tell them apart, and the dots of a row are
# so close that readers see that they belong together.
_MAX_ROW_HEIGHT = 0.8
_MAX_DOT_DISTANCE = 0.22

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
    """A drawing, with the title and the table that a page shows with it."""

    drawing: Markup
    """The ``svg`` element. It has no inline styles, which a strict policy would refuse."""

    title: str
    """The title, which screen readers read out."""

    columns: Sequence[str]
    """The headings of the table."""

    rows: Sequence[Sequence[str]]
    """The numbers of the drawing, as the cells of a table."""

    @property
    def id(self) -> str:
        """The prefix of the ids of the plot's elements in a page, such as ``accuracy-by-size``."""
        return _id_of(self.title)

    def __html__(self) -> Markup:
        """Return the drawing, which templates insert as it is."""
        return self.drawing


@dataclass(frozen=True)
class _Axis:
    """An axis, which shows the values from ``low`` to ``high``."""

    low: float
    high: float
    start: float
    """The position of ``low`` in the drawing."""

    end: float
    """The position of ``high`` in the drawing."""

    is_logarithmic: bool = False

    def position(self, value: float) -> float:
        """Return the position of a value. One beyond the axis stands at its end."""
        value = min(max(value, self.low), self.high)
        if self.is_logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the round values that have a line of the grid."""
        if self.is_logarithmic:
            return self._logarithmic_ticks()
        # The step is 1, 2 or 5 times a power of ten, and as small as the number of ticks allows. On
        # an axis from 0 to 100, it is at least 14.3, so it is 20.
        smallest_step = (self.high - self.low) / _MOST_TICKS
        power = 10.0 ** math.floor(math.log10(smallest_step))
        round_steps = (power, 2 * power, 5 * power, 10 * power)
        step = next(step for step in round_steps if step >= smallest_step)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]

    def _logarithmic_ticks(self) -> list[float]:
        """Return 1, 2 and 5 times each power of ten or, if these are too many, the powers alone."""
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        powers = [10.0**exponent for exponent in exponents]
        values = [factor * power for power in powers for factor in (1, 2, 5)]
        ticks = [value for value in values if self.low <= value <= self.high]
        return ticks if len(ticks) <= _MOST_TICKS else [tick for tick in ticks if tick in powers]


class _Text(NamedTuple):
    """A line of text in the drawing."""

    x: float
    y: float
    text: str
    anchor: str
    """The part of the text that stands at ``x``: its ``start`` or its ``end``."""

    @property
    def left(self) -> float:
        """The position of its left end."""
        return self.x - len(self.text) * _LETTER_WIDTH if self.anchor == "end" else self.x

    @property
    def right(self) -> float:
        """The position of its right end."""
        return self.left + len(self.text) * _LETTER_WIDTH

    def overlaps(self, text: "_Text") -> bool:
        """Tell whether it would cover a part of another text."""
        is_level = abs(self.y - text.y) < _LINE_HEIGHT
        return is_level and self.left < text.right and text.left < self.right


class _Series(NamedTuple):
    """The dots of one series, which have a colour and a marker of their own."""

    style_index: int
    """The index of its colour and marker: its place among all series, from 0."""

    positions: Sequence[tuple[float, float]]
    """The x and the y position of each dot."""

    interval_path: str
    """An SVG path with the interval of each dot."""

    has_line: bool
    """Whether a line joins the dots in their order."""


class _LegendEntry(NamedTuple):
    """The name of a series in the legend, with the position of its marker."""

    name: str
    x: float
    y: float
    style_index: int | None
    """The index of the series' colour and marker, or None for the guess baseline."""


def scatter(
    title: str,
    x_label: str,
    y_label: str,
    points: Sequence[Point],
    *,
    by_size: bool = False,
    reference: Reference = None,
) -> Plot:
    """Plot points with their intervals. Labels for which there is no room are left out.

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
    legend = _lay_out_legend(groups)
    top = _height_of(legend) + _EDGE
    # Positions count from the top of the drawing, so 0% stands at the larger one.
    y_axis = _Axis(0, 100, top + _SCATTER_HEIGHT, top)
    x_axis = _x_axis_around(points, by_size)

    texts = []
    reference_line = ""
    if reference is not None:
        name, value = reference
        y = y_axis.position(value)
        # An SVG path: M moves to the left end of the line, and H draws it to the right end.
        reference_line = f"M{x_axis.start:.1f} {y:.1f}H{x_axis.end:.1f}"
        texts.append(_Text(x_axis.end, y + _ABOVE_LINE, name, "end"))
    # The labels of points come last, since they must not cover anything else.
    _add_labels(texts, points, x_axis, y_axis)

    drawing = _draw(
        title,
        x_label,
        x_axis,
        y_axis,
        format_tick=size_label if by_size else "{:.6g}".format,
        y_label=y_label,
        y_grid=y_axis.ticks(),
        legend=legend,
        series=_place_groups(groups, points, x_axis, y_axis, by_size),
        texts=texts,
        references=reference_line,
    )
    columns = ("Model", x_label.capitalize(), y_label.capitalize(), "95% interval")
    return Plot(drawing, title, columns, _table_rows(points, by_size))


def _table_rows(points: Sequence[Point], by_size: bool) -> list[tuple[str, str, str, str]]:
    """Return the cells of a scatter plot's table: label, x value, y value and y interval.

    Args:
        points: The points, one per row.
        by_size: Whether the x values are numbers of parameters.
    """
    rows = []
    for point in points:
        x = size_label(point.x.value) if by_size else f"{point.x.value:.2f}"
        rows.append((point.label, x, f"{point.y.value:.1f}", point.y.interval))
    return rows


def _place_groups(
    groups: Sequence[str],
    points: Sequence[Point],
    x_axis: _Axis,
    y_axis: _Axis,
    by_size: bool,
) -> list[_Series]:
    """Place the points of a scatter plot, as one series per group.

    Args:
        groups: The names of the groups, in the order of the legend.
        points: The points of all groups.
        x_axis: The axis of the points' x values.
        y_axis: The axis of the points' y values.
        by_size: Whether a line joins the points of a group in the order of their x values.
    """
    series = []
    for style_index, group in enumerate(groups):
        members = [point for point in points if point.group == group]
        members.sort(key=lambda point: point.x.value)
        # Models of unknown families have nothing in common that a line could show.
        has_line = by_size and not group.startswith(OTHER)
        series.append(_place_series(style_index, members, x_axis, y_axis, has_line))
    return series


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
        rows: The label of each row, and its dots by series. There must be a row. Only the first
            `MOST_ROWS` rows are drawn.
        series: The names of the series, in the order of the legend.

    Returns:
        The plot, with a table of all rows and a column per series.
    """
    table = []
    for label, dot_by_series in rows:
        cells = [_format_dot(dot_by_series.get(name)) for name in series]
        table.append((label, *cells))

    drawn_rows = rows[:MOST_ROWS]
    baselines = [_baselines_of(dot_by_series.values()) for _, dot_by_series in drawn_rows]
    legend = _lay_out_legend([*series, BASELINE] if any(baselines) else series)
    labels = [_short_label(label) for label, _ in drawn_rows]
    longest = max(map(len, labels))
    x_axis = _Axis(0, 100, longest * _LETTER_WIDTH + _EDGE, _RIGHT_END)
    # The rows stand at 0, 1, 2, ..., and the first one on top.
    num_rows = len(drawn_rows)
    top = _height_of(legend)
    row_height = 15 + 7 * len(series)
    y_axis = _Axis(-0.5, num_rows - 0.5, top, top + num_rows * row_height)

    texts = []
    baseline_lines = ""
    for number, label in enumerate(labels):
        # The mark of a score of 0 would otherwise cover the end of a label.
        texts.append(_Text(x_axis.start - 8, y_axis.position(number) + _CENTRED, label, "end"))
        upper = y_axis.position(number - 0.45)
        lower = y_axis.position(number + 0.45)
        for baseline in baselines[number]:
            baseline_lines += f"M{x_axis.position(baseline):.1f} {upper:.1f}V{lower:.1f}"
    drawing = _draw(
        title,
        x_label,
        x_axis,
        y_axis,
        legend=legend,
        series=_place_rows(drawn_rows, series, x_axis, y_axis),
        texts=texts,
        references=baseline_lines,
        y_label="",
        y_grid=(),
    )
    return Plot(drawing, title, ("", *series), table)


def _format_dot(dot: Dot | None) -> str:
    """Format a value and its interval for a table: ``45.0 (41.2 – 48.7)``, or ``–`` for None."""
    if dot is None:
        return "–"
    interval = "" if dot.interval == "–" else f" ({dot.interval})"
    return f"{dot.value:.1f}{interval}"


def _baselines_of(dots_of_row: Iterable[Dot]) -> list[float]:
    """Return the guess baselines of a row, which is one if its models score the same rows."""
    return sorted({dot.baseline for dot in dots_of_row if dot.baseline is not None})


def _place_rows(
    rows: Sequence[tuple[str, Mapping[str, Dot]]],
    series: Sequence[str],
    x_axis: _Axis,
    y_axis: _Axis,
) -> list[_Series]:
    """Place rows of dots at the heights 0, 1, 2, ... of a plot.

    Args:
        rows: The label of each row, and its dots by series.
        series: The names of the series. Each row has a dot of each series, one below the other.
        x_axis: The axis of the values.
        y_axis: The axis of the heights.
    """
    dot_distance = min(_MAX_ROW_HEIGHT / len(series), _MAX_DOT_DISTANCE)
    middle_index = (len(series) - 1) / 2
    placed = []
    for style_index, name in enumerate(series):
        # The dots of a row are centred at its height.
        offset = dot_distance * (style_index - middle_index)
        points = []
        for height, (label, dot_by_series) in enumerate(rows):
            if name in dot_by_series:
                # The height is exact, so it has no interval.
                y = Dot(height + offset)
                points.append(Point(label, name, dot_by_series[name], y))
        placed.append(_place_series(style_index, points, x_axis, y_axis))
    return placed


def _place_series(
    style_index: int,
    points: Sequence[Point],
    x_axis: _Axis,
    y_axis: _Axis,
    has_line: bool = False,
) -> _Series:
    """Place the dots of one series with their intervals.

    Args:
        style_index: The index of the colour and the marker of the series.
        points: The dots, in the order in which a line joins them.
        x_axis: The axis of the dots' x values.
        y_axis: The axis of the dots' y values.
        has_line: Whether a line joins the dots.
    """
    positions = []
    for point in points:
        positions.append((x_axis.position(point.x.value), y_axis.position(point.y.value)))
    interval_path = "".join(_draw_intervals(point, x_axis, y_axis) for point in points)
    return _Series(style_index, positions, interval_path, has_line)


def _draw_intervals(point: Point, x_axis: _Axis, y_axis: _Axis) -> str:
    """Return the lines from the low to the high end of a point's intervals, as an SVG path.

    In a path, M moves to a position, H draws a line to the right, and V draws one upwards.

    Example:
        ``M20.0 50.0H40.0`` is the interval from 20 to 40 on the x axis, at the height 50.
    """
    path = ""
    if point.x.low is not None and point.x.high is not None:
        left = x_axis.position(point.x.low)
        y = y_axis.position(point.y.value)
        path += f"M{left:.1f} {y:.1f}H{x_axis.position(point.x.high):.1f}"
    if point.y.low is not None and point.y.high is not None:
        x = x_axis.position(point.x.value)
        bottom = y_axis.position(point.y.low)
        path += f"M{x:.1f} {bottom:.1f}V{y_axis.position(point.y.high):.1f}"
    return path


def _x_axis_around(points: Sequence[Point], is_logarithmic: bool) -> _Axis:
    """Return the x axis of a scatter plot, with a margin for the labels of the outermost points."""
    values = []
    for point in points:
        values += [x for x in (point.x.value, point.x.low, point.x.high) if x is not None]
    low = min(values)
    high = max(values)
    if is_logarithmic:
        factor = max((high / low) ** _MARGIN, _MIN_LOGARITHMIC_MARGIN)
        return _Axis(low / factor, high * factor, _SCATTER_LEFT, _RIGHT_END, is_logarithmic=True)
    # If all values are the same, their distance is 0, so their size decides, or 1 if they are 0.
    margin = _MARGIN * (high - low or abs(high)) or 1.0
    return _Axis(low - margin, high + margin, _SCATTER_LEFT, _RIGHT_END)


def _add_labels(texts: list[_Text], points: Sequence[Point], x_axis: _Axis, y_axis: _Axis) -> None:
    """Add the labels of points to the texts of a plot, except labels that would cover anything.

    Args:
        texts: The texts of the plot, to which the labels are added.
        points: The points, of which the first have precedence.
        x_axis: The axis of the points' x values.
        y_axis: The axis of the points' y values.
    """
    positions = []
    for point in points:
        positions.append((x_axis.position(point.x.value), y_axis.position(point.y.value)))
    # The marker of a point covers as much as a letter that is centred at the point.
    markers = [_Text(x - _LETTER_WIDTH / 2, y + _CENTRED, "o", "start") for x, y in positions]
    for point, (x, y) in zip(points, positions, strict=True):
        label = _short_label(point.label)
        for label_y in (y + _ABOVE, y + _BELOW):
            text = _label_beside(x, label_y, label)
            has_room = not any(map(text.overlaps, texts + markers))
            if has_room:
                texts.append(text)
                break


def _label_beside(x: float, y: float, label: str) -> _Text:
    """Place a label to the right of a point or, at the edge of the drawing, to its left."""
    text = _Text(x + _LABEL_GAP, y, label, "start")
    return text if text.right <= _WIDTH else _Text(x - _LABEL_GAP, y, label, "end")


def _lay_out_legend(names: Sequence[str]) -> list[_LegendEntry]:
    """Place the names of series in as many columns as there is room for, at most three.

    Args:
        names: The names of the series in their order, and `BASELINE` if the plot shows it.

    Returns:
        An entry for each name. Empty for fewer than two names, which need no legend.
    """
    if len(names) < 2:
        return []
    labels = [_short_label(name) for name in names]
    column_width = _LEGEND_MARKER_WIDTH + _LETTER_WIDTH * max(map(len, labels))
    # Even the longest label leaves room for one column.
    num_columns = min(_MAX_LEGEND_COLUMNS, len(names), int(_WIDTH / column_width))
    left = (_WIDTH - num_columns * column_width) / 2
    entries = []
    for index, label in enumerate(labels):
        row, column = divmod(index, num_columns)
        style_index = None if names[index] == BASELINE else index
        x = left + column * column_width + _LEGEND_MARKER_MIDDLE
        entries.append(_LegendEntry(label, x, _LINE_HEIGHT * (row + 1), style_index))
    return entries


def _height_of(legend: Sequence[_LegendEntry]) -> float:
    """Return the position below the last line of the legend, or 0 without a legend."""
    return max((entry.y + _LINE_HEIGHT for entry in legend), default=0.0)


def _short_label(label: str) -> str:
    """Return a label of at most 30 printable characters.

    Of a longer label the end stays, as in ``…/llama-3-8b-instruct``.
    """
    # XML has no control characters.
    text = "".join(letter if letter.isprintable() else " " for letter in label)
    return text if len(text) <= _LONGEST_LABEL else f"…{text[1 - _LONGEST_LABEL :]}"


def _id_of(title: str) -> str:
    """Turn a title into an id: ``Accuracy by size`` becomes ``accuracy-by-size``."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "plot"


def _draw(
    title: str,
    x_label: str,
    x_axis: _Axis,
    y_axis: _Axis,
    format_tick: Callable[[float], str] = "{:g}".format,
    **parts: Any,
) -> Markup:
    """Fill the template of a drawing.

    Args:
        title: The title of the plot.
        x_label: The label of the x axis.
        x_axis: The x axis, along which the grid has labels.
        y_axis: The y axis.
        format_tick: Writes a value of the x axis.
        **parts: The other variables of the template.
    """
    return render(
        "lm_factuality.ground.html/plot.html",
        id=_id_of(title),
        title=title,
        x_label=x_label,
        x_axis=x_axis,
        y_axis=y_axis,
        format_tick=format_tick,
        width=_WIDTH,
        most_series=MOST_SERIES,
        **parts,
    )
