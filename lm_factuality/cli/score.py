"""``lm-factuality score``: saved outputs to scores, without any model.

Each benchmark that has such outputs, FELM and AmbigBio, is scored by a function of its own here.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.cli.actions import Command
from lm_factuality.cli.printing import percent
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", choices=tuple(_scored()), help="what was judged")
    parser.add_argument("--outputs", type=Path, metavar="FILE", help="felm: lm_eval's samples, or JSONL as below")
    parser.add_argument("--data-dir", metavar="DIR", help="felm: local folder with all.jsonl, instead of a download")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="felm: the claims that bare outputs number, not segments")
    parser.add_argument("--decisions", type=Path, metavar="FILE", help="ambigbio: released decisions, as below")
    parser.add_argument(
        "--protocol",
        choices=("paper", "code", "fixed"),
        help="felm: paper (unreadable outputs are unscored, the default) or code (as the authors' script reads them); ambigbio: "
        "code (the authors' figures, the default) or fixed (what grouping lost is unscored, nothing dropped)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="metrics.json to write")


@dataclass(frozen=True)
class _Scored:
    """A benchmark's option with the outputs, the others that only it has, its protocols (the default first), and what reads the
    outputs: it returns the report and prints it."""

    needs: str
    others: tuple[str, ...]
    protocols: tuple[str, ...]
    score: Callable[[argparse.Namespace, Any], dict[str, Any]]


def _scored() -> dict[str, _Scored]:
    from lm_factuality.benchmarks.biographies.generations import AMBIGBIO
    from lm_factuality.benchmarks.felm.rows import FELM

    return {
        FELM.name: _Scored("outputs", ("data_dir", "claims"), ("paper", "code"), _score_felm),
        AMBIGBIO.name: _Scored("decisions", (), ("code", "fixed"), _score_ambigbio),
    }


def score(parsed: argparse.Namespace) -> int:
    """Writes ``metrics.json`` and prints it as a table.

    Raises:
        ConfigError: an option of the other benchmark, or none for this one.
        DataError: the file cannot be used.
    """
    scored = _scored()
    this = scored.pop(parsed.benchmark)
    for name in [name for each in scored.values() for name in (each.needs, *each.others)]:
        if getattr(parsed, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} is not for {parsed.benchmark}; it needs --{this.needs} FILE")
    if getattr(parsed, this.needs) is None:
        raise ConfigError(f"{parsed.benchmark} needs --{this.needs} FILE")
    protocol = parsed.protocol or this.protocols[0]
    if protocol not in this.protocols:
        raise ConfigError(f"--protocol {protocol}: {parsed.benchmark} knows {' and '.join(this.protocols)}")
    write_json(parsed.out, this.score(parsed, protocol))
    sys.stdout.write(f"Written to {parsed.out}\n")
    return 0


def _score_felm(parsed: argparse.Namespace, protocol: Any) -> dict[str, Any]:
    from lm_factuality.benchmarks.felm.claims import read_claims
    from lm_factuality.benchmarks.felm.metrics import to_report
    from lm_factuality.benchmarks.felm.outputs import judge_outputs, read_outputs
    from lm_factuality.benchmarks.felm.rows import FELM, read_rows
    from lm_factuality.ground.published import locate

    rows = read_rows(locate(FELM, parsed.data_dir).path)
    outputs = read_outputs(parsed.outputs, rows)
    claims = read_claims(parsed.claims, rows) if parsed.claims else None
    report = to_report(judge_outputs(rows, outputs, protocol, claims), protocol)
    unscored = report["unscored"]
    lines = [
        (
            f"{name}, {level}",
            *(percent(scores[key]) for key in ("f1", "precision", "recall", "balanced_accuracy")),
            *(str(scores[key]) for key in ("tp", "fp", "fn", "tn")),
        )
        for name, levels in report.items()
        if name != "unscored"
        for level, scores in levels.items()
    ]
    notes = [f"unscored: {unscored['responses']} responses, {unscored['segments']} segments"]
    if unscored["responses"]:
        worst, best = (percent(unscored[end]["segment"]["f1"]) for end in ("worst", "best"))
        notes[0] += f"; segment F1 of all would be {worst} if all were judged wrongly, {best} if rightly"
        notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
    columns = ("domain, level", "#F1", "#precision", "#recall", "#balanced accuracy", "#tp", "#fp", "#fn", "#tn")
    print_table(f"FELM, {parsed.outputs.name}: finding errors", columns, lines, notes)
    return report


_AMBIGBIO = {
    "factscore": "FActScore",
    "factscore_penalised": "FActScore, short ones penalised",
    "d_factscore": "D-FActScore",
    "difference": "difference",
    "num_biographies": "biographies a response (as stated)",
    "num_entities": "entities a response",
    "respond_ratio": "respond ratio",
    "facts_per_response": "facts a response",
    "num_nan": "responses without a grouped fact",
}
_COUNTS = {"num_biographies": ".2f", "num_entities": ".2f", "facts_per_response": ".2f", "num_nan": "d"}


def _score_ambigbio(parsed: argparse.Namespace, protocol: Any) -> dict[str, Any]:
    from lm_factuality.benchmarks.biographies.decisions import read_decisions
    from lm_factuality.benchmarks.biographies.released import score_decisions

    report = score_decisions(read_decisions(parsed.decisions), protocol)
    lines = [
        (name, _shown(key, report[key]), " - ".join(_shown(key, end) for end in report["intervals"].get(key, ())))
        for key, name in _AMBIGBIO.items()
    ]
    unscored = report["unscored"]
    worst, best = (percent(unscored["d_factscore"][end]) for end in ("worst", "best"))
    notes = [
        f"protocol {protocol}:",
        *(f"  {choice}" for choice in report["choices"]),
        f"{report['num_responses']} responses to {report['num_names']} names; intervals: 95%, bootstrap over names",
        f"grouping lost {unscored['facts']} facts ({unscored['first_facts']} of them the first of a response) and made up "
        f"{unscored['facts_made_up']}; {unscored['responses']} responses have no verdict left: D-FActScore of all facts would be "
        f"{worst} if the lost ones were not supported, {best} if they were",
        f"biographies: the decisions alone show {report['num_biographies_at_least']:.2f} at least",
    ]
    print_table(f"AmbigBio, {parsed.decisions.name}", ("figure", "#value", "#95% interval"), lines, notes)
    return report


def _shown(key: str, value: float | None) -> str:
    return percent(value) if value is None or key not in _COUNTS else format(value, _COUNTS[key])


COMMAND = Command("score", "score saved outputs of a judge, without any model", score, options)
