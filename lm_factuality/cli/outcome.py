"""The last screen of a run: its scores, why items are unscored, and what to do next."""

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
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

_MOST_REASONS = 3  # that the screen names for a task


def print_outcome(finished: Finished) -> None:
    """Print the scores of a run, and what to do next."""
    runs, _ = suite_runs([to_results_file(finished.path or Path(), finished.content)])
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        if run.task.metrics:
            notes = notes_of(benchmark_of(run.task), run.file, run.task)
            run_with_notes = replace(run, notes=tuple(notes))
            groups[run.task.kind, headline_name(run.task)].append(run_with_notes)
    for (_, name), group in groups.items():
        sys.stdout.write("\n")
        print_table(*headline_table(benchmark_of(group[0].task), group, name))
    for run in runs:
        reasons = reasons_of(finished.unscored.get(run.task.task, ()))
        lines = list(map(str, reasons[:_MOST_REASONS]))
        more = sum(reason.items for reason in reasons[_MOST_REASONS:])
        if more:
            lines.append(f"{more} × other reasons, named in the samples")
        sys.stdout.writelines(f"{run.task.task}: {line}\n" for line in lines)
    if runs:
        steps = _next_steps(finished, [run.task for run in runs])
        sys.stdout.writelines(f"{line}\n" for line in steps)


def _next_steps(finished: Finished, tasks: Sequence[TaskResult]) -> Iterator[str]:
    """Yield how to judge what was only generated, and how to look at the samples."""
    if finished.path is None:
        yield (
            "Nothing was kept. To see each sample: the same command with --output_path DIR"
            " --log_samples"
        )
        return
    for task in tasks:
        if not task.metrics and task.samples and benchmark_of(task).judging:
            out = str(task.samples.with_suffix(""))
            files = ["--samples", str(task.samples), "--judge", "CONFIG", "--out", out]
            command = shlex.join(["lm-factuality", "judge", task.kind, *files])
            yield f"To judge the answers: {command}"
    if any(task.metrics for task in tasks):
        command = shlex.join(["lm-factuality", "report", str(finished.path), "--out", "report"])
        yield f"To look at the results: {command}"
