"""The last screen of a run: its scores, why items are unscored, and what to do next."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.chosen import Figure, figure, headline, score_called
from lm_factuality.benchmarks.declaration import Benchmark, Score
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import reasons_of
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.harness.run import Finished
from lm_factuality.results.compare import notes_of
from lm_factuality.results.read import to_results_file

_MOST_REASONS = 3  # that the screen names for a task
_BETTER = {True: " ↑", False: " ↓", None: ""}


def print_outcome(finished: Finished) -> None:
    """Print the scores of a run, and what to do next."""
    file = to_results_file(finished.path or Path(), finished.content)
    tasks = []
    for task in file.tasks:
        benchmark = find_benchmark(task.kind)
        if benchmark:
            tasks.append((task, benchmark))
    if not tasks:
        return
    if any(task.metrics for task, _ in tasks):
        rows = []
        notes: list[str] = []
        for task, benchmark in tasks:
            rows.append(_row(task, benchmark))
            notes += _notes(file, task, benchmark, finished)
        columns = ("task", "score", "#value", "#95% interval", "#rows", "#unscored")
        sys.stdout.write("\n")
        print_table("Outcome", columns, rows, notes)
        print_corrected([file])
    sys.stdout.writelines(f"{line}\n" for line in _next_steps(finished, tasks))


def _row(task: TaskResult, benchmark: Benchmark) -> tuple[str, ...]:
    score, result = _headline(task, benchmark)
    rows = f"{task.effective:,}"
    if task.effective != task.num_samples:
        rows += f"/{task.num_samples:,}"
    unscored = f"{int(task.metrics.get('unscored', 0)):,}"
    if benchmark.scoring.unscored_unit != "rows":
        unscored += f" {benchmark.scoring.unscored_unit}"
    if result is None:
        value, interval = "none", ""
    else:
        value = "too few rows" if result.is_few else _with_unit(score, result.value)
        interval = _interval(score, result.low, result.high)
    return task.task, f"{score.label}{_BETTER[score.higher]}", value, interval, rows, unscored


def _headline(task: TaskResult, benchmark: Benchmark) -> tuple[Score, Figure | None]:
    """Return the score that the task is about, and its value in this run."""
    score = score_called(task.kind, headline(task) or benchmark.scoring.headlines[0])
    return score, figure(task, score.name)


def _with_unit(score: Score, value: float) -> str:
    return score.write(value) + ("%" if score.unit == "%" and score.times == 100 else "")


def _interval(score: Score, low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else score.between(low, high)


def _notes(
    file: ResultsFile, task: TaskResult, benchmark: Benchmark, finished: Finished
) -> Iterator[str]:
    """Yield why items are unscored, what knowing nothing scores, and what the data warns of."""
    reasons = reasons_of(finished.unscored.get(task.task, ()))
    for reason in reasons[:_MOST_REASONS]:
        yield f"{task.task}: {reason}"
    more = sum(reason.items for reason in reasons[_MOST_REASONS:])
    if more:
        yield f"{task.task}: {more} × other reasons, named in the samples"
    score, result = _headline(task, benchmark)
    if result and result.floor is not None:
        floor = _with_unit(score, result.floor)
        yield f"{task.task}: knowing nothing scores {floor} on these rows"
    for warning in notes_of(benchmark, file, task):
        yield f"{task.task}: {warning}"


def _next_steps(finished: Finished, tasks: Sequence[tuple[TaskResult, Benchmark]]) -> Iterator[str]:
    """Yield how to judge what was only generated, and how to look at the samples."""
    if finished.output is None:
        yield (
            "Nothing was kept. To see each sample: the same command with --output_path DIR"
            " --log_samples"
        )
    for task, benchmark in tasks:
        if not task.metrics and benchmark.judging is not None and task.samples:
            out = str(task.samples.with_suffix(""))
            files = ["--samples", str(task.samples), "--judge", "CONFIG", "--out", out]
            command = shlex.join(["lm-factuality", "judge", task.kind, *files])
            yield f"To judge the answers: {command}"
    if finished.output and any(task.metrics for task, _ in tasks):
        results = finished.output
        name = results.resolve().name
        if results.suffix == ".json":  # lm_eval puts the date into the name
            name = results.stem
            results = finished.path or results
        out = str(finished.output.parent / f"{name}-report")
        command = shlex.join(["lm-factuality", "report", str(results), "--out", out])
        yield f"To look at the results: {command}"
        if not any(task.samples for task, _ in tasks):
            yield "With --log_samples in the run the report shows each sample."


def print_corrected(files: Sequence[ResultsFile], tasks: Sequence[str] | None = None) -> None:
    """Print the corrected scores beside the measured ones, of all tasks or of some."""
    rows = []
    notes: dict[str, None] = {}
    for task in [task for file in files for task in file.tasks]:
        benchmark = find_benchmark(task.kind)
        if benchmark is None or (tasks is not None and task.task not in tasks):
            continue
        for name in task.metrics:
            score, result = benchmark.score(name), figure(task, name)
            corrected = result.corrected if result else None
            if score is None or result is None or corrected is None:
                continue
            row = (
                f"{task.task}, {name}",
                score.write(result.value),
                _interval(score, result.low, result.high),
                score.write(corrected.value),
                score.between(corrected.low, corrected.high),
                "" if corrected.weight is None else f"{corrected.weight:.2f}",
                f"{corrected.labelled} of {corrected.units}" if corrected.labelled else "",
            )
            rows.append(row)
            notes[f"{task.task}: corrected {corrected.how}"] = None
    if rows:
        names = ("measured", "95% interval", "corrected", "95% interval ", "lambda", "labelled")
        explanation = (
            "lambda: how far the judge is believed between the labels, from 0 (not at all) to 1."
        )
        columns = ("score", *(f"#{name}" for name in names))
        print_table("Scores corrected for the judge", columns, rows, [*notes, explanation])
