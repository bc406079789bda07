"""What is shown of runs: a score with its uncertainty, and what a report is of, models, tasks, and
a run of each model on each of its tasks, with the section that the page of any benchmark can
have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from markupsafe import Markup

from judges.capabilities import capabilities
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.declaration import (
    ACCURACY,
    Benchmark,
    Measure,
    Run,
    Score,
    interval_of,
    undeclared,
)
from lm_factuality.benchmarks.pairs import Pair, Scored, compare
from lm_factuality.benchmarks.rows import is_number
from lm_factuality.ground.html import render
from lm_factuality.ground.model_names import size_label
from lm_factuality.ground.plots import Dot
from lm_factuality.harness.outputs import Corrected, ResultsFile, TaskResult, number_of

Item = TypeVar("Item")

RETRIEVAL = "hf-ralm"
LEAST_ROWS = 10  # of fewer pages show no score, only its interval


def both_ways(runs: Mapping[tuple[str, str], Item]) -> Iterator[tuple[Item, Item]]:
    """Of runs by model and variant those with retrieval, each behind that of the same model
    without."""
    for (model, variant), run in runs.items():
        parts = variant.split(", ")
        others = [part for part in parts if part.split(" ")[0] != RETRIEVAL]
        if (
            len(others) < len(parts)
            and (without := runs.get((model, ", ".join(others)))) is not None
        ):
            yield without, run


def series(family: str, variant: str) -> str:
    return f"{family}, {variant.replace(RETRIEVAL, 'with retrieval')}" if variant else family


def newest(runs: Iterable[Run]) -> tuple[list[Run], list[str]]:
    """Of each model and task the newest run, and a note on each that is passed over for it."""
    found: dict[tuple[str, str], Run] = {}
    notes = []
    for run in sorted(
        runs, key=lambda run: (run.file.date, run.file.path.name, str(run.file.path))
    ):
        key = (run.task.task, run.label)
        if key in found:
            older = found.pop(key)
            names = run.file.path.name, older.file.path.name
            notes.append(
                f"{run.task.task}, {run.label}: {names[0]} counts, the newest; {names[1]} is older"
            )
        found[key] = run
    return list(found.values()), notes


@dataclass(frozen=True)
class Model:
    """A model of the report. ``id`` names its files, ``label`` is what readers see, ``name`` what
    lm_eval calls it; ``size`` is its number of parameters, None where neither lm_eval nor the name
    tells."""

    id: str
    label: str
    name: str
    variant: str
    backend: str
    size: float | None
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
    def benchmark(self) -> Benchmark | None:
        return find_benchmark(self.result.kind)

    @property
    def headline(self) -> Score | None:
        name = headline(self.result) or next(iter(self.result.metrics), None)
        return None if name is None else score_called(self.result.kind, name)

    def figure(self, score: Score | None) -> Figure | None:
        """A score with its interval, None where the run has none or it is not defined."""
        return figure(self.result, score.name) if score else None

    def dot(self, score: Score | None) -> Dot | None:
        """The same as plots show it, times what the score is shown times."""
        found = self.figure(score)
        if score is None or found is None or found.is_few:
            return None
        low, high = (None if end is None else score.times * end for end in (found.low, found.high))
        return Dot(score.times * found.value, low, high)

    def dots(self, scores: Iterable[Score]) -> dict[str, Dot]:
        return {score.label: dot for score in scores if (dot := self.dot(score))}

    @property
    def unscored(self) -> int | None:
        """How many items have no score (see ``Benchmark.unscored_unit``); None where the results
        give no finite number."""
        count = number_of(self.result.metrics.get("unscored", 0))
        return None if count is None else int(count)

    @property
    def unscored_of(self) -> str:
        unit = self.benchmark.scoring.unscored_unit if self.benchmark else "rows"
        return f"of {self.result.effective:,}" if unit == "rows" else unit


@dataclass(frozen=True)
class Chosen:
    """``models`` and ``tasks`` (their names), a run of each model on each of its tasks, and
    ``notes`` on what is passed over. ``scored`` has what rows contribute to scores, by task, score
    and model's id; ``own_pages`` by (task, model's id) the page on the samples of a run (see
    ``Samples.own_pages``)."""

    models: tuple[Model, ...]
    tasks: tuple[str, ...]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...]
    scored: Mapping[str, Mapping[str, Mapping[str, Scored]]] = field(default_factory=dict)
    own_pages: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def of_task(self, task: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.result.task == task]

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.result.kind == kind]

    def tasks_of_kind(self, kind: str) -> list[str]:
        return list(dict.fromkeys(entry.result.task for entry in self.of_kind(kind)))

    def find(self, model: Model, task: str) -> Entry | None:
        return next(
            (each for each in self.entries if each.model == model and each.result.task == task),
            None,
        )

    def pair(self, task: str, score: Score, one: Model, other: Model) -> Pair | None:
        """The paired difference of two models in a score; None where their rows are not known."""
        models = self.scored.get(task, {}).get(score.name, {})
        return (
            compare(models[one.id], models[other.id], score)
            if one.id in models and other.id in models
            else None
        )


def score_called(kind: str, name: str) -> Score:
    """How the score ``name`` of a benchmark is shown; one that is not shown in tables, or not
    declared, as it is."""
    benchmark = find_benchmark(kind)
    score = benchmark.score(name) if benchmark else None
    return score if score is not None and score.label else undeclared(name)


def shown_scores(entries: Sequence[Entry]) -> list[Score]:
    """The scores of a benchmark that tables show, those of them that any of its runs has."""
    benchmark = entries[0].benchmark if entries else None
    shown = benchmark.shown if benchmark else ()
    return [
        score for score in shown if any(score.name in entry.result.metrics for entry in entries)
    ]


def scores_section(
    chosen: Chosen, kind: str, title: str = "", note: str = "", tasks: Sequence[str] | None = None
) -> Markup:
    """The tables of all scores of a benchmark, one for each of its ``tasks`` (default: all); empty
    where there are none. ``title`` is that of the section (default: the benchmark's)."""
    benchmark = find_benchmark(kind)
    runs = {
        task: chosen.of_task(task)
        for task in (chosen.tasks_of_kind(kind) if tasks is None else tasks)
    }
    if not runs or benchmark is None:
        return Markup()
    tables = [(task, entries, shown_scores(entries)) for task, entries in runs.items()]
    return render(
        f"{__package__}/pages.html",
        kind=kind,
        title=title or benchmark.title,
        note=note,
        tables=tables,
    )


@dataclass(frozen=True)
class Figure:
    """A score with what is known of its uncertainty: the ends of a 95% interval, of ``n``
    documents. ``worst`` and ``best`` are the score if all ``unscored`` items (see
    ``Benchmark.unscored_unit``) were wrong, or right. ``caution`` is what to know of the judge;
    ``corrected`` is the score without the judge's errors, by people's labels; ``floor`` is what
    knowing nothing scores; ``counted`` how many rows it is of."""

    least: ClassVar[int] = LEAST_ROWS

    metric: str
    value: float
    low: float | None
    high: float | None
    stderr: float | None
    n: int
    unscored: int
    worst: float | None
    best: float | None
    caution: str
    corrected: Corrected | None = None
    floor: float | None = None
    counted: int = LEAST_ROWS

    @property
    def is_few(self) -> bool:
        return self.counted < LEAST_ROWS

    @property
    def is_part(self) -> bool:
        """Whether most rows say nothing about it."""
        return 2 * self.counted < self.n


def headline(task: TaskResult) -> str | None:
    """The score that a task is about; None for tasks that are not the suite's."""
    benchmark = find_benchmark(task.kind)
    if benchmark is None:
        return None
    return next(
        (name for name in benchmark.scoring.headlines if name in task.metrics),
        benchmark.scoring.headlines[-1],
    )


def figure(task: TaskResult, metric: str) -> Figure | None:
    """``metric`` of ``task`` with its 95% interval (see
    ``lm_factuality.scores.statistics.score_interval``). None where the task has no such metric, or
    it is not defined."""
    value, stderr = _number(task.metrics.get(metric)), _number(task.stderrs.get(metric))
    if value is None:
        return None
    measure, benchmark = measure_of(task, metric), find_benchmark(task.kind)
    if benchmark is None:  # other people's scores: nobody knows what they are
        measure = (
            ACCURACY
            if metric.startswith("acc")
            else Measure("unknown", "unknown", -math.inf, math.inf)
        )
    counted = benchmark.scoring.counted(task, metric) if benchmark else task.effective
    ends = None if stderr is None else interval_of(measure, value, stderr, counted)
    low, high = ends or (None, None)
    lost = int(number_of(task.metrics.get("unscored")) or 0)
    worst, best = (_number(task.metrics.get(f"{metric}_{bound}")) for bound in ("worst", "best"))
    judge = task.metadata.get("judge_config")
    judges = [judge, judge.get("first"), judge.get("then")] if isinstance(judge, Mapping) else []
    caution = next(
        filter(None, (capabilities(str((each or {}).get("backend"))).caution for each in judges)),
        "",
    )
    floor = benchmark.scoring.floor(task, metric) if benchmark else None
    return Figure(
        metric,
        value,
        low,
        high,
        stderr,
        task.effective,
        lost,
        worst,
        best,
        caution,
        task.corrected.get(metric),
        floor,
        counted,
    )


def _number(value: object) -> float | None:
    number = number_of(value)
    return number if number is not None and is_number(number) else None


def measure_of(task: TaskResult, metric: str) -> Measure | None:
    benchmark = find_benchmark(task.kind)
    score = benchmark.score(metric) if benchmark else None
    return score.measure if score else None
