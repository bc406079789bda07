"""``factor-gen audit``: what a FACTOR benchmark gives away."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tqdm import tqdm

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown
from lm_factuality.ground.files import write_json, write_lines

if TYPE_CHECKING:
    from factor_gen.audit.read import Benchmark
    from factor_gen.audit.records import Audit
    from lm_factuality.benchmarks.declaration import Table

JudgedTypes = Sequence[tuple[str, str, str | None]]
"""Completion, contradiction, and its type by a judge; None where its reply could not be used."""


def audit(parsed: argparse.Namespace) -> int:
    """Audit the file, print what was found and write what was asked for."""
    from factor_gen.audit.audit import audit_rows
    from factor_gen.audit.flags import LARGE_EDIT
    from factor_gen.audit.read import read_benchmark
    from factor_gen.audit.tables import baseline_table, conclusion, flag_table, shape_table

    benchmark = read_benchmark(parsed.file)
    result = audit_rows(benchmark.rows, parsed.seed, parsed.sample)
    problems = benchmark.table.problems
    if problems:
        note = (
            f"lines that cannot be read and are left out: {len(problems):,}; the first:"
            f" {problems[0]}"
        )
        result = replace(result, notes=(*result.notes, note))
    for line in conclusion(result, parsed.file):
        sys.stdout.write(f"{line}\n")
    if parsed.verbose:
        print_table(*baseline_table(result, parsed.file))
        print_table(*flag_table(result))
    judged_types: JudgedTypes = []
    if parsed.judge is not None:
        result, judged_types = _judge(parsed, benchmark, result)
    if parsed.types:
        print_table(*_type_table(benchmark, result, judged_types))
    elif parsed.verbose:
        print_table(*shape_table(result))
    if parsed.rows is not None:
        write_lines(parsed.rows, _flagged_rows(benchmark, result))
    if parsed.json is not None:
        content = {"file": parsed.file, "data": dict(benchmark.provenance), "seed": parsed.seed}
        write_json(parsed.json, {**content, **result.to_json()})
    is_flagged = any(flag.reason != LARGE_EDIT for flag in result.flags)
    return int(parsed.strict and (bool(result.leaks) or is_flagged))


def _judge(
    parsed: argparse.Namespace, benchmark: Benchmark, result: Audit
) -> tuple[Audit, JudgedTypes]:
    """Ask a judge about contradictions, and print what it says of table 2's properties.

    Raises:
        BackendDown: Nothing could be scored.
    """
    from factor_gen.audit.judged import judge_rows, judge_types, open_judge
    from factor_gen.audit.tables import property_table

    types: JudgedTypes = []
    with open_judge(parsed.judge, parsed.store) as judge:
        properties = judge_rows(judge, benchmark.rows, parsed.seed, parsed.judge_rows)
        if parsed.types:
            types = judge_types(judge, benchmark.rows, parsed.seed, parsed.judge_rows)
        errors = judge.usage.errors
        name = judge.name
    result = replace(result, properties=properties)
    rows = min(parsed.judge_rows, result.rows - result.unscorable)
    print_table(*property_table(result, name, rows))
    if errors and not any(finding.scored for finding in properties):
        reasons = [reason for finding in properties for reason in finding.unscored]
        first = reasons[0] if reasons else "no answer"
        raise BackendDown(f"judge {name}: nothing could be scored, the first: {first}")
    return result, types


def _type_table(benchmark: Benchmark, result: Audit, judged_types: JudgedTypes) -> Table:
    """Find the type of each contradiction by rule, and return the table of types."""
    from factor_gen.audit.tables import shape_table
    from factor_gen.settings import TypesSettings
    from factor_gen.text import load_tagger
    from factor_gen.types import type_of

    tagger = load_tagger(TypesSettings())
    by_rule: Counter[str] = Counter()
    rows = [row for row in benchmark.rows if not row.problem]
    for row in tqdm(rows, desc="types", delay=2, leave=False):
        for index, choice in enumerate(row.choices):
            if index != row.gold:
                by_rule[type_of(row.choices[row.gold], choice, tagger=tagger)] += 1
    judged = [
        (type_of(completion, contradiction, tagger=tagger), kind)
        for completion, contradiction, kind in judged_types
    ]
    return shape_table(result, by_rule, judged)


def _flagged_rows(benchmark: Benchmark, result: Audit) -> Iterator[str]:
    """Yield a line of JSON for each flagged row: where it stands, why, and its choices."""
    reasons: dict[int, list[dict[str, str]]] = {}
    for flag in result.flags:
        detail = {"detail": flag.detail} if flag.detail else {}
        reasons.setdefault(flag.index, []).append({"reason": flag.reason, **detail})
    for index, flags in reasons.items():
        row = benchmark.rows[index]
        line = {
            "location": row.location,
            "doc_id": row.doc_id,
            "flags": flags,
            "choices": row.choices,
            "gold": row.gold,
            **benchmark.details_of(index),
        }
        yield json.dumps(line, ensure_ascii=False, default=str)
