"""Commands on saved outputs of a judge: their scores, and the claims of FELM's responses."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from lm_factuality.cli.judge import DryRun, Store, print_plans
from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import interval, percent, print_table, shown
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.ground.packages import load_yaml

app = App()
claims = App()
DataFolder = Annotated[
    str | None,
    Option(help="Local folder with all.jsonl, instead of a download."),
]
OutFile = Annotated[Path, Option(help="metrics.json to write.")]


@app.callback()
def score() -> None:
    """Score saved outputs of a judge, without any model.

    \b
    Examples:
      lm-factuality score felm --outputs samples_felm_segment_cot_DATE.jsonl --out metrics.json
      lm-factuality score ambigbio --decisions decisions.json.gz --out metrics.json
    """


@app.command()
def felm(
    outputs: Annotated[Path, Option(help="lm_eval's samples, or JSONL as below.")],
    out: OutFile,
    data_dir: DataFolder = None,
    protocol: Annotated[
        Literal["paper", "code"],
        Option(
            help="paper: unreadable outputs are unscored; code: read as the authors' script does."
        ),
    ] = "paper",
) -> None:
    """Score outputs that judge FELM's responses.

    \b
    Examples:
      lm-factuality score felm --outputs samples_felm_segment_cot_DATE.jsonl --out metrics.json
      lm-factuality score felm --outputs outputs.jsonl --data-dir my_folder --out metrics.json
      lm-factuality score felm --outputs outputs.jsonl --protocol code --out metrics.json

    outputs.jsonl has a line {"index": "0", "output": "Answer: 1,3"} for each row;
    a list of texts for "output" is voted on. Rows without a readable output are left out of the
    scores and counted, with reasons, under "unscored".
    """
    from lm_factuality.benchmarks.felm.metrics import report_detection_scores
    from lm_factuality.benchmarks.felm.rows import FELM, read_felm_rows
    from lm_factuality.benchmarks.felm.verdicts import read_saved_outputs
    from lm_factuality.ground.published import locate

    rows = read_felm_rows(locate(FELM, data_dir).path)
    report = report_detection_scores(read_saved_outputs(outputs, rows, protocol), protocol)
    unscored = report["unscored"]
    lines = []
    for name, levels in report.items():
        if name == "unscored":
            continue
        for level, scores in levels.items():
            shares = [scores[key] for key in ("f1", "precision", "recall", "balanced_accuracy")]
            counts = [str(scores[key]) for key in ("tp", "fp", "fn", "tn")]
            lines.append((f"{name}, {level}", *map(percent, shares), *counts))
    notes = [f"unscored: {unscored['responses']} responses, {unscored['segments']} segments"]
    if unscored["responses"]:
        worst, best = (percent(unscored[end]["segment"]["f1"]) for end in ("worst", "best"))
        notes[0] += (
            f"; segment F1 of all would be {worst} if all were judged wrongly, {best} if rightly"
        )
        notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
    names = ("F1", "precision", "recall", "balanced accuracy", "tp", "fp", "fn", "tn")
    columns = ("domain, level", *(f"#{name}" for name in names))
    print_table(f"FELM, {outputs.name}: finding errors", columns, lines, notes)
    _write(out, report)


@app.command()
def ambigbio(
    decisions: Annotated[Path, Option(help="Released decisions, as below.")],
    out: OutFile,
    protocol: Annotated[
        Literal["code", "fixed"],
        Option(
            help="code: the authors' figures; fixed: what grouping lost is unscored, nothing"
            " dropped."
        ),
    ] = "code",
) -> None:
    """Score decisions on biographies.

    \b
    Examples:
      lm-factuality score ambigbio --decisions decisions.json.gz --out metrics.json

    decisions.json.gz is what D-FActScore's authors released for one model: "decisions" and
    "global_decisions", a list of facts per name, each with is_supported and supporting_topic.
    """
    from lm_factuality.benchmarks.biographies.decisions import read_decisions
    from lm_factuality.benchmarks.biographies.released import score_decisions

    report = score_decisions(read_decisions(decisions), protocol)
    lines = []
    for key, about in load_yaml(__package__, "ambigbio.yaml").items():
        value = shown(report[key], about["form"])
        ends = interval(report["intervals"].get(key), about["form"])
        lines.append((about["name"], value, ends))
    unscored = report["unscored"]
    worst, best = (percent(unscored["d_factscore"][end]) for end in ("worst", "best"))
    notes = [
        f"protocol {protocol}:",
        *(f"  {choice}" for choice in report["choices"]),
        f"{report['num_responses']} responses to {report['num_names']} names; intervals: 95%,"
        " bootstrap over names",
        f"grouping lost {unscored['facts']} facts ({unscored['first_facts']} of them the first of a"
        f" response) and made up {unscored['facts_made_up']}; {unscored['responses']} responses"
        f" have no verdict left: D-FActScore of all facts would be {worst} if the lost ones were"
        f" not supported, {best} if they were",
    ]
    columns = ("figure", "#value", "#95% interval")
    print_table(f"AmbigBio, {decisions.name}", columns, lines, notes)
    _write(out, report)


def _write(path: Path, report: dict[str, Any]) -> None:
    write_json(path, report)
    sys.stdout.write(f"Written to {path}\n")


@claims.callback()
def claims_of_felm() -> None:
    """Take the claims out of FELM's segments."""


