"""Print the last screen of a run: its scores, why items are unscored, and the next commands.

``lm-factuality run`` calls `print_outcome` when lm_eval has finished.
"""

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lm_factuality.benchmarks.chosen import benchmark_of, headline_name, suite_runs
from lm_factuality.benchmarks.declaration import Run
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import reasons_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.run import Finished
from lm_factuality.results.compare import headline_table, notes_of
from lm_factuality.results.read import to_results_file

# The screen names at most this many reasons for unscored items per task.
_MOST_REASONS = 3


def print_outcome(finished: Finished) -> None:
    """Print the scores of a run, the reasons why items are unscored, and the next commands.

    Args:
        finished: The results of the run, where they were saved, and why items are unscored.
    """
    runs, _ = suite_runs([to_results_file(finished.path or Path(), finished.content)])
    runs_by_table: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        # A run that only generated answers has no scores yet.
        if not run.task.metrics:
            continue
        notes = notes_of(benchmark_of(run.task), run.file, run.task)
        run_with_notes = replace(run, notes=tuple(notes))
        runs_by_table[run.task.kind, headline_name(run.task)].append(run_with_notes)
    for (_, score_name), table_runs in runs_by_table.items():
        sys.stdout.write("\n")
        print_table(*headline_table(benchmark_of(table_runs[0].task), table_runs, score_name))

    for run in runs:
        for line in _unscored_lines(finished.unscored.get(run.task.task, ())):
            sys.stdout.write(f"{run.task.task}: {line}\n")
    if runs:
        commands = _next_commands(finished, [run.task for run in runs])
        sys.stdout.writelines(f"{line}\n" for line in commands)


def _unscored_lines(item_reasons: Iterable[str | None]) -> list[str]:
    """List the most frequent reasons why items are unscored, and count the rest in a last line.

    Args:
        item_reasons: The reason of each unscored item.
    """
    reasons = reasons_of(item_reasons)
    lines = [str(reason) for reason in reasons[:_MOST_REASONS]]
    remaining_items = sum(reason.items for reason in reasons[_MOST_REASONS:])
    if remaining_items:
        lines.append(f"{remaining_items} × other reasons, named in the samples")
    return lines


def _next_commands(finished: Finished, tasks: Sequence[TaskResult]) -> Iterator[str]:
    """Yield the commands that judge generated answers and that show the samples.

    Args:
        finished: The run. Its path is None if the user did not ask to save results.
        tasks: The tasks of the run that the suite knows.

    Yields:
        Lines such as "To look at the results: lm-factuality report results --out report".
    """
    if finished.path is None:
        yield (
            "Nothing was saved. To see each sample, add --output_path DIR --log_samples to the same"
            " command."
        )
        return
    for task in tasks:
        # Answers without scores still have to be judged.
        if not task.metrics and task.samples and benchmark_of(task).judging:
            out = str(task.samples.with_suffix(""))
            files = ["--samples", str(task.samples), "--judge", "CONFIG", "--out", out]
            command = shlex.join(["lm-factuality", "judge", task.kind, *files])
            yield f"To judge the answers: {command}"
    if any(task.metrics for task in tasks):
        command = shlex.join(["lm-factuality", "report", str(finished.path), "--out", "report"])
        yield f"To look at the results: {command}"
