"""Commands on tasks: ``validate`` checks what lm_eval does not check, ``ls`` lists the suite's,
``quickstart`` runs samples."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from lm_factuality.benchmarks import all_benchmarks, all_sources
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.ground.console import interval, print_table, shown
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.suite_task import Report, check_built, quietly, shortened
from lm_factuality.harness.tasks import find_configs, suite_tasks, unknown_keys
from lm_factuality.sample import quickstart as samples


def check_targets(
    targets: Sequence[str],
    include_path: Sequence[str] = (),
    data_dir: str | None = None,
    run_code: bool = False,
    tokenizer: str | None = None,
) -> list[Report]:
    """A report on every target: a task YAML, a data file in the columns of FACTOR's authors, or the
    name of a task, a group or a tag. With ``run_code`` the Python that a YAML of others names is
    imported, otherwise refused."""
    reports = []
    given = {"tokenizer": tokenizer} if tokenizer else {}
    for target in targets:
        path = Path(target)
        if path.suffix.lower() in FORMATS:
            config = {
                "task": path.stem,
                "dataset_path": str(path.absolute()),
                "metadata": {"config_source": target, **given},
            }
            reports.append(_check(target, config, data_dir))
            continue
        for name, found in find_configs(target, include_path, run_code):
            if isinstance(found, FactualityError):
                reports.append(Report(name, tuple(str(found).split("\n"))))
                continue
            report = _check(
                name,
                (
                    {**found, "metadata": {**(found.get("metadata") or {}), **given}}
                    if given
                    else found
                ),
                data_dir,
            )
            report = replace(report, problems=(*unknown_keys(name, found), *report.problems))
            if not isinstance(found.get("class"), type):
                problem = (
                    f"{name}: no FACTOR task: it does not include tasks/factor/_factor.yaml, which"
                    " names the class"
                )
                report = replace(report, problems=(problem, *report.problems))
            reports.append(report)
    return reports


def _check(target: str, config: dict[str, Any], data_dir: str | None) -> Report:
    """What the task's class says of a config; one that names none is read as a corpus of FACTOR
    rows."""
    task = config["class"] if isinstance(config.get("class"), type) else FactorTask
    check: Callable[..., Report] = getattr(
        task, "check", partial(check_built, task)
    )  # lm_eval's own classes have none
    try:
        return check(target, config, data_dir or (config.get("metadata") or {}).get("data_dir"))
    except FactualityError as error:
        return Report(target, tuple(str(error).split("\n")))


def validate(parsed: argparse.Namespace) -> int:
    reports = check_targets(
        parsed.targets, parsed.include_path, parsed.data_dir, parsed.run_code, parsed.tokenizer
    )
    for each in reports:
        count = len(each.problems)
        verdict = f"{count} problem{'s'[: count > 1]}" if count else "sound"
        sys.stdout.writelines(f"{problem}\n" for problem in each.problems)
        sys.stdout.write(
            f"{each.target}: {verdict}; {each.num_rows} rows, {each.num_requests} requests\n"
        )
        if each.seam:
            sys.stdout.write(f"  prefix and completion of the first row: {each.seam}\n")
        if each.example:
            sys.stdout.write(
                f"  context of the first row: {shortened(each.example[0][0], keep_end=True)!r}\n"
            )
            for index, (_, continuation) in enumerate(each.example):
                if continuation:
                    sys.stdout.write(f"  continuation {index}: {continuation!r}\n")
    return 1 if any(each.problems for each in reports) else 0


def ls(parsed: argparse.Namespace) -> None:
    """Prints what every task asks, its rows, licence and whether a judge marks it, and the groups;
    needs no model, no network."""
    manager = suite_tasks()
    rows: dict[str, list[tuple[str, ...]]] = {}  # by the question
    groups = []
    for name in manager.all_tasks:
        found = [config for _, config in find_configs(name) if isinstance(config, dict)]
        if name in manager.all_groups:
            groups.append(f"{name}: {', '.join(str(config['task']) for config in found)}")
        else:
            for asks, *about in map(_about, found):
                rows.setdefault(asks, []).append((name, *about))
    for asks, tasks in rows.items():
        sys.stdout.write(f"{asks}\n")
        for name, count, licence, judge in tasks:
            sys.stdout.write(
                f"  {name:<28} {count:>5} rows  {licence:<15}  {judge}".rstrip() + "\n"
            )
    sys.stdout.write("\nGroups\n")
    for group in groups:
        sys.stdout.write(f"{fill(group, 78, initial_indent='  ', subsequent_indent='    ')}\n")
    sys.stdout.write(f"\nlm_eval takes these YAMLs with --include_path {tasks_folder()}\n")


def _about(config: Mapping[str, Any]) -> tuple[str, str, str, str]:
    kind, metadata = config["class"], config["metadata"]
    benchmark = kind.declared
    asks = benchmark.page.lead.partition("?")
    judge = "needs a judge" if benchmark.judging else ""
    named = [
        name for key in ("source", "documents_of") if (name := metadata.get(key)) in all_sources()
    ]
    page = next(
        (each.data.sources for each in all_benchmarks() if each.kind == benchmark.page.name), ()
    )
    marks = tuple(f"{key}_{value}" for key, value in metadata.items() if isinstance(value, str))
    by_mark = [source for source in benchmark.data.sources if source.name.startswith(marks)]
    if config.get("dataset_path") or str(metadata.get("documents_of", "")).endswith(".csv"):
        with quietly():
            count, licence = (
                len(
                    kind(config={**config, "metadata": {"judge": "lexical", **metadata}}).eval_docs
                ),
                "",
            )
    else:
        sources = (
            [all_sources()[name] for name in named]
            or by_mark
            or (benchmark.data.sources or page)[:1]
        )
        count, licence = (
            sum(each.rows for each in sources),
            ", ".join(sorted({each.license for each in sources})),
        )
    return f"{asks[0]}{asks[1]}", f"{count:,}", str(metadata.get("license") or licence), judge


def quickstart(parsed: argparse.Namespace) -> None:
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "WARNING")
    rows: list[tuple[str, ...]] = []
    for score in samples.quickstart(parsed.output):
        found = score.accuracy
        shares = shown(found.value), interval((found.low, found.high)), shown(found.floor)
        rows.append(
            (score.checkpoint, f"{score.parameters:,}", *shares, str(found.n), str(found.unscored))
        )
    columns = (
        "checkpoint",
        "#parameters",
        "#factor_acc",
        "#95% interval",
        "#floor",
        "#rows",
        "#unscored",
    )
    notes = ["Intervals: clustered by document; floor: what knowing nothing scores."]
    notes.append(f"lm_eval's results and samples: {parsed.output}")
    print_table(
        f"{samples.TASK}: is the true sentence likelier than three minimally edited ones?",
        columns,
        rows,
        notes,
    )
    folder, rows = parsed.output / "biographies", []
    responses, measures = samples.judge_sample(folder)
    for each in measures:
        form = ".1%" if each.name.endswith("Score") else ".2f"
        numbers = (
            format(each.judge, form),
            format(each.truth, form),
            f"{each.pearson:.2f}",
            str(each.responses),
        )
        rows.append((each.name, *numbers))
    print_table(
        f"sample_ambigbio: do {responses} biographies merge people who share a name? The offline"
        " judge beside the truth",
        ("mean of", "#judge", "#truth", "#Pearson's r", "#responses"),
        rows,
        (
            f"Each response, its facts and their evidence: {folder / samples.PAGE}",
            (
                "Next, a real model on the published benchmarks (needs a network or a local copy of"
                " the data):"
            ),
            (
                "  lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor"
                " --output_path results"
            ),
        ),
    )
