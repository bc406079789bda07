"""``lm-factuality people correct``: scores without the judge's errors, by people's labels on some samples; ``people plan``: how
many labels a corrected score needs, and of what."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.cli.actions import add_action
from lm_factuality.cli.printing import print_corrected
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError

if TYPE_CHECKING:
    from lm_factuality.harness.outputs import ResultsFile, TaskResult


def add(actions: Any) -> None:
    """Adds ``people correct`` and ``people plan`` to the actions of ``people``."""
    correct = add_action(actions, "people correct", "correct scores for the judge's errors by people's labels", _correct)
    plan = add_action(actions, "people plan", "say how many labels bring an interval to a width, and from which strata", _plan)
    for parser in (correct, plan):
        parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="the results that the sheet was drawn from")
        parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="the sheet's NAME.key.json")
        parser.add_argument(
            "--labels", type=Path, nargs="+", required=True, metavar="FILE", help="what people exported or filled in"
        )
        parser.add_argument("--task", help="only this task")
    plan.add_argument("--width", type=float, required=True, metavar="W", help="of the 95%% interval: 0.04 is four points")
    plan.add_argument("--score", metavar="NAME", help="which score (default: the headline)")


def _tasks_of_sheet(parsed: argparse.Namespace) -> list[tuple[ResultsFile, TaskResult]]:
    from lm_factuality.people.labels import read_key
    from lm_factuality.results.read import read_results_files

    wanted = {each.task for each in read_key(parsed.key).sources}
    files = read_results_files(parsed.results, with_corrected=False)
    found = [(file, task) for file in files for task in file.tasks if task.task in wanted and parsed.task in (None, task.task)]
    if not found:
        there = ", ".join(sorted({task.task for file in files for task in file.tasks}))
        raise ConfigError(f"{parsed.task or 'RESULTS'}: the sheet is of {', '.join(sorted(wanted))}, the results are of {there}")
    return found


def _correct(parsed: argparse.Namespace) -> int:
    """Writes a file beside each of the sheet's results, and prints what is in it."""
    from lm_factuality.people.correct import correct
    from lm_factuality.results.read import read_results_file, write_correction

    found = _tasks_of_sheet(parsed)
    for file, correction in [(file, correct(task, parsed.key, parsed.labels)) for file, task in found]:
        written = write_correction(correction, file.path)
        print_corrected([read_results_file(file.path)], [correction.task])
        lines = [f"{count} samples: {reason}" for reason, count in correction.left_out.items()]
        lines += [f"{name}: {reason}" for name, reason in correction.without.items()]
        sys.stdout.writelines(f"{line}\n" for line in [*lines, f"Written to {written}, which is read with the results"])
    return 0


def _plan(parsed: argparse.Namespace) -> int:
    """Prints how many labels are needed."""
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.people.correct import plan_labels, rows_of
    from lm_factuality.people.labels import read_key, read_labels

    if not parsed.width > 0:
        raise ConfigError(f"--width {parsed.width:g}: expected more than 0")
    found = _tasks_of_sheet(parsed)
    task, key = found[0][1], read_key(parsed.key)
    benchmark = find_benchmark(task.kind)
    if len(found) != 1 or benchmark is None:
        raise ConfigError(f"{len(found)} runs of the sheet's tasks; give the results of one, and --task")
    score = benchmark.score(parsed.score or benchmark.headlines[0])
    if score is None:
        raise ConfigError(f"--score {parsed.score!r}: expected one of {', '.join(each.name for each in benchmark.shown)}")
    wanted = plan_labels(rows_of(benchmark, task, key, read_labels(parsed.labels, key))[0], score, parsed.width)
    rows = [(name or "all", *map(str, counts)) for name, counts in wanted.strata.items()]
    rows.append(("together", *(str(sum(each)) for each in zip(*wanted.strata.values(), strict=True))))
    now, reached = score.write(wanted.now), score.write(wanted.reached)
    notes = [
        f"It is {now} wide now. With these labels the 95% interval is about {reached} wide, going by what people said so far."
    ]
    if wanted.reached > parsed.width:
        notes.append(f"No labels bring it to {score.write(parsed.width)}: these are all. More samples of the model narrow it.")
    print_table(f"{task.task}, {score.label or score.name}", ("stratum", "#samples", "#labelled", "#to label"), rows, notes)
    return 0
