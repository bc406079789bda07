"""``lm-factuality page``: judged biographies as one HTML file to look at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lm_factuality.errors import DataError

EXAMPLES = """\
  lm-factuality page --verdicts results/verdicts.jsonl --out page.html
  lm-factuality page --verdicts results/verdicts.jsonl --out page.html --title "Vicuna 7B, ambiguous names"

The file needs no network and no other file. Keys: / searches, j and k (or the arrows in the list) go to the next response and to
the one before."""


def options(parser: argparse.ArgumentParser) -> None:
    """The options of ``page``."""
    parser.add_argument(
        "--verdicts", type=Path, required=True, metavar="FILE", help="verdicts.jsonl of 'judge ambigbio'"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    parser.add_argument("--title", help="what the page is about (default: where the verdicts lie)")
    parser.add_argument(
        "--protocol", choices=("paper", "code"), default="paper", help="how entities are counted (default %(default)s)"
    )


def page(parsed: argparse.Namespace) -> int:
    """Reads the verdicts and writes the page."""
    from judges.biographies.records import read_records
    from lm_factuality.report.biographies import write_page

    biographies = read_records(parsed.verdicts)
    if not biographies:
        raise DataError(f"{parsed.verdicts}: no verdicts; make them with: lm-factuality judge ambigbio ... --out DIR")
    title = parsed.title or f"Biographies: {parsed.verdicts.parent.resolve().name}"
    write_page(parsed.out, biographies, title, parsed.protocol)
    size = parsed.out.stat().st_size / 2**20
    sys.stdout.write(f"{len(biographies)} responses in {parsed.out} ({size:.1f} MiB)\n")
    return 0
