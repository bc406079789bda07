"""Compare results with each other and with published figures, and test differences of models."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel
from tqdm import tqdm

from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.benchmarks.chosen import (
    ScoreFigure,
    benchmark_of,
    displayed_score,
    headline_name,
    newest_runs,
    score_figure,
    suite_runs,
)
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    ComparisonTable,
    PublishedScores,
    Run,
    Score,
    worst_and_best_of,
)
from lm_factuality.benchmarks.pairs import (
    comparable_scores,
    compare_all_models,
    format_difference,
    sample_row_of,
)
from lm_factuality.benchmarks.rows import SampleRow, collect_scored_rows
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.model_names import short_name
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.suite import read_config
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.harness.samples import samples_of
from lm_factuality.results.read import read_results_files

_MOST_MODELS = 3
"""Pairs of more models than these are compared in the headline only."""
_ALPHA = 0.05
_PAIRS = load_yaml(__package__, "compare.yaml")


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read every task of a declared benchmark in the results files that ``paths`` name.

    A folder stands for all ``results_*.json`` below it. Only the newest run of each model and task
    gets the scores of its rows.

    Returns:
        The runs, and one sentence on each task that is left out.

    Raises:
        DataError: A path has no results, or lm_eval did not write a file or its samples.
    """
    runs, left_out = suite_runs(read_results_files(paths))
    newest_ids = {id(run) for run in newest_runs(runs)[0]}
    for place, run in enumerate(tqdm(runs, "reading samples", unit=" runs", delay=2)):
        benchmark = benchmark_of(run.task)
        samples = benchmark.page.samples
        rows: list[SampleRow] = []
        if samples is not None and id(run) in newest_ids:
            rows = [sample_row_of(run.task, samples, sample) for sample in samples_of(run.task)]
        notes = tuple(notes_of(benchmark, run.file, run.task))
        runs[place] = replace(run, notes=notes, scored_rows=collect_scored_rows(rows))
    return runs, left_out


