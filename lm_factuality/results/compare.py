"""Compare results with each other and with published figures, and test differences of models."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.benchmarks.chosen import Figure, figure, headline, newest
from lm_factuality.benchmarks.declaration import Benchmark, Published, Run, Score, Table
from lm_factuality.benchmarks.pairs import (
    Pair,
    compare_all,
    compared_scores,
    row_of,
    written,
)
from lm_factuality.benchmarks.rows import scored_rows
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.model_names import short_name
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.suite import read_config
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.harness.samples import samples_of
from lm_factuality.results.read import read_results_files

_MOST_MODELS = 3
"""Pairs of more models than these are compared in the headline only."""
_ALPHA = 0.05
_PAIRS = load_yaml(__package__, "compare.yaml")
_VALUE_KEYS = ("percent", "value", "scores")


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read every task of a declared benchmark in the results files that ``paths`` name.

    A folder stands for all ``results_*.json`` below it. Only the newest run of each model and task
    gets the scores of its rows.

    Returns:
        The runs, and one sentence on each task that is left out.

    Raises:
        DataError: A path has no results, or lm_eval did not write a file or its samples.
    """
    runs = []
    left_out: dict[str, None] = {}
    for file in read_results_files(paths):
        for task in file.tasks:
            benchmark = find_benchmark(task.kind)
            if benchmark is None:
                sentence = (
                    f"Left out: {task.task} is not a task of the suite, so its scores to compare"
                    " are not known"
                )
                left_out[sentence] = None
            else:
                runs.append(Run(file, task, tuple(notes_of(benchmark, file, task))))

    newest_runs = {id(run) for run in newest(runs)[0]}
    runs_with_rows = []
    for run in tqdm(runs, "reading samples", unit=" runs", delay=2):
        runs_with_rows.append(_with_rows(run) if id(run) in newest_runs else run)
    return runs_with_rows, list(left_out)


def _with_rows(run: Run) -> Run:
    benchmark = find_benchmark(run.task.kind)
    if benchmark is None or benchmark.page.samples is None:
        return run
    samples = benchmark.page.samples
    rows = (row_of(run.task, samples, sample) for sample in samples_of(run.task))
    return replace(run, scored=scored_rows(rows))


