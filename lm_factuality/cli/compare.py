"""``lm-factuality compare``: what it accepts and prints."""

import argparse
import sys
from pathlib import Path

from lm_factuality.cli.actions import Command
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError, DataError, printable


def options(parser: argparse.ArgumentParser) -> None:
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
    from lm_factuality.results.compare import draw, read_published, read_runs, tables

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


COMMAND = Command("compare", "compare results with each other and with published figures", compare, options)
