"""Accuracy beside perplexity, and with and without retrieval.

These are section 5.3 and figure 4 of the FACTOR paper, as tables. The report draws figures 2 to 4.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from lm_factuality.benchmarks.chosen import both_ways, figure, newest
from lm_factuality.benchmarks.declaration import ComparisonTable, Run
from lm_factuality.benchmarks.factor.corpus import PERPLEXITY_SUFFIX
from lm_factuality.benchmarks.factor.metrics import SCORES
from lm_factuality.benchmarks.pairs import RunPair, adjusted, compare, written
from lm_factuality.benchmarks.rows import Scored
from lm_factuality.ground.model_names import size_in_name
from lm_factuality.harness.outputs import number_of
from lm_factuality.scores.paired import normal_p

ACCURACY = SCORES[0]
# The score that is the perplexity per each unit, and the decimals that tables show of it.
_PERPLEXITIES = {"token": ("perplexity", 2), "byte": ("byte_perplexity", 3)}


class Estimate(NamedTuple):
    """A score with its standard error, if it is known."""

    value: float
    stderr: float | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """A model on a corpus."""

    task: str
    model: str
    accuracy: Estimate
    """In per cent."""

    perplexity: Mapping[str, Estimate] = field(default_factory=dict)
    """Per token and per byte, where it is known."""

    num_tokens: int | None = None
    """What the model's tokenizer makes of the corpus."""

    window: int | None = None
    size: float | None = None
    name: str = ""
    """The model's name in its results file."""

    variant: str = ""
    scored: Scored | None = None
    """What the rows contribute to the accuracy."""


@dataclass(frozen=True)
class Disagreement:
    """Two models of a corpus that perplexity and accuracy rank differently."""

    likelier: Point
    """It has the lower perplexity by each of the units."""

    righter: Point
    """It has the higher accuracy."""

    units: tuple[str, ...]
    gap: RunPair


class Gain(NamedTuple):
    """A model without and with retrieval, and by how much the accuracy differs."""

    without: Point
    with_it: Point
    pair: RunPair


def tables(runs: Sequence[Run]) -> list[ComparisonTable]:
    """Return perplexities on the same corpora, and gains by retrieval."""
    points, notes = points_of_runs(runs)
    for run in runs:
        if run.task.kind == "perplexity":
            notes += [f"{run.task.task}, {run.label}: {note}" for note in run.notes]
    result = list(_agreement(points, notes))
    if not result and notes:
        result.append(ComparisonTable("", (), (), notes))
    retrieval = gains(points)
    if retrieval:
        result.append(_gain_table(retrieval))
    return result


def points_of_runs(runs: Sequence[Run]) -> tuple[list[Point], list[str]]:
    """Return a point for each model and corpus with an accuracy by the authors' protocol.

    Returns:
        The points, and notes on runs that are in none.
    """
    accuracies, notes = newest(
        run for run in runs if run.task.kind == "factor" and not run.protocol
    )
    perplexities, more_notes = newest(run for run in runs if run.task.kind == "perplexity")
    by_corpus = {
        (run.task.task.removesuffix(PERPLEXITY_SUFFIX), run.label): run for run in perplexities
    }
    points = []
    for run in accuracies:
        accuracy = _estimate(run, "factor_acc", 100)
        if accuracy is None:
            continue
        perplexity_run = by_corpus.pop((run.task.task, run.label), None)
        task = perplexity_run.task if perplexity_run else None
        num_tokens = number_of(task.metrics.get("num_tokens")) if task else None
        point = Point(
            run.task.task,
            run.label,
            accuracy,
            _perplexity_of(perplexity_run) if perplexity_run else {},
            None if num_tokens is None else int(num_tokens),
            task.metadata.get("window_used") if task else None,
            run.file.num_parameters or size_in_name(run.file.model),
            run.file.model,
            run.file.variant,
            run.scored.get("factor_acc"),
        )
        points.append(point)
    for (corpus, label), run in by_corpus.items():
        values = _perplexity_of(run)
        token, byte = (
            f"{values[unit].value:.{digits}f}" if unit in values else "none"
            for unit, (_, digits) in _PERPLEXITIES.items()
        )
        more_notes.append(
            f"{run.task.task}, {label}: perplexity {token}, per byte {byte}; no accuracy on"
            f" {corpus} to go with it"
        )
    return sorted(points, key=lambda point: (point.task, point.model)), [*notes, *more_notes]