@claims.command()
def extract(
    judge: Annotated[str, Option(help="A judge's YAML, or 'rules'.")],
    out: Annotated[Path, Option(help="JSONL to write, one row of FELM per line.")],
    store: Store = None,
    dry_run: DryRun = False,
    data_dir: DataFolder = None,
) -> None:
    """Extract the claims of every segment.

    \b
    Examples:
      lm-factuality claims extract --judge configs/judges/openai-server.yaml --out claims.jsonl
      lm-factuality claims extract --judge my_judge.yaml --out claims.jsonl --dry-run
      lm-factuality claims extract --judge rules --out claims.jsonl

    With --judge rules each clause is a claim.

    Then: lm-factuality run ... --tasks felm_claim_cot --metadata claims=claims.jsonl

    The exit code is 0 also where some rows have a problem, which the file names.
    """
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks.felm.judging import extract_claims
    from lm_factuality.benchmarks.felm.rows import (
        FELM,
        WITHOUT_REFERENCES,
        claims_to_line,
        count_claim_sources,
        read_felm_rows,
        split_claims,
    )
    from lm_factuality.ground.published import locate

    rows = read_felm_rows(locate(FELM, data_dir).path)
    rows = [row for row in rows if row.domain not in WITHOUT_REFERENCES]
    if judge == "rules":
        extracted = [split_claims(row) for row in rows]
    else:
        config = load_judge_config(judge)
        with Judge.open(config, store=store) as opened:
            if dry_run:
                plan = opened.plan(lambda asked: extract_claims(asked, rows))
                print_plans("FELM's claims", config.name, [("claims", plan)])
                return
            extracted = extract_claims(opened, rows)
        if all(row.problem for row in extracted):
            advice = (
                "" if config.capabilities.reads_prompts else "; without a model, use --judge rules"
            )
            raise BackendDownError(
                f"judge {config.name}: no claims of any of {len(extracted)} rows, the first:"
                f" {extracted[0].problem}; nothing was written{advice}"
            )
    write_lines(out, (claims_to_line(row) for row in extracted))
    problems = [row for row in extracted if row.problem]
    number = sum(len(row.all_claims()) for row in extracted)
    notes = [
        f"{number:,} claims, written to {out}",
        f"rows without claims, unscored when claims are judged: {len(problems)}",
        *(f"  row {row.index}: {row.problem}" for row in problems[:10]),
    ]
    counts = [(source, str(count)) for source, count in count_claim_sources(extracted).items()]
    print_table(f"Claims of {len(extracted)} rows", ("from", "#rows"), counts, notes)
