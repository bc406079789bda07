"""Plots by matplotlib as SVG within a page, whose colours follow the page's theme.

Reports draw with `scatter` and `dots`. Nothing opens a window or keeps global
state. matplotlib takes long to import, so it is imported only where something is drawn.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from markupsafe import Markup

from lm_factuality.ground.model_names import OTHER, size_label

MOST_ROWS = 40  # of a plot of rows; the table beneath has all
MOST_SERIES = 8  # that have a colour of their own

_STYLE = Path(__file__).with_name("plots.mplstyle")
_WIDTH = 4.8  # inches; text is of a readable size both on a phone and in half a page
_LONGEST_LABEL = 30  # characters
_REFERENCE_STYLE = {"color": "#1d2126", "linewidth": 1, "linestyle": (0, (4, 3)), "alpha": 0.5}
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

    def __html__(self) -> Markup:
        """Return an ``svg`` element without inline styles, which a strict policy would refuse.

        Equal plots have equal ids, so that a page does not change from run to run.
        """
        file = io.StringIO()
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with _look({"svg.hashsalt": self.title}):
            self.figure.savefig(file, format="svg", metadata=no_metadata)
        svg = file.getvalue()
        svg = svg[svg.index(">", svg.index("<svg")) + 1 :]
        svg = re.sub(r"<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
        box = " ".join(f"{72 * inches:g}" for inches in self.figure.get_size_inches())
        return Markup(  # noqa: S704  matplotlib's
            f'<svg viewBox="0 0 {box}" role="img" aria-labelledby="{self.id}-title">'
            f'<title id="{self.id}-title">{escape(self.title)}</title>{_for_page(svg, self.id)}'
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

    Args:
        by_size: The x axis is the number of parameters, on a logarithmic scale, and a line joins
            the points of a group.
        reference: A height, in percent, that gets a line.
    """
    groups = sorted({point.group for point in points})
    with _look():
        figure, axes = _figure(3.5)
        for group in groups:
            members = [point for point in points if point.group == group]
            members.sort(key=lambda point: point.x.value)
            is_line = by_size and not group.startswith(OTHER)
            places = [(point.x, point.y) for point in members]
            _draw_series(axes, group, places, "-" if is_line else "none")
        if by_size:
            _set_size_axis(axes)
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.margins(0.16)
        if reference is not None:
            name, height = reference
            axes.axhline(height, **_REFERENCE_STYLE)
            place = (1, height)
            axes.annotate(name, place, xycoords=axes.get_yaxis_transform(), ha="right", va="bottom")
        if len(groups) > 1:
            _add_legend(figure)
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
    height = 0.9 + max(len(rows), 1) * (0.22 + 0.09 * len(series))
    step = min(0.8 / max(len(series), 1), 0.22)  # between dots of a row, where rows are 1 apart
    with _look():
        figure, axes = _figure(height)
        axes.grid(visible=False, axis="y")
        axes.spines.left.set_visible(False)
        if reference is not None:
            name, value = reference
            axes.axvline(value, **_REFERENCE_STYLE)
            place = (value, 1)
            axes.annotate(
                name, place, xycoords=axes.get_xaxis_transform(), ha="center", va="bottom"
            )
        for number, name in enumerate(series):
            offset = step * (number - (len(series) - 1) / 2)
            places = [
                (dots[name], Dot(place + offset))
                for place, (_, dots) in enumerate(rows)
                if name in dots
            ]
            _draw_series(axes, name, places, "none")
        axes.set_yticks(range(len(rows)), [_plain(label) for label, _ in rows])
        axes.set(xlabel=x_label, ylim=(len(rows) - 0.5, -0.5))
        if len(series) > 1:
            _add_legend(figure)

    return Plot(figure, title, ("", *series), table)


def _cell(dot: Dot | None) -> str:
    if dot is None:
        return "–"
    interval = "" if dot.interval == "–" else f" ({dot.interval})"
    return f"{dot.value:.1f}{interval}"