def _estimate(run: Run, metric: str, times: float = 1) -> Estimate | None:
    score = figure(run.task, metric)
    if score is None:
        return None
    stderr = None if score.stderr is None else times * score.stderr
    return Estimate(times * score.value, stderr)


def _perplexity_of(run: Run) -> dict[str, Estimate]:
    estimates = {unit: _estimate(run, name) for unit, (name, _) in _PERPLEXITIES.items()}
    return {unit: estimate for unit, estimate in estimates.items() if estimate is not None}


def tau(points: Sequence[Point], unit: str) -> tuple[float | None, int]:
    """Compute Kendall's tau-b of accuracy and perplexity.

    Returns:
        1 for the same ranking (the lower perplexity, the higher accuracy) and -1 for the reverse,
        None below two models or if all are tied; and the number of models.
    """
    # It takes long to import, and every command reads the registry of benchmarks.
    from scipy.stats import kendalltau

    pairs = [
        (-point.perplexity[unit].value, point.accuracy.value)
        for point in points
        if unit in point.perplexity
    ]
    if len(pairs) < 2:
        return None, len(pairs)
    value = float(kendalltau(*zip(*pairs, strict=True), variant="b").statistic)
    return (value if math.isfinite(value) else None), len(pairs)


def difference(first: Point, second: Point) -> RunPair:
    """Compare the accuracies of two models.

    Returns:
        The accuracy of the first minus that of the second. It is paired by row and clustered by
        document if both runs kept the rows that their accuracies are of. Otherwise ``n`` is 0, and
        the standard error is that of independent samples, which for two models on the same rows is
        too cautious, or None where one is not known.
    """
    a = first.accuracy
    b = second.accuracy
    if first.scored and second.scored:
        pair = compare(first.scored, second.scored, ACCURACY)
        if pair and math.isclose(100 * pair.difference, a.value - b.value, abs_tol=1e-6):
            return pair
    value = (a.value - b.value) / 100
    stderr = p = None
    if a.stderr is not None and b.stderr is not None:
        stderr = math.hypot(a.stderr, b.stderr) / 100
        p = normal_p(value, stderr)
    return RunPair(a.value / 100, b.value / 100, value, stderr, p, 0)


def disagreements(points: Sequence[Point]) -> list[Disagreement]:
    """Return every pair of models of one corpus that perplexity and accuracy rank differently.

    The p-values are corrected for all pairs of the corpus.
    """
    result = []
    for members in _by_task(points).values():
        pairs = {
            (first, second): difference(first, second)
            for first, second in permutations(members, 2)
            if first.accuracy.value > second.accuracy.value
        }
        for (righter, likelier), gap in adjusted(pairs).items():
            units = []
            for unit in _PERPLEXITIES:
                low = likelier.perplexity.get(unit)
                high = righter.perplexity.get(unit)
                if low and high and low.value < high.value:
                    units.append(unit)
            if units:
                result.append(Disagreement(likelier, righter, tuple(units), gap))
    return result


