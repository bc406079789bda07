"""What is shown of runs: scores with their uncertainty, and the runs that a report is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from markupsafe import Markup

from judges.capabilities import capabilities_of
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Run,
    Score,
    confidence_interval,
    undeclared_score,
    worst_and_best_of,
)
from lm_factuality.benchmarks.pairs import PairedDifference, paired_difference
from lm_factuality.benchmarks.rows import ScoredRows
from lm_factuality.ground.html import render
from lm_factuality.ground.model_names import size_label
from lm_factuality.ground.plots import Dot
from lm_factuality.harness.outputs import Corrected, ResultsFile, TaskResult, number_of

Item = TypeVar("Item")

RETRIEVAL = "hf-ralm"
LEAST_ROWS = 10
"""Of fewer rows, pages show no score, only its interval."""


def suite_runs(files: Iterable[ResultsFile]) -> tuple[list[Run], list[str]]:
    """Return the runs of the suite's tasks, and a sentence on each other task."""
    runs = []
    left_out: dict[str, None] = {}
    for file in files:
        for task in file.tasks:
            if find_benchmark(task.kind) is not None:
                runs.append(Run(file, task))
                continue
            sentence = (
                f"Left out: {task.task} is not a task of the suite, so its scores to compare are"
                " not known"
            )
            left_out[sentence] = None
    return runs, list(left_out)


def pairs_without_and_with_retrieval(
    runs: Mapping[tuple[str, str], Item],
) -> Iterator[tuple[Item, Item]]:
    """Yield each run with retrieval behind that of the same model without.

    Args:
        runs: The runs by model and variant.
    """
    for (model, variant), run in runs.items():
        parts = variant.split(", ")
        others = [part for part in parts if part.split(" ")[0] != RETRIEVAL]
        without = runs.get((model, ", ".join(others)))
        if len(others) < len(parts) and without is not None:
            yield without, run


def series_name(family: str, variant: str) -> str:
    return f"{family}, {variant.replace(RETRIEVAL, 'with retrieval')}" if variant else family


def newest_runs(runs: Iterable[Run]) -> tuple[list[Run], list[str]]:
    """Return the newest run of each model and task, and a note on each older one."""
    newest_runs: dict[tuple[str, str], Run] = {}
    notes = []
    for run in sorted(runs, key=lambda run: (run.file.date, run.file.path.name, run.file.path)):
        key = (run.task.task, run.label)
        if key in newest_runs:
            older = newest_runs.pop(key).file.path.name
            newer = run.file.path.name
            notes.append(f"{', '.join(key)}: {newer} counts, the newest; {older} is older")
        newest_runs[key] = run
    return list(newest_runs.values()), notes


@dataclass(frozen=True)
class Model:
    """A model of the report."""

    id: str
    """Names its files."""

    label: str
    """What readers see."""

    name: str
    """What lm_eval calls it."""

    variant: str
    backend: str

    size: float | None
    """The number of parameters. None if neither lm_eval nor the name tells."""

    family: str

    @property
    def size_label(self) -> str:
        return size_label(self.size) if self.size else "–"


@dataclass(frozen=True)
class Entry:
    """A model on a task: the newest run of it."""

    model: Model
    file: ResultsFile
    result: TaskResult

    @property
    def benchmark(self) -> Benchmark:
        return benchmark_of(self.result)

    @property
    def headline(self) -> Score:
        return displayed_score(self.result.kind, headline_name(self.result))

    def figure(self, score: Score) -> ScoreFigure | None:
        """A score with its interval, or None if the run has none or it is not defined."""
        return score_figure(self.result, score.name)

    def dot(self, score: Score) -> Dot | None:
        """The same as plots show it, in the unit that tables show it in."""
        result = self.figure(score)
        if result is None or result.is_few:
            return None
        ends = [
            None if end is None else score.display_factor * end for end in (result.low, result.high)
        ]
        return Dot(score.display_factor * result.value, *ends)

    def dots(self, scores: Iterable[Score]) -> dict[str, Dot]:
        dots = {score.label: self.dot(score) for score in scores}
        return {label: dot for label, dot in dots.items() if dot}

    @property
    def unscored_of(self) -> str:
        unit = self.benchmark.scoring.unscored_unit
        return f"of {self.result.effective:,}" if unit == "rows" else unit


