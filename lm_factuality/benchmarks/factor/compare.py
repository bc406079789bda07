"""Accuracy beside perplexity, and with and without retrieval.

These are section 5.3 and figure 4 of the FACTOR paper, as tables. The report draws figures 2 and 3.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

from lm_factuality.benchmarks.chosen import (
    ScoreFigure,
    newest_runs,
    pairs_without_and_with_retrieval,
    score_figure,
)
from lm_factuality.benchmarks.declaration import ComparisonTable, Run
from lm_factuality.benchmarks.factor.corpus import PERPLEXITY_SUFFIX
from lm_factuality.benchmarks.factor.metrics import SCORES
from lm_factuality.benchmarks.pairs import (
    PairedDifference,
    adjust_p_values,
    format_difference,
    paired_difference,
)
from lm_factuality.harness.outputs import number_of

ACCURACY = SCORES[0]
# The score that is the perplexity per each unit, and the decimals that tables show of it.
_PERPLEXITIES = {"token": ("perplexity", 2), "byte": ("byte_perplexity", 3)}


@dataclass(frozen=True, eq=False)
class ModelOnCorpus:
    """A model's run on the rows of a corpus, and its run on the documents behind them."""

    run: Run
    accuracy: ScoreFigure
    perplexity_run: Run | None = None

    @property
    def task(self) -> str:
        """The name of the FACTOR task."""
        return self.run.task.task

    @property
    def model(self) -> str:
        """What tables call the model."""
        return self.run.label

    @property
    def num_tokens(self) -> int | None:
        """What the model's tokenizer makes of the documents."""
        metrics = self.perplexity_run.task.metrics if self.perplexity_run else {}
        count = number_of(metrics.get("num_tokens"))
        return None if count is None else int(count)

    def perplexity(self, unit: str) -> ScoreFigure | None:
        """Return the perplexity per token or byte, if it is known."""
        run = self.perplexity_run
        return score_figure(run.task, _PERPLEXITIES[unit][0]) if run else None


class Disagreement(NamedTuple):
    """Two models of a corpus that perplexity and accuracy rank differently."""

    likelier: ModelOnCorpus
    """It has the lower perplexity by each of the units."""

    righter: ModelOnCorpus
    """It has the higher accuracy."""

    units: tuple[str, ...]
    gap: PairedDifference


class RetrievalGain(NamedTuple):
    """A model without and with retrieval, and by how much the accuracy differs."""

    without: ModelOnCorpus
    with_it: ModelOnCorpus
    pair: PairedDifference


def tables(runs: Sequence[Run]) -> list[ComparisonTable]:
    """Return perplexities on the same corpora, and gains by retrieval."""
    points, notes = points_of_runs(runs)
    for run in runs:
        if run.task.kind == "perplexity":
            notes += [f"{run.task.task}, {run.label}: {note}" for note in run.notes]
    result = list(_agreement_tables(points, notes))
    if not result and notes:
        result.append(ComparisonTable("", (), (), notes))
    retrieval = gains(points)
    if retrieval:
        result.append(_gain_table(retrieval))
    return result


def points_of_runs(runs: Sequence[Run]) -> tuple[list[ModelOnCorpus], list[str]]:
    """Return each model on each corpus with an accuracy by the authors' protocol.

    Returns:
        The models, and notes on runs that are in none.
    """
    accuracies, notes = newest_runs(
        run for run in runs if run.task.kind == "factor" and not run.protocol
    )
    perplexities, more_notes = newest_runs(run for run in runs if run.task.kind == "perplexity")
    by_corpus = {
        (run.task.task.removesuffix(PERPLEXITY_SUFFIX), run.label): run for run in perplexities
    }
    points = []
    for run in accuracies:
        accuracy = score_figure(run.task, ACCURACY.name)
        if accuracy is not None:
            perplexity_run = by_corpus.pop((run.task.task, run.label), None)
            points.append(ModelOnCorpus(run, accuracy, perplexity_run))
    for (corpus, label), run in by_corpus.items():
        token, byte = (
            _with_stderr(score_figure(run.task, name), digits).partition(" ")[0] or "none"
            for name, digits in _PERPLEXITIES.values()
        )
        more_notes.append(
            f"{run.task.task}, {label}: perplexity {token}, per byte {byte}; no accuracy on"
            f" {corpus} to go with it"
        )
    return sorted(points, key=lambda point: (point.task, point.model)), [*notes, *more_notes]


def tau(points: Sequence[ModelOnCorpus], unit: str) -> tuple[float | None, int]:
    """Compute Kendall's tau-b of accuracy and perplexity.

    Returns:
        1 for the same ranking (the lower perplexity, the higher accuracy) and -1 for the reverse,
        None below two models or if all are tied; and the number of models.
    """
    # It takes long to import, and every command reads the registry of benchmarks.
    from scipy.stats import kendalltau

    pairs = []
    for point in points:
        perplexity = point.perplexity(unit)
        if perplexity:
            pairs.append((-perplexity.value, point.accuracy.value))
    if len(pairs) < 2:
        return None, len(pairs)
    value = float(kendalltau(*zip(*pairs, strict=True), variant="b").statistic)
    return (value if math.isfinite(value) else None), len(pairs)


def difference(first: ModelOnCorpus, second: ModelOnCorpus) -> PairedDifference:
    """Compare the accuracies of two models.

    Returns:
        The accuracy of the first minus that of the second. It is paired by row and clustered by
        document if both runs kept the rows that their accuracies are of. Otherwise ``n`` is 0, and
        nothing is known of its uncertainty.
    """
    a = first.accuracy.value
    b = second.accuracy.value
    rows = [point.run.scored_rows.get(ACCURACY.name) for point in (first, second)]
    if rows[0] and rows[1]:
        pair = paired_difference(rows[0], rows[1], ACCURACY)
        if pair and math.isclose(pair.difference, a - b, abs_tol=1e-8):
            return pair
    return PairedDifference(a, b, a - b, stderr=None, p_value=None, shared_rows=0)


