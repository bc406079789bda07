"""Plots by matplotlib as SVG within a page, whose colours follow the page's theme.

Reports draw with `scatter` and `dots`. Nothing opens a window or keeps global
state. matplotlib takes long to import, so it is imported only where something is drawn.
"""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from markupsafe import Markup

from lm_factuality.ground.model_names import OTHER, size_label

MOST_ROWS = 40  # of a plot of rows; the table beneath has all
MOST_SERIES = 8  # that have a colour of their own

# The light theme of look.css. A page replaces each colour by the theme's variable.
_INK = "#1d2126"
_LINE = "#e2dfd8"
_SERIES = ("#2f5bd0", "#b35c00", "#1a7f4b", "#b3267d", "#6f4bb8", "#0b7285", "#8a6d00", "#5c646d")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_WIDTH = 4.8  # inches; text is of a readable size both on a phone and in half a page
_LONGEST_LABEL = 30  # characters
_REFERENCE_STYLE = {"color": _INK, "linewidth": 1, "linestyle": (0, (4, 3)), "alpha": 0.5}
_LABEL_PLACES = ((7, 4, "left"), (-7, 4, "right"), (0, -16, "center"))
"""Offsets around a point, in points, and where the text is anchored."""

Reference = tuple[str, float] | None
"""What a value worth a line is called, and the value."""


@dataclass(frozen=True)
class Dot:
    """A value with the ends of its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> str:
        """The interval as a table shows it."""
        if self.low is None or self.high is None:
            return "–"
        return f"{self.low:.1f} – {self.high:.1f}"

    @property
    def reach(self) -> tuple[float, float]:
        """How far the interval reaches below and above the value."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        return max(0.0, self.value - low), max(0.0, high - self.value)


@dataclass(frozen=True)
class Point:
    """A model in a scatter plot."""

    label: str
    group: str
    """Points of a group have one colour and one marker."""

    x: Dot
    y: Dot


