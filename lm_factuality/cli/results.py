"""Commands on results of runs: a site to look at, tables beside published figures, and the forms
that other sites read."""

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from lm_factuality.ground.console import plural, print_table
from lm_factuality.ground.errors import ConfigError, DataError, printable
from lm_factuality.report.build import build_report
from lm_factuality.results.compare import draw, read_published, read_runs, tables
from lm_factuality.results.exports import hub
from lm_factuality.results.read import read_results_files


def report(parsed: argparse.Namespace) -> None:
    """Builds the site and says what it holds. Raises DataError: the results cannot be used, or
    ``--out`` is something else."""
    built = build_report(parsed.results, parsed.out, parsed.title)
    for note in built.notes:
        sys.stdout.write(f"{note}\n")
    if built.without_samples:
        sys.stdout.write(
            f"{plural(built.without_samples, 'run')} without samples, with nothing to browse or"
            " compare: run with --log_samples\n"
        )
    counts = f"{plural(built.models, 'model')}, {plural(built.tasks, 'task')}"
    sys.stdout.write(
        f"{counts}, {len(built.pages)} pages in {built.folder / 'index.html'}"
        f" ({built.bytes / 2**20:.1f} MiB)\n"
    )
    if parsed.open and not webbrowser.open((built.folder / "index.html").resolve().as_uri()):
        sys.stdout.write("No browser was found here; open that file in one.\n")


def compare(parsed: argparse.Namespace) -> None:
    figures = read_published(parsed.figures) if parsed.figures else []
    if not (parsed.results or figures):
        raise ConfigError(
            "nothing to compare: give results of lm_eval, or published figures by --with"
        )
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
            raise DataError(
                "nothing to draw: no accuracy per token, or neither perplexities nor sizes of the"
                " models"
            )
        print_table("\nPlots", ("file",), [(str(path),) for path in written], notes)


def export_hub(parsed: argparse.Namespace) -> None:
    files = read_results_files(parsed.results)
    if not parsed.source_url and (parsed.source_name or parsed.source_org):
        raise ConfigError("--source-name and --source-org need --source-url")
    source = (
        {"url": parsed.source_url, "name": parsed.source_name, "org": parsed.source_org}
        if parsed.source_url
        else None
    )
    benchmarks = [hub.parse_benchmark(each) for each in parsed.benchmark]
    _told(*hub.export_hub(files, parsed.out, benchmarks, parsed.model, source))


def _told(written: Sequence[Path], left_out: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{path}\n" for path in written))
    sys.stdout.write(f"{plural(len(written), 'file')}, valid by the schema\n")
    sys.stdout.writelines(f"Left out: {printable(each)}\n" for each in left_out)
