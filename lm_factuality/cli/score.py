"""The commands ``score`` and ``claims``: score saved verdicts, and extract claims from FELM.

``lm_factuality.cli.main`` registers them.
"""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from lm_factuality.cli.judge import DryRun, Store, print_plans
from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import format_interval, format_number, format_percent, print_table
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.ground.packages import load_yaml

app = App()
claims = App()
DataFolder = Annotated[
    str | None,
    Option(help="Folder with FELM's all.jsonl (default: it is downloaded)."),
]
OutFile = Annotated[Path, Option(help="JSON file to write the scores to, such as metrics.json.")]


@app.callback()
def score() -> None:
    """Score the saved outputs of a judge. No model is asked.

    \b
    Examples:
      lm-factuality score felm --outputs samples_felm_segment_cot_DATE.jsonl --out metrics.json
      lm-factuality score ambigbio --decisions decisions.json.gz --out metrics.json
    """


@app.command()
def felm(
    outputs: Annotated[Path, Option(help="Samples file of lm_eval, or a JSONL file as below.")],
    out: OutFile,
    data_dir: DataFolder = None,
    protocol: Annotated[
        Literal["paper", "code"],
        Option(
            help="How to read outputs. paper: unreadable outputs are unscored. code: as the"
            " authors' script reads them."
        ),
    ] = "paper",
) -> None:
    """Score how well a judge's outputs find the errors in FELM's responses.

    \b
    Examples:
      lm-factuality score felm --outputs samples_felm_segment_cot_DATE.jsonl --out metrics.json
      lm-factuality score felm --outputs outputs.jsonl --data-dir my_folder --out metrics.json
      lm-factuality score felm --outputs outputs.jsonl --protocol code --out metrics.json

    outputs.jsonl has a line {"index": "0", "output": "Answer: 1,3"} for each row. If "output" is a
    list of texts, the majority decides. The scores leave out rows without a readable output, and
    "unscored" counts them with the reasons.
    """
    from lm_factuality.benchmarks.felm.metrics import report_detection_scores
    from lm_factuality.benchmarks.felm.rows import FELM, read_felm_rows
    from lm_factuality.benchmarks.felm.verdicts import read_saved_outputs
    from lm_factuality.ground.published import locate

    rows = read_felm_rows(locate(FELM, data_dir).path)
    report = report_detection_scores(read_saved_outputs(outputs, rows, protocol), protocol)
    table_rows = []
    for name, levels in report.items():
        # This entry counts the outputs that could not be read. All others are domains.
        if name == "unscored":
            continue
        for level, scores in levels.items():
            shares = [scores[key] for key in ("f1", "precision", "recall", "balanced_accuracy")]
            counts = [str(scores[key]) for key in ("tp", "fp", "fn", "tn")]
            table_rows.append((f"{name}, {level}", *map(format_percent, shares), *counts))

    unscored = report["unscored"]
    notes = [f"unscored: {unscored['responses']} responses, {unscored['segments']} segments"]
    if unscored["responses"]:
        worst = format_percent(unscored["worst"]["segment"]["f1"])
        best = format_percent(unscored["best"]["segment"]["f1"])
        notes[0] += (
            f"; segment F1 would be {worst} if all of them were judged wrongly, {best} if rightly"
        )
        notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
    names = ("F1", "precision", "recall", "balanced accuracy", "tp", "fp", "fn", "tn")
    columns = ("domain, level", *(f"#{name}" for name in names))
    print_table(f"FELM, {outputs.name}: finding errors", columns, table_rows, notes)
    _write_report(out, report)