def notes_of(benchmark: Benchmark, file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Say what sets a run apart: its data, how much of it was run, and what the benchmark adds."""
    data = mapping(task.metadata.get("data"))
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
    decoding = mapping(mapping(file.content.get("config")).get("decoding"))
    if decoding:
        yield f"decoding: {', '.join(f'{key} {value}' for key, value in decoding.items())}"
    if benchmark.comparing.notes is not None:
        yield from benchmark.comparing.notes(file, task)
    caution = task.metadata.get("caution")
    if caution:
        yield " ".join(str(caution).split())


def read_published(path: Path) -> list[Published]:
    """Read published figures from a YAML with a list ``figures``.

    An entry gives its value as ``percent`` or, of a perplexity, as ``value``, or the values of
    several metrics as ``scores``.

    Raises:
        ConfigError: There is no such file, or an entry is not a figure.
    """
    content = read_config(path)
    if not isinstance(content, dict) or not isinstance(content.get("figures"), list):
        raise ConfigError(
            f"{path}: no list 'figures'; expected a file such as"
            " configs/reproduce/factor_figures.yaml"
        )
    figures = []
    for number, entry in enumerate(content["figures"], start=1):
        try:
            figures += _published(entry)
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise ConfigError(
                f"{path}: figure {number}: {error}; expected model, task, metric, percent (or"
                " value; or scores for metric and percent), where; and protocol and decoding, if"
                " other than the benchmark's own"
            ) from error
    return figures


def _published(entry: Any) -> list[Published]:
    about = {key: value for key, value in entry.items() if key not in ("metric", *_VALUE_KEYS)}
    (value_key,) = (key for key in _VALUE_KEYS if key in entry)
    value = entry[value_key]
    scores = value if value_key == "scores" else {entry["metric"]: value}
    return [
        Published(**about, metric=metric, value=float(value)) for metric, value in scores.items()
    ]


def tables(
    runs: Sequence[Run],
    figures: Sequence[Published],
    scores: Sequence[str] | None = None,
) -> Iterator[Table]:
    """Compare runs in tables: for each benchmark headlines, pairs of models, and what it adds.

    Args:
        scores: The scores to compare pairs of models by (see `pair_tables`).

    Raises:
        ConfigError: No run has one of ``scores``.
    """
    if scores:
        _check_scores(scores, runs)
    has_pairs = False
    for benchmark in all_benchmarks():
        benchmark_runs = [run for run in runs if run.task.kind == benchmark.kind]
        if benchmark.comparing.shown_beside is None:
            table = _headline_table(benchmark, benchmark_runs, figures)
            if table.rows:
                yield table
        for table in pair_tables(benchmark, newest(benchmark_runs)[0], scores):
            has_pairs = has_pairs or bool(table.rows)
            yield table
        if benchmark.comparing.tables is not None:
            yield from benchmark.comparing.tables(runs)
    rows = _rows_of_other_scores(runs, figures)
    if rows:
        columns = ("task", "model", "score", "#measured", "#published", "#diff", "where")
        yield Table("Other published scores", columns, rows)
    if has_pairs:
        yield Table("", (), (), _PAIRS["how"])


def _check_scores(scores: Sequence[str], runs: Sequence[Run]) -> None:
    """Raise ConfigError if the rows of no run have one of ``scores``."""
    names: set[str] = set()
    for run in runs:
        benchmark = find_benchmark(run.task.kind)
        if benchmark is not None:
            names.update(score.name for score in compared_scores(benchmark, sorted(run.scored)))
    for name in scores:
        if name not in names:
            choices = sorted(names)
            raise ConfigError(
                f"--scores: no rows have a score {name!r}{did_you_mean(name, choices)}; known:"
                f" {', '.join(choices)}"
            )


def _headline_table(
    benchmark: Benchmark, runs: Sequence[Run], figures: Sequence[Published]
) -> Table:
    """Compare the headline of a benchmark with the published one, one row per run.

    A published figure that no run matches has a row as well.
    """
    scoring = benchmark.scoring
    score = benchmark.score(scoring.headlines[0])
    assert score is not None
    digits = score.digits
    rows: list[tuple[str, ...]] = []
    runs_of_notes: dict[str, list[str]] = {}
    matched: list[Published] = []
    for run in sorted(runs, key=lambda run: (run.task.task, run.label, run.file.date)):
        measured = figure(run.task, score.name)
        notes = [_how_corrected(measured), *run.notes]
        unscored = int(number_of(run.task.metrics.get("unscored")) or 0)
        if unscored:
            unit = scoring.unit if scoring.unscored_unit == "rows" else scoring.unscored_unit
            notes.append(f"{unscored} {unit} unscored{_bounds(benchmark, run.task)}")
        published_value = difference = ""
        published = _match(run, score.name, figures)
        if published is not None:
            matched.append(published)
            published_value = f"{published.value:.{digits}f}"
            notes.append(f"published figure from {published.where}")
            if measured is not None:
                difference = f"{score.times * measured.value - published.value:+.{digits}f}"
        rows.append(
            (
                run.task.task,
                run.label,
                *_cells(measured, score),
                published_value,
                difference,
                str(run.task.effective),
                str(unscored),
            )
        )
        for note in filter(None, notes):
            runs_of_notes.setdefault(note, []).append(f"{run.task.task}, {run.label}")
    for published in figures:
        if published.metric == score.name and published not in matched:
            value = f"{published.value:.{digits}f}"
            rows.append((published.task, published.label, "", "", "", value, "", "", ""))

    columns = (
        "task",
        "model",
        f"#{score.name}",
        "#95% interval",
        "#corrected",
        "#published",
        "#diff",
        f"#{scoring.unit}",
        "#unscored",
    )
    kept = [
        place
        for place, column in enumerate(columns)
        if column != "#corrected" or any(row[place] for row in rows)
    ]
    return Table(
        _headline_title(benchmark, score),
        [columns[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        [f"{'; '.join(names)}: {note}" for note, names in runs_of_notes.items()],
    )


def _headline_title(benchmark: Benchmark, score: Score) -> str:
    """Name a table, such as ``FACTOR accuracy in percent``."""
    # A name such as F1 or FActScore keeps its capitals.
    is_plain = score.label.replace(" ", "").isalpha() and not score.label[1:2].isupper()
    label = score.label.lower() if is_plain else score.label
    unit = " in percent" if score.unit == "%" and score.times == 100 else ""
    return f"{benchmark.title} {label}{unit}"


def _cells(measured: Figure | None, score: Score) -> tuple[str, str, str]:
    """Return the value, its interval, and the corrected value with its interval."""
    if measured is None:
        return "none", "", ""
    value = "too few rows" if measured.is_few else score.write(measured.value)
    interval = ""
    if measured.low is not None and measured.high is not None:
        interval = score.between(measured.low, measured.high)
    correction = measured.corrected
    if correction is None:
        return value, interval, ""
    corrected_interval = score.between(correction.low, correction.high)
    return value, interval, f"{score.write(correction.value)} [{corrected_interval}]"


def _how_corrected(measured: Figure | None) -> str:
    if measured is None or measured.corrected is None:
        return ""
    return f"corrected {measured.corrected.how}"


def _bounds(benchmark: Benchmark, task: TaskResult) -> str:
    """Say between what the headline would be if all unscored items were wrong, or right."""
    name = headline(task)
    score = benchmark.score(name) if name else None
    worst = number_of(task.metrics.get(f"{name}_worst"))
    best = number_of(task.metrics.get(f"{name}_best"))
    if score is None or worst is None or best is None:
        return ""
    low = f"{score.times * worst:.{score.digits}f}"
    high = f"{score.times * best:.{score.digits}f}"
    return f", {name} between {low} and {high} if they were wrong or right"


def _match(run: Run, metric: str, figures: Iterable[Published]) -> Published | None:
    """Find the published figure of a result.

    The organisation of a model does not matter; its task, metric, protocol and decoding do.
    """
    model = short_name(run.file.model)
    expected = (run.task.task, metric, run.protocol, run.file.variant, model)
    for published in figures:
        model = short_name(published.model)
        if expected == (
            published.task,
            published.metric,
            published.protocol,
            published.decoding,
            model,
        ):
            return published
    return None


def _rows_of_other_scores(
    runs: Sequence[Run], figures: Sequence[Published]
) -> list[tuple[str, ...]]:
    """Compare the figures that are no benchmark's headline with the runs that they are of.

    Without any run the figures are listed by themselves.
    """
    headlines = {benchmark.scoring.headlines[0] for benchmark in all_benchmarks()}
    rows: list[tuple[str, ...]] = []
    for published in figures:
        if published.metric in headlines:
            continue
        task, metric, where = published.task, published.metric, published.where
        value = f"{published.value:g}"
        if not runs:
            rows.append((task, published.label, metric, "", value, "", where))
        for run in runs:
            if not _match(run, metric, [published]):
                continue
            measured_value = difference = ""
            benchmark = find_benchmark(run.task.kind)
            score = benchmark.score(metric) if benchmark else None
            measured = figure(run.task, metric)
            if measured is not None and score is not None:
                measured_value = score.write(measured.value)
                gap = score.times * measured.value - published.value
                difference = f"{gap:+.{score.digits}f}"
            rows.append((task, run.label, metric, measured_value, value, difference, where))
    return rows


def pair_tables(
    benchmark: Benchmark, runs: Sequence[Run], scores: Sequence[str] | None = None
) -> Iterator[Table]:
    """Compare every pair of models, one table for each task with the samples of two models.

    Args:
        scores: The names of the scores to compare. Defaults to those that tables show; of many
            models to the headline.
    """
    for task in sorted({run.task.task for run in runs}):
        task_runs = [run for run in runs if run.task.task == task]
        task_runs.sort(key=lambda run: run.label)
        with_rows = [run for run in task_runs if run.scored]
        without_rows = [run.label for run in task_runs if not run.scored]
        notes = []
        if without_rows:
            notes.append(
                f"{task}: without samples (--log_samples) and scored rows no difference can be"
                f" tested: {', '.join(without_rows)}"
            )
        if len(with_rows) >= 2:
            table = _pair_table(benchmark, task, with_rows, scores)
            if table.rows:
                yield table._replace(notes=[*notes, *table.notes])
        elif len(task_runs) > 1 and notes and benchmark.page.samples is not None:
            yield Table("", (), (), notes)


def _pair_table(
    benchmark: Benchmark, task: str, runs: Sequence[Run], scores: Sequence[str] | None
) -> Table:
    names = sorted({name for run in runs for name in run.scored})
    all_scores = compared_scores(benchmark, names)
    if scores:
        wanted = list(scores)
    elif len(runs) <= _MOST_MODELS:
        wanted = [score.name for score in benchmark.shown]
    else:
        wanted = [headline(runs[0].task) or ""]

    rows: list[tuple[str, ...]] = []
    notes = []
    metrics = {run.label: run.task.metrics for run in runs}
    for score in all_scores:
        if score.name not in wanted:
            continue
        scored = {run.label: run.scored[score.name] for run in runs if score.name in run.scored}
        pairs = compare_all(scored, score, metrics)
        for (first, second), pair in pairs.items():
            *tested, detectable = written(pair, score)
            better = _better(pair, score)
            rows.append((score.name, first, second, *tested, better, detectable, f"{pair.n:,}"))
        if pairs and score.note:
            notes.append(f"{score.name}: {score.note}")
    if not scores and len(runs) > _MOST_MODELS:
        not_compared = [score.name for score in all_scores if score.name not in wanted]
        notes.append(f"Other scores by --scores: {', '.join(not_compared)}")
    return Table(f"\nPairs of models on {task}, row by row", _PAIRS["columns"], rows, notes)


def _better(pair: Pair, score: Score) -> str:
    """Say which model is better, A or B; empty where the corrected p-value does not show it."""
    if pair.adjusted is not None and pair.adjusted < _ALPHA:
        return "A" if (pair.difference > 0) == score.higher else "B"
    return ""
