"""``lm-factuality gen``: factor-gen, under the name of everything else."""

from collections.abc import Sequence

from lm_factuality.cli.actions import Command


def gen(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``gen``, to factor-gen."""
    from factor_gen.cli import main

    return main(arguments)


# For the list of commands alone: ``main`` calls ``gen`` before this parser sees its options.
COMMAND = Command(
    "gen", "make FACTOR benchmarks of your own texts, and see what they give away (factor-gen)", lambda parsed: gen(["--help"])
)
