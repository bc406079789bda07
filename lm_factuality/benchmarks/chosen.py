"""The runs that a report shows, and their scores with their uncertainty.

Reports, comparisons, leaderboards and the Python API select runs and look up scores here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar, TypeVar

from markupsafe import Markup

from judges.capabilities import capabilities_of
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.benchmarks.declaration import (
    NOT_NEGATIVE,
    Benchmark,
    Run,
    Score,
    undeclared_score,
)
from lm_factuality.ground.html import render
from lm_factuality.ground.model_names import size_label
from lm_factuality.ground.plots import Dot
from lm_factuality.harness.outputs import Corrected, ResultsFile, TaskResult, number_of
from lm_factuality.scores.intervals import MIN_CLUSTERS, Interval, interval_from_stderr

RunType = TypeVar("RunType")

RETRIEVAL = "hf-ralm"
"""The name of lm_eval's model type that answers with retrieved passages."""


def suite_runs(files: Iterable[ResultsFile]) -> tuple[list[Run], list[str]]:
    """Separate the runs of this package's benchmarks from those of other tasks.

    Args:
        files: The results files.

    Returns:
        The runs of this package's benchmarks, and a note on each task of another kind.
    """
    runs = []
    notes = []
    for file in files:
        for task in file.tasks:
            if find_benchmark(task.kind) is not None:
                runs.append(Run(file, task))
                continue
            # Results files can also hold tasks of lm_eval itself.
            notes.append(
                f"Left out: {task.task} is not a task of the suite, so it is not known by which"
                " scores to compare its runs"
            )
    # Several files can hold the same task. A dict keeps the first of equal notes, in order.
    return runs, list(dict.fromkeys(notes))


def pairs_without_and_with_retrieval(
    runs: Mapping[tuple[str, str], RunType],
) -> Iterator[tuple[RunType, RunType]]:
    """Yield the run of a model without retrieval together with its run with retrieval.

    Args:
        runs: The runs by the model's name and variant. A variant lists options, such as
            ``hf-ralm index=wiki, float16``.

    Example:
        The variant ``hf-ralm index=wiki, float16`` is paired with the same model's ``float16``.
    """
    for (model, variant), run in runs.items():
        options = variant.split(", ")
        # An option is a name with arguments, such as "hf-ralm index=wiki".
        other_options = [option for option in options if option.split(" ")[0] != RETRIEVAL]
        if len(other_options) == len(options):
            # A run without retrieval is only the first part of a pair.
            continue
        plain_run = runs.get((model, ", ".join(other_options)))
        if plain_run is not None:
            yield plain_run, run


def series_name(family: str, variant: str) -> str:
    """Return the name of a model family's series in plots: ``gpt2, with retrieval index=wiki``."""
    if not variant:
        return family
    return f"{family}, {variant.replace(RETRIEVAL, 'with retrieval')}"


def newest_runs(runs: Iterable[Run]) -> tuple[list[Run], list[str]]:
    """Keep the newest run of each model and task.

    Args:
        runs: The runs, in any order.

    Returns:
        The newest runs from the oldest to the newest, and a note on each run that is left out.
    """
    newest_by_key: dict[tuple[str, str], Run] = {}
    notes = []
    # Of equal dates, the file name decides, so that the order never changes.
    by_date = sorted(runs, key=lambda run: (run.file.date, run.file.path.name, run.file.path))
    for run in by_date:
        key = (run.task.task, run.label)
        # A newer run replaces the older one, and comes last in the order of the report.
        older_run = newest_by_key.pop(key, None)
        newest_by_key[key] = run
        if older_run is not None:
            notes.append(
                f"{run.task.task}, {run.label}: using newest: {run.file.path.name};"
                f" {older_run.file.path.name} is older"
            )
    return list(newest_by_key.values()), notes


@dataclass(frozen=True)
class Model:
    """A model of the report."""

    id: str
    """The part of file names that stands for the model."""

    label: str
    """The name for readers."""

    name: str
    """The name that lm_eval was given."""

    variant: str
    """The options in which the model differs from others of its name, such as retrieval."""

    backend: str
    """lm_eval's ``--model``, such as ``hf``."""

    size: float | None
    """The number of parameters, or None if neither lm_eval nor the name tells it."""

    family: str
    """The models of the same series in other sizes, such as ``pythia``."""

    @property
    def size_label(self) -> str:
        """The size for readers, such as ``1.4B``, or a dash if it is not known."""
        return size_label(self.size) if self.size else "–"


