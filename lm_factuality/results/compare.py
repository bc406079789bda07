"""Compare runs with each other and with published figures, as tables for the terminal.

The command ``lm-factuality compare`` prints the tables. Reports use the notes on runs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tqdm.auto import tqdm

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
)
from lm_factuality.benchmarks.pairs import (
    PairedDifference,
    comparable_scores,
    compare_all_models,
    format_difference,
    sample_row_of,
)
from lm_factuality.benchmarks.rows import SampleRow, collect_scored_rows
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.model_names import display_name, short_name
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.suite import read_config
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.harness.samples import samples_of
from lm_factuality.results.read import read_results_files

_MOST_MODELS = 3
"""The largest number of models whose pairs are compared in all scores, not in the main one only."""

_SIGNIFICANCE_LEVEL = 0.05
"""The corrected p-value below which one of two models is called better."""

_PAIR_TEXTS = load_yaml(__package__, "compare.yaml")
"""The columns of the tables of pairs, and the notes that explain them."""

_PAIR_COLUMNS: Sequence[str] = _PAIR_TEXTS["columns"]
"""The columns of the tables of pairs."""


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read every run of this package's benchmarks from results files.

    A run gets the notes on what makes it hard to compare, and the scores of its rows.

    Args:
        paths: Results files of lm_eval, or folders with results files anywhere below them.

    Returns:
        The runs, and one sentence about each task that is left out. Only the newest run of each
        model and task has scored rows.

    Raises:
        DataError: A path has no results, or lm_eval did not write a file or its samples.
    """
    runs, left_out = suite_runs(read_results_files(paths))
    newest, _ = newest_runs(runs)
    complete_runs = []
    for run in tqdm(runs, "reading samples", unit=" runs", delay=2):
        notes = tuple(notes_of(benchmark_of(run.task), run.file, run.task))
        complete_run = replace(run, notes=notes)
        # Older runs are shown, but models are compared row by row in their newest runs only. Two
        # files can hold equal runs, so this asks for the same object.
        if any(run is newest_run for newest_run in newest):
            scored_rows = collect_scored_rows(_sample_rows(run.task))
            complete_run = replace(complete_run, scored_rows=scored_rows)
        complete_runs.append(complete_run)
    return with_display_names(complete_runs), left_out


def _sample_rows(task: TaskResult) -> list[SampleRow]:
    """Read the samples of a task, if its benchmark shows samples."""
    display = benchmark_of(task).page.samples
    if display is None:
        return []
    return [sample_row_of(task, display, sample) for sample in samples_of(task)]


def with_display_names(runs: Sequence[Run]) -> list[Run]:
    """Shorten the path of each checkpoint to its last part, unless two checkpoints share this part.

    A path would take half of the screen.
    """
    models = {run.file.model for run in runs}
    named_runs = []
    for run in runs:
        file = replace(run.file, model=display_name(run.file.model, models))
        named_runs.append(replace(run, file=file))
    return named_runs