def _by_task(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Return the points of each corpus that have a perplexity."""
    by_task: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        if point.perplexity:
            by_task[point.task].append(point)
    return by_task


def gains(points: Sequence[Point]) -> list[Gain]:
    """Return every model that was run with and without retrieval, small ones first.

    The p-values are corrected for all models of a corpus.
    """
    in_order = sorted(points, key=lambda point: (point.task, point.size or 0, point.model))
    by_task: dict[str, dict[tuple[str, str], Point]] = defaultdict(dict)
    for point in in_order:
        by_task[point.task][point.name, point.variant] = point
    result: list[Gain] = []
    for members in by_task.values():
        pairs = {
            (without, with_it): difference(with_it, without)
            for without, with_it in both_ways(members)
        }
        result += [Gain(*runs, pair) for runs, pair in adjusted(pairs).items()]
    return result


_TAU = (
    "Kendall's tau-b of perplexity and accuracy: 1 if the lower perplexity always goes with the"
    " higher accuracy, -1 if never."
)
_AGREEMENT_COLUMNS = (
    "task",
    "model",
    "#factor_acc",
    "#perplexity",
    "#byte perplexity",
    "#tokens",
)
_PAIR_COLUMNS = (
    "task",
    "lower perplexity",
    "higher accuracy",
    "#perplexities",
    "#byte perplexities",
    "#accuracies",
    "#difference",
    "#p",
    "#p, Holm",
    "by perplexity per",
)
_PAIR_NOTE = (
    "Differences in percentage points, with one standard error: paired by row and clustered by"
    " document where both runs kept the samples of the same rows (--log_samples), unpaired"
    " otherwise. Holm's correction is for all pairs of a corpus."
)
_GAIN_COLUMNS = (
    "task",
    "model",
    "#without",
    "#with retrieval",
    "#gain",
    "#95% interval",
    "#p",
    "#p, Holm",
    "#detectable",
)


def _agreement(points: Sequence[Point], notes: Sequence[str]) -> Iterator[ComparisonTable]:
    """Show how far perplexity and accuracy rank models alike, and every pair that they do not."""
    rows = []
    taus = [_TAU]
    pairs: list[Disagreement] = []
    for task, members in _by_task(points).items():
        for point in sorted(members, key=lambda point: -point.accuracy.value):
            numbers = [
                _with_stderr(point.perplexity.get(unit), digits)
                for unit, (_, digits) in _PERPLEXITIES.items()
            ]
            num_tokens = "" if point.num_tokens is None else f"{point.num_tokens:,}"
            accuracy = _with_stderr(point.accuracy, 1)
            rows.append((task, point.model, accuracy, *numbers, num_tokens))
        for unit in _PERPLEXITIES:
            value, count = tau(members, unit)
            if value is not None:
                taus.append(f"{task}: {value:.2f} over {count} models, perplexity per {unit}")
        taus += [f"{task}: {caution}" for caution in _cautions(members)]
        pairs += disagreements(members)
    if not rows:
        return
    if not pairs:
        taus.append("No pair of models on which the two disagree.")
    heading = "\nAccuracy and perplexity on one corpus, as measured"
    yield ComparisonTable(heading, _AGREEMENT_COLUMNS, rows, [*taus, *notes])
    if pairs:
        heading = f"\nPairs of models on which the two disagree, as measured: {len(pairs)}"
        yield ComparisonTable(
            heading, _PAIR_COLUMNS, [_pair_row(pair) for pair in pairs], [_PAIR_NOTE]
        )


def _with_stderr(estimate: Estimate | None, digits: int) -> str:
    if estimate is None:
        return ""
    error = "" if estimate.stderr is None else f" ± {estimate.stderr:.{digits}f}"
    return f"{estimate.value:.{digits}f}{error}"


def _cautions(points: Sequence[Point]) -> Iterator[str]:
    counts = {point.num_tokens for point in points}
    windows = {point.window for point in points}
    if None in counts:
        yield (
            "perplexities per token compare only models of one tokenizer, and not all token counts"
            " are known"
        )
    elif len(counts) > 1:
        yield (
            "token counts differ, so models have different tokenizers and only perplexities per"
            " byte compare all of them"
        )
    if len(windows) > 1:
        yield f"windows differ: {', '.join(sorted(map(str, windows)))} tokens"


def _pair_row(pair: Disagreement) -> tuple[str, ...]:
    likelier = pair.likelier
    righter = pair.righter
    gap = pair.gap
    numbers = []
    for unit, (_, digits) in _PERPLEXITIES.items():
        values = [point.perplexity.get(unit) for point in (likelier, righter)]
        texts = [f"{value.value:.{digits}f}" for value in values if value is not None]
        numbers.append(" vs ".join(texts) if len(texts) == 2 else "")
    stderr = None if gap.stderr is None else 100 * gap.stderr
    _, _, p, p_adjusted, _ = written(gap, ACCURACY)
    return (
        likelier.task,
        likelier.model,
        righter.model,
        *numbers,
        f"{likelier.accuracy.value:.1f} vs {righter.accuracy.value:.1f}",
        _with_stderr(Estimate(100 * gap.difference, stderr), 1),
        p or "unknown",
        p_adjusted,
        " and ".join(pair.units),
    )


def _gain_table(retrieval: Sequence[Gain]) -> ComparisonTable:
    rows = []
    for without, with_it, pair in retrieval:
        accuracies = [_with_stderr(point.accuracy, 1) for point in (without, with_it)]
        rows.append((with_it.task, with_it.model, *accuracies, *written(pair, ACCURACY)))
    note = "Paired by row, in percentage points; Holm's correction is for all models of a task."
    return ComparisonTable("\nAccuracy with and without retrieval", _GAIN_COLUMNS, rows, [note])
