"""The last screen of a run: a line a task, why items are unscored and what cures it, what the data
warns of, what to do next."""

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

_REASONS = 3  # of a task that are named
_BETTER = {True: " ↑", False: " ↓", None: ""}


def print_outcome(finished: Finished) -> None:
    """The suite's tasks of a run; of those that were not to be scored only what to do next."""
    file = to_results_file(finished.path or Path(), finished.content)
    tasks = [(task, benchmark) for task in file.tasks if (benchmark := find_benchmark(task.kind))]
    if any(task.metrics for task, _ in tasks):
        rows = [_row(task, benchmark) for task, benchmark in tasks]
        notes = [
            note for task, benchmark in tasks for note in _notes(file, task, benchmark, finished)
        ]
        sys.stdout.write("\n")
        print_table(
            "Outcome",
            ("task", "score", "#value", "#95% interval", "#rows", "#unscored"),
            rows,
            notes,
        )
        print_corrected([file])
    for line in _next(finished, tasks) if tasks else ():
        sys.stdout.write(f"{line}\n")


def _row(task: TaskResult, benchmark: Benchmark) -> tuple[str, ...]:
    score, found = _headline(task, benchmark)
    count = (
        f"{task.effective:,}"
        if task.effective == task.num_samples
        else f"{task.effective:,}/{task.num_samples:,}"
    )
    unit = (
        "" if benchmark.scoring.unscored_unit == "rows" else f" {benchmark.scoring.unscored_unit}"
    )
    lost = f"{int(task.metrics.get('unscored', 0)):,}{unit}"
    name = f"{score.label}{_BETTER[score.higher]}"
    if found is None:
        return task.task, name, "none", "", count, lost
    ends = "" if found.low is None or found.high is None else score.between(found.low, found.high)
    return (
        task.task,
        name,
        "too few rows" if found.is_few else _written(score, found.value),
        ends,
        count,
        lost,
    )


def _headline(task: TaskResult, benchmark: Benchmark) -> tuple[Score, Figure | None]:
    score = score_called(task.kind, headline(task) or benchmark.scoring.headlines[0])
    return score, figure(task, score.name)


def _written(score: Score, value: float) -> str:
    return score.write(value) + ("%" if score.unit == "%" and score.times == 100 else "")


def _notes(
    file: ResultsFile, task: TaskResult, benchmark: Benchmark, finished: Finished
) -> Iterator[str]:
    reasons = reasons_of(finished.unscored.get(task.task, ()))
    done = "--apply_chat_template, or " if finished.has_template else ""
    yield from (f"{task.task}: {str(reason).replace(done, '')}" for reason in reasons[:_REASONS])
    if others := reasons[_REASONS:]:
        yield (
            f"{task.task}: {sum(each.items for each in others)} × other reasons, named in the"
            " samples"
        )
    score, found = _headline(task, benchmark)
    if found and found.floor is not None:
        yield f"{task.task}: knowing nothing scores {_written(score, found.floor)} on these rows"
    yield from (f"{task.task}: {warning}" for warning in notes_of(benchmark, file, task))


def _next(finished: Finished, tasks: Sequence[tuple[TaskResult, Benchmark]]) -> Iterator[str]:
    """What to do next: judge what was only generated, measure a judge that has no certificate, look
    at the samples."""
    if finished.output is None:
        yield (
            "Nothing was kept. To see each sample: the same command with --output_path DIR"
            " --log_samples"
        )
    for task, benchmark in tasks:
        if benchmark.judging is not None and not task.metrics and task.samples:
            options = [
                "--samples",
                str(task.samples),
                "--judge",
                "CONFIG",
                "--out",
                str(task.samples.with_suffix("")),
            ]
            yield (
                "To judge the answers:"
                f" {shlex.join(['lm-factuality', 'judge', task.kind, *options])}"
            )
    advised = set()
    for task, benchmark in tasks:
        named, given = (
            f"--judge {task.metadata.get('judge')}",
            f"--judge {shlex.quote(finished.judge)}",
        )
        commands = [
            each.text.partition("; run ")[2]
            for each in benchmark.certified(task.metadata)
            if task.metrics
        ]
        advised |= {
            command.replace(named, given if finished.judge else named)
            for command in commands
            if command
        }
    yield from (f"To know how far to trust its judge: {command}" for command in sorted(advised))
    if finished.output and any(task.metrics for task, _ in tasks):
        read, name = finished.output, finished.output.resolve().name
        if read.suffix == ".json":  # which lm_eval writes with the date in its name
            read, name = finished.path or read, read.stem
        report = ["report", str(read), "--out", str(finished.output.parent / f"{name}-report")]
        yield f"To look at the results: {shlex.join(['lm-factuality', *report])}"
        if not any(task.samples for task, _ in tasks):
            yield "With --log_samples in the run the report shows each sample."


def print_corrected(files: Sequence[ResultsFile], tasks: Sequence[str] | None = None) -> None:
    """The corrected scores beside what was measured, of all ``tasks`` or some."""
    rows, notes = [], dict[str, None]()
    for task in (
        each for file in files for each in file.tasks if tasks is None or each.task in tasks
    ):
        benchmark = find_benchmark(task.kind)
        for name in task.metrics:
            found = figure(task, name)
            if (
                found
                and (each := found.corrected)
                and benchmark
                and (score := benchmark.score(name))
            ):
                own = (
                    ""
                    if found.low is None or found.high is None
                    else score.between(found.low, found.high)
                )
                weight = "" if each.weight is None else f"{each.weight:.2f}"
                labels = f"{each.labelled} of {each.units}" if each.labelled else ""
                ends = score.write(each.value), score.between(each.low, each.high)
                rows.append(
                    (f"{task.task}, {name}", score.write(found.value), own, *ends, weight, labels)
                )
                notes[f"{task.task}: corrected {each.how}"] = None
    if any(row[5] for row in rows):
        notes[
            "lambda: how far the judge is believed between the labels, from 0 (not at all) to 1."
        ] = None
    if notes:
        columns = (
            "score",
            "#measured",
            "#95% interval",
            "#corrected",
            "#95% interval ",
            "#lambda",
            "#labelled",
        )
        print_table("Scores corrected for the judge", columns, rows, list(notes))
