"""Figures 2 and 3 of the FACTOR paper from one's own results: accuracy against perplexity, and against model size.

Families share a marker and a colour, the paper's three those of the paper; labels are sizes; bars are one standard error.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lm_factuality.compare.agreement import Point
from lm_factuality.compare.names import FAMILIES, OTHER, family, short_name, size_label
from lm_factuality.errors import ConfigError, DataError

FORMATS = ("png", "svg", "pdf")

_STYLES = dict(
    zip(
        (*FAMILIES, OTHER),
        (
            ("o", "tab:blue"), ("s", "goldenrod"), ("^", "tab:red"), ("D", "tab:green"), ("v", "tab:purple"),
            ("P", "tab:brown"), ("X", "tab:pink"), ("<", "tab:olive"), (".", "tab:gray"),
        ),
        strict=True,
    )
)  # fmt: skip


def draw(points: Sequence[Point], folder: Path, file_format: str = "png") -> tuple[list[Path], list[str]]:
    """Writes ``TASK_by_perplexity`` and ``TASK_by_size`` for each corpus into ``folder``; returns the files and a note on
    every model that is in none for want of a size. A plot of an earlier call is replaced, nothing else is touched.

    Raises:
        ConfigError: matplotlib is not installed.
        DataError: ``folder`` is a file or cannot be written to.
    """
    figure_class = _figure_class()
    written, notes = [], []
    for task in sorted({point.task for point in points}):
        here = [point for point in points if point.task == task]
        likely = [point for point in here if point.perplexity is not None]
        sized = [point for point in here if point.size is not None]
        if likely:
            figure = _scatter(figure_class, task, likely, lambda point: point.perplexity, "perplexity per token")
            written.append(_save(figure, folder / f"{task}_by_perplexity.{file_format}"))
        if sized:
            figure = _scatter(figure_class, task, sized, lambda point: point.size, "parameters", by_size=True)
            written.append(_save(figure, folder / f"{task}_by_size.{file_format}"))
        notes += [
            f"{task}, {point.model}: its size is not known, so it is not drawn by size"
            for point in here
            if point.size is None
        ]
    return written, notes


def _figure_class() -> Any:
    try:
        from matplotlib.figure import (
            Figure,
        )  # with no window and no global state: Agg draws PNG, its own backends the rest
    except ImportError as error:
        raise ConfigError("plots need matplotlib; install it with: pip install 'lm-factuality[report]'") from error
    return Figure


def _scatter(
    figure_class: Any,
    task: str,
    points: Sequence[Point],
    across: Callable[[Point], float | None],
    label: str,
    by_size: bool = False,
) -> Any:
    figure = figure_class(figsize=(6, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, (marker, colour) in _STYLES.items():
        members = sorted(
            (point for point in points if family(point.model) == name), key=lambda point: across(point) or 0
        )
        if not members:
            continue
        axes.errorbar(
            [across(point) for point in members], [point.accuracy for point in members],
            yerr=[point.stderr or 0 for point in members],
            xerr=None if by_size else [point.perplexity_stderr or 0 for point in members],
            marker=marker, color=colour, linestyle="-" if by_size else "none", linewidth=1, capsize=2, label=name,
        )  # fmt: skip
        for point in members:
            axes.annotate(
                size_label(point.size) if point.size else short_name(point.model),
                (across(point), point.accuracy), xytext=(5, 5), textcoords="offset points", fontsize="small",
            )  # fmt: skip
    if by_size:
        _size_axis(axes)
    axes.set_xlabel(label)
    axes.set_ylabel("FACTOR accuracy (%)")
    axes.set_title(task)
    axes.margins(0.1)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def _size_axis(axes: Any) -> None:
    """A logarithmic axis whose ticks are labelled as models are called: 125M, 2B."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_label(size)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _save(figure: Any, path: Path) -> Path:
    """Writes beside ``path`` and renames, so that a reader never finds half a plot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
        part = Path(name)
        try:
            part.chmod(0o644)
            figure.savefig(part, format=path.suffix[1:], dpi=150)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error}; choose another folder") from error
    return path
