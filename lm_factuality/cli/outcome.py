"""The last screen of a run: its scores, why items are unscored, and what to do next."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.chosen import figure, headline, score_called
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import reasons_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.run import Finished
from lm_factuality.results.compare import notes_of, score_cells
from lm_factuality.results.read import to_results_file

_MOST_REASONS = 3  # that the screen names for a task
_BETTER = {True: " ↑", False: " ↓", None: ""}


def print_outcome(finished: Finished) -> None:
    """Print the scores of a run, and what to do next."""
    file = to_results_file(finished.path or Path(), finished.content)
    tasks = []
    rows = []
    notes: list[str] = []
    for task in file.tasks:
        benchmark = find_benchmark(task.kind)
        if benchmark is None:
            continue
        tasks.append((task, benchmark))
        if task.metrics:
            row, notes_of_task = _outcome_of(task, benchmark, finished)
            rows.append(row)
            notes += notes_of_task
            notes += [f"{task.task}: {note}" for note in notes_of(benchmark, file, task)]
    if rows:
        columns = ("task", "score", "#value", "#95% interval", "#rows", "#unscored")
        sys.stdout.write("\n")
        print_table("Outcome", columns, rows, notes)
    if tasks:
        sys.stdout.writelines(f"{line}\n" for line in _next_steps(finished, tasks))


def _outcome_of(
    task: TaskResult, benchmark: Benchmark, finished: Finished
) -> tuple[tuple[str, ...], list[str]]:
    """Return the row of a task, and why items are unscored and what knowing nothing scores."""
    score = score_called(task.kind, headline(task) or "")
    measured = figure(task, score.name)
    num_rows = f"{task.effective:,}"
    if task.effective != task.num_samples:
        num_rows += f"/{task.num_samples:,}"
    unscored = f"{int(task.metrics.get('unscored', 0)):,}"
    if benchmark.scoring.unscored_unit != "rows":
        unscored += f" {benchmark.scoring.unscored_unit}"
    title = f"{score.titled}{_BETTER[score.higher]}"
    row = (task.task, title, *score_cells(measured, score), num_rows, unscored)

    reasons = reasons_of(finished.unscored.get(task.task, ()))
    notes = [f"{task.task}: {reason}" for reason in reasons[:_MOST_REASONS]]
    more = sum(reason.items for reason in reasons[_MOST_REASONS:])
    if more:
        notes.append(f"{task.task}: {more} × other reasons, named in the samples")
    if measured and measured.floor is not None:
        floor = f"{score.write(measured.floor)}{score.unit}"
        notes.append(f"{task.task}: knowing nothing scores {floor} on these rows")
    return row, notes


def _next_steps(finished: Finished, tasks: Sequence[tuple[TaskResult, Benchmark]]) -> Iterator[str]:
    """Yield how to judge what was only generated, and how to look at the samples."""
    if finished.path is None:
        yield (
            "Nothing was kept. To see each sample: the same command with --output_path DIR"
            " --log_samples"
        )
        return
    for task, benchmark in tasks:
        if not task.metrics and benchmark.judging is not None and task.samples:
            out = str(task.samples.with_suffix(""))
            files = ["--samples", str(task.samples), "--judge", "CONFIG", "--out", out]
            command = shlex.join(["lm-factuality", "judge", task.kind, *files])
            yield f"To judge the answers: {command}"
    if any(task.metrics for task, _ in tasks):
        command = shlex.join(["lm-factuality", "report", str(finished.path), "--out", "report"])
        yield f"To look at the results: {command}"
