"""``lm-factuality score``: saved outputs to scores, without any model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lm_factuality.console import print_table
from lm_factuality.files import write_json

EXAMPLES = """\
  lm-factuality score felm --outputs results/MODEL/samples_felm_segment_cot_DATE.jsonl --out metrics.json
  lm-factuality score felm --outputs outputs.jsonl --data-dir my_folder --out metrics.json
  lm-factuality score felm --outputs outputs.jsonl --claims claims.jsonl --out metrics.json
  lm-factuality score felm --outputs outputs.jsonl --protocol code --out metrics.json

outputs.jsonl has a line {"index": "0", "domain": "math", "output": "Answer: 1,3"} for each row; a list of texts for "output" is
voted on. Rows without a readable output are in no score: they are counted, with reasons, under "unscored"."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", choices=("felm",), help="what was judged")
    parser.add_argument(
        "--outputs", type=Path, required=True, metavar="FILE", help="lm_eval's samples, or JSONL as below"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="local folder with all.jsonl, instead of a download")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="the claims that bare outputs number, not segments")
    parser.add_argument(
        "--protocol", choices=("paper", "code"), default="paper",
        help="paper: unreadable outputs are unscored; code: as the authors' script reads them (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="metrics.json to write")


def score(parsed: argparse.Namespace) -> int:
    """Writes ``metrics.json`` and prints it as a table."""
    from judges.felm.claims import read_claims
    from judges.felm.outputs import judge_outputs, read_outputs
    from judges.felm.report import to_report
    from judges.felm.rows import read_rows
    from lm_factuality.data.fetch import locate
    from lm_factuality.data.registry import find_source

    rows = read_rows(locate(find_source("felm"), parsed.data_dir).path)
    outputs = read_outputs(parsed.outputs, rows)
    claims = read_claims(parsed.claims, rows) if parsed.claims else None
    report = to_report(judge_outputs(rows, outputs, parsed.protocol, claims), parsed.protocol)
    write_json(parsed.out, report)
    print_report(report, f"FELM, {parsed.outputs.name}: finding errors")
    sys.stdout.write(f"Written to {parsed.out}\n")
    return 0


def print_report(report: dict[str, Any], title: str) -> None:
    """A line for each level and domain, and what was not scored."""
    unscored = report["unscored"]
    lines = [
        (f"{name}, {level}", *(_percent(scores[key]) for key in ("f1", "precision", "recall", "balanced_accuracy")),
         str(scores["tp"]), str(scores["fp"]), str(scores["fn"]), str(scores["tn"]))
        for name, levels in report.items() if name != "unscored" for level, scores in levels.items()
    ]  # fmt: skip
    worst, best = (_percent(unscored[end]["segment"]["f1"]) for end in ("worst", "best"))
    notes = [f"unscored: {unscored['responses']} responses, {unscored['segments']} segments"]
    if unscored["responses"]:
        notes[0] += f"; segment F1 of all would be {worst} if all were judged wrongly, {best} if rightly"
        notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
    columns = ("domain, level", "#F1", "#precision", "#recall", "#balanced accuracy", "#tp", "#fp", "#fn", "#tn")
    print_table(title, columns, lines, notes)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
