"""Finds out whether a test notices each of the small mistakes in ``bench/mutants.json``.

    python -m bench.mutants                # all of them: some ten minutes on two cores
    python -m bench.mutants --only S01 P04

Each mistake (a mutant) is made in a copy of the checkout. The test that is named beside it must
then fail.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.ground.console import print_table

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = Path(__file__).with_name("mutants.json")
NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__")
TESTS_FAILED = 1
"""The exit code of pytest if tests ran and some failed."""


@dataclass(frozen=True)
class Mutant:
    """A small mistake in the code, and the test that notices it."""

    id: str
    meaning: str
    file: str
    function: str
    before: str
    """Code that stands once in the file."""

    after: str
    """The mistake that replaces it."""

    killed_by: str | None
    """The test that fails with the mistake, or None if no test does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants, print what became of each, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="ID", help="Try only these mutants.")
    options = parser.parse_args(arguments)

    mutants = read_mutants(MUTANTS)
    if options.only:
        mutants = [mutant for mutant in mutants if mutant.id in options.only]

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / ROOT.name
        shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
        for mutant in mutants:
            outcome = try_mutant(mutant, copy)
            rows.append((mutant.id, mutant.function, outcome, mutant.killed_by or ""))
            sys.stderr.write(f"{mutant.id}: {outcome}\n")

    print_table("Mutants", ("id", "function", "outcome", "test"), rows)
    return int(any(outcome not in ("killed", "no test") for _, _, outcome, _ in rows))


def read_mutants(path: Path) -> list[Mutant]:
    """Read the mutants of a JSON file, a list of objects with the fields of `Mutant`."""
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [Mutant(**entry) for entry in entries]


def try_mutant(mutant: Mutant, checkout: Path) -> str:
    """Make the mistake, run the test that should notice it, and undo the mistake.

    Args:
        mutant: The mistake.
        checkout: A copy of the repository that may be changed.

    Returns:
        ``killed`` if the test failed, ``survived`` if it passed, ``no test`` if none is known, or
        why the mutant could not be tried.
    """
    path = checkout / mutant.file
    if not path.is_file():
        return "no such file"
    code = path.read_text(encoding="utf-8")
    if code.count(mutant.before) != 1:
        return f"its code stands {code.count(mutant.before)} times in the file, expected once"
    if mutant.killed_by is None:
        return "no test"

    with replaced(path, code.replace(mutant.before, mutant.after)):
        exit_code = run_test(mutant.killed_by, checkout)
    if exit_code == TESTS_FAILED:
        return "killed"
    return "survived" if exit_code == 0 else f"pytest ended with {exit_code}"


@contextmanager
def replaced(path: Path, content: str) -> Iterator[None]:
    """Give a file another content for as long as the context lasts."""
    original = path.read_text(encoding="utf-8")
    path.write_text(content, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(original, encoding="utf-8")


def run_test(test: str, checkout: Path) -> int:
    """Run one test with the code of a checkout, and return pytest's exit code."""
    # Files are rewritten within a second, so compiled modules could be taken for current ones.
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, timeout=600, check=False
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
