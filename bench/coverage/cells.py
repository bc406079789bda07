"""Simulates one setting many times, and counts how often its interval contains the truth.

The modules of the families, such as `bench.coverage.means`, say what is drawn.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_factuality.scores.intervals import Z95, Interval

Floats = NDArray[np.float64]
Integers = NDArray[np.int_]

WANTED = (0.93, 0.98)
"""The range in which the coverage of a 95% interval should lie."""

WANTED_OF_HARD = (0.90, 1.0)
"""The same for five clusters, and for scores of 0.99."""

_MOST_TRIES = 10  # replications that are drawn for each interval that has to be shown
_FEWEST_SHARE = 0.25  # of the wanted number of intervals; with fewer, no coverage is computed


class Cell(NamedTuple):
    """What the intervals did in the replications of one setting."""

    setting: Mapping[str, str]
    """What was simulated, by the name of a table's column, such as ``{"documents": "10"}``."""

    coverage: float
    """The share of the intervals that contain the truth. NaN if almost none is shown."""

    width_ratio: float
    """The mean width of the intervals as a ratio to 2 * 1.96 * the true standard error."""

    shown: float = 1.0
    """The share of replications in which the interval is shown."""

    wanted: tuple[float, float] = WANTED
    """The range in which the coverage should lie."""

    width_to_baseline: float = math.nan
    """The mean width as a ratio to that of the baseline. NaN without a baseline."""

    @property
    def excess(self) -> float:
        """How far the coverage lies above the wanted range, or below (negative); 0 within."""
        if math.isnan(self.coverage):
            return 0.0
        low, high = self.wanted
        # Tables show one decimal of a percentage, and the reader compares that with the range.
        coverage = round(self.coverage, 3)
        return min(0.0, coverage - low) + max(0.0, coverage - high)


class Replication(NamedTuple):
    """A score of drawn data."""

    value: float
    """The score."""

    interval: Interval | None
    """Its 95% interval, or None if it is not shown."""

    baseline_width: float = math.nan
    """The width of another interval of the same data. NaN without one."""


def measure(
    setting: Mapping[str, str],
    truth: float,
    replicate: Callable[[np.random.Generator], Replication],
    replications: int,
    wanted: tuple[float, float] = WANTED,
) -> Cell:
    """Simulate one setting until enough intervals were shown.

    Args:
        setting: What is simulated. It also seeds the random numbers, so that a cell is the same in
            every run.
        truth: The true score.
        replicate: Draws data, and computes the score and its interval.
        replications: The number of intervals. If few are shown, up to ten times as many
            replications are drawn.
        wanted: The range in which the coverage should lie.
    """
    generator = np.random.default_rng(zlib.crc32(repr(setting).encode()))
    values: list[float] = []
    intervals: list[Interval] = []
    baseline_widths: list[float] = []
    num_drawn = 0
    while len(intervals) < replications and num_drawn < _MOST_TRIES * replications:
        replication = replicate(generator)
        num_drawn += 1
        if replication.interval is not None:
            values.append(replication.value)
            intervals.append(replication.interval)
            baseline_widths.append(replication.baseline_width)

    shown = len(intervals) / num_drawn
    if len(intervals) < _FEWEST_SHARE * replications:
        return Cell(setting, math.nan, math.nan, shown, wanted)
    lows, highs = np.array(intervals).T
    contains_truth = (lows <= truth) & (truth <= highs)
    width = float(np.mean(highs - lows))
    width_if_known = 2 * Z95 * float(np.std(values))
    baseline_width = float(np.mean(baseline_widths))
    return Cell(
        setting,
        coverage=float(np.mean(contains_truth)),
        width_ratio=width / width_if_known if width_if_known else math.nan,
        shown=shown,
        wanted=wanted,
        width_to_baseline=math.nan if math.isnan(baseline_width) else width / baseline_width,
    )


def draw_sizes(generator: np.random.Generator, num_clusters: int, mean: float = 10) -> Integers:
    """Draw the sizes of clusters: lognormal with a standard deviation of 0.7 of the logarithm.

    Args:
        generator: The source of randomness.
        num_clusters: The number of clusters.
        mean: The mean size before rounding. Each cluster has at least one row.
    """
    sigma = 0.7
    # The mean of a lognormal distribution is exp(mu + sigma² / 2).
    sizes = generator.lognormal(math.log(mean) - sigma**2 / 2, sigma, num_clusters)
    return np.asarray(np.maximum(1, np.rint(sizes)), dtype=int)
