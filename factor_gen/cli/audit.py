"""The command ``factor-gen audit``, which finds out what a FACTOR benchmark gives away.

`factor_gen.cli` registers it.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.files import write_json

if TYPE_CHECKING:
    from factor_gen.audit.records import BenchmarkAudit
    from lm_factuality.benchmarks.factor.rows import Row


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
    from factor_gen.audit.read import read_benchmark
    from factor_gen.audit.tables import baseline_table, flag_table, shape_table

    if types and judge is None:
        raise ConfigError("--types asks a judge: name it by --judge, or leave --types out")

    benchmark = read_benchmark(file)
    audited = audit_rows(benchmark.rows, seed, sample)
    _print_conclusion(audited, file, benchmark.problems)
    if verbose:
        print_table(*baseline_table(audited, file))
        print_table(*flag_table(audited))

    content = {"file": file, "data": dict(benchmark.provenance), "seed": seed, **audited.to_json()}
    judged_types: list[str | None] = []
    if judge is not None:
        judged_rows = _JudgedRows(benchmark.rows, seed, judge_rows)
        judged = _ask_judge(judge, store, judged_rows, types)
        judged_types = judged.types
        content["properties"] = judged.properties
    if types or verbose:
        print_table(*shape_table(audited, judged_types))
    if json_file is not None:
        write_json(json_file, content)

    # Large edits are worth a look, but give nothing away.
    is_flagged = any(flag.reason != LARGE_EDIT for flag in audited.flags)
    return int(strict and (bool(audited.leaks) or is_flagged))


def _print_conclusion(audited: "BenchmarkAudit", file: str, problems: Sequence[str]) -> None:
    """Print the main results of an audit, and how many lines of the file could not be read.

    Args:
        audited: The results.
        file: The name of the file, as the user typed it.
        problems: The problem of each line that could not be read.
    """
    from factor_gen.audit.tables import conclusion

    lines = conclusion(audited, file)
    if problems:
        lines.append(
            f"lines that cannot be read and are left out: {len(problems):,}; the first:"
            f" {problems[0]}"
        )
    sys.stdout.writelines(f"{line}\n" for line in lines)


class _JudgedRows(NamedTuple):
    """The rows of a benchmark that a judge sees."""

    rows: "Sequence[Row]"
    """All rows of the benchmark."""

    seed: int
    """The seed by which rows are drawn."""

    count: int
    """How many rows are drawn at most."""


class _JudgeResults(NamedTuple):
    """The judge's verdicts on the contradictions of a benchmark."""

    properties: list[Any]
    """The share of contradictions that are false, fluent and consistent, as JSON objects."""

    types: list[str | None]
    """The error type of each contradiction. None if the reply could not be used."""


def _ask_judge(
    judge: str, store: Path | None, judged_rows: _JudgedRows, with_types: bool
) -> _JudgeResults:
    """Ask a judge for the properties of contradictions (table 2), and print the results.

    Args:
        judge: The judge's YAML, or its name.
        store: The folder that keeps the answers. None: the user's cache.
        judged_rows: The rows that the judge sees.
        with_types: Whether to ask for error types too.

    Raises:
        BackendDownError: The judge could not be reached.
    """
    from factor_gen.audit.judged import judge_rows, judge_types, open_judge
    from factor_gen.audit.tables import property_table
    from lm_factuality.benchmarks.rows import finite_json

    types: list[str | None] = []
    with open_judge(judge, store) as opened:
        properties = judge_rows(opened, *judged_rows)
        if with_types:
            types = judge_types(opened, *judged_rows)

    num_usable = sum(not row.problem for row in judged_rows.rows)
    print_table(*property_table(properties, opened.name, min(judged_rows.count, num_usable)))

    reasons = [reason for finding in properties for reason in finding.unscored]
    is_scored = any(finding.scored for finding in properties)
    if reasons and opened.usage.errors and not is_scored:
        raise BackendDownError(
            f"judge {opened.name}: nothing could be scored, the first: {reasons[0]}"
        )
    return _JudgeResults([finite_json(asdict(finding)) for finding in properties], types)
