"""The commands ``score`` and ``claims``: score saved verdicts, and extract claims from FELM.

``lm_factuality.cli.main`` registers them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option, echo

from lm_factuality.cli.judge import DryRun, Store, print_plans
from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import format_interval, format_number, format_percent, print_table
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.ground.packages import load_yaml

if TYPE_CHECKING:
    from judges.config import JudgeConfig
    from lm_factuality.benchmarks.felm.rows import RowClaims

# How `score ambigbio` describes the facts without a verdict, with keys of the report in braces.
_LOST_FACTS = (
    "grouping lost {facts} facts ({first_facts} of them the first of a response) and made up"
    " {facts_made_up}; {responses} responses have no verdict left; D-FActScore of all facts would"
    " be {worst} if no lost fact were supported, {best} if all were"
)

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
    outputs: Annotated[
        Path, Option(help="Samples file of lm_eval, or a JSONL file as described below.")
    ],
    out: OutFile,
    data_dir: DataFolder = None,
    protocol: Annotated[
        Literal["chat", "paper", "code"],
        Option(
            help="How to read outputs. chat: as a careful person does. paper: only the form that"
            " the paper's prompts ask for. code: as the authors' script reads them."
        ),
    ] = "chat",
) -> None:
    """Score how well a judge's outputs find the errors in FELM's responses.

    \b
    Examples:
      lm-factuality score felm --outputs samples_felm_segment_cot_DATE.jsonl --out metrics.json
      lm-factuality score felm --outputs outputs.jsonl --data-dir my_folder --out metrics.json
      lm-factuality score felm --outputs outputs.jsonl --protocol code --out metrics.json

    outputs.jsonl has a line {"index": "0", "output": "Answer: 1,3"} for each row. If "output" is a
    list of texts, the majority decides. Rows without a readable output are left out of the scores,
    and "unscored" counts them by reason.
    """
    from lm_factuality.benchmarks.felm.metrics import report_detection_scores
    from lm_factuality.benchmarks.felm.rows import FELM, read_felm_rows
    from lm_factuality.benchmarks.felm.verdicts import read_saved_outputs
    from lm_factuality.ground.published import locate

    rows = read_felm_rows(locate(FELM, data_dir).path)
    report = report_detection_scores(read_saved_outputs(outputs, rows, protocol), protocol)
    _print_felm_scores(report, outputs.name)
    _write_report(out, report)


def _print_felm_scores(report: Mapping[str, Any], file: str) -> None:
    """Print a table of how well a judge finds errors, by domain and level.

    Args:
        report: Scores by domain and then by level (``segment`` or ``response``), and under
            ``unscored`` how many outputs could not be read.
        file: The name of the file with the outputs, for the title.
    """
    rows = []
    for domain, levels in report.items():
        # This entry is no domain: it counts the outputs that could not be read.
        if domain == "unscored":
            continue
        for level, scores in levels.items():
            shares = [scores[name] for name in ("f1", "precision", "recall", "balanced_accuracy")]
            counts = [str(scores[name]) for name in ("tp", "fp", "fn", "tn")]
            rows.append((f"{domain}, {level}", *map(format_percent, shares), *counts))
    # The sign # marks columns of numbers, which are flush right.
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
    notes = _describe_unscored(report["unscored"])
    print_table(f"FELM, {file}: finding errors", columns, rows, notes)


def _describe_unscored(unscored: Mapping[str, Any]) -> list[str]:
    """Say how many outputs could not be read, how they could change the F1 score, and why.

    Args:
        unscored: The entry ``unscored`` of FELM's scores.

    Returns:
        The notes "unscored: 2 responses, 5 segments; ..." and, for each reason, "  2 x no answer".
    """
    note = f"unscored: {unscored['responses']} responses, {unscored['segments']} segments"
    if unscored["responses"]:
        worst = format_percent(unscored["worst"]["segment"]["f1"])
        best = format_percent(unscored["best"]["segment"]["f1"])
        note += (
            f"; segment F1 would be {worst} if all of them were judged wrongly, {best} if rightly"
        )
    return [note, *(f"  {count} x {reason}" for reason, count in unscored["reasons"].items())]


@app.command()
def ambigbio(
    decisions: Annotated[Path, Option(help="File of released decisions, as described below.")],
    out: OutFile,
    protocol: Annotated[
        Literal["code", "fixed"],
        Option(
            help="How to count facts. code: as the authors' program does. fixed: no fact is"
            " dropped, and a fact that the grouping step lost is unscored."
        ),
    ] = "code",
) -> None:
    """Score the released decisions on the facts of biographies.

    \b
    Examples:
      lm-factuality score ambigbio --decisions decisions.json.gz --out metrics.json

    decisions.json.gz is a file that D-FActScore's authors released for one model. Its entries
    "decisions" and "global_decisions" list the facts of each name, each with "is_supported" and
    "supporting_topic".
    """
    from lm_factuality.benchmarks.biographies.decisions import read_decisions
    from lm_factuality.benchmarks.biographies.released import score_decisions

    report = score_decisions(read_decisions(decisions), protocol)
    _print_ambigbio_scores(report, decisions.name)
    _write_report(out, report)


def _print_ambigbio_scores(report: Mapping[str, Any], file: str) -> None:
    """Print a table with FActScore, D-FActScore and counts of the scored biographies.

    Args:
        report: The content of the metrics file: scores, their ``intervals``, the ``protocol`` and
            its ``choices``, and counts.
        file: The name of the file with the decisions, for the title.
    """
    rows = []
    # The YAML names each figure of the table and its number format, such as ".1%".
    for key, figure in load_yaml(__package__, "ambigbio.yaml").items():
        value = format_number(report[key], figure["form"])
        confidence_interval = format_interval(report["intervals"].get(key), figure["form"])
        rows.append((figure["name"], value, confidence_interval))

    notes = [f"protocol {report['protocol']}:"]
    notes += [f"  {choice}" for choice in report["choices"]]
    notes.append(
        f"{report['num_responses']} responses to {report['num_names']} names; intervals: 95%,"
        " clustered by name"
    )
    notes.append(_describe_lost_facts(report["unscored"]))
    print_table(f"AmbigBio, {file}", ("figure", "#value", "#95% interval"), rows, notes)


def _describe_lost_facts(unscored: Mapping[str, Any]) -> str:
    """Describe the facts that the authors' program lost when it grouped facts by person.

    Args:
        unscored: The entry ``unscored`` of the scores: counts of facts and responses, and bounds of
            D-FActScore.

    Returns:
        A note such as "grouping lost 3 facts (1 of them the first of a response) and ...".
    """
    bounds = unscored["d_factscore"]
    # The template names keys of `unscored`, such as first_facts.
    return _LOST_FACTS.format(
        **unscored,
        worst=format_percent(bounds["worst"]),
        best=format_percent(bounds["best"]),
    )


def _write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write scores to a JSON file, and print the path of the file."""
    write_json(path, report)
    echo(f"Written to {path}")