def disagreements(points: Sequence[ModelOnCorpus]) -> list[Disagreement]:
    """Return every pair of models of one corpus that perplexity and accuracy rank differently.

    The p-values are corrected for all pairs of the corpus.
    """
    pairs = {
        (first, second): difference(first, second)
        for first, second in permutations(points, 2)
        if first.accuracy.value > second.accuracy.value
    }
    result = []
    for (righter, likelier), gap in adjust_p_values(pairs).items():
        units = []
        for unit in _PERPLEXITIES:
            low = likelier.perplexity(unit)
            high = righter.perplexity(unit)
            if low and high and low.value < high.value:
                units.append(unit)
        if units:
            result.append(Disagreement(likelier, righter, tuple(units), gap))
    return result


def gains(points: Sequence[ModelOnCorpus]) -> list[RetrievalGain]:
    """Return every model that was run with and without retrieval.

    The p-values are corrected for all models of a corpus.
    """
    by_task: dict[str, dict[tuple[str, str], ModelOnCorpus]] = defaultdict(dict)
    for point in points:
        file = point.run.file
        by_task[point.task][file.model, file.variant] = point
    result: list[RetrievalGain] = []
    for members in by_task.values():
        pairs = {
            (without, with_it): difference(with_it, without)
            for without, with_it in pairs_without_and_with_retrieval(members)
        }
        result += [RetrievalGain(*runs, pair) for runs, pair in adjust_p_values(pairs).items()]
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
    " document where both runs kept the samples of the same rows (--log_samples). Holm's correction"
    " is for all pairs of a corpus."
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


def _agreement_tables(
    points: Sequence[ModelOnCorpus], notes: Sequence[str]
) -> Iterator[ComparisonTable]:
    """Show how far perplexity and accuracy rank models alike, and every pair that they do not."""
    by_task: dict[str, list[ModelOnCorpus]] = defaultdict(list)
    for point in points:
        if any(map(point.perplexity, _PERPLEXITIES)):
            by_task[point.task].append(point)
    rows = []
    remarks = [_TAU]
    pairs: list[Disagreement] = []
    for task, members in by_task.items():
        for point in sorted(members, key=lambda point: -point.accuracy.value):
            perplexities = [
                _with_stderr(point.perplexity(unit), digits)
                for unit, (_, digits) in _PERPLEXITIES.items()
            ]
            num_tokens = "" if point.num_tokens is None else f"{point.num_tokens:,}"
            accuracy = _with_stderr(point.accuracy, 1, 100)
            rows.append((task, point.model, accuracy, *perplexities, num_tokens))
        for unit in _PERPLEXITIES:
            value, count = tau(members, unit)
            if value is not None:
                remarks.append(f"{task}: {value:.2f} over {count} models, perplexity per {unit}")
        remarks += [f"{task}: {caution}" for caution in _cautions(members)]
        pairs += disagreements(members)
    if not rows:
        return
    if not pairs:
        remarks.append("No pair of models on which the two disagree.")
    heading = "\nAccuracy and perplexity on one corpus, as measured"
    yield ComparisonTable(heading, _AGREEMENT_COLUMNS, rows, [*remarks, *notes])
    if pairs:
        heading = f"\nPairs of models on which the two disagree, as measured: {len(pairs)}"
        yield ComparisonTable(
            heading, _PAIR_COLUMNS, [_pair_row(pair) for pair in pairs], [_PAIR_NOTE]
        )


def _with_stderr(
    score: ScoreFigure | PairedDifference | None, digits: int, times: float = 1
) -> str:
    if score is None:
        return ""
    value = score.difference if isinstance(score, PairedDifference) else score.value
    error = "" if score.stderr is None else f" ± {times * score.stderr:.{digits}f}"
    return f"{times * value:.{digits}f}{error}"


def _cautions(points: Sequence[ModelOnCorpus]) -> Iterator[str]:
    counts = {point.num_tokens for point in points}
    windows = {
        point.perplexity_run.task.metadata.get("window_used")
        for point in points
        if point.perplexity_run
    }
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
    likelier, righter, units, gap = pair
    perplexities = []
    for unit, (_, digits) in _PERPLEXITIES.items():
        low = likelier.perplexity(unit)
        high = righter.perplexity(unit)
        text = f"{low.value:.{digits}f} vs {high.value:.{digits}f}" if low and high else ""
        perplexities.append(text)
    _, _, p, p_adjusted, _ = format_difference(gap, ACCURACY)
    return (
        likelier.task,
        likelier.model,
        righter.model,
        *perplexities,
        f"{100 * likelier.accuracy.value:.1f} vs {100 * righter.accuracy.value:.1f}",
        _with_stderr(gap, 1, 100),
        p or "unknown",
        p_adjusted,
        " and ".join(units),
    )


def _gain_table(retrieval: Sequence[RetrievalGain]) -> ComparisonTable:
    rows = []
    for without, with_it, pair in retrieval:
        accuracies = [_with_stderr(point.accuracy, 1, 100) for point in (without, with_it)]
        rows.append((with_it.task, with_it.model, *accuracies, *format_difference(pair, ACCURACY)))
    note = "Paired by row, in percentage points; Holm's correction is for all models of a task."
    return ComparisonTable("\nAccuracy with and without retrieval", _GAIN_COLUMNS, rows, [note])
