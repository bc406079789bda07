"""Measures how often the 95% intervals of corrected means contain the truth.

    python -m bench.coverage_corrected [--replications N]

Each row of a task is wrong with a known probability, the truth. A judge calls rows wrong, with
errors. People label some rows, and `corrected_mean` estimates the share of wrong rows. In all
settings of a grid, this is repeated with new rows, and the intervals that contain the truth are
counted.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from lm_factuality.ground.console import print_table
from lm_factuality.scores.intervals import mean_interval, wilson_interval
from lm_factuality.scores.ppi import Estimate, corrected_mean

Bools = NDArray[np.bool_]

NUM_ROWS = 1000
"""How many rows the judge has judged."""

CORRELATION = 0.2
"""The correlation of the truth of two rows of one cluster."""


@dataclass(frozen=True)
class Setting:
    """What is simulated many times."""

    judge_error: float
    """How often the judge errs.

    A symmetric judge takes this share of the wrong rows for right ones, and of the right rows for
    wrong ones. Another judge misses wrong rows twice as often, and calls right rows wrong half as
    often, i.e. a quarter as often as it misses.
    """

    is_symmetric: bool
    """Whether the judge errs as often in right rows as in wrong ones."""

    num_labels: int
    """How many rows people label."""

    truth: float
    """The probability that a row is wrong."""

    by_verdict: bool
    """Whether half of the labels are drawn from the rows that the judge calls wrong."""

    cluster_size: int = 1
    """How many rows a cluster has."""


class Coverage(NamedTuple):
    """What the intervals of a setting did."""

    setting: Setting
    """What was simulated."""

    coverage: float
    """The share of intervals that contain the truth."""

    width_to_labels: float
    """The mean width divided by that of the interval from the same labels alone."""

    width_to_known: float
    """The mean width divided by that of the interval for the true variance of the estimates."""


def all_settings() -> list[Setting]:
    """Return the settings of the grid, and some with rows in clusters."""
    truths = (0.03, 0.3, 0.98)
    draws = (False, True)
    settings = [
        Setting(*parts)
        for parts in product(
            (0.05, 0.2, 0.4), (True, False), (20, 50, 200, NUM_ROWS), truths, draws
        )
    ]
    for num_labels, truth, by_verdict in product((50, 200), truths, draws):
        settings.append(Setting(0.2, True, num_labels, truth, by_verdict, cluster_size=10))
    return settings


def corrected_cells(replications: int) -> list[Coverage]:
    """Measure the coverage of all settings, with a progress bar.

    Args:
        replications: How often each setting is simulated.
    """
    settings = tqdm(all_settings(), "simulating", unit=" settings", delay=2)
    return [simulate(setting, replications, seed) for seed, setting in enumerate(settings)]


def simulate(setting: Setting, replications: int, seed: int = 0) -> Coverage:
    """Draw rows and labels many times, and count how often intervals contain the truth."""
    generator = np.random.default_rng(seed)
    estimates: list[Estimate] = []
    widths_of_labels = []
    for _ in range(replications):
        is_wrong = _draw_truth(generator, setting)
        judged = _judge(generator, setting, is_wrong)
        is_labelled = draw_labels(generator, setting, judged)
        labels = [
            float(wrong) if labelled else None
            for wrong, labelled in zip(is_wrong.tolist(), is_labelled.tolist(), strict=True)
        ]
        clusters = None
        if setting.cluster_size > 1:
            clusters = (np.arange(NUM_ROWS) // setting.cluster_size).tolist()
        strata = judged.tolist() if setting.by_verdict else None
        estimate = corrected_mean(judged.tolist(), labels, clusters, strata)
        assert estimate is not None
        estimates.append(estimate)
        if setting.by_verdict or setting.num_labels == NUM_ROWS:
            # The judge is constant in each stratum, so labels alone give the same interval.
            widths_of_labels.append(estimate.high - estimate.low)
        else:
            interval = mean_interval(labels, clusters)
            assert interval is not None
            widths_of_labels.append(interval.high - interval.low)

    values = np.array([estimate.value for estimate in estimates])
    width = float(np.mean([estimate.high - estimate.low for estimate in estimates]))
    contained = [estimate.low <= setting.truth <= estimate.high for estimate in estimates]
    return Coverage(
        setting,
        coverage=float(np.mean(contained)),
        width_to_labels=width / float(np.mean(widths_of_labels)),
        width_to_known=width / _mean_width_for_variance(values, setting.truth),
    )


def _draw_truth(generator: np.random.Generator, setting: Setting) -> Bools:
    """Draw whether each row is wrong. The share of wrong rows of a cluster is beta-distributed."""
    shares: NDArray[np.float64] | float = setting.truth
    if setting.cluster_size > 1:
        # A beta distribution with the parameters p * s and (1 - p) * s has the correlation
        # 1 / (1 + s).
        spread = 1 / CORRELATION - 1
        shares = np.repeat(
            generator.beta(
                setting.truth * spread,
                (1 - setting.truth) * spread,
                NUM_ROWS // setting.cluster_size,
            ),
            setting.cluster_size,
        )
    return np.asarray(generator.random(NUM_ROWS) < shares)


def _judge(generator: np.random.Generator, setting: Setting, is_wrong: Bools) -> Bools:
    """Draw whether the judge calls each row wrong."""
    misses = false_alarms = setting.judge_error
    if not setting.is_symmetric:
        misses *= 2
        false_alarms /= 2
    return np.asarray(generator.random(NUM_ROWS) < np.where(is_wrong, 1 - misses, false_alarms))


def draw_labels(generator: np.random.Generator, setting: Setting, judged: Bools) -> Bools:
    """Draw which rows people label."""
    is_labelled = np.zeros(NUM_ROWS, bool)
    order = generator.permutation(NUM_ROWS)
    if not setting.by_verdict:
        is_labelled[order[: setting.num_labels]] = True
        return is_labelled
    called_wrong = order[judged[order]]
    called_right = order[~judged[order]]
    # If the judge calls fewer rows wrong (or right), others are labelled in their place.
    num_called_wrong = min(setting.num_labels // 2, len(called_wrong))
    num_called_wrong = max(num_called_wrong, setting.num_labels - len(called_right))
    is_labelled[called_wrong[:num_called_wrong]] = True
    is_labelled[called_right[: setting.num_labels - num_called_wrong]] = True
    return is_labelled


def _mean_width_for_variance(values: NDArray[np.float64], truth: float) -> float:
    """Compute the mean width of the intervals that the true variance of estimates would give.

    Args:
        values: The estimates, whose variance is taken for the true one.
        truth: The true share.
    """
    trials = truth * (1 - truth) / float(np.var(values))
    intervals = [wilson_interval(value, trials) for value in values.tolist()]
    return float(np.mean([interval.high - interval.low for interval in intervals]))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of all settings, and return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m bench.coverage_corrected",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--replications",
        type=int,
        default=2000,
        metavar="N",
        help="how often each setting is simulated (default: %(default)s)",
    )
    cells = corrected_cells(parser.parse_args(argv).replications)
    rows = []
    for cell in cells:
        setting = cell.setting
        rows.append(
            (
                f"{100 * setting.judge_error:.0f}",
                "yes" if setting.is_symmetric else "no",
                "yes" if setting.cluster_size > 1 else "no",
                str(setting.num_labels),
                "by verdict" if setting.by_verdict else "at random",
                f"{100 * setting.truth:.0f}",
                f"{100 * cell.coverage:.1f}",
                f"{cell.width_to_labels:.2f}",
                f"{cell.width_to_known:.2f}",
            )
        )
    columns = (
        "#error, %",
        "symmetric",
        "clusters",
        "#labels",
        "drawn",
        "#truth, %",
        "#contain, %",
        "#width / labels",
        "#width / known",
    )
    num_outside = sum(not 0.93 <= cell.coverage <= 0.98 for cell in cells)
    notes = [f"Outside 93 to 98%: {num_outside} of {len(cells)} settings."]
    print_table(
        "How often 95% intervals of corrected means contain the truth", columns, rows, notes
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
