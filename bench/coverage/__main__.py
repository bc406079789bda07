"""Measures by simulation how often 95% intervals contain the truth.

    python -m bench.coverage
    python -m bench.coverage --only mean f1 --replications 500

Data with a known truth are drawn again and again, and the interval of each draw is computed by the
functions of lm_factuality.scores.intervals. The random numbers of each cell are the same in each
run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tqdm import tqdm

from bench.coverage.cells import WANTED, WANTED_OF_HARD, Cell
from bench.coverage.tables import (
    FAMILIES,
    Family,
    Table,
    family_table,
    summary_table,
    worst_table,
)
from bench.real.table import markdown_table, put_on_page
from lm_factuality.ground.console import print_table

_PROCESSES = 2
_NOTES = (
    "Coverage in %, then in parentheses the mean width as a ratio to 2 * 1.96 * the true standard"
    " error.",
    f"Wanted are {WANTED[0]:.0%} to {WANTED[1]:.0%}, and at least {WANTED_OF_HARD[0]:.0%} for fewer"
    " than ten documents or 99% right. ↑ and ↓ mark what is above and below.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print tables and put them on a page, and return the exit code."""
    arguments = _parse_arguments(argv)
    families = [
        family for family in FAMILIES if arguments.only is None or family.name in arguments.only
    ]
    cells_by_name = {}
    for family, cells in measure_families(families, arguments.replications):
        cells_by_name[family.name] = cells
        print_table(family.title, *family_table(family, cells), _NOTES)
        if arguments.out:
            _put_on_page(arguments.out, family.name, family_table(family, cells, family.over))

    # Only a complete run can tell which cells are the worst.
    if len(families) == len(FAMILIES):
        summary = summary_table(cells_by_name)
        worst = worst_table(cells_by_name)
        print_table("Coverage in % by number of documents, responses, rows or labels", *summary)
        print_table("Farthest outside of the wanted range", *worst)
        if arguments.out:
            _put_on_page(arguments.out, "summary", summary)
            _put_on_page(arguments.out, "worst", worst)
    return 0


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        "python -m bench.coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--replications",
        type=int,
        default=4000,
        metavar="N",
        help="intervals of each cell (default: %(default)s, and fewer in slow tables)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[family.name for family in FAMILIES],
        help="only these tables (default: all)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a page, in which the tables are replaced"
    )
    return parser.parse_args(argv)


def measure_families(
    families: Sequence[Family], replications: int
) -> Iterator[tuple[Family, list[Cell]]]:
    """Measure the cells of several families in two processes, with a progress bar.

    Args:
        families: The families.
        replications: The number of intervals of each cell. Families have less if they are slow.

    Yields:
        Each family with its cells, in the order of ``families``.
    """
    with ProcessPoolExecutor(_PROCESSES) as pool:
        runs = []
        for family in families:
            number = min(replications, family.most_replications)
            runs.append(pool.submit(family.cells, number))
        for family, run in zip(tqdm(families, "measuring", unit=" tables"), runs, strict=True):
            yield family, run.result()


def _put_on_page(page: Path, name: str, table: Table) -> None:
    """Replace the table below the line ``<!-- coverage: NAME -->`` of a page."""
    put_on_page(page, markdown_table(*table), f"<!-- coverage: {name} -->")


if __name__ == "__main__":
    sys.exit(main())
