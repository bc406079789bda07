"""The commands ``compare`` and ``report``: show the results of runs as tables or as a site.

``lm_factuality.cli.main`` registers them.
"""

import webbrowser
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import plural, print_table
from lm_factuality.ground.errors import ConfigError, DataError, printable

app = App()


@app.command()
def compare(
    results: Annotated[
        list[Path] | None,
        Argument(metavar="RESULTS", help="Results files of lm_eval, or folders that hold them."),
    ] = None,
    figures: Annotated[
        Path | None,
        Option("--with", help="YAML file of published figures to compare with."),
    ] = None,
    scores: Annotated[
        list[str] | None,
        Option(
            metavar="NAME...",
            help="Compare each pair of models by these scores (default: all scores of the tables,"
            " or only the main score if there are more than three models).",
        ),
    ] = None,
) -> None:
    """Compare results with each other and with published figures.

    \b
    Examples:
      lm-factuality compare results --with configs/reproduce/factor_figures.yaml
      lm-factuality compare results --scores factor_acc brier_score
      lm-factuality compare --with configs/reproduce/factor_figures.yaml
    """
    from lm_factuality.results.compare import compare_runs, read_published, read_runs

    published = read_published(figures) if figures else []
    if not (results or published):
        raise ConfigError(
            "nothing to compare: give results of lm_eval, or published figures by --with"
        )
    runs, left_out = read_runs(results) if results else ([], [])
    if results and not runs:
        raise DataError(f"{', '.join(map(str, results))}: no results of a task of the suite")

    for table in compare_runs(runs, published, scores):
        if table.columns:
            print_table(*table)
            continue
        # A comparison that is not possible has only notes, which say why.
        for note in table.notes:
            echo(note)
    for note in left_out:
        echo(printable(note))


@app.command()
def report(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS", help="Results files of lm_eval, or folders that hold them."),
    ],
    out: Annotated[
        Path,
        Option(help="Folder to write the report to. An earlier report is replaced."),
    ],
    is_opened: Annotated[bool, Option("--open", help="Open the report in your browser.")] = False,
) -> None:
    """Turn the results of models into a site to browse.

    \b
    Examples:
      lm-factuality report results --out my-report
      lm-factuality report results/opt-1.3b results/opt-2.7b --out my-report

    The site works offline: open index.html. Only runs with --log_samples have rows to browse and to
    compare. Keyboard: / searches, the arrow keys (or j and k) go from row to row, and Enter and
    Space sort a column.
    """
    from lm_factuality.report.build import build_report

    report_runs = build_report(results, out)
    for note in report_runs.notes:
        echo(note)
    # Runs without samples are in the tables, but have no rows to browse.
    without_samples = sum(entry.result.samples is None for entry in report_runs.entries)
    if without_samples:
        echo(
            f"{plural(without_samples, 'run')} without samples, with nothing to browse or"
            " compare: run with --log_samples"
        )
    page = out / "index.html"
    num_models = plural(len(report_runs.models), "model")
    num_tasks = plural(len(report_runs.tasks), "task")
    echo(f"{num_models}, {num_tasks} in {page}")
    if is_opened and not webbrowser.open(page.resolve().as_uri()):
        echo("No browser was found here; open that file in one.")
