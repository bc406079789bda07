"""``lm-factuality quickstart``: the samples with tiny checkpoints and the offline judge."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lm_factuality.cli.actions import Command

if TYPE_CHECKING:
    from lm_factuality.sample.quickstart import JudgedSample


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, default=Path("results/quickstart"), help="folder for lm_eval's results (default %(default)s)"
    )


def quickstart(parsed: argparse.Namespace) -> int:
    """Runs both parts and prints a table of each."""
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "WARNING")
    from lm_factuality.ground.console import interval, print_table, shown
    from lm_factuality.sample.quickstart import TASK, judge_sample, quickstart

    rows = []
    for score in quickstart(parsed.output):
        found = score.accuracy
        shares = shown(found.value), interval((found.low, found.high)), shown(found.floor)
        rows.append((score.checkpoint, f"{score.parameters:,}", *shares, str(found.n), str(found.unscored)))
    print_table(
        f"{TASK}: is the true sentence likelier than three minimally edited ones?",
        ("checkpoint", "#parameters", "#factor_acc", "#95% interval", "#floor", "#rows", "#unscored"),
        rows,
        (
            "Intervals: clustered by document; floor: what knowing nothing scores.",
            f"lm_eval's results and samples: {parsed.output}",
        ),
    )
    _print_biographies(judge_sample(parsed.output / "biographies"))
    return 0


def _print_biographies(found: JudgedSample) -> None:
    from lm_factuality.ground.console import print_table

    rows = []
    for each in found.measures:
        form = ".1%" if each.name.endswith("Score") else ".2f"
        numbers = format(each.judge, form), format(each.truth, form), f"{each.pearson:.2f}", str(each.responses)
        rows.append((each.name, *numbers))
    print_table(
        f"sample_ambigbio: do {found.responses} biographies merge people who share a name? The offline judge beside the truth",
        ("mean of", "#judge", "#truth", "#Pearson's r", "#responses"),
        rows,
        (
            f"Each response, its facts and their evidence: {found.page}",
            "Next, a real model on the published benchmarks (needs a network or a local copy of the data):",
            "  lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor --output_path results",
        ),
    )


COMMAND = Command(
    "quickstart", "run the samples with tiny checkpoints and the offline judge; print two tables", quickstart, options
)