@dataclass(frozen=True)
class Plot:
    """A figure of matplotlib, and what a page shows and reads out with it."""

    figure: Any
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The numbers of the figure, as a table of texts."""

    @property
    def id(self) -> str:
        """What the ids of its elements in a page begin with."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "plot"

    @property
    def description(self) -> str:
        """What is read out in the place of the figure."""
        lines = [self.columns, *self.rows[:MOST_ROWS]]
        return ". ".join("; ".join(filter(None, cells)) for cells in lines)

    def __html__(self) -> Markup:
        """Return an ``svg`` element without inline styles, which a strict policy would refuse.

        Equal plots have equal ids, so that a page does not change from run to run.
        """
        import matplotlib as mpl

        file = io.StringIO()
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.title}):
            self.figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
        svg = file.getvalue()
        svg = svg[svg.index(">", svg.index("<svg")) + 1 :]
        svg = re.sub(r"<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
        svg = re.sub(r"<[^>]+>", lambda tag: _page_tag(tag[0], self.id), svg)
        box = " ".join(f"{72 * inches:g}" for inches in self.figure.get_size_inches())
        return Markup(  # noqa: S704  matplotlib's
            f'<svg viewBox="0 0 {box}" role="img" aria-labelledby="{self.id}-title {self.id}-desc">'
            f'<title id="{self.id}-title">{escape(self.title)}</title>'
            f'<desc id="{self.id}-desc">{escape(self.description)}</desc>{svg}'
        )


def scatter(
    title: str,
    x_label: str,
    y_label: str,
    points: Sequence[Point],
    *,
    by_size: bool = False,
    reference: Reference = None,
    diagonal: bool = False,
) -> Plot:
    """Plot points with their intervals. Labels that would overlap are left out.

    Args:
        by_size: The x axis is the number of parameters, on a logarithmic scale, and a line joins
            the points of a group.
        reference: A height, in percent, that gets a line.
        diagonal: Both axes are percentages, and a line shows where they are equal.
    """
    figure, axes = _figure(3.5)
    groups = sorted({point.group for point in points})
    for number, group in enumerate(groups):
        members = [point for point in points if point.group == group]
        members.sort(key=lambda point: point.x.value)
        is_line = by_size and not group.startswith(OTHER)
        style = {"linestyle": "-" if is_line else "none", "linewidth": 1.2, "elinewidth": 1.2}
        _draw_series(axes, number, group, [(point.x, point.y) for point in members], style)
    if by_size:
        _set_size_axis(axes)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.margins(0.16)
    if diagonal:
        axes.axline((0, 0), slope=1, **_REFERENCE_STYLE)
        axes.set(xlim=(-3, 103), ylim=(-3, 103))
    if reference is not None:
        name, height = reference
        axes.axhline(height, **_REFERENCE_STYLE)
        _write(axes, name, (1, height), axes.get_yaxis_transform(), "right")
    if len(groups) > 1:
        _add_legend(axes)
    _label_points(figure, axes, points)

    x_text: Callable[[float], str] = size_label if by_size else "{:.2f}".format
    rows = [
        (point.label, x_text(point.x.value), f"{point.y.value:.1f}", point.y.interval)
        for point in points
    ]
    columns = ("Model", x_label.capitalize(), y_label.capitalize(), "95% interval")
    return Plot(figure, title, columns, rows)


def dots(
    title: str,
    x_label: str,
    rows: Sequence[tuple[str, Mapping[str, Dot]]],
    series: Sequence[str],
    reference: Reference = None,
) -> Plot:
    """Plot a line for each row, with a dot for each series.

    Args:
        rows: The label of each row, and its dots by series.
        series: The names of the series, in their order.
        reference: A value on the x axis that gets a line.
    """
    table = [(label, *(_cell(dots.get(name)) for name in series)) for label, dots in rows]
    rows = rows[:MOST_ROWS]
    most_dots = max((len(dots) for _, dots in rows), default=1)
    height = 0.9 + max(len(rows), 1) * (0.22 + 0.09 * min(most_dots, 8))
    figure, axes = _figure(height, vertical=False)
    if reference is not None:
        name, value = reference
        axes.axvline(value, **_REFERENCE_STYLE)
        _write(axes, name, (value, 1), axes.get_xaxis_transform(), "center")

    step = min(0.8 / max(most_dots, 1), 0.22)  # between the dots of a row, where rows are 1 apart
    for number, name in enumerate(series):
        places = []
        for height, (_, dots) in enumerate(rows):
            if name in dots:
                names = [other for other in series if other in dots]
                offset = names.index(name) - (len(names) - 1) / 2
                places.append((dots[name], Dot(height + step * offset)))
        _draw_series(axes, number, name, places, {"linestyle": "none", "elinewidth": 1.4})
    axes.set_yticks(range(len(rows)), [_plain(label) for label, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(x_label)
    if len(series) > 1:
        _add_legend(axes, above=reference is not None)

    return Plot(figure, title, ("", *series), table)


def _cell(dot: Dot | None) -> str:
    if dot is None:
        return "–"
    if dot.low is None or dot.high is None:
        return f"{dot.value:.1f}"
    return f"{dot.value:.1f} ({dot.interval})"


def _draw_series(
    axes: Any,
    number: int,
    name: str,
    places: Sequence[tuple[Dot, Dot]],
    style: Mapping[str, Any],
) -> None:
    """Draw the dots of a series. After the eighth series colours recur with other markers."""
    xs = [x for x, _ in places]
    ys = [y for _, y in places]
    axes.errorbar(
        [x.value for x in xs],
        [y.value for y in ys],
        xerr=_error_bars(xs),
        yerr=_error_bars(ys),
        markersize=6,
        capsize=0,
        label=_plain(name),
        color=_SERIES[number % len(_SERIES)],
        marker=_MARKERS[(number + number // len(_SERIES)) % len(_MARKERS)],
        **style,
    )


def _error_bars(dots: Iterable[Dot]) -> Any:
    """Return what matplotlib wants: all reaches below, all above; None if no dot has any."""
    reaches = [dot.reach for dot in dots]
    return list(zip(*reaches, strict=True)) if any(map(any, reaches)) else None


def _figure(height: float, vertical: bool = True) -> tuple[Any, Any]:
    """Return a figure of a height in inches, and its axes in the look of the pages."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    axes.grid(axis="both" if vertical else "x", color=_LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom" or (vertical and side == "left"))
        spine.set_color(_LINE)
    axes.tick_params(color=_LINE, labelcolor=_INK, labelsize=9, length=0, which="both")
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(size=9.5, color=_INK)
    return figure, axes


def _set_size_axis(axes: Any) -> None:
    """Make the x axis logarithmic, with a few ticks such as 125M and 2B."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.dataLim.intervalx
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_label(size)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _label_points(figure: Any, axes: Any, points: Sequence[Point]) -> None:
    """Write each point's label at the first place around it that is free, or not at all."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    frame = axes.get_window_extent().padded(4)
    marks = axes.transData.transform([(point.x.value, point.y.value) for point in points])
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in marks]
    taken += [text.get_window_extent() for text in axes.texts]
    for number, point in enumerate(points):
        for x, y, anchor in _LABEL_PLACES:
            text = axes.annotate(
                _plain(point.label),
                (point.x.value, point.y.value),
                (x, y),
                textcoords="offset points",
                fontsize=8.5,
                ha=anchor,
                color=_INK,
            )
            box = text.get_window_extent()
            is_inside = all(frame.contains(*corner) for corner in box.corners())
            own_mark_left_out = taken[:number] + taken[number + 1 :]
            if is_inside and not box.count_overlaps(own_mark_left_out):
                taken.append(box)
                break
            text.remove()


def _write(axes: Any, text: str, place: tuple[float, float], transform: Any, anchor: str) -> None:
    axes.text(
        *place,
        _plain(text),
        transform=transform,
        fontsize=8.5,
        color=_INK,
        alpha=0.8,
        ha=anchor,
        va="bottom",
    )


def _add_legend(axes: Any, above: bool = False) -> None:
    """Add a legend over the axes, in as many columns as fit; ``above`` the name of a line."""
    longest = max(map(len, axes.get_legend_handles_labels()[1]))
    axes.legend(
        frameon=False,
        fontsize=9,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.06 if above else 1.0),
        ncols=max(1, min(3, 50 // (4 + longest))),
        handletextpad=0.4,
        labelcolor=_INK,
    )


def _plain(label: str) -> str:
    """Return a label that matplotlib shows as it is.

    It takes text between dollar signs for a formula and leaves labels that begin with an
    underscore out of a legend. XML has no control characters.
    """
    text = "".join(letter if letter.isprintable() else " " for letter in label)
    if len(text) > _LONGEST_LABEL:
        text = f"…{text[1 - _LONGEST_LABEL :]}"
    if text.startswith("_"):
        text = f"\u200b{text}"
    return text.replace("$", r"\$")


def _page_tag(tag: str, prefix: str) -> str:
    """Rewrite a tag of matplotlib's for a page.

    Styles become attributes, colours become the page's variables, and ids get a prefix, since a
    page has several plots.
    """
    tag = re.sub(
        r' style="([^"]*)"', lambda style: "".join(map(_attribute, style[1].split(";"))), tag
    )
    tag = tag.replace(f'"{_INK}"', '"currentColor"').replace(f'"{_LINE}"', '"var(--line)"')
    for number, colour in enumerate(_SERIES, start=1):
        tag = tag.replace(f'"{colour}"', f'"var(--series-{number})"')
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", tag)


def _attribute(declaration: str) -> str:
    """Write a declaration of CSS as an attribute, such as ``fill: none`` as `` fill="none"``."""
    name, _, value = declaration.partition(":")
    name, value = name.strip(), value.strip()
    if name == "font":
        name = "font-size"
        value = value.split()[0].removesuffix("px")
    return f' {name}="{value}"' if value else ""