def notes_of(benchmark: Benchmark, file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Yield the conditions that make a run hard to compare with others, such as a limit of rows.

    Args:
        benchmark: The benchmark of the task.
        file: The results file of the run.
        task: The task of the run.

    Yields:
        Notes such as ``--limit 10: part of the rows only`` or ``decoding: layer 12``.
    """
    yield from _notes_on_data(benchmark, task)
    # A model cannot see the beginning of a text that is longer than its window of tokens.
    num_truncated = int(number_of(task.metrics.get("truncated")) or 0)
    if num_truncated:
        unit = benchmark.scoring.unit
        if num_truncated == 1:
            unit = unit.removesuffix("s")
        yield f"{num_truncated} {unit} longer than the window, whose beginning was cut off"

    # A decoding method such as DoLa changes the model's probabilities.
    config = as_mapping(file.content.get("config"))
    decoding = as_mapping(config.get("decoding"))
    if decoding:
        options = [f"{name} {value}" for name, value in decoding.items()]
        yield f"decoding: {', '.join(options)}"
    if benchmark.comparing.notes is not None:
        yield from benchmark.comparing.notes(file, task)
    # A task's YAML wraps the caution over several lines.
    caution = task.metadata.get("caution")
    if caution:
        yield " ".join(str(caution).split())


def _notes_on_data(benchmark: Benchmark, task: TaskResult) -> Iterator[str]:
    """Yield a note if a run's data is not the published file, and one if it used a part of it.

    Args:
        benchmark: The benchmark, which names its published files.
        task: The task, whose metadata describe the data file that was read.

    Yields:
        Notes such as ``not the published file: git blob 1a2b`` or ``10 of 2994 rows``.
    """
    data = as_mapping(task.metadata.get("data"))
    if _is_changed_file(benchmark, data):
        blob = f"git blob {data.get('git_blob')}"
        if data.get("published_rows"):
            blob = f"{data.get('rows')} rows of {data['published_rows']}, {blob}"
        yield f"not the published file: {blob}"

    unit = benchmark.scoring.unit
    # The metadata count the rows of the whole file under the benchmark's word: "responses": 120.
    rows_in_file = data.get(unit)
    if task.limit:
        yield f"--limit {task.limit:g}: part of the {unit} only"
    elif rows_in_file is not None and task.effective != rows_in_file:
        yield f"{task.effective} of {rows_in_file} {unit}"


def _is_changed_file(benchmark: Benchmark, data: Mapping[str, Any]) -> bool:
    """Return whether a run read another file under the name of a published one.

    Args:
        benchmark: The benchmark, which names its published files.
        data: The description of the file in the metadata of the task.
    """
    published_names = [source.filename for source in benchmark.data.sources]
    has_published_name = "source" in data or data.get("file") in published_names
    return has_published_name and data.get("is_published") is False


class PublishedFigures(BaseModel):
    """The content of a YAML file of published figures."""

    figures: list[PublishedScores]
    """The scores of each model."""


def read_published(path: Path) -> list[PublishedScores]:
    """Read published figures from a YAML such as ``configs/reproduce/factor_figures.yaml``.

    Raises:
        ConfigError: There is no such file, or an entry is not a figure.
    """
    return read_settings(PublishedFigures, read_config(path), str(path)).figures


def compare_runs(
    runs: Sequence[Run],
    figures: Sequence[PublishedScores],
    scores: Sequence[str] | None = None,
) -> Iterator[ComparisonTable]:
    """Compare runs with each other and with published figures.

    Args:
        runs: The runs, as `read_runs` returns them.
        figures: The published figures.
        scores: The names of the scores to compare pairs of models by. By default, the scores that
            tables show, or the main score if there are many models.

    Yields:
        For each benchmark: its main score, the pairs of models, and the tables that it adds. Then
        the published scores, and an explanation of the tables of pairs.

    Raises:
        ConfigError: No run has one of ``scores``.
    """
    if scores:
        _check_scores(scores, runs)
    has_pairs = False
    for benchmark in all_benchmarks():
        # Each table is printed before the next one is computed.
        for table in _benchmark_tables(benchmark, runs, scores):
            has_pairs |= table.columns == _PAIR_COLUMNS
            yield table

    published_table = _published_table(runs, figures)
    if published_table.rows:
        yield published_table
    if has_pairs:
        yield _notes_only(_PAIR_TEXTS["how"])


def _benchmark_tables(
    benchmark: Benchmark, runs: Sequence[Run], scores: Sequence[str] | None
) -> Iterator[ComparisonTable]:
    """Yield the main table of a benchmark, the pairs of models, and the tables that it adds.

    Args:
        benchmark: The benchmark.
        runs: The runs of all benchmarks.
        scores: The names of the scores to compare pairs by, or nothing for the default ones.
    """
    benchmark_runs = [run for run in runs if run.task.kind == benchmark.kind]
    # Some benchmarks have no main table, since another one shows their scores.
    if benchmark_runs and benchmark.comparing.shown_with_kind is None:
        yield headline_table(benchmark, benchmark_runs, benchmark.scoring.headlines[0])
    newest, _ = newest_runs(benchmark_runs)
    yield from _pair_tables(benchmark, newest, scores)
    if benchmark.comparing.tables is not None:
        yield from benchmark.comparing.tables(runs)


def _notes_only(notes: Sequence[str]) -> ComparisonTable:
    """Return a table that has nothing but notes."""
    return ComparisonTable(title="", columns=(), rows=(), notes=notes)


def _check_scores(scores: Sequence[str], runs: Sequence[Run]) -> None:
    """Check that the rows of some run have each score that the user names.

    Raises:
        ConfigError: No run has one of ``scores``.
    """
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


def headline_table(benchmark: Benchmark, runs: Iterable[Run], name: str) -> ComparisonTable:
    """Make the table of a benchmark's main score, with one row per run.

    Args:
        benchmark: The benchmark of all runs.
        runs: The runs.
        name: The name of the score.

    Returns:
        The table. Below it, each note lists the runs that it is true of.
    """
    sorted_runs = sorted(runs, key=lambda run: (run.task.task, run.label, run.file.date))
    settings = [run.task.metadata for run in sorted_runs]
    score = displayed_score(benchmark.kind, name).with_k_label(settings)
    figures = [score_figure(run.task, name) for run in sorted_runs]
    # Many benchmarks have no score of a guess, and get no column for it.
    has_baselines = any(figure and figure.guess_baseline is not None for figure in figures)

    rows: list[dict[str, str]] = []
    for run, figure in zip(sorted_runs, figures, strict=True):
        value, interval = score_cells(figure, score)
        cells = {
            "task": run.task.task,
            "model": run.label,
            f"#{name}": value,
            "#95% interval": interval,
        }
        if has_baselines:
            cells["#guess baseline"] = _baseline_cell(figure, score)
        cells[f"#{benchmark.scoring.unit}"] = str(run.task.effective)
        cells["#unscored"] = str(run.task.unscored)
        rows.append(cells)

    # Scores without a unit, such as perplexity, are printed as they are.
    percent = " in percent" if score.unit == "%" else ""
    title = f"{benchmark.title} {_uncapitalized(score.label)}{percent}"
    return _table_of_cells(title, rows, _collect_notes(benchmark, sorted_runs, name))


def _collect_notes(benchmark: Benchmark, runs: Iterable[Run], name: str) -> list[str]:
    """Collect the notes below the table of a main score, each with the runs that it is true of.

    Args:
        benchmark: The benchmark of all runs.
        runs: The runs.
        name: The name of the score.

    Returns:
        Notes such as ``felm, gpt2; felm, gpt2-xl: --limit 10: part of the rows only``.
    """
    labels_by_note: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        for note in _headline_notes(benchmark, run, name):
            labels_by_note[note].append(f"{run.task.task}, {run.label}")
    return [f"{'; '.join(labels)}: {note}" for note, labels in labels_by_note.items()]


def _baseline_cell(figure: ScoreFigure | None, score: Score) -> str:
    """Write the score of a guess, such as ``25.0``. A run without it has an empty cell."""
    if figure is None or figure.guess_baseline is None:
        return ""
    return score.format_value(figure.guess_baseline)


def score_cells(measured: ScoreFigure | None, score: Score) -> tuple[str, str]:
    """Write a measured score as two cells of a table: its value, and its 95% interval.

    Args:
        measured: The score of a run, or None if the run has none.
        score: The score, which sets factor and decimals.

    Example:
        An accuracy of 0.484 gives ``("48.4", "45.1 – 51.6")``, and None gives ``("none", "")``.
    """
    if measured is None:
        return "none", ""
    # The mean of very few documents would mislead. Their interval shows how little they say.
    value = "too few documents" if measured.has_few_clusters else score.format_value(measured.value)
    if measured.low is None or measured.high is None:
        return value, ""
    return value, score.format_interval(measured.low, measured.high)


def _headline_notes(benchmark: Benchmark, run: Run, name: str) -> Iterator[str]:
    """Yield the notes below the table of a benchmark's main score that are about one run.

    Args:
        benchmark: The benchmark of the run.
        run: The run.
        name: The name of the score.

    Yields:
        The score that people's labels correct, the notes on the run, and the number of unscored
        items, as far as the run has them.
    """
    task = run.task
    score = displayed_score(benchmark.kind, name)
    correction = task.corrected.get(name)
    if correction is not None:
        value = score.format_value(correction.value)
        interval = score.format_interval(correction.low, correction.high)
        yield f"corrected {value} [{interval}] {correction.how}"
    yield from run.notes

    if task.unscored:
        unit = benchmark.scoring.unscored_unit
        # The benchmark may have a word for its rows, such as "responses".
        if unit == "rows":
            unit = benchmark.scoring.unit
        yield f"{task.unscored} {unit} unscored{_bounds_text(task, score)}"


def _bounds_text(task: TaskResult, score: Score) -> str:
    """Write which values a score could have if the unscored items had been wrong, or right.

    Returns:
        A text such as ``, f1 between 40.1 and 52.3 if they were wrong or right``, which ends the
        note "3 facts unscored". It is empty if the task does not report these values.
    """
    worst = number_of(task.metrics.get(f"{score.name}_worst"))
    best = number_of(task.metrics.get(f"{score.name}_best"))
    if worst is None or best is None:
        return ""
    bounds = f"{score.format_value(worst)} and {score.format_value(best)}"
    return f", {score.name} between {bounds} if they were wrong or right"


def _uncapitalized(label: str) -> str:
    """Write a label in lower case, as in ``accuracy``, unless it is a name such as F1."""
    is_plain = label.replace(" ", "").isalpha() and not label[1:2].isupper()
    return label.lower() if is_plain else label


def _published_table(runs: Sequence[Run], figures: Iterable[PublishedScores]) -> ComparisonTable:
    """Make the table of published scores and the runs that they can be compared with.

    Args:
        runs: The runs.
        figures: The published figures.

    Returns:
        The table, with a row for each published score and run. A score that no run has measured
        gets a row without a measured value.
    """
    rows: list[dict[str, str]] = []
    for published in figures:
        # Several runs can match, for example an older and a newer one.
        matching_runs = [run for run in runs if _has_published(run, published)]
        for name, value in published.scores.items():
            cells = {
                "task": published.task,
                "model": published.label,
                "score": name,
                "#measured": "",
                "#published": str(value),
                "#diff": "",
                "where": published.where,
            }
            if not matching_runs:
                rows.append(cells)
            for run in matching_runs:
                measured, difference = _measured_cells(run, name, value)
                measured_cells = {"model": run.label, "#measured": measured, "#diff": difference}
                rows.append(cells | measured_cells)
    # The line break separates this table from those of the benchmarks.
    return _table_of_cells("\nPublished scores", rows)


def _table_of_cells(
    title: str, rows: Sequence[Mapping[str, str]], notes: Sequence[str] = ()
) -> ComparisonTable:
    """Make a table from the cells of each row by their headings.

    A heading that starts with ``#`` is of a column of numbers. All rows have the same headings.
    """
    columns = list(rows[0]) if rows else []
    return ComparisonTable(title, columns, [list(cells.values()) for cells in rows], notes)


def _measured_cells(run: Run, name: str, published: float) -> tuple[str, str]:
    """Write a measured score and its difference from the published one as two cells of a table.

    The cells are empty if the run does not have the score.

    Example:
        A measured accuracy of 0.484 and a published one of 48.1 give ``("48.4", "+0.3")``.
    """
    declaration = benchmark_of(run.task).find_score(name)
    figure = score_figure(run.task, name)
    if figure is None or declaration is None:
        return "", ""
    # Shares are published in percent, so their factor is 100.
    difference = declaration.display_factor * figure.value - published
    return declaration.format_value(figure.value), f"{difference:+.{declaration.decimals}f}"


def _has_published(run: Run, published: PublishedScores) -> bool:
    """Return whether published figures are of the same task, protocol and model as a run.

    Names of models are compared without the organisation: ``gpt2`` is ``openai-community/gpt2``.
    """
    return (
        run.task.task == published.task
        and run.protocol == published.protocol
        and run.file.variant == published.decoding
        and short_name(run.file.model) == short_name(published.model)
    )


def _pair_tables(
    benchmark: Benchmark, runs: Iterable[Run], scores: Sequence[str] | None
) -> Iterator[ComparisonTable]:
    """Compare every two models on each task of a benchmark.

    Args:
        benchmark: The benchmark of all runs.
        runs: The newest run of each model on each task.
        scores: The names of the scores to compare, or nothing for the default ones.

    Yields:
        A table for each task that has the samples of two models. For other tasks with two models,
        only a note that samples are missing.
    """
    runs_by_task: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.task.task, run.label)):
        runs_by_task[run.task.task].append(run)

    for task, task_runs in runs_by_task.items():
        if len(task_runs) == 1:
            continue
        runs_with_rows = [run for run in task_runs if run.scored_rows]
        labels_without_rows = [run.label for run in task_runs if not run.scored_rows]
        notes = []
        if labels_without_rows:
            notes.append(
                f"{task}: without samples (--log_samples) and scored rows no difference can be"
                f" tested: {', '.join(labels_without_rows)}"
            )
        if len(runs_with_rows) > 1:
            table = _pair_table(benchmark, task, runs_with_rows, scores)
            # The table is empty if no two models share a row or a chosen score.
            if table.rows:
                yield table._replace(notes=[*notes, *table.notes])
        elif benchmark.page.samples is not None:
            # The benchmark shows samples, but these runs lack them.
            yield _notes_only(notes)


def _pair_table(
    benchmark: Benchmark, task: str, runs: Sequence[Run], scores: Sequence[str] | None
) -> ComparisonTable:
    """Compare every two models on one task, in several scores.

    Args:
        benchmark: The benchmark of the task.
        task: The name of the task.
        runs: A run of each model, with scored rows.
        scores: The names of the scores to compare, or nothing for the default ones.

    Returns:
        The table, with a row for each score and pair of models. It is empty if no two models have
        scored the same rows.
    """
    names = sorted({name for run in runs for name in run.scored_rows})
    scores_of_rows = comparable_scores(benchmark, names)
    # Every additional model adds many pairs, so many models are compared in the main score only.
    has_main_score_only = not scores and len(runs) > _MOST_MODELS
    if scores:
        chosen_names = list(scores)
    elif has_main_score_only:
        chosen_names = [headline_name(runs[0].task)]
    else:
        chosen_names = [score.name for score in benchmark.table_scores]

    rows: list[tuple[str, ...]] = []
    notes = []
    for score in scores_of_rows:
        if score.name not in chosen_names:
            continue
        rows_of_score = _pair_rows(runs, score)
        rows += rows_of_score
        if rows_of_score and score.note:
            notes.append(f"{score.name}: {score.note}")
    if has_main_score_only:
        other_names = [score.name for score in scores_of_rows if score.name not in chosen_names]
        notes.append(f"Other scores by --scores: {', '.join(other_names)}")
    title = f"\nPairs of models on {task}, row by row"
    return ComparisonTable(title, _PAIR_COLUMNS, rows, notes)


def _pair_rows(runs: Sequence[Run], score: Score) -> list[tuple[str, ...]]:
    """Compare every two models in one score, as the rows of a table."""
    metrics = {run.label: run.task.metrics for run in runs}
    scored_rows = {}
    for run in runs:
        # Not every run has every score, such as that of a rare error type.
        if score.name in run.scored_rows:
            scored_rows[run.label] = run.scored_rows[score.name]
    rows = []
    for (label_a, label_b), pair in compare_all_models(scored_rows, score, metrics).items():
        rows.append((score.name, label_a, label_b, *_pair_cells(pair, score)))
    return rows


def _pair_cells(pair: PairedDifference, score: Score) -> tuple[str, ...]:
    """Write the comparison of model A with model B in a score as the cells of a table.

    Returns:
        The difference, its interval, the p-value, the corrected p-value, the letter of the better
        model (empty if the test finds no difference), the smallest difference that the test
        detects, and the number of shared rows.
    """
    # A number that is not defined is an empty text.
    texts = format_difference(pair, score)
    return (
        texts.difference,
        texts.interval,
        texts.p_value,
        texts.adjusted_p_value,
        _better_model(pair, score),
        texts.detectable,
        f"{pair.shared_rows:,}",
    )


def _better_model(pair: PairedDifference, score: Score) -> str:
    """Return ``A`` or ``B`` for the better model, or an empty text if the test cannot tell."""
    p_value = pair.adjusted_p_value
    is_significant = p_value is not None and p_value < _SIGNIFICANCE_LEVEL
    # No model is better in a score that has no better direction.
    if not is_significant or score.higher_is_better is None:
        return ""
    is_a_higher = pair.difference > 0
    return "A" if is_a_higher == score.higher_is_better else "B"
