"""The ``lm-factuality`` command. Each group of commands has a module of its own.

These modules import what takes time when a command runs, so that ``--help`` is fast.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from factor_gen import cli as generator
from lm_factuality.cli import (
    biographies,
    check,
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

if TYPE_CHECKING:
    from lm_factuality.harness.run import Finished

PROGRAM = "lm-factuality"

app = App()
# lm_eval parses the words that follow `run`, even --help.
_ANY_ARGUMENTS = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
_RUN_HELP = """\
lm-factuality run takes the options of lm-eval's own run, which are described below. It knows the
suite's tasks and models. The same command continues an interrupted run, and --fresh begins anew.

Examples:
  lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor --output_path results \
--log_samples
  lm-factuality run --model surface-baseline --model_args rule=spacing --tasks expert_factor
  lm-factuality run --model local-chat-completions --model_args model=NAME,base_url=URL \
--apply_chat_template --tasks felm --dry-run --prices 0.15,0.60

Options besides lm-eval's own:
  --fresh                Ask the model everything again, also what an interrupted run has asked.
  --dry-run              Print rows, requests, tokens, seconds and USD per task. Nothing is sent,
                         and no model is loaded.
  --prices PROMPT,ANSWER With --dry-run: USD for a million tokens of prompts and of answers.
"""


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

    Every command has its own --help. The option --install-completion makes your shell complete
    commands with the Tab key.
    """


# A plain command, since lm_eval sets up logging by itself.
@app.command("run", cls=TyperCommand, context_settings=_ANY_ARGUMENTS)
def run_harness(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    prices: Annotated[str | None, typer.Option()] = None,
) -> None:
    """Run lm_eval with the suite's tasks and models.

    \b
    Examples:
      lm-factuality run --model hf --model_args pretrained=gpt2 --tasks factor
      lm-factuality run --config configs/reproduce/factor.yaml
      lm-factuality run --config configs/reproduce/factor.yaml --dry-run
    """
    from lm_factuality.harness.run import run

    arguments = context.args or ["--help"]
    if "-h" in arguments or "--help" in arguments:
        typer.echo(_RUN_HELP)
    if dry_run:
        from lm_factuality.cli.dry_run import print_run_plan

        print_run_plan(arguments, prices)
        return
    if prices is not None:
        raise typer.BadParameter("--prices is for --dry-run")
    # lm_eval's own run then parses these arguments, or prints its help below ours.
    run(arguments, _show_outcome)


def _show_outcome(finished: "Finished") -> None:
    """Print the scores of a run that has finished, and the commands to type next."""
    # The module takes long to import, and `run --help` does not need it.
    from lm_factuality.cli.outcome import print_outcome

    print_outcome(finished)


for module in (tasks, results, judge, biographies, check):
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
    """Run an ``lm-factuality`` command line.

    Args:
        arguments: The words after ``lm-factuality``. By default, those that the user typed.

    Returns:
        The exit code: 0 for success.
    """
    return run_program(app, PROGRAM, arguments)
