"""``lm-factuality run``: lm_eval's own run, whose options lm_eval parses."""

import sys
from collections.abc import Sequence

from lm_factuality.cli.actions import Command, examples


def run(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``run``, to lm_eval, and prints what came of it."""
    from lm_factuality.harness.run import Finished, run

    def show(finished: Finished) -> None:
        from lm_factuality.cli.outcome import print_outcome

        print_outcome(finished)

    if not arguments or {"-h", "--help"} & set(arguments):
        sys.stdout.write(f"{examples('run --help')}\n\n")
    run(arguments or ["--help"], show)
    return 0


# For the list of commands alone: ``main`` calls ``run`` before this parser sees its options.
COMMAND = Command(
    "run", "lm_eval's own run, with the suite's tasks and models registered (see 'run --help')", lambda parsed: run([])
)
