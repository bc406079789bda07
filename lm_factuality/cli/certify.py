"""``lm-factuality certify``: how well a judge finds errors, before it judges anything that counts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.cli.actions import Command
from lm_factuality.cli.printing import percent, print_plans
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown, ConfigError

if TYPE_CHECKING:
    from lm_factuality.benchmarks.felm.claims import RowClaims
    from lm_factuality.benchmarks.felm.rows import FelmRow


_SETTINGS = tuple(f"{unit}_{mode}" for unit in ("segment", "claim") for mode in ("vanilla", "cot", "link", "doc"))

_COUNTED = ("units", "supported", "wrong")  # of a tenth of the probabilities


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--judge", required=True, metavar="CONFIG", help="a judge's YAML, or 'lexical' to try things out")
    parser.add_argument(
        "--setting", choices=_SETTINGS, help="how FELM is asked (default segment_cot; segment_doc if the judge needs evidence)"
    )
    parser.add_argument("--claims", type=Path, metavar="FILE", help="claims of 'claims extract' (default: by rules)")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="a checkout of hkust-nlp/felm: the authors' prompts")
    parser.add_argument("--data-dir", metavar="DIR", help="local folder with all.jsonl, instead of a download")
    parser.add_argument("--sample", action="store_true", help="try it on the embedded sample, without any download")
    parser.add_argument("--store", type=Path, metavar="FILE", help="where answers are kept (default: the shared store)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the certificate here too")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and cost; send nothing")


def certify(parsed: argparse.Namespace) -> int:
    """Judges FELM, writes the certificate, prints it beside judges that do not read.

    Raises:
        BackendDown: the judge has no verdict on any response, so there is nothing to certify.
        ConfigError, DataError: the judge's config, the data or the claims.
    """
    from judges.certificates import save_certificate, to_certificate
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks.felm.authors import AuthorsPrompts
    from lm_factuality.benchmarks.felm.certify import calibrate, measure
    from lm_factuality.benchmarks.felm.judging import judge_rows, plan_rows
    from lm_factuality.benchmarks.felm.questions import Questioner
    from lm_factuality.benchmarks.felm.rows import FELM, read_rows
    from lm_factuality.ground.published import blob_id, locate
    from lm_factuality.ground.suite import tasks_folder

    config = load_judge_config(parsed.judge)
    setting = parsed.setting or ("segment_doc" if config.capabilities.needs_evidence else "segment_cot")
    unit, mode = setting.split("_")
    path = tasks_folder() / "sample" / "sample_felm.jsonl" if parsed.sample else locate(FELM, parsed.data_dir).path
    rows, blob = read_rows(path), blob_id(path)
    claims = _claims(parsed.claims, unit, rows)
    authors = AuthorsPrompts(parsed.prompts) if parsed.prompts else None
    questioner = Questioner(unit, mode)
    with Judge.open(config, store=parsed.store) as judge:
        if parsed.dry_run:
            print_plans(path.name, config.name, plan_rows(judge, rows, questioner, claims, authors))
            return 0
        responses = judge_rows(judge, rows, questioner, claims, authors)
        if all(each.flagged is None for each in responses):
            raise BackendDown(
                f"judge {config.name}: no verdict on any of {len(responses)} responses, the first: {responses[0].reason}; "
                "there is nothing to certify"
            )
        calibration = {} if config.capabilities.reads_prompts else {"calibration": calibrate(judge, rows)}
        used = {f"felm/{unit}_{mode}", f"felm/segment_{'cot' if mode == 'cot' else 'vanilla'}"}
        certificate = to_certificate(
            judge,
            setting,
            measure(responses, "paper") | calibration,
            prompt_hashes={"authors": authors.hash()} if authors else judge.prompts.hashes(used),
            data={"file": path.name, "git_blob": blob, "is_published": blob == FELM.blob},
        )
    _print(certificate, config.name)
    for written in save_certificate(certificate, parsed.out):
        sys.stdout.write(f"Written to {written}\n")
    if not certificate["data"]["is_published"]:
        sys.stdout.write("Not FELM as published: no certificate that later runs would attach\n")
    return 0


def _claims(path: Path | None, unit: str, rows: Sequence[FelmRow]) -> Mapping[str, RowClaims]:
    from lm_factuality.benchmarks.felm.claims import read_claims, split_claims

    if unit == "segment":
        if path:
            raise ConfigError("--claims is for the claim settings: add --setting claim_cot, or another of them")
        return {}
    return read_claims(path, rows) if path else {row.index: split_claims(row) for row in rows}


def _print(certificate: dict[str, Any], judge: str) -> None:
    scores, unscored = certificate["scores"], certificate["scores"]["unscored"]
    kinds = {"": "baselines"} | ({" where it has a verdict": "baselines_where_scored"} if unscored["responses"] else {})
    rows = []
    for level in ("segment", "response"):
        low_high = certificate["intervals"][level]["f1"]
        interval = f"{percent(low_high[0])} - {percent(low_high[1])}" if low_high else "-"
        named = [(judge, scores["ALL"], interval)]
        named += [(f"  {name}", found, "") for name, found in scores.items() if name not in ("ALL", "unscored")]
        named += [(f"{name}{where}", found, "") for where, key in kinds.items() for name, found in certificate[key].items()]
        keys = ("f1", "precision", "recall", "balanced_accuracy")
        rows += [(f"{name}, {level}", *(percent(found[level][key]) for key in keys), shown) for name, found, shown in named]
    notes = [f"unscored: {unscored['responses']} of the responses, {unscored['segments']} segments"]
    notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
    columns = ("judge, level", "#F1", "#precision", "#recall", "#balanced accuracy", "#95% interval of F1")
    print_table(f"{certificate['data']['file']}, {certificate['setting']}: finding errors", columns, rows, notes)
    if bins := certificate.get("calibration"):
        lines = [(f"{each['low']:.1f} - {each['high']:.1f}", *(str(each[key]) for key in _COUNTED)) for each in bins]
        print_table("Calibration: segments with references", ("probability", *_COUNTED), lines, [])


COMMAND = Command("certify", "measure on FELM how well a judge finds errors, and keep the certificate", certify, options)
