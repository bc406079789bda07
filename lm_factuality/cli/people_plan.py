"""``lm-factuality people plan``: how many labels a corrected score needs, and of what."""

import argparse
from pathlib import Path
from typing import Any

from lm_factuality.cli.actions import add_action
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError


def add(actions: Any) -> None:
    """Adds ``people plan`` to the actions of ``people``."""
    parser = add_action(actions, "people plan", "say how many labels bring an interval to a width, and from which strata", _plan)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="the results of a run")
    parser.add_argument("--width", type=float, required=True, metavar="W", help="of the 95%% interval: 0.04 is four points")
    parser.add_argument("--task", help="which task, where there are several")
    parser.add_argument("--score", metavar="NAME", help="which score (default: the headline)")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the key of a sheet that was drawn from the run")
    parser.add_argument("--labels", type=Path, nargs="+", metavar="FILE", help="what people answered so far")
    parser.add_argument("--stratify", default="", metavar="BY,...", help="without labels: the strata to draw from")
    parser.add_argument("--error", type=float, metavar="SHARE", help="without labels: how often the judge is wrong")


def _plan(parsed: argparse.Namespace) -> int:
    """Prints the plan."""
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.ground.files import sha256_of
    from lm_factuality.people.correct import rows_of
    from lm_factuality.people.key import read_key
    from lm_factuality.people.labels import read_labels
    from lm_factuality.people.plan import plan_first, plan_more
    from lm_factuality.results.read import read_results_files

    if bool(parsed.key) != bool(parsed.labels) or not parsed.width > 0:
        raise ConfigError("expected --width above 0, and --key and --labels together or neither")
    key = read_key(parsed.key) if parsed.key else None
    wanted = {parsed.task} if parsed.task else {source.task for source in key.sources} if key else None
    tasks = [task for file in read_results_files(parsed.results) for task in file.tasks if task.samples]
    runs = [
        (each, task)
        for task in tasks
        if (each := find_benchmark(task.kind)) and each.people and task.task in (wanted or {task.task})
    ]
    if len(runs) != 1:
        raise ConfigError(f"{len(runs)} runs with samples that people can be asked about; give the results of one, and --task")
    benchmark, task = runs[0]
    score = benchmark.score(parsed.score or benchmark.headlines[0])
    if score is None:
        raise ConfigError(f"--score {parsed.score!r}: expected one of {', '.join(each.name for each in benchmark.shown)}")
    if key:
        samples, _ = rows_of(benchmark, task, key, read_labels(parsed.labels, key), sha256_of(task.samples or Path()))
        found = plan_more(samples, score, parsed.width)
    else:
        by = tuple(filter(None, parsed.stratify.split(",")))
        found = plan_first(benchmark, task, score, by, parsed.error, parsed.width)
    rows = [(name or "all", *map(str, counts)) for name, counts in found.strata.items()]
    rows.append(("together", *(str(sum(each)) for each in zip(*found.strata.values(), strict=True))))
    now = f"It is {score.write(found.now)} wide now. " if found.now is not None else ""
    notes = [f"{now}With these labels the 95% interval is about {score.write(found.reached)} wide, going by {found.basis}."]
    if found.reached > parsed.width:
        notes.append(f"No labels bring it to {score.write(parsed.width)}: these are all. More samples of the model narrow it.")
    print_table(f"{task.task}, {score.label or score.name}", ("stratum", "#samples", "#labelled", "#to label"), rows, notes)
    return 0
