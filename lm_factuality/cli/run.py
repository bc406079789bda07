"""``lm-factuality run``: lm_eval's own run, whose options lm_eval parses."""

import sys
from collections.abc import Sequence

from lm_factuality.cli.actions import Command, examples
from lm_factuality.cli.printing import print_corrected


def run(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``run``, to lm_eval."""
    from lm_factuality.harness.run import run
    from lm_factuality.results.read import read_results_files

    if not arguments or {"-h", "--help"} & set(arguments):
        sys.stdout.write(f"{examples('run --help')}\n\n")
    saved = run(arguments or ["--help"])
    if saved:
        print_corrected(read_results_files(sorted(saved)))
    return 0


# For the list of commands alone: ``main`` calls ``run`` before this parser sees its options.
COMMAND = Command(
    "run", "lm_eval's own run, with the suite's tasks and models registered (see 'run --help')", lambda parsed: run([])
)