@dataclass(frozen=True)
class Entry:
    """The newest run of a model on a task."""

    model: Model
    file: ResultsFile
    result: TaskResult

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the task."""
        return benchmark_of(self.result)

    @property
    def headline(self) -> Score:
        """The main score of the task."""
        score = displayed_score(self.result.kind, headline_name(self.result))
        return score.with_k_label([self.result.metadata])

    def figure(self, score: Score) -> ScoreFigure | None:
        """Return a score of the run with its interval, or None if it is missing or undefined."""
        return score_figure(self.result, score.name)

    def dot(self, score: Score) -> Dot | None:
        """Return a score of the run as a dot of a plot, with its 95% interval.

        None means that the run has no such score, or that too few rows count for it.
        """
        figure = self.figure(score)
        if figure is None or figure.has_few_clusters:
            return None
        # The plot shows all values in the unit of tables, such as percent.
        factor = score.display_factor
        return Dot(
            value=factor * figure.value,
            low=None if figure.low is None else factor * figure.low,
            high=None if figure.high is None else factor * figure.high,
            baseline=None if figure.guess_baseline is None else factor * figure.guess_baseline,
        )

    @property
    def unscored_of(self) -> str:
        """The words that follow the number of unscored items, such as ``of 1,036``."""
        unit = self.benchmark.scoring.unscored_unit
        if unit == "rows":
            return f"of {self.result.effective:,}"
        # Unscored facts are no part of the rows, so their word stands alone.
        return unit


@dataclass(frozen=True)
class ReportRuns:
    """The models, tasks and runs that a report shows."""

    models: tuple[Model, ...]

    tasks: tuple[str, ...]
    """The names of the tasks."""

    entries: tuple[Entry, ...]
    """A run of each model on each of its tasks."""

    notes: tuple[str, ...]
    """Sentences about the runs that are left out."""

    custom_pages: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The file with a benchmark's own page about a run, by task and model id.

    See ``SampleDisplay.custom_page``.
    """

    def of_task(self, task: str) -> list[Entry]:
        """Return the runs of a task."""
        return [entry for entry in self.entries if entry.result.task == task]

    def of_kind(self, kind: str) -> list[Entry]:
        """Return the runs of all tasks of a benchmark."""
        return [entry for entry in self.entries if entry.result.kind == kind]

    def tasks_of_kind(self, kind: str) -> list[str]:
        """Return the names of a benchmark's tasks, in the order of the runs."""
        return list(dict.fromkeys(entry.result.task for entry in self.of_kind(kind)))

    def find(self, model: Model, task: str) -> Entry | None:
        """Return the run of a model on a task, or None."""
        return next((entry for entry in self.of_task(task) if entry.model == model), None)


def displayed_score(kind: str, name: str) -> Score:
    """Return the score by which a report shows a metric, with its label, factor and range.

    A metric that is not declared, or has no label, gets a score that shows its values unchanged
    under its name.

    Args:
        kind: The kind of the benchmark, such as ``factor``.
        name: The name of the metric in results files.
    """
    # Results can be of a benchmark whose package is not installed on this machine.
    benchmark = find_benchmark(kind)
    score = benchmark.find_score(name) if benchmark else None
    if score is not None and score.label:
        return score
    return undeclared_score(name)


def reported_scores(entries: Sequence[Entry]) -> list[Score]:
    """Return the scores of a benchmark that tables show and at least one of its runs has.

    Args:
        entries: Runs of the same benchmark, whose tasks can report different metrics.

    Returns:
        The scores, in the order in which tables show them.
    """
    if not entries:
        return []
    metric_names = set(chain.from_iterable(entry.result.metrics for entry in entries))
    metadata_of_runs = [entry.result.metadata for entry in entries]
    scores = []
    for score in entries[0].benchmark.table_scores:
        if score.name in metric_names:
            scores.append(score.with_k_label(metadata_of_runs))
    return scores


def scores_section(report_runs: ReportRuns, kind: str, title: str = "", note: str = "") -> Markup:
    """Render a report section with a table of scores for each task of a benchmark.

    Args:
        report_runs: The runs of the report.
        kind: The kind of the benchmark.
        title: The title of the section. By default, that of the benchmark.
        note: A text below the title.

    Returns:
        The HTML, which is empty if the report has no run of the benchmark.
    """
    benchmark = find_benchmark(kind)
    tasks = report_runs.tasks_of_kind(kind)
    if not tasks or benchmark is None:
        return Markup()

    # Each table has the runs of a task as rows and the scores as columns, in which tasks differ.
    tables = []
    for task in tasks:
        entries = report_runs.of_task(task)
        tables.append((task, entries, reported_scores(entries)))
    return render(
        f"{__package__}/pages.html",
        kind=kind,
        title=title or benchmark.title,
        note=note,
        tables=tables,
    )


