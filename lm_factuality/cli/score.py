"""``lm-factuality score``: saved outputs of FELM and AmbigBio to scores, without any model;
``claims``: FELM's claims."""

import argparse
import sys
from typing import Any

from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.decisions import read_decisions
from lm_factuality.benchmarks.biographies.released import score_decisions
from lm_factuality.benchmarks.felm.judging import extract_claims
from lm_factuality.benchmarks.felm.metrics import to_report
from lm_factuality.benchmarks.felm.questions import AuthorsPrompts
from lm_factuality.benchmarks.felm.rows import (
    FELM,
    WITHOUT_REFERENCES,
    provenance,
    read_claims,
    read_rows,
    split_claims,
    to_line,
)
from lm_factuality.benchmarks.felm.verdicts import judge_outputs, read_outputs
from lm_factuality.cli.judge import print_plans
from lm_factuality.ground.console import percent, print_table
from lm_factuality.ground.errors import BackendDown, ConfigError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.ground.published import locate

_AMBIGBIO = {
    "factscore": "FActScore",
    "factscore_penalised": "FActScore, short ones penalised",
    "d_factscore": "D-FActScore",
    "difference": "difference",
    "num_biographies": "biographies per response (as stated)",
    "num_entities": "entities a response",
    "respond_ratio": "respond ratio",
    "facts_per_response": "facts a response",
    "num_nan": "responses without a grouped fact",
}
_COUNTS = {
    "num_biographies": ".2f",
    "num_entities": ".2f",
    "facts_per_response": ".2f",
    "num_nan": "d",
}


def _write(parsed: argparse.Namespace, report: dict[str, Any]) -> None:
    write_json(parsed.out, report)
    sys.stdout.write(f"Written to {parsed.out}\n")


def score_felm(parsed: argparse.Namespace) -> None:
    rows = read_rows(locate(FELM, parsed.data_dir).path)
    outputs = read_outputs(parsed.outputs, rows)
    claims = read_claims(parsed.claims, rows) if parsed.claims else None
    report = to_report(judge_outputs(rows, outputs, parsed.protocol, claims), parsed.protocol)
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
        notes[0] += (
            f"; segment F1 of all would be {worst} if all were judged wrongly, {best} if rightly"
        )
        notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
    columns = (
        "domain, level",
        "#F1",
        "#precision",
        "#recall",
        "#balanced accuracy",
        "#tp",
        "#fp",
        "#fn",
        "#tn",
    )
    print_table(f"FELM, {parsed.outputs.name}: finding errors", columns, lines, notes)
    _write(parsed, report)


def score_ambigbio(parsed: argparse.Namespace) -> None:
    report = score_decisions(read_decisions(parsed.decisions), parsed.protocol)
    lines = [
        (
            name,
            _shown(key, report[key]),
            " - ".join(_shown(key, end) for end in report["intervals"].get(key, ())),
        )
        for key, name in _AMBIGBIO.items()
    ]
    unscored = report["unscored"]
    worst, best = (percent(unscored["d_factscore"][end]) for end in ("worst", "best"))
    notes = [
        f"protocol {parsed.protocol}:",
        *(f"  {choice}" for choice in report["choices"]),
        (
            f"{report['num_responses']} responses to {report['num_names']} names; intervals: 95%,"
            " bootstrap over names"
        ),
        (
            f"grouping lost {unscored['facts']} facts ({unscored['first_facts']} of them the first"
            f" of a response) and made up {unscored['facts_made_up']}; {unscored['responses']}"
            f" responses have no verdict left: D-FActScore of all facts would be {worst} if the"
            f" lost ones were not supported, {best} if they were"
        ),
        f"biographies: the decisions alone show {report['num_biographies_at_least']:.2f} at least",
    ]
    print_table(
        f"AmbigBio, {parsed.decisions.name}", ("figure", "#value", "#95% interval"), lines, notes
    )
    _write(parsed, report)


def _shown(key: str, value: float | None) -> str:
    return percent(value) if value is None or key not in _COUNTS else format(value, _COUNTS[key])


def claims(parsed: argparse.Namespace) -> None:
    """Extracts and writes claims; exit code 0 also where some rows have a problem, which the file
    names."""
    if parsed.max_tokens < 1:
        raise ConfigError(f"--max-tokens is {parsed.max_tokens}, expected at least 1")
    rows = read_rows(locate(FELM, parsed.data_dir).path)
    rows = [row for row in rows if row.domain not in WITHOUT_REFERENCES]
    if parsed.judge == "rules":
        found = [split_claims(row) for row in rows]
    else:
        config = load_judge_config(parsed.judge)
        authors = AuthorsPrompts(parsed.prompts) if parsed.prompts else None
        with Judge.open(config, store=parsed.store) as judge:
            if parsed.dry_run:
                plan = judge.rehearse(
                    lambda asked: extract_claims(asked, rows, parsed.max_tokens, authors)
                )
                print_plans("FELM's claims", config.name, [("claims", plan)])
                return
            found = extract_claims(judge, rows, parsed.max_tokens, authors)
        if all(each.problem for each in found):
            raise BackendDown(
                f"judge {config.name}: no claims of any of {len(found)} rows, the first:"
                f" {found[0].problem}; nothing was written"
                f"{'' if config.capabilities.reads_prompts else '; without a model, use --judge rules'}"  # noqa: E501
            )
    write_lines(parsed.out, (to_line(each) for each in found))
    problems = [each for each in found if each.problem]
    notes = [
        f"{sum(len(each.numbered()) for each in found):,} claims, written to {parsed.out}",
        f"rows without claims, unscored when claims are judged: {len(problems)}",
        *(f"  row {each.index}: {each.problem}" for each in problems[:10]),
    ]
    counts = [(source, str(count)) for source, count in provenance(found).items()]
    print_table(f"Claims of {len(found)} rows", ("from", "#rows"), counts, notes)