@claims.callback()
def claims_of_felm() -> None:
    """Extract the claims that the segments of FELM's responses make.

    \b
    Examples:
      lm-factuality claims extract --judge rules --out claims.jsonl
    """


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
    """Extract the claims that each segment of FELM's responses makes.

    \b
    Examples:
      lm-factuality claims extract --judge configs/judges/openai-server.yaml --out claims.jsonl
      lm-factuality claims extract --judge my_judge.yaml --out claims.jsonl --dry-run
      lm-factuality claims extract --judge rules --out claims.jsonl

    With --judge rules, no model is asked and each clause is a claim. If a judge fails on some rows,
    the file states each problem and the exit code is still 0.

    \b
    To judge the claims:
      lm-factuality run ... --tasks felm_claim_cot --metadata claims=claims.jsonl
    """
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks.felm.judging import extract_claims
    from lm_factuality.benchmarks.felm.rows import (
        FELM,
        WITHOUT_REFERENCES,
        claims_to_line,
        read_felm_rows,
        split_claims,
    )
    from lm_factuality.ground.published import locate

    rows = read_felm_rows(locate(FELM, data_dir).path)
    # Rows of these domains have no evidence against which claims could be judged.
    rows = [row for row in rows if row.domain not in WITHOUT_REFERENCES]
    if judge == "rules":
        row_claims = [split_claims(row) for row in rows]
    else:
        config = load_judge_config(judge)
        with Judge.open(config, store=store) as opened_judge:
            if dry_run:
                plan = opened_judge.plan(
                    lambda planning_judge: extract_claims(planning_judge, rows)
                )
                print_plans("FELM's claims", config, [("claims", plan)])
                return
            row_claims = extract_claims(opened_judge, rows)
        _refuse_without_claims(row_claims, config)
    write_lines(out, (claims_to_line(claims) for claims in row_claims))
    _print_claims(row_claims, out)


def _refuse_without_claims(row_claims: Sequence["RowClaims"], config: "JudgeConfig") -> None:
    """Refuse to write a file if a judge extracted no claims of any row.

    Args:
        row_claims: The claims of each row, or the problem of a row without claims.
        config: The judge.

    Raises:
        BackendDownError: No row has claims.
    """
    if not all(claims.problem for claims in row_claims):
        return
    advice = "" if config.capabilities.reads_prompts else "; without a model, use --judge rules"
    raise BackendDownError(
        f"judge {config.name}: no claims of any of {len(row_claims)} rows; the first problem is:"
        f" {row_claims[0].problem}; nothing was written{advice}"
    )


def _print_claims(row_claims: Sequence["RowClaims"], path: Path) -> None:
    """Print how many rows have claims, and the problems of up to ten rows without claims.

    Args:
        row_claims: The claims of each row, or the problem of a row without claims.
        path: The file that holds the claims.
    """
    from lm_factuality.benchmarks.felm.rows import count_claim_sources

    failed_rows = [claims for claims in row_claims if claims.problem]
    num_claims = sum(len(claims.all_claims()) for claims in row_claims)
    notes = [
        f"{num_claims:,} claims, written to {path}",
        f"rows without claims, which are unscored when claims are judged: {len(failed_rows)}",
    ]
    notes += [f"  row {claims.index}: {claims.problem}" for claims in failed_rows[:10]]
    counts = [(source, str(count)) for source, count in count_claim_sources(row_claims).items()]
    print_table(f"Claims of {len(row_claims)} rows", ("from", "#rows"), counts, notes)
