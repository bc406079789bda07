"""``lm-factuality people``: what people say of judged texts, beside what the judge says."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lm_factuality.cli.actions import Command, add_action
from lm_factuality.ground.errors import ConfigError


def options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    sheet = add_action(actions, "people sheet", "make a sheet for people to fill in, and its key", _sheet)
    sheet.add_argument("sources", nargs="+", type=Path, metavar="SOURCE", help="results or samples of runs, or a FACTOR file")
    sheet.add_argument("--rows", type=int, required=True, metavar="N", help="how many samples (rows of a file) to draw")
    sheet.add_argument("--out", type=Path, required=True, metavar="NAME.html", help="the page; NAME.csv and NAME.key.json beside")
    sheet.add_argument("--task", help="which task, where runs have several that people can be asked about")
    sheet.add_argument("--question", action="append", default=[], metavar="NAME", help="ask only this; may be repeated")
    sheet.add_argument("--stratify", default="", metavar="BY,...", help="draw alike from strata by verdict, model, domain, ...")
    sheet.add_argument("--repeat", type=float, default=0.05, metavar="SHARE", help="share of items shown twice (default: 0.05)")
    sheet.add_argument("--scatter", action="store_true", help="do not keep the items of a sample together")
    sheet.add_argument("--seed", type=int, default=0, help="of the draw and the order (default: 0)")
    sheet.add_argument("--csv-only", action="store_true", help="no page, only the table for a spreadsheet and the key")


def _sheet(parsed: argparse.Namespace) -> int:
    """Writes a sheet and says what is on it.

    Raises:
        ConfigError, DataError: a source or an option cannot be used.
    """
    from lm_factuality.people.sheet import make_sheet, write_sheet
    from lm_factuality.people.units import read_pool

    if not 0 <= parsed.repeat <= 1:
        raise ConfigError(f"--repeat {parsed.repeat}: expected a share from 0 to 1")
    pool = read_pool(parsed.sources, parsed.task)
    pool = pool.asking(parsed.question) if parsed.question else pool
    by = tuple(filter(None, parsed.stratify.split(",")))
    sheet = make_sheet(pool, parsed.rows, by, parsed.repeat, parsed.scatter, parsed.seed)
    files = write_sheet(sheet, parsed.out, parsed.csv_only)
    key = sheet.key
    again = sum(each.repeat_of is not None for each in key.items)
    drawn = [f"  {each.name or 'all'}: {each.drawn} of {each.units}" for each in key.strata]
    lines = [
        f"Sheet {key.sheet}: {len(key.items)} items ({', '.join(key.questions)}), {again} of them shown again",
        f"Drawn with seed {key.seed}:",
        *drawn,
        f"For annotators: {' or '.join(map(str, files[:-1]))}",
        f"Not for annotators: {files[-1]}, which says what the judge said; labels cannot be read without it",
    ]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


COMMAND = Command("people", "have people judge what the judge judged, and compare", None, options)
