"""``lm-factuality certify``: how well a judge does where the truth is known, before it judges anything that counts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lm_factuality.cli.actions import Command
from lm_factuality.cli.printing import print_plans
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError

if TYPE_CHECKING:
    from lm_factuality.benchmarks.certifiable import Certifiable, Wanted

_OPTIONS = {"files": "--data", "sample": "--sample", "rows": "--rows", "claims": "--claims", "prompts": "--prompts"}


def options(parser: argparse.ArgumentParser) -> None:
    from lm_factuality.benchmarks.certified import all_settings

    parser.add_argument("--judge", required=True, metavar="CONFIG", help="a judge's YAML, or 'lexical' to try things out")
    parser.add_argument("--setting", choices=all_settings(), help="default segment_cot; segment_doc if the judge needs evidence")
    parser.add_argument("--rows", type=int, metavar="N", help="biographies_...: a random part, always the same")
    parser.add_argument("--data-dir", metavar="DIR", help="local folder with the published files, instead of a download")
    parser.add_argument("--data", type=Path, nargs="+", metavar="FILE", help="biographies_...: generations, decisions, ...")
    parser.add_argument("--sample", action="store_true", help="segment_..., claim_...: the embedded sample instead")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="claim_...: of 'claims extract' (default: rules)")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="segment_..., claim_...: a checkout of hkust-nlp/felm")
    parser.add_argument("--store", type=Path, metavar="FILE", help="where answers are kept (default: the shared store)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the certificate here too")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and cost; send nothing")


def certify(parsed: argparse.Namespace) -> int:
    """Has the judge decide what is known, writes the certificate, prints it beside judges that do not read.

    Raises:
        BackendDown: the judge has no verdict at all, so there is nothing to certify.
        ConfigError, DataError: the judge's config, the options or the data.
    """
    from judges.certificates import save_certificate, to_certificate
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks.certified import all_settings

    config = load_judge_config(parsed.judge)
    known = all_settings()
    setting = known[parsed.setting] if parsed.setting else next(each for each in known.values() if each.is_default(config))
    trial = setting.open(_wanted(parsed, setting, known))
    with Judge.open(config, store=parsed.store) as judge:
        if parsed.dry_run:
            print_plans(str(trial.data["file"]), config.name, [(setting.name, judge.rehearse(trial.ask))])
            return 0
        measured = trial.measure(judge)
        hashes = trial.prompt_hashes(judge)
        certificate = to_certificate(judge, setting.name, measured, prompt_hashes=hashes, data=trial.data)
    columns, rows, notes = trial.table(certificate, config.name)
    print_table(f"{trial.data['file']}, {setting.name}: {setting.what}", columns, rows, notes)
    for written in save_certificate(certificate, parsed.out):
        sys.stdout.write(f"Written to {written}\n")
    if not trial.data["is_published"]:
        sys.stdout.write("Not the data as published: no certificate that later runs would attach\n")
    return 0


def _wanted(parsed: argparse.Namespace, setting: Certifiable, known: Mapping[str, Certifiable]) -> Wanted:
    """
    Raises:
        ConfigError: an option that means nothing in this setting.
    """
    from lm_factuality.benchmarks.certifiable import Wanted

    given = Wanted(
        parsed.data_dir, tuple(parsed.data or ()), parsed.sample, parsed.rows, claims=parsed.claims, prompts=parsed.prompts
    )
    for name, option in _OPTIONS.items():
        if getattr(given, name) not in (None, (), False) and name not in setting.takes:
            able = [each.name for each in known.values() if name in each.takes]
            raise ConfigError(f"{option} is not for --setting {setting.name}, but for {', '.join(able)}")
    if given.rows is not None and given.rows < 1:
        raise ConfigError(f"--rows: found {given.rows}, expected 1 or more")
    return given


COMMAND = Command("certify", "measure how well a judge does where the truth is known, and keep the certificate", certify, options)
