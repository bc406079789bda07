"""The commands ``quickstart``, ``ls``, ``path`` and ``validate``, which run, list and check tasks.

``lm_factuality.cli.main`` registers them.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option, echo

from lm_factuality.ground.command_line import App, RunCode
from lm_factuality.ground.console import format_interval, format_number, plural, print_table
from lm_factuality.ground.suite import configs_folder, tasks_folder

if TYPE_CHECKING:
    from lm_factuality.harness.suite_task import TaskReport
    from lm_factuality.sample.quickstart import CheckpointScore, JudgedSample

_BIOGRAPHIES_QUESTION = "merge people who share a name? The offline judge compared with the truth"
_NEXT_STEPS = (
    "Next, run a real model on the published benchmarks (this needs a network or a local copy of"
    " the data):",
    "  lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor --output_path"
    " results",
)

app = App()


@app.command()
def quickstart(
    output: Annotated[Path, Option(help="Folder to write lm_eval's results to.")] = Path(
        "results/quickstart"
    ),
) -> None:
    """Run the sample tasks with tiny models, without a network.

    \b
    Examples:
      lm-factuality quickstart --output /tmp/first-run
    """
    # lm_eval reads its log level when it is imported.
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "WARNING")
    from lm_factuality.sample.quickstart import PAGE, TASK, judge_sample, run_checkpoints

    _print_factor_scores(run_checkpoints(output), TASK, output)
    biographies_folder = output / "biographies"
    judged = judge_sample(biographies_folder)
    _print_biography_scores(judged, biographies_folder / PAGE)


def _print_factor_scores(scores: Iterable["CheckpointScore"], task: str, output: Path) -> None:
    """Print a table with the FACTOR accuracy of each checkpoint.

    Args:
        scores: The score of each checkpoint on the sample task.
        task: The name of the sample task.
        output: The folder that holds lm_eval's results, which a note names.
    """
    # The sign # marks columns of numbers, which are flush right.
    columns = (
        "checkpoint",
        "#parameters",
        "#factor_acc",
        "#95% interval",
        "#guess baseline",
        "#rows",
        "#unscored",
    )
    rows = []
    for score in scores:
        accuracy = score.accuracy
        row = (
            score.checkpoint,
            f"{score.parameters:,}",
            format_number(accuracy.value),
            format_interval((accuracy.low, accuracy.high)),
            format_number(accuracy.guess_baseline),
            str(accuracy.n),
            str(accuracy.unscored),
        )
        rows.append(row)
    notes = [
        "Intervals: clustered by document.",
        f"lm_eval's results and samples: {output}",
    ]
    title = f"{task}: is the true sentence more likely than three minimally edited ones?"
    print_table(title, columns, rows, notes)


def _print_biography_scores(judged: "JudgedSample", page: Path) -> None:
    """Print how close the offline judge comes to the true scores of the sample biographies.

    Args:
        judged: The number of biographies, and each score by the judge and in truth.
        page: The HTML file that shows the biographies, which a note names.
    """
    rows = []
    for score in judged.comparisons:
        # FActScore and D-FActScore are shares, and the other scores are counts.
        format_spec = ".1%" if score.name.endswith("Score") else ".2f"
        row = (
            score.name,
            format(score.judge, format_spec),
            format(score.truth, format_spec),
            f"{score.pearson:.2f}",
            str(score.responses),
        )
        rows.append(row)
    title = f"sample_ambigbio: do {judged.num_biographies} biographies {_BIOGRAPHIES_QUESTION}"
    # The sign # marks columns of numbers, which are flush right.
    columns = ("mean of", "#judge", "#truth", "#Pearson's r", "#responses")
    notes = (f"Each response, its facts and their evidence: {page}", *_NEXT_STEPS)
    print_table(title, columns, rows, notes)


@app.command()
def ls() -> None:
    """List the suite's tasks by the question that they ask.

    Each line has a task's name, rows and licence, and says whether the task needs a judge.

    \b
    Examples:
      lm-factuality ls
    """
    from lm_factuality.cli.listing import list_groups, list_tasks

    lines_by_question: dict[str, list[str]] = defaultdict(list)
    for task in list_tasks():
        judge_note = "needs a judge" if task.needs_judge else ""
        line = f"  {task.name:<28} {task.rows:>5,} rows  {task.licence:<15}  {judge_note}"
        lines_by_question[task.question].append(line.rstrip())

    for question, task_lines in lines_by_question.items():
        echo("\n".join([question, *task_lines]))
    echo("\nGroups")
    for group in list_groups():
        text = f"{group.name}: {', '.join(group.tasks)}"
        echo(fill(text, 78, initial_indent="  ", subsequent_indent="    "))
    echo(f"\nlm_eval finds these tasks with --include_path {tasks_folder()}")


@app.command()
def path(
    what: Annotated[
        Literal["tasks", "configs", "sample"],
        Argument(help="The folder: of task YAMLs, of configs, or of the sample's data and models."),
    ],
) -> None:
    """Print where the suite's files are, in a checkout or in an installed package.

    \b
    Examples:
      lm-factuality path tasks
      lm_eval run --include_path "$(lm-factuality path tasks)" --tasks sample_factor --model dummy
    """
    sample = tasks_folder() / "sample"
    echo({"tasks": tasks_folder(), "configs": configs_folder(), "sample": sample}[what])


@app.command()
def validate(
    targets: Annotated[
        list[str],
        Argument(metavar="PATH|TASK", help="A task YAML, a CSV, JSONL or Parquet file, or a task."),
    ],
    run_code: RunCode = False,
    data_dir: Annotated[
        str | None,
        Option(help="Folder with the published files (default: they are downloaded)."),
    ] = None,
    judge: Annotated[
        str | None,
        Option(
            help="Judge of the tasks that need one: a YAML file or a name (default: that of the"
            " task's YAML, or the offline judge)."
        ),
    ] = None,
) -> int:
    """Check tasks and data files for mistakes that lm_eval does not report.

    The command prints each problem and the first row's requests. The exit code is 1 if it finds a
    problem.

    \b
    Examples:
      lm-factuality validate my_corpus.yaml
      lm-factuality validate my_rows.csv
      lm-factuality validate factor --data-dir my_folder
      lm-factuality validate --run-code my_benchmark.yaml --judge my_judge.yaml
    """
    from judges.config import load_judge_config
    from lm_factuality.cli.validation import check_targets

    settings = {}
    if judge is not None:
        # A judge that cannot be used is reported once, not for each task.
        load_judge_config(judge)
        settings["judge"] = judge
    if data_dir is not None:
        settings["data_dir"] = data_dir
    reports = check_targets(targets, settings, run_code)
    for report in reports:
        for line in _describe_report(report):
            echo(line)
    return int(any(report.problems for report in reports))


def _describe_report(report: "TaskReport") -> list[str]:
    """Describe the problems of a task or data file, and the requests of its first row.

    Args:
        report: The findings on the task.

    Returns:
        Lines such as "my_corpus.yaml: sound; 20 rows, 80 requests", after one line per problem.
    """
    verdict = plural(len(report.problems), "problem") if report.problems else "sound"
    # The problems come first, since they are the reason to run the command.
    lines = [
        *report.problems,
        f"{report.target}: {verdict}; {report.num_rows} rows, {report.num_requests} requests",
    ]
    if report.first_join:
        lines.append(f"  prefix and completion of the first row: {report.first_join}")
    if report.example:
        # The requests of a row share their context and differ in the continuation.
        context, _ = report.example[0]
        lines.append(f"  context of the first row: {context!r}")
    for number, (_, continuation) in enumerate(report.example):
        # A generation task has a context and nothing to continue it with.
        if continuation:
            lines.append(f"  continuation {number}: {continuation!r}")
    return lines
