"""Commands on results of runs: a site to look at, tables beside published figures, and the forms that other sites read."""

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from lm_factuality.cli.actions import add_action
from lm_factuality.ground.console import plural, print_table
from lm_factuality.ground.errors import ConfigError, DataError, printable
from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.report.build import build_report
from lm_factuality.results.compare import draw, read_published, read_runs, tables
from lm_factuality.results.exports.about import Publisher
from lm_factuality.results.exports.every_eval_ever import RELATIONSHIPS, export_every_eval_ever
from lm_factuality.results.exports.hub import export_hub, parse_benchmark
from lm_factuality.results.read import read_results_files


def report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS", help="lm_eval's results_*.json, or folders that hold them"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder to write; an earlier report is replaced"
    )
    parser.add_argument("--open", action="store_true", help="open it in your browser when it is written")
    parser.add_argument("--title", default="Factuality report", help="title of the site (default: %(default)s)")


def report(parsed: argparse.Namespace) -> int:
    """Builds the site and says what it holds. Raises DataError: the results cannot be used, or ``--out`` is something else."""
    built = build_report(parsed.results, parsed.out, parsed.title)
    for note in built.notes:
        sys.stdout.write(f"{note}\n")
    if built.without_samples:
        sys.stdout.write(
            f"{plural(built.without_samples, 'run')} without samples, with nothing to browse or compare: run with --log_samples\n"
        )
    counts = f"{plural(built.models, 'model')}, {plural(built.tasks, 'task')}"
    sys.stdout.write(f"{counts}, {len(built.pages)} pages in {built.folder / 'index.html'} ({built.bytes / 2**20:.1f} MiB)\n")
    if parsed.open and not webbrowser.open((built.folder / "index.html").resolve().as_uri()):
        sys.stdout.write("No browser was found here; open that file in one.\n")
    return 0


def compare_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULTS", help="results files or folders of lm_eval")
    parser.add_argument("--with", dest="figures", type=Path, metavar="YAML", help="published figures to put beside them")
    parser.add_argument(
        "--scores",
        nargs="+",
        metavar="NAME",
        help="compare pairs of models by these scores (default: all that tables show; of more than three models the headline)",
    )
    parser.add_argument(
        "--plots",
        type=Path,
        metavar="DIR",
        help="draw accuracy against perplexity and model size, and the gains by retrieval, into this folder",
    )
    parser.add_argument(
        "--plot-format", choices=("png", "svg", "pdf"), default="png", help="format of the plots (default %(default)s)"
    )


def compare(parsed: argparse.Namespace) -> int:
    """Prints the tables and draws the plots that ``parsed`` asks for."""
    figures = read_published(parsed.figures) if parsed.figures else []
    if not (parsed.results or figures):
        raise ConfigError("nothing to compare: give results of lm_eval, or published figures by --with")
    runs, left_out = read_runs(parsed.results) if parsed.results else ([], [])
    if parsed.results and not runs:
        raise DataError(f"{', '.join(map(str, parsed.results))}: no results of a task of the suite")
    for table in tables(runs, figures, str(parsed.figures), parsed.scores):
        if table.columns:
            print_table(*table)
        else:
            sys.stdout.writelines(f"{note}\n" for note in table.notes)
    sys.stdout.writelines(f"{printable(note)}\n" for note in left_out)
    if parsed.plots:
        written, notes = draw(runs, figures, parsed.plots, parsed.plot_format)
        if not written:
            raise DataError("nothing to draw: no accuracy per token, or neither perplexities nor sizes of the models")
        print_table("\nPlots", ("file",), [(str(path),) for path in written], notes)
    return 0


def export_options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="FORM", required=True)
    records = add_action(actions, "export every-eval-ever", "records of Every Eval Ever, schema 0.3.0")
    _common(records)
    records.add_argument("--organization", required=True, metavar="NAME", help="who ran the evaluation, for the records")
    records.add_argument(
        "--relationship",
        choices=RELATIONSHIPS,
        default="other",
        help="of the organization to the model's makers (default %(default)s)",
    )
    records.add_argument("--samples", action="store_true", help="also write one line per sample, with the benchmark's texts")
    records.set_defaults(export=_every_eval_ever)
    hub = add_action(actions, "export hub", "the Hub's .eval_results files of a model")
    _common(hub)
    hub.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="TASK=ORG/DATASET[:TASK_ID][@REVISION]",
        help="the Hub's dataset that stands for a task; once for each task to export",
    )
    hub.add_argument("--source-url", metavar="URL", help="where the results can be seen, such as a report (https)")
    hub.add_argument("--source-name", metavar="NAME", help="what to call that place")
    hub.add_argument("--source-org", metavar="NAME", help="its organisation on the Hub")
    hub.set_defaults(export=_hub)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS", help="results_*.json of lm_eval, or folders with them"
    )
    parser.add_argument("--model", metavar="ORG/NAME", help="the model (default: as lm_eval names it)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")


def export(parsed: argparse.Namespace) -> int:
    """Reads the results, writes them in the form asked for, and says what was written and what was not."""
    files = read_results_files(parsed.results)
    written, left_out = parsed.export(parsed, files)
    sys.stdout.write("".join(f"{path}\n" for path in written))
    sys.stdout.write(f"{plural(len(written), 'file')}, valid by the schema\n")
    sys.stdout.writelines(f"Left out: {printable(each)}\n" for each in left_out)
    return 0


def _every_eval_ever(parsed: argparse.Namespace, files: Sequence[ResultsFile]) -> tuple[list[Path], list[str]]:
    publisher = Publisher(parsed.organization, parsed.relationship)
    return export_every_eval_ever(files, parsed.out, publisher, parsed.model, parsed.samples)


def _hub(parsed: argparse.Namespace, files: Sequence[ResultsFile]) -> tuple[list[Path], list[str]]:
    if not parsed.source_url and (parsed.source_name or parsed.source_org):
        raise ConfigError("--source-name and --source-org need --source-url")
    source = {"url": parsed.source_url, "name": parsed.source_name, "org": parsed.source_org} if parsed.source_url else None
    benchmarks = [parse_benchmark(each) for each in parsed.benchmark]
    return export_hub(files, parsed.out, benchmarks, parsed.model, source)
