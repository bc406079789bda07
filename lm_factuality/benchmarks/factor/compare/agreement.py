"""Do perplexity and FACTOR accuracy rank models alike (section 5.3 of the FACTOR paper), and what
does retrieval gain each (section 5.2 and figure 4)?"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, permutations
from typing import Any, NamedTuple

from lm_factuality.benchmarks.chosen import both_ways, figure, newest
from lm_factuality.benchmarks.declaration import Published, Run
from lm_factuality.benchmarks.factor.corpus import PERPLEXITY_SUFFIX as PERPLEXITY
from lm_factuality.benchmarks.factor.metrics import SCORES
from lm_factuality.benchmarks.pairs import Pair, adjusted, compare
from lm_factuality.benchmarks.rows import Scored
from lm_factuality.ground.model_names import size_in_name
from lm_factuality.harness.outputs import number_of
from lm_factuality.scores.paired import normal_p

TOKEN, BYTE = "token", "byte"
ACCURACY_SCORE = SCORES[0]


@dataclass(frozen=True)
class Point:
    """A model on a corpus: accuracy in percent beside perplexity, None where not known. ``ends``
    are those of the accuracy's 95% interval, ``num_tokens`` is what its tokenizer makes of the
    corpus, ``name`` and ``variant`` are those of its results file, and ``scored`` has what the rows
    contribute to the accuracy."""

    task: str
    model: str
    accuracy: float
    stderr: float | None = None
    ends: tuple[float, float] | None = None
    perplexity: float | None = None
    perplexity_stderr: float | None = None
    byte_perplexity: float | None = None
    byte_stderr: float | None = None
    num_tokens: int | None = None
    window: int | None = None
    size: float | None = None
    name: str = ""
    variant: str = ""
    scored: Scored | None = None

    def by(self, unit: str) -> float | None:
        return self.perplexity if unit == TOKEN else self.byte_perplexity


@dataclass(frozen=True)
class Disagreement:
    """``likelier`` has the lower perplexity by each of ``units``, yet ``righter`` the higher
    accuracy, by ``gap``."""

    likelier: Point
    righter: Point
    units: tuple[str, ...]
    gap: Pair


def points_of_runs(runs: Sequence[Run]) -> tuple[list[Point], list[str]]:
    """A point for each model and corpus with an accuracy by the authors' protocol, with its
    perplexity if known; and notes."""
    accuracies, notes = newest(
        run for run in runs if run.task.kind == "factor" and not run.protocol
    )
    perplexities, more = newest(run for run in runs if run.task.kind == "perplexity")
    beside = {(run.task.task, run.label): run for run in perplexities}
    points = []
    for run in accuracies:
        accuracy = figure(run.task, "factor_acc")
        if accuracy is None:
            continue
        stderr = None if accuracy.stderr is None else 100 * accuracy.stderr
        ends = (
            None
            if accuracy.low is None or accuracy.high is None
            else (100 * accuracy.low, 100 * accuracy.high)
        )
        about: dict[str, Any] = {
            "name": run.file.model,
            "variant": run.file.variant,
            "scored": run.scored.get("factor_acc"),
        }
        about["size"] = run.file.num_parameters or size_in_name(run.file.model)
        if other := beside.get((run.task.task + PERPLEXITY, run.label)):
            about |= _perplexity_of(other)
        points.append(Point(run.task.task, run.label, 100 * accuracy.value, stderr, ends, **about))
    have = {(point.task + PERPLEXITY, point.model) for point in points}
    for key, other in beside.items():
        if key not in have:
            found = Point(other.task.task, other.label, 0.0, **_perplexity_of(other))
            shown = "none" if found.perplexity is None else f"{found.perplexity:.2f}"
            per_byte = "none" if found.byte_perplexity is None else f"{found.byte_perplexity:.3f}"
            corpus = other.task.task.removesuffix(PERPLEXITY)
            what = f"perplexity {shown}, per byte {per_byte}; no accuracy on {corpus} to go with it"
            more.append(f"{other.task.task}, {other.label}: {what}")
    return sorted(points, key=lambda point: (point.task, point.model)), [*notes, *more]


def _perplexity_of(run: Run) -> dict[str, Any]:
    token, byte = figure(run.task, "perplexity"), figure(run.task, "byte_perplexity")
    tokens = number_of(run.task.metrics.get("num_tokens"))
    return {
        "perplexity": token and token.value,
        "perplexity_stderr": token and token.stderr,
        "byte_perplexity": byte and byte.value,
        "byte_stderr": byte and byte.stderr,
        "num_tokens": None if tokens is None else int(tokens),
        "window": run.task.metadata.get("window_used"),
    }


def points_of_figures(figures: Sequence[Published]) -> list[Point]:
    """The same for published figures: of each model and corpus the accuracy, and the perplexity if
    it is among them."""
    own = (each for each in figures if not each.protocol and not each.decoding)
    values = {(each.task, each.model, each.metric): each.value for each in own}
    return [
        Point(
            task,
            model,
            value,
            size=size_in_name(model),
            perplexity=values.get((task + PERPLEXITY, model, "perplexity")),
            byte_perplexity=values.get((task + PERPLEXITY, model, "byte_perplexity")),
        )
        for (task, model, metric), value in values.items()
        if metric == "factor_acc"
    ]


def by_task(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The points of each corpus that have a perplexity."""
    found: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        if point.perplexity is not None or point.byte_perplexity is not None:
            found[point.task].append(point)
    return dict(found)


