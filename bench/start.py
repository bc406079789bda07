"""Measures the CPU seconds of short commands: ``python -m bench.start``.

The commands read the results of a run of the sample's leaderboard, which is made first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from lm_factuality.ground.console import print_table

ROOT = Path(__file__).resolve().parents[1]
_PROGRAM = "import sys; from lm_factuality.cli import main; sys.exit(main())"
# Of the checkpoints, this one says something in each biography, as the board requires.
_MODEL = "reader"

# What the measured commands read, in the order in which it is made.
_SETUP = (
    f"run --config {ROOT}/configs/leaderboard/sample.yaml --include_path {ROOT}/tasks"
    f" --model_args pretrained={ROOT}/tasks/sample/models/{_MODEL},dtype=float32"
    " --output_path results",
    "certify --judge lexical --sample --out certificate.json",
    f"leaderboard pack results --model example/{_MODEL} --out submissions"
    " --certificate certificate.json",
)

_COMMANDS = (
    "--help",
    "ls",
    "data ls",
    "check --out checked",
    "compare results",
    "report results --out page",
    "verify --pairs claims.jsonl --judge lexical --out verdicts.jsonl",
    "leaderboard check submissions",
)

_CLAIM = '{"claim": "The bridge is of iron.", "passages": ["The bridge was built of iron."]}\n'


def main(argv: list[str] | None = None) -> int:
    """Measure each command, and print the table."""
    parser = argparse.ArgumentParser(prog="bench.start", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each command (default: 5)")
    arguments = parser.parse_args(argv)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "claims.jsonl").write_text(_CLAIM, encoding="utf-8")
        for command in _SETUP:
            _cpu_seconds(command, folder)
        rows = [_measure(command, folder, arguments.runs) for command in _COMMANDS]
    print_table(
        f"CPU seconds of commands, {arguments.runs} runs each",
        ("command", "median", "least"),
        rows,
        ["The first run of each command, which compiles modules, does not count."],
    )
    return 0


def _measure(command: str, folder: Path, runs: int) -> tuple[str, str, str]:
    """Return a row of the table: the command, the median and the least CPU seconds."""
    _cpu_seconds(command, folder)
    seconds = [_cpu_seconds(command, folder) for _ in range(runs)]
    return command, f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f}"


def _cpu_seconds(command: str, folder: Path) -> float:
    """Run a command of ``lm-factuality``, and return the CPU seconds that it takes.

    Args:
        command: The words after ``lm-factuality``.
        folder: The working directory, which also has the caches.

    Raises:
        CalledProcessError: The command fails. What it wrote is printed.
    """
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "LM_FACTUALITY_HOME": str(folder / "home"),
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    # An installation keeps compiled modules, so they are kept here in any case.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = os.times()
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *command.split()],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    if process.returncode != 0:
        sys.stderr.write(process.stdout + process.stderr)
        process.check_returncode()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


if __name__ == "__main__":
    sys.exit(main())
