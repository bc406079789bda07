"""``lm-factuality page``: judged biographies as one HTML file to look at."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lm_factuality.cli.actions import Command
from lm_factuality.ground.errors import DataError

if TYPE_CHECKING:
    from lm_factuality.benchmarks.biographies.types import Record


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verdicts", type=Path, required=True, metavar="FILE", help="verdicts.jsonl of 'judge ambigbio'")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    parser.add_argument("--title", help="title of the page (default: the path of the verdicts)")
    parser.add_argument("--protocol", choices=("paper", "code"), help="how scores are read (default: as the verdicts were made)")


def page(parsed: argparse.Namespace) -> int:
    """Reads the verdicts and writes the page.

    Raises:
        DataError: the verdicts cannot be used, or were made with different protocols.
    """
    from lm_factuality.benchmarks.biographies.types import read_lines
    from lm_factuality.benchmarks.biographies.viewer import write_page

    lines = read_lines(parsed.verdicts)
    if not lines:
        raise DataError(f"{parsed.verdicts}: no verdicts; make them with: lm-factuality judge ambigbio ... --out DIR")
    title = parsed.title or f"Biographies: {parsed.verdicts.parent.resolve().name}"
    protocol = parsed.protocol or _protocol(lines, parsed.verdicts)
    linking = " and ".join(sorted({each.linking for each in lines if each.linking})) or None
    write_page(parsed.out, [each.judged for each in lines], title, protocol, linking)
    size = parsed.out.stat().st_size / 2**20
    sys.stdout.write(f"{len(lines)} responses in {parsed.out} ({size:.1f} MiB)\n")
    return 0


def _protocol(lines: Sequence[Record], path: Path) -> str:
    """The one that all verdicts were made with; ``paper`` if they do not say.

    Raises:
        DataError: they were made with different ones.
    """
    found = {each.protocol or "paper" for each in lines}
    if len(found) > 1:
        raise DataError(f"{path}: verdicts of the protocols {' and '.join(sorted(found))}; choose one with --protocol")
    return found.pop()


COMMAND = Command("page", "show judged biographies as one HTML file", page, options)
