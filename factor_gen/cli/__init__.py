"""The command line of ``factor-gen``, which is also that of ``lm-factuality gen``.

It holds the program itself; each command has a module of its own.
"""

from collections.abc import Sequence

from factor_gen.cli.audit import audit
from factor_gen.cli.build import build
from factor_gen.cli.read import read
from lm_factuality.ground.command_line import App, Version, run_program

__all__ = ["PROGRAM", "app", "main"]

PROGRAM = "factor-gen"

app = App()


@app.callback()
def root(version: Version = False) -> None:
    """Make FACTOR benchmarks from any corpus.

    \b
    Examples:
      factor-gen build configs/corpora/sample.yaml --out my_benchmark
      factor-gen audit my_benchmark/sample_factor.csv
      factor-gen audit expert_factor
      factor-gen read my_benchmark --beside news_factor

    Every command has its own --help.
    """


app.command()(build)
app.command()(audit)
app.command()(read)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Args:
        arguments: The words after the program's name. None: those that the user typed.
    """
    return run_program(app, PROGRAM, arguments)
