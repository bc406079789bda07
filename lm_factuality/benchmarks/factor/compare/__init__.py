"""Accuracy beside perplexity (section 5.3 and figure 2 of the FACTOR paper), by the size of models
(figure 3), and with and without retrieval (figure 4), as tables and as plots with 95% intervals.
``agreement`` asks whether perplexity and accuracy rank models alike, and what retrieval gains.

In plots families share a colour; what was run in another way (with retrieval, another decoding) has
a line of its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lm_factuality.benchmarks.chosen import series
from lm_factuality.benchmarks.declaration import Published, Run, Table
from lm_factuality.benchmarks.factor.compare import agreement
from lm_factuality.benchmarks.factor.compare.agreement import (
    ACCURACY_SCORE,
    BYTE,
    TOKEN,
    Disagreement,
    Gain,
    Point,
)
from lm_factuality.benchmarks.pairs import Pair, written
from lm_factuality.ground import plots
from lm_factuality.ground.model_names import family, short_name, size_label
from lm_factuality.ground.plots import Dot, dots, save_figure, scatter
from lm_factuality.scores.statistics import score_interval

_TAU = (
    "Kendall's tau-b of perplexity and accuracy: 1 if the lower perplexity always goes with the"
    " higher accuracy, -1 if never."
)


def tables(runs: Sequence[Run], figures: Sequence[Published], source: str) -> list[Table]:
    """Perplexities on the same corpora, and gains by retrieval; the published ones out of
    ``source``."""
    found: list[Table] = []
    measured, notes = agreement.points_of_runs(runs)
    notes += [
        f"{run.task.task}, {run.label}: {note}"
        for run in runs
        if run.task.kind == "perplexity"
        for note in run.notes
    ]
    if agreement.by_task(measured):
        found += _agreement("as measured", measured, notes)
    elif notes:
        found.append(Table("", (), (), notes))
    if gains := agreement.gains(measured):
        found.append(_gain_table(gains))
    published = agreement.points_of_figures(figures)
    if agreement.by_task(published):
        found += _agreement("as published", published, [f"All from {source}"])
    return found


def _with_stderr(value: float | None, stderr: float | None, digits: int) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}f}" + ("" if stderr is None else f" ± {stderr:.{digits}f}")


def _agreement(title: str, points: Sequence[Point], notes: Sequence[str]) -> Iterator[Table]:
    """Perplexities beside accuracies, how far the two rank models alike, and every pair on which
    they do not."""
    groups = agreement.by_task(points)
    rows, taus = [], [_TAU]
    for task, members in groups.items():
        for point in sorted(members, key=lambda point: -point.accuracy):
            likely = (
                (point.perplexity, point.perplexity_stderr, 2),
                (point.byte_perplexity, point.byte_stderr, 3),
            )
            numbers = [_with_stderr(*each) for each in ((point.accuracy, point.stderr, 1), *likely)]
            rows.append(
                (
                    task,
                    point.model,
                    *numbers,
                    "" if point.num_tokens is None else f"{point.num_tokens:,}",
                )
            )
        for unit in (TOKEN, BYTE):
            value, count = agreement.tau(members, unit)
            if value is not None:
                taus.append(f"{task}: {value:.2f} over {count} models, perplexity per {unit}")
        taus += [f"{task}: {warning}" for warning in _cautions(members)]
    pairs = [pair for members in groups.values() for pair in agreement.disagreements(members)]
    taus += [] if pairs else ["No pair of models on which the two disagree."]
    columns = ("task", "model", "#factor_acc", "#perplexity", "#byte perplexity", "#tokens")
    yield Table(f"\nAccuracy and perplexity on one corpus, {title}", columns, rows, [*taus, *notes])
    if pairs:
        title = f"\nPairs of models on which the two disagree, {title}: {len(pairs)}"
        yield Table(title, _PAIR_COLUMNS, [_pair_row(pair) for pair in pairs], [_HOW])


_PAIR_COLUMNS = (
    *(
        "task",
        "lower perplexity",
        "higher accuracy",
        "#perplexities",
        "#byte perplexities",
        "#accuracies",
    ),
    *("#difference", "#p", "#p, Holm", "by perplexity per"),
)
_HOW = (
    "Differences in percentage points, with one standard error: paired by row and clustered by"
    " document where both runs kept the samples of the same rows (--log_samples), unpaired"
    " otherwise. Holm's correction is for all pairs of a corpus."
)
_GAINS = (
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


def _gain_table(found: Sequence[Gain]) -> Table:
    def row(without: Point, with_it: Point, pair: Pair) -> tuple[str, ...]:
        accuracies = (_with_stderr(point.accuracy, point.stderr, 1) for point in (without, with_it))
        return with_it.task, with_it.model, *accuracies, *written(pair, ACCURACY_SCORE)

    note = "Paired by row, in percentage points; Holm's correction is for all models of a task."
    return Table(
        "\nAccuracy with and without retrieval", _GAINS, [row(*gain) for gain in found], [note]
    )


def _cautions(points: Sequence[Point]) -> list[str]:
    found = []
    counts, all_alike = (
        {point.num_tokens for point in points},
        "only perplexities per byte compare all of them",
    )
    if None in counts:
        found.append(
            "perplexities per token compare only models of one tokenizer, and not all token counts"
            " are known"
        )
    elif len(counts) > 1:
        found.append(f"token counts differ, so models have different tokenizers and {all_alike}")
    if len(windows := {point.window for point in points}) > 1:
        found.append(f"windows differ: {', '.join(sorted(map(str, windows)))} tokens")
    return found


def _pair_row(pair: Disagreement) -> tuple[str, ...]:
    one, other, gap = pair.likelier, pair.righter, pair.gap
    _, _, p, adjusted, _ = written(gap, ACCURACY_SCORE)
    shown = (("perplexity", 2), ("byte_perplexity", 3), ("accuracy", 1))
    numbers = [(getattr(one, name), getattr(other, name), digits) for name, digits in shown]
    both = [
        "" if a is None or b is None else f"{a:.{digits}f} vs {b:.{digits}f}"
        for a, b, digits in numbers
    ]
    difference = _with_stderr(
        100 * gap.difference, None if gap.stderr is None else 100 * gap.stderr, 1
    )
    return (
        one.task,
        one.model,
        other.model,
        *both,
        difference,
        p or "unknown",
        adjusted,
        " and ".join(pair.units),
    )


_ACCURACY = "FACTOR accuracy, %"


def draw(
    runs: Sequence[Run], figures: Sequence[Published], folder: Path, ending: str
) -> tuple[list[Path], list[str]]:
    """Figures 2 to 4, as measured or, without runs, as published: writes ``TASK_by_perplexity``,
    ``TASK_by_size`` and, where models were run both ways, ``TASK_retrieval_gain`` for each corpus
    into ``folder``; returns the files and a note on every model whose size is not known. A plot of
    an earlier call is replaced. Raises DataError: ``folder`` cannot be written to."""
    points = agreement.points_of_runs(runs)[0] or agreement.points_of_figures(figures)
    written, notes = [], []
    for task in sorted({point.task for point in points}):
        here = [point for point in points if point.task == task]
        drawn = {}
        likely = [(point, dot) for point in here if (dot := _perplexity(point))]
        if likely:
            drawn["by_perplexity"] = scatter(
                task, "perplexity per token", _ACCURACY, [_point(*each) for each in likely]
            )
        sized = [_point(point, Dot(point.size)) for point in here if point.size is not None]
        if sized:
            drawn["by_size"] = scatter(task, "parameters", _ACCURACY, sized, by_size=True)
        if gained := agreement.gains(here):
            rows = [
                (
                    (
                        f"{short_name(gain.with_it.model)}: {gain.without.accuracy:.1f} to"
                        f" {gain.with_it.accuracy:.1f}"
                    ),
                    {
                        "gain": Dot(
                            100 * gain.pair.difference,
                            *(end and 100 * end for end in (gain.pair.low, gain.pair.high)),
                        )
                    },
                )
                for gain in gained
            ]
            drawn["retrieval_gain"] = dots(
                task, "gain by retrieval, points", rows, ["gain"], ("", 0)
            )
        for name, plot in drawn.items():
            plot.figure.suptitle(task, fontsize=11)
            written.append(save_figure(plot.figure, folder / f"{task}_{name}.{ending}"))
        unsized = [each.model for each in here if each.size is None]
        notes += [
            f"{task}, {model}: its size is not known, so it is not drawn by size"
            for model in unsized
        ]
    return written, notes


def _point(point: Point, x: Dot) -> plots.Point:
    label = size_label(point.size) if point.size else short_name(point.model)
    return plots.Point(
        label,
        series(family(point.model), point.variant),
        x,
        Dot(point.accuracy, *(point.ends or ())),
    )


def _perplexity(point: Point) -> Dot | None:
    value, stderr = point.perplexity, point.perplexity_stderr
    return (
        None
        if value is None
        else Dot(value, *((stderr and score_interval(value, stderr, low=1)) or ()))
    )
