"""Finds out whether the tests notice small mistakes in the core of the suite.

    python -m bench.mutants                   # some 440 mutants: half an hour of one core
    python -m bench.mutants --only linking    # one area
    python -m bench.mutants --seed 1          # other mutants

Each mistake (a mutant) is made in memory, and tests of its module must then fail. ``core.yaml``
names modules and tests, and the mutants that behave like the code itself. A second run tries
only those that have not been killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.mutants.mutations import Mutant, mutants_of
from bench.mutants.trial import measure, try_mutant
from lm_factuality.ground.console import print_table

ROOT = Path(__file__).resolve().parents[2]
CORE = Path(__file__).with_name("core.yaml")
GOAL = 0.95
"""The share of mutants that tests must kill."""


@dataclass
class Part:
    """Some modules of an area, and their mutants."""

    area: str
    """What the modules do, such as ``linking``."""

    mutants: Sequence[Mutant]
    """The mutants that were drawn."""

    tests: Sequence[str]
    """The test files that try them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants, print what became of them, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="AREA", help="Try only these areas.")
    parser.add_argument("--seed", default="0", help="Draw other mutants.")
    parser.add_argument("--record", type=Path, default=ROOT / "results" / "mutants.jsonl")
    options = parser.parse_args(arguments)

    core = yaml.safe_load(CORE.read_text(encoding="utf-8"))
    parts = list(draw(core["parts"], options.seed))
    if options.only:
        parts = [part for part in parts if part.area in options.only]
    outcomes = try_parts(parts, options.record)
    equivalent = {entry["mutant"]: entry["reason"] for entry in core["equivalent"]}
    return report(parts, outcomes, equivalent)


def draw(parts: Sequence[dict[str, Any]], seed: str) -> Iterator[Part]:
    """Draw mutants from the modules of each part, the same ones each time."""
    for part in parts:
        candidates: list[Mutant] = []
        for module in part["modules"]:
            package = "" if module.startswith("judges/") else "lm_factuality/"
            candidates += mutants_of(ROOT, f"{package}{module}.py")
        candidates.sort(key=lambda mutant: _digest(seed + mutant.name))
        tests = [f"tests/{test}.py" for test in part["tests"]]
        yield Part(part["area"], candidates[: part["mutants"]], tests)


def try_parts(parts: Sequence[Part], record: Path) -> dict[str, str]:
    """Try all mutants that a former run has not killed.

    Args:
        parts: The parts of the core.
        record: The file to which the outcome of each mutant is appended.

    Returns:
        ``killed`` or ``survived``, by the name of the mutant.
    """
    os.chdir(ROOT)
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    record.parent.mkdir(parents=True, exist_ok=True)
    outcomes = {}
    if record.is_file():
        lines = record.read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        outcomes = {entry["mutant"]: entry["outcome"] for entry in entries}

    total = sum(len(part.mutants) for part in parts)
    done = 0
    with tempfile.TemporaryDirectory() as folder, record.open("a", encoding="utf-8") as file:
        # The tests' own temporary folders go with this one.
        os.environ["TMPDIR"] = folder
        for part in parts:
            to_try = [mutant for mutant in part.mutants if outcomes.get(mutant.name) != "killed"]
            done += len(part.mutants) - len(to_try)
            tests = measure(part.tests, Path(folder)) if to_try else None
            for mutant in to_try:
                start = time.monotonic()
                outcome, killed_by = try_mutant(mutant, tests, Path(folder))
                seconds = round(time.monotonic() - start, 1)
                done += 1
                outcomes[mutant.name] = outcome
                entry = {"mutant": mutant.name, "outcome": outcome, "test": killed_by}
                file.write(json.dumps(entry) + "\n")
                file.flush()
                sys.stderr.write(
                    f"{done}/{total} {outcome} {seconds} s {mutant.name} {killed_by}\n"
                )
    return outcomes


def report(parts: Sequence[Part], outcomes: dict[str, str], equivalent: dict[str, str]) -> int:
    """Print the outcomes by area and the survivors, and return the exit code."""
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for part in parts:
        counts_of_area = counts.setdefault(part.area, Counter())
        for mutant in part.mutants:
            outcome = outcomes[mutant.name]
            reason = equivalent.get(mutant.name, "")
            kind = "equivalent" if outcome == "survived" and reason else outcome
            counts_of_area[kind] += 1
            if outcome == "survived":
                survivors.append((f"{mutant.file}:{mutant.line}", mutant.name, reason))
            elif reason:
                sys.stderr.write(f"not equivalent, since a test kills it: {mutant.name}\n")

    counts["all"] = sum(counts.values(), Counter())
    rows = []
    for area, counted in counts.items():
        killed = counted["killed"]
        survived = counted["survived"]
        share = killed / max(1, killed + survived)
        made = str(counted.total())
        rows.append(
            (area, made, str(killed), str(survived), str(counted["equivalent"]), f"{share:.1%}")
        )
    columns = ("area", "#made", "#killed", "#survived", "#equivalent", "#killed of others")
    print_table("Mutants", columns, rows)
    print_table("Survivors", ("line", "mutant", "equivalent, because"), survivors)
    killed, survived = counts["all"]["killed"], counts["all"]["survived"]
    return int(killed < GOAL * (killed + survived))


def _digest(text: str) -> str:
    """Return a hash, which puts texts into a random order."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