@dataclass(frozen=True)
class ScoreFigure:
    """A score of a run with everything that is known about its uncertainty."""

    least: ClassVar[int] = MIN_CLUSTERS

    task: TaskResult

    metric: str
    """The name of the score in results files."""

    value: float
    stderr: float | None

    low: float | None
    """The lower end of the 95% interval."""

    high: float | None
    """The upper end of the 95% interval."""

    worst: float | None
    """The score if all unscored items were wrong."""

    best: float | None
    """The score if all unscored items were right."""

    guess_baseline: float | None
    """The score of a model that guesses."""

    counted: int
    """The number of rows that count for the score."""

    num_clusters: int
    """The number of documents, or other clusters, that these rows are from."""

    @property
    def n(self) -> int:
        """The number of rows that were run."""
        return self.task.effective

    @property
    def unscored(self) -> int:
        """The number of unscored items of the run."""
        return self.task.unscored

    @property
    def corrected(self) -> Corrected | None:
        """The score corrected for the judge's errors by people's labels, or None."""
        return self.task.corrected.get(self.metric)

    @property
    def caution(self) -> str:
        """The warning about the kind of judge that the run used, or an empty text.

        If the judge is a cascade of two judges, it is the warning about the first that has one.
        """
        judge = as_mapping(self.task.metadata.get("judge_config"))
        # Only a cascade has the keys "first" and "second". An empty configuration has no warning.
        first_judge = as_mapping(judge.get("first"))
        second_judge = as_mapping(judge.get("second"))
        for config in (judge, first_judge, second_judge):
            caution = capabilities_of(str(config.get("backend"))).caution
            if caution:
                return caution
        return ""

    @property
    def has_few_clusters(self) -> bool:
        """Whether the rows are from too few documents to show the score."""
        return self.num_clusters < MIN_CLUSTERS

    @property
    def is_part(self) -> bool:
        """Whether fewer than half of the rows count for the score."""
        return 2 * self.counted < self.n


def benchmark_of(task: TaskResult) -> Benchmark:
    """Return the benchmark of a task that `suite_runs` has selected."""
    benchmark = find_benchmark(task.kind)
    # Other tasks were left out when the files were read.
    assert benchmark is not None
    return benchmark


def headline_name(task: TaskResult) -> str:
    """Return the name of a task's main score.

    Tasks of a benchmark can report different scores. The main score is the first headline of the
    benchmark that the task reports.
    """
    headlines = benchmark_of(task).scoring.headlines
    for name in headlines:
        if name in task.metrics:
            return name
    # No headline could be computed. Tables then show the last one as missing.
    return headlines[-1]


def score_figure(task: TaskResult, metric: str) -> ScoreFigure | None:
    """Look up a score of a run with its 95% interval.

    Args:
        task: A task of one of this package's benchmarks.
        metric: The name of the score in results files.

    Returns:
        The score, or None if the run has no such score or it is not defined.
    """
    value = number_of(task.metrics.get(metric))
    # lm_eval writes a text such as "N/A" for a score that is not defined.
    if value is None:
        return None

    scoring = benchmark_of(task).scoring
    num_rows = scoring.count_rows(task, metric)
    low, high = _interval_of(task, metric, value, num_rows) or (None, None)
    stated = task.intervals.get(metric)
    return ScoreFigure(
        task=task,
        metric=metric,
        value=value,
        stderr=number_of(task.stderrs.get(metric)),
        low=low,
        high=high,
        worst=number_of(task.metrics.get(f"{metric}_worst")),
        best=number_of(task.metrics.get(f"{metric}_best")),
        guess_baseline=scoring.guess_baseline(task, metric),
        counted=num_rows,
        num_clusters=num_rows if stated is None else stated.num_clusters,
    )


def _interval_of(task: TaskResult, metric: str, value: float, num_rows: int) -> Interval | None:
    """Return the 95% interval that a run states, or that follows from its standard error.

    Args:
        task: The run's task.
        metric: The name of the score.
        value: The score.
        num_rows: The number of rows that count for it.
    """
    stated = task.intervals.get(metric)
    if stated is not None:
        return stated.ends
    # Results of an earlier version state no intervals.
    stderr = number_of(task.stderrs.get(metric))
    if stderr is None:
        return None
    score = benchmark_of(task).find_score(metric)
    value_range = (score.value_range if score else None) or NOT_NEGATIVE
    return interval_from_stderr(value, stderr, num_rows, value_range.low, value_range.high)
