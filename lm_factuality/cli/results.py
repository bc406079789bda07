"""Commands on the results of runs: tables, a site to browse, and the files of the Hub."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import plural, print_table
from lm_factuality.ground.errors import ConfigError, DataError, printable

app = App()
export = App()


@app.command()
def compare(
    results: Annotated[
        list[Path] | None,
        Argument(metavar="RESULTS", help="Results files or folders of lm_eval."),
    ] = None,
    figures: Annotated[
        Path | None,
        Option("--with", help="Published figures to put beside them."),
    ] = None,
    scores: Annotated[
        list[str] | None,
        Option(
            metavar="NAME...",
            help="Compare pairs of models by these scores (default: all that tables show; of more"
            " than three models the headline).",
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
    from lm_factuality.results.compare import read_published, read_runs, tables

    published = read_published(figures) if figures else []
    if not (results or published):
        raise ConfigError(
            "nothing to compare: give results of lm_eval, or published figures by --with"
        )
    runs, left_out = read_runs(results) if results else ([], [])
    if results and not runs:
        raise DataError(f"{', '.join(map(str, results))}: no results of a task of the suite")
    for table in tables(runs, published, scores):
        if table.columns:
            print_table(*table)
        else:
            sys.stdout.writelines(f"{note}\n" for note in table.notes)
    sys.stdout.writelines(f"{printable(note)}\n" for note in left_out)


@app.command()
def report(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS", help="lm_eval's results_*.json, or folders that hold them."),
    ],
    out: Annotated[
        Path,
        Option(help="Folder to write; an earlier report is replaced."),
    ],
    is_opened: Annotated[
        bool, Option("--open", help="Open it in your browser when it is written.")
    ] = False,
    title: Annotated[str, Option(help="Title of the site.")] = "Factuality report",
) -> None:
    """Turn the results of models into a site to browse.

    \b
    Examples:
      lm-factuality report results --out my-report
      lm-factuality report results/opt-1.3b results/opt-2.7b --out my-report --title "OPT"

    The folder needs no network: open index.html. Run lm_eval with --log_samples, otherwise there is
    nothing to browse or to compare row by row. Keys: / searches, the arrows (or j and k) go from
    row to row, Enter and Space sort a column.
    """
    from lm_factuality.report.build import build_report

    built = build_report(results, out, title)
    sys.stdout.writelines(f"{note}\n" for note in built.notes)
    if built.without_samples:
        sys.stdout.write(
            f"{plural(built.without_samples, 'run')} without samples, with nothing to browse or"
            " compare: run with --log_samples\n"
        )
    page = built.folder / "index.html"
    sys.stdout.write(
        f"{plural(built.models, 'model')}, {plural(built.tasks, 'task')}, {len(built.pages)} pages"
        f" in {page} ({built.bytes / 2**20:.1f} MiB)\n"
    )
    if is_opened and not webbrowser.open(page.resolve().as_uri()):
        sys.stdout.write("No browser was found here; open that file in one.\n")


@export.callback()
def formats() -> None:
    """Write results in the formats of other collections."""


@export.command()
def hub(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS", help="results_*.json of lm_eval, or folders with them."),
    ],
    out: Annotated[Path, Option(help="Folder to write to.")],
    model: Annotated[
        str | None,
        Option(metavar="ORG/NAME", help="The model (default: as lm_eval names it)."),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        Option(
            metavar="TASK=ORG/DATASET[:TASK_ID][@REVISION]",
            help="The Hub's dataset that stands for a task; once for each task to export.",
        ),
    ] = None,
    source_url: Annotated[
        str | None,
        Option(help="Where the results can be seen, such as a report (https)."),
    ] = None,
    source_name: Annotated[str | None, Option(help="What to call that place.")] = None,
    source_org: Annotated[str | None, Option(help="Its organisation on the Hub.")] = None,
) -> None:
    """Write the Hub's .eval_results files of a model.

    \b
    Examples:
      lm-factuality export hub results --benchmark wiki_factor=my-org/factor:wiki --out hub
      lm-factuality export hub results --benchmark felm=my-org/felm --model ORG/NAME --out hub

    Results are what lm_eval wrote to --output_path. The files are ORG/NAME/.eval_results/ below
    --out, for a pull request to the model's repository, in the form that
    huggingface_hub reads. A benchmark is a dataset on the Hub that has an eval.yaml; TASK_ID is the
    name of the task in it (default: TASK).
    """
    from lm_factuality.results.hub import export_hub, parse_benchmark
    from lm_factuality.results.read import read_results_files

    if not source_url and (source_name or source_org):
        raise ConfigError("--source-name and --source-org need --source-url")
    source = {"url": source_url, "name": source_name, "org": source_org} if source_url else None
    benchmarks = [parse_benchmark(text) for text in benchmark or ()]
    files = read_results_files(results)
    written, left_out = export_hub(files, out, benchmarks, model, source)
    sys.stdout.writelines(f"{path}\n" for path in written)
    sys.stdout.write(f"{plural(len(written), 'file')}\n")
    sys.stdout.writelines(f"Left out: {printable(text)}\n" for text in left_out)
