"""``lm-factuality people``: what people say of judged texts, beside what the judge says."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lm_factuality.cli import people_agree, people_correct
from lm_factuality.cli.actions import Command, add_action


def options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    sheet = add_action(actions, "people sheet", "make a sheet for people to fill in, and its key", _sheet)
    sheet.add_argument("sources", nargs="+", type=Path, metavar="SOURCE", help="results or samples of runs, or a FACTOR file")
    sheet.add_argument("--rows", type=int, required=True, metavar="N", help="how many samples (rows of a file) to draw")
    sheet.add_argument("--out", type=Path, required=True, metavar="NAME.html", help="the page; NAME.csv and NAME.key.json beside")
    sheet.add_argument("--task", help="which task, where runs have several that people can be asked about")
    sheet.add_argument("--question", action="append", default=[], metavar="NAME", help="ask only this; may be repeated")
    sheet.add_argument("--stratify", default="", metavar="BY,...", help="draw equally from strata by verdict, model, domain, ...")
    sheet.add_argument("--repeat", type=float, default=0.05, metavar="SHARE", help="share of items shown twice (default: 0.05)")
    sheet.add_argument("--scatter", action="store_true", help="do not keep the items of a sample together")
    sheet.add_argument("--seed", type=int, default=0, help="seed of the draw and the order (default: 0)")
    sheet.add_argument("--csv-only", action="store_true", help="no page, only the table for a spreadsheet and the key")
    people_correct.add(actions)
    people_agree.add(actions)


def _sheet(parsed: argparse.Namespace) -> int:
    from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet

    by = tuple(filter(None, parsed.stratify.split(",")))
    pool = read_pool(parsed.sources, parsed.task, parsed.question)
    sheet = make_sheet(pool, parsed.rows, by, parsed.repeat, parsed.scatter, parsed.seed)
    *shown, hidden = write_sheet(sheet, parsed.out, parsed.csv_only)
    key, again = sheet.key, sum(each.repeat_of is not None for each in sheet.key.items)
    sys.stdout.write(f"Sheet {key.sheet}: {len(key.items)} items ({', '.join(key.questions)}), {again} of them shown again\n")
    sys.stdout.writelines(f"  {each.name or 'drawn'}: {each.drawn} of {each.units}\n" for each in key.strata)
    sys.stdout.write(f"For annotators: {' or '.join(map(str, shown))}\n")
    sys.stdout.write(f"Not for annotators: {hidden}, with what the judge said; labels cannot be read without it\n")
    return 0


COMMAND = Command("people", "have people judge what the judge judged, and compare", None, options)