@dataclass(frozen=True)
class ReportRuns:
    """What a report is of."""

    models: tuple[Model, ...]

    tasks: tuple[str, ...]
    """The names of the tasks."""

    entries: tuple[Entry, ...]
    """A run of each model on each of its tasks."""

    notes: tuple[str, ...]
    """What is passed over."""

    scored: Mapping[str, Mapping[str, Mapping[str, ScoredRows]]] = field(default_factory=dict)
    """What rows contribute to scores, by task, score and model's id."""

    own_pages: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By task and model's id the page on the samples of a run (see ``Samples.own_pages``)."""

    def of_task(self, task: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.result.task == task]

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.result.kind == kind]

    def tasks_of_kind(self, kind: str) -> list[str]:
        return list(dict.fromkeys(entry.result.task for entry in self.of_kind(kind)))

    def find(self, model: Model, task: str) -> Entry | None:
        return next((entry for entry in self.of_task(task) if entry.model == model), None)

    def pair(self, task: str, score: Score, one: Model, other: Model) -> PairedDifference | None:
        """The paired difference of two models, or None if their rows are not known."""
        models = self.scored.get(task, {}).get(score.name, {})
        if one.id not in models or other.id not in models:
            return None
        return paired_difference(models[one.id], models[other.id], score)


def displayed_score(kind: str, name: str) -> Score:
    """Return how a score of a benchmark is shown.

    One that is not shown in tables, or not declared, is shown as it is.
    """
    benchmark = find_benchmark(kind)
    score = benchmark.find_score(name) if benchmark else None
    return score if score is not None and score.label else undeclared_score(name)


def reported_scores(entries: Sequence[Entry]) -> list[Score]:
    """Return those scores of a benchmark that tables show and any of its runs has."""
    names = {name for entry in entries for name in entry.result.metrics}
    shown = entries[0].benchmark.table_scores if entries else ()
    return [score for score in shown if score.name in names]


def scores_section(
    chosen: ReportRuns,
    kind: str,
    title: str = "",
    note: str = "",
    tasks: Sequence[str] | None = None,
) -> Markup:
    """Return the tables of all scores of a benchmark, or nothing if there are none.

    Args:
        title: The title of the section. By default, that of the benchmark.
        tasks: The tasks that get a table. By default, all of the benchmark.
    """
    benchmark = find_benchmark(kind)
    tables = []
    for task in chosen.tasks_of_kind(kind) if tasks is None else tasks:
        entries = chosen.of_task(task)
        tables.append((task, entries, reported_scores(entries)))
    if not tables or benchmark is None:
        return Markup()
    return render(
        f"{__package__}/pages.html",
        kind=kind,
        title=title or benchmark.title,
        note=note,
        tables=tables,
    )


@dataclass(frozen=True)
class ScoreFigure:
    """A score with what is known of its uncertainty."""

    least: ClassVar[int] = LEAST_ROWS

    task: TaskResult
    metric: str
    value: float
    stderr: float | None

    low: float | None
    """The lower end of the 95% interval."""

    high: float | None
    """The higher end."""

    worst: float | None
    """The score if all unscored items were wrong."""

    best: float | None
    """The score if all unscored items were right."""

    floor: float | None
    """What knowing nothing scores."""

    counted: int
    """The number of rows that it is of."""

    @property
    def n(self) -> int:
        """The number of rows that were run."""
        return self.task.effective

    @property
    def unscored(self) -> int:
        return self.task.unscored

    @property
    def corrected(self) -> Corrected | None:
        """The score without the judge's errors, by people's labels."""
        return self.task.corrected.get(self.metric)

    @property
    def caution(self) -> str:
        """What to know of the judge, or of one of the judges that it is made of."""
        judge = as_mapping(self.task.metadata.get("judge_config"))
        for config in (judge, judge.get("first"), judge.get("then")):
            caution = capabilities_of(str(as_mapping(config).get("backend"))).caution
            if caution:
                return caution
        return ""

    @property
    def is_few(self) -> bool:
        return self.counted < LEAST_ROWS

    @property
    def is_part(self) -> bool:
        """Whether most rows say nothing about it."""
        return 2 * self.counted < self.n


def benchmark_of(task: TaskResult) -> Benchmark:
    """Return the benchmark of a task of the suite."""
    benchmark = find_benchmark(task.kind)
    assert benchmark is not None
    return benchmark


def headline_name(task: TaskResult) -> str:
    """Return the score that a task of the suite is about."""
    names = benchmark_of(task).scoring.headlines
    return next((name for name in names if name in task.metrics), names[-1])


def score_figure(task: TaskResult, metric: str) -> ScoreFigure | None:
    """Return a score of a task of the suite with its 95% interval.

    The interval is that of `lm_factuality.scores.statistics.score_interval`.

    Returns:
        The score, or None if the task has no such score or it is not defined.
    """
    value = number_of(task.metrics.get(metric))
    if value is None:
        return None
    stderr = number_of(task.stderrs.get(metric))
    benchmark = benchmark_of(task)
    score = benchmark.find_score(metric)
    counted = benchmark.scoring.count_rows(task, metric)
    low = high = None
    if stderr is not None:
        measure = score.value_range if score else None
        low, high = confidence_interval(measure, value, stderr, counted) or (None, None)
    worst, best = (
        number_of(task.metrics.get(name)) for name in worst_and_best_of(metric, None, None)
    )
    floor = benchmark.scoring.floor(task, metric)
    return ScoreFigure(task, metric, value, stderr, low, high, worst, best, floor, counted)
