"""``lm-factuality gen``: factor-gen, under the name of everything else."""

import sys
from collections.abc import Sequence

from lm_factuality.cli.actions import Command, examples


def gen(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``gen``, to factor-gen."""
    from factor_gen.cli import main

    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(f"{examples('gen')}\n\n")
    sys.argv = ["factor-gen", *arguments]  # what it tells an interrupted user to type again
    return main(arguments or ["--help"])


# For the list of commands alone: ``main`` calls ``gen`` before this parser sees its options.
COMMAND = Command(
    "gen", "make FACTOR benchmarks from your own texts, and see what they give away (factor-gen)", lambda parsed: gen([])
)
