"""``lm-factuality validate``: tasks and corpora, checked for what lm_eval does not check before it runs them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.cli.actions import Command
from lm_factuality.ground.errors import FactualityError

if TYPE_CHECKING:
    from lm_factuality.harness.suite_task import Report


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="+", metavar="PATH|TASK", help="a task YAML, a CSV, JSONL or Parquet file, or a task")
    parser.add_argument("--include-path", action="append", default=[], metavar="DIR", help="look for task names here too")
    parser.add_argument("--run-code", action="store_true", help="import the Python that YAMLs name, if you trust who wrote them")
    parser.add_argument(
        "--tokenizer", metavar="PATH|NAME", help="list the FACTOR rows whose prefix has other tokens alone than with a completion"
    )
    parser.add_argument("--data-dir", help="local folder with the published files, instead of downloads")


def validate(
    targets: Sequence[str],
    include_path: Sequence[str] = (),
    data_dir: str | None = None,
    run_code: bool = False,
    tokenizer: str | None = None,
) -> list[Report]:
    """A report on every target: a task YAML, a data file in the columns of FACTOR's authors, or the name of a task, a group or a
    tag. With ``run_code`` the Python that a YAML of others names is imported, otherwise refused."""
    from lm_factuality.ground.tables import FORMATS
    from lm_factuality.harness.before import unknown_keys
    from lm_factuality.harness.suite_task import Report
    from lm_factuality.harness.tasks import find_configs

    reports = []
    given = {"tokenizer": tokenizer} if tokenizer else {}
    for target in targets:
        path = Path(target)
        if path.suffix.lower() in FORMATS:
            config = {"task": path.stem, "dataset_path": str(path.absolute()), "metadata": {"config_source": target, **given}}
            reports.append(_check(target, config, data_dir))
            continue
        for name, found in find_configs(target, include_path, run_code):
            if isinstance(found, FactualityError):
                reports.append(Report(name, tuple(str(found).split("\n"))))
                continue
            report = _check(name, {**found, "metadata": {**(found.get("metadata") or {}), **given}} if given else found, data_dir)
            report = replace(report, problems=(*unknown_keys(name, found), *report.problems))
            if not isinstance(found.get("class"), type):
                problem = f"{name}: no FACTOR task: it does not include tasks/factor/_factor.yaml, which names the class"
                report = replace(report, problems=(problem, *report.problems))
            reports.append(report)
    return reports


def _check(target: str, config: dict[str, Any], data_dir: str | None) -> Report:
    """What the task's class says of a config; one that names none is read as a corpus of FACTOR rows."""
    from lm_factuality.benchmarks.factor.task import FactorTask
    from lm_factuality.harness.suite_task import Report, check_built

    task = config["class"] if isinstance(config.get("class"), type) else FactorTask
    check: Callable[..., Report] = getattr(task, "check", partial(check_built, task))  # lm_eval's own classes have none
    try:
        return check(target, config, data_dir or (config.get("metadata") or {}).get("data_dir"))
    except FactualityError as error:
        return Report(target, tuple(str(error).split("\n")))


def _print(parsed: argparse.Namespace) -> int:
    from lm_factuality.harness.suite_task import shortened

    reports = validate(parsed.targets, parsed.include_path, parsed.data_dir, parsed.run_code, parsed.tokenizer)
    for each in reports:
        count = len(each.problems)
        verdict = f"{count} problem{'s'[: count > 1]}" if count else "sound"
        sys.stdout.writelines(f"{problem}\n" for problem in each.problems)
        sys.stdout.write(f"{each.target}: {verdict}; {each.num_rows} rows, {each.num_requests} requests\n")
        if each.seam:
            sys.stdout.write(f"  prefix and completion of the first row: {each.seam}\n")
        if each.example:
            sys.stdout.write(f"  context of the first row: {shortened(each.example[0][0], keep_end=True)!r}\n")
            for index, (_, continuation) in enumerate(each.example):
                if continuation:
                    sys.stdout.write(f"  continuation {index}: {continuation!r}\n")
    return 1 if any(each.problems for each in reports) else 0


COMMAND = Command(
    "validate", "check tasks and corpora for what lm_eval does not check; exit code 1 if anything is wrong", _print, options
)
