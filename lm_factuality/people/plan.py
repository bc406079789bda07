"""How many labels bring the interval of a corrected score to a width, and from which strata to draw them (Neyman, 1934).

To the first order the variance of a corrected score (``lm_factuality.ground.ppi``) is the one that all labels would leave, since
the samples are some of many, and for each stratum of N units with n labels N² (1/n - 1/N) times the variance of what people
say minus lambda times what the judge says. The fewest labels are in proportion to N and the root of that variance.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lm_factuality.benchmarks.certifiable import mapping, whole_scores
from lm_factuality.benchmarks.declaration import Benchmark, Score
from lm_factuality.benchmarks.pairs import Scored, row_of, stderr_of, value_of
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.paired import Floats, slopes
from lm_factuality.ground.ppi import estimate
from lm_factuality.ground.statistics import Z95
from lm_factuality.harness.outputs import TaskResult, number_of
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.correct import Row, units_of
from lm_factuality.people.draw import stratum_of
from lm_factuality.people.units import units_of_run


@dataclass(frozen=True)
class Plan:
    """By stratum how many units there are, have labels, and should get some. ``now`` is the width of the interval (None without
    labels), ``reached`` the one with all these labels; ``basis`` says what the judge's errors are taken from."""

    strata: Mapping[str, tuple[int, int, int]]
    now: float | None
    reached: float
    basis: str


def plan_more(rows: Sequence[Row], score: Score, width: float) -> Plan:
    """With the variances in ``rows`` that people have labelled in part.

    Raises:
        DataError: their labels do not give the score an interval.
    """
    units = units_of(rows, score.name)
    is_asked = units.labelled & np.array([row.is_asked for row in rows])
    value = value_of(score, units.judged.shape[1])
    found = estimate(units, value)
    if found is None or is_asked.sum() < 2:
        raise DataError(f"{score.name}: not defined on these labels; label more of the sheet's samples, or plan without labels")
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
        raise DataError(f"{score.name}: people say the same of all these samples; label more of them, or plan without labels")
    floor = max(0.0, found.stderr**2 - _left(sizes, spreads, np.maximum(labelled, 1)))
    return _plan(tuple(strata), sizes, labelled, spreads, floor, width, 2 * Z95 * found.stderr, "what people said so far")


def plan_first(
    benchmark: Benchmark, task: TaskResult, score: Score, by: Sequence[str], error: float | None, width: float
) -> Plan:
    """Without labels: ``error`` is the share of items on which the judge is wrong, one independently of another and everywhere
    alike; None for that of its certificate.

    Raises:
        ConfigError: there is no error to go by, or no stratum ``by`` that name.
        DataError: the score is none of means or shares of items.
    """
    if error is not None and not 0 < error < 1:
        raise ConfigError(f"--error {error:g}: expected a share between 0 and 1")
    basis, error = ("--error", error) if error else ("its certificate", _certified(benchmark, task, score.name))
    if not error or task.samples is None or benchmark.samples is None:
        raise ConfigError(f"{task.task}: no certificate of its judge for {score.name}; give --error, or --key and --labels")
    rows = [row_of(task, benchmark.samples, each) for each in read_samples(task.samples)]
    scored = Scored({row.key: (row.cluster, row.parts[score.name]) for row in rows if score.name in row.parts})
    stderr = stderr_of(scored, score)
    if stderr is None or scored.counts.shape[1] != 2:
        raise DataError(f"{score.name}: no mean or share over several samples; label some of them, and give --key and --labels")
    variances: dict[str, list[float]] = defaultdict(list)
    for row, unit in zip(rows, units_of_run(benchmark, task, task.task), strict=True):
        if unknown := next((name for name in by if name not in unit.strata), None):
            raise ConfigError(f"--stratify {unknown!r}: expected some of {', '.join(unit.strata)}")
        if unit.items:
            weight = row.parts.get(score.name, (0.0, 0.0))[1] / scored.counts[:, 1].sum()
            variances[stratum_of(unit, by)].append(weight**2 * error * (1 - error) / len(unit.items))
    sizes = np.array([len(each) for each in variances.values()])
    spreads = np.sqrt([np.mean(each) for each in variances.values()])
    basis = f"a judge that is wrong on {error:.1%} of items ({basis}), on one as likely as on another"
    return _plan(tuple(variances), sizes, 0 * sizes, spreads, stderr**2, width, None, basis)


def _certified(benchmark: Benchmark, task: TaskResult, metric: str) -> float | None:
    """The share of items that the judge has wrong in the certificate of the step that decides them."""
    for step in benchmark.judged_steps:
        if metric in step.rates and (found := step.certificate(task.metadata)):
            scores = mapping(whole_scores(found[1]).get(step.rates[metric]))
            tp, fp, fn, tn = (number_of(scores.get(name)) or 0.0 for name in ("tp", "fp", "fn", "tn"))
            return (fp + fn) / (tp + fp + fn + tn) if tp + fp + fn + tn else None
    return None


def _left(sizes: Floats, spreads: Floats, labelled: Floats) -> float:
    """The variance that labels leave."""
    return float((sizes**2 * spreads**2 * (1 / labelled - 1 / sizes)).sum())


def _plan(
    names: Sequence[str],
    sizes: Floats,
    labelled: Floats,
    spreads: Floats,
    floor: float,
    width: float,
    now: float | None,
    basis: str,
) -> Plan:
    """The fewest labels, found by halving their proportion; all of them where even these do not do."""

    def wanted(scale: float) -> Floats:
        return np.clip(np.ceil(scale * sizes * spreads), np.maximum(labelled, np.minimum(2, sizes)), sizes)

    def reached(scale: float) -> float:
        return 2 * Z95 * math.sqrt(floor + _left(sizes, spreads, wanted(scale)))

    low, high = 0.0, 1 / max(float(spreads.min()), 1e-12)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) <= width else (middle, high)
    counts = zip(names, sizes, labelled, wanted(high), strict=True)
    return Plan({name: (int(size), int(own), int(most - own)) for name, size, own, most in counts}, now, reached(high), basis)
