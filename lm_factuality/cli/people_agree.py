"""``lm-factuality people agree``: people beside each other, beside themselves and beside a judge."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.cli.actions import add_action
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.suite import read_config

if TYPE_CHECKING:
    from lm_factuality.people.agreement import Cell

_DRAWN = ("D-FActScore", "Biographies")


def add(actions: Any) -> None:
    """Adds ``people agree`` to the actions of ``people``."""
    parser = add_action(actions, "people agree", "say how far people agree, with each other and with the judge", _agree)
    parser.add_argument("--key", type=Path, metavar="FILE", help="the key of a sheet")
    parser.add_argument("--labels", type=Path, nargs="+", metavar="FILE", help="what people answered: CSV or JSON")
    parser.add_argument("--by", default="", metavar="NAME", help="also within groups: a stratum (domain), or another question")
    parser.add_argument("--results", type=Path, nargs="+", metavar="RESULTS", help="the sheet's runs: responses' scores too")
    parser.add_argument("--human", metavar="CSV", help="or people's measurements of biographies: a file, or a name of 'data ls'")
    parser.add_argument("--columns", type=Path, metavar="YAML", help="column names of that file")
    parser.add_argument("--auto", nargs="+", metavar="[MODEL=]RESULTS", help="the pipeline's measurements of them")
    parser.add_argument("--with", dest="figures", type=Path, metavar="YAML", help="published figures to put beside them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw agreement, or responses: .png, .svg or .pdf")


def _agree(parsed: argparse.Namespace) -> int:
    from lm_factuality.people.agreement import Figures, draw, tables_of

    by_sheet, by_file = (parsed.key, parsed.labels), (parsed.human, parsed.auto)
    if all(by_sheet) == all(by_file) or (any(by_sheet) and any(by_file)):
        raise ConfigError("expected --key and --labels of a sheet, or --human and --auto")
    figures = read_settings(Figures, read_config(parsed.figures), str(parsed.figures)) if parsed.figures else {}
    cells, notes = _of_sheet(parsed) if parsed.key else _of_files(parsed)
    for table in tables_of(cells, figures):
        print_table(*table)
    sys.stdout.writelines(f"{note}\n" for note in notes)
    if parsed.json:
        write_json(parsed.json, [asdict(each) for each in cells])
    if parsed.plot:
        columns, what = (("agreement, %",), "items that agree, %") if parsed.key else (_DRAWN, "Pearson's r of people and judge")
        draw([cell for cell in cells if cell.table in ("people", "pairs", "correlations")], columns, what, parsed.plot)
        sys.stdout.write(f"Plot: {parsed.plot}\n")
    return 0


def _of_sheet(parsed: argparse.Namespace) -> tuple[list[Cell], list[str]]:
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.people.agreement import agreement_of
    from lm_factuality.people.labels import read_key, read_labels
    from lm_factuality.people.responses import read_both, responses_of

    key, notes = read_key(parsed.key), []
    labels = read_labels(parsed.labels, key)
    cells = agreement_of(key, labels, parsed.by)
    if len({entry.weight for entry in key.items}) > 1:
        notes.append("Strata were drawn unequally, so shares count items by their weights; coefficients count all alike.")
    if parsed.results:
        both, benchmark = read_both(parsed.results, key, labels), find_benchmark(key.benchmark)
        cells += responses_of(both, benchmark.shown) if benchmark and both else []
        notes.append(f"{len(both)} responses have all the answers that their scores need.")
    return cells, notes


def _of_files(parsed: argparse.Namespace) -> tuple[list[Cell], list[str]]:
    from lm_factuality.benchmarks import all_sources
    from lm_factuality.benchmarks.biographies.measured import METRICS, read_columns, read_people, read_results
    from lm_factuality.benchmarks.biographies.summary import SCORES
    from lm_factuality.ground.published import locate
    from lm_factuality.people.responses import match, responses_of

    source = all_sources().get(parsed.human)
    path = Path(parsed.human) if source is None or Path(parsed.human).exists() else locate(source).path
    people = read_people(path, read_columns(parsed.columns) if parsed.columns else None)
    default = people[0].model if len(parsed.auto) == len({each.model for each in people}) == 1 else None
    judge = [each for argument in parsed.auto for each in read_results(argument, default)]
    both, (only_people, only_judge) = match(people, judge)
    left = f"{len(people)} rows of people; {only_people} responses that only people, {only_judge} that only the judge measured."
    return list(responses_of(both, [score for score in SCORES if score.name in METRICS])), [left]
