"""Print the last screen of a run: its scores, why items are unscored, and the next commands.

``lm-factuality run`` calls `print_outcome` when lm_eval has finished.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from typer import echo

from lm_factuality.benchmarks.chosen import benchmark_of, headline_name, suite_runs
from lm_factuality.benchmarks.declaration import Run
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import count_reasons
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.run import Finished
from lm_factuality.results.compare import headline_table, notes_of, with_display_names
from lm_factuality.results.read import to_results_file

_GUESSING_NOTE = (
    "Guess baseline: what a guess without knowledge scores on these rows. It need not be 1 in the"
    " number of choices, because the false choices are edits of the true one."
)
_MOST_REASONS = 3  # that the screen names for unscored items of a task


def print_outcome(finished: Finished) -> None:
    """Print the scores of a run, the reasons why items are unscored, and the next commands.

    Args:
        finished: The results of the run, where they were saved, and why items are unscored.
    """
    # A run that saves nothing has no path, but results of the same form as in a file.
    results_file = to_results_file(finished.path or Path(), finished.content)
    # lm_eval itself has printed the scores of tasks that are not the suite's.
    runs, _ = suite_runs([results_file])
    if not runs:
        return

    _print_scores(runs)
    for run in runs:
        task_name = run.task.task
        reasons = finished.unscored.get(task_name, ())
        for line in _describe_reasons(reasons):
            echo(f"{task_name}: {line}")
    for command in _next_commands(finished.path, [run.task for run in runs]):
        echo(command)


def _print_scores(runs: Iterable[Run]) -> None:
    """Print a table for all tasks that have the same benchmark and the same main score.

    Args:
        runs: The results of each task.
    """
    runs_by_table: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        # A run that only generated answers has no scores yet.
        if not run.task.metrics:
            continue
        notes = notes_of(benchmark_of(run.task), run.file, run.task)
        run_with_notes = replace(run, notes=tuple(notes))
        runs_by_table[run.task.kind, headline_name(run.task)].append(run_with_notes)

    for (_, score_name), table_runs in runs_by_table.items():
        # All tasks of a table have the same benchmark.
        benchmark = benchmark_of(table_runs[0].task)
        table = headline_table(benchmark, with_display_names(table_runs), score_name)
        # Only benchmarks with choices have this column.
        if "#guess baseline" in table.columns:
            table = table._replace(notes=[*table.notes, _GUESSING_NOTE])
        echo()
        print_table(*table)


def _describe_reasons(item_reasons: Iterable[str | None]) -> list[str]:
    """List the three most frequent reasons why items have no score, and count the others.

    Example:
        Five different reasons end in the line "2 × other reasons, named in the samples".
    """
    reasons = count_reasons(item_reasons)
    lines = [str(reason) for reason in reasons[:_MOST_REASONS]]
    remaining_items = sum(reason.num_items for reason in reasons[_MOST_REASONS:])
    if remaining_items:
        lines.append(f"{remaining_items} × other reasons, named in the samples")
    return lines


def _next_commands(results_path: Path | None, tasks: Sequence[TaskResult]) -> Iterator[str]:
    """Yield the commands that judge generated answers and that show the samples.

    Args:
        results_path: The results file. None if the user did not ask to save results.
        tasks: The tasks of the run that the suite knows.

    Yields:
        Lines such as "To look at the results: lm-factuality report results --out report".
    """
    if results_path is None:
        yield (
            "Nothing was saved. To see each sample, add --output_path DIR --log_samples to the same"
            " command."
        )
        return

    for task in tasks:
        # Answers without scores still have to be judged.
        if not task.metrics and task.samples and benchmark_of(task).judging:
            out = str(task.samples.with_suffix(""))
            options = ["--samples", str(task.samples), "--judge", "CONFIG", "--out", out]
            command = shlex.join(["lm-factuality", "judge", task.kind, *options])
            yield f"To judge the answers: {command}"
    if any(task.metrics for task in tasks):
        command = shlex.join(["lm-factuality", "report", str(results_path), "--out", "report"])
        yield f"To look at the results: {command}"
