"""The ``lm-factuality`` command. Each group of commands has a module of its own.

These modules import what takes time when a command runs, so that ``--help`` is fast.
"""

import sys
from collections.abc import Sequence

import typer
from typer.core import TyperCommand

from factor_gen import cli as generator
from lm_factuality.cli import (
    biographies,
    data,
    index,
    judge,
    leaderboard,
    people,
    results,
    score,
    tasks,
)
from lm_factuality.ground.command_line import App, Version, run_program

PROGRAM = "lm-factuality"

app = App()
_ANY_ARGUMENTS = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


@app.callback()
def root(version: Version = False) -> None:
    """Measure how factual language models are, with lm-evaluation-harness.

    \b
    Examples:
      lm-factuality quickstart
      lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor --output_path results
      lm-factuality validate my_corpus.yaml
      lm-factuality data fetch
      lm-factuality compare results --with configs/reproduce/factor_figures.yaml

    Every command has its own --help. --install-completion makes the shell complete commands.
    """


# A plain command: lm_eval sets up logging by itself.
@app.command(cls=TyperCommand, context_settings=_ANY_ARGUMENTS)
def run(context: typer.Context) -> None:
    """Run lm_eval with the suite's tasks and models.

    \b
    Examples:
      lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor
      lm-factuality run --config configs/reproduce/factor.yaml
    """
    from lm_factuality.harness.run import Finished, run

    def show(finished: Finished) -> None:
        from lm_factuality.cli.outcome import print_outcome  # This import takes long.

        print_outcome(finished)

    if not context.args or {"-h", "--help"} & set(context.args):
        sys.stdout.write(
            "lm-factuality run is lm-eval's own run, as described below, with the suite's tasks and"
            " models registered:\n"
            "  lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor"
            " --output_path results --log_samples\n"
            "  lm-factuality run --model surface-baseline --model_args rule=spacing"
            " --tasks expert_factor\n\n"
        )
    run(context.args or ["--help"], show)


for module in (tasks, results, judge, biographies):
    app.add_typer(module.app)
for name, group in (
    ("data", data.app),
    ("gen", generator.app),
    ("leaderboard", leaderboard.app),
    ("score", score.app),
    ("claims", score.claims),
    ("people", people.app),
    ("index", index.app),
    ("knowledge", index.knowledge),
):
    app.add_typer(group, name=name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments``, by default the words typed, and return the exit code."""
    return run_program(app, PROGRAM, arguments)
