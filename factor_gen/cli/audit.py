"""The command ``factor-gen audit``, which finds out what a FACTOR benchmark gives away.

`factor_gen.cli` registers it.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lm_factuality.ground.command_line import RunCode
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.files import write_json

if TYPE_CHECKING:
    from factor_gen.audit.records import BenchmarkAudit, JudgedProperty
    from judges.judge import Judge
    from lm_factuality.benchmarks.factor.rows import Row


def audit(
    file: Annotated[
        str,
        Argument(
            help="The folder of a build, a CSV, JSONL or Parquet file in the authors' columns, the"
            " YAML of a task, or the name of one (wiki_factor, news_factor, expert_factor)."
        ),
    ],
    judge: Annotated[
        str | None,
        Option(
            help="A judge's YAML. It is asked if contradictions are false, fluent and consistent."
        ),
    ] = None,
    judge_rows: Annotated[int, Option(min=1, help="Rows that the judge sees.")] = 100,
    types: Annotated[
        bool,
        Option("--types", help="Also ask the judge for error types, as in table 3 of the paper."),
    ] = False,
    store: Annotated[
        Path | None,
        Option(help="Folder of the judge's answers (default: the user's cache)."),
    ] = None,
    json_file: Annotated[
        Path | None,
        Option("--json", help="Write all results to this file."),
    ] = None,
    sample: Annotated[
        int,
        Option(
            min=1,
            help="Score baselines on at most this many rows, drawn by the seed.",
        ),
    ] = 5000,
    seed: Annotated[int, Option(help="Seed of folds, samples and resamples.")] = 0,
    verbose: Annotated[
        bool,
        Option(
            "--verbose", help="Also show every baseline, the flagged rows and the paper's figures."
        ),
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if anything is found.")] = False,
    run_code: RunCode = False,
) -> int:
    """Find out what a FACTOR benchmark gives away.

    \b
    Examples:
      factor-gen audit expert_factor                       a published file
      factor-gen audit my_benchmark/my_factor.csv --json audit.json
      factor-gen audit my_factor.csv --judge my_judge.yaml --judge-rows 50 --types

    The exit code is 0 whatever is found; with --strict it is 1 if a blind baseline wins 52% of
    pairs or more, beyond chance, or if a row is flagged (large edits alone are no reason).
    """
    from factor_gen.audit.audit import audit_rows
    from factor_gen.audit.flags import LARGE_EDIT
    from factor_gen.audit.judged import judge_types, open_judge
    from factor_gen.audit.read import read_benchmark
    from factor_gen.audit.tables import baseline_table, flag_table, paper_table
    from lm_factuality.benchmarks.rows import finite_json

    # Rules cannot tell error types, only a judge can.
    if types and judge is None:
        raise ConfigError("--types asks a judge: name it by --judge, or leave --types out")

    benchmark = read_benchmark(file, run_code)
    audited = audit_rows(benchmark.rows, seed, sample)
    _print_conclusion(audited, file, benchmark.problems)
    if verbose:
        print_table(*baseline_table(audited, file))
        print_table(*flag_table(audited))

    content = {"file": file, "data": dict(benchmark.provenance), "seed": seed, **audited.to_json()}
    # Asking the judge may take long, so that the results without it are printed first.
    judged_types: list[str | None] = []
    if judge is not None:
        with open_judge(judge, store) as opened:
            properties = _print_judged_properties(opened, benchmark.rows, seed, judge_rows)
            _check_judge_scored(opened, properties)
            content["properties"] = [finite_json(asdict(finding)) for finding in properties]
            if types:
                judged_types = judge_types(opened, benchmark.rows, seed, judge_rows)
    # Without a judge, this table still has the file's error types next to the paper's.
    if types or verbose:
        print_table(*paper_table(audited, judged_types))
    if json_file is not None:
        write_json(json_file, content)

    # Large edits are worth a look, but give nothing away.
    is_flagged = any(flag.reason != LARGE_EDIT for flag in audited.flags)
    has_findings = bool(audited.leaks) or is_flagged
    return int(strict and has_findings)


def _print_conclusion(audited: "BenchmarkAudit", file: str, line_problems: Sequence[str]) -> None:
    """Print the main results of an audit, and how many lines of the file could not be read.

    Args:
        audited: The results.
        file: The name of the file, as the user typed it.
        line_problems: The problem of each line of the file that could not be read.
    """
    from factor_gen.audit.tables import summarise_audit

    lines = summarise_audit(audited, file)
    # Lines that cannot be read are in none of the results.
    if line_problems:
        lines.append(
            f"lines that cannot be read and are left out: {len(line_problems):,}; the first:"
            f" {line_problems[0]}"
        )
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _print_judged_properties(
    judge: "Judge", rows: Sequence["Row"], seed: int, count: int
) -> tuple["JudgedProperty", ...]:
    """Ask a judge which contradictions are false, fluent and consistent, and print their shares.

    Args:
        judge: The judge.
        rows: All rows of the benchmark.
        seed: Decides which rows the judge sees.
        count: How many rows the judge sees at most.
    """
    from factor_gen.audit.judged import judge_rows
    from factor_gen.audit.tables import property_table

    properties = judge_rows(judge, rows, seed, count)
    num_usable = sum(not row.problem for row in rows)
    print_table(*property_table(properties, judge.name, min(count, num_usable)))
    return properties


def _check_judge_scored(judge: "Judge", properties: Sequence["JudgedProperty"]) -> None:
    """Check that the server of a judge is not down, i.e. that not all of its requests failed.

    Raises:
        BackendDownError: The judge returned errors and scored nothing.
    """
    reasons = list(chain.from_iterable(finding.unscored for finding in properties))
    is_scored = any(finding.scored for finding in properties)
    # Some replies may be of no use, but if all requests failed, the server is down.
    if reasons and judge.usage.errors and not is_scored:
        raise BackendDownError(
            f"judge {judge.name}: nothing could be scored; the first reason: {reasons[0]}"
        )
