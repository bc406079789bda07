"""``lm-factuality report``: results as a site to look at."""

import argparse
import sys
import webbrowser
from pathlib import Path

from lm_factuality.cli.actions import Command


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS", help="lm_eval's results_*.json, or folders that hold them"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder to write; an earlier report is replaced"
    )
    parser.add_argument("--open", action="store_true", help="open it in your browser when it is written")
    parser.add_argument("--title", default="Factuality report", help="title of the site (default: %(default)s)")


def report(parsed: argparse.Namespace) -> int:
    """Builds the site and says what it holds.

    Raises:
        DataError: the results cannot be used, or ``--out`` is something else.
    """
    from lm_factuality.ground.console import plural
    from lm_factuality.report.build import build_report

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


COMMAND = Command("report", "turn the results of one or many models into a site to browse", report, options)
