"""``factor-gen audit``: what a FACTOR benchmark gives away."""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown
from lm_factuality.ground.files import write_json, write_lines

if TYPE_CHECKING:
    from factor_gen.audit.read import Benchmark
    from factor_gen.audit.records import Audit
    from lm_factuality.benchmarks.declaration import Table

TypedPair = tuple[str, str, str | None]
"""A completion, a contradiction, and the type of its error as a judge sees it."""


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
        Option("--types", help="Error types by rule, and by --judge, beside table 3 of the paper."),
    ] = False,
    store: Annotated[
        Path | None,
        Option(help="Where answers are kept (default: the user's cache)."),
    ] = None,
    json_file: Annotated[
        Path | None,
        Option("--json", help="Write everything that was found."),
    ] = None,
    rows: Annotated[
        Path | None,
        Option(help="Write flagged rows, one per line (JSONL)."),
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
      factor-gen audit my_benchmark/my_factor.csv --json audit.json --rows flagged.jsonl
      factor-gen audit expert_factor --types               of which types are its errors?
      factor-gen audit my_factor.csv --judge my_judge.yaml --judge-rows 50

    The exit code is 0 whatever is found; with --strict it is 1 if a blind baseline wins 52% of
    pairs or more, beyond chance, or if a row is flagged (large edits alone are no reason).
    """
    from factor_gen.audit.audit import audit_rows
    from factor_gen.audit.flags import LARGE_EDIT
    from factor_gen.audit.read import read_benchmark
    from factor_gen.audit.tables import baseline_table, conclusion, flag_table, shape_table

    benchmark = read_benchmark(file)
    audited = audit_rows(benchmark.rows, seed, sample)
    problems = benchmark.table.problems
    if problems:
        note = (
            f"lines that cannot be read and are left out: {len(problems):,}; the first:"
            f" {problems[0]}"
        )
        audited = replace(audited, notes=(*audited.notes, note))
    sys.stdout.writelines(f"{line}\n" for line in conclusion(audited, file))
    if verbose:
        print_table(*baseline_table(audited, file))
        print_table(*flag_table(audited))
    judged_types: list[TypedPair] = []
    if judge is not None:
        audited, judged_types = _ask_judge(
            judge, store, benchmark, audited, seed, judge_rows, types
        )
    if types:
        print_table(*_table_of_types(benchmark, audited, judged_types))
    elif verbose:
        print_table(*shape_table(audited))
    if rows is not None:
        write_lines(rows, _flagged_rows(benchmark, audited))
    if json_file is not None:
        content = {"file": file, "data": dict(benchmark.provenance), "seed": seed}
        write_json(json_file, {**content, **audited.to_json()})
    is_flagged = any(flag.reason != LARGE_EDIT for flag in audited.flags)
    return int(strict and (bool(audited.leaks) or is_flagged))


def _table_of_types(
    benchmark: "Benchmark", audited: "Audit", judged: Sequence[TypedPair]
) -> "Table":
    """Count the types of errors by rule, beside those that the judge sees."""
    from tqdm import tqdm

    from factor_gen.audit.tables import shape_table
    from factor_gen.settings import TypesSettings
    from factor_gen.text import load_tagger
    from factor_gen.types import type_of

    tagger = load_tagger(TypesSettings())
    rows = [row for row in benchmark.rows if not row.problem]
    by_rule: Counter[Any] = Counter()
    for row in tqdm(rows, desc="types", delay=2, leave=False):
        for place, choice in enumerate(row.choices):
            if place != row.gold:
                by_rule[type_of(row.choices[row.gold], choice, tagger=tagger)] += 1
    both = [(type_of(true, false, tagger=tagger), kind) for true, false, kind in judged]
    return shape_table(audited, by_rule, both)


def _ask_judge(
    config: str,
    store: Path | None,
    benchmark: "Benchmark",
    audited: "Audit",
    seed: int,
    most_rows: int,
    types: bool,
) -> tuple["Audit", list[TypedPair]]:
    """Have a judge look at contradictions, and print what it says of them."""
    from factor_gen.audit.judged import judge_rows, judge_types, open_judge
    from factor_gen.audit.tables import property_table

    with open_judge(config, store) as judge:
        properties = judge_rows(judge, benchmark.rows, seed, most_rows)
        typed = judge_types(judge, benchmark.rows, seed, most_rows) if types else []
        errors, name = judge.usage.errors, judge.name
    audited = replace(audited, properties=properties)
    rows = min(most_rows, audited.rows - audited.unscorable)
    print_table(*property_table(audited, name, rows))
    if errors and not any(each.scored for each in properties):
        reasons = [reason for each in properties for reason in each.unscored]
        raise BackendDown(
            f"judge {name}: nothing could be scored, the first: {(reasons or ['no answer'])[0]}"
        )
    return audited, typed


def _flagged_rows(benchmark: "Benchmark", audited: "Audit") -> Iterator[str]:
    """Yield each flagged row: its place, its flags, its choices, and what the table says of it."""
    flags: dict[int, list[dict[str, str]]] = defaultdict(list)
    for flag in audited.flags:
        detail = {"detail": flag.detail} if flag.detail else {}
        flags[flag.index].append({"reason": flag.reason, **detail})
    for index, flags_of_row in flags.items():
        row = benchmark.rows[index]
        line = {
            "location": row.location,
            "doc_id": row.doc_id,
            "flags": flags_of_row,
            "choices": row.choices,
            "gold": row.gold,
        }
        yield json.dumps(line | benchmark.details_of(index), ensure_ascii=False, default=str)
