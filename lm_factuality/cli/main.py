"""Entry point: parses the command line and turns errors a user can mend into one sentence and exit code 1."""

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module

from lm_factuality import __version__
from lm_factuality.cli.actions import Command, examples
from lm_factuality.cli.gen import gen
from lm_factuality.cli.run import run
from lm_factuality.ground.errors import exit_code
from lm_factuality.ground.packages import require_engine
from lm_factuality.ground.secrets import refuse_secrets

_NAMES = (
    "quickstart run ls data validate gen compare report leaderboard export judge score verify claims certify people page cite "
    "knowledge retrieve index completion"
)
COMMANDS: tuple[Command, ...] = tuple(import_module(f"lm_factuality.cli.{name}").COMMAND for name in _NAMES.split())
"""In the order of the help, each in a module of its name."""


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser with all commands; of these ``chosen`` alone has its options if it is given, since some take time to make."""
    parser = argparse.ArgumentParser(
        prog="lm-factuality",
        description="Measures how factual language models are, with lm-evaluation-harness.",
        epilog=examples("all"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lm-factuality {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(subparsers, has_options=chosen in (None, command.name))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv``; returns the exit code."""
    return exit_code("lm-factuality", lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def _run(arguments: Sequence[str]) -> int:
    require_engine()
    refuse_secrets(arguments)
    if arguments[:1] == ["run"]:  # lm_eval parses what follows, --help included
        return run(arguments[1:])
    if arguments[:1] == ["gen"]:  # and factor-gen what follows here
        return gen(arguments[1:])
    parsed = build_parser(arguments[0] if arguments else "").parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    import lm_factuality.benchmarks  # noqa: F401  makes the benchmarks' prompts known to judges

    code: int = parsed.function(parsed)
    return code