def _look(settings: dict[str, Any] | None = None) -> AbstractContextManager[None]:
    """Return the settings of matplotlib under which figures are made and saved."""
    import matplotlib as mpl

    return mpl.rc_context(settings, _STYLE)


def _figure(height: float) -> tuple[Any, Any]:
    """Return a figure of a height in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height))
    return figure, figure.add_subplot()


def _draw_series(axes: Any, name: str, places: Sequence[tuple[Dot, Dot]], line: str) -> None:
    xs = [x for x, _ in places]
    ys = [y for _, y in places]
    axes.errorbar(
        [x.value for x in xs],
        [y.value for y in ys],
        # All reaches below, and all above.
        xerr=list(zip(*(x.reach for x in xs), strict=True)) or None,
        yerr=list(zip(*(y.reach for y in ys), strict=True)) or None,
        label=_plain(name),
        linestyle=line,
    )


def _set_size_axis(axes: Any) -> None:
    """Make the x axis logarithmic, with a few ticks such as 100M and 2B."""
    axes.set_xscale("log", subs=())
    axes.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
    axes.xaxis.set_major_formatter(lambda size, _: size_label(size))


def _label_points(figure: Any, axes: Any, points: Sequence[Point]) -> None:
    """Write each point's label towards the middle, if no other is there."""
    figure.draw_without_rendering()
    taken = [text.get_window_extent() for text in axes.texts]
    for point in points:
        place = (point.x.value, point.y.value)
        across, _ = axes.transAxes.inverted().transform(axes.transData.transform(place))
        offset, anchor = (7, "left") if across < 0.5 else (-7, "right")
        text = axes.annotate(
            _plain(point.label), place, (offset, 4), textcoords="offset points", ha=anchor
        )
        box = text.get_window_extent()
        if box.count_overlaps(taken):
            text.remove()
        else:
            taken.append(box)


def _add_legend(figure: Any) -> None:
    """Add a legend over the axes, in as many columns as fit."""
    labels = figure.axes[0].get_legend_handles_labels()[1]
    columns = 50 // (4 + max(map(len, labels)))
    figure.legend(loc="outside upper center", ncols=max(1, min(3, columns)))


def _plain(label: str) -> str:
    """Return a label that matplotlib shows as it is.

    It leaves labels that begin with an underscore out of a legend. XML has no control characters.
    """
    text = "".join(letter if letter.isprintable() else " " for letter in label)
    if len(text) > _LONGEST_LABEL:
        text = f"…{text[1 - _LONGEST_LABEL :]}"
    return f"\u200b{text}" if text.startswith("_") else text


def _for_page(svg: str, prefix: str) -> str:
    """Rewrite matplotlib's SVG for a page.

    Styles become attributes, colours become the page's variables, and ids get a prefix, since a
    page has several plots.
    """
    import matplotlib as mpl

    style = mpl.rc_params_from_file(_STYLE)
    svg = re.sub(
        r' style="([^"]*)"', lambda match: "".join(map(_attribute, match[1].split(";"))), svg
    )
    variables = {style["text.color"]: "currentColor", style["grid.color"]: "var(--line)"}
    colours = style["axes.prop_cycle"].by_key()["color"][:MOST_SERIES]
    for number, colour in enumerate(colours, start=1):
        variables[colour] = f"var(--series-{number})"
    for colour, variable in variables.items():
        svg = svg.replace(f'"{colour}"', f'"{variable}"')
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", svg)


def _attribute(declaration: str) -> str:
    """Write a declaration of CSS as an attribute, such as ``fill: none`` as `` fill="none"``."""
    name, _, value = declaration.partition(":")
    name, value = name.strip(), value.strip()
    if name == "font":
        name = "font-size"
        value = value.split()[0].removesuffix("px")
    return f' {name}="{value}"' if value else ""