def tau(points: Sequence[Point], unit: str) -> tuple[float | None, int]:
    """Kendall's tau-b of accuracy and perplexity, signed so that 1 means the same ranking (the
    lower perplexity, the higher accuracy) and -1 the reverse, and the number of models it is over;
    None below two models, or if all are tied."""
    from scipy.stats import (
        kendalltau,
    )  # takes long to import, and every command reads the registry of benchmarks

    both = [(-value, point.accuracy) for point in points if (value := point.by(unit)) is not None]
    if len(both) < 2:
        return None, len(both)
    found = float(kendalltau(*zip(*both, strict=True), variant="b").statistic)
    return (found if math.isfinite(found) else None), len(both)


def difference(one: Point, other: Point) -> Pair:
    """The accuracy of the first minus that of the second: paired by row and clustered by document
    if both runs kept the rows that their accuracies are of; otherwise (``n`` is 0) as if of
    independent samples, which for two models on the same rows is too cautious, or without an error
    where one is not known."""
    if one.scored and other.scored:
        pair = compare(one.scored, other.scored, ACCURACY_SCORE)
        if pair and math.isclose(
            100 * pair.difference, one.accuracy - other.accuracy, abs_tol=1e-6
        ):
            return pair
    value, stderr = (one.accuracy - other.accuracy) / 100, None
    if one.stderr is not None and other.stderr is not None:
        stderr = math.hypot(one.stderr, other.stderr) / 100
    p = None if stderr is None else normal_p(value, stderr)
    return Pair(one.accuracy / 100, other.accuracy / 100, value, stderr, p, 0, 0, 0)


def disagreements(points: Sequence[Point]) -> list[Disagreement]:
    """Every pair of models of one corpus of which one has the lower perplexity, per token or per
    byte, and the other the higher accuracy; p-values are corrected for all pairs of the corpus."""
    found = []
    for members in by_task(points).values():
        pairs = {
            (one, other): difference(one, other)
            for one, other in permutations(members, 2)
            if one.accuracy > other.accuracy
        }
        for (righter, likelier), gap in adjusted(pairs).items():
            by_unit = {unit: (likelier.by(unit), righter.by(unit)) for unit in (TOKEN, BYTE)}
            units = tuple(
                unit
                for unit, (low, high) in by_unit.items()
                if low is not None and high is not None and low < high
            )
            if units:
                found.append(Disagreement(likelier, righter, units, gap))
    return found


class Gain(NamedTuple):
    """A model with and without retrieval; ``pair`` is the accuracy with it minus the accuracy
    without."""

    without: Point
    with_it: Point
    pair: Pair


def gains(points: Sequence[Point]) -> list[Gain]:
    """Every model that was run both ways, small ones first; p-values are corrected for all models
    of a corpus."""
    found: list[Gain] = []
    in_order = sorted(points, key=lambda point: (point.task, point.size or 0, point.model))
    for _, here in groupby(in_order, lambda point: point.task):
        runs = both_ways({(point.name, point.variant): point for point in here})
        pairs = {(without, with_it): difference(with_it, without) for without, with_it in runs}
        found += [Gain(*both, pair) for both, pair in adjusted(pairs).items()]
    return found
