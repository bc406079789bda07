"""``lm-factuality export``: results in the forms that other sites read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lm_factuality.cli.actions import Command, add_action
from lm_factuality.ground.console import plural
from lm_factuality.ground.errors import ConfigError, printable

if TYPE_CHECKING:
    from lm_factuality.harness.outputs import ResultsFile


def options(parser: argparse.ArgumentParser) -> None:
    from lm_factuality.results.exports.every_eval_ever import RELATIONSHIPS

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
    from lm_factuality.results.read import read_results_files

    files = read_results_files(parsed.results)
    written, left_out = parsed.export(parsed, files)
    sys.stdout.write("".join(f"{path}\n" for path in written))
    sys.stdout.write(f"{plural(len(written), 'file')}, valid by the schema\n")
    sys.stdout.writelines(f"Left out: {printable(each)}\n" for each in left_out)
    return 0


def _every_eval_ever(parsed: argparse.Namespace, files: Sequence[ResultsFile]) -> tuple[list[Path], list[str]]:
    from lm_factuality.results.exports.about import Publisher
    from lm_factuality.results.exports.every_eval_ever import export_every_eval_ever

    publisher = Publisher(parsed.organization, parsed.relationship)
    return export_every_eval_ever(files, parsed.out, publisher, parsed.model, parsed.samples)


def _hub(parsed: argparse.Namespace, files: Sequence[ResultsFile]) -> tuple[list[Path], list[str]]:
    from lm_factuality.results.exports.hub import export_hub, parse_benchmark

    if not parsed.source_url and (parsed.source_name or parsed.source_org):
        raise ConfigError("--source-name and --source-org need --source-url")
    source = {"url": parsed.source_url, "name": parsed.source_name, "org": parsed.source_org} if parsed.source_url else None
    benchmarks = [parse_benchmark(each) for each in parsed.benchmark]
    return export_hub(files, parsed.out, benchmarks, parsed.model, source)


COMMAND = Command("export", "write results in the formats of other collections", export, options)
