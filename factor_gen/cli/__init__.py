"""The ``factor-gen`` command, which is ``lm-factuality gen`` as well."""

from collections.abc import Sequence

from factor_gen.cli.audit import audit
from factor_gen.cli.build import build
from lm_factuality.ground.command_line import App, Version, run_program

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

    Every command has its own --help.
    """


app.command()(build)
app.command()(audit)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments``, by default the words typed, and return the exit code."""
    return run_program(app, PROGRAM, arguments)