@app.command()
def ambigbio(
    decisions: Annotated[Path, Option(help="File of released decisions, as below.")],
    out: OutFile,
    protocol: Annotated[
        Literal["code", "fixed"],
        Option(
            help="How to count facts. code: as the authors count. fixed: facts that grouping lost"
            " are unscored, and no fact is dropped."
        ),
    ] = "code",
) -> None:
    """Score the released decisions on the facts of biographies.

    \b
    Examples:
      lm-factuality score ambigbio --decisions decisions.json.gz --out metrics.json

    decisions.json.gz is what D-FActScore's authors released for one model: "decisions" and
    "global_decisions", a list of facts per name, each with is_supported and supporting_topic.
    """
    from lm_factuality.benchmarks.biographies.decisions import read_decisions
    from lm_factuality.benchmarks.biographies.released import score_decisions

    report = score_decisions(read_decisions(decisions), protocol)
    table_rows = []
    # The YAML names each figure of the table and its number format.
    for key, figure in load_yaml(__package__, "ambigbio.yaml").items():
        value = format_number(report[key], figure["form"])
        confidence_interval = format_interval(report["intervals"].get(key), figure["form"])
        table_rows.append((figure["name"], value, confidence_interval))

    unscored = report["unscored"]
    worst = format_percent(unscored["d_factscore"]["worst"])
    best = format_percent(unscored["d_factscore"]["best"])
    notes = [
        f"protocol {protocol}:",
        *(f"  {choice}" for choice in report["choices"]),
        f"{report['num_responses']} responses to {report['num_names']} names; intervals: 95%,"
        " bootstrap over names",
        f"grouping lost {unscored['facts']} facts ({unscored['first_facts']} of them the first of a"
        f" response) and made up {unscored['facts_made_up']}; {unscored['responses']} responses"
        f" have no verdict left; D-FActScore of all facts would be {worst} if no lost fact were"
        f" supported, {best} if all were",
    ]
    columns = ("figure", "#value", "#95% interval")
    print_table(f"AmbigBio, {decisions.name}", columns, table_rows, notes)
    _write_report(out, report)


def _write_report(path: Path, report: dict[str, Any]) -> None:
    """Write scores to a JSON file, and print the path of the file."""
    write_json(path, report)
    sys.stdout.write(f"Written to {path}\n")


@claims.callback()
def claims_of_felm() -> None:
    """Extract the claims that the segments of FELM's responses make."""


@claims.command()
def extract(
    judge: Annotated[
        str, Option(help="The judge's YAML file, or 'rules' to take each clause as a claim.")
    ],
    out: Annotated[
        Path, Option(help="JSONL file to write, with the claims of a row of FELM per line.")
    ],
    store: Store = None,
    dry_run: DryRun = False,
    data_dir: DataFolder = None,
) -> None:
    """Extract the claims that each segment makes.

    \b
    Examples:
      lm-factuality claims extract --judge configs/judges/openai-server.yaml --out claims.jsonl
      lm-factuality claims extract --judge my_judge.yaml --out claims.jsonl --dry-run
      lm-factuality claims extract --judge rules --out claims.jsonl

    With --judge rules, no model is asked and each clause is a claim.

    To judge the claims: lm-factuality run ... --tasks felm_claim_cot --metadata claims=claims.jsonl

    If the judge fails on some rows, the file states each problem and the exit code is still 0.
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
                plan = opened.plan(lambda planning_judge: extract_claims(planning_judge, rows))
                print_plans("FELM's claims", config.name, [("claims", plan)])
                return
            extracted = extract_claims(opened, rows)
        # A file without any claim would be of no use.
        if all(row.problem for row in extracted):
            advice = (
                "" if config.capabilities.reads_prompts else "; without a model, use --judge rules"
            )
            raise BackendDownError(
                f"judge {config.name}: no claims of any of {len(extracted)} rows; the first"
                f" problem is: {extracted[0].problem}; nothing was written{advice}"
            )
    write_lines(out, (claims_to_line(row) for row in extracted))

    failed_rows = [row for row in extracted if row.problem]
    num_claims = sum(len(row.all_claims()) for row in extracted)
    notes = [
        f"{num_claims:,} claims, written to {out}",
        f"rows without claims, which are unscored when claims are judged: {len(failed_rows)}",
        *(f"  row {row.index}: {row.problem}" for row in failed_rows[:10]),
    ]
    counts = [(source, str(count)) for source, count in count_claim_sources(extracted).items()]
    print_table(f"Claims of {len(extracted)} rows", ("from", "#rows"), counts, notes)
