"""Plots by matplotlib, made without a window or global state: as files, and as SVG inside a page,
whose colours follow the page's theme. matplotlib is imported where something is drawn: it takes
long, and every command reads the registry of benchmarks."""

import io
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from markupsafe import Markup

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import whole_file
from lm_factuality.ground.model_names import OTHER, size_label

FORMATS = ("png", "svg", "pdf")
MOST_ROWS = 40  # of a plot of rows; the tables beneath have all
MOST_SERIES = 8  # that have a colour of their own
# The light theme of look.css, by which a page's plot finds the variable of each colour.
_INK, _LINE = "#1d2126", "#e2dfd8"
_SERIES = ("#2f5bd0", "#b35c00", "#1a7f4b", "#b3267d", "#6f4bb8", "#0b7285", "#8a6d00", "#5c646d")
_VARIABLES = {_INK: "currentColor", _LINE: "var(--line)"} | {
    each: f"var(--series-{n})" for n, each in enumerate(_SERIES, 1)
}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_WIDTH = 4.8  # inches; text is of a readable size both on a phone and in half a page
_REFERENCE = {"color": _INK, "linewidth": 1, "linestyle": (0, (4, 3)), "alpha": 0.5}
Reference = tuple[str, float] | None  # a value worth a line, and what it is called
_AROUND = (
    (7, 4, "left"),
    (7, -11, "left"),
    (-7, 4, "right"),
    (-7, -11, "right"),
    (0, 9, "center"),
    (0, -16, "center"),
)


@dataclass(frozen=True)
class Dot:
    """A value with the ends of its interval, where there is one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Point:
    """A model in a scatter plot: ``x`` and ``y``, with their intervals, and the group that it is
    drawn with."""

    label: str
    group: str
    x: Dot
    y: Dot


@dataclass(frozen=True)
class Plot:
    """A matplotlib ``figure``, with ``title`` and ``description`` for screen readers, and its
    numbers as texts."""

    figure: Any
    title: str
    description: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def id(self) -> str:
        """The beginning of the ids in the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "plot"

    def __html__(self) -> Markup:
        """An ``svg`` element without styles of its own, which a strict policy would refuse. Equal
        plots have equal ids."""
        import matplotlib as mpl

        written = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.title}):
            self.figure.savefig(written, format="svg", transparent=True, metadata=nothing)
        prefix, drawn = self.id, written.getvalue()
        body = re.sub(
            r"<style.*?</style>|<!--.*?-->",
            "",
            drawn[drawn.index(">", drawn.index("<svg")) + 1 :],
            flags=re.DOTALL,
        )
        body = re.sub(r"<[^>]+>", lambda tag: _own_tag(tag[0], prefix), body)
        box = " ".join(f"{72 * each:g}" for each in self.figure.get_size_inches())
        heard = ("title", self.title), ("desc", self.description)
        names = "".join(f'<{tag} id="{prefix}-{tag}">{escape(text)}</{tag}>' for tag, text in heard)
        return Markup(  # noqa: S704  matplotlib's
            f'<svg viewBox="0 0 {box}" role="img" aria-labelledby="{prefix}-title'
            f' {prefix}-desc">{names}{body}'
        )


def _own_tag(tag: str, prefix: str) -> str:
    """A tag of matplotlib's with attributes for styles, the page's colours, and ids of its own: a
    page has several plots."""
    tag = re.sub(
        r' style="([^"]*)"', lambda style: "".join(map(_attribute, style[1].split(";"))), tag
    )
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(f'"{colour}"', f'"{variable}"')
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", tag)


def _attribute(declaration: str) -> str:
    name, _, value = (part.strip() for part in declaration.partition(":"))
    if name == "font":
        name, value = "font-size", value.split()[0].removesuffix("px")
    return f' {name}="{value}"' if value else ""


