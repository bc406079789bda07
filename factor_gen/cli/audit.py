"""``factor-gen audit``: what a FACTOR benchmark gives away."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.files import write_json


def audit(
    file: Annotated[
        str,
        Argument(
            help="A CSV, JSONL or Parquet file in the authors' columns, the YAML of a task, or the"
            " name of one (wiki_factor, news_factor, expert_factor)."
        ),
    ],
    judge: Annotated[
        str | None,
        Option(help="A judge's YAML: are contradictions false, fluent, consistent?"),
    ] = None,
    judge_rows: Annotated[int, Option(min=1, help="Rows that the judge sees.")] = 100,
    types: Annotated[
        bool,
        Option("--types", help="Ask the judge for error types too, beside table 3 of the paper."),
    ] = False,
    store: Annotated[
        Path | None,
        Option(help="Where answers are kept (default: the user's cache)."),
    ] = None,
    json_file: Annotated[
        Path | None,
        Option("--json", help="Write everything that was found."),
    ] = None,
    sample: Annotated[
        int,
        Option(
            min=1,
            help="Score baselines on at most so many rows, drawn by the seed.",
        ),
    ] = 5000,
    seed: Annotated[int, Option(help="Of folds, samples and resamples.")] = 0,
    verbose: Annotated[
        bool,
        Option(
            "--verbose", help="Show every baseline, flagged rows, and the paper's figures beside."
        ),
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if anything is found.")] = False,
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
    from factor_gen.audit.judged import judge_rows as judge_properties
    from factor_gen.audit.judged import judge_types, open_judge
    from factor_gen.audit.read import read_benchmark
    from factor_gen.audit.tables import (
        baseline_table,
        conclusion,
        flag_table,
        property_table,
        shape_table,
    )
    from lm_factuality.benchmarks.rows import finite_json

    if types and judge is None:
        raise ConfigError("--types asks a judge: name it by --judge, or leave --types out")
    benchmark = read_benchmark(file)
    audited = audit_rows(benchmark.rows, seed, sample)
    lines = conclusion(audited, file)
    problems = benchmark.problems
    if problems:
        lines.append(
            f"lines that cannot be read and are left out: {len(problems):,}; the first:"
            f" {problems[0]}"
        )
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if verbose:
        print_table(*baseline_table(audited, file))
        print_table(*flag_table(audited))
    content = {"file": file, "data": dict(benchmark.provenance), "seed": seed, **audited.to_json()}
    judged_types: list[str | None] = []
    if judge is not None:
        with open_judge(judge, store) as opened:
            properties = judge_properties(opened, benchmark.rows, seed, judge_rows)
            if types:
                judged_types = judge_types(opened, benchmark.rows, seed, judge_rows)
        usable = sum(not row.problem for row in benchmark.rows)
        print_table(*property_table(properties, opened.name, min(judge_rows, usable)))
        reasons = [reason for finding in properties for reason in finding.unscored]
        if reasons and opened.usage.errors and not any(finding.scored for finding in properties):
            raise BackendDownError(
                f"judge {opened.name}: nothing could be scored, the first: {reasons[0]}"
            )
        content["properties"] = [finite_json(asdict(finding)) for finding in properties]
    if types or verbose:
        print_table(*shape_table(audited, judged_types))
    if json_file is not None:
        write_json(json_file, content)
    is_flagged = any(flag.reason != LARGE_EDIT for flag in audited.flags)
    return int(strict and (bool(audited.leaks) or is_flagged))
