"""How many labels bring the interval of a corrected score to a width, and from which strata to draw them (Neyman, 1934).

To the first order the variance of a corrected score (``lm_factuality.ground.ppi``) is the one that all labels would leave, since
the samples are some of many, and for each stratum of N units with n labels N² (1/n - 1/N) times the variance of what people
say minus lambda times what the judge says. The fewest labels are in proportion to N and the root of that variance.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lm_factuality.benchmarks.declaration import Score
from lm_factuality.benchmarks.pairs import value_of
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.paired import Floats, slopes
from lm_factuality.ground.ppi import estimate
from lm_factuality.ground.statistics import Z95
from lm_factuality.people.correct import Row, units_of


@dataclass(frozen=True)
class Plan:
    """By stratum how many units there are, have labels, and should get some. ``now`` is the width of the interval, ``reached``
    the one with all these labels."""

    strata: Mapping[str, tuple[int, int, int]]
    now: float
    reached: float


def plan_labels(rows: Sequence[Row], score: Score, width: float) -> Plan:
    """With the variances in ``rows`` that people have labelled in part: the fewest labels, or all where even these do not do.

    Raises:
        DataError: their labels do not give the score an interval.
    """
    units = units_of(rows, score.name)
    is_asked = units.labelled & np.array([row.is_asked for row in rows])
    value = value_of(score, units.judged.shape[1])
    found = estimate(units, value)
    if found is None or is_asked.sum() < 2:
        raise DataError(f"{score.name}: not defined on these labels; label more of the sheet's samples")
    own = units.labelled
    slope = slopes(value, np.average(units.people[own], axis=0, weights=units.weights[own]) * len(rows))
    rest = (units.people - found.weight * units.judged) @ slope
    names = np.array([row.stratum for row in rows])
    strata = {name.partition(" ")[2]: names == name for name in sorted({row.stratum for row in rows if row.is_asked})}
    sizes, labelled = (np.array([(each & side).sum() for each in strata.values()]) for side in (names == names, own))
    together = np.std(rest[is_asked], ddof=1)  # of strata with less than two labels
    spreads = np.array([np.std(rest[each & own], ddof=1) if (each & own).sum() > 1 else together for each in strata.values()])
    # Labels on which the judge errs never do not say that it never will: at least as in the interval (lm_factuality.ground.ppi).
    spreads = np.maximum(spreads, np.sqrt(np.var((units.people @ slope)[is_asked]) / (labelled + 1)))
    if not spreads.any():
        raise DataError(f"{score.name}: people say the same of all these samples; label more of them")

    def left(labelled: Floats) -> float:
        """The variance that labels leave."""
        return float((sizes**2 * spreads**2 * (1 / labelled - 1 / sizes)).sum())

    floor = max(0.0, found.stderr**2 - left(np.maximum(labelled, 1)))

    def wanted(scale: float) -> Floats:
        return np.asarray(np.clip(np.ceil(scale * sizes * spreads), np.maximum(labelled, np.minimum(2, sizes)), sizes))

    def reached(scale: float) -> float:
        return 2 * Z95 * math.sqrt(floor + left(wanted(scale)))

    low, high = 0.0, 1 / max(float(spreads.min()), 1e-12)
    for _ in range(60):  # their proportion is halved
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) <= width else (middle, high)
    counts = zip(strata, sizes, labelled, wanted(high), strict=True)
    by_stratum = {name: (int(size), int(own), int(most - own)) for name, size, own, most in counts}
    return Plan(by_stratum, 2 * Z95 * found.stderr, reached(high))