def notes_of(benchmark: Benchmark, file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Say what sets a run apart: its data, how much of it was run, and what the benchmark adds."""
    data = as_mapping(task.metadata.get("data"))
    unit = benchmark.scoring.unit
    filenames = {source.filename for source in benchmark.data.sources}
    if data.get("is_upstream") is False:
        rows = f"{data.get('rows')} rows of {data.get('upstream_rows')}"
        yield f"not the published file: {rows}, git blob {data.get('git_blob')}"
    elif data.get("is_published") is False and data.get("file") in filenames:
        yield f"not the published file: git blob {data.get('git_blob')}"
    if task.limit:
        yield f"--limit {task.limit:g}: part of the {unit} only"
    elif unit in data and task.effective != data[unit]:
        yield f"{task.effective} of {data[unit]} {unit}"
    truncated = int(number_of(task.metrics.get("truncated")) or 0)
    if truncated:
        units = unit[:-1] if truncated == 1 else unit
        yield f"{truncated} {units} longer than the window, whose beginning was cut off"
    decoding = as_mapping(as_mapping(file.content.get("config")).get("decoding"))
    if decoding:
        yield f"decoding: {', '.join(f'{key} {value}' for key, value in decoding.items())}"
    if benchmark.comparing.notes is not None:
        yield from benchmark.comparing.notes(file, task)
    caution = task.metadata.get("caution")
    if caution:
        yield " ".join(str(caution).split())


class PublishedFigures(BaseModel):
    """A file of published figures."""

    figures: list[PublishedScores]


def read_published(path: Path) -> list[PublishedScores]:
    """Read published figures from a YAML such as ``configs/reproduce/factor_figures.yaml``.

    Raises:
        ConfigError: There is no such file, or an entry is not a figure.
    """
    return read_settings(PublishedFigures, read_config(path), str(path)).figures


def tables(
    runs: Sequence[Run],
    figures: Sequence[PublishedScores],
    scores: Sequence[str] | None = None,
) -> Iterator[ComparisonTable]:
    """Compare runs in tables: for each benchmark headlines, pairs of models, and what it adds.

    Args:
        scores: The scores to compare pairs of models by (see `_pair_tables`).

    Raises:
        ConfigError: No run has one of ``scores``.
    """
    if scores:
        _check_scores(scores, runs)
    has_pairs = False
    for benchmark in all_benchmarks():
        benchmark_runs = [run for run in runs if run.task.kind == benchmark.kind]
        if benchmark_runs and benchmark.comparing.shown_with_kind is None:
            yield headline_table(benchmark, benchmark_runs, benchmark.scoring.headlines[0])
        for table in _pair_tables(benchmark, newest_runs(benchmark_runs)[0], scores):
            has_pairs = has_pairs or bool(table.rows)
            yield table
        if benchmark.comparing.tables is not None:
            yield from benchmark.comparing.tables(runs)
    rows = _rows_of_published(runs, figures)
    if rows:
        columns = ("task", "model", "score", "#measured", "#published", "#diff", "where")
        yield ComparisonTable("\nPublished scores", columns, rows)
    if has_pairs:
        yield ComparisonTable("", (), (), _PAIRS["how"])


def _check_scores(scores: Sequence[str], runs: Sequence[Run]) -> None:
    """Raise ConfigError if the rows of no run have one of ``scores``."""
    names: set[str] = set()
    for run in runs:
        scores_of_run = comparable_scores(benchmark_of(run.task), sorted(run.scored_rows))
        names.update(score.name for score in scores_of_run)
    for name in scores:
        if name not in names:
            raise ConfigError(
                f"--scores: no rows have a score {name!r}{did_you_mean(name, names)}; known:"
                f" {', '.join(sorted(names))}"
            )


def headline_table(benchmark: Benchmark, runs: Sequence[Run], name: str) -> ComparisonTable:
    """Show a score that a benchmark is about, one row per run."""
    scoring = benchmark.scoring
    score = displayed_score(benchmark.kind, name)
    rows = []
    runs_of_notes: dict[str, list[str]] = {}
    for run in sorted(runs, key=lambda run: (run.task.task, run.label, run.file.date)):
        task = run.task
        notes = list(run.notes)
        measured = score_figure(task, name)
        correction = task.corrected.get(name)
        if correction is not None:
            interval = score.format_interval(correction.low, correction.high)
            corrected = f"{score.format_value(correction.value)} [{interval}]"
            notes.insert(0, f"corrected {corrected} {correction.how}")
        if measured is not None and measured.floor is not None:
            floor = f"{score.format_value(measured.floor)}{score.unit}"
            notes.append(f"knowing nothing scores {floor} on these rows")
        unscored = task.unscored
        if unscored:
            unit = scoring.unit if scoring.unscored_unit == "rows" else scoring.unscored_unit
            notes.append(f"{unscored} {unit} unscored{_bounds(task, score)}")
        cells = score_cells(measured, score)
        rows.append((task.task, run.label, *cells, str(task.effective), str(unscored)))
        for note in notes:
            runs_of_notes.setdefault(note, []).append(f"{task.task}, {run.label}")
    # A name such as F1 or FActScore keeps its capitals.
    is_plain = score.label.replace(" ", "").isalpha() and not score.label[1:2].isupper()
    label = score.label.lower() if is_plain else score.label
    unit = " in percent" if score.unit == "%" else ""
    columns = ("task", "model", f"#{name}", "#95% interval", f"#{scoring.unit}", "#unscored")
    notes = [f"{'; '.join(names)}: {note}" for note, names in runs_of_notes.items()]
    return ComparisonTable(f"{benchmark.title} {label}{unit}", columns, rows, notes)


def score_cells(measured: ScoreFigure | None, score: Score) -> tuple[str, str]:
    """Return the value of a score and its 95% interval, as tables show them."""
    if measured is None:
        return "none", ""
    value = "too few rows" if measured.is_few else score.format_value(measured.value)
    if measured.low is None or measured.high is None:
        return value, ""
    return value, score.format_interval(measured.low, measured.high)


def _bounds(task: TaskResult, score: Score) -> str:
    """Say between what a score would be if all unscored items were wrong, or right."""
    ends = [number_of(task.metrics.get(name)) for name in worst_and_best_of(score.name, None, None)]
    texts = [f"{score.display_factor * end:.{score.decimals}f}" for end in ends if end is not None]
    if len(texts) < 2:
        return ""
    return f", {score.name} between {' and '.join(texts)} if they were wrong or right"


def _rows_of_published(
    runs: Sequence[Run], figures: Sequence[PublishedScores]
) -> list[tuple[str, ...]]:
    """Compare published figures with the runs that they are of, or list them by themselves."""
    rows: list[tuple[str, ...]] = []
    for published in figures:
        matching = [run for run in runs if _is_of(run, published)]
        for metric, value in published.scores.items():
            if not matching:
                about = (published.task, published.label, metric)
                rows.append((*about, "", str(value), "", published.where))
            for run in matching:
                score = benchmark_of(run.task).find_score(metric)
                measured = score_figure(run.task, metric)
                cells = ("", str(value), "")
                if measured is not None and score is not None:
                    gap = score.display_factor * measured.value - value
                    text = f"{gap:+.{score.decimals}f}"
                    cells = (score.format_value(measured.value), str(value), text)
                rows.append((run.task.task, run.label, metric, *cells, published.where))
    return rows


def _is_of(run: Run, published: PublishedScores) -> bool:
    """Whether figures are of a run. The organisation of the model does not matter."""
    return (
        run.task.task == published.task
        and run.protocol == published.protocol
        and run.file.variant == published.decoding
        and short_name(run.file.model) == short_name(published.model)
    )


def _pair_tables(
    benchmark: Benchmark, runs: Sequence[Run], scores: Sequence[str] | None
) -> Iterator[ComparisonTable]:
    """Compare every pair of models, one table for each task with the samples of two models.

    Args:
        scores: The names of the scores to compare. Defaults to those that tables show; of many
            models to the headline.
    """
    tasks: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.task.task, run.label)):
        tasks[run.task.task].append(run)
    for task, task_runs in tasks.items():
        with_rows = [run for run in task_runs if run.scored_rows]
        without_rows = [run.label for run in task_runs if not run.scored_rows]
        notes = []
        if without_rows:
            notes.append(
                f"{task}: without samples (--log_samples) and scored rows no difference can be"
                f" tested: {', '.join(without_rows)}"
            )
        if len(with_rows) > 1:
            table = _pair_table(benchmark, task, with_rows, scores)
            if table.rows:
                yield table._replace(notes=[*notes, *table.notes])
        elif len(task_runs) > 1 and benchmark.page.samples is not None:
            yield ComparisonTable("", (), (), notes)


def _pair_table(
    benchmark: Benchmark, task: str, runs: Sequence[Run], scores: Sequence[str] | None
) -> ComparisonTable:
    names = sorted({name for run in runs for name in run.scored_rows})
    wanted = scores or [score.name for score in benchmark.table_scores]
    if not scores and len(runs) > _MOST_MODELS:
        wanted = [headline_name(runs[0].task)]
    rows: list[tuple[str, ...]] = []
    notes = []
    not_compared = []
    metrics = {run.label: run.task.metrics for run in runs}
    for score in comparable_scores(benchmark, names):
        if score.name not in wanted:
            not_compared.append(score.name)
            continue
        scored = {
            run.label: run.scored_rows[score.name] for run in runs if score.name in run.scored_rows
        }
        pairs = compare_all_models(scored, score, metrics)
        for (first, second), pair in pairs.items():
            *tested, detectable = format_difference(pair, score)
            better = ""
            if pair.adjusted_p_value is not None and pair.adjusted_p_value < _ALPHA:
                better = "A" if (pair.difference > 0) == score.higher_is_better else "B"
            rows.append(
                (score.name, first, second, *tested, better, detectable, f"{pair.shared_rows:,}")
            )
        if pairs and score.note:
            notes.append(f"{score.name}: {score.note}")
    if not scores and len(runs) > _MOST_MODELS:
        notes.append(f"Other scores by --scores: {', '.join(not_compared)}")
    return ComparisonTable(
        f"\nPairs of models on {task}, row by row", _PAIRS["columns"], rows, notes
    )
