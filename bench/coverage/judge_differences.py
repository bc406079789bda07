"""Differences between the F1 of two judges that look for errors in the same responses."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from bench.coverage.cells import Cell, Integers, Replication, measure
from bench.coverage.counts import F1, FALSE_ALARMS, is_interval_hidden, score_f1
from lm_factuality.scores.intervals import pooled_difference_interval


class JudgePair(NamedTuple):
    """Two judges."""

    sensitivities: tuple[float, float]
    """The share of errors that each judge finds."""

    agreement: float
    """The share of segments on which both judges have the same random number.

    A judge flags a segment if the number is below the judge's rate.
    """


def f1_difference_cells(replications: int) -> list[Cell]:
    """Measure differences of F1 on 20 to 400 responses."""
    cells = []
    for num_responses, errors, agreement, sensitivities in product(
        (20, 100, 400), (0.1, 0.3), (0.3, 0.8), ((0.5, 0.5), (0.7, 0.5), (0.9, 0.9))
    ):
        first, second = sensitivities
        setting = {
            "responses": f"{num_responses}",
            "errors": f"{errors:.0%}",
            "agreement": f"{agreement}",
            "found": f"{first:.0%} against {second:.0%}",
        }
        truths = []
        for sensitivity in sensitivities:
            tp = errors * sensitivity
            truths.append(score_f1((tp, (1 - errors) * FALSE_ALARMS, errors - tp, 0)))
        replicate = partial(
            _replicate,
            num_responses=num_responses,
            errors=errors,
            judges=JudgePair(sensitivities, agreement),
        )
        cells.append(measure(setting, truths[0] - truths[1], replicate, replications))
    return cells


def _replicate(
    generator: np.random.Generator, num_responses: int, errors: float, judges: JudgePair
) -> Replication:
    """Draw responses, let both judges look for errors, and compare their F1."""
    first, second = _draw_counts(generator, num_responses, errors, judges)
    if any(is_interval_hidden(counts, F1) for counts in (first, second)):
        return Replication(math.nan, None)
    value = score_f1(first.sum(axis=0).tolist()) - score_f1(second.sum(axis=0).tolist())
    return Replication(value, pooled_difference_interval(first, second, score_f1))


def _draw_counts(
    generator: np.random.Generator, num_responses: int, errors: float, judges: JudgePair
) -> list[Integers]:
    """Draw responses with one to five segments, and each judge's verdicts on them.

    Returns:
        For each judge the counts of each response, with the columns tp, fp, fn and tn.
    """
    sizes = generator.integers(1, 6, num_responses)
    responses = np.repeat(np.arange(num_responses), sizes)
    is_error = generator.random(len(responses)) < errors
    common_number = generator.random(len(responses))
    tables = []
    for sensitivity in judges.sensitivities:
        judge_number = generator.random(len(responses))
        is_common = generator.random(len(responses)) < judges.agreement
        number = np.where(is_common, common_number, judge_number)
        is_flagged = number < np.where(is_error, sensitivity, FALSE_ALARMS)
        kinds = (
            is_error & is_flagged,
            ~is_error & is_flagged,
            is_error & ~is_flagged,
            ~is_error & ~is_flagged,
        )
        counts = [np.bincount(responses[kind], minlength=num_responses) for kind in kinds]
        tables.append(np.stack(counts, axis=1))
    return tables