def new_figure(width: float, height: float) -> Any:
    """An empty figure of that size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> Path:
    """Writes the whole file, or none; returns ``path``. Raises ConfigError: no ending of
    ``FORMATS``; DataError: it cannot."""
    if path.suffix[1:].lower() not in FORMATS:
        raise ConfigError(f"{path}: plots are {', '.join(f'.{name}' for name in FORMATS)}")
    with whole_file(path, (OSError,)) as part:
        figure.savefig(part, format=path.suffix[1:].lower(), dpi=200)
    return path


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
    """Points with intervals; a group has a marker and a colour and, ``by_size``, a line and a
    logarithmic axis. ``reference``: a height worth a line (its name, in percent); ``diagonal``:
    where both are equal. Labels that would overlap are left out."""
    figure = new_figure(_WIDTH, 3.5)
    axes = _axes(figure)
    groups = sorted({point.group for point in points})
    for group, (colour, marker) in zip(groups, _styles(), strict=False):
        members = sorted(
            (point for point in points if point.group == group), key=lambda point: point.x.value
        )
        line = {
            "linestyle": "-" if by_size and not group.startswith(OTHER) else "none",
            "linewidth": 1.2,
            "elinewidth": 1.2,
        }
        _draw(
            axes,
            [(point.x, point.y) for point in members],
            group,
            color=colour,
            marker=marker,
            **line,
        )
    if by_size:
        _size_axis(axes)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.margins(0.16)
    if diagonal:
        axes.axline((0, 0), slope=1, **_REFERENCE)
        axes.set(xlim=(-3, 103), ylim=(-3, 103))
    if reference is not None:
        axes.axhline(reference[1], **_REFERENCE)
        _say(
            axes,
            reference[0],
            (1, reference[1]),
            axes.get_yaxis_transform(),
            ha="right",
            va="bottom",
        )
    if len(groups) > 1:
        _legend(axes)
    _label(figure, axes, points)
    listed = "; ".join(
        f"{point.label}: {point.x.value:.3g}, {point.y.value:.1f}" for point in points[:MOST_ROWS]
    )
    write: Callable[[float], str] = size_label if by_size else "{:.2f}".format
    rows = [
        (point.label, write(point.x.value), f"{point.y.value:.1f}", _interval(point.y))
        for point in points
    ]
    columns = "Model", x_label.capitalize(), y_label.capitalize(), "95% interval"
    return Plot(figure, title, f"{y_label} over {x_label}. {listed}.", columns, rows)


def dots(
    title: str,
    x_label: str,
    rows: Sequence[tuple[str, Mapping[str, Dot]]],
    series: Sequence[str],
    reference: Reference = None,
) -> Plot:
    """A line for each row with a dot for each series; ``reference`` is a value worth a line of its
    own, and what it is called."""
    numbers = [
        (label, *(_with_interval(found.get(name)) for name in series)) for label, found in rows
    ]
    rows = rows[:MOST_ROWS]
    most = max((len(found) for _, found in rows), default=1)
    figure = new_figure(_WIDTH, 0.9 + max(len(rows), 1) * (0.22 + 0.09 * min(most, 8)))
    axes = _axes(figure, vertical=False)
    if reference is not None:
        axes.axvline(reference[1], **_REFERENCE)
        _say(
            axes,
            reference[0],
            (reference[1], 1),
            axes.get_xaxis_transform(),
            ha="center",
            va="bottom",
        )
    step = min(0.8 / max(most, 1), 0.22)
    for name, (colour, marker) in zip(series, _styles(), strict=False):
        present = []
        for place, (_, found) in enumerate(rows):
            names = [each for each in series if each in found]
            if name in found:
                present.append(
                    (found[name], Dot(place + step * (names.index(name) - (len(names) - 1) / 2)))
                )
        _draw(axes, present, name, color=colour, marker=marker, linestyle="none", elinewidth=1.4)
    axes.set_yticks(range(len(rows)), [_plain(label) for label, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(x_label)
    if len(series) > 1:
        _legend(axes, above=reference is not None)
    listed = "; ".join(
        f"{label}: {', '.join(f'{name} {dot.value:.1f}' for name, dot in found.items())}"
        for label, found in rows
    )
    return Plot(figure, title, f"{x_label}. {listed}.", ("", *series), numbers)


def _interval(dot: Dot) -> str:
    return "–" if dot.low is None or dot.high is None else f"{dot.low:.1f} – {dot.high:.1f}"


def _with_interval(dot: Dot | None) -> str:
    if dot is None:
        return "–"
    return f"{dot.value:.1f}" + (
        "" if dot.low is None or dot.high is None else f" ({_interval(dot)})"
    )


def _draw(axes: Any, places: Sequence[tuple[Dot, Dot]], name: str, **style: Any) -> None:
    (xs, ys), label = ([x for x, _ in places], [y for _, y in places]), _plain(name)
    values = [x.value for x in xs], [y.value for y in ys]
    axes.errorbar(
        *values, xerr=_bars(xs), yerr=_bars(ys), markersize=6, capsize=0, label=label, **style
    )


def _bars(found: Sequence[Dot]) -> Any:
    ends = [
        (
            (dot.low, dot.high)
            if dot.low is not None and dot.high is not None
            else (dot.value, dot.value)
        )
        for dot in found
    ]
    if all(low == high for low, high in ends):
        return None
    pairs = list(zip(found, ends, strict=True))
    return [
        [max(0.0, dot.value - low) for dot, (low, _) in pairs],
        [max(0.0, high - dot.value) for dot, (_, high) in pairs],
    ]


def _axes(figure: Any, vertical: bool = True) -> Any:
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    axes.grid(axis="both" if vertical else "x", color=_LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("bottom", "left") if vertical else side == "bottom")
        spine.set_color(_LINE)
    axes.tick_params(color=_LINE, labelcolor=_INK, labelsize=9, length=0, which="both")
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(size=9.5, color=_INK)
    return axes


def _size_axis(axes: Any) -> None:
    """A logarithmic axis with a few ticks, labelled as models are called: 125M, 2B."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.dataLim.intervalx
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_label(size)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _label(figure: Any, axes: Any, points: Sequence[Point]) -> None:
    """Names the points, each at the first place around it where nothing stands yet; where all are
    taken it has no name."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    frame = axes.get_window_extent().padded(4)
    marks = axes.transData.transform([(point.x.value, point.y.value) for point in points])
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in marks]
    taken += [text.get_window_extent() for text in axes.texts]
    for number, point in enumerate(points):
        for x, y, ha in _AROUND:
            place = (point.x.value, point.y.value)
            text = axes.annotate(
                _plain(point.label),
                place,
                (x, y),
                textcoords="offset points",
                fontsize=8.5,
                ha=ha,
                color=_INK,
            )
            box = text.get_window_extent()
            is_inside = all(frame.contains(*corner) for corner in box.corners())
            if is_inside and not box.count_overlaps(taken[:number] + taken[number + 1 :]):
                taken.append(box)
                break
            text.remove()


def _say(axes: Any, text: str, place: tuple[float, float], transform: Any, **how: Any) -> None:
    axes.text(*place, _plain(text), transform=transform, fontsize=8.5, color=_INK, alpha=0.8, **how)


def _legend(axes: Any, above: bool = False) -> None:
    names = axes.get_legend_handles_labels()[1]
    ncols = max(1, min(3, len(names), 50 // (4 + max(map(len, names)))))
    place = (0.5, 1.06 if above else 1.0)
    axes.legend(
        frameon=False,
        fontsize=9,
        loc="lower center",
        bbox_to_anchor=place,
        ncols=ncols,
        handletextpad=0.4,
        labelcolor=_INK,
    )


def _styles() -> Iterable[tuple[str, str]]:
    """A colour and a marker for each series; after the eighth the markers change while the colours
    come again."""
    for turn in itertools.count():
        for number, colour in enumerate(_SERIES):
            yield colour, _MARKERS[(number + turn) % len(_MARKERS)]


def _plain(label: str, most: int = 30) -> str:
    """A label that matplotlib takes as it is: what stands between dollar signs would be a formula,
    what begins with an underscore is left out of a legend, and XML has no control characters."""
    text = "".join(letter if letter.isprintable() else " " for letter in label)
    text = text if len(text) <= most else f"…{text[1 - most :]}"
    return ("\u200b" if text.startswith("_") else "") + text.replace("$", r"\$")
