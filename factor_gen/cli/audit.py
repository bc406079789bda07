"""``factor-gen audit``: what a FACTOR benchmark gives away."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown
from lm_factuality.ground.files import write_json, write_lines

if TYPE_CHECKING:
    from factor_gen.audit.read import Benchmark
    from factor_gen.audit.records import Audit
    from lm_factuality.benchmarks.declaration import Table


def audit(parsed: argparse.Namespace) -> int:
    """Audits the file, prints what was found and writes what was asked for."""
    from factor_gen.audit.audit import audit_rows
    from factor_gen.audit.flags import LARGE_EDIT
    from factor_gen.audit.read import read_benchmark
    from factor_gen.audit.tables import (
        baseline_table,
        conclusion,
        flag_table,
        shape_table,
    )

    benchmark = read_benchmark(parsed.file)
    found = audit_rows(benchmark.rows, parsed.seed, parsed.sample)
    if problems := benchmark.table.problems:
        note = (
            f"lines that cannot be read and are left out: {len(problems):,}; the first:"
            f" {problems[0]}"
        )
        found = replace(found, notes=(*found.notes, note))
    sys.stdout.writelines(f"{line}\n" for line in conclusion(found, parsed.file))
    for table in (baseline_table(found, parsed.file), flag_table(found)) if parsed.verbose else ():
        print_table(*table)
    judged: list[tuple[str, str, str | None]] = []
    if parsed.judge is not None:
        found, judged = _judged(parsed, benchmark, found)
    if parsed.types:
        print_table(*_types(benchmark, found, judged))
    elif parsed.verbose:
        print_table(*shape_table(found))
    content: dict[str, Any] = {
        "file": parsed.file,
        "data": dict(benchmark.provenance),
        "seed": parsed.seed,
        **found.to_json(),
    }
    if parsed.rows is not None:
        write_lines(parsed.rows, _flagged_rows(benchmark, found))
    if parsed.json is not None:
        write_json(parsed.json, content)
    return int(
        parsed.strict
        and (bool(found.leaks) or any(flag.reason != LARGE_EDIT for flag in found.flags))
    )


def _types(
    benchmark: Benchmark, found: Audit, judged: Sequence[tuple[str, str, str | None]]
) -> Table:
    from factor_gen.audit.tables import shape_table
    from factor_gen.settings import TypesSettings
    from factor_gen.text import load_tagger
    from factor_gen.types import type_of

    rule = partial(type_of, tagger=load_tagger(TypesSettings()))
    rows = tqdm(
        [row for row in benchmark.rows if not row.problem], desc="types", delay=2, leave=False
    )
    pairs = [
        (row.choices[row.gold], each)
        for row in rows
        for place, each in enumerate(row.choices)
        if place != row.gold
    ]
    return shape_table(
        found,
        Counter(rule(*pair) for pair in pairs),
        [(rule(true, false), kind) for true, false, kind in judged],
    )


def _judged(
    parsed: argparse.Namespace, benchmark: Benchmark, found: Audit
) -> tuple[Audit, list[tuple[str, str, str | None]]]:
    from factor_gen.audit.judged import judge_rows, judge_types, open_judge
    from factor_gen.audit.tables import property_table

    with open_judge(parsed.judge, parsed.store) as judge:
        properties = judge_rows(judge, benchmark.rows, parsed.seed, parsed.judge_rows)
        types = (
            judge_types(judge, benchmark.rows, parsed.seed, parsed.judge_rows)
            if parsed.types
            else []
        )
        errors, name = judge.usage.errors, judge.name
    found = replace(found, properties=properties)
    print_table(*property_table(found, name, min(parsed.judge_rows, found.rows - found.unscorable)))
    if errors and not any(each.scored for each in properties):
        first = next((reason for each in properties for reason in each.unscored), "no answer")
        raise BackendDown(f"judge {name}: nothing could be scored, the first: {first}")
    return found, types


def _flagged_rows(benchmark: Benchmark, found: Audit) -> Iterator[str]:
    """A line for each flagged row: where it stands, why, its choices, and what the table says of
    them."""
    reasons: dict[int, list[dict[str, str]]] = {}
    for flag in found.flags:
        reasons.setdefault(flag.index, []).append(
            {"reason": flag.reason, **({"detail": flag.detail} if flag.detail else {})}
        )
    for index, why in reasons.items():
        row = benchmark.rows[index]
        line = {
            "location": row.location,
            "doc_id": row.doc_id,
            "flags": why,
            "choices": row.choices,
            "gold": row.gold,
        }
        yield json.dumps(line | benchmark.beside(index), ensure_ascii=False, default=str)
