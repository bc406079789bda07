"""Figures 2 to 4 of the FACTOR paper from one's own results: accuracy against perplexity, against model size, and gains by
retrieval, with 95% intervals. Families share a colour; what was run in another way (with retrieval, another decoding) has a line
of its own. Labels are sizes."""

from collections.abc import Sequence
from pathlib import Path

from lm_factuality.benchmarks.chosen import series
from lm_factuality.benchmarks.factor.compare.agreement import Point, gains
from lm_factuality.ground import plots
from lm_factuality.ground.model_names import family, short_name, size_label
from lm_factuality.ground.plots import Dot, dots, save_figure, scatter
from lm_factuality.ground.statistics import interval

_ACCURACY = "FACTOR accuracy, %"


def draw(points: Sequence[Point], folder: Path, file_format: str = "png") -> tuple[list[Path], list[str]]:
    """Writes ``TASK_by_perplexity``, ``TASK_by_size`` and, where models were run both ways, ``TASK_retrieval_gain`` for each
    corpus into ``folder``; returns the files and a note on every model that is not drawn by size for want of one. A plot of an
    earlier call is replaced, nothing else is touched.

    Raises:
        DataError: ``folder`` is a file or cannot be written to.
    """
    written, notes = [], []
    for task in sorted({point.task for point in points}):
        here = [point for point in points if point.task == task]
        drawn = {}
        likely = [(point, dot) for point in here if (dot := _perplexity(point))]
        if likely:
            drawn["by_perplexity"] = scatter(task, "perplexity per token", _ACCURACY, [_point(*each) for each in likely])
        sized = [_point(point, Dot(point.size)) for point in here if point.size is not None]
        if sized:
            drawn["by_size"] = scatter(task, "parameters", _ACCURACY, sized, by_size=True)
        if gained := gains(here):
            rows = [
                (
                    f"{short_name(gain.with_it.model)}: {gain.without.accuracy:.1f} to {gain.with_it.accuracy:.1f}",
                    {"gain": Dot(100 * gain.pair.difference, _times(gain.pair.low), _times(gain.pair.high))},
                )
                for gain in gained
            ]
            drawn["retrieval_gain"] = dots(task, "gain by retrieval, points", rows, ["gain"], ("", 0))
        for name, plot in drawn.items():
            plot.figure.suptitle(task, fontsize=11)
            written.append(save_figure(plot.figure, folder / f"{task}_{name}.{file_format}"))
        notes += [
            f"{task}, {point.model}: its size is not known, so it is not drawn by size" for point in here if point.size is None
        ]
    return written, notes


def _point(point: Point, x: Dot) -> plots.Point:
    label = size_label(point.size) if point.size else short_name(point.model)
    return plots.Point(label, series(family(point.model), point.variant), x, Dot(point.accuracy, *(point.ends or ())))


def _perplexity(point: Point) -> Dot | None:
    value, stderr = point.perplexity, point.perplexity_stderr
    return None if value is None else Dot(value, *((stderr and interval(value, stderr, low=1)) or ()))


def _times(end: float | None) -> float | None:
    return None if end is None else 100 * end
