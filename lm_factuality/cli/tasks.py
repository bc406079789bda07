"""Commands on tasks: list and check them, and run the samples."""

import os
import sys
from collections import defaultdict
from pathlib import Path
from textwrap import fill
from typing import Annotated

from typer import Argument, Option

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import interval, plural, print_table, shown
from lm_factuality.ground.suite import tasks_folder

app = App()


@app.command()
def quickstart(
    output: Annotated[Path, Option(help="Folder for lm_eval's results.")] = Path(
        "results/quickstart"
    ),
) -> None:
    """Run the samples with tiny checkpoints, offline.

    \b
    Examples:
      lm-factuality quickstart --output /tmp/first-run
    """
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "WARNING")
    from lm_factuality.sample import quickstart as samples

    rows: list[tuple[str, ...]] = []
    for score in samples.quickstart(output):
        accuracy = score.accuracy
        row = (
            score.checkpoint,
            f"{score.parameters:,}",
            shown(accuracy.value),
            interval((accuracy.low, accuracy.high)),
            shown(accuracy.floor),
            str(accuracy.n),
            str(accuracy.unscored),
        )
        rows.append(row)
    names = ("factor_acc", "95% interval", "floor", "rows", "unscored")
    print_table(
        f"{samples.TASK}: is the true sentence likelier than three minimally edited ones?",
        ("checkpoint", "#parameters", *(f"#{name}" for name in names)),
        rows,
        [
            "Intervals: clustered by document; floor: what knowing nothing scores.",
            f"lm_eval's results and samples: {output}",
        ],
    )
    folder = output / "biographies"
    responses, measures = samples.judge_sample(folder)
    rows = []
    for measure in measures:
        digits = ".1%" if measure.name.endswith("Score") else ".2f"
        numbers = (format(measure.judge, digits), format(measure.truth, digits))
        rows.append((measure.name, *numbers, f"{measure.pearson:.2f}", str(measure.responses)))
    print_table(
        f"sample_ambigbio: do {responses} biographies merge people who share a name? The offline"
        " judge beside the truth",
        ("mean of", "#judge", "#truth", "#Pearson's r", "#responses"),
        rows,
        [
            f"Each response, its facts and their evidence: {folder / samples.PAGE}",
            "Next, a real model on the published benchmarks (needs a network or a local copy of the"
            " data):",
            "  lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor"
            " --output_path results",
        ],
    )


@app.command()
def ls() -> None:
    """List the suite's tasks.

    Each with what it asks, its rows, its licence, and whether it needs a judge.

    \b
    Examples:
      lm-factuality ls
    """
    from lm_factuality.cli.validation import describe_task
    from lm_factuality.harness.tasks import find_configs, suite_tasks

    manager = suite_tasks()
    lines: dict[str, list[str]] = defaultdict(list)  # by the question that the tasks ask
    groups = []
    for name in manager.all_tasks:
        configs = [config for _, config in find_configs(name) if isinstance(config, dict)]
        if name in manager.all_groups:
            groups.append(f"{name}: {', '.join(str(config['task']) for config in configs)}")
            continue
        for config in configs:
            task = describe_task(config)
            judge = "needs a judge" if task.has_judge else ""
            line = f"  {name:<28} {task.rows:>5,} rows  {task.licence:<15}  {judge}"
            lines[task.question].append(line.rstrip())
    for question, tasks in lines.items():
        sys.stdout.writelines(f"{line}\n" for line in (question, *tasks))
    sys.stdout.write("\nGroups\n")
    for group in groups:
        sys.stdout.write(f"{fill(group, 78, initial_indent='  ', subsequent_indent='    ')}\n")
    sys.stdout.write(f"\nlm_eval takes these YAMLs with --include_path {tasks_folder()}\n")


@app.command()
def validate(
    targets: Annotated[
        list[str],
        Argument(metavar="PATH|TASK", help="A task YAML, a CSV, JSONL or Parquet file, or a task."),
    ],
    run_code: Annotated[
        bool,
        Option(
            "--run-code", help="Import the Python that YAMLs name, if you trust who wrote them."
        ),
    ] = False,
    data_dir: Annotated[
        str | None,
        Option(help="Local folder with the published files, instead of downloads."),
    ] = None,
) -> int:
    """Check tasks and corpora for what lm_eval ignores.

    The exit code is 1 if anything is wrong.

    \b
    Examples:
      lm-factuality validate my_corpus.yaml
      lm-factuality validate my_rows.csv
      lm-factuality validate factor --data-dir my_folder
    """
    from lm_factuality.cli.validation import check_targets

    reports = check_targets(targets, data_dir, run_code)
    for report in reports:
        verdict = plural(len(report.problems), "problem") if report.problems else "sound"
        lines = [
            *report.problems,
            f"{report.target}: {verdict}; {report.num_rows} rows, {report.num_requests} requests",
        ]
        if report.seam:
            lines.append(f"  prefix and completion of the first row: {report.seam}")
        if report.example:
            lines.append(f"  context of the first row: {report.example[0][0]!r}")
        for number, (_, continuation) in enumerate(report.example or ()):
            if continuation:
                lines.append(f"  continuation {number}: {continuation!r}")
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(any(report.problems for report in reports))
